//! Terms of the attention scores that depend on the distance between two rows of a sequence, forward and backward.
//!
//! For rows `i` and `j` of a sequence, `r` is the row of the position inputs that belongs to the distance `j - i`. For each
//! head, with `K`, `Q` and `b` its columns of the position keys, position queries and biases:
//!
//! ```text
//! forward:   s[i][j] = scale · (q[i]·k[j] + q[i]·K[r] + k[j]·Q[r]) + b[r]
//!            The products A = q·Kᵀ and B = k·Qᵀ are computed first; A[i][r] and B[j][r] are then added to s[i][j].
//! backward:  dA[i][r] = Σ ds[i][j] over all j of that distance,   dq = ds·k + dA·K,   dK = dAᵀ·q
//!            dB[j][r] = Σ ds[i][j] over all i of that distance,   dk = dsᵀ·q + dB·Q,  dQ = dBᵀ·k
//!            db[r] = Σ ds[i][j] / scale over all i and j of that distance
//! ```
//!
//! `ds` is the gradient of the products, so it includes the scale. Each sequence uses only the position rows of the
//! distances that occur in it. The sums over sequences are taken in their order.
//!
//! # Shapes
//! - K, Q: `[position rows, d]`; b: `[position rows]`
//! - A, B: `[n, position rows of the sequence]`

use std::sync::Arc;

use super::TransformerLayer;
use super::attention::PackedSequence;
use crate::nn::fused::math;
use crate::nn::fused::matmul::{MatrixView, matmul};

/// The position inputs of a layer, as tensors, values or gradients. Those of terms that a layer does not have are `None`.
///
/// # Shapes
/// - keys, queries: `[position rows, width]`
/// - bias: `[position rows, heads]`
#[derive(Debug, Clone)]
pub struct PositionInputs<T> {
    /// Compared with the queries of the content.
    pub keys: Option<T>,
    /// Compared with the keys of the content.
    pub queries: Option<T>,
    /// Added to the scores.
    pub bias: Option<T>,
}

/// Number of position inputs.
pub(super) const POSITION_INPUTS: usize = 3;

impl<T> PositionInputs<T> {
    pub(super) fn into_array(self) -> [Option<T>; POSITION_INPUTS] {
        [self.keys, self.queries, self.bias]
    }

    pub(super) fn from_array([keys, queries, bias]: [Option<T>; POSITION_INPUTS]) -> Self {
        Self {
            keys,
            queries,
            bias,
        }
    }
}

/// The row of the position inputs for each distance between two rows of a sequence.
#[derive(Debug, Clone)]
pub struct DistanceRows(Arc<[usize]>);

impl DistanceRows {
    /// Rows for the distances `j - i` from `1 - longest` to `longest - 1`, in this order. Each row is the one before it or
    /// the next.
    pub fn new(rows: Vec<usize>) -> Self {
        debug_assert!(rows.len() % 2 == 1);
        debug_assert!(
            rows.windows(2)
                .all(|pair| pair[1].wrapping_sub(pair[0]) < 2)
        );
        Self(rows.into())
    }

    /// The rows for all distances of the longest sequence.
    pub fn all(&self) -> &[usize] {
        &self.0
    }

    /// The rows for all distances of a sequence of so many rows.
    fn of_length(&self, length: usize) -> &[usize] {
        let longest = self.0.len().div_ceil(2);
        &self.0[longest - length..longest + length - 1]
    }
}

/// The values of a layer's position inputs.
#[derive(Debug, Clone)]
pub(super) struct PositionValues<'a> {
    pub(super) rows: &'a DistanceRows,
    pub(super) inputs: PositionInputs<&'a [f32]>,
}

/// The position rows that occur in one sequence, and buffers for its heads.
pub(super) struct SequencePositions<'a> {
    inputs: &'a PositionInputs<&'a [f32]>,
    /// Rows for the distances from `1 - n` to `n - 1`.
    rows: &'a [usize],
    /// The first of the rows, and their number.
    first: usize,
    count: usize,
    length: usize,
    /// A, B or a gradient of them.
    products: Vec<f32>,
    /// The bias of each distance, or its gradient.
    biases: Vec<f32>,
}

