//! A pre-norm transformer layer (as in ModernBERT) over packed rows: sequences follow each other without padding.

mod attention;
mod attention_backward;
mod backward;
mod feed_forward;
mod int8;
mod params;
mod softmax;

use std::borrow::Cow;
use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::attention::Projections;
use super::linear::linear_without_bias;
use crate::nn::fused::layer_norm::{self, BLOCK, SavedNorm};
use crate::nn::fused::math::{self, DropoutMask};
use crate::nn::fused::{Kernel, KernelInput, NormParams, apply};
use crate::nn::rotary::RotaryTable;
use params::{INPUTS, PreNormInputs, Present};
pub use params::{OptionalLinear, OptionalNorm, PreNormParams};
use softmax::SoftmaxStatistics;

/// A transformer layer: self-attention with rotary positions and a gated feed-forward network, each after a norm and with a
/// residual. It is the fused form of `encoder::transformer`'s pre-norm layer with GELU.
///
/// ```text
/// forward:   x̄ = LayerNorm₁(x),  or x in a layer without that norm
///            q = rotate(x̄·Wq + bq),   k = rotate(x̄·Wk + bk),   v = x̄·Wv + bv
///            c = dropout₁(softmax(q·kᵀ / √d))·v             per sequence and head, within reach
///            y = x + dropout₂(c·Wo + bo)
///            ȳ = LayerNorm₂(y)
///            h = ȳ·W₁ + b₁,   g = ȳ·W₃ + b₃,   a = dropout₃(gelu(h) ⊙ g)
///            z = y + a·W₂ + b₂
///
/// backward, with dropoutᵢ(t) = maskᵢ ⊙ t:
///            dW₂ = aᵀ·dz,   db₂ = Σ rows dz;                da = dz·W₂ᵀ
///            dh, dg from da through the gate;               dW₁ = ȳᵀ·dh,   db₁ = Σ rows dh;   likewise for g
///            dȳ = dh·W₁ᵀ + dg·W₃ᵀ
///            dy = dz + dȳ through LayerNorm₂;               dγ₂, dβ₂ likewise
///            t = mask₂ ⊙ dy;                                dWo = cᵀ·t,   dbo = Σ rows t
///            dc = t·Woᵀ;   dq, dk, dv from dc through the attention and the rotation
///            dWq = x̄ᵀ·dq,   dbq = Σ rows dq;                likewise for k and v
///            dx̄ = dq·Wqᵀ + dk·Wkᵀ + dv·Wvᵀ
///            dx = dy + dx̄ through LayerNorm₁;               dγ₁, dβ₁ likewise
/// ```
///
/// # Shapes
/// - x, q, k, v, c, y, z: `[rows, width]`; `rows` is the sum of `lengths`
/// - h, g, a: `[rows, inner]`
/// - Wq, Wk, Wv, Wo: `[width, width]`; W₁, W₃: `[width, inner]`; W₂: `[inner, width]`
#[derive(Debug, Clone)]
pub struct PreNormLayer {
    /// Rows of each sequence, in the order in which they follow each other.
    pub lengths: Arc<Vec<usize>>,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the states.
    pub width: usize,
    /// Width of the feed-forward network's hidden layer.
    pub inner: usize,
    /// Epsilon of both norms.
    pub epsilon: f32,
    /// The rotation of queries and keys, for at least as many positions as the longest sequence has.
    pub rotation: Arc<RotaryTable>,
    /// Largest distance of two rows that attend to each other; `None` for any distance.
    pub reach: Option<usize>,
    /// Dropout, in training.
    pub dropout: PreNormDropout,
    /// Keep only the inputs for the backward pass, and compute everything else again there.
    pub recompute: bool,
}

/// The three dropout masks of a pre-norm layer; `None` where nothing is dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct PreNormDropout {
    attention: Option<DropoutMask>,
    attention_output: Option<DropoutMask>,
    feed_forward: Option<DropoutMask>,
}

impl PreNormDropout {
    /// Masks for the layer of this index, which drop attention probabilities, outputs of the attention, and gated values of
    /// the feed-forward network with the given probabilities.
    pub fn new(seed: u32, layer: usize, attention: f64, feed_forward: f64) -> Self {
        let stream = 3 * layer as u32 + 1;
        let mask = |probability: f64, stream: u32| {
            (probability > 0.0).then(|| DropoutMask::new(probability, seed, stream))
        };
        Self {
            attention: mask(attention, stream),
            attention_output: mask(attention, stream + 1),
            feed_forward: mask(feed_forward, stream + 2),
        }
    }
}

impl PreNormLayer {
    /// Applies the layer.
    ///
    /// # Shapes
    /// - states: `[rows, width]`
    /// - output: `[rows, width]`
    pub fn forward(self, states: Tensor<2>, params: PreNormParams<KernelInput>) -> Tensor<2> {
        let (shape, device) = (states.dims(), states.device());
        let inputs = PreNormInputs {
            states: states.into(),
            params,
        };
        let (inputs, present) = inputs.filled(&device);
        let kernel = PreNormKernel {
            layer: self,
            present,
        };
        apply(kernel, inputs, shape)
    }

