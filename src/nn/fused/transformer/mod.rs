//! A post-norm transformer layer (as in BERT) over packed rows: sequences follow each other without padding.

mod attention;
mod int8;
mod linear;
mod positions;
pub mod pre_norm;
mod relative;

use std::sync::Arc;

use attention::Projections;
use burn::tensor::Tensor;
pub use int8::Int8Layer;
use linear::{input_gradient, linear, linear_without_bias, weight_gradient};
use positions::PositionValues;
pub use positions::{DistanceRows, PositionInputs};
use rayon::prelude::*;
use relative::RelativeLayer;

use super::layer_norm::{self, BLOCK, SavedNorm};
use super::math::{self, DropoutMask};
use super::{Kernel, KernelInput, LinearParams, NormParams, apply};
use crate::nn::activation::Activation;

/// A transformer layer: self-attention and a feed-forward network, each followed by dropout, residual and norm. It is
/// the fused form of `encoder::transformer`'s layer.
///
/// ```text
/// forward:   q = x·Wq + bq,   k = x·Wk + bk,   v = x·Wv + bv
///            c = dropout₁(softmax(q·kᵀ / √(d·terms)))·v     per sequence and head
///            y = LayerNorm₁(x + dropout₂(c·Wo + bo))
///            h = y·W₁ + b₁,   a = f(h)                      with the activation f
///            z = LayerNorm₂(y + dropout₃(a·W₂ + b₂))
///
/// backward, with dropoutᵢ(t) = maskᵢ ⊙ t:
///            dr₂ from dz through LayerNorm₂;                dγ₂, dβ₂ likewise
///            t₂ = mask₃ ⊙ dr₂;                              dW₂ = aᵀ·t₂,   db₂ = Σ rows t₂
///            dh = f′(h) ⊙ (t₂·W₂ᵀ);                         dW₁ = yᵀ·dh,   db₁ = Σ rows dh
///            dy = dr₂ + dh·W₁ᵀ
///            dr₁ from dy through LayerNorm₁;                dγ₁, dβ₁ likewise
///            t₁ = mask₂ ⊙ dr₁;                              dWo = cᵀ·t₁,   dbo = Σ rows t₁
///            dc = t₁·Woᵀ;   dq, dk, dv from dc through the attention
///            dWq = xᵀ·dq,   dbq = Σ rows dq;                likewise for k and v
///            dx = dr₁ + dq·Wqᵀ + dk·Wkᵀ + dv·Wvᵀ
/// ```
///
/// The backward passes of the parts are given in `layer_norm.rs`, `linear.rs` and `attention.rs`.
///
/// # Shapes
/// - x, q, k, v, c, y, z: `[rows, width]`; `rows` is the sum of `lengths`
/// - h, a: `[rows, inner]`
/// - Wq, Wk, Wv, Wo: `[width, width]`; W₁: `[width, inner]`; W₂: `[inner, width]`
#[derive(Debug, Clone)]
pub struct TransformerLayer {
    /// Rows of each sequence, in the order in which they follow each other.
    pub lengths: Arc<Vec<usize>>,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the states.
    pub width: usize,
    /// Width of the feed-forward network's hidden layer.
    pub inner: usize,
    /// Number of terms by which the scores are scaled: 1, and 1 for each product with relative positions.
    pub score_terms: usize,
    /// Activation of the feed-forward network.
    pub activation: Activation,
    /// Epsilon of both norms.
    pub epsilon: f32,
    /// Dropout, in training.
    pub dropout: Option<LayerDropout>,
    /// Keep only the inputs for the backward pass, and compute everything else again there.
    pub recompute: bool,
}

/// The three dropout masks of a transformer layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerDropout {
    attention: DropoutMask,
    attention_output: DropoutMask,
    feed_forward_output: DropoutMask,
}

impl LayerDropout {
    /// Masks for the layer of this index, which drop attention probabilities and the outputs of both sub-layers with the
    /// given probabilities.
    pub fn new(seed: u32, layer: usize, attention: f64, sublayer: f64) -> Self {
        let stream = 3 * layer as u32 + 1;
        Self {
            attention: DropoutMask::new(attention, seed, stream),
            attention_output: DropoutMask::new(sublayer, seed, stream + 1),
            feed_forward_output: DropoutMask::new(sublayer, seed, stream + 2),
        }
    }
}

