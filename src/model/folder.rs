//! The model folder: a trained model as files.
//!
//! `config.json` (head, labels, encoder sizes), `model.safetensors`, `tokenizer.json`, `recipe.toml` (every default
//! written out), `metrics.json`, `README.md` (the model card) and `manifest.json` (hashes of the others).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use burn::module::Module;
use burn::store::{FloatCastAdapter, ModuleRecord, ModuleSnapshot, SafetensorsStore};
use burn::tensor::{DType, Device};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calibration::Calibration;
use super::manifest::{self, Manifest};
use super::parameters::Shapes;
use super::quantize::Quantization;
use super::recognizer::Recognizer;
use super::tagger::ModelTagger;
use super::weights_reader::{self, WeightsReader};
use crate::data::words::Segmentation;
use crate::encoder::EncoderConfig;
use crate::encoder::tokenizer::WordTokenizer;
use crate::error::{Error, Result, explain_full_disk, nearest};
use crate::files::{inside, read_text};
use crate::heads::Head;
use crate::heads::settings::{self, Setting};
use crate::hub::Origin;
use crate::process;
use crate::recipe::set::Assignment;
use crate::text::Labels;

/// The version of the folder format this program writes.
pub const VERSION: u32 = 2;
/// The version of the format of folders with quantised weights, which older programs cannot read.
pub const QUANTIZED_VERSION: u32 = 3;
/// Why a run cannot continue whose folder no longer exists.
pub const GONE: &str = "the folder of the run is gone: it was removed or renamed while the run was going on; start the run again";
/// Prefix of the temporary folder a model is written to first.
pub const TEMPORARY: &str = ".model-";
/// The files of a model folder except the manifest.
pub const FILES: [&str; 6] = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "recipe.toml",
    "metrics.json",
    "README.md",
];

/// Longest `config.json` that is read, in bytes.
const LONGEST_CONFIG: u64 = 64 << 20;
/// The files without which a model cannot be used; its manifest has to list them.
pub const REQUIRED: [&str; 3] = ["config.json", "model.safetensors", "tokenizer.json"];

/// `config.json`: everything needed to build the model before its weights are loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Version of the folder format.
    #[serde(alias = "bundle_version")]
    pub format_version: u32,
    /// Version of the program that wrote it.
    pub nerzoo: String,
    /// The head's name.
    pub head: String,
    /// The head's settings.
    pub head_config: Value,
    /// The entity types.
    pub labels: Labels,
    /// The encoder.
    pub encoder: EncoderConfig,
    /// The repository and commit of the pretrained encoder, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder_origin: Option<Origin>,
    /// The calibration of scores, fitted with these settings; folders of older programs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// How texts are split into words; folders of older programs do not say, and have the default.
    #[serde(default)]
    pub segmentation: Segmentation,
    /// Number of words of the longest sentence that is tagged as a whole, if the recipe sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
    /// How the weights are quantised, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
}

impl ModelConfig {
    /// Describes a model.
    pub fn new<H: Head>(head: &H::Config, labels: &Labels, encoder: &EncoderConfig) -> Self {
        Self {
            format_version: VERSION,
            nerzoo: env!("CARGO_PKG_VERSION").into(),
            head: H::name(),
            head_config: serde_json::to_value(head).expect("settings are plain data"),
            labels: labels.clone(),
            encoder: encoder.clone(),
            encoder_origin: None,
            calibration: None,
            segmentation: Segmentation::default(),
            longest: None,
            quantization: None,
        }
    }

    /// The same model with weights that are quantised in this way.
    pub fn with_quantization(self, quantization: Option<Quantization>) -> Self {
        Self {
            format_version: if quantization.is_some() {
                QUANTIZED_VERSION
            } else {
                VERSION
            },
            quantization,
            ..self
        }
    }

