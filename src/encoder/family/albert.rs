//! ALBERT (Lan et al. 2020, <https://arxiv.org/abs/1909.11942>; <https://github.com/google-research/albert>). Embeddings are
//! narrower than the layers, and consecutive layers share the weights of a group.

use serde::Deserialize;

use super::{ConfigError, activation, default_layer_norm_eps, padding_id};
use crate::encoder::transformer::{AlbertLayout, EncoderFamily, Layout, TransformerConfig};

/// `config.json` of an ALBERT model; other keys are ignored. Missing keys have the values of ALBERT-xxlarge.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct AlbertConfig {
    vocab_size: usize,
    embedding_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_hidden_groups: usize,
    inner_group_num: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    hidden_act: String,
    hidden_dropout_prob: f64,
    attention_probs_dropout_prob: f64,
    layer_norm_eps: f64,
    pad_token_id: Option<i64>,
}

impl Default for AlbertConfig {
    fn default() -> Self {
        Self {
            vocab_size: 30000,
            embedding_size: 128,
            hidden_size: 4096,
            num_hidden_layers: 12,
            num_hidden_groups: 1,
            inner_group_num: 1,
            num_attention_heads: 64,
            intermediate_size: 16384,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            hidden_act: "gelu_new".into(),
            hidden_dropout_prob: 0.0,
            attention_probs_dropout_prob: 0.0,
            layer_norm_eps: default_layer_norm_eps(),
            pad_token_id: Some(0),
        }
    }
}

impl AlbertConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        let layout = AlbertLayout {
            groups: self.num_hidden_groups,
            layers_per_group: self.inner_group_num,
        };
        Ok(TransformerConfig {
            family: EncoderFamily::Albert,
            vocabulary: self.vocab_size,
            embedding_width: self.embedding_size,
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
            layout: Layout::Albert(layout),
        })
    }
}

/// Replacements, in order, that turn ALBERT's parameter names into BERT's or ours. Layers are numbered through all groups.
pub(super) fn names(layout: &AlbertLayout) -> Vec<(String, String)> {
    let own = |names: &[(&str, &str)]| -> Vec<(String, String)> {
        let pairs = names.iter();
        pairs
            .map(|(from, to)| (from.to_string(), to.to_string()))
            .collect()
    };
    let mut names = own(&[
        (r"^albert\.", ""),
        (r"^encoder\.embedding_hidden_mapping_in\.", "projection."),
    ]);
    for layer in 0..layout.distinct_layers() {
        let (group, inner) = (
            layer / layout.layers_per_group,
            layer % layout.layers_per_group,
        );
        names.push((
            format!(r"^encoder\.albert_layer_groups\.{group}\.albert_layers\.{inner}\."),
            format!("layers.{layer}."),
        ));
    }
    names.extend(own(&[
        (r"^(layers\.\d+)\.attention\.(query|key|value)\.", "$1.$2."),
        (
            r"^(layers\.\d+)\.attention\.dense\.",
            "$1.attention_output.",
        ),
        (
            r"^(layers\.\d+)\.attention\.LayerNorm\.",
            "$1.attention_norm.",
        ),
        (r"^(layers\.\d+)\.ffn\.", "$1.feed_forward_inner."),
        (r"^(layers\.\d+)\.ffn_output\.", "$1.feed_forward_outer."),
        (
            r"^(layers\.\d+)\.full_layer_layer_norm\.",
            "$1.feed_forward_norm.",
        ),
    ]));
    names
}
