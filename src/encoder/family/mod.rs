//! Families of pretrained encoders: one file each, with the keys of its `config.json`.
//!
//! They share one [transformer](super::transformer); they differ in the names of settings and parameters, in where
//! positions start, and in whether token types and an embedding projection exist.

mod bert;
mod distilbert;
mod electra;
mod modernbert;
mod roberta;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::transformer::{Activation, Layout, TransformerConfig};

/// Why the `config.json` of a pretrained model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is missing or has the wrong type.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A key has a value that is not implemented.
    #[error("{key} {value:?} is not supported; supported: {supported}")]
    Unsupported {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The values that are implemented.
        supported: &'static str,
    },
    /// The attention heads do not divide the width.
    #[error("the width {width} is not a multiple of the {heads} attention heads")]
    Heads {
        /// Width of the states.
        width: usize,
        /// Number of attention heads.
        heads: usize,
    },
    /// The width of an attention head is odd, but rotary positions rotate pairs of values.
    #[error("the width of an attention head has to be even for rotary positions, and is {0}")]
    OddHeads(usize),
    /// There are too few positions for a word between the special pieces.
    #[error("max_position_embeddings {0} leaves no room for a word")]
    TooShort(usize),
}

/// Reads the sizes of a transformer from the `config.json` of a pretrained model.
pub(super) fn parse_config(json: &Value) -> Result<TransformerConfig, ConfigError> {
    let config = match json["model_type"].as_str().unwrap_or("bert") {
        "bert" => read::<bert::BertConfig>(json)?.transformer()?,
        "roberta" | "xlm-roberta" | "camembert" => {
            read::<roberta::RobertaConfig>(json)?.transformer()?
        }
        "electra" => read::<electra::ElectraConfig>(json)?.transformer()?,
        "distilbert" => read::<distilbert::DistilBertConfig>(json)?.transformer()?,
        "modernbert" => read::<modernbert::ModernbertConfig>(json)?.transformer()?,
        other => {
            return Err(ConfigError::Unsupported {
                key: "model_type",
                value: other.into(),
                supported: "bert, roberta, xlm-roberta, camembert, electra, distilbert, modernbert",
            });
        }
    };
    // Published configs of ModernBERT have any value there; its positions are rotary.
    if let Some(kind) = json["position_embedding_type"].as_str()
        && kind != "absolute"
        && !matches!(config.layout, Layout::Modernbert(_))
    {
        return Err(ConfigError::Unsupported {
            key: "position_embedding_type",
            value: kind.into(),
            supported: "absolute",
        });
    }
    check(&config)?;
    Ok(config)
}

fn read<C: DeserializeOwned>(json: &Value) -> Result<C, ConfigError> {
    Ok(C::deserialize(json)?)
}

fn check(config: &TransformerConfig) -> Result<(), ConfigError> {
    if !config.width.is_multiple_of(config.heads) {
        return Err(ConfigError::Heads {
            width: config.width,
            heads: config.heads,
        });
    }
    let head_width = config.width / config.heads.max(1);
    if matches!(config.layout, Layout::Modernbert(_)) && !head_width.is_multiple_of(2) {
        return Err(ConfigError::OddHeads(head_width));
    }
    // [CLS], one piece of a word, [SEP].
    if config.window() < 3 {
        return Err(ConfigError::TooShort(config.positions));
    }
    Ok(())
}

fn activation(name: &str) -> Result<Activation, ConfigError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluNew),
        "relu" => Ok(Activation::Relu),
        other => Err(ConfigError::Unsupported {
            key: "activation",
            value: other.into(),
            supported: "gelu, gelu_new, gelu_pytorch_tanh, relu",
        }),
    }
}

/// The padding id, if it is given and not negative.
fn padding_id(pad_token_id: Option<i64>) -> Option<usize> {
    usize::try_from(pad_token_id?).ok()
}

fn gelu() -> String {
    "gelu".into()
}

fn tenth() -> f64 {
    0.1
}

fn default_layer_norm_eps() -> f64 {
    1e-12
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::transformer::EncoderFamily;
    use serde_json::json;

    fn bert() -> Value {
        json!({
            "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
            "intermediate_size": 1536, "max_position_embeddings": 512,
        })
    }

    #[test]
    fn missing_settings_have_the_defaults_of_bert() {
        let config = parse_config(&bert()).unwrap();
        let expected = TransformerConfig {
            family: EncoderFamily::Bert,
            vocabulary: 30522,
            embedding_width: 384,
            width: 384,
            layers: 6,
            heads: 12,
            feed_forward: 1536,
            positions: 512,
            token_types: 2,
            padding: 0,
            norm_epsilon: 1e-12,
            dropout: 0.1,
            attention_dropout: 0.1,
            activation: Activation::Gelu,
            layout: Layout::Bert,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn families_differ_in_positions_and_embeddings() {
        let mut json = bert();
        json["model_type"] = "camembert".into();
        json["pad_token_id"] = Value::Null;
        let config = parse_config(&json).unwrap();
        assert_eq!((config.padding, config.window()), (1, 510));
        json["model_type"] = "electra".into();
        json["embedding_size"] = 128.into();
        json["pad_token_id"] = (-1).into();
        let config = parse_config(&json).unwrap();
        assert_eq!(config.family, EncoderFamily::Electra);
        assert_eq!((config.embedding_width, config.padding), (128, 0));
        json["position_embedding_type"] = "relative_key".into();
        let problem = parse_config(&json).unwrap_err().to_string();
        assert!(problem.contains("relative_key"), "{problem}");
    }
}
