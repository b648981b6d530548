//! The backward pass of the attention; see `attention.rs` for its formulas.

use std::ops::Range;

use rayon::prelude::*;

use super::attention::{Block, Sequence, TASK, add_columns};
use super::{PreNormLayer, SavedLayer, softmax};
use crate::nn::fused::math;
use crate::nn::fused::matmul::{MatrixView, matmul_single_threaded};
use crate::nn::fused::transformer::attention::{Projections, split};

/// Gradients of one head for some queries of a sequence and the keys that they attend to: `[count, head width]` each.
struct HeadGradients {
    keys: Range<usize>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
}

impl PreNormLayer {
    /// Gradients of queries, keys and values, before their rotation, from `grad_context`, `[rows, width]`.
    pub(super) fn attention_backward(
        &self,
        saved: &SavedLayer,
        grad_context: &[f32],
    ) -> Projections {
        let zeros = || vec![0f32; grad_context.len()];
        let mut gradients = Projections {
            query: zeros(),
            key: zeros(),
            value: zeros(),
        };
        let sequences = self.sequences();
        let sizes = || sequences.iter().map(|s| s.length * self.width);
        let parts = split(&mut gradients.query, sizes())
            .into_par_iter()
            .zip(split(&mut gradients.key, sizes()))
            .zip(split(&mut gradients.value, sizes()));
        (sequences.par_iter().zip(parts)).for_each(|(sequence, ((query, key), value))| {
            // A task holds gradients of all keys that it looks at: with global attention, those of the whole sequence.
            let size = self.reach.map_or(sequence.length, |reach| reach.max(TASK));
            let tasks: Vec<(Range<usize>, usize)> = (0..sequence.length)
                .step_by(size.max(1))
                .flat_map(|first| {
                    let queries = first..first.saturating_add(size).min(sequence.length);
                    (0..self.heads).map(move |head| (queries.clone(), head))
                })
                .collect();
            let found: Vec<HeadGradients> = (tasks.par_iter())
                .map(|(queries, head)| {
                    self.head_backward(sequence, *head, queries.clone(), saved, grad_context)
                })
                .collect();
            // In order, so that sums do not depend on the number of threads.
            let (width, depth) = (self.width, self.head_width());
            for ((queries, head), found) in tasks.iter().zip(&found) {
                let (column, size) = (head * depth, [width, depth]);
                let first_key = found.keys.start * width;
                add_columns(
                    &mut query[queries.start * width..],
                    &found.query,
                    column,
                    size,
                );
                add_columns(&mut key[first_key..], &found.key, column, size);
                add_columns(&mut value[first_key..], &found.value, column, size);
            }
            for rows in [query, key] {
                let tasks = rows.par_chunks_mut(TASK * self.width).enumerate();
                tasks.for_each(|(task, rows)| {
                    self.rotation.rotate_back(rows, self.width, task * TASK);
                });
            }
        });
        gradients
    }

    /// The backward pass of some queries of a sequence and one head.
    fn head_backward(
        &self,
        sequence: &Sequence,
        head: usize,
        queries: Range<usize>,
        saved: &SavedLayer,
        grad_context: &[f32],
    ) -> HeadGradients {
        let depth = self.head_width();
        let reach = self.reach.unwrap_or(sequence.length).min(sequence.length);
        let keys = queries.start.saturating_sub(reach)..(queries.end + reach).min(sequence.length);
        let mut gradients = HeadGradients {
            query: vec![0f32; queries.len() * depth],
            key: vec![0f32; keys.len() * depth],
            value: vec![0f32; keys.len() * depth],
            keys,
        };
        let scale = 1.0 / (depth as f32).sqrt();
        let (mut probabilities, mut gradient, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let projections = &saved.projections;
        let blocks = self.blocks(queries.clone(), sequence.length);
        for block in blocks.flat_map(Block::parts) {
            let count = block.keys.len();
            self.scores(&mut probabilities, sequence, head, &block, projections);
            let rows = probabilities.chunks_exact_mut(count);
            for (query, row) in block.queries.clone().zip(rows) {
                let within = self.within_reach(query, &block.keys);
                row[..within.start].fill(0.0);
                row[within.end..].fill(0.0);
                let index = (sequence.first_row + query) * self.heads + head;
                softmax::probabilities(&mut row[within], saved.statistics[index]);
            }
            let square = MatrixView::new(block.queries.len(), count);
            let query_view = self.view(sequence, head, &block.queries);
            let key_view = self.view(sequence, head, &block.keys);
            gradient.resize(probabilities.len(), 0.0);
            matmul_single_threaded(
                (&mut gradient, square),
                0.0,
                (grad_context, query_view),
                (&projections.value, key_view.transposed()),
                1.0,
            );
            let kept = if self.dropout.attention.is_some() {
                dropped.clone_from(&probabilities);
                self.drop_probabilities(&mut dropped, sequence, head, &block);
                self.drop_probabilities(&mut gradient, sequence, head, &block);
                &dropped
            } else {
                &probabilities
            };
            let own = |first: usize, rows: usize| MatrixView::block(first, 0, [rows, depth], depth);
            let own_keys = own(block.keys.start - gradients.keys.start, count);
            let own_queries = own(block.queries.start - queries.start, block.queries.len());
            matmul_single_threaded(
                (&mut gradients.value, own_keys),
                1.0,
                (kept, square.transposed()),
                (grad_context, query_view),
                1.0,
            );
            let rows = probabilities.chunks_exact(count);
            let rows = gradient.chunks_exact_mut(count).zip(rows);
            for (query, (gradient, probabilities)) in block.queries.clone().zip(rows) {
                let first = (sequence.first_row + query) * self.width + head * depth;
                let columns = first..first + depth;
                let mean = math::dot(&grad_context[columns.clone()], &saved.context[columns]);
                softmax::backward(gradient, probabilities, mean, scale);
            }
            matmul_single_threaded(
                (&mut gradients.query, own_queries),
                1.0,
                (&gradient, square),
                (&projections.key, key_view),
                1.0,
            );
            matmul_single_threaded(
                (&mut gradients.key, own_keys),
                1.0,
                (&gradient, square.transposed()),
                (&projections.query, query_view),
                1.0,
            );
        }
        gradients
    }
}
