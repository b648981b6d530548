//! A trained model as a folder.
//!
//! `config.json` (head, labels, encoder sizes), `model.safetensors`, `tokenizer.json`, `recipe.toml` (every default
//! written out), `metrics.json`, `README.md` (the card) and `manifest.json` (hashes of the others).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::module::Module;
use burn::store::{FloatCastAdapter, ModuleRecord, ModuleSnapshot, SafetensorsStore};
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest;
use super::recognizer::Recognizer;
use super::tagger::ModelTagger;
use crate::encoder::EncoderConfig;
use crate::encoder::tokenizer::WordTokenizer;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::text::Labels;
use crate::train::checkpoints::Checkpoints;

/// Knobs of a head to use instead of those it was trained with.
pub type Knobs = serde_json::Map<String, Value>;

/// The version of the folder format this program writes.
pub const VERSION: u32 = 1;
/// The files of a bundle but the manifest.
pub const FILES: [&str; 6] = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "recipe.toml",
    "metrics.json",
    "README.md",
];

/// `config.json`: what is needed to build the model before its weights are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Version of the folder format.
    pub bundle_version: u32,
    /// Version of the program that wrote it.
    pub nerzoo: String,
    /// The head's name.
    pub head: String,
    /// The head's knobs.
    pub head_config: Value,
    /// The entity types.
    pub labels: Labels,
    /// The encoder.
    pub encoder: EncoderConfig,
}

impl Config {
    /// Describes a model.
    pub fn new<H: Head>(head: &H::Config, labels: &Labels, encoder: &EncoderConfig) -> Self {
        Self {
            bundle_version: VERSION,
            nerzoo: env!("CARGO_PKG_VERSION").into(),
            head: H::name(),
            head_config: serde_json::to_value(head).expect("knobs are plain data"),
            labels: labels.clone(),
            encoder: encoder.clone(),
        }
    }

    /// Reads a folder's `config.json`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let text = fs::read_to_string(&path).map_err(|_| {
            Error::model_folder(
                folder,
                "no config.json here: this is neither a model nor a run's folder",
            )
        })?;
        let config: Self = serde_json::from_str(&text).map_err(|problem| {
            Error::model_folder(&path, format!("not a nerzoo model's config: {problem}"))
        })?;
        if config.bundle_version > VERSION {
            return Err(Error::model_folder(
                &path,
                format!(
                    "written in format {} by nerzoo {}; this program reads up to {VERSION}, update it",
                    config.bundle_version, config.nerzoo
                ),
            ));
        }
        Ok(config)
    }

    /// The head's knobs.
    pub fn head_config<H: Head>(&self, folder: &Path) -> Result<H::Config> {
        serde_json::from_value(self.head_config.clone()).map_err(|problem| {
            Error::model_folder(
                folder.join("config.json"),
                format!("head_config: {problem}"),
            )
        })
    }
}

/// Everything that goes into a bundle.
pub struct ModelFiles<'a, H: Head> {
    /// The model.
    pub model: &'a Recognizer<H>,
    /// Its description.
    pub config: Config,
    /// Its tokenizer.
    pub pieces: &'a WordTokenizer,
    /// The run's recipe as TOML.
    pub recipe: String,
    /// What was measured.
    pub metrics: Value,
    /// The card.
    pub card: String,
    /// Weights in half precision.
    pub half: bool,
}

/// Writes a bundle into `folder`, beside whatever else is there: first in a temporary folder, checked by reading
/// it back, then moved, the manifest last.
pub fn write<H: Head>(folder: &Path, contents: &ModelFiles<'_, H>) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))?;
    let temporary = tempfile::Builder::new()
        .prefix(".bundle-")
        .tempdir_in(folder)
        .map_err(|source| Error::io(folder, source))?;
    let inside = temporary.path();
    let put = |name: &str, text: &str| {
        let path = inside.join(name);
        fs::write(&path, text).map_err(|source| Error::io(&path, source))
    };
    let pretty = |value: &Value| format!("{value:#}\n");
    let config = serde_json::to_value(&contents.config).expect("a config is plain data");
    put("config.json", &pretty(&config))?;
    put("recipe.toml", &contents.recipe)?;
    put("metrics.json", &pretty(&contents.metrics))?;
    put("README.md", &contents.card)?;
    contents.pieces.save(&inside.join("tokenizer.json"))?;
    save_weights(
        contents.model,
        &inside.join("model.safetensors"),
        contents.half,
    )?;
    manifest::write(inside)?;
    load::<H>(inside, &contents.model.device().inner(), &Knobs::new())?;
    for name in FILES.into_iter().chain([manifest::FILE]) {
        let target = folder.join(name);
        fs::rename(inside.join(name), &target).map_err(|source| Error::io(&target, source))?;
    }
    Ok(())
}