    /// Reads a folder's `config.json`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = inside(folder, "config.json")?;
        if !path.exists() {
            return Err(Error::model_folder(
                folder,
                "no config.json here: this is neither a model folder nor a run folder",
            ));
        }
        Self::parse(&read_text(&path, LONGEST_CONFIG)?, &path)
    }

    /// Parses a `config.json`; `path` is named in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut json = serde_json::Deserializer::from_str(text);
        let config: Result<Self, _> = serde_path_to_error::deserialize(&mut json);
        let config = config.map_err(|problem| {
            Error::model_folder(path, format!("not a nerzoo model's config: {problem}"))
        })?;
        (json.end()).map_err(|problem| Error::model_folder(path, problem.to_string()))?;
        if config.format_version > QUANTIZED_VERSION {
            return Err(Error::model_folder(
                path,
                format!(
                    "written in format {} by nerzoo {}; this program reads up to {QUANTIZED_VERSION}, update it",
                    config.format_version, config.nerzoo
                ),
            ));
        }
        (config.check()).map_err(|problem| Error::model_folder(path, problem))?;
        Ok(config)
    }

    /// Fails, with the reason, unless a model can have these sizes and labels.
    fn check(&self) -> Result<(), String> {
        if let Some(calibration) = &self.calibration {
            (calibration.check()).map_err(|problem| format!("calibration: {problem}"))?;
        }
        self.labels.check()?;
        let encoder = &self.encoder;
        (encoder.check()).map_err(|problem| format!("encoder: {problem}"))?;
        if self.longest == Some(0) {
            return Err("longest must be at least 1".into());
        }
        Ok(())
    }

    /// The head's settings.
    pub fn head_config<H: Head>(&self, folder: &Path) -> Result<H::Config> {
        let path = folder.join("config.json");
        let Value::Object(given) = &self.head_config else {
            return Err(Error::model_folder(
                path,
                "head_config is not a table of settings",
            ));
        };
        settings::read(given.clone())
            .map_err(|problem| Error::model_folder(path, format!("head_config: {problem}")))
    }

    /// Replaces settings that may change after training; `known` are all settings of the head.
    fn apply(&mut self, overrides: &[Assignment], known: &[Setting]) -> Result<()> {
        if replace_settings(&self.head, &mut self.head_config, overrides, known)? {
            self.calibration = None;
        }
        Ok(())
    }
}

/// Replaces settings of a trained head that may change after training; `known` are all its settings. Returns true if scores
/// change, so that a calibration no longer belongs to them: only a threshold leaves scores as they are.
pub(super) fn replace_settings(
    head: &str,
    config: &mut Value,
    overrides: &[Assignment],
    known: &[Setting],
) -> Result<bool> {
    let mut changes_scores = false;
    for Assignment { key, value } in overrides {
        let name = changeable(key, known, head)?;
        let value = serde_json::to_value(value)
            .map_err(|problem| Error::Config(format!("{key}: {problem}")))?;
        let pointer = format!("/{}", name.replace('.', "/"));
        let is_threshold =
            |setting: &Setting| setting.name == name && setting.score_scale.is_some();
        changes_scores |=
            config.pointer(&pointer) != Some(&value) && !known.iter().any(is_threshold);
        match config.pointer_mut(&pointer) {
            Some(setting) => *setting = value,
            // Written by an older program, which did not know the setting.
            None => insert(config, name, value).ok_or_else(|| {
                Error::Config(format!("{key}: the model has no such table of settings"))
            })?,
        }
    }
    Ok(changes_scores)
}

