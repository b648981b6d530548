//! The analysis as JSON. Scores, rates and differences are fractions; undefined values are null.

use serde_json::{Map, Value, json};

use super::attributes::{Attribute, BUCKETS, LENGTH_GROUPS};
use super::errors::{ErrorCounts, PredictionOutcome, SentenceOutcomes};
use super::{Analysis, F1Difference, Interval, ModelResults, WorstSentence};
use crate::eval::counts::Scores;
use crate::text::{Entity, Sentence};

impl Analysis {
    /// The whole analysis as JSON.
    pub fn to_json(&self) -> Value {
        let models: Vec<Value> = self.models.iter().map(|model| self.model(model)).collect();
        let worst: Vec<Value> = self
            .worst
            .iter()
            .map(|worst| self.sentence(worst))
            .collect();
        json!({
            "baseline": self.baseline().name,
            "sentences": self.sentences,
            "training_sentences": self.training_sentences,
            "words": self.words,
            "unknown_words": self.unknown_words,
            "out_of_vocabulary": self.out_of_vocabulary(),
            "resamples": self.options.resamples,
            "seed": self.options.seed,
            "models": models,
            "worst": worst,
        })
    }

    fn model(&self, model: &ModelResults) -> Value {
        let baseline = self.baseline();
        let lengths: Map<String, Value> = (0..LENGTH_GROUPS.len())
            .map(|group| {
                let scores = scores(model.lengths[group], baseline.lengths[group]);
                (LENGTH_GROUPS[group].to_owned(), scores)
            })
            .collect();
        let attributes: Map<String, Value> = Attribute::ALL
            .iter()
            .enumerate()
            .map(|(index, attribute)| {
                let buckets = BUCKETS.iter().enumerate().map(|(bucket, name)| {
                    let counts = model.buckets[index][bucket];
                    let mut value = scores(counts, baseline.buckets[index][bucket]);
                    value["values"] = attribute.ranges()[bucket].into();
                    ((*name).to_owned(), value)
                });
                (
                    attribute.name().to_owned(),
                    Value::Object(buckets.collect()),
                )
            })
            .collect();
        let confusion: Vec<Value> = model
            .confusion
            .pairs
            .iter()
            .map(|((gold, predicted), count)| {
                json!({"gold": gold, "predicted": predicted, "count": count})
            })
            .collect();
        let significance = &model.significance;
        json!({
            "name": model.name,
            "scores": model.report.to_json(),
            "unreachable": model.report.unreachable,
            "f1_interval": interval(significance.f1),
            "difference": significance.difference.map(difference),
            "lengths": lengths,
            "attributes": attributes,
            "errors": errors(&model.errors, &baseline.errors),
            "confusion": confusion,
        })
    }

    fn sentence(&self, worst: &WorstSentence) -> Value {
        let sentence = &worst.sentence;
        let gold: Vec<Value> = worst.gold().map(|gold| entity(sentence, gold)).collect();
        let models = self.models.iter().zip(&worst.outcomes);
        let models: Vec<Value> = models
            .map(|(model, outcomes)| model_outcomes(&model.name, sentence, outcomes))
            .collect();
        json!({
            "index": worst.index,
            "text": sentence.text,
            "mistakes": worst.mistakes,
            "gold": gold,
            "models": models,
        })
    }
}

fn scores(model: impl Into<Scores>, baseline: impl Into<Scores>) -> Value {
    let scores: Scores = model.into();
    json!({
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "support": scores.support,
        "difference": scores.f1_difference(&baseline.into()),
    })
}

fn errors(errors: &ErrorCounts, baseline: &ErrorCounts) -> Value {
    let mut value = json!({
        "false_positives": errors.false_positives,
        "false_negatives": errors.false_negatives,
    });
    for (index, kind) in ErrorCounts::KINDS.iter().enumerate() {
        let count = errors.kinds()[index];
        value[*kind] = json!({
            "count": count,
            "rate": errors.rate(count),
            "difference": errors.rate(count) - baseline.rate(baseline.kinds()[index]),
        });
    }
    value
}

fn interval(interval: Interval) -> Value {
    json!([interval.low, interval.high])
}

fn difference(difference: F1Difference) -> Value {
    json!({
        "f1": difference.value,
        "interval": interval(difference.interval),
        "p": difference.p,
    })
}

fn entity(sentence: &Sentence, entity: &Entity) -> Value {
    json!({
        "start": entity.span.start,
        "end": entity.span.end,
        "type": entity.label,
        "text": sentence.surface(entity.span),
    })
}

/// The predictions of a model on a sentence with their outcomes, and the gold entities it did not find.
fn model_outcomes(name: &str, sentence: &Sentence, outcomes: &SentenceOutcomes) -> Value {
    let predicted = outcomes.predicted.iter().map(|(predicted, outcome)| {
        let mut value = entity(sentence, predicted);
        value["verdict"] = match outcome {
            PredictionOutcome::Correct => "right",
            PredictionOutcome::WrongType(_) => "type",
            PredictionOutcome::WrongBoundary => "boundary",
            PredictionOutcome::Spurious => "spurious",
        }
        .into();
        value
    });
    let not_found = outcomes.not_found().map(|gold| entity(sentence, gold));
    json!({
        "name": name,
        "predicted": predicted.collect::<Vec<_>>(),
        "not_found": not_found.collect::<Vec<_>>(),
    })
}
