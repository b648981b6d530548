//! MPNet (Song et al. 2020, <https://arxiv.org/abs/2004.09297>; <https://github.com/microsoft/MPNet>). A table of biases for
//! the distances between pieces is added to the attention scores of all layers; there are no token types.

use serde::Deserialize;

use super::bert::BertConfig;
use super::{ConfigError, LARGEST_TABLE};
use crate::encoder::transformer::{
    EncoderFamily, Layout, MPNET_BUCKETS, MpnetLayout, TransformerConfig,
};

/// Replacements, in order, that turn MPNet's parameter names into BERT's or ours.
pub(super) const NAMES: &[(&str, &str)] = &[
    (r"^mpnet\.", ""),
    (r"\.attention\.attn\.q\.", ".attention.self.query."),
    (r"\.attention\.attn\.k\.", ".attention.self.key."),
    (r"\.attention\.attn\.v\.", ".attention.self.value."),
    (r"\.attention\.attn\.o\.", ".attention.output.dense."),
    (r"\.attention\.LayerNorm\.", ".attention.output.LayerNorm."),
    (
        r"^encoder\.relative_attention_bias\.",
        "relative_embeddings.",
    ),
];

/// `config.json` of an MPNet model: the keys of BERT's, and the rows of the table of biases.
#[derive(Debug, Deserialize)]
pub(super) struct MpnetConfig {
    #[serde(flatten)]
    bert: BertConfig,
    #[serde(default = "buckets")]
    relative_attention_num_buckets: usize,
}

fn buckets() -> usize {
    MPNET_BUCKETS
}

impl MpnetConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        let buckets = self.relative_attention_num_buckets;
        // The reference implementation uses the first 32 rows, however many there are.
        if !(MPNET_BUCKETS..=LARGEST_TABLE).contains(&buckets) {
            return Err(ConfigError::Unsupported {
                key: "relative_attention_num_buckets",
                value: buckets.to_string(),
                supported: "32, the number of buckets that MPNet uses",
            });
        }
        Ok(TransformerConfig {
            family: EncoderFamily::Mpnet,
            token_types: 0,
            // Not read from `pad_token_id`: positions start after 1 in any case.
            padding: 1,
            layout: Layout::Mpnet(MpnetLayout { buckets }),
            ..self.bert.transformer()?
        })
    }
}
