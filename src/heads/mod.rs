//! One folder per paper. A head turns word states into a loss and into mentions; it knows nothing of files.

pub mod bopn;
pub mod bundle;
pub mod diffusion_ner;
pub mod locate_label;
pub mod preset;
pub mod seq_ner;
pub mod span_ner;

use std::fmt::Debug;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::encoder::WordStates;
use crate::error::{Error, Result};
use crate::text::{Labels, Mention, Sentence, Span};

/// A model on top of an encoder, as one paper describes it.
pub trait Head: Module + ModuleDisplay + Debug + Send + Sync + 'static {
    /// Every knob; the default is the paper's.
    type Config: Serialize + DeserializeOwned + Default + Clone + Debug + Send + Sync + 'static;

    /// Targets of a batch as plain data.
    type Gold: Clone + Debug + Send + 'static;

    /// Its name in recipes.
    fn name() -> String;

    /// Says what is wrong with knobs that no model can have.
    fn check(_config: &Self::Config) -> Result<()> {
        Ok(())
    }

    /// Says why the head cannot stand on an encoder of this width.
    fn fits(_config: &Self::Config, _width: usize) -> Result<()> {
        Ok(())
    }

    /// A head with fresh weights for states of this width.
    fn init(config: &Self::Config, width: usize, labels: &Labels, device: &Device) -> Self;

    /// How many vectors of its own the head wants encoded with every sentence. They take room from the words:
    /// windows are shorter by as many pieces.
    fn prompts(_config: &Self::Config, _labels: &Labels) -> usize {
        0
    }

    /// These vectors, learned in the space of the encoder's embeddings: [prompts, width]. They stand before the
    /// first piece of every row; their states come back as `WordStates::prompts`.
    fn prompt(&self) -> Option<Tensor<2>> {
        None
    }

    /// True when its mentions may nest or overlap. A flat head learns, and is scored on, the outermost
    /// entities.
    fn nested(&self) -> bool;

    /// True when it, or a part of it, learns the outermost entities only.
    fn has_flat_part(&self) -> bool {
        !self.nested()
    }

    /// What the loss compares with. Runs in the data loader's threads; `seed` feeds whatever is drawn at
    /// random, so that the same step of the same run always draws the same.
    fn gold(
        config: &Self::Config,
        labels: &Labels,
        sentences: &[&Sentence],
        seed: u64,
    ) -> Self::Gold;

    /// The loss of a batch.
    fn loss(&self, states: &WordStates, gold: &Self::Gold) -> Losses;

    /// The mentions of each sentence, in order of their spans.
    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>>;

    /// What each kind of evidence by itself would have found, for heads that have several.
    fn readings(&self, _states: &WordStates) -> Vec<Reading> {
        Vec::new()
    }

    /// What a bundle's other head would have said, for its score in validation.
    fn decode_other(&self, _states: &WordStates) -> Option<bundle::Other> {
        None
    }

    /// What the head has to say about all it decoded since it was last asked, for the log of validation.
    fn note(&self) -> Option<String> {
        None
    }
}

/// What one kind of a head's evidence finds by itself.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Its name in tables.
    pub name: String,
    /// How far the borders of a span that speaks lie from those of the entity it speaks of. Where such a span would
    /// leave the sentence or be empty, this evidence cannot exist.
    pub apart: [i32; 2],
    /// Its mentions, sentence by sentence.
    pub mentions: Vec<Vec<Mention>>,
}

impl Reading {
    /// Whether a sentence of `words` words has room for this evidence of an entity.
    pub fn reaches(&self, span: Span, words: usize) -> bool {
        let start = span.start as i32 + self.apart[0];
        let end = span.end as i32 + self.apart[1];
        0 <= start && start < end && end <= words as i32
    }
}

/// Fails unless a knob that is a probability lies in 0..1.
pub(crate) fn probability(knob: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        Ok(())
    } else {
        Err(Error::Config(format!(
            "[head] {knob} = {value}: it lies from 0 to below 1"
        )))
    }
}

/// Fails unless a knob that counts is at least 1.
pub(crate) fn at_least_one(knob: &str, value: usize) -> Result<()> {
    match value {
        0 => Err(Error::Config(format!("[head] {knob} must be at least 1"))),
        _ => Ok(()),
    }
}

/// The terms of a loss by name, and their weighted total.
#[derive(Debug, Clone)]
pub struct Losses {
    /// What the optimiser minimises.
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
