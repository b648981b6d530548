//! Encoders as the transformers library keeps them: names of parameters, layouts of weights and `config.json`.
//!
//! The reverse of [`load`](super::load).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::transformer::{Activation, DebertaLayout, EncoderFamily, Layout, TransformerConfig};
use crate::nn::host::HostArray;

/// Names of layers here and in the transformers library; `#` stands for the number of a layer.
type Names = &'static [(&'static str, &'static str)];

/// BERT, RoBERTa and ELECTRA.
const BERT: Names = &[
    ("word_embeddings", "embeddings.word_embeddings"),
    ("position_embeddings", "embeddings.position_embeddings"),
    ("token_type_embeddings", "embeddings.token_type_embeddings"),
    ("embedding_norm", "embeddings.LayerNorm"),
    ("projection", "embeddings_project"),
    ("layers.#.query", "encoder.layer.#.attention.self.query"),
    ("layers.#.key", "encoder.layer.#.attention.self.key"),
    ("layers.#.value", "encoder.layer.#.attention.self.value"),
    (
        "layers.#.attention_output",
        "encoder.layer.#.attention.output.dense",
    ),
    (
        "layers.#.attention_norm",
        "encoder.layer.#.attention.output.LayerNorm",
    ),
    (
        "layers.#.feed_forward_inner",
        "encoder.layer.#.intermediate.dense",
    ),
    (
        "layers.#.feed_forward_outer",
        "encoder.layer.#.output.dense",
    ),
    (
        "layers.#.feed_forward_norm",
        "encoder.layer.#.output.LayerNorm",
    ),
];

const DISTILBERT: Names = &[
    ("word_embeddings", "embeddings.word_embeddings"),
    ("position_embeddings", "embeddings.position_embeddings"),
    ("embedding_norm", "embeddings.LayerNorm"),
    ("layers.#.query", "transformer.layer.#.attention.q_lin"),
    ("layers.#.key", "transformer.layer.#.attention.k_lin"),
    ("layers.#.value", "transformer.layer.#.attention.v_lin"),
    (
        "layers.#.attention_output",
        "transformer.layer.#.attention.out_lin",
    ),
    (
        "layers.#.attention_norm",
        "transformer.layer.#.sa_layer_norm",
    ),
    (
        "layers.#.feed_forward_inner",
        "transformer.layer.#.ffn.lin1",
    ),
    (
        "layers.#.feed_forward_outer",
        "transformer.layer.#.ffn.lin2",
    ),
    (
        "layers.#.feed_forward_norm",
        "transformer.layer.#.output_layer_norm",
    ),
];

/// `#` is the group and the number of the layer in it.
const ALBERT: Names = &[
    ("word_embeddings", "embeddings.word_embeddings"),
    ("position_embeddings", "embeddings.position_embeddings"),
    ("token_type_embeddings", "embeddings.token_type_embeddings"),
    ("embedding_norm", "embeddings.LayerNorm"),
    ("projection", "encoder.embedding_hidden_mapping_in"),
    (
        "layers.#.query",
        "encoder.albert_layer_groups.#.attention.query",
    ),
    (
        "layers.#.key",
        "encoder.albert_layer_groups.#.attention.key",
    ),
    (
        "layers.#.value",
        "encoder.albert_layer_groups.#.attention.value",
    ),
    (
        "layers.#.attention_output",
        "encoder.albert_layer_groups.#.attention.dense",
    ),
    (
        "layers.#.attention_norm",
        "encoder.albert_layer_groups.#.attention.LayerNorm",
    ),
    (
        "layers.#.feed_forward_inner",
        "encoder.albert_layer_groups.#.ffn",
    ),
    (
        "layers.#.feed_forward_outer",
        "encoder.albert_layer_groups.#.ffn_output",
    ),
    (
        "layers.#.feed_forward_norm",
        "encoder.albert_layer_groups.#.full_layer_layer_norm",
    ),
];

const MPNET: Names = &[
    ("relative_embeddings", "encoder.relative_attention_bias"),
    ("layers.#.query", "encoder.layer.#.attention.attn.q"),
    ("layers.#.key", "encoder.layer.#.attention.attn.k"),
    ("layers.#.value", "encoder.layer.#.attention.attn.v"),
    (
        "layers.#.attention_output",
        "encoder.layer.#.attention.attn.o",
    ),
    (
        "layers.#.attention_norm",
        "encoder.layer.#.attention.LayerNorm",
    ),
];

const DEBERTA: Names = &[
    ("projection", "embeddings.embed_proj"),
    (
        "layers.#.query",
        "encoder.layer.#.attention.self.query_proj",
    ),
    ("layers.#.key", "encoder.layer.#.attention.self.key_proj"),
    (
        "layers.#.value",
        "encoder.layer.#.attention.self.value_proj",
    ),
    (
        "layers.#.disentangled.query",
        "encoder.layer.#.attention.self.pos_query_proj",
    ),
    (
        "layers.#.disentangled.key",
        "encoder.layer.#.attention.self.pos_key_proj",
    ),
    ("relative_embeddings", "encoder.rel_embeddings"),
    ("relative_norm", "encoder.LayerNorm"),
    ("convolution.convolution", "encoder.conv.conv"),
    ("convolution.norm", "encoder.conv.LayerNorm"),
];

