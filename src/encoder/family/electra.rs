//! ELECTRA (Clark et al. 2020, <https://arxiv.org/abs/2003.10555>; <https://github.com/google-research/electra>).
//! Embeddings may be narrower than the layers; a projection follows them then.

use serde::Deserialize;

use super::ConfigError;
use super::bert::BertConfig;
use crate::encoder::transformer::{EncoderFamily, TransformerConfig};

/// `config.json` of an ELECTRA model: the keys of BERT's and the width of the embeddings.
#[derive(Debug, Deserialize)]
pub(super) struct ElectraConfig {
    #[serde(flatten)]
    bert: BertConfig,
    embedding_size: Option<usize>,
}

impl ElectraConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        let config = self.bert.transformer()?;
        Ok(TransformerConfig {
            family: EncoderFamily::Electra,
            embedding_width: self.embedding_size.unwrap_or(config.width),
            ..config
        })
    }
}
