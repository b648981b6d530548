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
//! Probabilities are not kept. The forward pass saves two numbers for each row and head, with which the backward pass
//! computes them again, a block of queries at a time; this takes about as long as to read them from memory. Only the keys
//! within reach of a block are looked at, so time is in proportion to `n · reach`, and memory to `n`.

use std::ops::Range;

use rayon::prelude::*;

use super::PreNormLayer;
use crate::nn::fused::math::{self, SoftmaxStatistics};
use crate::nn::fused::matmul::{MatrixView, matmul_single_threaded};
use crate::nn::fused::transformer::attention::{Projections, split};

/// Number of queries in a task of the thread pool.
pub(super) const TASK: usize = 512;

/// Number of scores of a block of queries that stay in the cache.
const CACHED_SCORES: usize = 1 << 17;

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

/// Consecutive queries of a sequence, and the keys that any of them attends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
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
        let size = match self.reach {
            Some(reach) => reach.clamp(16, 64),
            None => (CACHED_SCORES / length.max(1)).clamp(32, 256),
        };
        let starts = queries.clone().step_by(size);
        starts.map(move |first| {
            let end = (first + size).min(queries.end);
            Block {
                keys: first.saturating_sub(reach)..(end + reach).min(length),
                queries: first..end,
            }
        })
    }

    /// The keys of a block that a query attends to, counted from the block's first.
    pub(super) fn within_reach(&self, query: usize, keys: &Range<usize>) -> Range<usize> {
        match self.reach {
            None => 0..keys.len(),
            Some(reach) => {
                let first = query.saturating_sub(reach).max(keys.start);
                let end = query.saturating_add(reach).saturating_add(1).min(keys.end);
                first - keys.start..end - keys.start
            }
        }
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
        let mut statistics = Vec::with_capacity(queries.len());
        let mut scores = Vec::new();
        for block in self.blocks(queries.clone(), sequence.length) {
            self.scores(&mut scores, sequence, head, &block, projections);
            let count = block.keys.len();
            for (query, row) in block.queries.clone().zip(scores.chunks_exact_mut(count)) {
                let within = self.within_reach(query, &block.keys);
                row[..within.start].fill(0.0);
                row[within.end..].fill(0.0);
                statistics.push(math::softmax(&mut row[within]));
            }
            self.drop_probabilities(&mut scores, sequence, head, &block);
            let first = block.queries.start - queries.start;
            matmul_single_threaded(
                (
                    &mut context,
                    MatrixView::block(first, 0, [block.queries.len(), depth], depth),
                ),
                0.0,
                (&scores, MatrixView::new(block.queries.len(), count)),
                (&projections.value, self.view(sequence, head, &block.keys)),
                1.0,
            );
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
        }
    }

    /// Number of scores that are computed for a sequence, and of those at a time.
    fn scores(reach: Option<usize>, length: usize) -> (usize, usize) {
        let blocks = layer(reach, length).blocks(0..length, length);
        let sizes: Vec<usize> = blocks.map(|b| b.queries.len() * b.keys.len()).collect();
        (sizes.iter().sum(), sizes.into_iter().max().unwrap_or(0))
    }

    #[test]
    fn blocks_cover_every_pair_within_reach() {
        for (reach, length) in [
            (Some(3), 50),
            (Some(0), 17),
            (Some(40), 100),
            (Some(usize::MAX), 9),
            (None, 700),
            (None, 1),
        ] {
            let layer = layer(reach, length);
            let mut next = 0;
            for block in layer.blocks(0..length, length) {
                assert_eq!(block.queries.start, next);
                for query in block.queries.clone() {
                    let within = layer.within_reach(query, &block.keys);
                    let keys = block.keys.start + within.start..block.keys.start + within.end;
                    let first = query.saturating_sub(reach.unwrap_or(length));
                    let end = query.saturating_add(reach.unwrap_or(length));
                    assert_eq!(keys, first..end.saturating_add(1).min(length));
                }
                next = block.queries.end;
            }
            assert_eq!(next, length);
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
        assert!(largest <= 32 * 8192);
    }
}