/// Writes weights as safetensors under our parameter names.
pub fn save_weights<M: Module>(model: &M, path: &Path, half: bool) -> Result<()> {
    let precision = if half { DType::F16 } else { DType::F32 };
    let mut store = SafetensorsStore::from_file(path)
        .clear_metadata()
        .overwrite(true)
        .with_to_adapter(FloatCastAdapter::to(precision));
    model
        .save_into(&mut store)
        .map_err(|problem| Error::model_folder(path, problem.to_string()))?;
    // The store's scratch file is private to its owner; a model is as readable as the files beside it.
    if let Some(other) = path.parent().map(|folder| folder.join("config.json"))
        && let Ok(about) = fs::metadata(&other)
    {
        fs::set_permissions(path, about.permissions()).map_err(|source| Error::io(path, source))?;
    }
    Ok(())
}

/// Reads weights of either precision; any that is missing, left over or misshapen is an error.
pub fn load_weights<M: Module>(model: &mut M, path: &Path) -> Result<()> {
    apply(model, SafetensorsStore::from_file(path), path)
}

/// The same from memory, such as what `zoo::import` makes.
pub fn load_weights_from_bytes<M: Module>(model: &mut M, bytes: Vec<u8>) -> Result<()> {
    let store = SafetensorsStore::from_bytes(Some(bytes));
    apply(model, store, Path::new("weights in memory"))
}

fn apply<M: Module>(model: &mut M, store: SafetensorsStore, path: &Path) -> Result<()> {
    let mut store = store.with_from_adapter(FloatCastAdapter::to(DType::F32));
    let result = model
        .load_from(&mut store)
        .map_err(|problem| Error::model_folder(path, problem.to_string()))?;
    if result.unused.is_empty() && result.errors.is_empty() && result.missing.is_empty() {
        return Ok(());
    }
    Err(Error::model_folder(
        path,
        format!("the weights do not fit: {result}"),
    ))
}

/// A bundle's model, ready to tag. The hashes of its files are checked first.
pub fn load<H: Head>(folder: &Path, device: &Device, knobs: &Knobs) -> Result<ModelTagger<H>> {
    manifest::verify(folder)?;
    let (config, mut model) = build::<H>(folder, device, knobs)?;
    load_weights(&mut model, &folder.join("model.safetensors"))?;
    tagger(folder, config, model)
}

/// The best checkpoint of a run that has not been finished.
pub fn load_checkpoint<H: Head>(
    run: &Path,
    device: &Device,
    knobs: &Knobs,
) -> Result<ModelTagger<H>> {
    let checkpoints = Checkpoints::at(run);
    let Some(state) = checkpoints.newest()? else {
        return Err(Error::model_folder(
            run,
            "no finished model and no checkpoint here yet",
        ));
    };
    let step = match state.best_step {
        0 => state.step, // stopped inside the first epoch
        best => best,
    };
    let (config, model) = build::<H>(run, device, knobs)?;
    let model = restore(model, &checkpoints.step_folder(step))?;
    tagger(run, config, model)
}

/// Puts a checkpoint's weights into a model.
pub fn restore<H: Head>(model: Recognizer<H>, checkpoint: &Path) -> Result<Recognizer<H>> {
    manifest::verify(checkpoint)?;
    let path = checkpoint.join("model.bpk");
    let record = ModuleRecord::load(&path)
        .map_err(|problem| Error::model_folder(&path, problem.to_string()))?;
    Ok(model.load_record(record))
}

fn build<H: Head>(
    folder: &Path,
    device: &Device,
    knobs: &Knobs,
) -> Result<(Config, Recognizer<H>)> {
    let mut config = Config::read(folder)?;
    for (name, value) in knobs {
        *knob(&mut config, name)? = value.clone();
    }
    let head = config.head_config::<H>(folder)?;
    let model = Recognizer::<H>::new(&config.encoder, &head, &config.labels, device);
    Ok((config, model))
}

/// The value of a knob of a model's head, of a bundle also of its span model's; nothing when there is no such knob.
pub fn knob_of(path: &Path, name: &str) -> Result<Option<Value>> {
    let mut config = Config::read(&folder_of(path))?;
    Ok(knob(&mut config, name).ok().cloned())
}

/// A knob of a model's head; of a bundle also one of its span model's.
fn knob<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut Value> {
    let own = config.head_config.get(name).is_some();
    let spans = config
        .head_config
        .get("span")
        .and_then(|span| span.get(name));
    let pointer = match (own, spans) {
        (false, Some(_)) => format!("/span/{name}"),
        _ => format!("/{name}"),
    };
    let known: Vec<&str> = config
        .head_config
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    let unknown = Error::Config(format!(
        "{} has no setting {name:?}; it has: {}",
        config.head,
        known.join(", ")
    ));
    config.head_config.pointer_mut(&pointer).ok_or(unknown)
}

fn tagger<H: Head>(folder: &Path, config: Config, model: Recognizer<H>) -> Result<ModelTagger<H>> {
    let pieces = WordTokenizer::from_file(&folder.join("tokenizer.json"))?;
    Ok(ModelTagger::new(
        model,
        Arc::new(pieces),
        config.encoder,
        config.labels,
    ))
}

/// Where a model's files are: the folder itself, or the folder of the file given.
pub fn folder_of(path: &Path) -> PathBuf {
    if path.is_file() {
        path.parent().unwrap_or(Path::new(".")).to_path_buf()
    } else {
        path.to_path_buf()
    }
}
