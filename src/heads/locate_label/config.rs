//! Settings of Locate and Label, with one preset for the paper and one for the authors' code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::heads::Overlaps;
use crate::heads::settings::{Preset, Settings, below_one, not_negative, up_to_one};

/// How the filter's scores become a probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilterScores {
    /// Sigmoid of one score, equation (3).
    Sigmoid,
    /// Softmax of two scores: none, and proposal.
    Softmax,
}

/// How the regressor's outputs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffsetOutput {
    /// As offsets of either sign, equation (5).
    Linear,
    /// As fractions of the sentence's length: a boundary can only move to the right.
    Sigmoid,
}

/// How an offset is rounded to whole words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// ⌊t + ½⌋, equations (6) and (7).
    HalfUp,
    /// To the nearest integer, halves to the even one.
    HalfEven,
}

/// How to treat a span that was moved out of the sentence, or whose end was moved before its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Illegal {
    /// Clamp its boundaries to the sentence; if it is then empty, leave it unmoved.
    Clamp,
    /// Drop it from the proposals.
    Drop,
}

/// The loss of the classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierLoss {
    /// Cross-entropy, equation (16).
    CrossEntropy,
    /// The focal loss of the filter.
    Focal,
}

/// How the weights of soft examples are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// Each with the loss of its own example, equations (12) and (16).
    Sample,
    /// The mean weight times the summed loss of the batch, padding rows and illegal spans included.
    Batch,
}

/// The divisor of the sums over examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Averaging {
    /// The number of examples in the batch, for all terms: the equations up to a factor.
    Samples,
    /// For each term, the number of examples in it.
    Terms,
    /// None.
    Sum,
}

/// How proposals with the same span are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Duplicates {
    /// Each type is kept once, with its best score.
    Merge,
    /// The type of the first is kept, with its score times the number of proposals of that type.
    Multiply,
}

/// How to treat two proposals that overlap without one containing the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Crossing {
    /// Keep both.
    Keep,
    /// Drop both.
    Drop,
}

/// How overlapping proposals lower each other's scores (Soft-NMS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SoftNms {
    /// Algorithm 1: always continue with the best remaining proposal.
    Paper,
    /// As in the authors' code, where the list is not always sorted again after a score changes.
    Released,
    /// Not at all.
    Off,
}

