//! The trait [`Head`] and one folder per paper. A head computes losses and mentions from word states; it knows no files
//! and no training loop.

pub mod bopn;
pub mod bundle;
pub mod diagnosis;
pub mod diffusion_ner;
pub mod import;
pub mod locate_label;
pub mod none_bias;
pub mod overlaps;
pub mod released;
pub mod seq_ner;
pub mod settings;
pub mod span_ner;
pub mod token_classifier;

use std::collections::BTreeMap;
use std::fmt::Debug;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor};
use serde_json::Value;

pub use diagnosis::{Count, Detail, Diagnosis, Evidence, add_counts};
pub use import::Imported;
pub use overlaps::Overlaps;
pub use settings::{Preset, Settings};

use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::{Error, Result};
use crate::nn::host::HostArray;
use crate::text::{Labels, Mention, Sentence};
use import::ImportedHead;
use released::{ReleasedModel, ReleasedSettings};
use token_classifier::TokenClassifier;

/// The part of a model that one paper describes: from the encoder's word states to a loss and to mentions.
///
/// `examples/own_head.rs` shows a complete head outside this crate.
pub trait Head: Module + ModuleDisplay + Debug + Send + Sync + 'static {
    /// The settings under `[head]` in a recipe.
    type Config: Settings;

    /// Training targets of a batch, as plain data.
    type Gold: Clone + Debug + Send + 'static;

    /// The network's scores for one sentence, as plain data: everything that decoding settings are applied to.
    type Candidates: Clone + Debug + Send + Sync + 'static;

    /// Its name in recipes.
    fn name() -> String;

    /// Its settings.
    fn config(&self) -> &Self::Config;

    /// Replaces its settings by others that differ at most in those that may change after training.
    fn set_config(&mut self, config: Self::Config);

    /// Fails with an explanation if the head cannot be used with an encoder of this width.
    fn fits(_config: &Self::Config, _width: usize) -> Result<()> {
        Ok(())
    }

    /// A head with newly initialised weights, for word states of this width.
    fn init(config: &Self::Config, width: usize, labels: &Labels, device: &Device) -> Self;

    /// The number of prompt vectors that the head adds to every sentence. They take up input length: windows are
    /// shorter by as many pieces.
    fn prompts(_config: &Self::Config, _labels: &Labels) -> usize {
        0
    }

    /// The prompt vectors, learned in the space of the encoder's embeddings: [prompts, width]. They are inserted before
    /// the first piece of every row; their states are returned as `WordStates::prompts`.
    fn prompt(&self) -> Option<Tensor<2>> {
        None
    }

    /// True if its mentions may nest or overlap. A flat head learns, and is scored on, the outermost entities.
    fn nested(&self) -> bool;

    /// True if the head, or a part of it, learns the outermost entities only.
    fn has_flat_part(&self) -> bool {
        !self.nested()
    }

    /// The training targets of a batch. Runs in the data loader's threads; all random choices follow from `seed`, so
    /// that the same step of the same run always makes the same ones.
    fn gold(
        config: &Self::Config,
        labels: &Labels,
        sentences: &[&Sentence],
        seed: u64,
    ) -> Self::Gold;

    /// Whether batches can be padded to a shape with these settings: see [`pad`](Self::pad).
    fn takes_padding(_config: &Self::Config) -> bool {
        false
    }

    /// Pads the training targets of a batch to a shape. The states that come with them have as many sentences and words as
    /// the shape; those past the batch's own are padding, with length 0. The loss has to be the same as without padding, and
    /// its tensors should have few different shapes. Called only if [`takes_padding`](Self::takes_padding).
    fn pad(
        _config: &Self::Config,
        _labels: &Labels,
        gold: Self::Gold,
        _shape: &BatchShape,
    ) -> Self::Gold {
        gold
    }

    /// The sizes that follow from the training targets of a batch and on which shapes of the head's tensors depend, such as
    /// a number of spans.
    fn sizes(_gold: &Self::Gold) -> Vec<usize> {
        Vec::new()
    }

    /// The loss of a batch.
    fn loss(&self, states: &WordStates, gold: &Self::Gold) -> Losses;

    /// The scores of each sentence, from which mentions are decoded.
    fn candidates(&self, states: &WordStates) -> Vec<Self::Candidates>;

    /// The mentions of a sentence under `config`, in the order of their spans. `config` differs from the head's own at
    /// most in settings that may change after training, so that they can be chosen without computing scores again.
    fn mentions(&self, config: &Self::Config, candidates: &Self::Candidates) -> Vec<Mention>;

    /// The mentions of each sentence.
    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>> {
        let all = self.candidates(states);
        let mentions = |candidates| self.mentions(self.config(), candidates);
        all.iter().map(mentions).collect()
    }

    /// The mentions of each sentence together with everything else the head can report about them.
    fn diagnose(&self, candidates: &[Self::Candidates], _detail: Detail) -> Diagnosis {
        let mentions = |candidates| self.mentions(self.config(), candidates);
        Diagnosis::of(candidates.iter().map(mentions).collect())
    }

    /// Number of words of the longest sentence that is tagged as a whole; texts with longer ones are cut into windows that
    /// overlap. A head whose time or memory grows faster than the length of a sentence has a low one.
    fn longest_sentence(_config: &Self::Config) -> usize {
        512
    }

    /// Settings that suit a corpus better than the defaults, for the recipe that `nerzoo init` writes.
    fn suggest(_corpus: &Stats) -> Vec<Suggestion> {
        Vec::new()
    }

    /// Which entities the head can represent with these settings, for upper bounds on its recall.
    fn reach(_config: &Self::Config) -> Reach {
        Reach::default()
    }

    /// Converts weights of the authors' code, given as the bytes of a safetensors file, to our names and layout.
    fn import(_weights: &[u8]) -> Result<Imported> {
        Err(Error::Config(format!(
            "no import of weights is known for {}",
            Self::name()
        )))
    }

    /// The model of a checkpoint that the authors' program wrote: its weights, and the program's settings.
    fn from_released(
        _weights: BTreeMap<String, HostArray>,
        _settings: &ReleasedSettings,
    ) -> Result<ReleasedModel<Self::Config>> {
        Err(Error::Config(format!(
            "the authors of {} released no program whose checkpoints could be imported",
            Self::name()
        )))
    }

    /// The head with the weights of a token classifier of the transformers library.
    fn from_token_classifier(_classifier: &TokenClassifier) -> Result<ImportedHead<Self::Config>> {
        Err(Error::Config(format!(
            "{} does not tag words one by one, so it cannot be made of a token classifier",
            Self::name()
        )))
    }

    /// The head as a token classifier of the transformers library. Fails, with the reason, if its mentions would differ.
    fn to_token_classifier(&self) -> Result<TokenClassifier> {
        Err(Error::Config(format!(
            "{} does not tag words one by one; a token classifier of transformers cannot express it",
            Self::name()
        )))
    }
}

