//! A dilated 3-D convolution followed by GELU, for grids of few channels: kernel size 3, "same" padding, as many output
//! as input channels.
//!
//! A grid has planes of words × words cells. Every plane is copied into a padded plane of zeros. There, the distance from
//! an output cell to each of its taps (the input cells it is computed from) is the same for all cells, so that one weight
//! contributes to a whole plane by one pass over contiguous memory.
//!
//! # Coordinate systems
//! For 3 words and a dilation of 2 rows and 2 columns:
//!
//! ```text
//! input plane       padded plane                   padded output plane
//! [words, words]    row_stride = 3 + 2·2 = 7       row_stride 7
//!
//!                      0  1  2  3  4  5  6            0  1  2  3  4  5  6
//!                   0  .  .  .  .  .  .  .         0  x  x  x  -  -  -  -
//!                   1 [.] . [.] . [.] .  .         1 [x] x  x  -  -  -  -
//!    a  b  c        2  .  .  a  b  c  .  .         2  x  x  x  -  -  -  -
//!    d  e  f        3 [.] . [d] e [f] .  .
//!    g  h  i        4  .  .  g  h  i  .  .
//!                   5 [.] . [.] . [.] .  .
//!                   6  .  .  .  .  .  .  .
//!                   then zeros
//!
//! .    0, the padding: 2 columns left and right, 2 rows above and below
//! x    output cell (row, column) at index row · row_stride + column, kept
//! -    computed by the same pass but no cell of the output, discarded
//! [ ]  output cell (1, 0) and its 9 taps; the central one is the input cell (1, 0), d
//!
//! origin = 2 · 7 + 2 = 16                                    index of cell (0, 0), a, in the padded plane
//! tap_offset(kr, kc) = kr · 2 · 7 + kc · 2,   kr, kc in 0..3   tap's index - output cell's index
//! ```
//!
//! The central tap offset is the origin. Across planes, output plane `p` reads the input planes `p + (kp - 1) · dilation`
//! for the kernel planes `kp` in 0..3; planes outside the grid are skipped, so planes need no padding.

mod geometry;
mod inner_loops;

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use self::inner_loops::{PaddedChannels, convolve_taps, correlate};
use super::math;
use super::{Kernel, apply};

/// Size of the convolution's kernel in each dimension.
const KERNEL_SIZE: usize = 3;

/// Weights of one plane of the kernel, and input cells of one plane that an output cell depends on.
const TAPS: usize = KERNEL_SIZE * KERNEL_SIZE;

/// Maximum number of output channels computed together.
const MAX_BLOCK: usize = 6;

/// A dilated 3-D convolution with bias, followed by GELU.
///
/// With `k = (kp, kr, kc)` running over the 27 positions of the kernel, `d` the dilation, `x` the grid with cells beyond
/// a sentence's length set to 0, and `x[i, n + (k - 1)·d]` 0 outside the grid:
///
/// ```text
/// forward:   s[o, n] = b[o] + Σ i, k  W[o, i, k] · x[i, n + (k - 1)·d]
///            y = gelu(s)
/// backward:  ds = gelu′(s) ⊙ dy
///            dx[i, n] = Σ o, k  W[o, i, 2 - k] · ds[o, n + (k - 1)·d],   0 beyond the sentence's length
///            dW[o, i, k] = Σ sentences, n  ds[o, n] · x[i, n + (k - 1)·d]
///            db[o] = Σ sentences, n  ds[o, n]
/// ```
///
/// `dx` is a convolution of `ds` with the flipped kernel. In a depthwise convolution output channel `o` depends on input
/// channel `i = o` alone.
///
/// # Shapes
/// - x, s, y: `[batch, channels, planes, words, words]`
/// - W: `[channels, channels, 3, 3, 3]`, depthwise `[channels, 1, 3, 3, 3]`
/// - b: `[channels]`
#[derive(Debug, Clone)]
pub struct Conv3dGelu {
    /// Input channels, and output channels.
    pub channels: usize,
    /// Whether each output channel depends on the same input channel alone.
    pub depthwise: bool,
    /// Planes of a channel.
    pub planes: usize,
    /// Rows, and columns, of a plane.
    pub words: usize,
    /// Distance between taps in planes, rows and columns.
    pub dilation: [usize; 3],
    /// Length of each sentence; cells in rows or columns beyond it count as 0. `None` if every sentence has `words`
    /// words.
    pub lengths: Option<Arc<Vec<usize>>>,
}

