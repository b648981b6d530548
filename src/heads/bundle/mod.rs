//! Bundling Learning: a head made of two heads.
//!
//! A tagger and a span model share the encoder; the loss is `α · L_tagger + (1 − α) · L_spans` with α = 0.1, and one of
//! the two gives the mentions. SeqNER with SpanNER is the paper's BL-NER: BL-SpanNER if the span model gives the mentions
//! (our default), BL-SeqNER if the tagger does. Any other span model can be bundled in the same way.
//!
//! The tagger is flat: it learns the outermost of nested entities. (The paper removes overlapping entities from its
//! corpora.)

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::settings::{Preset, Settings, to_map, up_to_one};
use super::{Detail, Diagnosis, Evidence, Head, Losses, Overlaps, Suggestion};
use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::{Error, Result};
use crate::text::{Labels, Mention, Sentence};

/// Which of the two heads gives the mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutputHead {
    /// The tagger.
    Seq,
    /// The span model.
    #[default]
    Span,
}

/// The settings of a bundle and of its two heads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    bound = "A: Serialize + DeserializeOwned, B: Serialize + DeserializeOwned"
)]
#[schemars(bound = "A: JsonSchema, B: JsonSchema")]
pub struct Config<A, B> {
    /// Weight of the tagger's loss; the span model's loss has the weight 1 − alpha.
    pub alpha: f64,
    /// Which head gives the mentions: the tagger (seq) or the span model (span).
    #[schemars(extend("inference" = true))]
    pub output: OutputHead,
    /// Settings of the tagger.
    pub seq: A,
    /// Settings of the span model.
    pub span: B,
}

impl<A: Settings, B: Settings> Settings for Config<A, B> {
    /// Presets of the parts; each part has its own setting `preset`.
    fn presets() -> &'static [Preset] {
        if A::presets().len() > B::presets().len() {
            A::presets()
        } else {
            B::presets()
        }
    }

    fn of(preset: Preset) -> Self {
        Self {
            alpha: 0.1,
            output: OutputHead::Span,
            seq: A::of(preset),
            span: B::of(preset),
        }
    }

    fn check(&self) -> Result<()> {
        up_to_one("alpha", self.alpha)?;
        self.seq.check().map_err(|problem| inside("seq", problem))?;
        self.span.check().map_err(|problem| inside("span", problem))
    }

    fn resolve_overlaps(&mut self, corpus: Overlaps) {
        self.seq.resolve_overlaps(corpus);
        self.span.resolve_overlaps(corpus);
    }

    fn fill(mut given: Map<String, Value>) -> Result<Map<String, Value>> {
        let seq = fill_part::<A>("seq", given.remove("seq"))?;
        let span = fill_part::<B>("span", given.remove("span"))?;
        let mut all = to_map(&Self::of(Preset::default()));
        all.extend(given);
        all.insert("seq".into(), seq);
        all.insert("span".into(), span);
        Ok(all)
    }
}

/// The completed settings of a part of a bundle.
fn fill_part<C: Settings>(key: &str, given: Option<Value>) -> Result<Value> {
    let given = match given {
        Some(Value::Object(given)) => given,
        None => Map::new(),
        Some(other) => {
            return Err(Error::Config(format!(
                "{key} = {other} must be a table of settings"
            )));
        }
    };
    let filled = C::fill(given).map_err(|problem| inside(key, problem))?;
    Ok(Value::Object(filled))
}

/// A problem with a part's setting, named by its path in the bundle.
fn inside(key: &str, problem: Error) -> Error {
    Error::Config(format!("{key}.{problem}"))
}

/// A tagger `A` and a span model `B` on one encoder.
#[derive(Module, Debug)]
pub struct Bundle<A: Head, B: Head> {
    /// The tagger.
    pub seq: A,
    /// The span model.
    pub span: B,
    #[module(skip)]
    config: Config<A::Config, B::Config>,
}

impl<A: Head, B: Head> Bundle<A, B> {
    /// A bundle of two existing heads.
    pub fn from_parts(seq: A, span: B, alpha: f64, output: OutputHead) -> Self {
        Self {
            config: Config {
                alpha,
                output,
                seq: seq.config().clone(),
                span: span.config().clone(),
            },
            seq,
            span,
        }
    }

    /// The states for the tagger: the words and its own prompts, which come first.
    fn seq_states(&self, states: &WordStates) -> WordStates {
        own_prompts(states, 0, self.seq.prompt())
    }

    /// The states for the span model: the words and its own prompts.
    fn span_states(&self, states: &WordStates) -> WordStates {
        let first = self.seq.prompt().map_or(0, |prompt| prompt.dims()[0]);
        own_prompts(states, first, self.span.prompt())
    }
}

