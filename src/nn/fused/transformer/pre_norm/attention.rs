//! Multi-head self-attention within each sequence of packed rows, to all rows or to those within reach.
//!
//! For each sequence of `n` rows and each head, with `q` and `k` rotated by their positions, and `N(i)` the rows that row `i`
//! attends to (all of them, or those with `|i - j| ≤ reach`):
//!
//! ```text
//! forward:   p[i, j] = softmax over j in N(i) of (q[i]·k[j] / √d),   c = m·v   with m = mask ⊙ p (dropout)
//! backward:  dv = mᵀ·dc
//!            dp = mask ⊙ (dc·vᵀ)
//!            ds = p ⊙ (dp - Σ p dp) / √d   (each row of the softmax)
//!            dq = ds·k,   dk = dsᵀ·q,   both rotated back
//! ```
//!
//! Probabilities are not kept. Scores are computed for a block of queries and a part of their keys at a time, which stays in
//! the cache. The forward pass saves two numbers for each row and head, with which the backward pass computes probabilities
//! again; this takes about as long as to read them from memory. `Σ p dp` is `dc·c`. Only the keys within reach of a block are
//! looked at, so time is in proportion to `n · reach`, and memory to `n`.

use std::ops::Range;

use rayon::prelude::*;

use super::PreNormLayer;
use super::softmax::{RunningSoftmax, SoftmaxStatistics};
use crate::nn::fused::math;
use crate::nn::fused::matmul::{MatrixView, matmul_single_threaded};
use crate::nn::fused::transformer::attention::{Projections, split};

/// Number of queries in a task of the thread pool.
pub(super) const TASK: usize = 512;

/// Number of queries in a block of global attention. Matrix products copy the keys for each block.
const QUERIES: usize = 256;

/// Number of keys in a part: the scores of a block and a part stay in the cache.
const KEYS: usize = 512;

/// A sequence in the packed buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// Index of its first row.
    pub(super) first_row: usize,
    /// Index of its first attention probability, had it `n²` for each head.
    pub(super) first_probability: usize,
    /// Its number of rows.
    pub(super) length: usize,
}

/// Consecutive queries of a sequence, and keys that any of them attends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
}

impl Block {
    /// The same queries with parts of the keys.
    pub(super) fn parts(self) -> impl Iterator<Item = Block> {
        self.keys.clone().step_by(KEYS).map(move |first| Block {
            queries: self.queries.clone(),
            keys: first..(first + KEYS).min(self.keys.end),
        })
    }
}

impl PreNormLayer {
    pub(super) fn head_width(&self) -> usize {
        self.width / self.heads
    }

    pub(super) fn sequences(&self) -> Vec<Sequence> {
        let (mut first_row, mut first_probability) = (0, 0);
        let sequences = self.lengths.iter().map(|length| {
            let sequence = Sequence {
                first_row,
                first_probability,
                length: *length,
            };
            first_row += length;
            first_probability += self.heads * length * length;
            sequence
        });
        sequences.collect()
    }

    /// Cuts queries of a sequence of `length` rows into blocks.
    pub(super) fn blocks(
        &self,
        queries: Range<usize>,
        length: usize,
    ) -> impl Iterator<Item = Block> + use<> {
        let reach = self.reach.unwrap_or(length).min(length);
        let size = self.reach.map_or(QUERIES, |reach| reach.clamp(16, 64));
        let starts = queries.clone().step_by(size);
        starts.map(move |first| {
            let end = (first + size).min(queries.end);
            Block {
                keys: first.saturating_sub(reach)..(end + reach).min(length),
                queries: first..end,
            }
        })
    }

    /// Those of some keys that a query attends to, counted from the first.
    pub(super) fn within_reach(&self, query: usize, keys: &Range<usize>) -> Range<usize> {
        let Some(reach) = self.reach else {
            return 0..keys.len();
        };
        let first = query.saturating_sub(reach).clamp(keys.start, keys.end);
        let end = query.saturating_add(reach).saturating_add(1);
        let end = end.clamp(keys.start, keys.end);
        first - keys.start..end - keys.start
    }

    /// Rotates queries or keys, `[rows, width]`, by their positions.
    pub(super) fn rotate(&self, rows: &mut [f32]) {
        let sizes = self.lengths.iter().map(|length| length * self.width);
        let sequences = split(rows, sizes);
        sequences.into_par_iter().for_each(|rows| {
            let tasks = rows.par_chunks_mut(TASK * self.width).enumerate();
            tasks.for_each(|(task, rows)| self.rotation.rotate(rows, self.width, task * TASK));
        });
    }

