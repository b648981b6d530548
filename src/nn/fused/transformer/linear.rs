//! Linear layers over rows, forward and backward.
//!
//! ```text
//! forward:   y = x·W + b
//! backward:  dx = dy·Wᵀ,   dW = xᵀ·dy,   db = Σ rows dy
//! ```
//!
//! # Shapes
//! - x: `[rows, inputs]`
//! - W: `[inputs, outputs]`
//! - b: `[outputs]`
//! - y: `[rows, outputs]`

use crate::nn::fused::LinearParams;
use crate::nn::fused::matmul::{MatrixView, matmul};

/// `x·W + b`.
pub(super) fn linear(rows: &[f32], params: LinearParams<&[f32]>) -> Vec<f32> {
    let LinearParams { weight, bias } = params;
    let (inputs, outputs) = (weight.len() / bias.len(), bias.len());
    let count = rows.len() / inputs;
    let mut output = bias.repeat(count);
    matmul(
        (&mut output, MatrixView::new(count, outputs)),
        1.0,
        (rows, MatrixView::new(count, inputs)),
        (weight, MatrixView::new(inputs, outputs)),
        1.0,
    );
    output
}

/// `x·W`; the bias is added by the next operation.
pub(super) fn linear_without_bias(rows: &[f32], weight: &[f32], outputs: usize) -> Vec<f32> {
    let inputs = weight.len() / outputs;
    let count = rows.len() / inputs;
    let mut output = vec![0f32; count * outputs];
    matmul(
        (&mut output, MatrixView::new(count, outputs)),
        0.0,
        (rows, MatrixView::new(count, inputs)),
        (weight, MatrixView::new(inputs, outputs)),
        1.0,
    );
    output
}

/// `dW = xᵀ·dy`.
pub(super) fn weight_gradient(
    rows: &[f32],
    grad_output: &[f32],
    [inputs, outputs]: [usize; 2],
) -> Vec<f32> {
    let count = rows.len() / inputs;
    let mut gradient = vec![0f32; inputs * outputs];
    matmul(
        (&mut gradient, MatrixView::new(inputs, outputs)),
        0.0,
        (rows, MatrixView::new(count, inputs).transposed()),
        (grad_output, MatrixView::new(count, outputs)),
        1.0,
    );
    gradient
}

/// `dx = beta · dx + dy·Wᵀ`: sets the gradient of the input with `beta` 0, adds to it with `beta` 1.
pub(super) fn input_gradient(
    grad_input: &mut [f32],
    beta: f32,
    grad_output: &[f32],
    weight: &[f32],
    outputs: usize,
) {
    let inputs = weight.len() / outputs;
    let count = grad_output.len() / outputs;
    matmul(
        (grad_input, MatrixView::new(count, inputs)),
        beta,
        (grad_output, MatrixView::new(count, outputs)),
        (weight, MatrixView::new(inputs, outputs).transposed()),
        1.0,
    );
}
