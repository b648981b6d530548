//! Weights in the order in which a kernel reads them, packed once when a model is loaded.

use rayon::prelude::*;

use super::kernel::Isa;
use super::{QuantizeError, QuantizedWeight};

/// Rows of the matrix in a block.
pub const BLOCK_DEPTH: usize = 4;

/// Columns of the matrix in a block.
pub const BLOCK_COLUMNS: usize = 16;

/// A block of four rows and sixteen columns, in one cache line. The order within depends on the instruction set.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Block(pub [i8; BLOCK_DEPTH * BLOCK_COLUMNS]);

/// The order of the values of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOrder {
    /// For each column its four values.
    Quads,
    /// For the first two rows and for the last two: for each column its two values.
    Pairs,
    /// For each row its sixteen values.
    Rows,
}

impl BlockOrder {
    fn index(self, depth: usize, column: usize) -> usize {
        match self {
            Self::Quads => column * BLOCK_DEPTH + depth,
            Self::Pairs => depth / 2 * (2 * BLOCK_COLUMNS) + column * 2 + depth % 2,
            Self::Rows => depth * BLOCK_COLUMNS + column,
        }
    }
}

/// A weight matrix in panels of as many columns as a kernel computes at once, with what it needs for each column.
///
/// A panel holds its blocks from the first rows of the matrix to the last, those of the same rows from left to right.
/// Rows are padded to a multiple of four and columns to whole panels, with zeros.
///
/// # Shapes
/// - column_sums, scales, bias: `[panels · columns of a panel]`
#[derive(Debug, Clone)]
pub struct PackedWeight {
    isa: Isa,
    blocks: Vec<Block>,
    column_sums: Vec<i32>,
    scales: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl PackedWeight {
    /// Packs a matrix and its bias for an instruction set.
    ///
    /// # Panics
    /// If this CPU does not have the instruction set.
    pub fn new(weight: &QuantizedWeight, bias: &[f32], isa: Isa) -> Result<Self, QuantizeError> {
        assert!(isa.is_available());
        let (inputs, outputs) = (weight.inputs(), weight.outputs());
        if bias.len() != outputs {
            return Err(QuantizeError::Bias {
                found: bias.len(),
                outputs,
            });
        }
        let (order, columns) = isa.layout();
        let padded = outputs.next_multiple_of(columns);
        let steps = inputs.div_ceil(BLOCK_DEPTH);
        let blocks_of_step = columns / BLOCK_COLUMNS;
        let empty = Block([0; BLOCK_DEPTH * BLOCK_COLUMNS]);
        let mut blocks = vec![empty; padded / columns * steps * blocks_of_step];
        blocks
            .par_chunks_mut(steps * blocks_of_step)
            .enumerate()
            .for_each(|(panel, blocks)| {
                for (index, block) in blocks.iter_mut().enumerate() {
                    let first_row = index / blocks_of_step * BLOCK_DEPTH;
                    let first_column = panel * columns + index % blocks_of_step * BLOCK_COLUMNS;
                    fill(block, weight, [first_row, first_column], order);
                }
            });
        let mut column_sums = vec![0i32; padded];
        for row in weight.values().chunks_exact(outputs) {
            for (sum, value) in column_sums.iter_mut().zip(row) {
                *sum += i32::from(*value);
            }
        }
        let padded_with_zeros = |values: &[f32]| {
            let mut values = values.to_vec();
            values.resize(padded, 0.0);
            values
        };
        Ok(Self {
            isa,
            blocks,
            column_sums,
            scales: padded_with_zeros(weight.scales()),
            bias: padded_with_zeros(bias),
            inputs,
            outputs,
        })
    }

    /// The instruction set for which the matrix is packed.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The number of rows of the matrix.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The number of columns of the matrix.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Four-row steps of a panel.
    pub(super) fn steps(&self) -> usize {
        self.inputs.div_ceil(BLOCK_DEPTH)
    }

    /// The panels from left to right.
    pub(super) fn panels(&self) -> impl Iterator<Item = &[Block]> {
        let (_, columns) = self.isa.layout();
        self.blocks
            .chunks_exact(self.steps() * (columns / BLOCK_COLUMNS))
    }

    /// What belongs to the columns of a panel of `N`.
    pub(super) fn columns<const N: usize>(&self, panel: usize) -> Columns<'_, N> {
        let first = panel * N;
        Columns {
            sums: array(&self.column_sums, first),
            scales: array(&self.scales, first),
            bias: array(&self.bias, first),
            first,
            count: N.min(self.outputs - first),
        }
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        size_of_val(self.blocks.as_slice())
            + self.bias.len() * (size_of::<i32>() + 2 * size_of::<f32>())
    }
}

/// The columns of a panel.
pub(super) struct Columns<'a, const N: usize> {
    /// The sum of each column's values.
    pub(super) sums: &'a [i32; N],
    /// The scale of each column.
    pub(super) scales: &'a [f32; N],
    /// The bias of each column.
    pub(super) bias: &'a [f32; N],
    /// Index of the first column.
    pub(super) first: usize,
    /// How many columns are not padding.
    pub(super) count: usize,
}

fn array<T, const N: usize>(values: &[T], first: usize) -> &[T; N] {
    values[first..]
        .first_chunk()
        .expect("padded to whole panels")
}

/// Fills a block from the part of a matrix at this row and column; what lies outside stays 0.
fn fill(block: &mut Block, weight: &QuantizedWeight, first: [usize; 2], order: BlockOrder) {
    let [first_row, first_column] = first;
    let outputs = weight.outputs();
    if first_column >= outputs {
        return;
    }
    let last_column = (first_column + BLOCK_COLUMNS).min(outputs);
    let rows = weight.values().chunks_exact(outputs).skip(first_row);
    for (depth, row) in rows.take(BLOCK_DEPTH).enumerate() {
        for (column, value) in row[first_column..last_column].iter().enumerate() {
            block.0[order.index(depth, column)] = *value;
        }
    }
}