impl Conv3dGelu {
    /// Applies the convolution and GELU.
    ///
    /// # Shapes
    /// - grid: `[batch, channels, planes, words, words]`
    /// - weight: `[channels, channels, 3, 3, 3]`, depthwise `[channels, 1, 3, 3, 3]`
    /// - bias: `[channels]`
    /// - output: `[batch, channels, planes, words, words]`
    pub fn forward(self, grid: Tensor<5>, weight: Tensor<5>, bias: Tensor<1>) -> Tensor<5> {
        let shape = grid.dims();
        apply(self, [grid.into(), weight.into(), bias.into()], shape)
    }

    /// Input channels that one output channel depends on.
    fn group_channels(&self) -> usize {
        if self.depthwise { 1 } else { self.channels }
    }

    /// Output channels computed together: the block size that leaves the fewest unused.
    fn block(&self) -> usize {
        if self.depthwise {
            1
        } else if self.channels <= MAX_BLOCK {
            self.channels
        } else {
            [6, 5, 4]
                .into_iter()
                .min_by_key(|block| self.channels.next_multiple_of(*block))
                .unwrap_or(MAX_BLOCK)
        }
    }

    fn length(&self, sentence: usize) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(self.words, |lengths| lengths[sentence].min(self.words))
    }

    /// The weights of each block of output channels, in the order in which `convolve` reads them. With `flipped`, the
    /// weights of the convolution that computes the gradient of the grid.
    fn pack_weights(&self, weight: &[f32], flipped: bool) -> Vec<Vec<f32>> {
        let first_channels = (0..self.channels).step_by(self.block());
        first_channels
            .map(|first| self.pack_block(weight, first, flipped))
            .collect()
    }

    /// The weights of the output channels from `first` on: [kernel planes, group channels, taps, block]. Channels that
    /// fill up the last block have the weight 0.
    fn pack_block(&self, weight: &[f32], first: usize, flipped: bool) -> Vec<f32> {
        let (group, block) = (self.group_channels(), self.block());
        let kernel_len = KERNEL_SIZE * TAPS;
        let mut packed = Vec::with_capacity(kernel_len * group * block);
        for kernel_plane in 0..KERNEL_SIZE {
            for other in 0..group {
                for tap in 0..TAPS {
                    let position = kernel_plane * TAPS + tap;
                    packed.extend((first..first + block).map(|channel| {
                        if channel >= self.channels {
                            return 0.0;
                        }
                        let (pair, position) = if !flipped {
                            (channel * group + other, position)
                        } else if self.depthwise {
                            (channel, kernel_len - 1 - position)
                        } else {
                            (other * group + channel, kernel_len - 1 - position)
                        };
                        weight[pair * kernel_len + position]
                    }));
                }
            }
        }
        packed
    }

    /// The convolution without bias of the output channels `first..first + B`: `[B, planes, words, words]`.
    fn convolve<const B: usize>(
        &self,
        padded: &[f32],
        weights: &[f32],
        first: usize,
        output: &mut [f32],
    ) {
        let (plane_len, group) = (self.plane_len(), self.group_channels());
        let padded_output_len = self.padded_output_len();
        let first_input = if self.depthwise { first } else { 0 };
        let planes = (0..self.planes).into_par_iter().map(|plane| {
            let input_planes: Vec<_> = self.input_planes(plane).collect();
            let mut taps = Vec::with_capacity(input_planes.len() * group * TAPS);
            for (_, input_plane) in &input_planes {
                for channel in first_input..first_input + group {
                    let start = (channel * self.planes + input_plane) * self.padded_plane_len();
                    taps.extend(self.tap_offsets().map(|offset| start + offset));
                }
            }
            // The plane itself is always among the input planes, and their kernel planes are consecutive.
            let first_weight = input_planes[0].0 * group * TAPS * B;
            let weights = &weights[first_weight..][..taps.len() * B];
            let mut padded_output = vec![0f32; B * padded_output_len];
            convolve_taps::<B>(padded, &taps, weights, &mut padded_output);
            padded_output
        });
        for (plane, padded_output) in planes.collect::<Vec<_>>().into_iter().enumerate() {
            let channels = output.chunks_exact_mut(self.channel_len());
            let padded_channels = padded_output.chunks_exact(padded_output_len);
            for (channel, padded_channel) in channels.zip(padded_channels) {
                let rows = channel[plane * plane_len..][..plane_len].chunks_exact_mut(self.words);
                for (row, padded_row) in rows.zip(padded_channel.chunks(self.row_stride())) {
                    row.copy_from_slice(&padded_row[..self.words]);
                }
            }
        }
    }

    /// The convolution without bias of one sentence, block by block of output channels. `finish` is called with the first
    /// channel and the output of each block.
    fn convolve_sentence(
        &self,
        padded: &[f32],
        packed_weights: &[Vec<f32>],
        output: &mut [f32],
        finish: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let block = self.block();
        output
            .par_chunks_mut(block * self.channel_len())
            .zip(packed_weights)
            .enumerate()
            .for_each(|(index, (output, weights))| {
                let first = index * block;
                let convolve = match block {
                    1 => Self::convolve::<1>,
                    2 => Self::convolve::<2>,
                    3 => Self::convolve::<3>,
                    4 => Self::convolve::<4>,
                    5 => Self::convolve::<5>,
                    _ => Self::convolve::<MAX_BLOCK>,
                };
                convolve(self, padded, weights, first, output);
                finish(first, output);
            });
    }

    /// One sentence's contribution to dW, from its padded planes of x and ds.
    fn weight_gradient(&self, padded_input: &[f32], padded_gradient: &[f32]) -> Vec<f32> {
        let correlate_channels = match self.block() {
            1 => Self::correlate_channels::<1>,
            2 => Self::correlate_channels::<2>,
            4 => Self::correlate_channels::<4>,
            5 => Self::correlate_channels::<5>,
            _ => Self::correlate_channels::<3>, // also for 6: 6 × 6 sums would not fit into registers
        };
        let size = self.channels * self.group_channels() * KERNEL_SIZE * TAPS;
        let mut gradient = vec![0f32; size];
        correlate_channels(self, padded_input, padded_gradient, &mut gradient);
        gradient
    }

    fn correlate_channels<const B: usize>(
        &self,
        padded_input: &[f32],
        padded_gradient: &[f32],
        grad_weight: &mut [f32],
    ) {
        let (padded_len, group) = (self.padded_plane_len(), self.group_channels());
        // Channels that fill up the last block repeat the last channel; their sums are not read.
        let channel_start =
            |channel: usize| channel.min(self.channels - 1) * self.planes * padded_len;
        for kernel_plane in 0..KERNEL_SIZE {
            let planes = self.plane_pairs(kernel_plane);
            for (tap, offset) in self.tap_offsets().into_iter().enumerate() {
                for first in (0..self.channels).step_by(B) {
                    let inputs = if self.depthwise {
                        first..first + 1
                    } else {
                        0..self.channels
                    };
                    for first_input in inputs.step_by(B) {
                        let gradient = PaddedChannels {
                            padded: padded_gradient,
                            starts: std::array::from_fn(|b| {
                                channel_start(first + b) + self.origin()
                            }),
                        };
                        let input = PaddedChannels {
                            padded: padded_input,
                            starts: std::array::from_fn(|b| {
                                channel_start(first_input + b) + offset
                            }),
                        };
                        let length = self.padded_output_len();
                        let sums = correlate::<B>(gradient, input, &planes, length);
                        for (a, sums) in sums.iter().enumerate().take(self.channels - first) {
                            let used = sums.iter().take(self.channels - first_input);
                            for (b, sum) in used.enumerate() {
                                let pair = if self.depthwise {
                                    first
                                } else {
                                    (first + a) * group + first_input + b
                                };
                                grad_weight[(pair * KERNEL_SIZE + kernel_plane) * TAPS + tap] =
                                    *sum;
                            }
                        }
                    }
                }
            }
        }
    }

    /// All pairs of output plane and input plane that a kernel plane connects, as offsets of their padded planes.
    fn plane_pairs(&self, kernel_plane: usize) -> Vec<[usize; 2]> {
        let padded_len = self.padded_plane_len();
        (0..self.planes)
            .flat_map(|plane| {
                let inputs = self.input_planes(plane);
                inputs.map(move |(kernel_plane, input)| (kernel_plane, plane, input))
            })
            .filter(|(connecting, _, _)| *connecting == kernel_plane)
            .map(|(_, plane, input)| [plane * padded_len, input * padded_len])
            .collect()
    }
}

