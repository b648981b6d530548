//! Recipes: one TOML file fixes everything a training run depends on (data, encoder, head, optimizer, schedule, seed).

mod check;
pub mod defaults;
pub mod describe;
mod fold;
mod read;
pub mod set;

use std::path::PathBuf;

pub use fold::Fold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::data;
use crate::encoder::features::FeatureChoice;
use crate::encoder::shapes::BatchShapes;
use crate::encoder::{LayerPooling, Pooling, ScratchConfig};
use crate::error::{Error, Result};
use crate::heads::settings::{self, Settings};
use crate::nn::precision::Precision;

/// The description of a training run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The purpose of the run in one line.
    #[serde(default)]
    pub about: String,
    /// Where the sentences come from.
    pub data: DataConfig,
    /// The encoder, which computes a vector for each word.
    #[serde(default)]
    pub encoder: EncoderChoice,
    /// The head's `name` and its settings.
    pub head: Table,
    /// Another head to train on the same encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleWith>,
    /// Optimizer, schedule and batches.
    #[serde(default)]
    pub train: TrainConfig,
    /// How the trained model is used.
    #[serde(default, skip_serializing_if = "PredictConfig::is_default")]
    pub predict: PredictConfig,
    /// A text to tag after training, as a demonstration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The score that the paper reports for this setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Reported>,
}

/// The sentences of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The name of a corpus, whose dataset.toml lists the files of each split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// Files to train on, instead of a corpus.
    pub train: Vec<PathBuf>,
    /// Files to choose the best checkpoint with. Without any, a tenth of `train` is held out.
    pub dev: Vec<PathBuf>,
    /// Files for the final scores.
    pub test: Vec<PathBuf>,
    /// Use only this many training sentences, the first ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Leave out training sentences with more words than this; their number is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
    /// Use only about this share of the training sentences, chosen randomly by document; the seed is `train.seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Cross-validation: join training and dev sentences, and test on one of several folds, such as `2/5`, or train on
    /// them `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub fold: Option<Fold>,
    /// How to read the files.
    pub options: data::ReadOptions,
}

/// The encoder of a run: a pretrained one by folder or name, or one trained from scratch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EncoderChoice {
    /// A folder in the Hugging Face layout, or a name to look up. Without it the encoder starts from scratch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pretrained: Option<String>,
    /// The licence of the pretrained weights, for the model card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// How the states of a word's pieces are pooled into one.
    pub pooling: Pooling,
    /// Which transformer layers are used.
    pub layers: LayerPooling,
    /// Dropout inside a pretrained transformer; the default is the pretrained model's own value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Number of pieces that neighbouring windows of a long sentence share.
    pub overlap: usize,
    /// Number of neighbouring sentences of the document on each side that are encoded with each sentence.
    pub context: usize,
    /// Sizes of an encoder trained from scratch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<ScratchConfig>,
    /// Word features in addition to the transformer's states.
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

