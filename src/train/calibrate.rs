//! Calibration of a trained model's scores on the dev sentences.

use serde_json::{Value, json};

use super::run::ProgressOutput;
use crate::eval::Evaluation;
use crate::eval::calibration::fit;
use crate::eval::reliability::{Reliability, ScoredMention};
use crate::model::calibration::Calibration;
use crate::recipe::TrainConfig;

/// The calibration of a model, and what it does to the expected calibration error.
pub(super) struct Calibrated {
    /// The calibration; `None` if it is off, or if no method improves the scores.
    pub calibration: Option<Calibration>,
    /// Errors on dev and test before and after it; `None` if it is off or there are no dev sentences.
    errors: Option<[Errors; 2]>,
}

/// Expected calibration errors of one split; `None` without mentions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Errors {
    before: Option<f64>,
    after: Option<f64>,
}

impl Errors {
    fn of(before: &[ScoredMention], after: &[ScoredMention]) -> Self {
        let error = |scored| Reliability::of(scored).calibration_error();
        Self {
            before: error(before),
            after: error(after),
        }
    }
}

/// Fits a calibration to the scores of the dev mentions. The error on dev after it is that of cross-fitted scores, so it is
/// not lower only because of the fit.
pub(super) fn calibrate(
    settings: &TrainConfig,
    dev: Option<&Evaluation>,
    test: Option<&Evaluation>,
) -> Calibrated {
    let Some(dev) = dev.filter(|_| settings.calibrate) else {
        return Calibrated {
            calibration: None,
            errors: None,
        };
    };
    let fit = fit(&dev.scored);
    let test = test.map_or(&[][..], |test| &test.scored);
    let calibrated = |mention: &ScoredMention| ScoredMention {
        score: (fit.calibration.as_ref()).map_or(mention.score, |map| map.apply(mention.score)),
        ..*mention
    };
    let test_after: Vec<ScoredMention> = test.iter().map(calibrated).collect();
    Calibrated {
        errors: Some([
            Errors::of(&dev.scored, &fit.cross_fitted),
            Errors::of(test, &test_after),
        ]),
        calibration: fit.calibration,
    }
}

impl Calibrated {
    fn method(&self) -> &'static str {
        self.calibration
            .as_ref()
            .map_or("none", Calibration::method)
    }

    /// The entry of `metrics.json`; null if calibration is off.
    pub(super) fn metrics(&self) -> Value {
        match &self.errors {
            None => Value::Null,
            Some([dev, test]) => json!({
                "method": self.method(),
                "dev_ece_before": dev.before,
                "dev_ece_after": dev.after,
                "test_ece_before": test.before,
                "test_ece_after": test.after,
            }),
        }
    }

    /// Prints a line on the result.
    pub(super) fn print(&self, output: ProgressOutput) {
        if output != ProgressOutput::Silent
            && let Some(line) = self.line()
        {
            println!("{line}");
        }
    }

    fn line(&self) -> Option<String> {
        let parts =
            (["dev", "test"].iter().zip(self.errors.as_ref()?)).filter_map(|(split, errors)| {
                let [before, after] = [errors.before?, errors.after?].map(|error| 100.0 * error);
                Some(if self.calibration.is_some() {
                    format!("{before:.2} % -> {after:.2} % on {split}")
                } else {
                    format!("{before:.2} % on {split}")
                })
            });
        let parts = parts.collect::<Vec<_>>();
        (!parts.is_empty()).then(|| {
            format!(
                "calibration of scores: {}; expected calibration error {}",
                self.method(),
                parts.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Report;

    /// Mentions with a score of 0.99, of which one in `every` is wrong.
    fn evaluation(mentions: usize, every: usize) -> Evaluation {
        let mention = |index| ScoredMention {
            sentence: index,
            score: 0.99,
            correct: index % every > 0,
        };
        Evaluation {
            report: Report::default(),
            scored: (0..mentions).map(mention).collect(),
        }
    }

    #[test]
    fn the_errors_before_and_after_are_reported() {
        let settings = TrainConfig::default();
        let calibrated = calibrate(
            &settings,
            Some(&evaluation(400, 4)),
            Some(&evaluation(100, 5)),
        );
        let metrics = calibrated.metrics();
        assert_eq!(metrics["method"], "temperature");
        let about = |key: &str, expected: f64| {
            let error = metrics[key].as_f64().unwrap();
            assert!((error - expected).abs() < 0.005, "{key}: {error}");
        };
        about("dev_ece_before", 0.24);
        about("dev_ece_after", 0.0);
        about("test_ece_before", 0.19);
        about("test_ece_after", 0.05);
        let line = calibrated.line().unwrap();
        assert!(
            line.starts_with("calibration of scores: temperature; "),
            "{line}"
        );
        assert!(line.contains("24.00 % -> 0."), "{line}");
    }

    #[test]
    fn without_mentions_or_when_off_nothing_is_calibrated() {
        let none = calibrate(&TrainConfig::default(), Some(&evaluation(0, 1)), None);
        assert_eq!((none.calibration.as_ref(), none.line()), (None, None));
        assert_eq!(none.metrics()["method"], "none");
        assert!(none.metrics()["dev_ece_before"].is_null());
        let settings = TrainConfig {
            calibrate: false,
            ..TrainConfig::default()
        };
        let off = calibrate(&settings, Some(&evaluation(400, 4)), None);
        assert_eq!((off.calibration.as_ref(), off.line()), (None, None));
        assert!(off.metrics().is_null());
        assert!(
            calibrate(&TrainConfig::default(), None, None)
                .calibration
                .is_none()
        );
    }
}
