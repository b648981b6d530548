//! The kernel for AVX-512 with VNNI: tiles of six rows and 64 columns, 24 of the 32 registers as sums.

use std::arch::x86_64::{
    __m512i, _mm512_dpbusd_epi32, _mm512_load_si512, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_storeu_si512,
};

use super::{Epilogue, TILE_ROWS, define_multiply, finish_tile};
use crate::nn::fused::int8::QuantizedRows;
use crate::nn::fused::int8::packed::{BLOCK_COLUMNS, Block, PackedWeight};

/// Columns of a panel.
pub(super) const COLUMNS: usize = VECTORS * BLOCK_COLUMNS;

/// Blocks, each a vector, next to each other in a panel.
const VECTORS: usize = 4;

define_multiply!(
    /// `rows · weight + bias` through an epilogue into `output`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    multiply_values, u8, tile, COLUMNS
);

/// `rows · weight + bias` through an epilogue into `output`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn multiply<E: Epilogue>(
    rows: &QuantizedRows,
    weight: &PackedWeight,
    epilogue: &E,
    output: &mut [f32],
) {
    multiply_values(rows, rows.quads(), weight, epilogue, output);
}

/// The sums of `R` rows and the columns of a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tile<const R: usize>(
    rows: &[[u8; 4]],
    panel: &[Block],
    output: &mut [[i32; COLUMNS]; TILE_ROWS],
) {
    let (panel, _) = panel.as_chunks::<VECTORS>();
    let steps = panel.len();
    let rows: [&[[u8; 4]]; R] = std::array::from_fn(|row| &rows[row * steps..][..steps]);
    let mut sums = [[_mm512_setzero_si512(); VECTORS]; R];
    for step in 0..steps {
        let weights = panel[step].each_ref().map(|block| load(block));
        for row in 0..R {
            let value = _mm512_set1_epi32(i32::from_le_bytes(rows[row][step]));
            for vector in 0..VECTORS {
                let sum = &mut sums[row][vector];
                *sum = _mm512_dpbusd_epi32(*sum, value, weights[vector]);
            }
        }
    }
    for (sums, output) in sums.iter().zip(output) {
        let (output, _) = output.as_chunks_mut::<BLOCK_COLUMNS>();
        for (sum, output) in sums.iter().zip(output) {
            store(*sum, output);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &Block) -> __m512i {
    // SAFETY: a block is 64 bytes, aligned to 64.
    #[allow(unsafe_code)]
    unsafe {
        _mm512_load_si512(block.0.as_ptr().cast())
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(sums: __m512i, output: &mut [i32; BLOCK_COLUMNS]) {
    // SAFETY: the output is 64 bytes.
    #[allow(unsafe_code)]
    unsafe {
        _mm512_storeu_si512(output.as_mut_ptr().cast(), sums);
    }
}
