//! Sizes of a transformer, and one of those sizes with fresh weights.

use burn::module::Initializer;
use burn::nn::{DropoutConfig, EmbeddingConfig, LayerNormConfig, LinearConfig};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::Transformer;
use super::layer::Layer;

/// Which member of the family a set of weights belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// BERT and everything with its layout.
    Bert,
    /// RoBERTa: positions start after the padding id.
    Roberta,
    /// ELECTRA: embeddings may be narrower than the layers.
    Electra,
    /// DistilBERT: no token types, other names.
    DistilBert,
}

/// The feed-forward activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Exact GELU.
    Gelu,
    /// GELU with the tanh approximation.
    GeluNew,
    /// Rectifier.
    Relu,
}

/// Sizes of a transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// The member of the family.
    pub family: Family,
    /// Number of word pieces.
    pub vocabulary: usize,
    /// Width of the embeddings; a projection follows when it differs from `width`.
    pub embedding_width: usize,
    /// Width of the layers.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    /// Rows of the position table.
    pub positions: usize,
    /// Rows of the token-type table; 0 for none.
    pub token_types: usize,
    /// Id of the padding piece.
    pub padding: usize,
    /// Layer-norm epsilon.
    pub norm_epsilon: f64,
    /// Dropout after embeddings and sub-layers.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Feed-forward activation.
    pub activation: Activation,
}

impl TransformerConfig {
    /// Where the first piece's position stands in the table.
    fn first_position(&self) -> usize {
        match self.family {
            Family::Roberta => self.padding + 1,
            _ => 0,
        }
    }

    /// How many pieces (special ones included) fit into one window.
    pub fn window(&self) -> usize {
        self.positions.saturating_sub(self.first_position())
    }

    /// A transformer with fresh weights.
    pub fn init(&self, device: &Device) -> Transformer {
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
        let layer = || Layer {
            query: linear(self.width, self.width),
            key: linear(self.width, self.width),
            value: linear(self.width, self.width),
            attention_output: linear(self.width, self.width),
            attention_norm: norm(self.width),
            feed_forward_inner: linear(self.width, self.feed_forward),
            feed_forward_outer: linear(self.feed_forward, self.width),
            feed_forward_norm: norm(self.width),
            dropout: DropoutConfig::new(self.dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
        };
        Transformer {
            word_embeddings: embedding(self.vocabulary),
            position_embeddings: embedding(self.positions),
            token_type_embeddings: (self.token_types > 0).then(|| embedding(self.token_types)),
            embedding_norm: norm(self.embedding_width),
            projection: (self.embedding_width != self.width)
                .then(|| linear(self.embedding_width, self.width)),
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.layers).map(|_| layer()).collect(),
            first_position: self.first_position(),
            norm_epsilon: self.norm_epsilon as f32,
        }
    }
}
