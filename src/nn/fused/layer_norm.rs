//! Layer normalisation over rows, forward and backward, fused with the bias, dropout and residual before it.
//!
//! ```text
//! forward:   x̂ = (x - mean(x)) · s,   s = 1 / √(variance(x) + ε),   y = γ ⊙ x̂ + β
//! backward:  g = γ ⊙ dy
//!            dx = s · (g - mean(g) - x̂ · mean(g ⊙ x̂))
//!            dγ = Σ rows (dy ⊙ x̂),   dβ = Σ rows dy
//! ```
//!
//! Means and the variance are taken over the width of a row.

use multiversion::multiversion;
use rayon::prelude::*;

use super::NormParams;
use super::math::{self, DropoutMask};

/// Rows per task of the thread pool, and per partial sum.
pub const BLOCK: usize = 32;

/// The values of a layer norm's forward pass which its backward pass needs.
#[derive(Debug)]
pub struct SavedNorm {
    /// x̂, rows with mean 0 and variance 1: `[rows, width]`.
    pub normalised: Vec<f32>,
    /// s, the inverse standard deviation of each row: `[rows]`.
    pub inverse_deviations: Vec<f32>,
}

/// `γ ⊙ normalise(prepare(rows)) + β`. `prepare` changes a block of rows in place, given the index of its first row.
pub fn layer_norm(
    mut rows: Vec<f32>,
    params: NormParams<&[f32]>,
    epsilon: f32,
    prepare: impl Fn(usize, &mut [f32]) + Sync,
) -> (Vec<f32>, SavedNorm) {
    let width = params.gamma.len();
    let mut inverse_deviations = vec![0f32; rows.len() / width];
    let mut output = vec![0f32; rows.len()];
    rows.par_chunks_mut(BLOCK * width)
        .zip(output.par_chunks_mut(BLOCK * width))
        .zip(inverse_deviations.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each(|(block, ((rows, output), inverse_deviations))| {
            prepare(block * BLOCK, rows);
            let NormParams { gamma, beta } = params;
            normalise_rows(rows, output, inverse_deviations, gamma, beta, epsilon);
        });
    let saved = SavedNorm {
        normalised: rows,
        inverse_deviations,
    };
    (output, saved)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn normalise_rows(
    rows: &mut [f32],
    output: &mut [f32],
    inverse_deviations: &mut [f32],
    gamma: &[f32],
    beta: &[f32],
    epsilon: f32,
) {
    let width = gamma.len();
    let scale = 1.0 / width as f32;
    for ((row, output), inverse_deviation) in rows
        .chunks_exact_mut(width)
        .zip(output.chunks_exact_mut(width))
        .zip(inverse_deviations)
    {
        let mean = math::sum(row) * scale;
        for value in row.iter_mut() {
            *value -= mean;
        }
        *inverse_deviation = 1.0 / (math::dot(row, row) * scale + epsilon).sqrt();
        for (((value, output), gamma), beta) in row.iter_mut().zip(output).zip(gamma).zip(beta) {
            *value *= *inverse_deviation;
            *output = *value * gamma + beta;
        }
    }
}

/// `γ ⊙ normalise(rows) + β` in place, on the calling thread.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn layer_norm_in_place(rows: &mut [f32], params: NormParams<&[f32]>, epsilon: f32) {
    let NormParams { gamma, beta } = params;
    let width = gamma.len();
    let scale = 1.0 / width as f32;
    for row in rows.chunks_exact_mut(width) {
        let mean = math::sum(row) * scale;
        for value in row.iter_mut() {
            *value -= mean;
        }
        let inverse_deviation = 1.0 / (math::dot(row, row) * scale + epsilon).sqrt();
        for ((value, gamma), beta) in row.iter_mut().zip(gamma).zip(beta) {
            *value = *value * inverse_deviation * gamma + beta;
        }
    }
}

/// `residual + dropout(rows + bias)`, the sum a transformer's sub-layer passes to its norm; for `prepare` of
/// [`layer_norm`].
pub fn add_bias_dropout_residual<'a>(
    bias: &'a [f32],
    residual: &'a [f32],
    dropout: Option<DropoutMask>,
) -> impl Fn(usize, &mut [f32]) + Sync + 'a {
    move |first_row, rows| {
        let first = first_row * bias.len();
        math::add_to_rows(rows, bias);
        if let Some(dropout) = dropout {
            dropout.apply(rows, first);
        }
        math::add(rows, &residual[first..first + rows.len()]);
    }
}