/// The parameters of a transformer layer: tensors, their values or their gradients.
pub struct LayerParams<T> {
    /// Wq, bq.
    pub query: LinearParams<T>,
    /// Wk, bk.
    pub key: LinearParams<T>,
    /// Wv, bv.
    pub value: LinearParams<T>,
    /// Wo, bo.
    pub output: LinearParams<T>,
    /// W₁, b₁.
    pub inner: LinearParams<T>,
    /// W₂, b₂.
    pub outer: LinearParams<T>,
    /// γ₁, β₁.
    pub attention_norm: NormParams<T>,
    /// γ₂, β₂.
    pub feed_forward_norm: NormParams<T>,
}

/// The inputs of the kernel, or their gradients.
struct LayerInputs<T> {
    states: T,
    params: LayerParams<T>,
}

const INPUTS: usize = 17;

impl<T> LayerInputs<T> {
    fn from_array(inputs: [T; INPUTS]) -> Self {
        let [states, inputs @ ..] = inputs;
        let [wq, bq, wk, bk, wv, bv, wo, bo, w1, b1, w2, b2, norms @ ..] = inputs;
        let [gamma1, beta1, gamma2, beta2] = norms;
        let linear = |weight: T, bias: T| LinearParams { weight, bias };
        let norm = |gamma: T, beta: T| NormParams { gamma, beta };
        Self {
            states,
            params: LayerParams {
                query: linear(wq, bq),
                key: linear(wk, bk),
                value: linear(wv, bv),
                output: linear(wo, bo),
                inner: linear(w1, b1),
                outer: linear(w2, b2),
                attention_norm: norm(gamma1, beta1),
                feed_forward_norm: norm(gamma2, beta2),
            },
        }
    }

    fn into_array(self) -> [T; INPUTS] {
        let params = self.params;
        [
            self.states,
            params.query.weight,
            params.query.bias,
            params.key.weight,
            params.key.bias,
            params.value.weight,
            params.value.bias,
            params.output.weight,
            params.output.bias,
            params.inner.weight,
            params.inner.bias,
            params.outer.weight,
            params.outer.bias,
            params.attention_norm.gamma,
            params.attention_norm.beta,
            params.feed_forward_norm.gamma,
            params.feed_forward_norm.beta,
        ]
    }
}

impl TransformerLayer {
    /// Applies the layer, with relative positions if they are given.
    ///
    /// # Shapes
    /// - states: `[rows, width]`
    /// - output: `[rows, width]`
    pub fn forward(
        self,
        states: Tensor<2>,
        params: LayerParams<KernelInput>,
        positions: Option<(&DistanceRows, PositionInputs<Tensor<2>>)>,
    ) -> Tensor<2> {
        let shape = states.dims();
        let device = states.device();
        let inputs = LayerInputs {
            states: states.into(),
            params,
        };
        match positions {
            None => apply(self, inputs.into_array(), shape),
            Some((rows, positions)) => {
                let (layer, inputs) =
                    RelativeLayer::new(self, rows.clone(), inputs.into_array(), positions, &device);
                apply(layer, inputs, shape)
            }
        }
    }

    /// The activation of `rows + bias` in place; returns its derivatives when they are to be saved.
    fn activate(&self, rows: &mut [f32], bias: &[f32], save: bool) -> Vec<f32> {
        let block = BLOCK * self.inner;
        if !save {
            let function = match self.activation {
                Activation::Gelu => math::bias_gelu,
                Activation::GeluNew => math::bias_gelu_tanh,
                Activation::Relu => math::bias_relu,
                Activation::Tanh => math::bias_tanh,
            };
            rows.par_chunks_mut(block)
                .for_each(|rows| function(rows, bias));
            return Vec::new();
        }
        let function = match self.activation {
            Activation::Gelu => math::bias_gelu_with_derivative,
            Activation::GeluNew => math::bias_gelu_tanh_with_derivative,
            Activation::Relu => math::bias_relu_with_derivative,
            Activation::Tanh => math::bias_tanh_with_derivative,
        };
        let mut derivatives = vec![0f32; rows.len()];
        rows.par_chunks_mut(block)
            .zip(derivatives.par_chunks_mut(block))
            .for_each(|(rows, derivatives)| function(rows, derivatives, bias));
        derivatives
    }
}