/// The name under `[head]` of a setting that may change after training.
fn changeable<'a>(key: &'a str, known: &[Setting], head: &str) -> Result<&'a str> {
    let allowed = || {
        let names: Vec<String> = (known.iter().filter(|setting| setting.at_inference))
            .map(|setting| format!("head.{}", setting.name))
            .collect();
        if names.is_empty() {
            format!("{head} has none")
        } else {
            names.join(", ")
        }
    };
    let Some(name) = key.strip_prefix("head.") else {
        return Err(Error::Config(format!(
            "{key} cannot change after training. Settings of a trained {head} that can: {}",
            allowed()
        )));
    };
    match known.iter().find(|setting| setting.name == name) {
        Some(setting) if setting.at_inference => Ok(name),
        Some(_) => Err(Error::Config(format!(
            "{key}: {head} was trained with this setting and it cannot change afterwards. Settings that can: {}",
            allowed()
        ))),
        None => {
            // A setting of a bundle's part is often given without the part's name.
            let names = || known.iter().map(|setting| setting.name.as_str());
            let of_part = names().find(|known| known.rsplit('.').next() == Some(name));
            let near = of_part.or_else(|| nearest(name, names()));
            let hint = near.map_or(".".into(), |near| format!("; did you mean head.{near}?"));
            Err(Error::Config(format!(
                "{key}: {head} has no such setting{hint} Settings that can change after training: {}",
                allowed()
            )))
        }
    }
}

/// Adds a setting to its table; `None` if there is no such table.
fn insert(config: &mut Value, name: &str, value: Value) -> Option<()> {
    let (parents, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut inner = config.as_object_mut()?;
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        inner = inner.get_mut(part)?.as_object_mut()?;
    }
    inner.insert(last.to_string(), value);
    Some(())
}

/// Everything that is written into a model folder.
pub struct ModelFiles<'a, H: Head> {
    /// The model.
    pub model: &'a Recognizer<H>,
    /// Its `config.json`.
    pub config: ModelConfig,
    /// Its tokenizer.
    pub tokenizer: &'a WordTokenizer,
    /// The recipe as TOML.
    pub recipe: String,
    /// Scores, for `metrics.json`.
    pub metrics: Value,
    /// The model card.
    pub card: String,
    /// Write the weights in half precision.
    pub half: bool,
}

/// Writes a model into `folder`, beside whatever else is there: first into a temporary folder, which is checked by
/// loading it, then moved, the manifest last.
pub fn write<H: Head>(folder: &Path, files: &ModelFiles<'_, H>) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))?;
    let temporary = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempdir_in(folder)
        .map_err(|source| Error::io(folder, source))?;
    let inside = temporary.path();
    let put = |name: &str, text: &str| {
        let path = inside.join(name);
        fs::write(&path, text).map_err(|source| Error::io(&path, source))
    };
    let pretty = |value: &Value| format!("{value:#}\n");
    let config = serde_json::to_value(&files.config).expect("a config is plain data");
    put("config.json", &pretty(&config))?;
    put("recipe.toml", &files.recipe)?;
    put("metrics.json", &pretty(&files.metrics))?;
    put("README.md", &files.card)?;
    files.tokenizer.save(&inside.join("tokenizer.json"))?;
    save_weights(files.model, &inside.join("model.safetensors"), files.half)?;
    manifest::write(inside)?;
    load::<H>(inside, &files.model.device().inner(), &[])?;
    for name in FILES.into_iter().chain([manifest::FILE]) {
        let target = folder.join(name);
        fs::rename(inside.join(name), &target).map_err(|source| Error::io(&target, source))?;
    }
    Ok(())
}

/// Writes weights as safetensors, named by the path of each parameter.
pub fn save_weights<M: Module>(model: &M, path: &Path, half: bool) -> Result<()> {
    let precision = if half { DType::F16 } else { DType::F32 };
    let mut store = SafetensorsStore::from_file(path)
        .clear_metadata()
        .overwrite(true)
        .with_to_adapter(FloatCastAdapter::to(precision));
    model
        .save_into(&mut store)
        .map_err(|problem| Error::model_folder(path, explain_full_disk(&problem.to_string())))?;
    // The store creates its file readable by the owner only; give it the permissions of the files beside it.
    if let Some(other) = path.parent().map(|folder| folder.join("config.json"))
        && let Ok(about) = fs::metadata(&other)
    {
        fs::set_permissions(path, about.permissions()).map_err(|source| Error::io(path, source))?;
    }
    Ok(())
}