const MODERNBERT: Names = &[
    ("word_embeddings", "embeddings.tok_embeddings"),
    ("embedding_norm", "embeddings.norm"),
    ("layers.#.attention_norm", "layers.#.attn_norm"),
    ("layers.#.attention_output", "layers.#.attn.Wo"),
    ("layers.#.feed_forward_norm", "layers.#.mlp_norm"),
    ("layers.#.feed_forward_outer", "layers.#.mlp.Wo"),
    ("final_norm", "final_norm"),
];

/// Layers of ModernBERT that are one layer there: their outputs follow each other.
const JOINED: &[(&str, &[&str])] = &[
    ("attn.Wqkv", &["query", "key", "value"]),
    ("mlp.Wi", &["feed_forward_inner", "feed_forward_gate"]),
];

/// The name of a family in the transformers library: `model_type`, the prefix of classes, and that of parameters.
pub fn family_names(family: EncoderFamily) -> (&'static str, &'static str, &'static str) {
    match family {
        EncoderFamily::Bert => ("bert", "Bert", "bert."),
        EncoderFamily::Roberta => ("roberta", "Roberta", "roberta."),
        EncoderFamily::Electra => ("electra", "Electra", "electra."),
        EncoderFamily::DistilBert => ("distilbert", "DistilBert", "distilbert."),
        EncoderFamily::Albert => ("albert", "Albert", "albert."),
        EncoderFamily::Mpnet => ("mpnet", "MPNet", "mpnet."),
        EncoderFamily::Deberta => ("deberta-v2", "DebertaV2", "deberta."),
        EncoderFamily::Modernbert => ("modernbert", "ModernBert", "model."),
    }
}

/// The tables of a family, the first that has a name counts.
fn tables(family: EncoderFamily) -> Vec<Names> {
    match family {
        EncoderFamily::Bert | EncoderFamily::Roberta | EncoderFamily::Electra => vec![BERT],
        EncoderFamily::DistilBert => vec![DISTILBERT],
        EncoderFamily::Albert => vec![ALBERT],
        EncoderFamily::Mpnet => vec![MPNET, BERT],
        EncoderFamily::Deberta => vec![DEBERTA, BERT],
        EncoderFamily::Modernbert => vec![MODERNBERT],
    }
}

/// The number of a layer in the name of a parameter, and the name with `#` in its place.
fn without_number(name: &str) -> (Option<usize>, String) {
    let number = name
        .strip_prefix("layers.")
        .and_then(|rest| rest.split('.').next());
    match number.and_then(|number| Some((number, number.parse().ok()?))) {
        Some((text, number)) => (
            Some(number),
            name.replacen(&format!("layers.{text}."), "layers.#.", 1),
        ),
        None => (None, name.to_string()),
    }
}

/// The weights of a transformer under the names, and in the layout, of the transformers library. `weights` are ours, named by
/// the path of each parameter. Fails, with the reason, if one has no name there.
pub fn weights(
    config: &TransformerConfig,
    mut weights: BTreeMap<String, HostArray>,
) -> Result<BTreeMap<String, HostArray>, String> {
    let (_, _, prefix) = family_names(config.family);
    let mut found = BTreeMap::new();
    if config.family == EncoderFamily::Modernbert {
        found.extend(joined(&mut weights, prefix, config.layers));
    }
    for (name, array) in weights {
        let (layer, kind) = name.rsplit_once('.').unwrap_or((&name, ""));
        let (number, pattern) = without_number(layer);
        let tables = tables(config.family);
        let mut rows = tables.iter().flat_map(|table| table.iter());
        let Some((_, theirs)) = rows.find(|(ours, _)| *ours == pattern) else {
            return Err(format!("{name} is not a parameter of this family there"));
        };
        let number = match (&config.layout, number) {
            (Layout::Albert(layout), Some(number)) => {
                let inner = layout.layers_per_group.max(1);
                format!("{}.albert_layers.{}", number / inner, number % inner)
            }
            (_, number) => number.unwrap_or(0).to_string(),
        };
        let is_table = layer.ends_with("embeddings");
        let (kind, array) = match kind {
            "gamma" => ("weight", array),
            "beta" => ("bias", array),
            "weight" if array.shape.len() == 2 && !is_table => ("weight", array.transposed()),
            kind => (kind, array),
        };
        found.insert(
            format!("{prefix}{}.{kind}", theirs.replace('#', &number)),
            array,
        );
    }
    let token_types = "embeddings.token_type_embeddings.weight";
    if has_token_types(config.family) && config.token_types == 0 {
        let zeros = HostArray::zeros(&[1, config.embedding_width]);
        found.insert(format!("{prefix}{token_types}"), zeros);
    }
    Ok(found)
}

/// True for families that always have an embedding of token types there. One of zeros has no effect.
fn has_token_types(family: EncoderFamily) -> bool {
    matches!(
        family,
        EncoderFamily::Bert
            | EncoderFamily::Roberta
            | EncoderFamily::Electra
            | EncoderFamily::Albert
    )
}

