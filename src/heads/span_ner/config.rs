//! Settings of SpanNER.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::heads::Overlaps;
use crate::heads::settings::{
    MOST_WIDTH, Preset, Renamed, Settings, at_least_one, at_most, below_one, finite,
};

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

/// All settings of SpanNER; the defaults are those of the paper, whose corpora are all flat.
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
    /// Added to the score of the class none in prediction: above 0 gives fewer mentions, below 0 more.
    #[schemars(extend("inference" = true, "tune_range" = [-3.0, 3.0, 0.25]))]
    pub none_bias: f64,
    /// Which mentions may overlap: as in the training data (auto), none (flat), nested ones (nested) or any.
    #[schemars(extend("inference" = true, "tune" = ["nested", "any"]))]
    pub overlaps: Overlaps,
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
            none_bias: 0.0,
            overlaps: Overlaps::Auto,
        }
    }

    fn check(&self) -> Result<()> {
        at_least_one("longest", self.longest)?;
        at_least_one("length_width", self.length_width)?;
        at_most("length_width", self.length_width, MOST_WIDTH)?;
        finite("none_bias", self.none_bias)?;
        below_one("dropout", self.dropout)
    }

    fn resolve_overlaps(&mut self, corpus: Overlaps) {
        self.overlaps = self.overlaps.or(corpus);
    }

    fn renamed() -> &'static [Renamed] {
        &[Renamed::Key {
            old: "output",
            new: "overlaps",
        }]
    }
}