/// Trains the head together with another one on the same encoder; predictions still come from the head itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// The `[train]` table of a recipe: optimizer, schedule, batches, checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Random seed of the whole run.
    pub seed: u64,
    /// Passes over the training sentences.
    pub epochs: usize,
    /// Sentences per batch.
    pub batch: usize,
    /// Number of batches whose sentences are sorted by length together: a larger number means less padding, but batches
    /// of short sentences contribute less per step. 1 for no sorting.
    pub bucket: usize,
    /// Largest number of pieces per batch, padding included, instead of a number of sentences (`batch` then only
    /// determines how many are sorted together). 0 for no such limit.
    pub tokens_per_batch: usize,
    /// Sizes of a batch: `exact`, as small as its sentences allow; or `ladder`, padded to one of about ten sizes, with
    /// batches of sentences of similar length (`bucket` has no effect then), so that a GPU compiles kernels for few
    /// shapes. `auto` is `exact` on the CPU, `ladder` on GPUs and devices of other machines.
    pub shapes: BatchShapes,
    /// Number of batches whose gradients are averaged for one optimizer step.
    pub accumulate: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Peak learning rate of the head and the word features, if it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_learning_rate: Option<f64>,
    /// Layer-wise learning-rate decay: the top layer of the transformer has the learning rate, each layer below it the
    /// rate of the layer above times this, the embeddings once more. 1 for the same rate everywhere. The head and the
    /// word features are not affected.
    pub layer_decay: f64,
    /// Fraction of the steps for linear warm-up; afterwards the rate decays linearly to 0.
    pub warm_up: f64,
    /// Decoupled weight decay; biases and norms have none.
    pub weight_decay: f64,
    /// AdamW's epsilon.
    pub epsilon: f64,
    /// Largest global gradient norm; larger gradients are scaled down to it. 0 for no limit.
    pub clip: f64,
    /// Number of epochs at the start in which the encoder is frozen.
    pub freeze_encoder: usize,
    /// Gives the frozen epochs a schedule of their own: warm-up, then decay to 0 from a rate this many times as high;
    /// the remaining epochs start a second schedule. Without it one schedule covers all epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze_rate: Option<f64>,
    /// Stop after this many epochs without a better dev F1. 0 for never.
    pub patience: usize,
    /// Choose the head's decoding settings (thresholds, biases, overlaps) on the dev sentences: after each epoch to compare
    /// checkpoints, and for the final model. Off in recipes that follow a paper.
    pub tune: bool,
    /// Average the weights of the last so many epoch ends; the average becomes the model if its dev F1 is higher than
    /// that of the best checkpoint, or if there are no dev sentences. With `patience` the epochs up to the best one are
    /// averaged, because those after it were not better and may outnumber the average. The model files of these epochs
    /// stay in the run folder, with `patience` during training up to twice as many. 0 for no average.
    pub average: usize,
    /// After training, calibrate the scores of mentions on the dev sentences.
    pub calibrate: bool,
    /// Write the final weights in half precision.
    pub half: bool,
    /// Format of the encoder's matrix products and activations in training: `f32`, `bf16` or `f16` (with loss scaling).
    /// Weights, optimizer, norms, softmax, head and loss are f32 in any case.
    pub precision: Precision,
    /// Compute each layer of the encoder again in the backward pass instead of keeping its activations: less memory, more
    /// time, same result.
    pub recompute: bool,
    /// Minutes between checkpoints within an epoch; there is always one at its end.
    pub checkpoint_minutes: f64,
    /// Seconds between lines of progress when the output is not a terminal.
    pub report_seconds: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            epochs: 20,
            batch: 16,
            bucket: 8,
            tokens_per_batch: 0,
            shapes: BatchShapes::Auto,
            accumulate: 1,
            learning_rate: 5e-5,
            head_learning_rate: None,
            layer_decay: 1.0,
            warm_up: 0.1,
            weight_decay: 0.01,
            epsilon: 1e-8,
            clip: 1.0,
            freeze_encoder: 0,
            freeze_rate: None,
            patience: 0,
            tune: true,
            average: 0,
            calibrate: true,
            half: false,
            precision: Precision::F32,
            recompute: false,
            checkpoint_minutes: 5.0,
            report_seconds: 10.0,
        }
    }
}

/// How a trained model is used; saved with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PredictConfig {
    /// Number of words of the longest sentence that is tagged as a whole; longer ones are cut into windows that overlap. By
    /// default it depends on the head's cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<usize>,
}

impl PredictConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A score from a paper's table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The encoder used, and the table in the paper.
    pub source: String,
}

impl Recipe {
    /// The head's name.
    pub fn head_name(&self) -> &str {
        self.head.get("name").and_then(Value::as_str).unwrap_or("")
    }

    /// The settings of the head, completed and checked.
    pub fn head_config<C: Settings>(&self) -> Result<C> {
        if self.bundle.is_some() {
            return Err(Error::Config(
                "the recipe has a [bundle], which registry::resolve turns into settings of the head first".into(),
            ));
        }
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
        let settings = Table::try_from(config)
            .map_err(|problem| Error::Config(format!("[head]: {problem}")))?;
        head.extend(settings);
        Ok(Self {
            head,
            ..self.clone()
        })
    }

    /// The recipe as TOML with every value.
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