/// The values of a layer's forward pass which its backward pass needs.
#[derive(Debug)]
pub struct SavedLayer {
    /// q, k and v.
    projections: Projections,
    /// The softmax before dropout: `heads · n²` values for each sequence of `n` rows.
    probabilities: Vec<f32>,
    /// c.
    context: Vec<f32>,
    attention_norm: SavedNorm,
    /// y.
    middle: Vec<f32>,
    /// a.
    activated: Vec<f32>,
    /// f′(h).
    derivatives: Vec<f32>,
    feed_forward_norm: SavedNorm,
}

impl Kernel<INPUTS> for TransformerLayer {
    type Saved = SavedLayer;

    fn recomputes(&self) -> bool {
        self.recompute
    }

    fn forward(&self, inputs: [&[f32]; INPUTS], save: bool) -> (Vec<f32>, Option<SavedLayer>) {
        self.run(inputs, None, save)
    }

    fn backward(
        &self,
        inputs: [&[f32]; INPUTS],
        saved: &SavedLayer,
        grad_output: &[f32],
        _needed: [bool; INPUTS],
    ) -> [Option<Vec<f32>>; INPUTS] {
        let (gradients, _) = self.run_backward(inputs, None, saved, grad_output);
        gradients.map(Some)
    }
}

impl TransformerLayer {
    fn run(
        &self,
        inputs: [&[f32]; INPUTS],
        positions: Option<&PositionValues>,
        save: bool,
    ) -> (Vec<f32>, Option<SavedLayer>) {
        let LayerInputs { states, params } = LayerInputs::from_array(inputs);
        let projections = Projections {
            query: linear(states, params.query),
            key: linear(states, params.key),
            value: linear(states, params.value),
        };
        let (context, probabilities) = self.attention_forward(&projections, positions, save);
        let attended = linear_without_bias(&context, params.output.weight, self.width);
        let dropout = self.dropout.map(|dropout| dropout.attention_output);
        let (middle, attention_norm) = layer_norm::layer_norm(
            attended,
            params.attention_norm,
            self.epsilon,
            layer_norm::add_bias_dropout_residual(params.output.bias, states, dropout),
        );
        let mut activated = linear_without_bias(&middle, params.inner.weight, self.inner);
        let derivatives = self.activate(&mut activated, params.inner.bias, save);
        let transformed = linear_without_bias(&activated, params.outer.weight, self.width);
        let dropout = self.dropout.map(|dropout| dropout.feed_forward_output);
        let (output, feed_forward_norm) = layer_norm::layer_norm(
            transformed,
            params.feed_forward_norm,
            self.epsilon,
            layer_norm::add_bias_dropout_residual(params.outer.bias, &middle, dropout),
        );
        let saved = save.then_some(SavedLayer {
            projections,
            probabilities,
            context,
            attention_norm,
            middle,
            activated,
            derivatives,
            feed_forward_norm,
        });
        (output, saved)
    }

    fn run_backward(
        &self,
        inputs: [&[f32]; INPUTS],
        positions: Option<&PositionValues>,
        saved: &SavedLayer,
        grad_output: &[f32],
    ) -> ([Vec<f32>; INPUTS], Option<PositionInputs<Vec<f32>>>) {
        let LayerInputs { states, params } = LayerInputs::from_array(inputs);
        // First dz, then dr₂, dy, dr₁ and in the end dx, all in one buffer.
        let mut gradient = grad_output.to_vec();
        let feed_forward = self.feed_forward_backward(&params, saved, &mut gradient);
        let attention =
            self.attention_block_backward(states, &params, positions, saved, &mut gradient);
        let gradients = LayerInputs {
            states: gradient,
            params: LayerParams {
                query: attention.query,
                key: attention.key,
                value: attention.value,
                output: attention.output,
                inner: feed_forward.inner,
                outer: feed_forward.outer,
                attention_norm: attention.norm,
                feed_forward_norm: feed_forward.norm,
            },
        };
        (gradients.into_array(), attention.positions)
    }
}