const INPUTS: usize = 3;

impl Kernel<INPUTS> for Conv3dGelu {
    /// gelu′(s), in the shape of the output.
    type Saved = Vec<f32>;

    fn forward(
        &self,
        [grid, weight, bias]: [&[f32]; INPUTS],
        save: bool,
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        if grid.is_empty() {
            return (Vec::new(), save.then(Vec::new));
        }
        let (sentence_len, channel_len) = (self.sentence_len(), self.channel_len());
        let packed_weights = self.pack_weights(weight, false);
        let mut output = vec![0f32; grid.len()];
        let sentences = grid
            .par_chunks_exact(sentence_len)
            .zip(output.par_chunks_exact_mut(sentence_len));
        sentences.enumerate().for_each(|(index, (grid, output))| {
            let padded = self.pad(grid, self.length(index));
            self.convolve_sentence(&padded, &packed_weights, output, |first, block| {
                let channels = block.chunks_exact_mut(channel_len);
                for (channel, bias) in channels.zip(&bias[first..]) {
                    let bias = vec![*bias; channel_len];
                    if save {
                        math::add(channel, &bias)
                    } else {
                        math::bias_gelu(channel, &bias)
                    }
                }
            });
        });
        if !save {
            return (output, None);
        }
        let mut derivatives = vec![0f32; output.len()];
        let zeros = vec![0f32; channel_len];
        output
            .par_chunks_exact_mut(channel_len)
            .zip(derivatives.par_chunks_exact_mut(channel_len))
            .for_each(|(output, derivatives)| {
                math::bias_gelu_with_derivative(output, derivatives, &zeros);
            });
        (output, Some(derivatives))
    }

