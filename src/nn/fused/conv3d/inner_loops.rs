//! The two inner loops of the convolution, over contiguous memory.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

/// The length of padded output planes is a multiple of this; the number of cells a loop takes at once divides it.
pub const LANES: usize = 64;

/// `sum + left · right`, as one fused instruction with `FMA`.
#[inline(always)]
fn add_product<const FMA: bool>(sum: f32, left: f32, right: f32) -> f32 {
    if FMA {
        left.mul_add(right, sum)
    } else {
        left * right + sum
    }
}

/// The convolution of `B` output channels at once:
/// `output[channel][cell] = Σ weights[tap][channel] · padded[taps[tap] + cell]` over all taps.
///
/// # Shapes
/// - weights: `[taps, B]`
/// - output: `[B, cells]`
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn convolve_taps<const B: usize>(
    padded: &[f32],
    taps: &[usize],
    weights: &[f32],
    output: &mut [f32],
) {
    let has_avx512 = target_cfg_f!(target_feature = "avx512f");
    let has_fma = target_cfg_f!(any(
        target_feature = "avx512f",
        target_feature = "fma",
        target_arch = "aarch64"
    ));
    // As many cells as leave all sums in registers.
    match (B, has_avx512, has_fma) {
        (1, _, true) => convolve_taps_by::<true, B, 64>(padded, taps, weights, output),
        (_, true, _) => convolve_taps_by::<true, B, 32>(padded, taps, weights, output),
        (_, _, true) => convolve_taps_by::<true, B, 16>(padded, taps, weights, output),
        _ => convolve_taps_by::<false, B, 8>(padded, taps, weights, output),
    }
}

/// `N` cells at a time.
#[inline(always)]
fn convolve_taps_by<const FMA: bool, const B: usize, const N: usize>(
    padded: &[f32],
    taps: &[usize],
    weights: &[f32],
    output: &mut [f32],
) {
    let length = output.len() / B;
    for start in (0..length).step_by(N) {
        let mut sums = [[0f32; N]; B];
        for (tap, weights) in taps.iter().zip(weights.chunks_exact(B)) {
            let cells = &padded[tap + start..][..N];
            for (sums, weight) in sums.iter_mut().zip(weights) {
                for (sum, cell) in sums.iter_mut().zip(cells) {
                    *sum = add_product::<FMA>(*sum, *weight, *cell);
                }
            }
        }
        for (channel, sums) in sums.iter().enumerate() {
            output[channel * length + start..][..N].copy_from_slice(sums);
        }
    }
}

/// Several channels of padded planes.
#[derive(Debug, Clone, Copy)]
pub struct PaddedChannels<'a, const B: usize> {
    /// Padded planes of all channels.
    pub padded: &'a [f32],
    /// Index of the first cell to read of each channel's first plane.
    pub starts: [usize; B],
}

/// The inner product of each channel of `left` with each channel of `right`: `[B, B]`. It is summed over pairs of planes,
/// given as offsets from the channels' first planes, and over `length` cells of each plane.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn correlate<const B: usize>(
    left: PaddedChannels<B>,
    right: PaddedChannels<B>,
    planes: &[[usize; 2]],
    length: usize,
) -> [[f32; B]; B] {
    let has_avx512 = target_cfg_f!(target_feature = "avx512f");
    let has_fma = target_cfg_f!(any(
        target_feature = "avx512f",
        target_feature = "fma",
        target_arch = "aarch64"
    ));
    match (B, has_avx512, has_fma) {
        (1, _, true) => correlate_by::<true, B, 1, 64>(left, right, planes, length),
        (_, true, _) => correlate_by::<true, B, B, 16>(left, right, planes, length),
        (_, _, true) => correlate_by::<true, B, 1, 16>(left, right, planes, length),
        _ => correlate_by::<false, B, 1, 8>(left, right, planes, length),
    }
}

/// `R` channels of `left` and `N` cells at a time.
#[inline(always)]
fn correlate_by<const FMA: bool, const B: usize, const R: usize, const N: usize>(
    left: PaddedChannels<B>,
    right: PaddedChannels<B>,
    planes: &[[usize; 2]],
    length: usize,
) -> [[f32; B]; B] {
    let mut sums = [[0f32; B]; B];
    for first in (0..B).step_by(R) {
        let mut lanes = [[[0f32; N]; B]; R];
        for [left_plane, right_plane] in planes {
            for start in (0..length).step_by(N) {
                for (lanes, channel) in lanes.iter_mut().zip(&left.starts[first..]) {
                    let left = &left.padded[channel + left_plane + start..][..N];
                    for (lanes, channel) in lanes.iter_mut().zip(&right.starts) {
                        let right = &right.padded[channel + right_plane + start..][..N];
                        for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
                            *lane = add_product::<FMA>(*lane, *left, *right);
                        }
                    }
                }
            }
        }
        for (sums, lanes) in sums[first..].iter_mut().zip(&lanes) {
            for (sum, lanes) in sums.iter_mut().zip(lanes) {
                *sum = lanes.iter().sum();
            }
        }
    }
    sums
}