    /// The context vectors c, `[rows, width]`, and with `save` the statistics of the softmax, `[rows, heads]`.
    pub(super) fn attention_forward(
        &self,
        projections: &Projections,
        save: bool,
    ) -> (Vec<f32>, Vec<SoftmaxStatistics>) {
        let tasks: Vec<(Sequence, Range<usize>)> = (self.sequences().into_iter())
            .flat_map(|sequence| {
                let starts = (0..sequence.length).step_by(TASK);
                starts.map(move |first| (sequence, first..(first + TASK).min(sequence.length)))
            })
            .collect();
        let mut context = vec![0f32; projections.query.len()];
        let parts = split(
            &mut context,
            tasks.iter().map(|task| task.1.len() * self.width),
        );
        let statistics: Vec<Vec<SoftmaxStatistics>> = (tasks.par_iter().zip(parts))
            .map(|((sequence, queries), context)| {
                let heads = (0..self.heads).into_par_iter();
                let heads: Vec<(Vec<f32>, Vec<SoftmaxStatistics>)> = heads
                    .map(|head| self.head_forward(sequence, head, queries.clone(), projections))
                    .collect();
                let depth = self.head_width();
                for (head, (values, _)) in heads.iter().enumerate() {
                    add_columns(context, values, head * depth, [self.width, depth]);
                }
                let rows = (0..if save { queries.len() } else { 0 }).flat_map(|row| {
                    let heads = heads.iter();
                    heads.map(move |(_, statistics)| statistics[row])
                });
                rows.collect()
            })
            .collect();
        (context, statistics.concat())
    }

    /// The context vectors of some queries of a sequence and one head, `[queries, head width]`, and the statistics of each.
    fn head_forward(
        &self,
        sequence: &Sequence,
        head: usize,
        queries: Range<usize>,
        projections: &Projections,
    ) -> (Vec<f32>, Vec<SoftmaxStatistics>) {
        let depth = self.head_width();
        let mut context = vec![0f32; queries.len() * depth];
        let mut running = vec![RunningSoftmax::new(); queries.len()];
        let mut scores = Vec::new();
        for part in self
            .blocks(queries.clone(), sequence.length)
            .flat_map(Block::parts)
        {
            self.scores(&mut scores, sequence, head, &part, projections);
            let (first, count) = (part.queries.start - queries.start, part.queries.len());
            let rows = scores.chunks_exact_mut(part.keys.len());
            let contexts = context[first * depth..].chunks_exact_mut(depth);
            let states = running[first..].iter_mut().zip(contexts);
            for ((query, row), (running, context)) in part.queries.clone().zip(rows).zip(states) {
                let within = self.within_reach(query, &part.keys);
                row[..within.start].fill(0.0);
                row[within.end..].fill(0.0);
                let factor = running.add(&mut row[within]);
                if factor != 1.0 {
                    context.iter_mut().for_each(|value| *value *= factor);
                }
            }
            self.drop_probabilities(&mut scores, sequence, head, &part);
            let output = MatrixView::block(first, 0, [count, depth], depth);
            matmul_single_threaded(
                (&mut context, output),
                1.0,
                (&scores, MatrixView::new(count, part.keys.len())),
                (&projections.value, self.view(sequence, head, &part.keys)),
                1.0,
            );
        }
        let statistics = running.into_iter().map(RunningSoftmax::statistics);
        let statistics: Vec<SoftmaxStatistics> = statistics.collect();
        for (context, statistics) in context.chunks_exact_mut(depth).zip(&statistics) {
            let values = context.iter_mut();
            values.for_each(|value| *value *= statistics.inverse);
        }
        (context, statistics)
    }

    /// The columns of a head in some rows of a sequence, in a buffer of all rows.
    pub(super) fn view(&self, sequence: &Sequence, head: usize, rows: &Range<usize>) -> MatrixView {
        let depth = self.head_width();
        let first_row = sequence.first_row + rows.start;
        MatrixView::block(first_row, head * depth, [rows.len(), depth], self.width)
    }

