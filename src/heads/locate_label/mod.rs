//! Locate and Label: a two-stage identifier (Shen et al., 2021).
//!
//! Spans of a few lengths, the seeds, are treated like the anchor boxes of an object detector: a filter discards most of
//! them, a regressor moves the boundaries of the others, and a classifier labels the moved spans. An entity need not be
//! among the seeds to be found.
//!
//! * (1, 2, 3) p_filter = σ(MLP([max(h_s..h_e); h_s; h_e])).
//! * (4, 5) offsets t = MLP([max(h_s..h_e); h_{s−1}; h_{e+1}]).
//! * (6, 7) s̃ = max(0, s + ⌊tˡ + ½⌋), ẽ = min(N − 1, e + ⌊tʳ + ½⌋).
//! * (8, 9, 10) p = softmax(MLP([max(h_s̃..h_ẽ); h_s̃; h_ẽ])).
//! * (11) the weight of an example is IoU^η if it is close to its entity, otherwise (1 − IoU)^η.
//! * (12) focal loss of the filter; (14) smooth L1 of the offsets; (15) 1 − overlap; (16) cross-entropy of the classes.
//! * (18) Soft-NMS: if two proposals overlap much, the lower score is reduced; proposals that stay above δ are mentions.
//!
//! The authors' code differs from the paper in most of these; the preset `released` follows the program, setting by
//! setting (see [`Config`]). Word states come from the encoder; the paper's word vectors, parts of speech, characters and
//! BiLSTM are [features](crate::encoder::features) that any head can use.
//!
//! No tensor of size spans · words · width is ever created: maxima of moved spans come from a sparse table, and in
//! prediction words go through the first layers once, not once per span.

mod config;
mod decode;
#[doc(hidden)]
pub mod import;
mod loss;
mod network;
mod seeds;
mod suppress;
mod target;

pub use config::{
    Averaging, ClassifierLoss, Config, Crossing, Duplicates, FilterScores, Illegal, OffsetOutput,
    Rounding, SoftNms, Weighting,
};
pub use network::LocateLabel;
pub use target::Gold;

// Parts of the head that tests compare with the reference implementation.
#[doc(hidden)]
pub use {
    decode::proposals,
    network::{Borders, Scorer, SpanContext},
    seeds::{iou, prediction_seeds, training_seeds},
    suppress::{Proposal, suppress},
    target::{Example, PairedEntity},
};

use std::collections::BTreeMap;

use burn::tensor::Device;

use super::{Head, Imported, Losses, Overlaps, Suggestion};
use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::encoder::WordStates;
use crate::encoder::shapes::BatchShape;
use crate::error::Result;
use crate::heads::released::{ReleasedModel, ReleasedSettings};
use crate::nn::host::HostArray;
use crate::text::{Labels, Mention, Sentence};

impl Head for LocateLabel {
    type Config = Config;
    type Gold = Gold;
    type Candidates = Vec<Proposal>;

    fn name() -> String {
        "locate_label".into()
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        LocateLabel::new(config, width, labels, device)
    }

    fn reach(config: &Config) -> Reach {
        Reach {
            overlapping: config.overlaps != Overlaps::Flat,
            several_types: !config.one_type,
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

    fn pad(_config: &Config, _labels: &Labels, gold: Gold, shape: &BatchShape) -> Gold {
        gold.pad(shape)
    }

    fn sizes(gold: &Gold) -> Vec<usize> {
        vec![gold.rows.unwrap_or(gold.examples.len())]
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn candidates(&self, states: &WordStates) -> Vec<Vec<Proposal>> {
        decode::proposals(self, states)
    }

    fn mentions(&self, config: &Config, proposals: &Vec<Proposal>) -> Vec<Mention> {
        decode::mentions(self, config, proposals)
    }

    /// Suppression compares all proposals of a sentence with each other.
    fn longest_sentence(_config: &Config) -> usize {
        256
    }

    /// Lengths of the seeds, so that nearly every entity has a seed close enough for a positive example.
    fn suggest(corpus: &Stats) -> Vec<Suggestion> {
        let limit = corpus.length_covering(99.0);
        let suggestion = limit.map(|(words, percent)| Suggestion {
            setting: "windows".into(),
            value: seeds::windows_up_to(words).into(),
            reason: format!(
                "Seed spans have these lengths: {percent:.2} % of the entities have at most {words} words, and the \
                 boundaries of a seed are moved to those of an entity of similar length."
            ),
        });
        suggestion.into_iter().collect()
    }

    fn import(weights: &[u8]) -> Result<Imported> {
        import::import(weights)
    }

    fn from_released(
        weights: BTreeMap<String, HostArray>,
        settings: &ReleasedSettings,
    ) -> Result<ReleasedModel<Config>> {
        import::released(weights, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_suggested_seeds_follow_the_lengths_of_entities() {
        let windows = |lengths: &[(usize, usize)]| {
            let corpus = Stats {
                entities: lengths.iter().map(|(_, count)| count).sum(),
                lengths: BTreeMap::from_iter(lengths.iter().copied()),
                ..Stats::default()
            };
            let suggested = LocateLabel::suggest(&corpus);
            assert_eq!(suggested[0].setting, "windows");
            suggested[0].value.to_string()
        };
        assert_eq!(windows(&[(1, 90), (2, 10)]), "[1,2]");
        assert_eq!(windows(&[(1, 1)]), "[1,2]");
        assert_eq!(windows(&[(1, 995), (4, 5)]), "[1,2]");
        assert_eq!(windows(&[(1, 50), (10, 50)]), "[1,2,3,4,5,6,7,9,11]");
        assert!(LocateLabel::suggest(&Stats::default()).is_empty());
    }
}
