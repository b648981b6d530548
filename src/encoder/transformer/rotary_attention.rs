//! Attention with rotary positions over padded rows by Burn's operations, to all pieces of a row or to its neighbours.
//!
//! Local attention takes time and memory in proportion to the length of a row: long rows are cut into blocks of queries,
//! each of which attends to the block of keys at the same place and to the two beside it.

use std::ops::Range;

use burn::nn::Dropout;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::nn::mask::{MASKED, attention_bias};
use crate::nn::precision::Precision;
use crate::nn::rotary::{RotaryTable, rotate};

/// Least number of queries in a block of local attention.
const LEAST_BLOCK: usize = 16;

/// Longest row that global attention handles at once; the queries of longer ones are handled in parts of this size.
const MOST_QUERIES: usize = 1024;

/// Rotary positions and the reach of the attention of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RotaryAttention {
    /// Base of the rotary positions.
    pub(super) theta: f64,
    /// Largest distance of two pieces that attend to each other; `None` for any distance.
    pub(super) reach: Option<usize>,
}

/// What the layers with the same [`RotaryAttention`] need for a batch of padded rows.
pub(super) struct PaddedAttention {
    /// Cosines and sines: `[pieces, head width]` each.
    rotation: [Tensor<2>; 2],
    scores: ScoreBias,
}

/// What is added to the scores so that only pieces of a row within reach attend to each other.
enum ScoreBias {
    /// All queries of a part attend to the same keys.
    Dense(Box<DenseBias>),
    /// Blocks of `size` queries attend to three blocks of keys.
    Blocks {
        size: usize,
        /// `[rows, 1, blocks · size, 3 · size]`
        bias: Box<Tensor<4>>,
    },
}

/// Queries attend to all keys of the row, or in parts of [`MOST_QUERIES`] to all keys within reach of the part.
struct DenseBias {
    /// Reach of the attention if some pieces are not within.
    reach: Option<usize>,
    /// That of a row which is one part: `[1, 1, pieces, pieces]`.
    band: Option<Tensor<4>>,
    /// `[rows, 1, 1, pieces]`
    padding: Option<Tensor<4>>,
}

impl PaddedAttention {
    /// For rows of these lengths, padded to `pieces`.
    pub(super) fn new(
        attention: RotaryAttention,
        head_width: usize,
        lengths: &[usize],
        pieces: usize,
        device: &Device,
    ) -> Self {
        let table = RotaryTable::new(pieces, head_width, attention.theta);
        let within = (attention.reach).filter(|reach| *reach < pieces.saturating_sub(1));
        let scores = match within {
            // A block attends to three times its size, so blocks pay for rows that are longer.
            Some(reach) if pieces > 4 * reach.max(LEAST_BLOCK) => {
                ScoreBias::blocks(reach, lengths, pieces, device)
            }
            _ => ScoreBias::Dense(Box::new(DenseBias {
                reach: within,
                band: (within.filter(|_| pieces <= MOST_QUERIES))
                    .map(|reach| band_of(0..pieces, 0..pieces, reach, device)),
                padding: attention_bias(lengths, pieces, device),
            })),
        };
        Self {
            rotation: table.tensors(device),
            scores,
        }
    }

    /// Mixes values by the similarity of queries and keys, which are rotated in f32 first.
    ///
    /// # Shapes
    /// - query, key, value, output: `[rows, heads, pieces, head width]`
    pub(super) fn forward(
        &self,
        query: Tensor<4>,
        key: Tensor<4>,
        value: Tensor<4>,
        dropout: &Dropout,
        precision: Precision,
    ) -> Tensor<4> {
        let rotation = self.rotation.each_ref();
        let depth = query.dims()[3];
        let query = rotate(precision.raise(query), rotation) / (depth as f32).sqrt();
        let query = precision.lower(query);
        let key = precision.lower(rotate(precision.raise(key), rotation));
        let mix = |scores: Tensor<4>| dropout.forward(precision.lower(softmax(scores, 3)));
        match &self.scores {
            ScoreBias::Blocks { size, bias } => {
                attend_in_blocks(query, key, value, *size, bias, precision, mix)
            }
            ScoreBias::Dense(bias) => {
                let pieces = query.dims()[2];
                let part = |first| bias.attend(first, [&query, &key, &value], precision, &mix);
                let mut parts: Vec<Tensor<4>> =
                    (0..pieces).step_by(MOST_QUERIES).map(part).collect();
                if parts.len() == 1 {
                    parts.remove(0)
                } else {
                    Tensor::cat(parts, 2)
                }
            }
        }
    }
}

