//! The products of linear layers, forward and backward.

use crate::nn::fused::product::{View, product};

/// `rows · weight + bias`.
pub(super) fn linear(rows: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let (from, to) = (weight.len() / bias.len(), bias.len());
    let count = rows.len() / from;
    let mut output = bias.repeat(count);
    product(
        (&mut output, View::new(count, to)),
        1.0,
        (rows, View::new(count, from)),
        (weight, View::new(from, to)),
        1.0,
    );
    output
}

/// `rows · weight`, the bias being added by whoever comes next.
pub(super) fn bare(rows: &[f32], weight: &[f32], to: usize) -> Vec<f32> {
    let from = weight.len() / to;
    let count = rows.len() / from;
    let mut output = vec![0f32; count * to];
    product(
        (&mut output, View::new(count, to)),
        0.0,
        (rows, View::new(count, from)),
        (weight, View::new(from, to)),
        1.0,
    );
    output
}

/// The gradient of a weight: `rowsᵀ · gradient`.
pub(super) fn weight_back(rows: &[f32], gradient: &[f32], [from, to]: [usize; 2]) -> Vec<f32> {
    let count = rows.len() / from;
    let mut output = vec![0f32; from * to];
    product(
        (&mut output, View::new(from, to)),
        0.0,
        (rows, View::new(count, from).turned()),
        (gradient, View::new(count, to)),
        1.0,
    );
    output
}

/// Adds `gradient · weightᵀ`, the gradient of a product's rows.
pub(super) fn rows_back(sum: &mut [f32], keep: f32, gradient: &[f32], weight: &[f32], to: usize) {
    let from = weight.len() / to;
    let count = gradient.len() / to;
    product(
        (sum, View::new(count, from)),
        keep,
        (gradient, View::new(count, to)),
        (weight, View::new(from, to).turned()),
        1.0,
    );
}
