//! A recipe is a run: one TOML file fixes data, encoder, head, optimiser, schedule and seed.

mod check;
mod read;
pub mod set;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::data;
use crate::encoder::features::FeatureChoice;
use crate::encoder::{LayerPooling, Pooling, ScratchConfig};
use crate::error::{Error, Result};
use crate::heads::settings::{self, Settings};

/// Everything a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// One line on what this run is for.
    #[serde(default)]
    pub about: String,
    /// Where the sentences come from.
    pub data: Data,
    /// What turns words into states.
    #[serde(default)]
    pub encoder: EncoderChoice,
    /// `name` and the knobs of that head.
    pub head: Table,
    /// Another head to share the encoder with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleWith>,
    /// How it is trained.
    #[serde(default)]
    pub train: Train,
    /// A text to tag when training is done, to show what the model does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// What the paper reports for this set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Reported>,
}

/// The sentences of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// The name of a corpus; its dataset.toml says which files are which split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// Files to train on, instead of a corpus.
    pub train: Vec<PathBuf>,
    /// Files to choose the best checkpoint with. Without any, a tenth of `train` is held out.
    pub dev: Vec<PathBuf>,
    /// Files to report on.
    pub test: Vec<PathBuf>,
    /// Only the first so many training sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Leave out training sentences with more words than this; how many is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
    /// How to read the files.
    pub options: data::Options,
}

/// Which encoder: a pretrained one by folder or name, or a fresh one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderChoice {
    /// A folder in the Hugging Face layout, or a name to look up. Without it the encoder starts from scratch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pretrained: Option<String>,
    /// The licence of the pretrained weights, for the model card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// How a word's pieces become its state.
    pub pooling: Pooling,
    /// Which layers are read.
    pub layers: LayerPooling,
    /// Dropout inside a pretrained transformer; without it the model's own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Pieces that neighbouring windows of a long sentence share.
    pub overlap: usize,
    /// Sentences of its document read with each one, on each side.
    pub context: usize,
    /// Sizes of an encoder trained from scratch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchConfig>,
    /// What a word's state holds besides the transformer's.
    pub features: FeatureChoice,
}

impl Default for EncoderChoice {
    fn default() -> Self {
        Self {
            pretrained: None,
            licence: None,
            pooling: Pooling::Max,
            layers: LayerPooling::Last,
            dropout: None,
            overlap: 64,
            context: 0,
            scratch: None,
            features: FeatureChoice::default(),
        }
    }
}

/// Bundling by one line: the head stays the one that answers, and learns beside another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleWith {
    /// The other head: a tagger for a span model, a span model for a tagger.
    pub with: String,
    /// Weight of the tagger's loss.
    #[serde(default = "tenth")]
    pub alpha: f64,
}

fn tenth() -> f64 {
    0.1
}

/// How a run is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Train {
    /// Everything random follows from it.
    pub seed: u64,
    /// Passes over the training sentences.
    pub epochs: usize,
    /// Sentences a batch.
    pub batch: usize,
    /// So many batches of random sentences are sorted by length together before they are cut: more means less
    /// padding, but batches of short sentences teach less a step. 1 for no sorting.
    pub bucket: usize,
    /// Pieces a batch at most, padding included: as many sentences as fit, instead of `batch` of them, which then only
    /// says how many are sorted together. 0 for no such limit.
    pub tokens_per_batch: usize,
    /// Batches whose gradients are averaged into one step.
    pub accumulate: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// The head's own highest learning rate, when it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_learning_rate: Option<f64>,
    /// Share of the steps in which the rate rises to its highest; then it falls to 0 on a line.
    pub warm_up: f64,
    /// Decoupled weight decay; biases and norms have none.
    pub weight_decay: f64,
    /// AdamW's epsilon.
    pub epsilon: f64,
    /// Longest gradient over all parameters together; longer ones are scaled down to it. 0 for no limit.
    pub clip: f64,
    /// Epochs at the start in which the encoder's weights stay as they are.
    pub freeze_encoder: usize,
    /// Make these epochs a stage with a schedule of its own: the rate rises, is then this many times as high and falls
    /// to 0, and everything begins anew for the epochs after them. Without it one schedule runs over all epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze_rate: Option<f64>,
    /// Epochs without a better dev F1 after which training stops. 0 for never.
    pub patience: usize,
    /// Write the final weights in half precision.
    pub half: bool,
    /// Minutes between checkpoints inside an epoch; there is always one at its end.
    pub checkpoint_minutes: f64,
    /// Seconds between lines of progress when the output is no terminal.
    pub report_seconds: f64,
}

impl Default for Train {
    fn default() -> Self {
        Self {
            seed: 1,
            epochs: 20,
            batch: 16,
            bucket: 8,
            tokens_per_batch: 0,
            accumulate: 1,
            learning_rate: 5e-5,
            head_learning_rate: None,
            warm_up: 0.1,
            weight_decay: 0.01,
            epsilon: 1e-8,
            clip: 1.0,
            freeze_encoder: 0,
            freeze_rate: None,
            patience: 0,
            half: false,
            checkpoint_minutes: 5.0,
            report_seconds: 10.0,
        }
    }
}

/// A score from a paper's table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reported {
    /// Precision in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Recall in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// F1 in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub f1: Option<f64>,
    /// The encoder it was reached with, and where it stands.
    pub source: String,
}

impl Recipe {
    /// The head's name.
    pub fn head_name(&self) -> &str {
        self.head.get("name").and_then(Value::as_str).unwrap_or("")
    }

    /// The settings of the head, completed and checked.
    pub fn head_config<C: Settings>(&self) -> Result<C> {
        let mut given = self.head.clone();
        given.remove("name");
        let read = match serde_json::to_value(given) {
            Ok(serde_json::Value::Object(given)) => settings::read(given),
            _ => Err(Error::Config("is not a table of settings".into())),
        };
        read.map_err(|problem| Error::Config(format!("[head] {problem}")))
    }

    /// The same recipe with every default of the head written out.
    pub fn with_head<C: Serialize>(&self, config: &C) -> Result<Self> {
        let mut head = Table::new();
        head.insert("name".into(), Value::String(self.head_name().into()));
        let knobs = Table::try_from(config)
            .map_err(|problem| Error::Config(format!("[head]: {problem}")))?;
        head.extend(knobs);
        Ok(Self {
            head,
            ..self.clone()
        })
    }

    /// As TOML, every value written out.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|problem| Error::Config(problem.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n";

    #[test]
    fn what_is_written_reads_back() {
        let recipe = Recipe::parse(SMALL, "r.toml", &[]).unwrap();
        let again = Recipe::parse(&recipe.to_toml().unwrap(), "again", &[]).unwrap();
        assert_eq!(recipe, again);
    }
}