impl DenseBias {
    /// Attention of the scaled queries from `first` on; `mix` turns scores into weights of the values.
    fn attend(
        &self,
        first: usize,
        [query, key, value]: [&Tensor<4>; 3],
        precision: Precision,
        mix: &impl Fn(Tensor<4>) -> Tensor<4>,
    ) -> Tensor<4> {
        let pieces = query.dims()[2];
        let queries = first..(first + MOST_QUERIES).min(pieces);
        let near = self.reach.unwrap_or(pieces);
        let keys = first.saturating_sub(near)..(queries.end + near).min(pieces);
        let of_keys = |tensor: &Tensor<4>, dim| tensor.clone().narrow(dim, keys.start, keys.len());
        let query = query.clone().narrow(2, first, queries.len());
        let mut scores = precision.raise(query.matmul(of_keys(key, 2).transpose()));
        if let Some(padding) = &self.padding {
            scores = scores + of_keys(padding, 3);
        }
        if let Some(reach) = self.reach {
            let device = scores.device();
            let band = self.band.clone();
            let band = band.unwrap_or_else(|| band_of(queries, keys.clone(), reach, &device));
            scores = scores + band;
        }
        mix(scores).matmul(of_keys(value, 2))
    }
}

impl ScoreBias {
    fn blocks(reach: usize, lengths: &[usize], pieces: usize, device: &Device) -> Self {
        let size = reach.max(LEAST_BLOCK);
        let (rows, blocks) = (lengths.len(), pieces.div_ceil(size));
        let band: Tensor<5> = band_of(size..2 * size, 0..3 * size, reach, device);
        // The keys of block i are those from (i - 1) · size on.
        let mut padding = Vec::with_capacity(rows * blocks * 3 * size);
        for length in lengths {
            for block in 0..blocks {
                let keys = block * size..(block + 3) * size;
                padding.extend(keys.map(|key| {
                    let is_real = key >= size && key - size < *length;
                    if is_real { 0.0 } else { MASKED }
                }));
            }
        }
        let padding = TensorData::new(padding, [rows, 1, blocks, 1, 3 * size]);
        let bias = band + Tensor::from_data(padding, device);
        Self::Blocks {
            size,
            bias: Box::new(bias.reshape([rows, 1, blocks * size, 3 * size])),
        }
    }
}

/// 0 where a query reaches a key, [`MASKED`] elsewhere.
///
/// # Shapes
/// - output: `[1, ..., queries, keys]`
fn band_of<const D: usize>(
    queries: Range<usize>,
    keys: Range<usize>,
    reach: usize,
    device: &Device,
) -> Tensor<D> {
    let positions = |range: Range<usize>| {
        Tensor::<1, Int>::arange(range.start as i64..range.end as i64, device).float()
    };
    let queries: Tensor<2> = positions(queries).unsqueeze_dim(1);
    let keys: Tensor<2> = positions(keys).unsqueeze_dim(0);
    let beyond = (queries - keys).abs().greater_elem(reach as f32);
    (beyond.float() * MASKED).unsqueeze()
}