    /// `x·W + b`.
    fn linear(&self, rows: &[f32], params: OptionalLinear<&[f32]>, outputs: usize) -> Vec<f32> {
        let mut output = linear_without_bias(rows, params.weight, outputs);
        if let Some(bias) = params.bias {
            let blocks = output.par_chunks_mut(BLOCK * outputs);
            blocks.for_each(|rows| math::add_to_rows(rows, bias));
        }
        output
    }

    fn norm(&self, rows: &[f32], params: OptionalNorm<&[f32]>) -> (Vec<f32>, SavedNorm) {
        let zeros;
        let beta = match params.beta {
            Some(beta) => beta,
            None => {
                zeros = vec![0f32; self.width];
                &zeros
            }
        };
        let gamma = params.gamma;
        layer_norm::layer_norm(
            rows.to_vec(),
            NormParams { gamma, beta },
            self.epsilon,
            |_, _| {},
        )
    }

    /// `rows += bias`, then dropout, then `rows += residual`.
    fn add_residual(
        &self,
        rows: &mut [f32],
        bias: Option<&[f32]>,
        dropout: Option<DropoutMask>,
        residual: &[f32],
    ) {
        let block = BLOCK * self.width;
        (rows.par_chunks_mut(block))
            .zip(residual.par_chunks(block))
            .enumerate()
            .for_each(|(index, (rows, residual))| {
                if let Some(bias) = bias {
                    math::add_to_rows(rows, bias);
                }
                if let Some(dropout) = dropout {
                    dropout.apply(rows, index * block);
                }
                math::add(rows, residual);
            });
    }
}

/// A pre-norm layer, and which of its optional parameters there are.
#[derive(Debug, Clone)]
struct PreNormKernel {
    layer: PreNormLayer,
    present: Present,
}

/// The values of a layer's forward pass which its backward pass needs.
#[derive(Debug)]
struct SavedLayer {
    attention_norm: Option<SavedNorm>,
    /// q and k after their rotation, and v.
    projections: Projections,
    statistics: Vec<SoftmaxStatistics>,
    /// c.
    context: Vec<f32>,
    feed_forward_norm: SavedNorm,
    /// h.
    hidden: Vec<f32>,
    /// g.
    gate: Vec<f32>,
}

impl Kernel<INPUTS> for PreNormKernel {
    type Saved = SavedLayer;

    fn recomputes(&self) -> bool {
        self.layer.recompute
    }

    fn forward(&self, inputs: [&[f32]; INPUTS], save: bool) -> (Vec<f32>, Option<SavedLayer>) {
        let PreNormInputs { states, params } = PreNormInputs::from_array(inputs, self.present);
        let (layer, width, inner) = (&self.layer, self.layer.width, self.layer.inner);
        let (normalised, attention_norm) = match params.attention_norm {
            Some(norm) => {
                let (normalised, saved) = layer.norm(states, norm);
                (Cow::Owned(normalised), save.then_some(saved))
            }
            None => (Cow::Borrowed(states), None),
        };
        let mut projections = Projections {
            query: layer.linear(&normalised, params.query, width),
            key: layer.linear(&normalised, params.key, width),
            value: layer.linear(&normalised, params.value, width),
        };
        drop(normalised);
        layer.rotate(&mut projections.query);
        layer.rotate(&mut projections.key);
        let (context, statistics) = layer.attention_forward(&projections, save);
        let mut output = linear_without_bias(&context, params.output.weight, width);
        let dropout = layer.dropout.attention_output;
        layer.add_residual(&mut output, params.output.bias, dropout, states);
        let attention = save.then_some((projections, context));
        let (normalised, feed_forward_norm) = layer.norm(&output, params.feed_forward_norm);
        let hidden = layer.linear(&normalised, params.inner, inner);
        let gate = layer.linear(&normalised, params.gate, inner);
        let dropout = layer.dropout.feed_forward;
        let gated = feed_forward::gate(&hidden, &gate, inner, dropout);
        let mut transformed = linear_without_bias(&gated, params.outer.weight, width);
        layer.add_residual(&mut transformed, params.outer.bias, None, &output);
        let saved = attention.map(|(projections, context)| SavedLayer {
            attention_norm,
            projections,
            statistics,
            context,
            feed_forward_norm,
            hidden,
            gate,
        });
        (transformed, saved)
    }

    fn backward(
        &self,
        inputs: [&[f32]; INPUTS],
        saved: &SavedLayer,
        grad_output: &[f32],
        _needed: [bool; INPUTS],
    ) -> [Option<Vec<f32>>; INPUTS] {
        let PreNormInputs { states, params } = PreNormInputs::from_array(inputs, self.present);
        // First dz, then dy and in the end dx, all in one buffer.
        let mut gradient = grad_output.to_vec();
        let feed_forward = self
            .layer
            .feed_forward_backward(&params, saved, &mut gradient);
        let attention = self
            .layer
            .attention_block_backward(states, &params, saved, &mut gradient);
        let gradients = PreNormInputs {
            states: gradient,
            params: PreNormParams {
                attention_norm: attention.norm,
                query: attention.query,
                key: attention.key,
                value: attention.value,
                output: attention.output,
                feed_forward_norm: feed_forward.norm,
                inner: feed_forward.inner,
                gate: feed_forward.gate,
                outer: feed_forward.outer,
            },
        };
        gradients.into_array()
    }
}
