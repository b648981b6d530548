//! Locate and Label: a two-stage identifier (Shen et al., 2021).
//!
//! Spans of a few lengths, the seeds, are looked at as a detector looks at boxes of an image: a filter throws away most
//! of them, a regressor moves the boundaries of the others, and a classifier labels what they have become. An entity
//! need not be among the seeds to be found.
//!
//! * (1, 2, 3) p_filter = σ(MLP([max(h_s..h_e); h_s; h_e])).
//! * (4, 5) offsets t = MLP([max(h_s..h_e); h_{s−1}; h_{e+1}]).
//! * (6, 7) s̃ = max(0, s + ⌊tˡ + ½⌋), ẽ = min(N − 1, e + ⌊tʳ + ½⌋).
//! * (8, 9, 10) p = softmax(MLP([max(h_s̃..h_ẽ); h_s̃; h_ẽ])).
//! * (11) an example weighs IoU^η when it is close to its entity, (1 − IoU)^η when it is not.
//! * (12) focal loss of the filter; (14) smooth L1 of the offsets; (15) 1 − overlap; (16) cross-entropy of the classes.
//! * (18) Soft-NMS: of two proposals that share much the lesser score is lowered; what stays above δ is a mention.
//!
//! The authors' program differs from their text in most of these; the preset `released` follows it, knob by knob
//! (see [`Config`]). Word states come from the encoder; the paper's word vectors, parts of speech, characters and BiLSTM
//! are [features](crate::encoder::features) that every head can have.
//!
//! Nothing of size spans · words · width is ever made: maxima of moved spans come from a sparse table, and at
//! prediction words go through the first layers once, not once a span.

mod config;
mod decode;
pub mod import;
mod loss;
mod network;
mod seeds;
mod suppress;
mod target;

pub use config::{
    Averaging, ClassifierLoss, Config, Crossing, Duplicates, FilterScores, Illegal, Offsets,
    Rounding, SoftNms, Weighting,
};
pub use decode::candidates;
pub use network::{Borders, LocateLabel, Scorer, View};
pub use seeds::{iou, prediction_seeds, training_seeds};
pub use suppress::{Candidate, suppress};
pub use target::{Gold, Pair, Sample};

use burn::tensor::Device;

use super::{Head, Imported, Losses};
use crate::encoder::WordStates;
use crate::error::Result;
use crate::text::{Labels, Mention, Sentence};

impl Head for LocateLabel {
    type Config = Config;
    type Gold = Gold;

    fn name() -> String {
        "locate_label".into()
    }

    fn init(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        LocateLabel::new(config, width, labels, device)
    }

    fn nested(&self) -> bool {
        true
    }

    fn gold(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Gold {
        Gold::new(config, labels, sentences, seed)
    }

    fn loss(&self, states: &WordStates, gold: &Gold) -> Losses {
        loss::loss(self, states, gold)
    }

    fn decode(&self, states: &WordStates) -> Vec<Vec<Mention>> {
        decode::decode(self, states)
    }

    fn import(weights: &[u8]) -> Result<Imported> {
        import::import(weights)
    }
}
