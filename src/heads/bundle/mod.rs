//! Bundling Learning: a head made of two heads.
//!
//! A tagger and a span model share the encoder; the loss is `α · L_tagger + (1 − α) · L_spans` with α = 0.1, and
//! one of the two gives the output. Bundling SeqNER with SpanNER is the paper's BL-NER: BL-SpanNER when the span
//! head answers (our default), BL-SeqNER when the tagger does. Any other span model bundles the same way.
//!
//! The tagger is flat: of nested gold it learns the outermost entities. (The paper removes overlapping entities
//! from its corpora.)

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Head, Losses, Reading};
use crate::encoder::WordStates;
use crate::error::{Error, Result};
use crate::text::{Labels, Mention, Sentence};

/// Which of the two heads answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// The tagger.
    Seq,
    /// The span model.
    #[default]
    Span,
}

/// The knobs of a bundle: its own and those of the two heads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    bound = "A: Serialize + DeserializeOwned + Default, B: Serialize + DeserializeOwned + Default"
)]
pub struct Config<A, B> {
    /// Weight of the tagger's loss; the span model's has the rest.
    pub alpha: f64,
    /// `span` or `seq`: which head answers.
    pub output: Output,
    /// The tagger's knobs.
    pub seq: A,
    /// The span model's knobs.
    pub span: B,
}

impl<A: Default, B: Default> Default for Config<A, B> {
    fn default() -> Self {
        Self {
            alpha: 0.1,
            output: Output::Span,
            seq: A::default(),
            span: B::default(),
        }
    }
}

/// A tagger `A` and a span model `B` on one encoder.
#[derive(Module, Debug)]
pub struct Bundle<A: Head, B: Head> {
    /// The tagger.
    pub seq: A,
    /// The span model.
    pub span: B,
    #[module(skip)]
    alpha: f64,
    #[module(skip)]
    output: Output,
}

impl<A: Head, B: Head> Bundle<A, B> {
    /// A bundle of two heads that exist.
    pub fn from_parts(seq: A, span: B, alpha: f64, output: Output) -> Self {
        Self {
            seq,
            span,
            alpha,
            output,
        }
    }

    /// What the tagger sees: the words and its own prompts, which come first.
    fn seq_states(&self, states: &WordStates) -> WordStates {
        own_prompts(states, 0, self.seq.prompt())
    }

    /// What the span model sees: the words and its own prompts.
    fn span_states(&self, states: &WordStates) -> WordStates {
        let first = self.seq.prompt().map_or(0, |prompt| prompt.dims()[0]);
        own_prompts(states, first, self.span.prompt())
    }
}

/// The states with only one head's prompts, the `first` and those after it.
fn own_prompts(states: &WordStates, first: usize, prompt: Option<Tensor<2>>) -> WordStates {
    let count = prompt.map(|prompt| prompt.dims()[0]);
    WordStates {
        prompts: (states.prompts.clone().zip(count))
            .map(|(prompts, count)| prompts.narrow(1, first, count)),
        ..states.clone()
    }
}

impl<A: Head, B: Head> Head for Bundle<A, B> {
    type Config = Config<A::Config, B::Config>;
    type Gold = (A::Gold, B::Gold);

    fn name() -> String {
        format!("{}+{}", A::name(), B::name())
    }

    fn check(config: &Self::Config) -> Result<()> {
        if !(0.0..=1.0).contains(&config.alpha) {
            let alpha = config.alpha;
            return Err(Error::Config(format!(
                "[head] alpha = {alpha}: it lies between 0 and 1"
            )));
        }
        A::check(&config.seq)?;
        B::check(&config.span)
    }

    fn fits(config: &Self::Config, width: usize) -> Result<()> {
        A::fits(&config.seq, width)?;
        B::fits(&config.span, width)
    }

    fn init(config: &Self::Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let seq = A::init(&config.seq, width, labels, device);
        let span = B::init(&config.span, width, labels, device);
        Self::from_parts(seq, span, config.alpha, config.output)
    }

    fn prompts(config: &Self::Config, labels: &Labels) -> usize {
        A::prompts(&config.seq, labels) + B::prompts(&config.span, labels)
    }

    fn prompt(&self) -> Option<Tensor<2>> {
        match (self.seq.prompt(), self.span.prompt()) {
            (Some(seq), Some(span)) => Some(Tensor::cat(vec![seq, span], 0)),
            (seq, span) => seq.or(span),
        }
    }

    fn nested(&self) -> bool {
        match self.output {
            Output::Seq => self.seq.nested(),
            Output::Span => self.span.nested(),
        }
    }

    fn has_flat_part(&self) -> bool {
        self.seq.has_flat_part() || self.span.has_flat_part()
    }

    fn gold(
        config: &Self::Config,
        labels: &Labels,
        sentences: &[&Sentence],
        seed: u64,
    ) -> Self::Gold {
        (
            A::gold(&config.seq, labels, sentences, seed),
            B::gold(&config.span, labels, sentences, seed),
        )
    }

    fn loss(&self, states: &WordStates, gold: &Self::Gold) -> Losses {
        let seq = self.seq.loss(&self.seq_states(states), &gold.0);
        let span = self.span.loss(&self.span_states(states), &gold.1);
        Losses {
            total: seq.total * self.alpha + span.total * (1.0 - self.alpha),
            terms: seq.terms.into_iter().chain(span.terms).collect(),
        }
    }

    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>> {
        match self.output {
            Output::Seq => self.seq.decode(&self.seq_states(states)),
            Output::Span => self.span.decode(&self.span_states(states)),
        }
    }

    fn readings(&self, states: &WordStates) -> Vec<Reading> {
        self.span.readings(&self.span_states(states))
    }

    fn decode_other(&self, states: &WordStates) -> Option<Other> {
        Some(match self.output {
            Output::Seq => Other {
                head: B::name(),
                nested: self.span.nested(),
                mentions: self.span.decode(&self.span_states(states)),
            },
            Output::Span => Other {
                head: A::name(),
                nested: self.seq.nested(),
                mentions: self.seq.decode(&self.seq_states(states)),
            },
        })
    }

    fn note(&self) -> Option<String> {
        self.span.note().or_else(|| self.seq.note())
    }
}

/// What the head that does not answer would have said.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its name.
    pub head: String,
    /// True when it may nest.
    pub nested: bool,
    /// Its mentions.
    pub mentions: Vec<Vec<Mention>>,
}
