//! A transformer layer: as one fused kernel on the CPU, by Burn's operations on any device.

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Dropout, LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::activation::{gelu_approximate, relu, softmax};

use super::config::Activation;
use super::rotary_attention::RotaryAttention;
use crate::nn::activation::gelu;
use crate::nn::fused::transformer::{LayerDropout, LayerParams, TransformerLayer};

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
    pub(super) dropout: Dropout,
    pub(super) attention_dropout: Dropout,
    #[module(skip)]
    pub(super) heads: usize,
    #[module(skip)]
    pub(super) activation: Activation,
    #[module(skip)]
    pub(super) norm_epsilon: f32,
    /// Rotary positions and the reach of the attention of pre-norm layers.
    #[module(skip)]
    pub(super) rotary: Option<RotaryAttention>,
}

impl EncoderLayer {
    /// Runs the layer as one fused kernel over packed rows. `lengths` are the lengths of the rows, `index` is the number
    /// of the layer, and `seed` the seed of its dropout in training.
    ///
    /// # Shapes
    /// - states, output: `[pieces, width]`
    pub(super) fn forward_packed(
        &self,
        index: usize,
        states: Tensor<2>,
        lengths: &Arc<Vec<usize>>,
        seed: Option<u32>,
    ) -> Tensor<2> {
        let [_, width] = states.dims();
        let dropout = |seed| {
            let (attention, sublayer) = (self.attention_dropout.prob, self.dropout.prob);
            LayerDropout::new(seed, index, attention, sublayer)
        };
        let kernel = TransformerLayer {
            lengths: lengths.clone(),
            heads: self.heads,
            width,
            inner: self.feed_forward_inner.weight.dims()[1],
            epsilon: self.norm_epsilon,
            dropout: seed.map(dropout),
        };
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
        kernel.forward(states, params)
    }

    /// Runs the layer by Burn's operations over padded rows. `bias` is added to the attention scores.
    ///
    /// # Shapes
    /// - states, output: `[rows, pieces, width]`
    /// - bias: `[rows, 1, 1, pieces]`
    pub(super) fn forward(&self, states: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        let attended = self.dropout.forward(self.attend(states.clone(), bias));
        let states = self.post_norm().forward(states + attended);
        let inner = self.activate(self.feed_forward_inner.forward(states.clone()));
        let outer = self.dropout.forward(self.feed_forward_outer.forward(inner));
        self.feed_forward_norm.forward(states + outer)
    }

    /// The activation of the feed-forward sub-layer.
    pub(super) fn activate(&self, inner: Tensor<3>) -> Tensor<3> {
        match self.activation {
            Activation::Gelu => gelu(inner),
            Activation::GeluNew => gelu_approximate(inner),
            Activation::Relu => relu(inner),
        }
    }

    /// The norm after the attention, which all layouts but ModernBERT's have.
    fn post_norm(&self) -> &LayerNorm {
        (self.attention_norm.as_ref()).expect("layers with a norm after the attention have one")
    }

    fn attend(&self, states: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        let [rows, pieces, width] = states.dims();
        let depth = width / self.heads;
        let split = |tensor: Tensor<3>| -> Tensor<4> {
            tensor
                .reshape([rows, pieces, self.heads, depth])
                .swap_dims(1, 2)
        };
        // There are fewer values in the queries than in the scores to scale.
        let query = split(self.query.forward(states.clone()) / (depth as f32).sqrt());
        let key = split(self.key.forward(states.clone()));
        let value = split(self.value.forward(states));
        let mut scores = query.matmul(key.transpose()); // [rows, heads, pieces, pieces]
        if let Some(bias) = bias {
            scores = scores + bias.clone();
        }
        let weights = self.attention_dropout.forward(softmax(scores, 3));
        let mixed = weights
            .matmul(value)
            .swap_dims(1, 2)
            .reshape([rows, pieces, width]);
        self.attention_output.forward(mixed)
    }
}
