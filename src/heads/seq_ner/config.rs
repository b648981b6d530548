//! The knobs of SeqNER.

use serde::{Deserialize, Serialize};

/// How tags are chosen from emissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decoder {
    /// Each word by itself.
    #[default]
    Softmax,
    /// The best sequence under learned transitions.
    Crf,
}

/// What an I tag means that continues nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combiner {
    /// It opens an entity.
    #[default]
    Lenient,
    /// It is dropped.
    Strict,
}

/// Every knob of SeqNER; the defaults are the paper's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `softmax` (paper's default) or `crf`.
    pub decoder: Decoder,
    /// `lenient` or `strict`.
    pub combiner: Combiner,
    /// Dropout on each number of a word's state before the tagger.
    pub dropout: f64,
    /// Probability of blanking a whole word's state in training; not in the paper.
    pub word_dropout: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            decoder: Decoder::Softmax,
            combiner: Combiner::Lenient,
            dropout: 0.1,
            word_dropout: 0.0,
        }
    }
}