/// The gradients of the position rows of one sequence.
pub(super) struct SequenceGradients {
    first: usize,
    gradients: PositionInputs<Vec<f32>>,
}

impl<'a> PositionValues<'a> {
    /// The positions of a sequence of so many rows, at least one.
    pub(super) fn of_length(&'a self, length: usize) -> SequencePositions<'a> {
        let rows = self.rows.of_length(length);
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        let count = last - first + 1;
        let has_products = self.inputs.keys.is_some() || self.inputs.queries.is_some();
        SequencePositions {
            inputs: &self.inputs,
            rows,
            first,
            count,
            length,
            products: vec![0f32; if has_products { length * count } else { 0 }],
            biases: vec![
                0f32;
                if self.inputs.bias.is_some() {
                    rows.len()
                } else {
                    0
                }
            ],
        }
    }

    /// The sum of the gradients of all sequences, in their order.
    pub(super) fn sum_gradients(
        &self,
        layer: &TransformerLayer,
        parts: impl Iterator<Item = SequenceGradients>,
    ) -> PositionInputs<Vec<f32>> {
        let zeros = |input: Option<&[f32]>| input.map(|input| vec![0f32; input.len()]);
        let mut sums = PositionInputs {
            keys: zeros(self.inputs.keys),
            queries: zeros(self.inputs.queries),
            bias: zeros(self.inputs.bias),
        };
        for SequenceGradients { first, gradients } in parts {
            for (sum, part, width) in [
                (&mut sums.keys, gradients.keys, layer.width),
                (&mut sums.queries, gradients.queries, layer.width),
                (&mut sums.bias, gradients.bias, layer.heads),
            ] {
                if let (Some(sum), Some(part)) = (sum, part) {
                    math::add(&mut sum[first * width..][..part.len()], &part);
                }
            }
        }
        sums
    }
}

impl SequencePositions<'_> {
    /// The sequence's rows of the position keys or queries, columns of a head.
    fn head_view(&self, head: usize, layer: &TransformerLayer) -> MatrixView {
        let depth = layer.head_width();
        let size = [self.count, depth];
        MatrixView::block(self.first, head * depth, size, layer.width)
    }

    /// Adds the terms of a head to its scores `[n, n]`, of which the products are already scaled.
    pub(super) fn add_scores(
        &mut self,
        scores: &mut [f32],
        layer: &TransformerLayer,
        (sequence, head): (&PackedSequence, usize),
        [query, key]: [&[f32]; 2],
    ) {
        let (length, count, first) = (self.length, self.count, self.first);
        let view = sequence.head_in_all_rows(head, layer);
        let position_view = self.head_view(head, layer).transposed();
        let product_view = MatrixView::new(length, count);
        let multiply = |products: &mut [f32], content: &[f32], positions: &[f32]| {
            matmul(
                (products, product_view),
                0.0,
                (content, view),
                (positions, position_view),
                layer.score_scale(),
            );
        };
        if let Some(keys) = self.inputs.keys {
            multiply(&mut self.products, query, keys);
            for (i, (scores, products)) in (scores.chunks_exact_mut(length))
                .zip(self.products.chunks_exact(count))
                .enumerate()
            {
                let rows = &self.rows[length - 1 - i..][..length];
                for (score, row) in scores.iter_mut().zip(rows) {
                    *score += products[row - first];
                }
            }
        }
        if let Some(queries) = self.inputs.queries {
            multiply(&mut self.products, key, queries);
            for (i, scores) in scores.chunks_exact_mut(length).enumerate() {
                let rows = &self.rows[length - 1 - i..][..length];
                let products = self.products.chunks_exact(count);
                for ((score, row), products) in scores.iter_mut().zip(rows).zip(products) {
                    *score += products[row - first];
                }
            }
        }
        if let Some(bias) = self.inputs.bias {
            for (value, row) in self.biases.iter_mut().zip(self.rows) {
                *value = bias[row * layer.heads + head];
            }
            for (i, scores) in scores.chunks_exact_mut(length).enumerate() {
                math::add(scores, &self.biases[length - 1 - i..][..length]);
            }
        }
    }

