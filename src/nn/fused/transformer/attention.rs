//! Multi-head self-attention within each sequence of packed rows, forward and backward.
//!
//! For each sequence of `n` rows and each head, with `q`, `k` and `v` the head's `d` columns of the projected rows:
//!
//! ```text
//! forward:   p = softmax(scale · q·kᵀ),   c = m·v   with m = mask ⊙ p (dropout)
//! backward:  dv = mᵀ·dc
//!            dp = mask ⊙ (dc·vᵀ)
//!            ds = scale · p ⊙ (dp - Σ p dp)   (each row of the softmax)
//!            dq = ds·k,   dk = dsᵀ·q
//! ```
//!
//! Relative positions add terms to the scores: see `positions.rs`.
//!
//! # Shapes
//! - q, k, v, c: `[n, d]`
//! - p, m, ds: `[n, n]`

use rayon::prelude::*;

use super::positions::{PositionInputs, PositionValues, SequenceGradients};
use super::{SavedLayer, TransformerLayer};
use crate::nn::fused::math;
use crate::nn::fused::matmul::{MatrixView, matmul};

/// Queries, keys and values of all sequences and heads, or their gradients: each `[rows, width]`.
#[derive(Debug)]
pub(super) struct Projections {
    pub(super) query: Vec<f32>,
    pub(super) key: Vec<f32>,
    pub(super) value: Vec<f32>,
}

/// The offsets of a sequence in the packed buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedSequence {
    /// Index of its first row.
    first_row: usize,
    /// Index of its first attention probability.
    first_probability: usize,
    /// Its number of rows.
    length: usize,
}

impl PackedSequence {
    /// The columns of a head in a buffer of all sequences' rows.
    pub(super) fn head_in_all_rows(&self, head: usize, layer: &TransformerLayer) -> MatrixView {
        let depth = layer.head_width();
        let size = [self.length, depth];
        MatrixView::block(self.first_row, head * depth, size, layer.width)
    }

    /// The columns of a head in a buffer of this sequence's rows alone.
    pub(super) fn head_in_own_rows(&self, head: usize, layer: &TransformerLayer) -> MatrixView {
        let depth = layer.head_width();
        MatrixView::block(0, head * depth, [self.length, depth], layer.width)
    }
}

/// Splits a buffer into consecutive parts of the given sizes.
pub(super) fn split(mut buffer: &mut [f32], sizes: impl Iterator<Item = usize>) -> Vec<&mut [f32]> {
    let mut parts = Vec::new();
    for size in sizes {
        let (part, rest) = buffer.split_at_mut(size);
        parts.push(part);
        buffer = rest;
    }
    parts
}

impl TransformerLayer {
    pub(super) fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// What the products of queries and keys are multiplied by.
    pub(super) fn score_scale(&self) -> f32 {
        1.0 / ((self.head_width() * self.score_terms) as f32).sqrt()
    }