/// Local attention of scaled queries in blocks of `size`; `mix` turns scores into weights of the values.
fn attend_in_blocks(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    size: usize,
    bias: &Tensor<4>,
    precision: Precision,
    mix: impl Fn(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    let [rows, heads, pieces, depth] = query.dims();
    let device = query.device();
    let blocks = pieces.div_ceil(size);
    let padded = blocks * size;
    let zeros =
        |count: usize| precision.lower(Tensor::<4>::zeros([rows, heads, count, depth], &device));
    // Each block with its neighbours: [rows · heads, blocks, 3 · size, depth].
    let around = |tensor: Tensor<4>| {
        let tensor = Tensor::cat(vec![zeros(size), tensor, zeros(size + padded - pieces)], 2);
        let shifted = |first: usize| {
            let part = tensor.clone().narrow(2, first, padded);
            part.reshape([rows * heads, blocks, size, depth])
        };
        Tensor::cat(vec![shifted(0), shifted(size), shifted(2 * size)], 2)
    };
    let query = if padded > pieces {
        Tensor::cat(vec![query, zeros(padded - pieces)], 2)
    } else {
        query
    };
    let query = query.reshape([rows * heads, blocks, size, depth]);
    let scores = precision.raise(query.matmul(around(key).transpose()));
    let scores = scores.reshape([rows, heads, padded, 3 * size]) + bias.clone();
    let weights = mix(scores).reshape([rows * heads, blocks, size, 3 * size]);
    let mixed = weights.matmul(around(value));
    mixed
        .reshape([rows, heads, padded, depth])
        .narrow(2, 0, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::nn::DropoutConfig;
    use burn::tensor::Distribution;

    /// Attention of one head over rows of the given lengths, by the definition.
    fn expected(
        [query, key, value]: [&[f32]; 3],
        lengths: &[usize],
        [pieces, depth]: [usize; 2],
        attention: RotaryAttention,
    ) -> Vec<Vec<f32>> {
        let table = RotaryTable::new(pieces, depth, attention.theta);
        let mut states = Vec::new();
        for (row, length) in lengths.iter().enumerate() {
            let part = |values: &[f32]| values[row * pieces * depth..][..length * depth].to_vec();
            let (mut query, mut key, value) = (part(query), part(key), part(value));
            table.rotate(&mut query, depth, 0);
            table.rotate(&mut key, depth, 0);
            for (position, query) in query.chunks_exact(depth).enumerate() {
                let within = |other: &usize| {
                    attention
                        .reach
                        .is_none_or(|reach| position.abs_diff(*other) <= reach)
                };
                let others: Vec<usize> = (0..*length).filter(within).collect();
                let score = |other: &usize| {
                    let key = &key[other * depth..][..depth];
                    let product: f32 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                    (product / (depth as f32).sqrt()).exp()
                };
                let scores: Vec<f32> = others.iter().map(score).collect();
                let total: f32 = scores.iter().sum();
                let mut state = vec![0f32; depth];
                for (other, score) in others.iter().zip(&scores) {
                    for (state, value) in state.iter_mut().zip(&value[other * depth..]) {
                        *state += value * score / total;
                    }
                }
                states.push(state);
            }
        }
        states
    }

    #[test]
    fn dense_and_blocked_attention_follow_the_definition() {
        let device = Device::flex();
        device.seed(5);
        let depth = 4;
        let dropout = DropoutConfig::new(0.0).init();
        for (lengths, reach) in [
            (vec![9, 3, 1], None),
            (vec![9, 3, 1], Some(2)),
            (vec![5, 2], Some(9)),
            (vec![MOST_QUERIES + 7], None),
            (vec![MOST_QUERIES + 5, 30], Some(700)),
            (vec![64, 17, 1], Some(16)),
            (vec![65, 64, 33], Some(16)),
            (vec![141, 1, 90], Some(16)),
            (vec![200, 170], Some(31)),
            (vec![100], Some(0)),
            (vec![130, 129], Some(1)),
        ] {
            let attention = RotaryAttention { theta: 50.0, reach };
            let pieces = *lengths.iter().max().unwrap();
            let shape = [lengths.len(), 1, pieces, depth];
            let random = || Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            let [query, key, value] = [random(), random(), random()];
            let values = [&query, &key, &value].map(|tensor| floats(tensor.clone()));
            let padded = PaddedAttention::new(attention, depth, &lengths, pieces, &device);
            let is_blocked = matches!(padded.scores, ScoreBias::Blocks { .. });
            assert_eq!(
                is_blocked,
                reach.is_some_and(|reach| pieces > 4 * reach.max(16))
            );
            let found = floats(padded.forward(query, key, value, &dropout, Precision::F32));
            assert!(found.iter().all(|value| value.is_finite()));
            let values = values.each_ref().map(Vec::as_slice);
            let expected = expected(values, &lengths, [pieces, depth], attention);
            let found = lengths.iter().enumerate().flat_map(|(row, length)| {
                found[row * pieces * depth..][..length * depth].chunks_exact(depth)
            });
            for (index, (found, expected)) in found.zip(&expected).enumerate() {
                for (found, expected) in found.iter().zip(expected) {
                    assert!(
                        (found - expected).abs() < 1e-5,
                        "{lengths:?} {reach:?} {index}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn local_attention_of_long_rows_has_a_bias_of_linear_size() {
        let size = |pieces: usize| {
            let attention = RotaryAttention {
                theta: 1e4,
                reach: Some(64),
            };
            let lengths = [pieces];
            match PaddedAttention::new(attention, 8, &lengths, pieces, &Device::flex()).scores {
                ScoreBias::Blocks { bias, .. } => bias.shape().num_elements(),
                ScoreBias::Dense(_) => panic!("dense"),
            }
        };
        assert_eq!(size(4096), 8 * size(512));
        assert_eq!(size(8192), 8192 * 192);
    }
}
