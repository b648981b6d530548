//! How well the scores of mentions agree with the share of correct ones.

use std::fmt;

use serde_json::{Value, json};

use crate::text::{Mention, Sentence, outermost};

/// Number of equal-width bins of the expected calibration error; 15 is the usual choice.
pub const BINS: usize = 15;

/// The score of a predicted mention, and whether the mention is correct.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredMention {
    /// Index of its sentence.
    pub sentence: usize,
    /// Its score, between 0 and 1.
    pub score: f32,
    /// True if its span and type equal those of a gold entity.
    pub correct: bool,
}

/// The scores of all mentions, one list of mentions per sentence. If the model is not `nested`, its mentions are compared
/// with the outermost gold entities.
pub fn scored_mentions(
    sentences: &[Sentence],
    mentions: &[Vec<Mention>],
    nested: bool,
) -> Vec<ScoredMention> {
    let mut scored = Vec::new();
    for (index, (sentence, mentions)) in sentences.iter().zip(mentions).enumerate() {
        let gold = if nested {
            sentence.entities.clone()
        } else {
            outermost(&sentence.entities)
        };
        scored.extend(mentions.iter().map(|mention| ScoredMention {
            sentence: index,
            // A head of another crate may give any score.
            score: if mention.score.is_nan() {
                0.0
            } else {
                mention.score.clamp(0.0, 1.0)
            },
            correct: gold.contains(&mention.entity),
        }));
    }
    scored
}

/// The mentions whose scores fall into one of [`BINS`] intervals of equal width.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// Number of mentions.
    pub count: u64,
    /// Number of correct mentions.
    pub correct: u64,
    /// Sum of their scores.
    pub score_sum: f64,
}

impl Bin {
    /// Mean score of the mentions; 0 without mentions.
    pub fn mean_score(&self) -> f64 {
        self.score_sum / self.count.max(1) as f64
    }

    /// Share of correct mentions; 0 without mentions.
    pub fn share_correct(&self) -> f64 {
        self.correct as f64 / self.count.max(1) as f64
    }

    /// The 95 % Wilson interval of the share of correct mentions; 0 to 1 without mentions.
    pub fn interval(&self) -> (f64, f64) {
        const Z: f64 = 1.959964;
        let count = self.count as f64;
        let share = self.share_correct();
        let centre = (self.correct as f64 + Z * Z / 2.0) / (count + Z * Z);
        let variance = count * share * (1.0 - share) + Z * Z / 4.0;
        let half_width = Z * variance.sqrt() / (count + Z * Z);
        (
            (centre - half_width).max(0.0),
            (centre + half_width).min(1.0),
        )
    }
}

/// The agreement of scores with the share of correct mentions, overall and by score.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reliability {
    /// The mentions by score: bin `i` has the scores from `i / BINS` to `(i + 1) / BINS`.
    pub bins: [Bin; BINS],
    /// Sum of the squared differences of score and correctness (1 or 0).
    squared_errors: f64,
}

impl Reliability {
    /// The reliability of these scores.
    pub fn of(scored: &[ScoredMention]) -> Self {
        let mut all = Self::default();
        for mention in scored {
            let score = f64::from(mention.score);
            let bin = &mut all.bins[((score * BINS as f64) as usize).min(BINS - 1)];
            bin.count += 1;
            bin.correct += u64::from(mention.correct);
            bin.score_sum += score;
            all.squared_errors += (score - f64::from(u8::from(mention.correct))).powi(2);
        }
        all
    }

    /// All mentions as one bin.
    pub fn total(&self) -> Bin {
        self.bins.iter().fold(Bin::default(), |sum, bin| Bin {
            count: sum.count + bin.count,
            correct: sum.correct + bin.correct,
            score_sum: sum.score_sum + bin.score_sum,
        })
    }

    /// The expected calibration error: the difference between mean score and share of correct mentions in each of
    /// [`BINS`] bins of equal width, averaged over the mentions. `None` without mentions.
    pub fn calibration_error(&self) -> Option<f64> {
        let gap = |bin: &Bin| (bin.score_sum - bin.correct as f64).abs();
        self.mean(self.bins.iter().map(gap).sum())
    }

    /// The Brier score: the mean squared difference of score and correctness (1 or 0). `None` without mentions.
    pub fn brier(&self) -> Option<f64> {
        self.mean(self.squared_errors)
    }

    fn mean(&self, sum: f64) -> Option<f64> {
        let count = self.total().count;
        (count > 0).then(|| sum / count as f64)
    }

