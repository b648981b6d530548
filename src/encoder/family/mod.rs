//! Families of pretrained encoders: one file each, with the keys of its `config.json`.
//!
//! They share one [transformer](super::transformer). They differ in the names of settings and parameters, in where positions
//! start, in whether token types and an embedding projection exist, and in the [`Layout`] of their layers.

mod albert;
mod bert;
mod deberta;
mod distilbert;
mod electra;
mod modernbert;
mod mpnet;
mod roberta;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::transformer::{Activation, Layout, SizeError, TransformerConfig};
use crate::error::nearest;

/// The values of `model_type` that are supported.
const MODEL_TYPES: &[&str] = &[
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "electra",
    "distilbert",
    "albert",
    "deberta-v2",
    "mpnet",
    "modernbert",
];

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
    /// The sizes are out of range or do not fit each other.
    #[error("{0}")]
    Sizes(#[from] SizeError),
    /// The family is not implemented.
    #[error(
        "model_type {model_type:?} is not supported{}; supported: {}",
        nearest(model_type, MODEL_TYPES.iter().copied())
            .map_or(String::new(), |near| format!(", did you mean {near:?}?")),
        MODEL_TYPES.join(", ")
    )]
    ModelType {
        /// The value of `model_type`.
        model_type: String,
    },
}

