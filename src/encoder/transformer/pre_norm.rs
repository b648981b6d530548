//! Layers with a norm before each sub-layer, rotary positions and a gated feed-forward network, as in ModernBERT.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use super::layer::{EncoderLayer, KernelOptions};
use super::rotary_attention::{PaddedAttention, RotaryAttention};
use crate::nn::fused::transformer::pre_norm::{
    OptionalLinear, OptionalNorm, PreNormDropout, PreNormLayer, PreNormParams,
};
use crate::nn::precision::Precision;
use crate::nn::rotary::RotaryTable;

/// A value for each kind of rotary attention that the layers have.
pub(super) struct ByAttention<T>(Vec<(RotaryAttention, T)>);

impl<T> ByAttention<T> {
    fn new(layers: &[EncoderLayer], value: impl Fn(RotaryAttention, &EncoderLayer) -> T) -> Self {
        let mut all: Vec<(RotaryAttention, T)> = Vec::new();
        for layer in layers {
            if let Some(attention) = layer.rotary
                && !all.iter().any(|(known, _)| *known == attention)
            {
                all.push((attention, value(attention, layer)));
            }
        }
        Self(all)
    }

    /// The value for a layer; `None` for layers without rotary positions.
    pub(super) fn of(&self, layer: &EncoderLayer) -> Option<&T> {
        let attention = layer.rotary?;
        let found = self.0.iter().find(|(known, _)| *known == attention);
        found.map(|(_, value)| value)
    }
}

impl ByAttention<PaddedAttention> {
    /// For rows of these lengths, padded to `pieces`.
    pub(super) fn padded(
        layers: &[EncoderLayer],
        lengths: &[usize],
        pieces: usize,
        device: &Device,
    ) -> Self {
        Self::new(layers, |attention, layer| {
            PaddedAttention::new(attention, layer.head_width(), lengths, pieces, device)
        })
    }
}

impl ByAttention<Arc<RotaryTable>> {
    /// For packed rows of these lengths.
    pub(super) fn packed(layers: &[EncoderLayer], lengths: &[usize]) -> Self {
        let longest = lengths.iter().copied().max().unwrap_or(0);
        Self::new(layers, |attention, layer| {
            let table = RotaryTable::new(longest, layer.head_width(), attention.theta);
            Arc::new(table)
        })
    }
}

impl EncoderLayer {
    fn head_width(&self) -> usize {
        self.query.weight.lazy_shape()[1] / self.heads.max(1)
    }

    /// Runs a pre-norm layer as one fused kernel over packed rows. `index` is the number of the layer.
    ///
    /// # Shapes
    /// - states, output: `[pieces, width]`
    pub(super) fn forward_pre_norm_packed(
        &self,
        index: usize,
        states: Tensor<2>,
        table: &Arc<RotaryTable>,
        options: KernelOptions,
    ) -> Tensor<2> {
        let dropout = |seed| {
            let (attention, feed_forward) = (self.attention_dropout.prob, self.dropout.prob);
            PreNormDropout::new(seed, index, attention, feed_forward)
        };
        let kernel = PreNormLayer {
            lengths: options.lengths.clone(),
            heads: self.heads,
            width: states.dims()[1],
            inner: self.inner_width(),
            epsilon: self.norm_epsilon,
            rotation: table.clone(),
            reach: self.rotary.and_then(|attention| attention.reach),
            dropout: options.seed.map(dropout).unwrap_or_default(),
            recompute: options.recompute,
        };
        let attention_norm = self.attention_norm.as_ref().map(OptionalNorm::from);
        let feed_forward_norm = OptionalNorm::from(&self.feed_forward_norm);
        if let Some(int8) = &self.int8 {
            return kernel.forward_int8(states, &int8.layers, attention_norm, feed_forward_norm);
        }
        let gate = self.feed_forward_gate.as_ref();
        let gate = gate.expect("pre-norm layers have a gate: `TransformerConfig::init` makes both");
        let params = PreNormParams {
            attention_norm,
            query: OptionalLinear::from(&self.query),
            key: OptionalLinear::from(&self.key),
            value: OptionalLinear::from(&self.value),
            output: OptionalLinear::from(&self.attention_output),
            feed_forward_norm,
            inner: OptionalLinear::from(&self.feed_forward_inner),
            gate: OptionalLinear::from(gate),
            outer: OptionalLinear::from(&self.feed_forward_outer),
        };
        kernel.forward(states, params)
    }

    /// Runs a pre-norm layer by Burn's operations over padded rows. States are f32.
    ///
    /// # Shapes
    /// - states, output: `[rows, pieces, width]`
    pub(super) fn forward_pre_norm(
        &self,
        states: Tensor<3>,
        attention: &PaddedAttention,
        precision: Precision,
    ) -> Tensor<3> {
        let normalised = match &self.attention_norm {
            Some(norm) => norm.forward(states.clone()),
            None => states.clone(),
        };
        let attended = self.attend_rotary(precision.lower(normalised), attention, precision);
        let states = states + precision.raise(self.attention_dropout.forward(attended));
        let normalised = precision.lower(self.feed_forward_norm.forward(states.clone()));
        let inner = precision.linear(&self.feed_forward_inner, normalised.clone());
        let mut inner = self.activation.forward(inner);
        if let Some(gate) = &self.feed_forward_gate {
            inner = inner * precision.linear(gate, normalised);
        }
        let outer = precision.linear(&self.feed_forward_outer, self.dropout.forward(inner));
        states + precision.raise(outer)
    }

    fn attend_rotary(
        &self,
        states: Tensor<3>,
        attention: &PaddedAttention,
        precision: Precision,
    ) -> Tensor<3> {
        let [rows, pieces, width] = states.dims();
        let split = |tensor: Tensor<3>| -> Tensor<4> {
            tensor
                .reshape([rows, pieces, self.heads, width / self.heads])
                .swap_dims(1, 2)
        };
        let mixed = attention.forward(
            split(precision.linear(&self.query, states.clone())),
            split(precision.linear(&self.key, states.clone())),
            split(precision.linear(&self.value, states)),
            &self.attention_dropout,
            precision,
        );
        let mixed = mixed.swap_dims(1, 2).reshape([rows, pieces, width]);
        precision.linear(&self.attention_output, mixed)
    }
}
