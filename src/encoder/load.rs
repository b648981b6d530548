//! Pretrained encoders from folders in the Hugging Face layout.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use burn::store::burn_pack::Tensor as PackTensor;
use burn::store::{
    ApplyError, ApplyResult, FloatCastAdapter, KeyRemapper, ModuleAdapter, ModuleSnapshot,
    PyTorchToBurnAdapter, SafetensorsStore,
};
use burn::tensor::{Bytes, DType, Shape};
use regex::Regex;
use serde_json::Value;

use super::family::{self, parse_config};
use super::tokenizer::OTHER_VOCABULARIES;
use super::transformer::{Activation, Layout, Transformer, TransformerConfig};
use super::weight_files::{INDEX, folder_tensors, host_arrays, read};
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::hub::{Found, Hub, Wanted};
use crate::nn::host::HostArray;

/// Replacements, in order, that turn parameter names into ours, after a family's own replacements.
const NAMES: &[(&str, &str)] = &[
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
    (r"^(?:bert|roberta|electra|distilbert|model)\.", ""),
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
    // DistilBERT's names.
    (r"\.attention\.q_lin\.", ".query."),
    (r"\.attention\.k_lin\.", ".key."),
    (r"\.attention\.v_lin\.", ".value."),
    (r"\.attention\.out_lin\.", ".attention_output."),
    (r"\.sa_layer_norm\.", ".attention_norm."),
    (r"\.ffn\.lin1\.", ".feed_forward_inner."),
    (r"\.ffn\.lin2\.", ".feed_forward_outer."),
    (r"\.output_layer_norm\.", ".feed_forward_norm."),
    // ModernBERT's names.
    (r"^embeddings\.tok_embeddings\.", "word_embeddings."),
    (r"^embeddings\.norm\.", "embedding_norm."),
    (r"\.attn_norm\.", ".attention_norm."),
    (r"\.attn\.Wo\.", ".attention_output."),
    (r"\.mlp_norm\.", ".feed_forward_norm."),
    (r"\.mlp\.Wo\.", ".feed_forward_outer."),
];

/// Layers in checkpoints that are several of ours: their outputs follow each other.
const JOINED: &[(&str, &[&str])] = &[
    ("attn.Wqkv", &["query", "key", "value"]),
    ("mlp.Wi", &["feed_forward_inner", "feed_forward_gate"]),
];

/// Parameters of published checkpoints that belong to a task's head, are not used, or are no weights; they are ignored.
/// Position embeddings are not used by some checkpoints of DeBERTa that have them.
const NOT_ENCODER: &str = r"^(pooler|cls|lm_head|(?:pre_)?classifier|discriminator_predictions|generator_predictions|generator_lm_head|predictions|sop_classifier|vocab_transform|vocab_layer_norm|vocab_projector|qa_outputs|head\.(?:dense|norm)|decoder|rotary_emb|layers\.\d+\.attn\.rotary_emb|lm_predictions|mask_predictions|position_embeddings|embeddings\.(?:position|token_type)_ids)(\.|$)";

/// Largest `config.json` or list of files in bytes.
pub(super) const LARGEST_CONFIG: u64 = 64 << 20;

/// The files of a pretrained encoder. The weights come last: a download that has them has everything.
const FILES: &[Wanted<'static>] = &[
    Wanted::required(
        &[&["config.json"]],
        "this is not a model that can be an encoder, choose another one",
    ),
    Wanted::required(
        &[&["tokenizer.json"], &["vocab.txt"]],
        "in Python, transformers.AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER) makes a tokenizer.json; put \
         config.json and the weights beside it and set encoder.pretrained to the folder",
    )
    .but_not(OTHER_VOCABULARIES),
    Wanted::optional(&[&["tokenizer_config.json"]]),
    Wanted::optional(&[&["special_tokens_map.json"]]),
    Wanted::required(
        &[
            &["model.safetensors"],
            &[INDEX, "model-*-of-*.safetensors"],
            &["pytorch_model.bin"],
        ],
        "in Python, transformers.AutoModel.from_pretrained(NAME).save_pretrained(FOLDER) makes a model.safetensors; put the \
         tokenizer beside it and set encoder.pretrained to the folder",
    )
    .but_not(&["tf_model.h5", "flax_model.msgpack", "rust_model.ot"]),
];

