//! Settings of SeqNER.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tag_set::TagSet;
use crate::error::{Error, Result};
use crate::heads::settings::{Preset, Settings, below_one, finite};
use crate::nn::activation::Activation;

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

/// The layers between word states and the tagger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// None, as in the paper.
    #[default]
    None,
    /// A linear layer of the same width, exact GELU and a layer norm.
    Gelu,
    /// The same with the tanh approximation of GELU.
    GeluNew,
    /// The same with a rectified linear unit.
    Relu,
    /// The same with a hyperbolic tangent.
    Tanh,
}

impl Transform {
    /// The activation, if there are such layers.
    pub fn activation(self) -> Option<Activation> {
        match self {
            Self::None => None,
            Self::Gelu => Some(Activation::Gelu),
            Self::GeluNew => Some(Activation::GeluNew),
            Self::Relu => Some(Activation::Relu),
            Self::Tanh => Some(Activation::Tanh),
        }
    }

    /// The layers with an activation.
    pub fn with(activation: Activation) -> Self {
        match activation {
            Activation::Gelu => Self::Gelu,
            Activation::GeluNew => Self::GeluNew,
            Activation::Relu => Self::Relu,
            Activation::Tanh => Self::Tanh,
        }
    }
}

/// All settings of SeqNER; the defaults are those of the paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How tags are chosen: the most probable tag of each word (softmax) or the best sequence (crf).
    pub decoder: Decoder,
    /// Whether entities have the tags B and I (bio), as in the paper, or also E for the last and S for a single word (bioes).
    pub tags: TagSet,
    /// Whether an I tag that continues no entity starts one (lenient) or is dropped (strict).
    #[schemars(extend("inference" = true, "tune" = ["lenient", "strict"]))]
    pub combiner: Combiner,
    /// Added to the score of the tag O in prediction: above 0 gives fewer mentions, below 0 more.
    #[schemars(extend("inference" = true, "tune_range" = [-3.0, 3.0, 0.25]))]
    pub none_bias: f64,
    /// Dropout on word states before the tagger.
    pub dropout: f64,
    /// A linear layer, this activation and a layer norm before the tagger, as in ModernBERT's; none in the paper.
    pub transform: Transform,
    /// Epsilon of that layer norm.
    pub transform_epsilon: f64,
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
            tags: TagSet::Bio,
            combiner: Combiner::Lenient,
            none_bias: 0.0,
            dropout: 0.1,
            transform: Transform::None,
            transform_epsilon: 1e-5,
            word_dropout: 0.0,
        }
    }

    fn check(&self) -> Result<()> {
        finite("none_bias", self.none_bias)?;
        below_one("dropout", self.dropout)?;
        if !(1e-12..=0.1).contains(&self.transform_epsilon) {
            return Err(Error::Config(format!(
                "transform_epsilon = {} must be between 1e-12 and 0.1",
                self.transform_epsilon
            )));
        }
        below_one("word_dropout", self.word_dropout)
    }
}