/// Removes the parts of joined layers, and returns these layers.
fn joined(
    weights: &mut BTreeMap<String, HostArray>,
    prefix: &str,
    layers: usize,
) -> Vec<(String, HostArray)> {
    let mut all = Vec::new();
    for layer in 0..layers {
        for (name, parts) in JOINED {
            for kind in ["weight", "bias"] {
                let parts = parts.iter().filter_map(|part| {
                    let array = weights.remove(&format!("layers.{layer}.{part}.{kind}"))?;
                    Some(if kind == "weight" {
                        array.transposed()
                    } else {
                        array
                    })
                });
                let parts: Vec<HostArray> = parts.collect();
                let Some(mut shape) = parts.first().map(|part| part.shape.clone()) else {
                    continue;
                };
                shape[0] = parts.iter().map(|part| part.shape[0]).sum();
                let values = parts.into_iter().flat_map(|part| part.values).collect();
                all.push((
                    format!("{prefix}layers.{layer}.{name}.{kind}"),
                    HostArray { shape, values },
                ));
            }
        }
    }
    all
}

/// The name of an activation in a `config.json`.
pub fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Gelu => "gelu",
        Activation::GeluNew => "gelu_new",
        Activation::Relu => "relu",
        Activation::Tanh => "tanh",
    }
}

/// The `config.json` of a transformer, without what belongs to a task.
pub fn config(config: &TransformerConfig) -> Map<String, Value> {
    let (model_type, _, _) = family_names(config.family);
    let act = activation_name(config.activation);
    let mut json = json!({
        "model_type": model_type,
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.feed_forward,
        "max_position_embeddings": config.positions,
        "hidden_act": act,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "layer_norm_eps": config.norm_epsilon,
        "pad_token_id": config.padding,
        "type_vocab_size": if has_token_types(config.family) { config.token_types.max(1) } else { config.token_types },
        "dtype": "float32",
    });
    if config.family == EncoderFamily::DistilBert {
        json = json!({
            "model_type": model_type,
            "vocab_size": config.vocabulary,
            "dim": config.width,
            "n_layers": config.layers,
            "n_heads": config.heads,
            "hidden_dim": config.feed_forward,
            "max_position_embeddings": config.positions,
            "activation": act,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "pad_token_id": config.padding,
            "dtype": "float32",
        });
    }
    if matches!(
        config.family,
        EncoderFamily::Electra | EncoderFamily::Albert | EncoderFamily::Deberta
    ) {
        json["embedding_size"] = config.embedding_width.into();
    }
    match &config.layout {
        Layout::Albert(layout) => {
            json["num_hidden_groups"] = layout.groups.into();
            json["inner_group_num"] = layout.layers_per_group.into();
        }
        Layout::Mpnet(layout) => json["relative_attention_num_buckets"] = layout.buckets.into(),
        Layout::Deberta(layout) => deberta(&mut json, layout),
        Layout::Modernbert(layout) => {
            let layers = layout.is_global.iter();
            let kinds = layers.map(|is_global| {
                if *is_global {
                    "full_attention"
                } else {
                    "sliding_attention"
                }
            });
            json["layer_types"] = kinds.collect();
            json["rope_parameters"] = json!({
                "full_attention": {"rope_type": "default", "rope_theta": layout.global_theta},
                "sliding_attention": {"rope_type": "default", "rope_theta": layout.local_theta},
            });
            json["local_attention"] = layout.local_window.into();
            json["attention_bias"] = layout.attention_bias.into();
            json["mlp_bias"] = layout.feed_forward_bias.into();
            json["norm_bias"] = layout.norm_bias.into();
            json["norm_eps"] = config.norm_epsilon.into();
            json["hidden_activation"] = act.into();
            json["embedding_dropout"] = config.dropout.into();
            json["attention_dropout"] = config.attention_dropout.into();
            json["mlp_dropout"] = layout.feed_forward_dropout.into();
        }
        Layout::Bert => {}
    }
    match json {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn deberta(json: &mut Value, layout: &DebertaLayout) {
    let terms = [
        ("c2p", layout.content_to_position),
        ("p2c", layout.position_to_content),
    ];
    json["relative_attention"] = layout.relative.into();
    json["pos_att_type"] = (terms.iter().filter(|(_, is_there)| *is_there))
        .map(|(name, _)| *name)
        .collect();
    json["position_buckets"] = if layout.buckets > 0 {
        layout.buckets.into()
    } else {
        (-1).into()
    };
    json["max_relative_positions"] = layout.longest.into();
    json["share_att_key"] = layout.shared_key.into();
    json["norm_rel_ebd"] = if layout.normalised {
        "layer_norm"
    } else {
        "none"
    }
    .into();
    json["position_biased_input"] = layout.position_input.into();
    if let Some(convolution) = &layout.convolution {
        json["conv_kernel_size"] = convolution.kernel.into();
        json["conv_groups"] = convolution.groups.into();
        json["conv_act"] = activation_name(convolution.activation).into();
    }
}