/// Finds the folder of an encoder: a path, a name whose last part is a folder in one of `NERZOO_ENCODERS`, or a name in the
/// Hugging Face cache or on the hub.
pub fn find(name: &str, hub: &Hub) -> Result<Found> {
    hub.find(name, FILES)
}

/// Reads the sizes of a transformer from a folder's `config.json`.
pub fn config(folder: &Path) -> Result<TransformerConfig> {
    let json = config_json(folder)?;
    let path = folder.join("config.json");
    parse_config(&json).map_err(|problem| Error::encoder(&path, problem.to_string()))
}

/// Finds the folder of a model for a task, as [`find`] does; its card is downloaded as well.
pub fn find_task_model(name: &str, hub: &Hub) -> Result<Found> {
    let (first, others) = FILES.split_first().expect("the list is not empty");
    let card = Wanted::optional(&[&["README.md"]]);
    let wanted: Vec<Wanted<'_>> = [*first, card]
        .into_iter()
        .chain(others.iter().copied())
        .collect();
    hub.find(name, &wanted)
}

/// Reads a folder's `config.json` as it is.
pub fn config_json(folder: &Path) -> Result<Value> {
    let path = folder.join("config.json");
    let text = read_text(&path, LARGEST_CONFIG)?;
    serde_json::from_str(&text)
        .map_err(|problem| Error::encoder(&path, format!("not JSON: {problem}")))
}

/// The activation with this name in a `config.json`. The error starts with `activation`.
pub fn activation(name: &str) -> Result<Activation, String> {
    family::activation(name).map_err(|problem| problem.to_string())
}

/// Loads a folder's weights into a transformer of the same sizes.
pub fn weights(transformer: &mut Transformer, folder: &Path) -> Result<()> {
    let (tensors, path) = folder_tensors(folder)?;
    apply_tensors(transformer, tensors, &path)
}

