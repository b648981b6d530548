//! A transformer layer: as one fused kernel on the CPU, by Burn's operations on any device.

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Dropout, LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

use super::int8::Int8EncoderLayer;
use super::relative::{DisentangledAttention, RelativePositions};
use super::rotary_attention::RotaryAttention;
use crate::nn::activation::Activation;
use crate::nn::fused::transformer::{
    DistanceRows, LayerDropout, LayerParams, PositionInputs, TransformerLayer,
};
use crate::nn::precision::Precision;

/// Self-attention and a feed-forward sub-layer, each with a residual connection. The norms follow the sub-layers, or come
/// before them in layers with rotary positions.
#[derive(Module, Debug)]
pub(super) struct EncoderLayer {
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) attention_output: Linear,
    pub(super) attention_norm: Option<LayerNorm>,
    pub(super) feed_forward_inner: Linear,
    pub(super) feed_forward_gate: Option<Linear>,
    pub(super) feed_forward_outer: Linear,
    pub(super) feed_forward_norm: LayerNorm,
    pub(super) disentangled: Option<DisentangledAttention>,
    pub(super) dropout: Dropout,
    pub(super) attention_dropout: Dropout,
    #[module(skip)]
    pub(super) heads: usize,
    /// Number of terms by which the attention scores are scaled.
    #[module(skip)]
    pub(super) score_terms: usize,
    #[module(skip)]
    pub(super) activation: Activation,
    #[module(skip)]
    pub(super) norm_epsilon: f32,
    /// Rotary positions and the reach of the attention of pre-norm layers.
    #[module(skip)]
    pub(super) rotary: Option<RotaryAttention>,
    /// Linear layers in eight bits, in place of those in f32.
    #[module(skip)]
    pub(super) int8: Option<Arc<Int8EncoderLayer>>,
}

/// What the fused kernels of all layers have in common.
#[derive(Clone, Copy)]
pub(super) struct KernelOptions<'a> {
    /// Lengths of the rows.
    pub(super) lengths: &'a Arc<Vec<usize>>,
    /// Seed of dropout in training.
    pub(super) seed: Option<u32>,
    /// Keep only the layer's input for the backward pass.
    pub(super) recompute: bool,
}

impl EncoderLayer {
    /// Runs the layer as one fused kernel over packed rows. `index` is the number of the layer; relative positions are
    /// those of the transformer.
    ///
    /// # Shapes
    /// - states, output: `[pieces, width]`
    pub(super) fn forward_packed(
        &self,
        index: usize,
        states: Tensor<2>,
        positions: Option<&RelativePositions>,
        options: KernelOptions,
    ) -> Tensor<2> {
        let [_, width] = states.dims();
        let dropout = |seed| {
            let (attention, sublayer) = (self.attention_dropout.prob, self.dropout.prob);
            LayerDropout::new(seed, index, attention, sublayer)
        };
        let kernel = TransformerLayer {
            lengths: options.lengths.clone(),
            heads: self.heads,
            width,
            inner: self.inner_width(),
            score_terms: self.score_terms,
            activation: self.activation,
            epsilon: self.norm_epsilon,
            dropout: options.seed.map(dropout),
            recompute: options.recompute,
        };
        let positions = positions.map(|positions| self.position_inputs(positions));
        if let Some(int8) = &self.int8 {
            let norms = [self.post_norm().into(), (&self.feed_forward_norm).into()];
            return kernel.forward_int8(states, &int8.layers, norms, positions);
        }
        let params = LayerParams {
            query: (&self.query).into(),
            key: (&self.key).into(),
            value: (&self.value).into(),
            output: (&self.attention_output).into(),
            inner: (&self.feed_forward_inner).into(),
            outer: (&self.feed_forward_outer).into(),
            attention_norm: self.post_norm().into(),
            feed_forward_norm: (&self.feed_forward_norm).into(),
        };
        kernel.forward(states, params, positions)
    }

