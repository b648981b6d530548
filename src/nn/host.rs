//! Reading tensors back from a device as plain values, in one transfer each.

use std::cell::Cell;

use burn::tensor::{DType, Int, Tensor};

thread_local! {
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// The number of times this thread has waited for a device to return values. Each such read makes a GPU finish all
/// queued work.
pub fn reads() -> usize {
    READS.get()
}

/// All values of a float tensor in row-major order.
pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<f32>()
        .try_into_vec()
        .expect("converted to f32")
}

/// All values of an integer tensor in row-major order.
pub fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<i32>()
        .try_into_vec()
        .expect("converted to i32")
}

/// A tensor on the host: its shape and its values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct HostArray {
    /// The size of each dimension.
    pub shape: Vec<usize>,
    /// As many values as the product of the sizes.
    pub values: Vec<f32>,
}

impl HostArray {
    /// An array of zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        Self {
            shape: shape.to_vec(),
            values: vec![0.0; shape.iter().product()],
        }
    }

    /// `[rows, columns, 1, ...]` as `[columns, rows]`; an array of another shape as it is.
    pub fn transposed(self) -> Self {
        let rows = self.shape.first().copied().unwrap_or(0);
        let columns = self.shape.get(1).copied().unwrap_or(1);
        if rows == 0 || rows.checked_mul(columns) != Some(self.values.len()) {
            return self;
        }
        let values = (0..rows * columns)
            .map(|index| self.values[(index % rows) * columns + index / rows])
            .collect();
        Self {
            shape: vec![columns, rows],
            values,
        }
    }

    /// The given rows of `[rows, ...]`, in their order. Rows that are not there are left out.
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        let width = self.shape.iter().skip(1).product::<usize>();
        let found = rows
            .iter()
            .filter_map(|row| self.values.get(row * width..(row + 1) * width));
        let values: Vec<f32> = found.flatten().copied().collect();
        let mut shape = self.shape.clone();
        if let Some(count) = shape.first_mut() {
            *count = values.len().checked_div(width).unwrap_or(0);
        }
        Self { shape, values }
    }
}

/// The index of the largest value of a row; the first of equal maxima, 0 for an empty row.
pub fn argmax(row: &[f32]) -> usize {
    (1..row.len()).fold(
        0,
        |best, index| if row[index] > row[best] { index } else { best },
    )
}

/// Turns the scores of a row into probabilities.
pub fn softmax(row: &mut [f32]) {
    let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in row.iter_mut() {
        *score = (*score - highest).exp();
        sum += *score;
    }
    row.iter_mut().for_each(|score| *score /= sum);
}

/// Whether all floats of these little-endian bytes are numbers: the exponent of NaN and infinity is all ones.
pub fn are_finite(bytes: &[u8], kind: DType) -> bool {
    let all16 = |mask: u16| {
        let values = bytes.chunks_exact(2);
        !values.fold(false, |found, value| {
            found | (u16::from_le_bytes([value[0], value[1]]) & mask == mask)
        })
    };
    match kind {
        DType::F32 => !bytes.chunks_exact(4).fold(false, |found, value| {
            let bits = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
            found | (bits & 0x7f80_0000 == 0x7f80_0000)
        }),
        DType::F16 => all16(0x7c00),
        DType::BF16 => all16(0x7f80),
        DType::F64 => bytes.chunks_exact(8).all(|value| {
            value
                .try_into()
                .is_ok_and(|value| f64::from_le_bytes(value).is_finite())
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argmax_is_the_first_of_equal_maxima() {
        assert_eq!(argmax(&[]), 0);
        assert_eq!(argmax(&[-1.0]), 0);
        assert_eq!(argmax(&[0.5, 2.0, -3.0, 2.0]), 1);
    }

    #[test]
    fn softmax_gives_probabilities_without_overflow() {
        let mut row = [1000.0, 1000.0 + 3f32.ln(), -1000.0];
        softmax(&mut row);
        assert!((row[0] - 0.25).abs() < 1e-4 && (row[1] - 0.75).abs() < 1e-4);
        assert_eq!(row[2], 0.0);
        softmax(&mut []);
    }
}
