//! The output of a transformer, with the mapping from pieces to rows of the tensor.

use burn::tensor::Tensor;

use crate::encoder::batching::starts;

/// Hidden states of the pieces of a batch, packed or padded. Callers identify a piece by its index among the packed pieces or
/// by row and column, and get the row of the tensor.
#[derive(Debug, Clone)]
pub struct PieceStates {
    /// One state per prompt vector, piece and, on devices that need it, padding: `[states, width]`.
    pub states: Tensor<2>,
    /// Row of `states` for each packed piece.
    indices: Vec<usize>,
    /// Packed index of each row's first piece.
    starts: Vec<usize>,
    /// Number of prompt vectors before each row.
    prompts: usize,
}

impl PieceStates {
    /// States of rows with `lengths` pieces. Each row has its prompts and pieces one after the other in `states`, from
    /// `row_starts` on.
    pub(super) fn new(
        states: Tensor<2>,
        lengths: &[usize],
        row_starts: Vec<usize>,
        prompts: usize,
    ) -> Self {
        let rows = row_starts.into_iter().zip(lengths);
        Self {
            states,
            indices: rows
                .flat_map(|(start, length)| start + prompts..start + prompts + length)
                .collect(),
            starts: starts(lengths),
            prompts,
        }
    }

    /// Row of `states` for a packed piece.
    pub fn index(&self, packed: usize) -> usize {
        self.indices[packed]
    }

    /// Row of `states` for a piece, given by row and column.
    pub fn piece(&self, row: usize, column: usize) -> usize {
        self.index(self.starts[row] + column)
    }

    /// Row of `states` for a prompt vector of a row.
    pub fn prompt(&self, row: usize, number: usize) -> usize {
        self.piece(row, 0) - self.prompts + number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn pieces_are_found_in_packed_and_padded_states() {
        let states = Tensor::<2>::zeros([10, 1], &Device::flex());
        let packed = PieceStates::new(states.clone(), &[2, 3], vec![0, 3], 1);
        let padded = PieceStates::new(states, &[2, 3], vec![0, 4], 1);
        for (states, expected) in [(packed, [1, 2, 4, 5, 6]), (padded, [1, 2, 5, 6, 7])] {
            assert_eq!([0, 1, 2, 3, 4].map(|index| states.index(index)), expected);
            assert_eq!(states.piece(1, 2), states.index(4));
            assert_eq!(states.prompt(1, 0) + 1, states.piece(1, 0));
        }
    }
}
