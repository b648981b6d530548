//! ModernBERT (Warner et al. 2024, <https://arxiv.org/abs/2412.13663>; <https://github.com/AnswerDotAI/ModernBERT>) and
//! models with its layout, such as Ettin and mmBERT.
//!
//! A norm before each sub-layer, rotary positions, gated feed-forward networks, and layers in which a piece attends to its
//! neighbours only. There are two spellings of `config.json`: thetas and the distance of global layers as numbers, and the
//! newer `rope_parameters` and `layer_types`.

use serde::Deserialize;

use super::{ConfigError, activation, gelu, padding_id};
use crate::encoder::transformer::{EncoderFamily, Layout, ModernbertLayout, TransformerConfig};

/// Largest number of layers: what `layer_types` describes is held for each.
const MOST_LAYERS: usize = 4096;

/// `config.json` of a ModernBERT model; other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct ModernbertConfig {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default = "gelu")]
    hidden_activation: String,
    #[serde(default = "default_positions")]
    max_position_embeddings: usize,
    #[serde(default = "default_norm_eps")]
    norm_eps: f64,
    #[serde(default)]
    norm_bias: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    embedding_dropout: f64,
    #[serde(default)]
    attention_dropout: f64,
    #[serde(default)]
    mlp_dropout: f64,
    #[serde(default = "default_local_attention")]
    local_attention: usize,
    pad_token_id: Option<i64>,
    // The older spelling.
    global_rope_theta: Option<f64>,
    /// That of global layers if it is null.
    #[serde(default = "default_local_theta")]
    local_rope_theta: Option<f64>,
    global_attn_every_n_layers: Option<usize>,
    rope_scaling: Option<Rope>,
    // The newer spelling.
    rope_parameters: Option<RopeParameters>,
    layer_types: Option<Vec<String>>,
}

/// Rotary positions of each type of layer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RopeParameters {
    full_attention: Option<Rope>,
    sliding_attention: Option<Rope>,
}

/// Rotary positions.
#[derive(Debug, Default, Deserialize)]
struct Rope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    /// The older name of `rope_type`.
    r#type: Option<String>,
}

fn default_local_theta() -> Option<f64> {
    Some(10_000.0)
}

fn default_positions() -> usize {
    8192
}

fn default_norm_eps() -> f64 {
    1e-5
}

fn default_local_attention() -> usize {
    128
}

impl ModernbertConfig {
    /// Sizes of the transformer.
    pub(super) fn transformer(self) -> Result<TransformerConfig, ConfigError> {
        let is_global = self.is_global()?;
        let (global_theta, local_theta) = self.thetas()?;
        Ok(TransformerConfig {
            family: EncoderFamily::Modernbert,
            vocabulary: self.vocab_size,
            embedding_width: self.hidden_size,
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            feed_forward: self.intermediate_size,
            positions: self.max_position_embeddings,
            token_types: 0,
            padding: padding_id(self.pad_token_id).unwrap_or(50283),
            norm_epsilon: self.norm_eps,
            dropout: self.embedding_dropout,
            attention_dropout: self.attention_dropout,
            activation: activation(&self.hidden_activation)?,
            layout: Layout::Modernbert(ModernbertLayout {
                global_theta,
                local_theta,
                local_window: self.local_attention,
                is_global,
                attention_bias: self.attention_bias,
                feed_forward_bias: self.mlp_bias,
                norm_bias: self.norm_bias,
                feed_forward_dropout: self.mlp_dropout,
            }),
        })
    }

    /// For each layer, whether its attention is global.
    fn is_global(&self) -> Result<Vec<bool>, ConfigError> {
        let layers = self.num_hidden_layers;
        if layers > MOST_LAYERS {
            return Err(ConfigError::Unsupported {
                key: "num_hidden_layers",
                value: layers.to_string(),
                supported: "up to 4096",
            });
        }
        let Some(types) = &self.layer_types else {
            let every = self.global_attn_every_n_layers.unwrap_or(3);
            if every == 0 {
                return Err(ConfigError::Unsupported {
                    key: "global_attn_every_n_layers",
                    value: "0".into(),
                    supported: "1 and more",
                });
            }
            return Ok((0..layers).map(|layer| layer % every == 0).collect());
        };
        if types.len() != layers {
            return Err(ConfigError::Unsupported {
                key: "layer_types",
                value: format!("{} types of {layers} layers", types.len()),
                supported: "one for each layer (num_hidden_layers)",
            });
        }
        let types = types.iter().map(|kind| match kind.as_str() {
            "full_attention" => Ok(true),
            "sliding_attention" => Ok(false),
            other => Err(ConfigError::Unsupported {
                key: "layer_types",
                value: other.into(),
                supported: "full_attention, sliding_attention",
            }),
        });
        types.collect()
    }