/// The states with the prompts of one head only, which start at index `first`.
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
    type Candidates = (A::Candidates, B::Candidates);

    fn name() -> String {
        format!("{}+{}", A::name(), B::name())
    }

    fn config(&self) -> &Self::Config {
        &self.config
    }

    fn set_config(&mut self, config: Self::Config) {
        self.seq.set_config(config.seq.clone());
        self.span.set_config(config.span.clone());
        self.config = config;
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

    fn reach(config: &Self::Config) -> Reach {
        match config.output {
            OutputHead::Seq => A::reach(&config.seq),
            OutputHead::Span => B::reach(&config.span),
        }
    }

    fn nested(&self) -> bool {
        match self.config.output {
            OutputHead::Seq => self.seq.nested(),
            OutputHead::Span => self.span.nested(),
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

    fn takes_padding(config: &Self::Config) -> bool {
        A::takes_padding(&config.seq) && B::takes_padding(&config.span)
    }

    fn pad(
        config: &Self::Config,
        labels: &Labels,
        (seq, span): Self::Gold,
        shape: &BatchShape,
    ) -> Self::Gold {
        (
            A::pad(&config.seq, labels, seq, shape),
            B::pad(&config.span, labels, span, shape),
        )
    }

    fn sizes((seq, span): &Self::Gold) -> Vec<usize> {
        [A::sizes(seq), B::sizes(span)].concat()
    }

    fn longest_sentence(config: &Self::Config) -> usize {
        match config.output {
            OutputHead::Seq => A::longest_sentence(&config.seq),
            OutputHead::Span => B::longest_sentence(&config.span),
        }
    }

    fn suggest(corpus: &Stats) -> Vec<Suggestion> {
        let named = |part: &'static str| {
            move |suggestion: Suggestion| Suggestion {
                setting: format!("{part}.{}", suggestion.setting),
                ..suggestion
            }
        };
        let seq = A::suggest(corpus).into_iter().map(named("seq"));
        let span = B::suggest(corpus).into_iter().map(named("span"));
        seq.chain(span).collect()
    }

    fn loss(&self, states: &WordStates, gold: &Self::Gold) -> Losses {
        let seq = self.seq.loss(&self.seq_states(states), &gold.0);
        let span = self.span.loss(&self.span_states(states), &gold.1);
        Losses {
            total: seq.total * self.config.alpha + span.total * (1.0 - self.config.alpha),
            terms: seq.terms.into_iter().chain(span.terms).collect(),
        }
    }

    /// The scores of both heads.
    fn candidates(&self, states: &WordStates) -> Vec<Self::Candidates> {
        let seq = self.seq.candidates(&self.seq_states(states));
        let span = self.span.candidates(&self.span_states(states));
        seq.into_iter().zip(span).collect()
    }

    fn mentions(&self, config: &Self::Config, (seq, span): &Self::Candidates) -> Vec<Mention> {
        match config.output {
            OutputHead::Seq => self.seq.mentions(&config.seq, seq),
            OutputHead::Span => self.span.mentions(&config.span, span),
        }
    }

    /// Runs only the head that gives the mentions.
    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>> {
        match self.config.output {
            OutputHead::Seq => self.seq.decode(&self.seq_states(states)),
            OutputHead::Span => self.span.decode(&self.span_states(states)),
        }
    }

    fn diagnose(&self, candidates: &[Self::Candidates], detail: Detail) -> Diagnosis {
        let (seq, span): (Vec<_>, Vec<_>) = candidates.iter().cloned().unzip();
        let seq = self.seq.diagnose(&seq, detail);
        let span = self.span.diagnose(&span, detail);
        let (output, other, name, nested) = match self.config.output {
            OutputHead::Seq => (seq, span, B::name(), self.span.nested()),
            OutputHead::Span => (span, seq, A::name(), self.seq.nested()),
        };
        let other_mentions = Evidence {
            name,
            nested,
            offset: [0, 0],
            mentions: other.mentions,
        };
        Diagnosis {
            mentions: output.mentions,
            evidence: [vec![other_mentions], output.evidence, other.evidence].concat(),
            counts: [output.counts, other.counts].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::settings::{describe, read};
    use super::*;
    use crate::heads::{bopn, seq_ner};

    type Both = Config<seq_ner::Config, bopn::Config>;

    fn both(given: Value) -> Result<Both> {
        read(given.as_object().unwrap().clone())
    }

    #[test]
    fn each_part_is_completed_from_its_own_preset() {
        let found = both(json!({"span": {"preset": "released", "offsets": 1}})).unwrap();
        let span = bopn::Config {
            offsets: 1,
            ..bopn::Config::of(Preset::Released)
        };
        let expected = Both {
            span,
            ..Both::of(Preset::Paper)
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn errors_name_the_part() {
        for (given, expected) in [
            (json!({"seq": {"dropout": 1.5}}), "seq.dropout = 1.5 must"),
            (json!({"span": {"ofsets": 1}}), "span.ofsets: "),
            (json!({"span": {"ofsets": 1}}), "did you mean `offsets`"),
            (json!({"span": 3}), "span = 3 must be a table"),
            (json!({"alpha": 2.0}), "alpha = 2 must be between 0 and 1"),
        ] {
            let problem = both(given).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn settings_of_the_parts_are_described_with_their_path() {
        let found = describe::<Both>();
        let setting = |name: &str| {
            let mut matching = found.iter().filter(|setting| setting.name == name);
            matching.next().unwrap()
        };
        assert_eq!(setting("seq.decoder").kind, "softmax | crf");
        assert!(setting("span.decode").at_inference);
        let defaults = [(Preset::Paper, json!(3)), (Preset::Released, json!(2))];
        assert_eq!(setting("span.convolutions").defaults, defaults);
        assert!(found.iter().all(|setting| !setting.doc.is_empty()));
    }
}