/// The backward pass of [`layer_norm`]: returns dγ and dβ, and replaces dy in `gradient` by dx.
pub fn layer_norm_backward(
    gradient: &mut [f32],
    gamma: &[f32],
    saved: &SavedNorm,
) -> NormParams<Vec<f32>> {
    let width = gamma.len();
    let partial_sums: Vec<Vec<f32>> = gradient
        .par_chunks_mut(BLOCK * width)
        .zip(saved.normalised.par_chunks(BLOCK * width))
        .zip(saved.inverse_deviations.par_chunks(BLOCK))
        .map(|((gradient, normalised), inverse_deviations)| {
            let mut sums = vec![0f32; 2 * width];
            normalise_rows_backward(gradient, normalised, inverse_deviations, gamma, &mut sums);
            sums
        })
        .collect();
    let mut gamma = add_in_order(&partial_sums, 2 * width);
    let beta = gamma.split_off(width);
    NormParams { gamma, beta }
}

/// Adds to `sums`, which holds dγ followed by dβ.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn normalise_rows_backward(
    gradient: &mut [f32],
    normalised: &[f32],
    inverse_deviations: &[f32],
    gamma: &[f32],
    sums: &mut [f32],
) {
    let width = gamma.len();
    let scale = 1.0 / width as f32;
    let (grad_gamma, grad_beta) = sums.split_at_mut(width);
    for ((gradient, row), inverse_deviation) in gradient
        .chunks_exact_mut(width)
        .zip(normalised.chunks_exact(width))
        .zip(inverse_deviations)
    {
        for ((((gradient, value), gamma), grad_gamma), grad_beta) in (gradient.iter_mut().zip(row))
            .zip(gamma)
            .zip(grad_gamma.iter_mut())
            .zip(grad_beta.iter_mut())
        {
            *grad_gamma += *gradient * value;
            *grad_beta += *gradient;
            *gradient *= gamma;
        }
        let mean = math::sum(gradient) * scale;
        let correlation = math::dot(gradient, row) * scale;
        for (gradient, value) in gradient.iter_mut().zip(row) {
            *gradient = inverse_deviation * (*gradient - mean - value * correlation);
        }
    }
}

/// The backward pass of `dropout(rows + bias)`: gradients of the rows and of the bias.
pub fn bias_dropout_backward(
    grad_output: &[f32],
    width: usize,
    dropout: Option<DropoutMask>,
) -> (Vec<f32>, Vec<f32>) {
    let mut grad_rows = grad_output.to_vec();
    if let Some(dropout) = dropout {
        apply_dropout(&mut grad_rows, dropout, width);
    }
    let grad_bias = column_sums(&grad_rows, width);
    (grad_rows, grad_bias)
}

/// Applies a dropout mask to rows, in parallel.
pub fn apply_dropout(rows: &mut [f32], dropout: DropoutMask, width: usize) {
    rows.par_chunks_mut(BLOCK * width)
        .enumerate()
        .for_each(|(block, rows)| dropout.apply(rows, block * BLOCK * width));
}

/// The sum of all rows.
pub fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    let partial_sums: Vec<Vec<f32>> = rows
        .par_chunks(BLOCK * width)
        .map(|rows| {
            let mut sums = vec![0f32; width];
            for row in rows.chunks_exact(width) {
                math::add(&mut sums, row);
            }
            sums
        })
        .collect();
    add_in_order(&partial_sums, width)
}

/// The sum of the blocks' partial sums, in the order of the blocks.
fn add_in_order(partial_sums: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut sums = vec![0f32; width];
    for partial in partial_sums {
        math::add(&mut sums, partial);
    }
    sums
}
