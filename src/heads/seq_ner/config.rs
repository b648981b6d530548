//! Settings of SeqNER.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::heads::settings::{Preset, Settings, below_one, finite};

/// How tags are chosen from emission scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Decoder {
    /// The most probable tag of each word, independently of the others.
    #[default]
    Softmax,
    /// The best sequence of tags under learned transition scores.
    Crf,
}

/// How an I tag that continues no entity is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Combiner {
    /// It starts an entity.
    #[default]
    Lenient,
    /// It is dropped.
    Strict,
}

/// All settings of SeqNER; the defaults are those of the paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How tags are chosen: the most probable tag of each word (softmax) or the best sequence (crf).
    pub decoder: Decoder,
    /// Whether an I tag that continues no entity starts one (lenient) or is dropped (strict).
    #[schemars(extend("inference" = true, "tune" = ["lenient", "strict"]))]
    pub combiner: Combiner,
    /// Added to the score of the tag O in prediction: above 0 gives fewer mentions, below 0 more.
    #[schemars(extend("inference" = true, "tune_range" = [-3.0, 3.0, 0.25]))]
    pub none_bias: f64,
    /// Dropout on word states before the tagger.
    pub dropout: f64,
    /// Probability of zeroing the whole state of a word in training; not in the paper.
    pub word_dropout: f64,
}

impl Settings for Config {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper]
    }

    fn of(_: Preset) -> Self {
        Self {
            decoder: Decoder::Softmax,
            combiner: Combiner::Lenient,
            none_bias: 0.0,
            dropout: 0.1,
            word_dropout: 0.0,
        }
    }

    fn check(&self) -> Result<()> {
        finite("none_bias", self.none_bias)?;
        below_one("dropout", self.dropout)?;
        below_one("word_dropout", self.word_dropout)
    }
}
