//! RoBERTa (Liu et al. 2019, <https://arxiv.org/abs/1907.11692>; <https://github.com/facebookresearch/fairseq>), XLM-R
//! (<https://arxiv.org/abs/1911.02116>) and CamemBERT (<https://arxiv.org/abs/1911.03894>). Positions start after the
//! padding id.

use serde::Deserialize;

use super::bert::BertConfig;
use super::{ConfigError, padding_id};
use crate::encoder::transformer::{EncoderFamily, TransformerConfig};

/// `config.json` of a RoBERTa model: the keys of BERT's, with another default padding id.
#[derive(Debug, Deserialize)]
pub(super) struct RobertaConfig {
    #[serde(flatten)]
    bert: BertConfig,
}

impl RobertaConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        let padding = padding_id(self.bert.pad_token_id).unwrap_or(1);
        Ok(TransformerConfig {
            family: EncoderFamily::Roberta,
            padding,
            ..self.bert.transformer()?
        })
    }
}