    /// The measures and the bins with mentions as JSON.
    pub fn to_json(&self) -> Value {
        let bins = (self.bins.iter().enumerate()).filter(|(_, bin)| bin.count > 0);
        let bins = bins.map(|(index, bin)| {
            json!({
                "from": index as f64 / BINS as f64,
                "to": (index + 1) as f64 / BINS as f64,
                "mentions": bin.count,
                "mean_score": bin.mean_score(),
                "correct": bin.share_correct(),
            })
        });
        json!({
            "ece": self.calibration_error(),
            "brier": self.brier(),
            "mentions": self.total().count,
            "bins": bins.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        match self.calibration_error() {
            None => write!(
                f,
                "expected calibration error: none, as there are no mentions"
            ),
            Some(error) => write!(
                f,
                "expected calibration error: {:.2} % (mean score {:.2} %, correct {:.2} %, {} mentions)",
                100.0 * error,
                100.0 * total.mean_score(),
                100.0 * total.share_correct(),
                total.count
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Entity;

    fn scored(scores: &[(f32, bool)]) -> Vec<ScoredMention> {
        (scores.iter().enumerate())
            .map(|(sentence, &(score, correct))| ScoredMention {
                sentence,
                score,
                correct,
            })
            .collect()
    }

    #[test]
    fn the_measures_equal_those_made_by_hand() {
        let reliability = Reliability::of(&scored(&[
            (0.9, true),
            (0.92, false),
            (0.5, true),
            (1.0, true),
            (0.0, false),
        ]));
        // Bin 13 (0.867 to 0.933) has 0.9 and 0.92 with one correct, bin 7 has 0.5, bin 14 has 1.0, bin 0 has 0.0.
        let counts = reliability.bins.map(|bin| bin.count);
        assert_eq!(counts, [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 1]);
        // |1.82 - 1| + |0.5 - 1| + 0 + 0, over 5 mentions.
        assert!((reliability.calibration_error().unwrap() - 0.264).abs() < 1e-6);
        // 0.01 + 0.8464 + 0.25, over 5 mentions.
        assert!((reliability.brier().unwrap() - 0.22128).abs() < 1e-6);
        let line =
            "expected calibration error: 26.40 % (mean score 66.40 %, correct 60.00 %, 5 mentions)";
        assert_eq!(reliability.to_string(), line);
        let json = reliability.to_json();
        assert_eq!(json["mentions"], 5);
        assert_eq!(json["bins"].as_array().unwrap().len(), 4);
        assert_eq!(json["bins"][2]["correct"], 0.5);
    }

    #[test]
    fn without_mentions_there_is_no_error() {
        let reliability = Reliability::of(&[]);
        assert_eq!(reliability.calibration_error(), None);
        assert_eq!(reliability.brier(), None);
        assert!(reliability.to_json()["ece"].is_null());
        assert!(reliability.to_string().contains("no mentions"));
    }

    #[test]
    fn intervals_are_wilson_intervals() {
        let interval = |correct, count| {
            let bin = Bin {
                count,
                correct,
                score_sum: 0.0,
            };
            let (low, high) = bin.interval();
            [low, high].map(|bound| (bound * 1e4).round() / 1e4)
        };
        assert_eq!(interval(8, 10), [0.4902, 0.9433]);
        assert_eq!(interval(1, 1), [0.2065, 1.0]);
        assert_eq!(interval(0, 0), [0.0, 1.0]);
    }

    #[test]
    fn a_flat_model_is_compared_with_outermost_entities() {
        let mut sentence = Sentence::from_words(["a", "b", "c"]);
        sentence.entities = vec![Entity::new(0, 2, "X"), Entity::new(1, 2, "X")];
        let mention = |start, end, label: &str, score| Mention {
            entity: Entity::new(start, end, label),
            score,
        };
        let mentions = [vec![
            mention(0, 2, "X", 0.5),
            mention(1, 2, "X", 1.5),
            mention(0, 2, "Y", f32::NAN),
        ]];
        let of = |nested| -> Vec<(f32, bool)> {
            let scored = scored_mentions(std::slice::from_ref(&sentence), &mentions, nested);
            scored.iter().map(|one| (one.score, one.correct)).collect()
        };
        assert_eq!(of(true), [(0.5, true), (1.0, true), (0.0, false)]);
        assert_eq!(of(false), [(0.5, true), (1.0, false), (0.0, false)]);
    }
}
