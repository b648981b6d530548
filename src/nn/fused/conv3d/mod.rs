//! A 3-D convolution with GELU behind it, for grids of few channels: three cells each way, as many out as in.
//!
//! Every plane of words is copied into a frame of zeros, wide enough for the kernel's reach. There, each neighbour of a
//! cell stands at a distance that is the same for all cells, so a plane of results is one run over memory for each of
//! the kernel's weights. A run crosses the frame's margins; what it finds there is thrown away.

mod frames;
mod runs;

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use self::runs::{Runs, correlate, gather};
use super::math;
use super::{Kernel, apply};

/// Cells of the kernel in one direction.
const REACH: usize = 3;

/// Most channels calculated together.
const MOST: usize = 6;

/// The shape of a convolution.
#[derive(Debug, Clone)]
pub struct Conv3d {
    /// Channels, in and out.
    pub channels: usize,
    /// Whether each channel hears itself alone.
    pub separate: bool,
    /// Planes of a channel.
    pub planes: usize,
    /// Rows, and columns, of a plane.
    pub words: usize,
    /// How far apart neighbours are: planes, rows and columns.
    pub dilation: [usize; 3],
    /// Real words of each sentence; what lies beyond counts as 0. Nothing: all are.
    pub lengths: Option<Arc<Vec<usize>>>,
}

impl Conv3d {
    /// [batch, channels, planes, words, words] through a weight [channels, channels or 1, 3, 3, 3], a bias and GELU.
    pub fn gelu(self, grid: Tensor<5>, weight: Tensor<5>, bias: Tensor<1>) -> Tensor<5> {
        let shape = grid.dims();
        apply(self, [grid.into(), weight.into(), bias.into()], shape)
    }

    /// Channels that are heard by one.
    fn heard(&self) -> usize {
        if self.separate { 1 } else { self.channels }
    }

    /// Channels calculated together: what leaves the fewest places empty.
    fn block(&self) -> usize {
        match (self.separate, self.channels) {
            (true, _) => 1,
            (false, few) if few <= MOST => few,
            (false, many) => [6, 5, 4]
                .into_iter()
                .min_by_key(|block| many.next_multiple_of(*block))
                .unwrap_or(MOST),
        }
    }

    fn length(&self, sentence: usize) -> usize {
        let lengths = self.lengths.as_ref();
        lengths.map_or(self.words, |lengths| lengths[sentence].min(self.words))
    }

    /// The weights of a block of channels, [reach, heard, reach · reach, block]; `turned` for the way back.
    fn packed(&self, weight: &[f32], first: usize, block: usize, turned: bool) -> Vec<f32> {
        let (heard, cells) = (self.heard(), REACH * REACH);
        let mut packed = Vec::with_capacity(REACH * heard * cells * block);
        for plane in 0..REACH {
            for other in 0..heard {
                for cell in 0..cells {
                    packed.extend((first..first + block).map(|own| {
                        if own >= self.channels {
                            return 0.0;
                        }
                        let (pair, place) = match turned {
                            false => (own * heard + other, plane * cells + cell),
                            true if self.separate => {
                                (own, REACH * cells - 1 - plane * cells - cell)
                            }
                            true => (
                                other * heard + own,
                                REACH * cells - 1 - plane * cells - cell,
                            ),
                        };
                        weight[pair * REACH * cells + place]
                    }));
                }
            }
        }
        packed
    }

    /// Convolves the channels `first..first + B`: their planes without bias, one after the other.
    fn convolve<const B: usize>(
        &self,
        frames: &[f32],
        weights: &[f32],
        first: usize,
        into: &mut [f32],
    ) {
        let (plane, run, heard) = (self.plane(), self.run(), self.heard());
        let own = if self.separate { first } else { 0 };
        let third = heard * REACH * REACH * B;
        let found = (0..self.planes).into_par_iter().map(|index| {
            let around: Vec<_> = self.neighbours(index).collect();
            let mut taps = Vec::with_capacity(around.len() * heard * REACH * REACH);
            for (_, other) in &around {
                for channel in own..own + heard {
                    let frame = (channel * self.planes + other) * self.frame();
                    taps.extend(self.steps().map(|step| frame + step));
                }
            }
            // A plane hears itself, so there is a first, and no third is missing between it and the last.
            let from = around[0].0 * third;
            let mut found = vec![0f32; B * run];
            gather::<B>(
                frames,
                &taps,
                &weights[from..][..taps.len() * B],
                &mut found,
            );
            found
        });
        for (index, found) in found.collect::<Vec<_>>().into_iter().enumerate() {
            let channels = into.chunks_exact_mut(self.planes * plane);
            for (channel, found) in channels.zip(found.chunks_exact(run)) {
                let rows = channel[index * plane..][..plane].chunks_exact_mut(self.words);
                for (row, found) in rows.zip(found.chunks(self.stride())) {
                    row.copy_from_slice(&found[..self.words]);
                }
            }
        }
    }

    /// All channels of a sentence, block by block; `then` gets each block with its first channel.
    fn blocks(
        &self,
        frames: &[f32],
        packed: &[Vec<f32>],
        into: &mut [f32],
        then: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let block = self.block();
        into.par_chunks_mut(block * self.planes * self.plane())
            .zip(packed)
            .enumerate()
            .for_each(|(index, (into, packed))| {
                let first = index * block;
                let run = match block {
                    1 => Self::convolve::<1>,
                    2 => Self::convolve::<2>,
                    3 => Self::convolve::<3>,
                    4 => Self::convolve::<4>,
                    5 => Self::convolve::<5>,
                    _ => Self::convolve::<MOST>,
                };
                run(self, frames, packed, first, into);
                then(first, into);
            });
    }