/// All settings of Locate and Label. Where the paper and the authors' code differ, `preset` selects the defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whether defaults follow the paper or the program released by its authors.
    pub preset: Preset,
    /// Lengths of the seed spans in words, ascending.
    #[schemars(extend("inference" = true))]
    pub windows: Vec<usize>,
    /// In training, cut seeds at the end of the sentence instead of leaving them out.
    pub cut_seeds: bool,
    /// In prediction, use seeds of every length up to the longest window.
    #[schemars(extend("inference" = true))]
    pub all_lengths: bool,
    /// α₁: a seed is a positive example if its best IoU with an entity is above this.
    pub positive_iou: f64,
    /// α₂: a moved span is labelled with its entity's type from this IoU on.
    pub match_iou: f64,
    /// η: soft examples weigh IoU^η; 0 gives all examples weight 1.
    pub eta: f64,
    /// Apply η to the weights of the filter's examples too; otherwise it is 1 there.
    pub eta_in_filter: bool,
    /// Negative examples per positive one.
    pub negatives: usize,
    /// Further negative examples per sentence; the only ones in sentences without entities.
    pub extra_negatives: usize,
    /// Add entities that no seed equals as examples.
    pub append_gold: bool,
    /// Pair negative examples with their nearest entity too, so that they may be moved onto it.
    pub pair_negatives: bool,
    /// Use the filter, which selects proposals among the seeds.
    pub filter: bool,
    /// Whether the filter has one score (sigmoid) or two (softmax).
    pub filter_scores: FilterScores,
    /// A seed is a proposal if p(none) < this · p(proposal).
    #[schemars(extend("inference" = true))]
    pub filter_ratio: f64,
    /// Use the regressor, which moves the boundaries of proposals.
    pub regressor: bool,
    /// Whether the regressor predicts offsets (linear) or fractions of the sentence's length (sigmoid).
    pub offsets: OffsetOutput,
    /// How offsets are rounded to whole words.
    #[schemars(extend("inference" = true))]
    pub rounding: Rounding,
    /// Whether spans moved to an impossible position are clamped to the sentence or dropped.
    #[schemars(extend("inference" = true))]
    pub illegal: Illegal,
    /// Add the state of `[CLS]` to the representation of every span (released: on two corpora).
    pub sentence_context: bool,
    /// Dropout on the representation of a span.
    pub dropout: f64,
    /// γ of the focal loss.
    pub gamma: f64,
    /// The loss of the classifier.
    pub classifier_loss: ClassifierLoss,
    /// Whether the weight of a soft example applies to itself (sample) or as a mean to the whole batch (batch).
    pub weighting: Weighting,
    /// Whether sums are divided by all examples (samples), by those in each term (terms), or not at all (sum).
    pub averaging: Averaging,
    /// Apply the weights of soft examples to the offset loss too.
    pub weigh_offsets: bool,
    /// λ₁, the weight of the filter loss.
    pub filter_weight: f64,
    /// λ₂, the weight of the offset loss and of the overlap loss.
    pub regressor_weight: f64,
    /// λ₃, the weight of the classifier loss.
    pub classifier_weight: f64,
    /// How proposals with the same span are combined.
    #[schemars(extend("inference" = true))]
    pub duplicates: Duplicates,
    /// Whether proposals that cross each other are both kept or both dropped.
    #[schemars(extend("inference" = true))]
    pub crossing: Crossing,
    /// Which Soft-NMS lowers the scores of overlapping proposals.
    #[schemars(extend("inference" = true))]
    pub soft_nms: SoftNms,
    /// u: the factor on a score for each better proposal that overlaps.
    #[schemars(extend("inference" = true, "tune_range" = [0.4, 1.0, 0.1]))]
    pub decay: f64,
    /// k: the IoU from which Soft-NMS treats two proposals as overlapping.
    #[schemars(extend("inference" = true, "tune_range" = [0.3, 0.9, 0.1]))]
    pub suppression_iou: f64,
    /// δ: a proposal with a score above this is a mention.
    #[schemars(extend("inference" = true, "score_scale" = 1.0, "tune_range" = [0.05, 0.975, 0.025]))]
    pub threshold: f64,
    /// Of mentions with the same words, keep only the one with the most probable type.
    #[schemars(extend("inference" = true, "tune" = [false, true]))]
    pub one_type: bool,
    /// Which mentions may overlap: as in the training data (auto), none (flat), nested ones (nested) or any.
    #[schemars(extend("inference" = true, "tune" = ["nested", "any"]))]
    pub overlaps: Overlaps,
}

impl Settings for Config {
    fn presets() -> &'static [Preset] {
        &[Preset::Paper, Preset::Released]
    }

    fn of(preset: Preset) -> Self {
        let released = preset == Preset::Released;
        Self {
            preset,
            windows: match preset {
                Preset::Paper => vec![1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15],
                Preset::Released => vec![1, 2, 3, 4, 5, 7, 9, 11, 13, 15],
            },
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
                Preset::Paper => OffsetOutput::Linear,
                Preset::Released => OffsetOutput::Sigmoid,
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
            one_type: false,
            overlaps: Overlaps::Any,
        }
    }

    fn check(&self) -> Result<()> {
        let ascending = self.windows.windows(2).all(|pair| pair[0] < pair[1]);
        if self.windows.first().is_none_or(|first| *first == 0) || !ascending {
            return Err(Error::Config(
                "windows must be lengths of at least one word in ascending order".into(),
            ));
        }
        up_to_one("positive_iou", self.positive_iou)?;
        up_to_one("match_iou", self.match_iou)?;
        up_to_one("decay", self.decay)?;
        up_to_one("suppression_iou", self.suppression_iou)?;
        up_to_one("threshold", self.threshold)?;
        below_one("dropout", self.dropout)?;
        not_negative("eta", self.eta)?;
        not_negative("gamma", self.gamma)?;
        not_negative("filter_ratio", self.filter_ratio)?;
        not_negative("filter_weight", self.filter_weight)?;
        not_negative("regressor_weight", self.regressor_weight)?;
        not_negative("classifier_weight", self.classifier_weight)
    }

    fn resolve_overlaps(&mut self, corpus: Overlaps) {
        self.overlaps = self.overlaps.or(corpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings;

    #[test]
    fn missing_settings_come_from_the_preset() {
        let read = |text: &str| settings::read::<Config>(toml::from_str(text).unwrap());
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