/// Reads the sizes of a transformer from the `config.json` of a pretrained model.
pub(super) fn parse_config(json: &Value) -> Result<TransformerConfig, ConfigError> {
    // Old files of BERT do not say what they are.
    let model_type = match &json["model_type"] {
        Value::Null => "bert".into(),
        Value::String(name) => name.clone(),
        other => other.to_string(),
    };
    let config = match model_type.as_str() {
        "bert" => read::<bert::BertConfig>(json)?.transformer()?,
        "roberta" | "xlm-roberta" | "camembert" => {
            read::<roberta::RobertaConfig>(json)?.transformer()?
        }
        "electra" => read::<electra::ElectraConfig>(json)?.transformer()?,
        "distilbert" => read::<distilbert::DistilBertConfig>(json)?.transformer()?,
        "albert" => read::<albert::AlbertConfig>(json)?.transformer()?,
        "deberta-v2" => read::<deberta::DebertaConfig>(json)?.transformer()?,
        "deberta" => {
            return Err(ConfigError::Unsupported {
                key: "model_type",
                value: "deberta".into(),
                supported: "deberta-v2, the type of DeBERTa's versions 2 and 3; version 1 has another architecture",
            });
        }
        "mpnet" => read::<mpnet::MpnetConfig>(json)?.transformer()?,
        "modernbert" => read::<modernbert::ModernbertConfig>(json)?.transformer()?,
        other => {
            return Err(ConfigError::ModelType {
                model_type: other.into(),
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
    config.check()?;
    Ok(config)
}

fn read<C: DeserializeOwned>(json: &Value) -> Result<C, ConfigError> {
    Ok(C::deserialize(json)?)
}

/// Replacements, in order, that turn the parameter names of a family into those that BERT has, or into ours.
pub(super) fn names(layout: &Layout) -> Vec<(String, String)> {
    match layout {
        Layout::Albert(layout) => albert::names(layout),
        Layout::Deberta(_) => owned(deberta::NAMES),
        Layout::Mpnet(_) => owned(mpnet::NAMES),
        _ => Vec::new(),
    }
}

fn owned(names: &[(&str, &str)]) -> Vec<(String, String)> {
    let names = names.iter();
    names
        .map(|(from, to)| (from.to_string(), to.to_string()))
        .collect()
}

pub(super) fn activation(name: &str) -> Result<Activation, ConfigError> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(Activation::GeluNew),
        "relu" => Ok(Activation::Relu),
        "tanh" => Ok(Activation::Tanh),
        other => Err(ConfigError::Unsupported {
            key: "activation",
            value: other.into(),
            supported: "gelu, gelu_new, gelu_pytorch_tanh, relu, tanh",
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
    use crate::encoder::transformer::{
        DebertaConvolution, DebertaLayout, EncoderFamily, Layout, MpnetLayout,
    };
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
        json["model_type"] = "albert".into();
        let config = parse_config(&json).unwrap();
        assert_eq!(config.family, EncoderFamily::Albert);
        assert_eq!(config.activation, Activation::GeluNew);
        assert_eq!((config.dropout, config.order()), (0.0, vec![0; 6]));
        json["position_embedding_type"] = "relative_key".into();
        let problem = parse_config(&json).unwrap_err().to_string();
        assert!(problem.contains("relative_key"), "{problem}");
    }

    #[test]
    fn an_empty_albert_config_has_the_sizes_of_the_reference() {
        let config = parse_config(&json!({"model_type": "albert"})).unwrap();
        let sizes = [config.vocabulary, config.embedding_width, config.width];
        assert_eq!(sizes, [30000, 128, 4096]);
        assert_eq!(config.order(), [0; 12]);
    }

    #[test]
    fn sharing_that_cannot_be_is_refused() {
        let albert = |key: &str, value: u64| {
            let mut json = json!({"model_type": "albert", "hidden_size": 64});
            json[key] = value.into();
            parse_config(&json).map_err(|problem| problem.to_string())
        };
        for key in ["num_hidden_groups", "inner_group_num", "num_hidden_layers"] {
            assert!(albert(key, 3).is_ok());
            for value in [0, 1001, u64::MAX] {
                assert!(albert(key, value).unwrap_err().contains(key));
            }
        }
        let json = json!({"model_type": "albert", "num_hidden_groups": 100, "inner_group_num": 11});
        assert!(
            parse_config(&json)
                .unwrap_err()
                .to_string()
                .contains("1100")
        );
    }

    #[test]
    fn an_unknown_model_type_is_explained() {
        let problem = |model_type: &str| {
            parse_config(&json!({"model_type": model_type}))
                .unwrap_err()
                .to_string()
        };
        for known in MODEL_TYPES {
            assert!(problem("t5").contains(known));
            // The list and the families agree.
            let found = parse_config(&json!({"model_type": known}));
            assert!(
                !matches!(found, Err(ConfigError::ModelType { .. })),
                "{known}"
            );
        }
        assert!(problem("xlm-robreta").contains("did you mean \"xlm-roberta\"?"));
        assert!(problem("ALBERT-base").contains("albert"));
        assert!(!problem("t5").contains("did you mean"));
    }

    /// The keys of microsoft/deberta-v3-base.
    fn deberta_v3() -> Value {
        json!({
            "model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
            "max_position_embeddings": 512, "relative_attention": true, "position_buckets": 256,
            "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-7,
            "max_relative_positions": -1, "position_biased_input": false, "num_attention_heads": 12,
            "num_hidden_layers": 12, "type_vocab_size": 0, "vocab_size": 128_100,
        })
    }

    fn deberta_layout(json: &Value) -> DebertaLayout {
        match parse_config(json).unwrap().layout {
            Layout::Deberta(layout) => layout,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn published_settings_of_deberta_are_read() {
        let mut json = deberta_v3();
        let config = parse_config(&json).unwrap();
        assert_eq!((config.token_types, config.window()), (0, 512));
        let v3 = DebertaLayout {
            relative: true,
            content_to_position: true,
            position_to_content: true,
            buckets: 256,
            longest: 512,
            shared_key: true,
            normalised: true,
            position_input: false,
            convolution: None,
        };
        assert_eq!(config.layout, Layout::Deberta(v3.clone()));
        // The keys that microsoft/deberta-v2-xlarge has besides.
        json["conv_kernel_size"] = 3.into();
        json["conv_act"] = "gelu".into();
        json["attention_head_size"] = 64.into();
        let convolution = DebertaConvolution {
            kernel: 3,
            groups: 1,
            activation: Activation::Gelu,
        };
        let xlarge = DebertaLayout {
            convolution: Some(convolution),
            ..v3
        };
        assert_eq!(deberta_layout(&json), xlarge);
        for types in [json!("P2C | c2p"), json!(["c2p", "p2c"])] {
            json["pos_att_type"] = types;
            assert_eq!(deberta_layout(&json), xlarge);
        }
        for types in [json!("none"), json!([]), json!(null), json!(["none"])] {
            json["pos_att_type"] = types;
            let layout = deberta_layout(&json);
            assert!(!layout.content_to_position && !layout.position_to_content);
        }
        json["max_relative_positions"] = 100.into();
        json["position_buckets"] = (-1).into();
        let layout = deberta_layout(&json);
        assert_eq!((layout.buckets, layout.longest), (0, 100));
    }

    #[test]
    fn settings_of_deberta_that_cannot_be_are_refused() {
        for (key, value) in [
            ("pos_att_type", json!("c2p|p2p")),
            ("norm_rel_ebd", json!("batch_norm")),
            ("position_buckets", json!(1)),
            ("max_relative_positions", json!(129)),
            ("position_buckets", json!(1_u64 << 62)),
            ("max_relative_positions", json!(1_u64 << 62)),
            ("conv_kernel_size", json!(4)),
            ("conv_kernel_size", json!(1_000_001)),
            ("attention_head_size", json!(63)),
            ("attention_head_size", json!(u64::MAX)),
        ] {
            let mut json = deberta_v3();
            json[key] = value.clone();
            let problem = parse_config(&json).unwrap_err().to_string();
            assert!(problem.contains(key), "{key} {value}: {problem}");
        }
        let mut json = deberta_v3();
        json["conv_kernel_size"] = 3.into();
        for groups in [0, 5] {
            json["conv_groups"] = groups.into();
            let problem = parse_config(&json).unwrap_err().to_string();
            assert!(problem.contains("conv_groups"), "{problem}");
        }
        json["model_type"] = "deberta".into();
        let problem = parse_config(&json).unwrap_err().to_string();
        assert!(problem.contains("version 1"), "{problem}");
    }

    #[test]
    fn settings_of_mpnet_are_read() {
        let mut json = bert();
        json["model_type"] = "mpnet".into();
        // Positions start after 1 whatever this says.
        json["pad_token_id"] = 7.into();
        let config = parse_config(&json).unwrap();
        assert_eq!((config.window(), config.token_types), (510, 0));
        assert_eq!(config.layout, Layout::Mpnet(MpnetLayout { buckets: 32 }));
        json["hidden_dropout_prob"] = 1.into();
        let problem = parse_config(&json).unwrap_err().to_string();
        assert!(problem.contains("dropout"), "{problem}");
        json["hidden_dropout_prob"] = 0.into();
        for buckets in [0, 31, 1_usize << 60] {
            json["relative_attention_num_buckets"] = buckets.into();
            let problem = parse_config(&json).unwrap_err().to_string();
            assert!(
                problem.contains("relative_attention_num_buckets"),
                "{problem}"
            );
        }
    }
}
