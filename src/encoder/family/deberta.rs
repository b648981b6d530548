//! DeBERTa, versions 2 and 3 (He et al. 2021, <https://arxiv.org/abs/2006.03654> and <https://arxiv.org/abs/2111.09543>;
//! <https://github.com/microsoft/DeBERTa>). Attention scores have terms for relative positions. Version 1 has another
//! architecture.

use serde::Deserialize;

use super::{ConfigError, LARGEST_TABLE, activation, gelu, padding_id, tenth};
use crate::encoder::transformer::{
    DebertaConvolution, DebertaLayout, EncoderFamily, Layout, TransformerConfig,
};

/// Largest size of the convolution's kernel.
const LARGEST_KERNEL: usize = 1023;

/// Replacements, in order, that turn DeBERTa's parameter names into BERT's or ours.
pub(super) const NAMES: &[(&str, &str)] = &[
    (r"^deberta\.", ""),
    (r"^embeddings\.embed_proj\.", "projection."),
    (r"\.self\.(query|key|value)_proj\.", ".self.$1."),
    (
        r"\.attention\.self\.pos_(query|key)_proj\.",
        ".disentangled.$1.",
    ),
    (r"^encoder\.rel_embeddings\.", "relative_embeddings."),
    (r"^encoder\.LayerNorm\.", "relative_norm."),
    (r"^encoder\.conv\.conv\.", "convolution.convolution."),
    (r"^encoder\.conv\.LayerNorm\.", "convolution.norm."),
];

/// `config.json` of a DeBERTa model of version 2 or 3; other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct DebertaConfig {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    #[serde(default)]
    type_vocab_size: usize,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "tenth")]
    hidden_dropout_prob: f64,
    #[serde(default = "tenth")]
    attention_probs_dropout_prob: f64,
    #[serde(default = "default_epsilon")]
    layer_norm_eps: f64,
    pad_token_id: Option<i64>,
    embedding_size: Option<usize>,
    attention_head_size: Option<usize>,
    #[serde(default)]
    relative_attention: bool,
    pos_att_type: Option<PositionTypes>,
    position_buckets: Option<i64>,
    max_relative_positions: Option<i64>,
    #[serde(default)]
    share_att_key: bool,
    norm_rel_ebd: Option<String>,
    #[serde(default = "yes")]
    position_biased_input: bool,
    conv_kernel_size: Option<i64>,
    conv_groups: Option<usize>,
    conv_act: Option<String>,
}

/// Terms of the attention scores: a list, or names separated by `|`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PositionTypes {
    Names(String),
    List(Vec<String>),
}

impl PositionTypes {
    fn list(self) -> Vec<String> {
        match self {
            Self::Names(names) => parts(&names),
            Self::List(list) => list,
        }
    }
}

/// The parts of a text between `|`, in lower case.
fn parts(text: &str) -> Vec<String> {
    let parts = text.split('|');
    parts.map(|part| part.trim().to_lowercase()).collect()
}

fn default_positions() -> usize {
    512
}

fn default_epsilon() -> f64 {
    1e-7
}

fn yes() -> bool {
    true
}

fn unsupported(
    key: &'static str,
    value: impl ToString,
    supported: &'static str,
) -> Result<(), ConfigError> {
    let value = value.to_string();
    Err(ConfigError::Unsupported {
        key,
        value,
        supported,
    })
}

impl DebertaConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(mut self) -> Result<TransformerConfig, ConfigError> {
        let layout = self.layout()?;
        if let Some(size) = self.attention_head_size
            && size.checked_mul(self.num_attention_heads) != Some(self.hidden_size)
        {
            let supported = "hidden_size divided by num_attention_heads";
            unsupported("attention_head_size", size, supported)?;
        }
        Ok(TransformerConfig {
            family: EncoderFamily::Deberta,
            vocabulary: self.vocab_size,
            embedding_width: self.embedding_size.unwrap_or(self.hidden_size),
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
            layout: Layout::Deberta(layout),
        })
    }

    fn layout(&mut self) -> Result<DebertaLayout, ConfigError> {
        let types = self.pos_att_type.take().map_or(vec![], PositionTypes::list);
        for name in &types {
            if !["c2p", "p2c", "none", ""].contains(&name.as_str()) {
                unsupported("pos_att_type", name, "c2p, p2c")?;
            }
        }
        let has = |name: &str| types.iter().any(|given| given == name);
        let norms = self.norm_rel_ebd.as_deref().map_or(vec![], parts);
        for name in &norms {
            if !["layer_norm", "none", ""].contains(&name.as_str()) {
                unsupported("norm_rel_ebd", name, "layer_norm, none")?;
            }
        }
        // Values below 1 mean "not set".
        let positive = |value: Option<i64>| usize::try_from(value?).ok().filter(|value| *value > 0);
        let longest = positive(self.max_relative_positions).unwrap_or(self.max_position_embeddings);
        let layout = DebertaLayout {
            relative: self.relative_attention,
            content_to_position: has("c2p"),
            position_to_content: has("p2c"),
            buckets: positive(self.position_buckets).unwrap_or(0),
            longest,
            shared_key: self.share_att_key,
            normalised: norms.iter().any(|name| name == "layer_norm"),
            position_input: self.position_biased_input,
            convolution: match positive(self.conv_kernel_size) {
                Some(kernel) => Some(self.convolution(kernel)?),
                None => None,
            },
        };
        if layout.relative {
            self.check_positions(&layout)?;
        }
        Ok(layout)
    }

    /// Checks that the table of relative positions has a sensible size and that buckets are defined for all distances.
    fn check_positions(&self, layout: &DebertaLayout) -> Result<(), ConfigError> {
        let (buckets, longest) = (layout.buckets, layout.longest);
        let middle = buckets / 2;
        let has_far = self.max_position_embeddings > middle + 1;
        if buckets == 1
            || buckets > LARGEST_TABLE
            || (buckets > 0 && has_far && longest <= middle + 1)
        {
            let supported = "none, or from 2 to less than twice max_relative_positions";
            unsupported("position_buckets", buckets, supported)?;
        }
        if longest > LARGEST_TABLE {
            unsupported("max_relative_positions", longest, "up to 1048576")?;
        }
        Ok(())
    }

    fn convolution(&self, kernel: usize) -> Result<DebertaConvolution, ConfigError> {
        if kernel.is_multiple_of(2) || kernel > LARGEST_KERNEL {
            unsupported("conv_kernel_size", kernel, "odd numbers up to 1023")?;
        }
        let groups = self.conv_groups.unwrap_or(1);
        if groups == 0 || !self.hidden_size.is_multiple_of(groups) {
            unsupported("conv_groups", groups, "divisors of hidden_size")?;
        }
        Ok(DebertaConvolution {
            kernel,
            groups,
            activation: activation(self.conv_act.as_deref().unwrap_or("tanh"))?,
        })
    }
}
