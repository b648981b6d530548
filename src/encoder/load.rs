//! Pretrained weights from the Hugging Face folder layout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use burn::store::{
    ApplyResult, FloatCastAdapter, KeyRemapper, ModuleAdapter, ModuleSnapshot, ModuleStore,
    PyTorchToBurnAdapter, PytorchStore, SafetensorsStore,
};
use burn::tensor::DType;
use regex::Regex;
use serde_json::Value;

use super::transformer::{Activation, Family, Transformer, TransformerConfig};
use crate::error::{Error, Result};

/// From the layouts' parameter names to ours, first to last.
const NAMES: &[(&str, &str)] = &[
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^(?:bert|roberta|electra|distilbert)\.", ""),
    (
        r"^embeddings\.(word|position|token_type)_embeddings\.",
        "${1}_embeddings.",
    ),
    (r"^embeddings\.LayerNorm\.", "embedding_norm."),
    (r"^embeddings_project\.", "projection."),
    (r"^(?:encoder|transformer)\.layer\.", "layers."),
    (r"\.attention\.self\.(query|key|value)\.", ".$1."),
    (r"\.attention\.output\.dense\.", ".attention_output."),
    (r"\.attention\.output\.LayerNorm\.", ".attention_norm."),
    (r"\.intermediate\.dense\.", ".feed_forward_inner."),
    (r"\.output\.dense\.", ".feed_forward_outer."),
    (r"\.output\.LayerNorm\.", ".feed_forward_norm."),
    (r"\.attention\.q_lin\.", ".query."),
    (r"\.attention\.k_lin\.", ".key."),
    (r"\.attention\.v_lin\.", ".value."),
    (r"\.attention\.out_lin\.", ".attention_output."),
    (r"\.sa_layer_norm\.", ".attention_norm."),
    (r"\.ffn\.lin1\.", ".feed_forward_inner."),
    (r"\.ffn\.lin2\.", ".feed_forward_outer."),
    (r"\.output_layer_norm\.", ".feed_forward_norm."),
];

/// Parts of published checkpoints that belong to a pretraining task or hold no weights.
const NOT_ENCODER: &str = r"^(pooler|cls|lm_head|(?:pre_)?classifier|discriminator_predictions|generator_predictions|generator_lm_head|vocab_transform|vocab_layer_norm|vocab_projector|qa_outputs|embeddings\.(?:position|token_type)_ids)(\.|$)";

/// The folder of an encoder: a path, or a name whose last part is looked up in `NERZOO_ENCODERS`.
pub fn find(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    if path.join("config.json").is_file() {
        return Ok(path);
    }
    let last = name
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(name);
    let roots = std::env::var_os("NERZOO_ENCODERS").unwrap_or_default();
    for root in std::env::split_paths(&roots) {
        let folder = root.join(last);
        if folder.join("config.json").is_file() {
            return Ok(folder);
        }
    }
    Err(Error::encoder(
        path,
        format!(
            "no such folder with a config.json, and no folder {last:?} in NERZOO_ENCODERS ({}); \
             download the model (config.json, model.safetensors, tokenizer.json) and give its folder, \
             or set NERZOO_ENCODERS to the folder that holds it",
            if roots.is_empty() {
                "not set".into()
            } else {
                roots.to_string_lossy()
            }
        ),
    ))
}

/// Reads a folder's `config.json`.
pub fn config(folder: &Path) -> Result<TransformerConfig> {
    let path = folder.join("config.json");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
    let json: Value = serde_json::from_str(&text)
        .map_err(|problem| Error::encoder(&path, format!("not JSON: {problem}")))?;
    parse_config(&json).map_err(|problem| Error::encoder(&path, problem))
}