/// Gradients of the parameters of the feed-forward network and its norm.
struct FeedForwardGradients {
    inner: LinearParams<Vec<f32>>,
    outer: LinearParams<Vec<f32>>,
    norm: NormParams<Vec<f32>>,
}

/// Gradients of the parameters of the attention and its norm, and of the position inputs.
struct AttentionGradients {
    positions: Option<PositionInputs<Vec<f32>>>,
    query: LinearParams<Vec<f32>>,
    key: LinearParams<Vec<f32>>,
    value: LinearParams<Vec<f32>>,
    output: LinearParams<Vec<f32>>,
    norm: NormParams<Vec<f32>>,
}

impl TransformerLayer {
    /// Replaces dz in `gradient` by dy.
    fn feed_forward_backward(
        &self,
        params: &LayerParams<&[f32]>,
        saved: &SavedLayer,
        gradient: &mut [f32],
    ) -> FeedForwardGradients {
        let (width, inner) = (self.width, self.inner);
        let gamma = params.feed_forward_norm.gamma;
        let norm = layer_norm::layer_norm_backward(gradient, gamma, &saved.feed_forward_norm);
        let dropout = self.dropout.map(|dropout| dropout.feed_forward_output);
        let (grad_outer, bias) = layer_norm::bias_dropout_backward(gradient, width, dropout);
        let weight = weight_gradient(&saved.activated, &grad_outer, [inner, width]);
        let outer = LinearParams { weight, bias };
        let mut grad_hidden = vec![0f32; saved.derivatives.len()];
        input_gradient(
            &mut grad_hidden,
            0.0,
            &grad_outer,
            params.outer.weight,
            width,
        );
        grad_hidden
            .par_chunks_mut(BLOCK * inner)
            .zip(saved.derivatives.par_chunks(BLOCK * inner))
            .for_each(|(gradient, derivatives)| math::multiply(gradient, derivatives));
        let inner_gradients = LinearParams {
            weight: weight_gradient(&saved.middle, &grad_hidden, [width, inner]),
            bias: layer_norm::column_sums(&grad_hidden, inner),
        };
        input_gradient(gradient, 1.0, &grad_hidden, params.inner.weight, inner);
        FeedForwardGradients {
            inner: inner_gradients,
            outer,
            norm,
        }
    }

    /// Replaces dy in `gradient` by dx.
    fn attention_block_backward(
        &self,
        states: &[f32],
        params: &LayerParams<&[f32]>,
        positions: Option<&PositionValues>,
        saved: &SavedLayer,
        gradient: &mut [f32],
    ) -> AttentionGradients {
        let width = self.width;
        let gamma = params.attention_norm.gamma;
        let norm = layer_norm::layer_norm_backward(gradient, gamma, &saved.attention_norm);
        let dropout = self.dropout.map(|dropout| dropout.attention_output);
        let (grad_attended, bias) = layer_norm::bias_dropout_backward(gradient, width, dropout);
        let weight = weight_gradient(&saved.context, &grad_attended, [width, width]);
        let output = LinearParams { weight, bias };
        let mut grad_context = vec![0f32; grad_attended.len()];
        input_gradient(
            &mut grad_context,
            0.0,
            &grad_attended,
            params.output.weight,
            width,
        );
        let (projected, positions) = self.attention_backward(saved, positions, &grad_context);
        let mut projection = |grad_projected: &[f32], weight: &[f32]| {
            let gradients = LinearParams {
                weight: weight_gradient(states, grad_projected, [width, width]),
                bias: layer_norm::column_sums(grad_projected, width),
            };
            input_gradient(gradient, 1.0, grad_projected, weight, width);
            gradients
        };
        AttentionGradients {
            positions,
            query: projection(&projected.query, params.query.weight),
            key: projection(&projected.key, params.key.weight),
            value: projection(&projected.value, params.value.weight),
            output,
            norm,
        }
    }
}
