//! Sizes of a transformer, and its creation with random weights.

use burn::module::Initializer;
use burn::nn::{DropoutConfig, EmbeddingConfig, LayerNormConfig, LinearConfig};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::Transformer;
use super::layer::EncoderLayer;
use super::layout::{Layout, ModernbertLayout};
use super::rotary_attention::RotaryAttention;

/// Family of a pretrained encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderFamily {
    /// BERT and models with its layout.
    Bert,
    /// RoBERTa: positions start after the padding id.
    Roberta,
    /// ELECTRA: embeddings may be narrower than the layers.
    Electra,
    /// DistilBERT: no token types, other parameter names.
    DistilBert,
    /// ALBERT: layers share weights.
    Albert,
    /// MPNet: relative positions as a bias of the attention; positions start after the padding id.
    Mpnet,
    /// DeBERTa, versions 2 and 3: disentangled attention.
    Deberta,
    /// ModernBERT: rotary positions and local attention.
    Modernbert,
}

/// Activation of the feed-forward sub-layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Exact GELU.
    Gelu,
    /// GELU with the tanh approximation.
    GeluNew,
    /// Rectified linear unit.
    Relu,
}

/// Sizes of a transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Family of the encoder.
    pub family: EncoderFamily,
    /// Number of rows of the word-piece embedding.
    pub vocabulary: usize,
    /// Width of the embeddings; a projection follows when it differs from `width`.
    pub embedding_width: usize,
    /// Width of the layers.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward sub-layer.
    pub feed_forward: usize,
    /// Number of rows of the position embedding; without one, the largest number of pieces in a window.
    pub positions: usize,
    /// Number of rows of the token-type embedding; 0 for none.
    pub token_types: usize,
    /// Id of the padding piece.
    pub padding: usize,
    /// Epsilon of the layer norms.
    pub norm_epsilon: f64,
    /// Dropout after embeddings and sub-layers.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Activation of the feed-forward sub-layer.
    pub activation: Activation,
    /// The structure of the layers.
    #[serde(default, skip_serializing_if = "Layout::is_bert")]
    pub layout: Layout,
}

impl TransformerConfig {
    /// Row of the position embedding for a window's first piece.
    fn first_position(&self) -> usize {
        match self.family {
            EncoderFamily::Roberta | EncoderFamily::Mpnet => self.padding + 1,
            _ => 0,
        }
    }

    /// Largest number of pieces in a window, special ones included.
    pub fn window(&self) -> usize {
        self.positions.saturating_sub(self.first_position())
    }

    /// Sets the probability of dropout everywhere.
    pub fn set_dropout(&mut self, probability: f64) {
        self.dropout = probability;
        self.attention_dropout = probability;
        if let Layout::Modernbert(layout) = &mut self.layout {
            layout.feed_forward_dropout = probability;
        }
    }

    /// Creates a transformer with random weights.
    pub fn init(&self, device: &Device) -> Transformer {
        if let Layout::Modernbert(layout) = &self.layout {
            return self.init_pre_norm(layout, device);
        }
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 0.02,
        };
        let embedding = |rows| {
            EmbeddingConfig::new(rows, self.embedding_width)
                .with_initializer(normal.clone())
                .init(device)
        };
        let linear = |from, to| {
            LinearConfig::new(from, to)
                .with_initializer(normal.clone())
                .init(device)
        };
        let norm = |width| {
            LayerNormConfig::new(width)
                .with_epsilon(self.norm_epsilon)
                .init(device)
        };
        let layer = || EncoderLayer {
            query: linear(self.width, self.width),
            key: linear(self.width, self.width),
            value: linear(self.width, self.width),
            attention_output: linear(self.width, self.width),
            attention_norm: Some(norm(self.width)),
            feed_forward_inner: linear(self.width, self.feed_forward),
            feed_forward_gate: None,
            feed_forward_outer: linear(self.feed_forward, self.width),
            feed_forward_norm: norm(self.width),
            dropout: DropoutConfig::new(self.dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
            rotary: None,
        };
        Transformer {
            word_embeddings: embedding(self.vocabulary),
            position_embeddings: (self.layout.has_position_embedding())
                .then(|| embedding(self.positions)),
            token_type_embeddings: (self.token_types > 0).then(|| embedding(self.token_types)),
            embedding_norm: norm(self.embedding_width),
            projection: (self.embedding_width != self.width)
                .then(|| linear(self.embedding_width, self.width)),
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.layers).map(|_| layer()).collect(),
            final_norm: None,
            order: (0..self.layers).map(|index| vec![index]).collect(),
            first_position: self.first_position(),
            norm_epsilon: self.norm_epsilon as f32,
        }
    }

    /// Creates a transformer of ModernBERT's layout with random weights.
    fn init_pre_norm(&self, layout: &ModernbertLayout, device: &Device) -> Transformer {
        let normal = |std| Initializer::Normal { mean: 0.0, std };
        // The last projection of each sub-layer adds to the residual; its variance grows with the number of layers.
        let (std, last) = (0.02, 0.02 / (2.0 * self.layers.max(1) as f64).sqrt());
        let linear = |from, to, std, bias| {
            let config = LinearConfig::new(from, to).with_initializer(normal(std));
            config.with_bias(bias).init(device)
        };
        let norm = || {
            LayerNormConfig::new(self.width)
                .with_epsilon(self.norm_epsilon)
                .with_bias(layout.norm_bias)
                .init(device)
        };
        let (width, inner) = (self.width, self.feed_forward);
        let attention = |std| linear(width, width, std, layout.attention_bias);
        let layer = |index: usize| EncoderLayer {
            query: attention(std),
            key: attention(std),
            value: attention(std),
            attention_output: attention(last),
            // The embeddings are normalised.
            attention_norm: (index > 0).then(norm),
            feed_forward_inner: linear(width, inner, std, layout.feed_forward_bias),
            feed_forward_gate: Some(linear(width, inner, std, layout.feed_forward_bias)),
            feed_forward_outer: linear(inner, width, last, layout.feed_forward_bias),
            feed_forward_norm: norm(),
            dropout: DropoutConfig::new(layout.feed_forward_dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
            rotary: Some(layout.attention(index)),
        };
        Transformer {
            word_embeddings: EmbeddingConfig::new(self.vocabulary, width)
                .with_initializer(normal(std))
                .init(device),
            position_embeddings: None,
            token_type_embeddings: None,
            embedding_norm: norm(),
            projection: None,
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.layers).map(layer).collect(),
            final_norm: Some(norm()),
            order: (0..self.layers).map(|index| vec![index]).collect(),
            first_position: 0,
            norm_epsilon: self.norm_epsilon as f32,
        }
    }
}

impl ModernbertLayout {
    /// Positions and reach of the attention of a layer.
    fn attention(&self, layer: usize) -> RotaryAttention {
        if self.is_global.get(layer).copied().unwrap_or(true) {
            RotaryAttention {
                theta: self.global_theta,
                reach: None,
            }
        } else {
            RotaryAttention {
                theta: self.local_theta,
                reach: Some(self.local_window / 2),
            }
        }
    }
}
