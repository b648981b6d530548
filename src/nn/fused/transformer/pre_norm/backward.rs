//! The backward passes of a pre-norm layer's two halves.

use std::borrow::Cow;

use rayon::prelude::*;

use super::{OptionalLinear, OptionalNorm, PreNormLayer, PreNormParams, SavedLayer, feed_forward};
use crate::nn::fused::layer_norm::{self, BLOCK, SavedNorm};
use crate::nn::fused::math;
use crate::nn::fused::transformer::linear::{input_gradient, weight_gradient};

/// Gradients of the parameters of the feed-forward network and its norm.
pub(super) struct FeedForwardGradients {
    pub(super) inner: OptionalLinear<Vec<f32>>,
    pub(super) gate: OptionalLinear<Vec<f32>>,
    pub(super) outer: OptionalLinear<Vec<f32>>,
    pub(super) norm: OptionalNorm<Vec<f32>>,
}

/// Gradients of the parameters of the attention and its norm.
pub(super) struct AttentionGradients {
    pub(super) query: OptionalLinear<Vec<f32>>,
    pub(super) key: OptionalLinear<Vec<f32>>,
    pub(super) value: OptionalLinear<Vec<f32>>,
    pub(super) output: OptionalLinear<Vec<f32>>,
    pub(super) norm: Option<OptionalNorm<Vec<f32>>>,
}

/// Gradients of a linear layer's parameters, from its input and the gradient of its output.
fn linear_gradients(
    rows: &[f32],
    grad_output: &[f32],
    params: OptionalLinear<&[f32]>,
    size: [usize; 2],
) -> OptionalLinear<Vec<f32>> {
    OptionalLinear {
        weight: weight_gradient(rows, grad_output, size),
        bias: (params.bias).map(|_| layer_norm::column_sums(grad_output, size[1])),
    }
}

/// The output of a norm, `γ ⊙ x̂ + β`, from its saved values.
fn norm_output(saved: &SavedNorm, params: OptionalNorm<&[f32]>) -> Vec<f32> {
    let width = params.gamma.len();
    let mut output = saved.normalised.clone();
    output.par_chunks_mut(BLOCK * width).for_each(|rows| {
        for row in rows.chunks_exact_mut(width) {
            math::multiply(row, params.gamma);
            if let Some(beta) = params.beta {
                math::add(row, beta);
            }
        }
    });
    output
}

/// Adds to dy the gradient through a norm, of whose output `gradient` is the gradient, and returns that of its parameters.
fn norm_backward(
    mut gradient: Vec<f32>,
    params: OptionalNorm<&[f32]>,
    saved: &SavedNorm,
    sum: &mut [f32],
) -> OptionalNorm<Vec<f32>> {
    let norm = layer_norm::layer_norm_backward(&mut gradient, params.gamma, saved);
    let block = BLOCK * params.gamma.len();
    (sum.par_chunks_mut(block))
        .zip(gradient.par_chunks(block))
        .for_each(|(sum, gradient)| math::add(sum, gradient));
    OptionalNorm {
        gamma: norm.gamma,
        beta: params.beta.map(|_| norm.beta),
    }
}

impl PreNormLayer {
    /// Replaces dz in `gradient` by dy.
    pub(super) fn feed_forward_backward(
        &self,
        params: &PreNormParams<&[f32]>,
        saved: &SavedLayer,
        gradient: &mut [f32],
    ) -> FeedForwardGradients {
        let (width, inner) = (self.width, self.inner);
        let mut grad_gated = vec![0f32; saved.hidden.len()];
        input_gradient(&mut grad_gated, 0.0, gradient, params.outer.weight, width);
        let dropout = self.dropout.feed_forward;
        let gated =
            feed_forward::gate_backward(&saved.hidden, &saved.gate, grad_gated, inner, dropout);
        let outer = linear_gradients(&gated.gated, gradient, params.outer, [inner, width]);
        let normalised = norm_output(&saved.feed_forward_norm, params.feed_forward_norm);
        let size = [width, inner];
        let inner_gradients = linear_gradients(&normalised, &gated.hidden, params.inner, size);
        let gate = linear_gradients(&normalised, &gated.gate, params.gate, size);
        let mut grad_normalised = normalised;
        let weights = [(&gated.hidden, params.inner), (&gated.gate, params.gate)];
        for (beta, (grad_output, params)) in [0.0, 1.0].into_iter().zip(weights) {
            input_gradient(
                &mut grad_normalised,
                beta,
                grad_output,
                params.weight,
                inner,
            );
        }
        let norm = params.feed_forward_norm;
        FeedForwardGradients {
            inner: inner_gradients,
            gate,
            outer,
            norm: norm_backward(grad_normalised, norm, &saved.feed_forward_norm, gradient),
        }
    }

    /// Replaces dy in `gradient` by dx.
    pub(super) fn attention_block_backward(
        &self,
        states: &[f32],
        params: &PreNormParams<&[f32]>,
        saved: &SavedLayer,
        gradient: &mut [f32],
    ) -> AttentionGradients {
        let width = self.width;
        let mut grad_attended = Cow::Borrowed(&*gradient);
        if let Some(dropout) = self.dropout.attention_output {
            layer_norm::apply_dropout(grad_attended.to_mut(), dropout, width);
        }
        let output = linear_gradients(
            &saved.context,
            &grad_attended,
            params.output,
            [width, width],
        );
        let mut grad_context = vec![0f32; gradient.len()];
        let weight = params.output.weight;
        input_gradient(&mut grad_context, 0.0, &grad_attended, weight, width);
        drop(grad_attended);
        let projected = self.attention_backward(saved, &grad_context);
        // dx̄ in a buffer of its own if it goes through a norm, else added to dy.
        let norm = params.attention_norm.zip(saved.attention_norm.as_ref());
        let normalised = match norm {
            Some((norm, saved)) => Cow::Owned(norm_output(saved, norm)),
            None => Cow::Borrowed(states),
        };
        let projection = |grad_output: &[f32], params: OptionalLinear<&[f32]>| {
            linear_gradients(&normalised, grad_output, params, [width, width])
        };
        let [query, key, value] = [
            projection(&projected.query, params.query),
            projection(&projected.key, params.key),
            projection(&projected.value, params.value),
        ];
        let grad_projections = [
            (&projected.query, params.query),
            (&projected.key, params.key),
            (&projected.value, params.value),
        ];
        let add_to = |sum: &mut [f32], first_beta: f32| {
            for (beta, (grad_output, params)) in
                [first_beta, 1.0, 1.0].into_iter().zip(grad_projections)
            {
                input_gradient(sum, beta, grad_output, params.weight, width);
            }
        };
        let norm = match norm {
            Some((norm, saved)) => {
                // The buffer of dc is free.
                add_to(&mut grad_context, 0.0);
                Some(norm_backward(grad_context, norm, saved, gradient))
            }
            None => {
                add_to(gradient, 1.0);
                None
            }
        };
        AttentionGradients {
            query,
            key,
            value,
            output,
            norm,
        }
    }
}
