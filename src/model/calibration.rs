//! Calibration: a monotone map from a mention's score to the probability that the mention is correct.
//!
//! A head's own scores order its mentions, but a score of 0.9 may be right in 70 or in 99 of 100 cases. The map is fitted
//! on dev sentences after training (`eval::calibration`), saved in `config.json`, and applied to the scores of mentions
//! after decoding. It never changes which mentions a model outputs, nor their order by score.

use serde::{Deserialize, Serialize};

use crate::text::Mention;

/// Maximum number of knots of an isotonic calibration.
pub const MAX_KNOTS: usize = 50;

/// Scores are clamped to `CLAMP..=1 - CLAMP` before their logit is taken.
pub const CLAMP: f64 = 1e-6;

/// A monotone map from a mention's score to the probability that the mention is correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case", deny_unknown_fields)]
pub enum Calibration {
    /// Temperature scaling: `sigmoid(logit(score) / temperature)`.
    Temperature {
        /// Above 1 for a model that is too confident, below 1 for one that is not confident enough.
        temperature: f64,
    },
    /// Platt scaling: `sigmoid(logit(score) / temperature + bias)`.
    Platt {
        /// As in temperature scaling.
        temperature: f64,
        /// Added to the logit.
        bias: f64,
    },
    /// Isotonic regression: linear interpolation between knots.
    Isotonic {
        /// Pairs of a score and its probability. Both increase strictly; the scores go from 0 to 1.
        knots: Vec<[f64; 2]>,
    },
}

impl Calibration {
    /// The name of the method, as in `config.json`.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Temperature { .. } => "temperature",
            Self::Platt { .. } => "platt",
            Self::Isotonic { .. } => "isotonic",
        }
    }

    /// The calibrated score.
    ///
    /// ```
    /// use nerzoo::model::calibration::Calibration;
    ///
    /// let calibration = Calibration::Temperature { temperature: 2.0 };
    /// // The odds 9 to 1 become 3 to 1.
    /// assert!((calibration.apply(0.9) - 0.75).abs() < 1e-6);
    /// ```
    pub fn apply(&self, score: f32) -> f32 {
        let score = f64::from(score);
        let probability = match self {
            Self::Temperature { temperature } => sigmoid(logit(score) / temperature),
            Self::Platt { temperature, bias } => sigmoid(logit(score) / temperature + bias),
            Self::Isotonic { knots } => interpolate(knots, score.clamp(0.0, 1.0)),
        };
        probability as f32
    }

    /// Replaces the scores of the mentions by calibrated ones.
    pub fn apply_to(&self, mentions: &mut [Mention]) {
        for mention in mentions {
            mention.score = self.apply(mention.score);
        }
    }

    /// Describes what is wrong with the values, which may come from a file.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Temperature { temperature } => check_temperature(*temperature),
            Self::Platt { temperature, bias } => {
                check_temperature(*temperature)?;
                if bias.is_finite() {
                    Ok(())
                } else {
                    Err(format!("bias is {bias}, but must be a finite number"))
                }
            }
            Self::Isotonic { knots } => check_knots(knots),
        }
    }
}

/// The logarithm of the odds of a clamped probability.
pub fn logit(probability: f64) -> f64 {
    let probability = probability.clamp(CLAMP, 1.0 - CLAMP);
    (probability / (1.0 - probability)).ln()
}

/// The inverse of [`logit`].
pub fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The value at `score` on the lines between the knots. Without two knots around it, the score itself.
fn interpolate(knots: &[[f64; 2]], score: f64) -> f64 {
    let next = knots.partition_point(|[x, _]| *x < score).max(1);
    let (Some([left, low]), Some([right, high])) = (knots.get(next - 1), knots.get(next)) else {
        return score;
    };
    low + (high - low) * (score - left) / (right - left)
}

fn check_temperature(temperature: f64) -> Result<(), String> {
    if temperature.is_finite() && temperature > 0.0 {
        Ok(())
    } else {
        Err(format!(
            "temperature is {temperature}, but must be a finite number above 0"
        ))
    }
}