    /// The bases of the rotary positions of global and of local layers.
    fn thetas(&self) -> Result<(f64, f64), ConfigError> {
        let given = self.rope_parameters.as_ref();
        let full = given.and_then(|given| given.full_attention.as_ref());
        let sliding = given.and_then(|given| given.sliding_attention.as_ref());
        let ropes = [full, sliding, self.rope_scaling.as_ref()];
        for rope in ropes.into_iter().flatten() {
            let mut kinds = rope.rope_type.iter().chain(&rope.r#type);
            if let Some(kind) = kinds.find(|kind| *kind != "default") {
                return Err(ConfigError::Unsupported {
                    key: "rope_type",
                    value: kind.clone(),
                    supported: "default",
                });
            }
        }
        let theta = |rope: Option<&Rope>, older: Option<f64>, default: f64| {
            let theta = rope.and_then(|rope| rope.rope_theta).or(older);
            let theta = theta.unwrap_or(default);
            if theta.is_finite() && theta > 0.0 {
                Ok(theta)
            } else {
                Err(ConfigError::Unsupported {
                    key: "rope_theta",
                    value: theta.to_string(),
                    supported: "positive numbers",
                })
            }
        };
        let global = theta(full, self.global_rope_theta, 160_000.0)?;
        let local = theta(sliding, self.local_rope_theta, global)?;
        Ok((global, local))
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_config;
    use super::*;
    use serde_json::{Value, json};

    fn base() -> Value {
        json!({
            "model_type": "modernbert", "vocab_size": 50368, "hidden_size": 768, "num_hidden_layers": 7,
            "num_attention_heads": 12, "intermediate_size": 1152, "position_embedding_type": "sans_pos",
        })
    }

    fn with(changes: Value) -> Result<TransformerConfig, ConfigError> {
        let mut json = base();
        for (key, value) in changes.as_object().unwrap() {
            json[key] = value.clone();
        }
        parse_config(&json)
    }

    fn layout(changes: Value) -> ModernbertLayout {
        match with(changes).unwrap().layout {
            Layout::Modernbert(layout) => layout,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn missing_settings_have_the_defaults_of_modernbert() {
        let config = with(json!({})).unwrap();
        let expected = TransformerConfig {
            family: EncoderFamily::Modernbert,
            vocabulary: 50368,
            embedding_width: 768,
            width: 768,
            layers: 7,
            heads: 12,
            feed_forward: 1152,
            positions: 8192,
            token_types: 0,
            padding: 50283,
            norm_epsilon: 1e-5,
            dropout: 0.0,
            attention_dropout: 0.0,
            activation: crate::encoder::transformer::Activation::Gelu,
            layout: Layout::Modernbert(ModernbertLayout {
                global_theta: 160_000.0,
                local_theta: 10_000.0,
                local_window: 128,
                is_global: vec![true, false, false, true, false, false, true],
                attention_bias: false,
                feed_forward_bias: false,
                norm_bias: false,
                feed_forward_dropout: 0.0,
            }),
        };
        assert_eq!(config, expected);
        assert_eq!(config.window(), 8192);
        let json = serde_json::to_value(&config).unwrap();
        let read: TransformerConfig = serde_json::from_value(json).unwrap();
        assert_eq!(read, config);
    }

    #[test]
    fn both_spellings_mean_the_same() {
        let older = layout(json!({
            "global_rope_theta": 160000.0, "local_rope_theta": 5000.0, "global_attn_every_n_layers": 2,
        }));
        let newer = layout(json!({
            "rope_parameters": {
                "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
                "sliding_attention": {"rope_theta": 5000.0, "rope_type": "default"},
            },
            "layer_types": [
                "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
                "sliding_attention", "full_attention",
            ],
        }));
        assert_eq!(older, newer);
        // A part of the newer spelling beside the older one.
        let mixed = layout(json!({
            "global_rope_theta": 7.0, "rope_parameters": {"full_attention": {"rope_type": "default"}},
            "rope_scaling": null,
        }));
        assert_eq!((mixed.global_theta, mixed.local_theta), (7.0, 10_000.0));
        let one = layout(json!({"global_rope_theta": 9.0, "local_rope_theta": null}));
        assert_eq!((one.global_theta, one.local_theta), (9.0, 9.0));
    }

    #[test]
    fn what_is_not_implemented_is_named() {
        let linear = json!({"rope_theta": 1e4, "rope_type": "linear", "factor": 2.0});
        for (changes, parts) in [
            (
                json!({"rope_parameters": {"sliding_attention": linear}}),
                ["rope_type", "linear"],
            ),
            (
                json!({"rope_scaling": {"type": "yarn"}}),
                ["rope_type", "yarn"],
            ),
            (
                json!({"rope_parameters": {"rope_theta": 1e4}}),
                ["rope_theta", "full_attention"],
            ),
            (json!({"local_rope_theta": -1.0}), ["rope_theta", "-1"]),
            (
                json!({"global_attn_every_n_layers": 0}),
                ["global_attn_every_n_layers", "0"],
            ),
            (
                json!({"layer_types": ["full_attention"]}),
                ["layer_types", "1 types of 7"],
            ),
            (
                json!({"layer_types": ["full_attention", "a", "a", "a", "a", "a", "a"]}),
                ["layer_types", "\"a\""],
            ),
            (
                json!({"num_hidden_layers": 1_000_000_000_000_u64}),
                ["num_hidden_layers", "1000000000000"],
            ),
            (json!({"hidden_activation": "silu"}), ["silu", "gelu"]),
            (json!({"num_attention_heads": 256}), ["even", "3"]),
            (
                json!({"model_type": "modernbert-decoder"}),
                ["modernbert-decoder", "modernbert"],
            ),
        ] {
            let problem = with(changes.clone()).unwrap_err().to_string();
            for part in parts {
                assert!(problem.contains(part), "{changes}: {problem}");
            }
        }
    }
}
