//! The knobs of Locate and Label. Two presets fill what a recipe leaves out.

use serde::{Deserialize, Serialize};

pub use crate::heads::preset::Preset;
use crate::heads::preset::with_presets;

/// How the filter's scores become a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterScores {
    /// One score, equation (3).
    Sigmoid,
    /// Two scores: nothing, and a proposal.
    Softmax,
}

/// What the regressor's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Offsets {
    /// Offsets of either sign, equation (5).
    Linear,
    /// Shares of the sentence's length: a boundary can only move to the right.
    Sigmoid,
}

/// How an offset becomes a number of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// ⌊t + ½⌋, equations (6) and (7).
    HalfUp,
    /// To the nearest, halves to the even one.
    HalfEven,
}

/// What becomes of a span that was moved out of the sentence, or whose end was moved before its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Illegal {
    /// Its boundaries are kept inside the sentence; where nothing is left of it, it stays as it was.
    Clamp,
    /// It is no proposal any more.
    Drop,
}

/// The classifier's loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierLoss {
    /// Equation (16).
    CrossEntropy,
    /// The filter's focal loss.
    Focal,
}

/// What the weights of soft examples weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// Each its own example, equations (12) and (16).
    Sample,
    /// The mean weight weighs the sum over the batch, rows of padding and illegal spans included.
    Batch,
}

/// What the sums over examples are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Averaging {
    /// All by the number of examples in the batch: the equations, but for one factor.
    Samples,
    /// Each by the number of examples it looks at.
    Terms,
    /// Nothing.
    Sum,
}

/// What becomes of proposals that end up on one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Each type counts once, with its best score.
    Merge,
    /// The first one's type counts, its score times the number of those that agree.
    Multiply,
}

/// What becomes of two proposals that share words, neither inside the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Crossing {
    /// Both stay.
    Keep,
    /// Both go.
    Drop,
}

/// How overlapping proposals lower each other's scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SoftNms {
    /// Algorithm 1: the best of the rest each time.
    Paper,
    /// The authors' list, which is not always put back into order.
    Released,
    /// Not at all.
    Off,
}

/// Every knob of Locate and Label. Where the paper and the authors' program differ, `preset` chooses and the knob
/// overrides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// `paper` or `released`: where the defaults of the knobs below come from.
    pub preset: Preset,
    /// Lengths of the seed spans in words, rising.
    pub windows: Vec<usize>,
    /// Seeds that would reach over the sentence's end are cut there instead of left out (released).
    pub cut_seeds: bool,
    /// Prediction takes seeds of every length up to the longest window (released).
    pub all_lengths: bool,
    /// α₁: a seed whose best IoU with an entity is above it is a positive example.
    pub positive_iou: f64,
    /// α₂: a moved span has its entity's type from this IoU on.
    pub match_iou: f64,
    /// η: the weights of soft examples are IoU^η; 0 makes all examples hard.
    pub eta: f64,
    /// η also in the weights of the filter's examples (paper); there it is always 1 in the authors' program.
    pub eta_in_filter: bool,
    /// Negative examples for each positive one.
    pub negatives: usize,
    /// Negative examples of every sentence besides: those of sentences without entities.
    pub extra_negatives: usize,
    /// Entities that no seed equals are examples of their own (released).
    pub append_gold: bool,
    /// Negative examples, too, are paired with their nearest entity, and may be moved onto it (paper).
    pub pair_negatives: bool,
    /// Ask the filter which seeds are proposals.
    pub filter: bool,
    /// `sigmoid` (paper) or `softmax` (released).
    pub filter_scores: FilterScores,
    /// A seed is a proposal when p(nothing) < this · p(proposal): 1 (paper), 5 (released).
    pub filter_ratio: f64,
    /// Let the regressor move the boundaries.
    pub regressor: bool,
    /// `linear` (paper) or `sigmoid` (released).
    pub offsets: Offsets,
    /// `half_up` (paper) or `half_even` (released).
    pub rounding: Rounding,
    /// `clamp` (paper) or `drop` (released).
    pub illegal: Illegal,
    /// Describe every span also by the sentence's first piece, `[CLS]` (released, on two corpora).
    pub sentence_context: bool,
    /// Dropout on what describes a span.
    pub dropout: f64,
    /// γ of the focal loss.
    pub gamma: f64,
    /// `cross_entropy` (paper) or `focal` (released).
    pub classifier_loss: ClassifierLoss,
    /// `sample` (paper) or `batch` (released).
    pub weighting: Weighting,
    /// `samples` (paper), `terms` (released) or `sum`.
    pub averaging: Averaging,
    /// The weights of soft examples also weigh the loss of offsets (released).
    pub weigh_offsets: bool,
    /// λ₁.
    pub filter_weight: f64,
    /// λ₂, of offsets and overlap together: 0.1 (paper), 1 (released).
    pub regressor_weight: f64,
    /// λ₃.
    pub classifier_weight: f64,
    /// `merge` (paper) or `multiply` (released).
    pub duplicates: Duplicates,
    /// `keep` (paper) or `drop` (released).
    pub crossing: Crossing,
    /// `paper`, `released` or `off`.
    pub soft_nms: SoftNms,
    /// u: what a score is multiplied with for each better proposal that overlaps.
    pub decay: f64,
    /// k: the IoU from which on two proposals overlap in this sense.
    pub suppression_iou: f64,
    /// δ: the score above which a proposal is a mention.
    pub threshold: f64,
}

