//! SpanNER: named-entity recognition as span classification, the span half of Bundling Learning.
//!
//! Every span of at most ε words is a candidate, classified into m types or none by one linear layer over its
//! representation. With word states `e`, the sentence's \[CLS\] state `e₀` and a learned length embedding `W`:
//!
//! * **boundary**: `[e_start; e_end; W]`
//! * **pooling**: `[max(e_start..e_end); e₀; W]`
//! * **hybrid** (default): `[e_start; e_end; max(e_start..e_end); e₀; W]`
//!
//! Training uses the gold spans and at most 100 random other spans of each sentence; the loss is the cross-entropy, mean
//! over all spans of the batch. Prediction scores all spans. There the linear layer is split by its inputs: `e_start` and
//! `e_end` are projected once per word instead of once per span, so that no tensor is larger than [spans, width], and
//! spans are processed one length at a time.
//!
//! The paper's corpora are flat: it keeps only the most probable of overlapping spans (`overlaps = "flat"`). With our
//! default, `overlaps = "auto"`, nested mentions are kept if the training data have any. The authors released no program.

mod config;
mod decode;
mod network;
mod target;

pub use config::{Config, Representation};
pub use decode::SpanScore;
pub use network::SpanNer;
pub use target::Gold;

use burn::tensor::Device;

use super::{Head, Losses, Overlaps, Suggestion};
use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::nn::loss::{cross_entropy, padded_cross_entropy};
use crate::nn::spans::BatchSpan;
use crate::text::{Labels, Mention, Sentence};

impl Head for SpanNer {
    type Config = Config;
    type Gold = Gold;
    type Candidates = Vec<SpanScore>;

    fn name() -> String {
        "span_ner".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        SpanNer::new(config, width, labels, device)
    }

    fn reach(config: &Config) -> Reach {
        Reach {
            overlapping: config.overlaps != Overlaps::Flat,
            several_types: false,
            longest: Some(config.longest),
            ..Reach::default()
        }
    }

    fn nested(&self) -> bool {
        self.config.overlaps != Overlaps::Flat
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Gold {
        Gold::new(config, labels, sentences, seed)
    }

    fn takes_padding(_config: &Config) -> bool {
        true
    }

    fn pad(config: &Config, _labels: &Labels, gold: Gold, shape: &BatchShape) -> Gold {
        gold.pad(config, shape)
    }

    fn sizes(gold: &Gold) -> Vec<usize> {
        let longest = gold.spans.iter().map(BatchSpan::words).max();
        vec![gold.spans.len(), longest.unwrap_or(0)]
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        let scores = self.scores(states, &gold.spans);
        let loss = if gold.spans.len() > gold.classes.len() {
            padded_cross_entropy(scores, &gold.classes)
        } else {
            cross_entropy(scores, &gold.classes)
        };
        Losses::single("spans", loss)
    }

    fn candidates(&self, states: &WordStates) -> Vec<Vec<SpanScore>> {
        decode::candidates(self, states)
    }

    fn mentions(&self, config: &Config, spans: &Vec<SpanScore>) -> Vec<Mention> {
        decode::mentions(self, config, spans)
    }

    /// The shortest limit on the length of spans that covers nearly all entities.
    fn suggest(corpus: &Stats) -> Vec<Suggestion> {
        let limit = corpus.length_covering(99.0);
        let suggestion = limit.map(|(words, percent)| Suggestion {
            setting: "longest".into(),
            value: words.into(),
            reason: format!(
                "Longer entities cannot be found: this limit covers {percent:.2} % of them."
            ),
        });
        suggestion.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_suggested_limit_covers_nearly_all_entities() {
        let corpus = Stats {
            entities: 1000,
            lengths: BTreeMap::from([(1, 800), (4, 192), (30, 8)]),
            ..Stats::default()
        };
        let suggested = SpanNer::suggest(&corpus);
        assert_eq!(suggested.len(), 1);
        assert_eq!(suggested[0].setting, "longest");
        assert_eq!(suggested[0].value, 4);
        assert!(suggested[0].reason.contains("99.20 %"));
        assert!(SpanNer::suggest(&Stats::default()).is_empty());
    }
}