    fn all_packed(&self, weight: &[f32], turned: bool) -> Vec<Vec<f32>> {
        let block = self.block();
        let firsts = (0..self.channels).step_by(block);
        firsts
            .map(|first| self.packed(weight, first, block, turned))
            .collect()
    }

    /// One sentence's share in the weight's gradient, from the frames of its cells and of the results' gradients.
    fn weight_back<const B: usize>(&self, cells: &[f32], gradients: &[f32], into: &mut [f32]) {
        let (frame, heard) = (self.frame(), self.heard());
        // An empty place repeats the last channel; what comes of it is not read.
        let place = |channel: usize| channel.min(self.channels - 1) * self.planes * frame;
        for third in 0..REACH {
            let planes: Vec<[usize; 2]> = (0..self.planes)
                .flat_map(|own| {
                    self.neighbours(own)
                        .map(move |(at, other)| (at, own, other))
                })
                .filter(|(at, _, _)| *at == third)
                .map(|(_, own, other)| [own * frame, other * frame])
                .collect();
            for (cell, step) in self.steps().into_iter().enumerate() {
                for first in (0..self.channels).step_by(B) {
                    let others = if self.separate {
                        first..first + 1
                    } else {
                        0..self.channels
                    };
                    for other in others.step_by(B) {
                        let one = Runs {
                            frames: gradients,
                            channels: std::array::from_fn(|b| place(first + b) + self.corner()),
                        };
                        let two = Runs {
                            frames: cells,
                            channels: std::array::from_fn(|b| place(other + b) + step),
                        };
                        let sums = correlate::<B>(one, two, &planes, self.run());
                        for (a, sums) in sums.iter().enumerate().take(self.channels - first) {
                            for (b, sum) in sums.iter().enumerate().take(self.channels - other) {
                                let pair = if self.separate {
                                    first
                                } else {
                                    (first + a) * heard + other + b
                                };
                                into[(pair * REACH + third) * REACH * REACH + cell] = *sum;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Kernel for Conv3d {
    /// The slopes of GELU.
    type Saved = Vec<f32>;

    fn forward(&self, inputs: &[&[f32]], keep: bool) -> (Vec<f32>, Option<Vec<f32>>) {
        let [grid, weight, bias] = inputs else {
            unreachable!("grid, weight and bias")
        };
        if grid.is_empty() {
            return (Vec::new(), keep.then(Vec::new));
        }
        let (sentence, channel) = (self.sentence(), self.planes * self.plane());
        let packed = self.all_packed(weight, false);
        let mut output = vec![0f32; grid.len()];
        let sentences = grid
            .par_chunks_exact(sentence)
            .zip(output.par_chunks_exact_mut(sentence));
        sentences.enumerate().for_each(|(index, (grid, output))| {
            let frames = self.framed(grid, self.length(index));
            self.blocks(&frames, &packed, output, |first, planes| {
                for (planes, bias) in planes.chunks_exact_mut(channel).zip(&bias[first..]) {
                    let bias = vec![*bias; channel];
                    if keep {
                        math::add(planes, &bias)
                    } else {
                        math::bias_gelu(planes, &bias)
                    }
                }
            });
        });
        if !keep {
            return (output, None);
        }
        let mut slopes = vec![0f32; output.len()];
        let zeros = vec![0f32; channel];
        output
            .par_chunks_exact_mut(channel)
            .zip(slopes.par_chunks_exact_mut(channel))
            .for_each(|(output, slopes)| math::bias_gelu_slope(output, slopes, &zeros));
        (output, Some(slopes))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        slopes: &Vec<f32>,
        gradient: &[f32],
        wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>> {
        let (grid, weight) = (inputs[0], inputs[1]);
        let (sentence, channel) = (self.sentence(), self.planes * self.plane());
        let packed = self.all_packed(weight, true);
        let mut to_grid = vec![0f32; grid.len()];
        let sentences = if grid.is_empty() {
            Vec::new()
        } else {
            to_grid.chunks_exact_mut(sentence).collect()
        };
        // Each sentence's sums stand by themselves until all are there: whoever calculates them, they are added in order.
        let shares: Vec<(Vec<f32>, Vec<f32>)> = sentences
            .into_par_iter()
            .enumerate()
            .map(|(index, to_grid)| {
                let own = index * sentence..(index + 1) * sentence;
                let mut above = gradient[own.clone()].to_vec();
                math::multiply(&mut above, &slopes[own.clone()]);
                let bias: Vec<f32> = above.chunks_exact(channel).map(math::sum).collect();
                let above = self.framed(&above, self.words);
                let length = self.length(index);
                if wanted[0] {
                    self.blocks(&above, &packed, to_grid, |_, planes| {
                        self.blank(planes, length)
                    });
                }
                let mut share = vec![0f32; if wanted[1] { weight.len() } else { 0 }];
                if wanted[1] {
                    let cells = self.framed(&grid[own], length);
                    let run = match self.block() {
                        1 => Self::weight_back::<1>,
                        2 => Self::weight_back::<2>,
                        4 => Self::weight_back::<4>,
                        5 => Self::weight_back::<5>,
                        _ => Self::weight_back::<3>, // 3, or 6: that many by as many would not fit into registers
                    };
                    run(self, &cells, &above, &mut share);
                }
                (share, bias)
            })
            .collect();
        let mut to_weight = vec![0f32; weight.len()];
        let mut to_bias = vec![0f32; self.channels];
        for (share, bias) in &shares {
            math::add(&mut to_weight, share);
            math::add(&mut to_bias, bias);
        }
        vec![
            wanted[0].then_some(to_grid),
            wanted[1].then_some(to_weight),
            wanted[2].then_some(to_bias),
        ]
    }
}