    fn sequences(&self) -> Vec<PackedSequence> {
        let (mut first_row, mut first_probability) = (0, 0);
        let sequences = self.lengths.iter().map(|length| {
            let sequence = PackedSequence {
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

    /// The context vectors c, `[rows, width]`, and with `save` the probabilities p before dropout: for each sequence and
    /// head, `n²` of them.
    pub(super) fn attention_forward(
        &self,
        projections: &Projections,
        positions: Option<&PositionValues>,
        save: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let Projections { query, key, value } = projections;
        let sequences = self.sequences();
        let saved_size = |sequence: &PackedSequence| {
            if save {
                self.heads * sequence.length * sequence.length
            } else {
                0
            }
        };
        let mut context = vec![0f32; query.len()];
        let mut probabilities = vec![0f32; sequences.iter().map(saved_size).sum()];
        let contexts = split(
            &mut context,
            sequences.iter().map(|s| s.length * self.width),
        );
        let saved = split(&mut probabilities, sequences.iter().map(saved_size));
        let scale = self.score_scale();
        let dropout = self.dropout.map(|dropout| dropout.attention);
        (sequences.par_iter().zip(contexts).zip(saved)).for_each(|((sequence, context), saved)| {
            let length = sequence.length;
            let square = MatrixView::new(length, length);
            let mut scores = vec![0f32; length * length];
            let mut positions = positions.map(|positions| positions.of_length(length));
            for head in 0..self.heads {
                let view = sequence.head_in_all_rows(head, self);
                matmul(
                    (&mut scores, square),
                    0.0,
                    (query, view),
                    (key, view.transposed()),
                    scale,
                );
                if let Some(positions) = &mut positions {
                    positions.add_scores(&mut scores, self, (sequence, head), [query, key]);
                }
                for row in scores.chunks_exact_mut(length) {
                    math::softmax(row);
                }
                let first = head * length * length;
                if save {
                    saved[first..first + length * length].copy_from_slice(&scores);
                }
                if let Some(dropout) = dropout {
                    dropout.apply(&mut scores, sequence.first_probability + first);
                }
                let own_view = sequence.head_in_own_rows(head, self);
                let output = (&mut *context, own_view);
                matmul(output, 0.0, (&scores, square), (value, view), 1.0);
            }
        });
        (context, probabilities)
    }

    /// Gradients of queries, keys and values, and of the position inputs, from `grad_context`, `[rows, width]`.
    pub(super) fn attention_backward(
        &self,
        saved: &SavedLayer,
        positions: Option<&PositionValues>,
        grad_context: &[f32],
    ) -> (Projections, Option<PositionInputs<Vec<f32>>>) {
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
        let position_gradients = (sequences.par_iter().zip(parts))
            .map(|(sequence, ((query, key), value))| {
                let gradients = [query, key, value];
                self.sequence_backward(sequence, saved, positions, grad_context, gradients)
            })
            .collect::<Vec<Option<SequenceGradients>>>();
        let position_gradients = positions.map(|positions| {
            let parts = position_gradients.into_iter().flatten();
            positions.sum_gradients(self, parts)
        });
        (gradients, position_gradients)
    }

    /// The backward pass of one sequence. The gradients of its queries, keys and values are `[n, width]`. Returns those of
    /// the position inputs.
    fn sequence_backward(
        &self,
        sequence: &PackedSequence,
        saved: &SavedLayer,
        positions: Option<&PositionValues>,
        grad_context: &[f32],
        [grad_query, grad_key, grad_value]: [&mut [f32]; 3],
    ) -> Option<SequenceGradients> {
        let Projections { query, key, value } = &saved.projections;
        let scale = self.score_scale();
        let dropout = self.dropout.map(|dropout| dropout.attention);
        let length = sequence.length;
        let square = MatrixView::new(length, length);
        let mut dropped = vec![0f32; length * length];
        let mut gradient = vec![0f32; length * length];
        let mut positions = positions.map(|positions| positions.of_length(length));
        let mut position_gradients = positions.as_ref().map(|p| p.zero_gradients(self));
        for head in 0..self.heads {
            let view = sequence.head_in_all_rows(head, self);
            let own_view = sequence.head_in_own_rows(head, self);
            let first = sequence.first_probability + head * length * length;
            let probabilities = &saved.probabilities[first..first + length * length];
            dropped.copy_from_slice(probabilities);
            matmul(
                (&mut gradient, square),
                0.0,
                (grad_context, view),
                (value, view.transposed()),
                1.0,
            );
            if let Some(dropout) = dropout {
                dropout.apply(&mut dropped, first);
                dropout.apply(&mut gradient, first);
            }
            matmul(
                (grad_value, own_view),
                0.0,
                (&dropped, square.transposed()),
                (grad_context, view),
                1.0,
            );
            for (gradient, probabilities) in gradient
                .chunks_exact_mut(length)
                .zip(probabilities.chunks_exact(length))
            {
                math::softmax_backward(gradient, probabilities, scale);
            }
            matmul(
                (grad_query, own_view),
                0.0,
                (&gradient, square),
                (key, view),
                1.0,
            );
            matmul(
                (grad_key, own_view),
                0.0,
                (&gradient, square.transposed()),
                (query, view),
                1.0,
            );
            if let (Some(positions), Some(position_gradients)) =
                (&mut positions, &mut position_gradients)
            {
                positions.backward(
                    &gradient,
                    self,
                    (sequence, head),
                    [query, key],
                    [&mut *grad_query, &mut *grad_key],
                    position_gradients,
                );
            }
        }
        position_gradients
    }
}