/// Loads weights from safetensors in memory. A missing, unknown or wrongly shaped tensor is an error.
pub fn load_weights_from_bytes<M: Module>(model: &mut M, bytes: Vec<u8>) -> Result<()> {
    let path = Path::new("weights in memory");
    let store = SafetensorsStore::from_bytes(Some(bytes));
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

/// Loads a model folder, ready to tag, after checking the hashes of its files. `overrides` replace settings of the head.
pub fn load<H: Head>(
    folder: &Path,
    device: &Device,
    overrides: &[Assignment],
) -> Result<ModelTagger<H>> {
    let manifest = Manifest::read(folder)?;
    manifest.require(&REQUIRED, folder)?;
    // Three threads: to hash the files takes as long as to read the weights, and so may the tokenizer.
    std::thread::scope(|scope| {
        let hashes = scope.spawn(|| manifest::verify_files(folder, &manifest));
        let tokenizer = scope.spawn(|| read_tokenizer(folder));
        let model = load_model::<H>(folder, device, overrides);
        let tokenizer = joined(tokenizer);
        // A file that is not what the manifest says may be the cause of any other error.
        joined(hashes)?;
        let (config, model) = model?;
        tagger(folder, config, model, tokenizer?)
    })
}

/// The result of a thread. A panic in it goes on in this one.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Loads the model of a folder.
fn load_model<H: Head>(
    folder: &Path,
    device: &Device,
    overrides: &[Assignment],
) -> Result<(ModelConfig, Recognizer<H>)> {
    let (config, model) = build::<H>(folder, device, overrides)?;
    let path = inside(folder, "model.safetensors")?;
    let reader = WeightsReader::open(&path)?;
    Shapes::of(&model).check_header(reader.metadata(), &path, config.quantization)?;
    let model = weights_reader::load(model, reader, config.quantization)?;
    Ok((config, model))
}

fn read_tokenizer(folder: &Path) -> Result<WordTokenizer> {
    WordTokenizer::from_file(&inside(folder, "tokenizer.json")?)
}

/// Loads the head of a model folder, and its configuration, after checking the hashes of its files.
pub fn load_head<H: Head>(folder: &Path, overrides: &[Assignment]) -> Result<(ModelConfig, H)> {
    let manifest = Manifest::read(folder)?;
    manifest.require(&REQUIRED, folder)?;
    manifest::verify_files(folder, &manifest)?;
    let (config, model) = load_model::<H>(folder, &crate::device::cpu(), overrides)?;
    Ok((config, model.head))
}

/// Loads the weights of a training checkpoint with the description in the run's folder.
pub fn load_checkpoint<H: Head>(
    run: &Path,
    checkpoint: &Path,
    device: &Device,
    overrides: &[Assignment],
) -> Result<ModelTagger<H>> {
    let (config, model) = build::<H>(run, device, overrides)?;
    let model = restore(model, checkpoint)?;
    tagger(run, config, model, read_tokenizer(run)?)
}

/// Replaces a model's weights by those of a training checkpoint.
pub fn restore<H: Head>(model: Recognizer<H>, checkpoint: &Path) -> Result<Recognizer<H>> {
    let listed = Manifest::read(checkpoint)?;
    listed.require(&["model.bpk"], checkpoint)?;
    manifest::verify_files(checkpoint, &listed)?;
    let path = checkpoint.join("model.bpk");
    // Burn panics on some files that are not checkpoints.
    let restored = process::catch(|| {
        let record = ModuleRecord::load(&path)
            .map_err(|problem| Error::model_folder(&path, problem.to_string()))?;
        (model.try_load_record(record)).map_err(|problem| {
            Error::model_folder(&path, format!("does not fit the run: {problem}"))
        })
    });
    restored.map_err(|panic| Error::model_folder(&path, panic.to_string()))?
}

/// Fails unless the weights of a model folder fit its `config.json`, without loading them.
pub fn check_weights<H: Head>(folder: &Path) -> Result<()> {
    let (config, model) = build::<H>(folder, &crate::device::cpu(), &[])?;
    let path = inside(folder, "model.safetensors")?;
    Shapes::of(&model).check_file(&path, config.quantization)
}

/// Fails when settings cannot replace those of the model in this folder.
pub fn check_overrides<H: Head>(folder: &Path, overrides: &[Assignment]) -> Result<()> {
    configure::<H>(folder, overrides).map(|_| ())
}

/// The configuration of a model with some settings replaced, and those of its head.
fn configure<H: Head>(folder: &Path, overrides: &[Assignment]) -> Result<(ModelConfig, H::Config)> {
    let mut config = ModelConfig::read(folder)?;
    if !overrides.is_empty() {
        config.apply(overrides, &settings::describe::<H::Config>())?;
    }
    let head = config.head_config::<H>(folder)?;
    Ok((config, head))
}

fn build<H: Head>(
    folder: &Path,
    device: &Device,
    overrides: &[Assignment],
) -> Result<(ModelConfig, Recognizer<H>)> {
    let (config, head) = configure::<H>(folder, overrides)?;
    H::fits(&head, config.encoder.width())?;
    let model = Recognizer::<H>::new(&config.encoder, &head, &config.labels, device);
    Ok((config, model))
}

fn tagger<H: Head>(
    folder: &Path,
    config: ModelConfig,
    model: Recognizer<H>,
    tokenizer: WordTokenizer,
) -> Result<ModelTagger<H>> {
    let path = folder.join("tokenizer.json");
    (tokenizer.check_fits(&config.encoder.transformer))
        .map_err(|problem| Error::model_folder(&path, problem))?;
    Ok(
        ModelTagger::new(model, Arc::new(tokenizer), config.encoder, config.labels)
            .with_calibration(config.calibration)
            .with_documents(config.segmentation, config.longest),
    )
}

/// The folder of a model: the path itself, or the folder of the file it names.
pub fn folder_of(path: &Path) -> PathBuf {
    if path.is_file() {
        path.parent().unwrap_or(Path::new(".")).to_path_buf()
    } else {
        path.to_path_buf()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::{LayerPooling, Pooling, RowLayout, ScratchConfig};
    use crate::heads::seq_ner::{self, SeqNer};
    use crate::heads::settings::{Preset, Settings};

    fn setting(name: &str, at_inference: bool) -> Setting {
        Setting {
            name: name.into(),
            doc: String::new(),
            kind: "integer".into(),
            defaults: vec![(Preset::Paper, Value::from(1))],
            at_inference,
            score_scale: None,
            tuned_over: Vec::new(),
        }
    }

    #[test]
    fn only_inference_settings_of_the_head_can_change() {
        let known = [setting("span.steps", true), setting("width", false)];
        let problem = |key: &str| changeable(key, &known, "x").unwrap_err().to_string();
        let allowed = changeable("head.span.steps", &known, "x").unwrap();
        assert_eq!(allowed, "span.steps");
        assert!(problem("train.batch").contains("cannot change after training"));
        assert!(problem("head.width").contains("was trained with"));
        assert!(problem("head.span.step").contains("did you mean head.span.steps?"));
        assert!(problem("head.steps").contains("did you mean head.span.steps?"));
        let mut config = serde_json::json!({"span": {"steps": 5}});
        insert(&mut config, "span.other", Value::from(2)).unwrap();
        assert!(insert(&mut config, "seq.other", Value::from(2)).is_none());
        assert!(insert(&mut config, "span.steps.x", Value::from(2)).is_none());
        assert_eq!(config["span"]["other"], 2);
    }

    fn config() -> ModelConfig {
        let encoder = EncoderConfig {
            transformer: ScratchConfig::default().transformer(100),
            pooling: Pooling::Max,
            layers: LayerPooling::Last,
            overlap: 0,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        };
        let head = seq_ner::Config::of(Preset::Paper);
        ModelConfig::new::<SeqNer>(&head, &Labels::new(["A"]), &encoder)
    }

    /// Writes a `config.json` and reads it.
    fn written_and_read(config: &Value) -> Result<ModelConfig> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        ModelConfig::read(folder.path())
    }

    #[test]
    fn an_encoder_that_cannot_be_is_refused() {
        for (path, value) in [
            ("heads", serde_json::json!(0)),
            ("heads", serde_json::json!(3)),
            ("layers", serde_json::json!(0)),
            ("dropout", serde_json::json!(1.5)),
            ("positions", serde_json::json!(1)),
            ("layout", serde_json::json!({"mpnet": {"buckets": 2}})),
        ] {
            let mut changed = serde_json::to_value(config()).unwrap();
            changed["encoder"]["transformer"][path] = value;
            let problem = written_and_read(&changed).unwrap_err().to_string();
            assert!(problem.contains("encoder: "), "{path}: {problem}");
        }
    }

    #[test]
    fn the_calibration_is_read_back_and_may_be_missing() {
        let mut old = serde_json::to_value(config()).unwrap();
        assert!(old.get("calibration").is_none());
        assert_eq!(old["segmentation"], "han");
        old.as_object_mut().unwrap().remove("segmentation");
        assert_eq!(written_and_read(&old).unwrap(), config());
        let calibrated = ModelConfig {
            calibration: Some(Calibration::Platt {
                temperature: 1.234567,
                bias: -0.7,
            }),
            ..config()
        };
        let written = serde_json::to_value(&calibrated).unwrap();
        assert_eq!(written["calibration"]["method"], "platt");
        assert_eq!(written_and_read(&written).unwrap(), calibrated);
    }

    #[test]
    fn the_origin_of_the_encoder_is_read_back() {
        let known = ModelConfig {
            encoder_origin: Some(Origin {
                repository: "a/b".into(),
                commit: "0123456789abcdef0123456789abcdef01234567".into(),
            }),
            ..config()
        };
        let written = serde_json::to_value(&known).unwrap();
        assert_eq!(written["encoder_origin"]["repository"], "a/b");
        assert_eq!(written_and_read(&written).unwrap(), known);
    }

    #[test]
    fn a_bad_calibration_is_refused_with_the_file() {
        for (calibration, expected) in [
            (
                serde_json::json!({"method": "temperature", "temperature": -2}),
                "calibration: temperature is -2",
            ),
            (
                serde_json::json!({"method": "isotonic", "knots": [[0, 0], [1, 2]]}),
                "not between 0 and 1",
            ),
            (
                serde_json::json!({"method": "isotonic", "knots": []}),
                "0 knots",
            ),
            (
                serde_json::json!({"method": "histogram"}),
                "unknown variant",
            ),
        ] {
            let mut config = serde_json::to_value(config()).unwrap();
            config["calibration"] = calibration;
            let problem = written_and_read(&config).unwrap_err().to_string();
            assert!(problem.contains("config.json"), "{problem}");
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn only_a_threshold_can_change_with_the_calibration() {
        let known = [
            Setting {
                score_scale: Some(1.0),
                ..setting("threshold", true)
            },
            setting("steps", true),
        ];
        let keeps_calibration = |text: &str| {
            let mut config = ModelConfig {
                head_config: serde_json::json!({"threshold": 0.5, "steps": 5}),
                calibration: Some(Calibration::Temperature { temperature: 2.0 }),
                ..config()
            };
            let (key, value) = text.split_once('=').unwrap();
            let assignment = Assignment {
                key: key.into(),
                value: crate::recipe::set::parse_value(value),
            };
            config.apply(&[assignment], &known).unwrap();
            config.calibration.is_some()
        };
        assert!(keeps_calibration("head.threshold=0.1"));
        assert!(keeps_calibration("head.steps=5")); // the model's own value
        assert!(!keeps_calibration("head.steps=2"));
    }
}