impl Config {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> Self {
        let released = preset == Preset::Released;
        let choose = |one: Vec<usize>, other: Vec<usize>| if released { other } else { one };
        Self {
            preset,
            windows: choose(
                vec![1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15],
                vec![1, 2, 3, 4, 5, 7, 9, 11, 13, 15],
            ),
            cut_seeds: released,
            all_lengths: released,
            positive_iou: 0.7,
            match_iou: 1.0,
            eta: 1.0,
            eta_in_filter: !released,
            negatives: 5,
            extra_negatives: 2,
            append_gold: released,
            pair_negatives: !released,
            filter: true,
            filter_scores: match preset {
                Preset::Paper => FilterScores::Sigmoid,
                Preset::Released => FilterScores::Softmax,
            },
            filter_ratio: if released { 5.0 } else { 1.0 },
            regressor: true,
            offsets: match preset {
                Preset::Paper => Offsets::Linear,
                Preset::Released => Offsets::Sigmoid,
            },
            rounding: match preset {
                Preset::Paper => Rounding::HalfUp,
                Preset::Released => Rounding::HalfEven,
            },
            illegal: match preset {
                Preset::Paper => Illegal::Clamp,
                Preset::Released => Illegal::Drop,
            },
            sentence_context: released,
            dropout: 0.5,
            gamma: 2.0,
            classifier_loss: match preset {
                Preset::Paper => ClassifierLoss::CrossEntropy,
                Preset::Released => ClassifierLoss::Focal,
            },
            weighting: match preset {
                Preset::Paper => Weighting::Sample,
                Preset::Released => Weighting::Batch,
            },
            averaging: match preset {
                Preset::Paper => Averaging::Samples,
                Preset::Released => Averaging::Terms,
            },
            weigh_offsets: released,
            filter_weight: 1.0,
            regressor_weight: if released { 1.0 } else { 0.1 },
            classifier_weight: 1.0,
            duplicates: match preset {
                Preset::Paper => Duplicates::Merge,
                Preset::Released => Duplicates::Multiply,
            },
            crossing: match preset {
                Preset::Paper => Crossing::Keep,
                Preset::Released => Crossing::Drop,
            },
            soft_nms: match preset {
                Preset::Paper => SoftNms::Paper,
                Preset::Released => SoftNms::Released,
            },
            decay: 0.9,
            suppression_iou: 0.6,
            threshold: 0.5,
        }
    }

    fn checked(self) -> Result<Self, String> {
        let rising = self.windows.windows(2).all(|pair| pair[0] < pair[1]);
        if self.windows.first().is_none_or(|first| *first == 0) || !rising {
            return Err(
                "windows are lengths of at least one word, each longer than the one before".into(),
            );
        }
        let shares = [
            ("positive_iou", self.positive_iou),
            ("match_iou", self.match_iou),
            ("decay", self.decay),
            ("suppression_iou", self.suppression_iou),
            ("threshold", self.threshold),
        ];
        if let Some((name, share)) = shares.iter().find(|(_, s)| !(0.0..=1.0).contains(s)) {
            return Err(format!("{name} = {share} is not between 0 and 1"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(format!("dropout = {} is not in 0..1", self.dropout));
        }
        let amounts = [
            ("eta", self.eta),
            ("gamma", self.gamma),
            ("filter_ratio", self.filter_ratio),
            ("filter_weight", self.filter_weight),
            ("regressor_weight", self.regressor_weight),
            ("classifier_weight", self.classifier_weight),
        ];
        match amounts.iter().find(|(_, a)| !(0.0..1e6).contains(a)) {
            Some((name, amount)) => Err(format!("{name} = {amount} is not a number from 0 up")),
            None => Ok(self),
        }
    }
}

with_presets!(Config);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_fills_what_is_not_given() {
        let read = |text: &str| toml::from_str::<Config>(text);
        assert_eq!(read("").unwrap(), Config::of(Preset::Paper));
        let released = read("preset = \"released\"\nwindows = [1, 4]\nregressor = false").unwrap();
        assert_eq!(
            released,
            Config {
                windows: vec![1, 4],
                regressor: false,
                ..Config::of(Preset::Released)
            }
        );
        let written = toml::to_string(&released).unwrap();
        assert_eq!(read(&written).unwrap(), released);
        let problem = read("window = [1]").unwrap_err().to_string();
        assert!(problem.contains("unknown field `window`"), "{problem}");
        for wrong in [
            "windows = []",
            "windows = [0, 1]",
            "windows = [2, 2]",
            "threshold = 1.5",
            "dropout = 1.0",
            "eta = -1.0",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
