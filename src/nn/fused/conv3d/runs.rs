//! The two inner loops of the convolution, over runs of cells that lie side by side in memory.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

/// Runs are multiples of this; cells taken at once divide it.
pub const LANES: usize = 64;

/// One multiplication and one addition, as one instruction where there is one.
#[inline(always)]
fn add_product<const ONE: bool>(sum: f32, one: f32, other: f32) -> f32 {
    if ONE {
        one.mul_add(other, sum)
    } else {
        one * other + sum
    }
}

/// For `B` channels at once: `output[channel][cell] = Σ weights[tap][channel] · frames[taps[tap] + cell]`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn gather<const B: usize>(frames: &[f32], taps: &[usize], weights: &[f32], output: &mut [f32]) {
    let wide = target_cfg_f!(target_feature = "avx512f");
    let one_step = target_cfg_f!(any(
        target_feature = "avx512f",
        target_feature = "fma",
        target_arch = "aarch64"
    ));
    // As many sums as stay in registers.
    match (B, wide, one_step) {
        (1, _, true) => gather_by::<true, B, 64>(frames, taps, weights, output),
        (_, true, _) => gather_by::<true, B, 32>(frames, taps, weights, output),
        (_, _, true) => gather_by::<true, B, 16>(frames, taps, weights, output),
        _ => gather_by::<false, B, 8>(frames, taps, weights, output),
    }
}

#[inline(always)]
fn gather_by<const ONE: bool, const B: usize, const N: usize>(
    frames: &[f32],
    taps: &[usize],
    weights: &[f32],
    output: &mut [f32],
) {
    let length = output.len() / B;
    for start in (0..length).step_by(N) {
        let mut sums = [[0f32; N]; B];
        for (tap, weights) in taps.iter().zip(weights.chunks_exact(B)) {
            let cells = &frames[tap + start..][..N];
            for (sums, weight) in sums.iter_mut().zip(weights) {
                for (sum, cell) in sums.iter_mut().zip(cells) {
                    *sum = add_product::<ONE>(*sum, *weight, *cell);
                }
            }
        }
        for (channel, sums) in sums.iter().enumerate() {
            output[channel * length + start..][..N].copy_from_slice(sums);
        }
    }
}

/// Runs of several channels in frames.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a, const B: usize> {
    /// The frames.
    pub frames: &'a [f32],
    /// Where the run of each channel starts.
    pub channels: [usize; B],
}

/// The inner products of the runs of `B` channels with those of `B` others, summed over pairs of planes, of which each
/// stands so much further on.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn correlate<const B: usize>(
    one: Runs<B>,
    other: Runs<B>,
    planes: &[[usize; 2]],
    length: usize,
) -> [[f32; B]; B] {
    let wide = target_cfg_f!(target_feature = "avx512f");
    let one_step = target_cfg_f!(any(
        target_feature = "avx512f",
        target_feature = "fma",
        target_arch = "aarch64"
    ));
    match (B, wide, one_step) {
        (1, _, true) => correlate_by::<true, B, 1, 64>(one, other, planes, length),
        (_, true, _) => correlate_by::<true, B, B, 16>(one, other, planes, length),
        (_, _, true) => correlate_by::<true, B, 1, 16>(one, other, planes, length),
        _ => correlate_by::<false, B, 1, 8>(one, other, planes, length),
    }
}

/// `R` channels at a time.
#[inline(always)]
fn correlate_by<const ONE: bool, const B: usize, const R: usize, const N: usize>(
    one: Runs<B>,
    other: Runs<B>,
    planes: &[[usize; 2]],
    length: usize,
) -> [[f32; B]; B] {
    let mut sums = [[0f32; B]; B];
    for first in (0..B).step_by(R) {
        let mut lanes = [[[0f32; N]; B]; R];
        for [own, beside] in planes {
            for start in (0..length).step_by(N) {
                for (lanes, place) in lanes.iter_mut().zip(&one.channels[first..]) {
                    let one = &one.frames[place + own + start..][..N];
                    for (lanes, place) in lanes.iter_mut().zip(&other.channels) {
                        let other = &other.frames[place + beside + start..][..N];
                        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
                            *lane = add_product::<ONE>(*lane, *one, *other);
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
