//! The kernels for AVX2, with and without its integer dot product: tiles of six rows and 16 columns, 12 of the 16 registers
//! as sums.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cvtepi8_epi16,
    _mm256_dpbusd_avx_epi32, _mm256_extracti128_si256, _mm256_load_si256, _mm256_madd_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
};

use super::{Epilogue, TILE_ROWS, define_multiply, finish_tile, widen};
use crate::nn::fused::int8::QuantizedRows;
use crate::nn::fused::int8::packed::{BLOCK_COLUMNS, Block, PackedWeight};

/// Columns of a panel.
pub(super) const COLUMNS: usize = BLOCK_COLUMNS;

define_multiply!(
    /// `rows · weight + bias` through an epilogue into `output`, for blocks in the order of pairs.
    #[target_feature(enable = "avx2")]
    multiply_pairs, i16, tile_of_pairs, COLUMNS
);

define_multiply!(
    /// `rows · weight + bias` through an epilogue into `output`, for blocks in the order of quads.
    #[target_feature(enable = "avx2,avxvnni")]
    multiply_quads, u8, tile_of_quads, COLUMNS
);

/// `rows · weight + bias` through an epilogue into `output`.
#[target_feature(enable = "avx2")]
pub(super) fn multiply<E: Epilogue>(
    rows: &QuantizedRows,
    weight: &PackedWeight,
    epilogue: &E,
    output: &mut [f32],
) {
    multiply_pairs(rows, &widen(rows), weight, epilogue, output);
}

/// [`multiply`] with the integer dot product.
#[target_feature(enable = "avx2,avxvnni")]
pub(super) fn multiply_vnni<E: Epilogue>(
    rows: &QuantizedRows,
    weight: &PackedWeight,
    epilogue: &E,
    output: &mut [f32],
) {
    multiply_quads(rows, rows.quads(), weight, epilogue, output);
}

/// The sums of `R` rows and the columns of a panel.
#[target_feature(enable = "avx2")]
fn tile_of_pairs<const R: usize>(
    rows: &[[i16; 4]],
    panel: &[Block],
    output: &mut [[i32; COLUMNS]; TILE_ROWS],
) {
    let steps = panel.len();
    let rows: [&[[i16; 4]]; R] = std::array::from_fn(|row| &rows[row * steps..][..steps]);
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for step in 0..steps {
        let halves = load(&panel[step]);
        for (pair, half) in halves.into_iter().enumerate() {
            let weights = [
                _mm256_cvtepi8_epi16(_mm256_castsi256_si128(half)),
                _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(half)),
            ];
            for row in 0..R {
                let value = _mm256_set1_epi32(pair_of(rows[row][step], pair));
                for vector in 0..2 {
                    let product = _mm256_madd_epi16(value, weights[vector]);
                    sums[row][vector] = _mm256_add_epi32(sums[row][vector], product);
                }
            }
        }
    }
    store(&sums, output);
}

/// The first or second two of four values, as one integer.
#[inline(always)]
fn pair_of(values: [i16; 4], pair: usize) -> i32 {
    let [low, high] = [values[2 * pair], values[2 * pair + 1]];
    i32::from(low as u16) | i32::from(high as u16) << 16
}

/// Defines the kernel for blocks in the order of quads from the dot product of its instruction set.
macro_rules! define_tile_of_quads {
    ($name:ident, $features:literal, $dot_product:ident) => {
        /// The sums of `R` rows and the columns of a panel.
        #[target_feature(enable = $features)]
        fn $name<const R: usize>(
            rows: &[[u8; 4]],
            panel: &[Block],
            output: &mut [[i32; COLUMNS]; TILE_ROWS],
        ) {
            let steps = panel.len();
            let rows: [&[[u8; 4]]; R] = std::array::from_fn(|row| &rows[row * steps..][..steps]);
            let mut sums = [[_mm256_setzero_si256(); 2]; R];
            for step in 0..steps {
                let weights = load(&panel[step]);
                for row in 0..R {
                    let value = _mm256_set1_epi32(i32::from_le_bytes(rows[row][step]));
                    for vector in 0..2 {
                        let sum = &mut sums[row][vector];
                        *sum = $dot_product(*sum, value, weights[vector]);
                    }
                }
            }
            store(&sums, output);
        }
    };
}

define_tile_of_quads!(tile_of_quads, "avx2,avxvnni", _mm256_dpbusd_avx_epi32);

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> [__m256i; 2] {
    let (halves, _) = block.0.as_chunks::<32>();
    // SAFETY: each half of a block is 32 bytes, aligned to 32.
    #[allow(unsafe_code)]
    [0, 1].map(|half: usize| unsafe { _mm256_load_si256(halves[half].as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(sums: &[[__m256i; 2]], output: &mut [[i32; COLUMNS]; TILE_ROWS]) {
    for (sums, output) in sums.iter().zip(output) {
        let (output, _) = output.as_chunks_mut::<8>();
        for (sum, output) in sums.iter().zip(output) {
            // SAFETY: the output is 32 bytes.
            #[allow(unsafe_code)]
            unsafe {
                _mm256_storeu_si256(output.as_mut_ptr().cast(), *sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::x86_64::_mm256_dpbusd_epi32;

    define_tile_of_quads!(
        tile_with_avx512,
        "avx2,avx512vl,avx512vnni",
        _mm256_dpbusd_epi32
    );

    /// AVX-VNNI is tested with the same instruction of AVX-512 on CPUs which have only that one.
    #[test]
    fn tiles_of_quads_have_exact_sums() {
        if !is_x86_feature_detected!("avx512vl") || !is_x86_feature_detected!("avx512vnni") {
            return;
        }
        let steps = 37;
        let values =
            |row: usize, step: usize, depth: usize| (row * 83 + step * 31 + depth * 7) as u8;
        let weights = |step: usize, index: usize| (step * 53 + index * 17) as u8 as i8;
        let rows: Vec<[u8; 4]> = (0..TILE_ROWS * steps)
            .map(|i| std::array::from_fn(|depth| values(i / steps, i % steps, depth)))
            .collect();
        let panel: Vec<Block> = (0..steps)
            .map(|step| Block(std::array::from_fn(|index| weights(step, index))))
            .collect();
        let mut sums = [[0; COLUMNS]; TILE_ROWS];
        // SAFETY: the features have been detected.
        #[allow(unsafe_code)]
        unsafe {
            tile_with_avx512::<TILE_ROWS>(&rows, &panel, &mut sums);
        }
        for (row, sums) in sums.iter().enumerate() {
            for (column, sum) in sums.iter().enumerate() {
                let term = |i: usize| {
                    let value = values(row, i / 4, i % 4);
                    i32::from(value) * i32::from(weights(i / 4, column * 4 + i % 4))
                };
                assert_eq!(*sum, (0..4 * steps).map(term).sum::<i32>());
            }
        }
    }
}
