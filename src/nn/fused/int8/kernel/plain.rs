//! The kernel for any CPU: loops over fixed numbers of values, which the compiler vectorises.

use super::{Epilogue, TILE_ROWS, define_multiply, finish_tile, widen};
use crate::nn::fused::int8::QuantizedRows;
use crate::nn::fused::int8::packed::{BLOCK_COLUMNS, Block, PackedWeight};

/// Columns of a panel.
pub(super) const COLUMNS: usize = BLOCK_COLUMNS;

define_multiply!(
    /// `rows · weight + bias` through an epilogue into `output`.
    multiply_values, i16, tile, COLUMNS
);

/// `rows · weight + bias` through an epilogue into `output`.
pub(super) fn multiply<E: Epilogue>(
    rows: &QuantizedRows,
    weight: &PackedWeight,
    epilogue: &E,
    output: &mut [f32],
) {
    multiply_values(rows, &widen(rows), weight, epilogue, output);
}

/// The sums of `R` rows and the columns of a panel.
fn tile<const R: usize>(
    rows: &[[i16; 4]],
    panel: &[Block],
    output: &mut [[i32; COLUMNS]; TILE_ROWS],
) {
    let steps = panel.len();
    let rows: [&[[i16; 4]]; R] = std::array::from_fn(|row| &rows[row * steps..][..steps]);
    let mut sums = [[0i32; COLUMNS]; R];
    for step in 0..steps {
        let (weights, _) = panel[step].0.as_chunks::<COLUMNS>();
        for (depth, weights) in weights.iter().enumerate() {
            let weights = weights.map(i16::from);
            for row in 0..R {
                let value = rows[row][step][depth];
                for column in 0..COLUMNS {
                    let product = i32::from(value) * i32::from(weights[column]);
                    sums[row][column] = sums[row][column].wrapping_add(product);
                }
            }
        }
    }
    output[..R].copy_from_slice(&sums);
}