fn parse_config(json: &Value) -> std::result::Result<TransformerConfig, String> {
    let kind = json["model_type"].as_str().unwrap_or("bert");
    let family = match kind {
        "bert" => Family::Bert,
        "roberta" | "xlm-roberta" | "camembert" => Family::Roberta,
        "electra" => Family::Electra,
        "distilbert" => Family::DistilBert,
        other => {
            return Err(format!(
                "model_type {other:?} is not supported; bert, roberta, electra and distilbert are"
            ));
        }
    };
    if let Some(kind) = json["position_embedding_type"].as_str()
        && kind != "absolute"
    {
        return Err(format!(
            "position_embedding_type {kind:?} is not supported; only absolute is"
        ));
    }
    let number = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| json[*name].as_u64())
            .map(|value| value as usize)
            .ok_or_else(|| format!("{} is missing", names[0]))
    };
    let share = |names: &[&str], default| {
        names
            .iter()
            .find_map(|name| json[*name].as_f64())
            .unwrap_or(default)
    };
    let activation = match json["hidden_act"]
        .as_str()
        .or(json["activation"].as_str())
        .unwrap_or("gelu")
    {
        "gelu" => Activation::Gelu,
        "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluNew,
        "relu" => Activation::Relu,
        other => return Err(format!("activation {other:?} is not supported")),
    };
    let width = number(&["hidden_size", "dim"])?;
    let config = TransformerConfig {
        family,
        vocabulary: number(&["vocab_size"])?,
        embedding_width: number(&["embedding_size"]).unwrap_or(width),
        width,
        layers: number(&["num_hidden_layers", "n_layers"])?,
        heads: number(&["num_attention_heads", "n_heads"])?,
        feed_forward: number(&["intermediate_size", "hidden_dim"])?,
        positions: number(&["max_position_embeddings"])?,
        token_types: match family {
            Family::DistilBert => 0,
            _ => number(&["type_vocab_size"]).unwrap_or(2),
        },
        padding: number(&["pad_token_id"]).unwrap_or(match family {
            Family::Roberta => 1,
            _ => 0,
        }),
        norm_epsilon: share(&["layer_norm_eps"], 1e-12),
        dropout: share(&["hidden_dropout_prob", "dropout"], 0.1),
        attention_dropout: share(&["attention_probs_dropout_prob", "attention_dropout"], 0.1),
        activation,
    };
    if !config.width.is_multiple_of(config.heads) {
        return Err(format!(
            "the width {} is not a multiple of the {} attention heads",
            config.width, config.heads
        ));
    }
    // The first and the last piece, and one of a word between them.
    if config.window() < 3 {
        return Err(format!(
            "max_position_embeddings {} leaves no room for a word",
            config.positions
        ));
    }
    Ok(config)
}

/// Puts a folder's weights into a transformer of the same sizes.
pub fn weights(transformer: &mut Transformer, folder: &Path) -> Result<()> {
    let safetensors = folder.join("model.safetensors");
    let pytorch = folder.join("pytorch_model.bin");
    if safetensors.is_file() {
        apply(
            transformer,
            SafetensorsStore::from_file(&safetensors),
            &safetensors,
        )
    } else if pytorch.is_file() {
        // By default this store closes gaps in numbers, and a missing layer would be filled by the next one.
        let store = PytorchStore::from_file(&pytorch).map_indices_contiguous(false);
        apply(transformer, store, &pytorch)
    } else {
        Err(Error::encoder(
            folder,
            "neither model.safetensors nor pytorch_model.bin is there; download one of them from the model's page",
        ))
    }
}

/// Puts weights with Hugging Face names, held in memory as safetensors, into a transformer.
pub fn weights_from_bytes(transformer: &mut Transformer, bytes: Vec<u8>) -> Result<()> {
    apply(
        transformer,
        SafetensorsStore::from_bytes(Some(bytes)),
        Path::new("weights in memory"),
    )
}

fn apply<S: ModuleStore>(transformer: &mut Transformer, mut store: S, path: &Path) -> Result<()>
where
    S::Error: std::fmt::Display,
{
    let tensors = store
        .get_all_tensors()
        .map_err(|problem| Error::encoder(path, problem.to_string()))?
        .values()
        .cloned()
        .collect();
    let (tensors, names) = remapper().remap(tensors);
    // Burn keeps a file's precision; we compute in single precision whatever the file has.
    let adapter = PyTorchToBurnAdapter.chain(FloatCastAdapter::to(DType::F32));
    let result = transformer.apply(tensors, None, Some(Box::new(adapter)), false);
    judge(result, &names.into_iter().collect(), path)
}

fn remapper() -> KeyRemapper {
    NAMES
        .iter()
        .fold(KeyRemapper::new(), |remapper, (from, to)| {
            remapper
                .add_pattern(from, *to)
                .expect("the patterns above are valid")
        })
}

/// Fails with a list when anything is missing, left over or of the wrong shape. `names` leads from our names to the
/// file's.
fn judge(result: ApplyResult, names: &HashMap<String, String>, path: &Path) -> Result<()> {
    let not_encoder = Regex::new(NOT_ENCODER).expect("a valid pattern");
    let mut problems: Vec<String> = result.errors.iter().map(ToString::to_string).collect();
    problems.extend(
        result
            .missing
            .iter()
            .map(|(name, _)| format!("missing: {name}")),
    );
    problems.extend(
        result
            .unused
            .iter()
            .filter(|name| !not_encoder.is_match(name))
            .map(|name| format!("not expected: {}", names.get(name).unwrap_or(name))),
    );
    if problems.is_empty() {
        return Ok(());
    }
    let shown = problems.len().min(20);
    let more = match problems.len() - shown {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(Error::encoder(
        path,
        format!(
            "the weights do not fit config.json:\n  {}{more}",
            problems[..shown].join("\n  ")
        ),
    ))
}