    /// Width of the feed-forward network's hidden layer.
    pub(super) fn inner_width(&self) -> usize {
        self.feed_forward_inner.weight.lazy_shape()[1]
    }

    /// The kernel's inputs for relative positions: projected ones, or those of the transformer as biases.
    fn position_inputs<'a>(
        &self,
        positions: &'a RelativePositions,
    ) -> (&'a DistanceRows, PositionInputs<Tensor<2>>) {
        let inputs = match &self.disentangled {
            Some(disentangled) => {
                let projected = match &self.int8 {
                    Some(int8) => int8.project_positions(disentangled, positions),
                    None => {
                        let content = [&self.query, &self.key];
                        disentangled.project(positions, content, &self.dropout, Precision::F32)
                    }
                };
                PositionInputs {
                    keys: projected.keys,
                    queries: projected.queries,
                    bias: None,
                }
            }
            None => PositionInputs {
                keys: None,
                queries: None,
                bias: Some(positions.table.clone()),
            },
        };
        (&positions.rows, inputs)
    }

    /// Runs the layer by Burn's operations over padded rows. `bias` is added to the attention scores. States are f32.
    ///
    /// # Shapes
    /// - states, output: `[rows, pieces, width]`
    /// - bias: `[rows or 1, heads or 1, pieces or 1, pieces]`
    pub(super) fn forward(
        &self,
        states: Tensor<3>,
        bias: Option<&Tensor<4>>,
        positions: Option<&RelativePositions>,
        precision: Precision,
    ) -> Tensor<3> {
        let attended = self.attend(precision.lower(states.clone()), bias, positions, precision);
        let attended = precision.raise(self.dropout.forward(attended));
        let states = self.post_norm().forward(states + attended);
        let inner = precision.lower(states.clone());
        let inner = precision.linear(&self.feed_forward_inner, inner);
        let inner = self.activation.forward(inner);
        let outer = precision.linear(&self.feed_forward_outer, inner);
        let outer = precision.raise(self.dropout.forward(outer));
        self.feed_forward_norm.forward(states + outer)
    }

    /// The norm after the attention, which all layouts but ModernBERT's have.
    fn post_norm(&self) -> &LayerNorm {
        (self.attention_norm.as_ref()).expect("layers with a norm after the attention have one")
    }

    fn attend(
        &self,
        states: Tensor<3>,
        bias: Option<&Tensor<4>>,
        positions: Option<&RelativePositions>,
        precision: Precision,
    ) -> Tensor<3> {
        let [rows, pieces, width] = states.dims();
        let depth = width / self.heads;
        let split = |tensor: Tensor<3>| -> Tensor<4> {
            tensor
                .reshape([rows, pieces, self.heads, depth])
                .swap_dims(1, 2)
        };
        let scale = ((depth * self.score_terms) as f32).sqrt();
        // There are fewer values in the queries than in the scores to scale.
        let query = split(precision.linear(&self.query, states.clone()) / scale);
        let key = split(precision.linear(&self.key, states.clone()));
        let value = split(precision.linear(&self.value, states));
        let mut scores = query.clone().matmul(key.clone().transpose()); // [rows, heads, pieces, pieces]
        if let (Some(disentangled), Some(positions)) = (&self.disentangled, positions) {
            let content = [&self.query, &self.key];
            let projected = disentangled.project(positions, content, &self.dropout, precision);
            scores = projected.add_scores(scores, positions, [query, key], scale);
        }
        let mut scores = precision.raise(scores);
        if let Some(bias) = bias {
            scores = scores + bias.clone();
        }
        let weights = precision.lower(softmax(scores, 3));
        let weights = self.attention_dropout.forward(weights);
        let mixed = weights
            .matmul(value)
            .swap_dims(1, 2)
            .reshape([rows, pieces, width]);
        precision.linear(&self.attention_output, mixed)
    }
}
