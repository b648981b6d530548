//! Layer norm with what stands around it: bias, dropout and residual before, dropout after.

use multiversion::multiversion;
use rayon::prelude::*;

use super::math::{self, Dropout, dropout};

/// Rows a thread takes at once, and over which sums are taken in one go.
pub const BLOCK: usize = 32;

/// What the backward pass of a norm needs.
#[derive(Debug)]
pub struct Normalised {
    /// Rows with mean 0 and variance 1.
    pub rows: Vec<f32>,
    /// The factor of each row that made its variance 1.
    pub factors: Vec<f32>,
}

/// `γ ⊙ norm(rows) + β`.
pub fn norm(
    mut rows: Vec<f32>,
    [gain, shift]: [&[f32]; 2],
    epsilon: f32,
    before: impl Fn(usize, &mut [f32]) + Sync,
) -> (Vec<f32>, Normalised) {
    let width = gain.len();
    let mut factors = vec![0f32; rows.len() / width];
    let mut output = vec![0f32; rows.len()];
    rows.par_chunks_mut(BLOCK * width)
        .zip(output.par_chunks_mut(BLOCK * width))
        .zip(factors.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each(|(block, ((rows, output), factors))| {
            before(block * BLOCK, rows);
            norm_rows(rows, output, factors, gain, shift, epsilon);
        });
    (output, Normalised { rows, factors })
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn norm_rows(
    rows: &mut [f32],
    output: &mut [f32],
    factors: &mut [f32],
    gain: &[f32],
    shift: &[f32],
    epsilon: f32,
) {
    let width = gain.len();
    let scale = 1.0 / width as f32;
    for ((row, output), factor) in rows
        .chunks_exact_mut(width)
        .zip(output.chunks_exact_mut(width))
        .zip(factors)
    {
        let mean = math::sum(row) * scale;
        for value in row.iter_mut() {
            *value -= mean;
        }
        *factor = 1.0 / (math::dot(row, row) * scale + epsilon).sqrt();
        for (((value, output), gain), shift) in row.iter_mut().zip(output).zip(gain).zip(shift) {
            *value *= *factor;
            *output = *value * gain + shift;
        }
    }
}

/// `dropout(rows + bias) + residual`: what a sub-layer hands to its norm. For [`norm`]'s `before`.
pub fn residual<'a>(
    bias: &'a [f32],
    residual: &'a [f32],
    rule: Option<Dropout>,
) -> impl Fn(usize, &mut [f32]) + Sync + 'a {
    move |first, rows| {
        let place = first * bias.len();
        math::add_row(rows, bias);
        if let Some(rule) = rule {
            dropout(rows, rule, place);
        }
        math::add(rows, &residual[place..place + rows.len()]);
    }
}

/// Gradients of gain and shift; `gradient` becomes that of the rows before the norm.
pub fn norm_back(gradient: &mut [f32], gain: &[f32], saved: &Normalised) -> [Vec<f32>; 2] {
    let width = gain.len();
    let partial: Vec<Vec<f32>> = gradient
        .par_chunks_mut(BLOCK * width)
        .zip(saved.rows.par_chunks(BLOCK * width))
        .zip(saved.factors.par_chunks(BLOCK))
        .map(|((gradient, rows), factors)| {
            let mut sums = vec![0f32; 2 * width];
            norm_back_rows(gradient, rows, factors, gain, &mut sums);
            sums
        })
        .collect();
    let mut gains = total(&partial, 2 * width);
    let shifts = gains.split_off(width);
    [gains, shifts]
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn norm_back_rows(
    gradient: &mut [f32],
    rows: &[f32],
    factors: &[f32],
    gain: &[f32],
    sums: &mut [f32],
) {
    let width = gain.len();
    let scale = 1.0 / width as f32;
    let (gains, shifts) = sums.split_at_mut(width);
    for ((gradient, row), factor) in gradient
        .chunks_exact_mut(width)
        .zip(rows.chunks_exact(width))
        .zip(factors)
    {
        for ((((above, value), gain), gains), shifts) in (gradient.iter_mut().zip(row))
            .zip(gain)
            .zip(gains.iter_mut())
            .zip(shifts.iter_mut())
        {
            *gains += *above * value;
            *shifts += *above;
            *above *= gain;
        }
        let mean = math::sum(gradient) * scale;
        let slope = math::dot(gradient, row) * scale;
        for (above, value) in gradient.iter_mut().zip(row) {
            *above = factor * (*above - mean - value * slope);
        }
    }
}

/// The gradient through `dropout(rows + bias)` and the bias's.
pub fn bias_back(above: &[f32], width: usize, rule: Option<Dropout>) -> (Vec<f32>, Vec<f32>) {
    let mut through = above.to_vec();
    if let Some(rule) = rule {
        through
            .par_chunks_mut(BLOCK * width)
            .enumerate()
            .for_each(|(block, rows)| dropout(rows, rule, block * BLOCK * width));
    }
    let bias = column_sums(&through, width);
    (through, bias)
}

/// The sum of all rows.
pub fn column_sums(rows: &[f32], width: usize) -> Vec<f32> {
    let partial: Vec<Vec<f32>> = rows
        .par_chunks(BLOCK * width)
        .map(|rows| {
            let mut sums = vec![0f32; width];
            for row in rows.chunks_exact(width) {
                math::add(&mut sums, row);
            }
            sums
        })
        .collect();
    total(&partial, width)
}

/// Blocks' sums in the order of the blocks.
fn total(partial: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut sums = vec![0f32; width];
    for part in partial {
        math::add(&mut sums, part);
    }
    sums
}
