//! A model in one line: what `zoo list` shows and `index.json` holds.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data::datasets;
use crate::error::{Error, Result};
use crate::files::{inside, read_text};
use crate::model::card::{PUBLICATION, hub_name, last_part};
use crate::model::folder::ModelConfig;
use crate::model::manifest::{self, Manifest};
use crate::model::weights_file;
use crate::recipe::Recipe;
use crate::registry;

/// Longest `metrics.json` and `recipe.toml` that are read, in bytes.
pub(super) const LONGEST_TEXT: u64 = 64 << 20;

/// The facts about a model that a list shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// The head's name.
    pub head: String,
    /// The name of the pretrained encoder, without a path; `None` for one trained from scratch.
    #[serde(default)]
    pub encoder: Option<String>,
    /// The name of the corpus, if it has one.
    #[serde(default)]
    pub corpus: Option<String>,
    /// Language tag of the corpus, if known.
    #[serde(default)]
    pub language: Option<String>,
    /// The entity types.
    pub types: Vec<String>,
    /// True if it finds nested entities.
    pub nested: bool,
    /// The split of the scores: `test`, or `dev` if there is no test split.
    #[serde(default)]
    pub split: Option<String>,
    /// Strict micro F1 on that split, between 0 and 1.
    #[serde(default)]
    pub f1: Option<f64>,
    /// 95 % bootstrap interval of F1, if it was published.
    #[serde(default)]
    pub f1_interval: Option<[f64; 2]>,
    /// Bytes of all files.
    pub size: u64,
    /// The number type of the weights, such as `f16`.
    pub precision: String,
    /// The licence terms of the corpus, if known.
    #[serde(default)]
    pub licence: Option<String>,
}

impl ModelSummary {
    /// Reads the summary of a model folder. Hashes are not checked.
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let manifest = Manifest::read(folder).map_err(|problem| unfinished(folder, problem))?;
        let size = manifest
            .files()
            .map(|(file, _)| file)
            .chain([manifest::FILE]);
        let size = size.filter_map(|file| folder.join(file).metadata().ok());
        let size = size.map(|about| about.len()).sum();
        let weights = weights_file::read(&folder.join("model.safetensors"))?;
        let texts = SummaryTexts {
            config: ModelConfig::read(folder)?,
            metrics: metrics(folder)?,
            recipe: recipe(folder),
        };
        Ok(texts.summary(name, size, weights.precision))
    }
}

/// The small files that a summary is made of.
pub(super) struct SummaryTexts {
    pub config: ModelConfig,
    pub metrics: Value,
    pub recipe: Option<Recipe>,
}

impl SummaryTexts {
    pub(super) fn summary(&self, name: &str, size: u64, precision: String) -> ModelSummary {
        let metrics = &self.metrics;
        let split = ["test", "dev"]
            .into_iter()
            .find(|split| metrics[split].is_object());
        let published = &metrics[PUBLICATION];
        let interval = ["low", "high"].map(|end| published["f1_interval"][end].as_f64());
        let recipe = self.recipe.as_ref();
        let corpus = recipe.and_then(|recipe| recipe.data.corpus.clone());
        let known = corpus.as_deref().and_then(datasets::known);
        let text = |value: &Value| value.as_str().map(String::from);
        let pretrained = recipe.and_then(|recipe| recipe.encoder.pretrained.as_deref());
        let origin = self.config.encoder_origin.as_ref();
        ModelSummary {
            name: name.into(),
            head: self.config.head.clone(),
            encoder: (text(&published["base_model"]))
                .or_else(|| origin.map(|origin| origin.repository.clone()))
                .or_else(|| {
                    pretrained.map(|name| hub_name(name).unwrap_or_else(|| last_part(name)))
                }),
            language: text(&published["corpus"]["language"])
                .or_else(|| known.as_ref().map(|info| info.language.clone())),
            licence: text(&published["corpus"]["licence"])
                .or_else(|| known.as_ref().map(|info| info.licence.clone())),
            corpus,
            types: self.config.labels.names().to_vec(),
            nested: registry::find(&self.config.head).is_ok_and(|entry| entry.nested),
            split: split.map(String::from),
            f1: split.and_then(|split| metrics[split]["f1"].as_f64()),
            f1_interval: match interval {
                [Some(low), Some(high)] => Some([low, high]),
                _ => None,
            },
            size,
            precision,
        }
    }
}

/// The `metrics.json` of a folder; `null` if there is none.
pub fn metrics(folder: &Path) -> Result<Value> {
    let path = inside(folder, "metrics.json")?;
    if !path.is_file() {
        return Ok(Value::Null);
    }
    let fail = |problem: String| Error::model_folder(&path, format!("{problem}; copy it again"));
    let metrics: Value = serde_json::from_str(&read_text(&path, LONGEST_TEXT)?)
        .map_err(|problem| fail(format!("not JSON: {problem}")))?;
    if metrics.is_object() {
        Ok(metrics)
    } else {
        Err(fail("not a JSON object".into()))
    }
}

/// The recipe of a folder, if it is there and can be read.
pub(super) fn recipe(folder: &Path) -> Option<Recipe> {
    let text = read_text(&inside(folder, "recipe.toml").ok()?, LONGEST_TEXT).ok()?;
    Recipe::parse(&text, "recipe.toml", &[]).ok()
}

fn unfinished(folder: &Path, problem: Error) -> Error {
    if folder.join(manifest::FILE).is_file() {
        return problem;
    }
    Error::model_folder(
        folder,
        "no manifest.json here: this is not the folder of a finished model; finish the run with `nerzoo train --resume`",
    )
}
