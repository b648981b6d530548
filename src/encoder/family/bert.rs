//! BERT (Devlin et al. 2019, <https://arxiv.org/abs/1810.04805>; <https://github.com/google-research/bert>) and models
//! with its layout, such as MiniLM.

use serde::Deserialize;

use super::{ConfigError, activation, default_layer_norm_eps, gelu, padding_id, tenth};
use crate::encoder::transformer::{EncoderFamily, Layout, TransformerConfig};

/// `config.json` of a BERT model; other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct BertConfig {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "tenth")]
    hidden_dropout_prob: f64,
    #[serde(default = "tenth")]
    attention_probs_dropout_prob: f64,
    #[serde(default = "default_layer_norm_eps")]
    layer_norm_eps: f64,
    pub(super) pad_token_id: Option<i64>,
}

fn two() -> usize {
    2
}

impl BertConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        Ok(TransformerConfig {
            family: EncoderFamily::Bert,
            vocabulary: self.vocab_size,
            embedding_width: self.hidden_size,
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            feed_forward: self.intermediate_size,
            positions: self.max_position_embeddings,
            token_types: self.type_vocab_size,
            padding: padding_id(self.pad_token_id).unwrap_or(0),
            norm_epsilon: self.layer_norm_eps,
            dropout: self.hidden_dropout_prob,
            attention_dropout: self.attention_probs_dropout_prob,
            activation: activation(&self.hidden_act)?,
            layout: Layout::Bert,
        })
    }
}
