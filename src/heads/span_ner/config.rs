//! The knobs of SpanNER.

use serde::{Deserialize, Serialize};

/// What a span is described by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Representation {
    /// Its two border words.
    Boundary,
    /// The maximum over its words, and the sentence.
    Pooling,
    /// All of these.
    #[default]
    Hybrid,
}

/// What becomes of overlapping mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// They stay.
    #[default]
    Nested,
    /// The most probable of them stays.
    Flat,
}

/// Every knob of SpanNER; the defaults are the paper's but for `output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// ε, the longest span in words. Longer entities cannot be found; `data check` says how many there are.
    pub longest: usize,
    /// `boundary`, `pooling` or `hybrid`.
    pub representation: Representation,
    /// Width of the length embedding.
    pub length_width: usize,
    /// Random spans a sentence that training sees beside the gold ones.
    pub negatives: usize,
    /// Dropout on the span representation.
    pub dropout: f64,
    /// `nested` (ours) or `flat` (the paper's corpora).
    pub output: Output,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            longest: 10,
            representation: Representation::Hybrid,
            length_width: 25,
            negatives: 100,
            dropout: 0.1,
            output: Output::Nested,
        }
    }
}