    fn backward(
        &self,
        [grid, weight, _]: [&[f32]; INPUTS],
        gelu_derivatives: &Vec<f32>,
        grad_output: &[f32],
        [grid_needed, weight_needed, bias_needed]: [bool; INPUTS],
    ) -> [Option<Vec<f32>>; INPUTS] {
        let (sentence_len, channel_len) = (self.sentence_len(), self.channel_len());
        let packed_weights = self.pack_weights(weight, true);
        let mut grad_grid = vec![0f32; grid.len()];
        let sentences = if grid.is_empty() {
            Vec::new()
        } else {
            grad_grid.chunks_exact_mut(sentence_len).collect()
        };
        // Sums are taken per sentence and added in order below, so the result does not depend on the number of threads.
        let contributions: Vec<(Vec<f32>, Vec<f32>)> = sentences
            .into_par_iter()
            .enumerate()
            .map(|(index, grad_grid)| {
                let range = index * sentence_len..(index + 1) * sentence_len;
                let mut gradient = grad_output[range.clone()].to_vec();
                math::multiply(&mut gradient, &gelu_derivatives[range.clone()]);
                let grad_bias: Vec<f32> =
                    gradient.chunks_exact(channel_len).map(math::sum).collect();
                let padded_gradient = self.pad(&gradient, self.words);
                let length = self.length(index);
                if grid_needed {
                    let mask = |_, planes: &mut [f32]| self.mask_planes(planes, length);
                    self.convolve_sentence(&padded_gradient, &packed_weights, grad_grid, mask);
                }
                let grad_weight = if weight_needed {
                    let padded_input = self.pad(&grid[range], length);
                    self.weight_gradient(&padded_input, &padded_gradient)
                } else {
                    Vec::new()
                };
                (grad_weight, grad_bias)
            })
            .collect();
        let mut total_weight = vec![0f32; weight.len()];
        let mut total_bias = vec![0f32; self.channels];
        for (grad_weight, grad_bias) in &contributions {
            math::add(&mut total_weight, grad_weight);
            math::add(&mut total_bias, grad_bias);
        }
        [
            grid_needed.then_some(grad_grid),
            weight_needed.then_some(total_weight),
            bias_needed.then_some(total_bias),
        ]
    }
}
