//! Settings of SpanNER.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::heads::settings::{Preset, Settings, at_least_one, below_one};

/// Which vectors represent a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Representation {
    /// The states of its first and last word.
    Boundary,
    /// The maximum over its words, and the sentence's state.
    Pooling,
    /// Both.
    #[default]
    Hybrid,
}

/// Whether mentions may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Nesting {
    /// All mentions are kept.
    #[default]
    Nested,
    /// Of overlapping mentions only the most probable is kept.
    Flat,
}

/// All settings of SpanNER; the defaults are those of the paper except for `output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// ε, the length of the longest span in words; longer entities cannot be found (`data check` counts them).
    pub longest: usize,
    /// Which vectors represent a span: its border words (boundary), maximum and sentence (pooling), or both (hybrid).
    pub representation: Representation,
    /// Width of the length embedding.
    pub length_width: usize,
    /// Random non-entity spans per sentence in training.
    pub negatives: usize,
    /// Dropout on the span representation.
    pub dropout: f64,
    /// Whether overlapping mentions are kept (nested) or only the most probable of them (flat, as in the paper).
    #[schemars(extend("inference" = true))]
    pub output: Nesting,
}

impl Settings for Config {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper]
    }

    fn of(_: Preset) -> Self {
        Self {
            longest: 10,
            representation: Representation::Hybrid,
            length_width: 25,
            negatives: 100,
            dropout: 0.1,
            output: Nesting::Nested,
        }
    }

    fn check(&self) -> Result<()> {
        at_least_one("longest", self.longest)?;
        at_least_one("length_width", self.length_width)?;
        below_one("dropout", self.dropout)
    }
}