fn check_knots(knots: &[[f64; 2]]) -> Result<(), String> {
    let count = knots.len();
    if !(2..=MAX_KNOTS).contains(&count) {
        return Err(format!("has {count} knots, but needs 2 to {MAX_KNOTS}"));
    }
    if knots[0][0] != 0.0 || knots[count - 1][0] != 1.0 {
        return Err("the scores of the knots must go from 0 to 1".into());
    }
    let is_probability = |value: &f64| (0.0..=1.0).contains(value);
    if !knots.iter().flatten().all(is_probability) {
        return Err("a knot has a value that is not between 0 and 1".into());
    }
    let increases = |pair: &[[f64; 2]]| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1];
    if !knots.windows(2).all(increases) {
        return Err("scores and probabilities must increase from knot to knot".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isotonic(knots: &[[f64; 2]]) -> Calibration {
        Calibration::Isotonic {
            knots: knots.to_vec(),
        }
    }

    fn assert_close(value: f32, expected: f32) {
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }

    #[test]
    fn scores_follow_the_formulas() {
        let temperature = Calibration::Temperature { temperature: 0.5 };
        assert_close(temperature.apply(0.5), 0.5);
        assert_close(temperature.apply(0.75), 0.9); // odds 3 to 1 become 9 to 1
        let platt = Calibration::Platt {
            temperature: 2.0,
            bias: 3f64.ln(),
        };
        assert_close(platt.apply(0.5), 0.75); // odds 1 to 1 become 3 to 1
        assert_close(platt.apply(0.9), 0.9); // odds 9 to 1 become 3 × 3 to 1
        let isotonic = isotonic(&[[0.0, 0.1], [0.5, 0.2], [1.0, 0.8]]);
        for (score, expected) in [
            (0.0, 0.1),
            (0.25, 0.15),
            (0.5, 0.2),
            (0.75, 0.5),
            (1.0, 0.8),
        ] {
            assert_close(isotonic.apply(score), expected);
        }
    }

    #[test]
    fn scores_at_and_beyond_the_limits_stay_probabilities() {
        let all = [
            Calibration::Temperature { temperature: 1e-9 },
            Calibration::Platt {
                temperature: 1e9,
                bias: -1e300,
            },
            isotonic(&[[0.0, 0.0], [1.0, 1.0]]),
            isotonic(&[]),
        ];
        for calibration in all {
            for score in [0.0, 1e-30, 0.5, 1.0, 1.5, -1.0] {
                let probability = calibration.apply(score);
                assert!(
                    (0.0..=1.0).contains(&probability),
                    "{calibration:?} {score}"
                );
            }
        }
    }

    #[test]
    fn higher_scores_stay_higher() {
        let all = [
            Calibration::Temperature { temperature: 3.0 },
            Calibration::Platt {
                temperature: 0.3,
                bias: -1.5,
            },
            isotonic(&[[0.0, 0.1], [0.4, 0.11], [0.9, 0.8], [1.0, 0.9]]),
        ];
        for calibration in all {
            let scores: Vec<f32> = (1..100).map(|part| part as f32 / 100.0).collect();
            let mapped: Vec<f32> = scores
                .iter()
                .map(|score| calibration.apply(*score))
                .collect();
            assert!(
                mapped.windows(2).all(|pair| pair[0] < pair[1]),
                "{mapped:?}"
            );
        }
    }

    #[test]
    fn bad_values_are_described() {
        let temperature = |temperature| Calibration::Temperature { temperature }.check();
        assert_eq!(temperature(0.7), Ok(()));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(temperature(bad).unwrap_err().contains("above 0"), "{bad}");
        }
        let platt = Calibration::Platt {
            temperature: 1.0,
            bias: f64::NAN,
        };
        assert!(platt.check().unwrap_err().contains("bias"));
        let knots = |knots: &[[f64; 2]]| isotonic(knots).check();
        assert_eq!(knots(&[[0.0, 0.0], [0.5, 0.7], [1.0, 0.9]]), Ok(()));
        for (bad, problem) in [
            (&[[0.0, 0.0]][..], "1 knots"),
            (&[[0.1, 0.0], [1.0, 1.0]], "from 0 to 1"),
            (&[[0.0, 0.0], [0.9, 1.0]], "from 0 to 1"),
            (&[[0.0, -0.1], [1.0, 1.0]], "between 0 and 1"),
            (&[[0.0, 0.0], [1.0, f64::NAN]], "between 0 and 1"),
            (&[[0.0, 0.5], [1.0, 0.5]], "must increase"),
            (
                &[[0.0, 0.0], [0.6, 0.5], [0.5, 0.6], [1.0, 1.0]],
                "must increase",
            ),
        ] {
            let found = knots(bad).unwrap_err();
            assert!(found.contains(problem), "{bad:?}: {found}");
        }
        let many = (0..=MAX_KNOTS).map(|index| [index as f64 / MAX_KNOTS as f64; 2]);
        assert!(
            knots(&many.collect::<Vec<_>>())
                .unwrap_err()
                .contains("51 knots")
        );
    }

    #[test]
    fn unknown_keys_are_refused() {
        let read = |text: &str| serde_json::from_str::<Calibration>(text);
        let expected = Calibration::Platt {
            temperature: 1.25,
            bias: -0.5,
        };
        let text = r#"{"method":"platt","temperature":1.25,"bias":-0.5}"#;
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(serde_json::to_string(&expected).unwrap(), text);
        assert!(read(r#"{"method":"temperature","temperature":1.25,"bias":0}"#).is_err());
        assert!(read(r#"{"method":"other"}"#).is_err());
    }
}