    /// The scores `q·kᵀ / √d` of a block, `[queries, keys]`.
    pub(super) fn scores(
        &self,
        scores: &mut Vec<f32>,
        sequence: &Sequence,
        head: usize,
        block: &Block,
        projections: &Projections,
    ) {
        let size = [block.queries.len(), block.keys.len()];
        scores.resize(size[0] * size[1], 0.0);
        let queries = self.view(sequence, head, &block.queries);
        let keys = self.view(sequence, head, &block.keys);
        matmul_single_threaded(
            (scores, MatrixView::new(size[0], size[1])),
            0.0,
            (&projections.query, queries),
            (&projections.key, keys.transposed()),
            1.0 / (self.head_width() as f32).sqrt(),
        );
    }

    /// Applies dropout to the probabilities of a block, or to their gradients.
    pub(super) fn drop_probabilities(
        &self,
        probabilities: &mut [f32],
        sequence: &Sequence,
        head: usize,
        block: &Block,
    ) {
        let Some(dropout) = self.dropout.attention else {
            return;
        };
        let rows = probabilities.chunks_exact_mut(block.keys.len());
        for (query, row) in block.queries.clone().zip(rows) {
            let first =
                sequence.first_probability + (head * sequence.length + query) * sequence.length;
            dropout.apply(row, first + block.keys.start);
        }
    }
}

/// Adds `values`, `[rows, depth]`, to the columns from `column` on of the first rows of a buffer `[rows, width]`.
pub(super) fn add_columns(
    buffer: &mut [f32],
    values: &[f32],
    column: usize,
    [width, depth]: [usize; 2],
) {
    for (row, values) in (buffer.chunks_exact_mut(width)).zip(values.chunks_exact(depth)) {
        math::add(&mut row[column..column + depth], values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::fused::transformer::pre_norm::PreNormDropout;
    use crate::nn::rotary::RotaryTable;
    use std::sync::Arc;

    fn layer(reach: Option<usize>, length: usize) -> PreNormLayer {
        PreNormLayer {
            lengths: Arc::new(vec![length]),
            heads: 2,
            width: 8,
            inner: 4,
            epsilon: 1e-5,
            rotation: Arc::new(RotaryTable::new(length, 4, 100.0)),
            reach,
            dropout: PreNormDropout::default(),
            recompute: false,
        }
    }

    /// Number of scores that are computed for a sequence, and of those at a time.
    fn scores(reach: Option<usize>, length: usize) -> (usize, usize) {
        let blocks = layer(reach, length).blocks(0..length, length);
        let parts = blocks.flat_map(Block::parts);
        let sizes: Vec<usize> = parts.map(|b| b.queries.len() * b.keys.len()).collect();
        (sizes.iter().sum(), sizes.into_iter().max().unwrap_or(0))
    }

    #[test]
    fn blocks_cover_every_pair_within_reach() {
        for (reach, length) in [
            (Some(600), 1500),
            (Some(3), 50),
            (Some(0), 17),
            (Some(40), 100),
            (Some(usize::MAX), 9),
            (None, 700),
            (None, 1),
        ] {
            let layer = layer(reach, length);
            let mut seen = vec![Vec::new(); length];
            for part in layer.blocks(0..length, length).flat_map(Block::parts) {
                for query in part.queries.clone() {
                    let within = layer.within_reach(query, &part.keys);
                    seen[query].extend(part.keys.clone().skip(within.start).take(within.len()));
                }
            }
            for (query, seen) in seen.iter().enumerate() {
                let near = reach.unwrap_or(length);
                let keys = query.saturating_sub(near)..query.saturating_add(near).saturating_add(1);
                let expected: Vec<usize> = (0..length).filter(|key| keys.contains(key)).collect();
                assert_eq!(*seen, expected, "{reach:?} {length} {query}");
            }
        }
    }

    #[test]
    fn local_attention_computes_a_number_of_scores_in_proportion_to_the_length() {
        for reach in [4, 64, 100] {
            let (short, largest) = scores(Some(reach), 1000);
            let (long, largest_of_long) = scores(Some(reach), 8000);
            assert!(long < 9 * short, "{reach}: {short} {long}");
            assert!(long < 8000 * (2 * reach + 65), "{reach}: {long}");
            assert_eq!(largest, largest_of_long);
        }
        // Global attention needs all of them, but few at a time.
        let (all, largest) = scores(None, 8192);
        assert_eq!(all, 8192 * 8192);
        assert_eq!(largest, QUERIES * KEYS);
    }
}
