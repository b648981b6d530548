//! Layers of the span encoder (attention to other spans and to words) and the boundary pointers.

use burn::module::{Initializer, Module};
use burn::nn::{Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use crate::nn::activation::gelu;
use crate::nn::attention::{Attention, KeysValues, zero_bias};

/// The number of values that a pointer computes at once without autodiff: without a limit it would need spans · words ·
/// width values for every sentence of the batch.
const VALUES_AT_ONCE: usize = 1 << 22;

/// A layer of the span encoder: self-attention, cross-attention to words and feed-forward, each followed by a norm.
#[derive(Module, Debug)]
pub struct SpanLayer {
    /// Attention of spans to spans.
    pub self_attention: Attention,
    /// Norm after the self-attention.
    pub self_norm: LayerNorm,
    /// Attention of spans to words.
    pub cross_attention: Attention,
    /// Norm after the cross-attention.
    pub cross_norm: LayerNorm,
    /// Feed-forward part: to the hidden width.
    pub inner: Linear,
    /// Feed-forward part: back.
    pub outer: Linear,
    /// Norm after the feed-forward part.
    pub feed_norm: LayerNorm,
    dropout: Dropout,
}

impl SpanLayer {
    pub(super) fn new(
        width: usize,
        heads: usize,
        feed_forward: usize,
        dropout: f64,
        weights: &Initializer,
        device: &Device,
    ) -> Self {
        let attention = || Attention::new(width, heads, dropout, weights, device);
        let norm = || LayerNormConfig::new(width).init(device);
        Self {
            self_attention: attention(),
            self_norm: norm(),
            cross_attention: attention(),
            cross_norm: norm(),
            inner: zero_bias(width, feed_forward, weights, device),
            outer: zero_bias(feed_forward, width, weights, device),
            feed_norm: norm(),
            dropout: DropoutConfig::new(dropout).init(),
        }
    }

    /// [batch, spans, width] to the same shape. `slots`, [1, spans, width], are added to queries and to the keys of spans;
    /// the biases are added to the scores of spans and of words.
    pub fn forward(
        &self,
        spans: Tensor<3>,
        slots: Option<&Tensor<3>>,
        words: &KeysValues,
        [span_bias, word_bias]: [Option<&Tensor<4>>; 2],
    ) -> Tensor<3> {
        let with_slots = |spans: &Tensor<3>| match slots {
            Some(slots) => spans.clone() + slots.clone(),
            None => spans.clone(),
        };
        let queries = with_slots(&spans);
        let keys_values = self
            .self_attention
            .project_keys_values(queries.clone(), spans.clone());
        let found = self
            .self_attention
            .forward(queries, &keys_values, span_bias);
        let spans = self.self_norm.forward(spans + self.dropout.forward(found));
        let found = self
            .cross_attention
            .forward(with_slots(&spans), words, word_bias);
        let spans = self.cross_norm.forward(spans + self.dropout.forward(found));
        let inner = relu(self.inner.forward(spans.clone()));
        let outer = self.outer.forward(self.dropout.forward(inner));
        self.feed_norm.forward(spans + self.dropout.forward(outer))
    }
}

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct TwoLayers {
    /// The first layer.
    pub inner: Linear,
    /// The second layer.
    pub outer: Linear,
}

impl TwoLayers {
    pub(super) fn new(width: usize, to: usize, weights: &Initializer, device: &Device) -> Self {
        Self {
            inner: zero_bias(width, width, weights, device),
            outer: zero_bias(width, to, weights, device),
        }
    }

    /// [.., width] to [.., outputs].
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.outer.forward(gelu(self.inner.forward(input)))
    }
}

/// Scores every word as one boundary of every span.
///
/// The paper adds two linear projections and applies two layers to the sum. The first of these is linear as well and is
/// folded into the projections; what remains is `output(ReLU(words + spans))`.
#[derive(Module, Debug)]
pub struct Pointer {
    /// Projection of words.
    pub words: Linear,
    /// Projection of spans.
    pub spans: Linear,
    /// From their sum to a score.
    pub output: Linear,
}

impl Pointer {
    pub(super) fn new(width: usize, weights: &Initializer, device: &Device) -> Self {
        Self {
            words: zero_bias(width, width, weights, device),
            spans: zero_bias(width, width, weights, device),
            output: zero_bias(width, 1, weights, device),
        }
    }

    /// Scores [batch, spans, words] from spans [batch, spans, width] and projected words [batch, words, width].
    pub fn forward(&self, words: &Tensor<3>, spans: Tensor<3>) -> Tensor<3> {
        let spans = self.spans.forward(spans);
        let [batch, count, width] = spans.dims();
        let length = words.dims()[1];
        let step = (VALUES_AT_ONCE / (count * length * width)).max(1);
        if step >= batch || spans.device().is_autodiff() {
            return self.fuse(words.clone(), spans);
        }
        let parts = (0..batch).step_by(step).map(|first| {
            let size = step.min(batch - first);
            let part = |tensor: &Tensor<3>| tensor.clone().narrow(0, first, size);
            self.fuse(part(words), part(&spans))
        });
        Tensor::cat(parts.collect(), 0)
    }

    fn fuse(&self, words: Tensor<3>, spans: Tensor<3>) -> Tensor<3> {
        let [batch, length, width] = words.dims();
        let count = spans.dims()[1];
        let fused: Tensor<4> = words.unsqueeze_dim::<4>(1) + spans.unsqueeze_dim::<4>(2);
        let fused = relu(fused).reshape([batch * count * length, width]);
        let scores = self.output.forward(fused);
        scores.reshape([batch, count, length])
    }
}