/// A setting that suits a corpus better than the default.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The key under `[head]`; dotted for a part of a bundle.
    pub setting: String,
    /// The suggested value.
    pub value: Value,
    /// Why, in one sentence.
    pub reason: String,
}

/// The terms of a loss by name, and their weighted total.
#[derive(Debug, Clone)]
pub struct Losses {
    /// The value to minimise.
    pub total: Tensor<1>,
    /// Unweighted terms, for the curves.
    pub terms: Vec<(&'static str, Tensor<1>)>,
}

impl Losses {
    /// A loss of one term.
    pub fn single(name: &'static str, value: Tensor<1>) -> Self {
        Self {
            total: value.clone(),
            terms: vec![(name, value)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::settings::describe;
    use super::*;

    fn check_descriptions<H: Head>() {
        let settings = describe::<H::Config>();
        assert!(settings.iter().any(|setting| setting.at_inference));
        for setting in settings {
            let what = format!("{} {}", H::name(), setting.name);
            let length = setting.doc.chars().count();
            assert!((1..=120).contains(&length), "{what}: {}", setting.doc);
            assert_eq!(setting.defaults.len(), H::Config::presets().len(), "{what}");
            let is_given = |(_, value): &(Preset, serde_json::Value)| !value.is_null();
            assert!(setting.defaults.iter().all(is_given), "{what}");
        }
        for preset in H::Config::presets() {
            H::Config::of(*preset).check().unwrap();
        }
    }

    #[test]
    fn every_setting_is_described_in_one_line() {
        check_descriptions::<seq_ner::SeqNer>();
        check_descriptions::<span_ner::SpanNer>();
        check_descriptions::<bopn::Bopn>();
        check_descriptions::<locate_label::LocateLabel>();
        check_descriptions::<diffusion_ner::DiffusionNer>();
        check_descriptions::<bundle::Bundle<seq_ner::SeqNer, bopn::Bopn>>();
    }

    #[test]
    fn heads_without_an_import_refuse_by_name() {
        let problem = seq_ner::SeqNer::import(&[]).unwrap_err().to_string();
        assert!(problem.contains("seq_ner"), "{problem}");
    }
}
