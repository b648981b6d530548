//! DistilBERT (Sanh et al. 2019, <https://arxiv.org/abs/1910.01108>; <https://github.com/huggingface/transformers>). It
//! has no token types and names of its own for settings and parameters.

use serde::Deserialize;

use super::{ConfigError, activation, default_layer_norm_eps, gelu, padding_id, tenth};
use crate::encoder::transformer::{EncoderFamily, Layout, TransformerConfig};

/// `config.json` of a DistilBERT model; other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct DistilBertConfig {
    vocab_size: usize,
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    hidden_dim: usize,
    max_position_embeddings: usize,
    #[serde(default = "gelu")]
    activation: String,
    #[serde(default = "tenth")]
    dropout: f64,
    #[serde(default = "tenth")]
    attention_dropout: f64,
    #[serde(default = "default_layer_norm_eps")]
    layer_norm_eps: f64,
    pad_token_id: Option<i64>,
}

impl DistilBertConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        Ok(TransformerConfig {
            family: EncoderFamily::DistilBert,
            vocabulary: self.vocab_size,
            embedding_width: self.dim,
            width: self.dim,
            layers: self.n_layers,
            heads: self.n_heads,
            feed_forward: self.hidden_dim,
            positions: self.max_position_embeddings,
            token_types: 0,
            padding: padding_id(self.pad_token_id).unwrap_or(0),
            norm_epsilon: self.layer_norm_eps,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            activation: activation(&self.activation)?,
            layout: Layout::Bert,
        })
    }
}