    /// Gradients of zero for the sequence's position rows.
    pub(super) fn zero_gradients(&self, layer: &TransformerLayer) -> SequenceGradients {
        let zeros = |has: Option<&[f32]>, width: usize| has.map(|_| vec![0f32; self.count * width]);
        SequenceGradients {
            first: self.first,
            gradients: PositionInputs {
                keys: zeros(self.inputs.keys, layer.width),
                queries: zeros(self.inputs.queries, layer.width),
                bias: zeros(self.inputs.bias, layer.heads),
            },
        }
    }

    /// The backward pass of [`add_scores`](Self::add_scores) from `ds`, `[n, n]`: adds to the gradients of the sequence's
    /// queries and keys, `[n, width]`, and sets those of its position rows for the head.
    pub(super) fn backward(
        &mut self,
        grad_scores: &[f32],
        layer: &TransformerLayer,
        (sequence, head): (&PackedSequence, usize),
        [query, key]: [&[f32]; 2],
        [grad_query, grad_key]: [&mut [f32]; 2],
        position_gradients: &mut SequenceGradients,
    ) {
        let (length, count, first) = (self.length, self.count, self.first);
        let gradients = &mut position_gradients.gradients;
        let view = sequence.head_in_all_rows(head, layer);
        let own_view = sequence.head_in_own_rows(head, layer);
        let position_view = self.head_view(head, layer);
        let depth = layer.head_width();
        let gradient_view = MatrixView::block(0, head * depth, [count, depth], layer.width);
        let product_view = MatrixView::new(length, count);
        let multiply = |products: &[f32],
                        (content, grad_content): (&[f32], &mut [f32]),
                        (positions, grad_positions): (&[f32], &mut [f32])| {
            matmul(
                (grad_content, own_view),
                1.0,
                (products, product_view),
                (positions, position_view),
                1.0,
            );
            matmul(
                (grad_positions, gradient_view),
                0.0,
                (products, product_view.transposed()),
                (content, view),
                1.0,
            );
        };
        if let (Some(keys), Some(grad_keys)) = (self.inputs.keys, &mut gradients.keys) {
            self.products.fill(0.0);
            for (i, (grad_scores, products)) in (grad_scores.chunks_exact(length))
                .zip(self.products.chunks_exact_mut(count))
                .enumerate()
            {
                let rows = &self.rows[length - 1 - i..][..length];
                for (gradient, row) in grad_scores.iter().zip(rows) {
                    products[row - first] += gradient;
                }
            }
            multiply(&self.products, (query, grad_query), (keys, grad_keys));
        }
        if let (Some(queries), Some(grad_queries)) = (self.inputs.queries, &mut gradients.queries) {
            self.products.fill(0.0);
            for (i, grad_scores) in grad_scores.chunks_exact(length).enumerate() {
                let rows = &self.rows[length - 1 - i..][..length];
                let products = self.products.chunks_exact_mut(count);
                for ((gradient, row), products) in grad_scores.iter().zip(rows).zip(products) {
                    products[row - first] += gradient;
                }
            }
            multiply(&self.products, (key, grad_key), (queries, grad_queries));
        }
        if let Some(grad_bias) = &mut gradients.bias {
            self.biases.fill(0.0);
            for (i, grad_scores) in grad_scores.chunks_exact(length).enumerate() {
                math::add(&mut self.biases[length - 1 - i..][..length], grad_scores);
            }
            for (gradient, row) in self.biases.iter().zip(self.rows) {
                grad_bias[(row - first) * layer.heads + head] += gradient / layer.score_scale();
            }
        }
    }
}