/// Parameters of a folder that belong to a task's head: those that `is_wanted` accepts by name.
pub fn task_weights(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, HostArray>> {
    let (tensors, path) = folder_tensors(folder)?;
    host_arrays(tensors, is_wanted, &path)
}

/// Loads weights with Hugging Face names from safetensors bytes into a transformer.
pub fn weights_from_bytes(transformer: &mut Transformer, bytes: Vec<u8>) -> Result<()> {
    let path = Path::new("weights in memory");
    let mut store = SafetensorsStore::from_bytes(Some(bytes));
    apply_tensors(transformer, read(&mut store, path)?, path)
}

fn apply_tensors(
    transformer: &mut Transformer,
    tensors: Vec<PackTensor>,
    path: &Path,
) -> Result<()> {
    let (tensors, joined) = split_joined(tensors);
    let (tensors, names) = remapper(transformer.layout()).remap(tensors);
    let in_file = |name: String| joined.get(&name).cloned().unwrap_or(name);
    let names = names.into_iter().map(|(ours, name)| (ours, in_file(name)));
    // Burn keeps a file's precision; the transformer computes in single precision.
    let adapter = PyTorchToBurnAdapter.chain(FloatCastAdapter::to(DType::F32));
    let result = transformer.apply(tensors, None, Some(Box::new(adapter)), false);
    check(result, &names.collect(), path)
}

/// Splits tensors of joined layers, and returns for each part the name of the tensor that it is from.
fn split_joined(tensors: Vec<PackTensor>) -> (Vec<PackTensor>, HashMap<String, String>) {
    let (mut all, mut origins) = (Vec::with_capacity(tensors.len()), HashMap::new());
    for tensor in tensors {
        let found = (JOINED.iter()).find_map(|(joined, parts)| {
            let (before, after) = tensor.name.split_once(&format!(".{joined}."))?;
            let outputs = tensor.shape.first().copied().unwrap_or(0);
            let fits = |size: usize| size > 0 && size.is_multiple_of(parts.len());
            // What does not fit is reported with its own name.
            (fits(outputs) && fits(tensor.byte_len()))
                .then(|| (before.to_string(), after.to_string(), *parts))
        });
        let Some((before, after, parts)) = found else {
            all.push(tensor);
            continue;
        };
        let mut shape: Vec<usize> = tensor.shape.to_vec();
        shape[0] /= parts.len();
        let size = tensor.byte_len() / parts.len();
        let tensor = Arc::new(tensor);
        for (index, part) in parts.iter().enumerate() {
            let name = format!("{before}.{part}.{after}");
            origins.insert(name.clone(), tensor.name.clone());
            let (dtype, shape, whole) = (tensor.dtype, Shape::from(shape.clone()), tensor.clone());
            // Rows are outputs, so a part is a range of bytes.
            let bytes = move || {
                let bytes = whole.to_bytes()?;
                let part = bytes.get(index * size..(index + 1) * size).unwrap_or(&[]);
                Ok(Bytes::from_bytes_vec(part.to_vec()))
            };
            all.push(PackTensor::deferred(name, dtype, shape, None, size, bytes));
        }
    }
    (all, origins)
}

fn remapper(layout: &Layout) -> KeyRemapper {
    let shared = NAMES
        .iter()
        .map(|(from, to)| (from.to_string(), to.to_string()));
    (family::names(layout).into_iter().chain(shared)).fold(
        KeyRemapper::new(),
        |remapper, (from, to)| {
            remapper
                .add_pattern(from, to)
                .expect("the patterns of all families are valid")
        },
    )
}

/// Returns an error that lists parameters that are missing, not expected or of a wrong shape. `names` maps our names to
/// those in the file.
fn check(result: ApplyResult, names: &HashMap<String, String>, path: &Path) -> Result<()> {
    let not_encoder = Regex::new(NOT_ENCODER).expect("a valid pattern");
    let mut problems: Vec<String> = (result.errors.iter())
        .map(|problem| format!("{problem}{}", in_file(origin(error_path(problem), names))))
        .collect();
    let mut visited = (result.missing.iter().map(|(name, _)| name)).chain(&result.applied);
    let is_gated = visited.any(|name| name.contains("feed_forward_gate"));
    problems.extend(result.missing.iter().map(|(name, _)| {
        let joined = is_gated.then(|| joined_name(name)).flatten();
        format!("missing: {name}{}", in_file(joined))
    }));
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

/// Our name of the parameter that an error is about.
fn error_path(problem: &ApplyError) -> &str {
    match problem {
        ApplyError::ShapeMismatch { path, .. }
        | ApplyError::DTypeMismatch { path, .. }
        | ApplyError::AdapterError { path, .. }
        | ApplyError::LoadError { path, .. } => path,
    }
}

/// The name in the file of a parameter of ours. Burn's norms have names of their own for weight and bias.
fn origin(path: &str, names: &HashMap<String, String>) -> Option<String> {
    let other = match path.rsplit_once('.') {
        Some((norm, "gamma")) => format!("{norm}.weight"),
        Some((norm, "beta")) => format!("{norm}.bias"),
        _ => path.into(),
    };
    names.get(&other).cloned()
}

/// The name of the joined layer that a parameter of ours is a part of.
fn joined_name(path: &str) -> Option<String> {
    JOINED.iter().find_map(|(joined, parts)| {
        let mut found = (parts.iter()).filter_map(|part| path.split_once(&format!(".{part}.")));
        let (before, after) = found.next()?;
        Some(format!("{before}.{joined}.{after}"))
    })
}

/// A remark on the name of a tensor in the file, if it is known.
fn in_file(name: Option<String>) -> String {
    name.map_or_else(String::new, |name| format!(" ({name} in the file)"))
}
