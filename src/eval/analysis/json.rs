//! The analysis as JSON. Scores, rates and differences are fractions; what cannot be computed is null.

use serde_json::{Map, Value, json};

use super::attributes::{Attribute, BUCKETS, LENGTH_GROUPS};
use super::cells::Scores;
use super::judge::{Errors, Fate, Judgement, Verdict};
use super::{Analysis, Difference, Interval, Model, Worst};
use crate::text::{Entity, Sentence};

impl Analysis {
    /// Everything, as JSON.
    pub fn to_json(&self) -> Value {
        let models: Vec<Value> = self.models.iter().map(|model| self.model(model)).collect();
        let worst: Vec<Value> = self
            .worst
            .iter()
            .map(|worst| self.sentence(worst))
            .collect();
        json!({
            "standard": self.standard().name,
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

    fn model(&self, model: &Model) -> Value {
        let standard = self.standard();
        let lengths: Map<String, Value> = (0..LENGTH_GROUPS.len())
            .map(|group| {
                let scores = scores(&model.lengths[group], &standard.lengths[group]);
                (LENGTH_GROUPS[group].to_owned(), scores)
            })
            .collect();
        let attributes: Map<String, Value> = Attribute::ALL
            .iter()
            .enumerate()
            .map(|(index, attribute)| {
                let buckets = BUCKETS.iter().enumerate().map(|(bucket, name)| {
                    let (ours, theirs) = (&model.buckets[index], &standard.buckets[index]);
                    let mut value = scores(&ours[bucket], &theirs[bucket]);
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
            "errors": errors(&model.errors, &standard.errors),
            "confusion": confusion,
        })
    }

    fn sentence(&self, worst: &Worst) -> Value {
        let sentence = &worst.sentence;
        let gold = worst
            .judgements
            .first()
            .map_or(&[][..], |first| &first.gold);
        let gold: Vec<Value> = gold
            .iter()
            .map(|(gold, _)| entity(sentence, gold))
            .collect();
        let models = self.models.iter().zip(&worst.judgements);
        let models: Vec<Value> = models
            .map(|(model, judgement)| judged(&model.name, sentence, judgement))
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

fn scores<'a, T>(model: &'a T, standard: &'a T) -> Value
where
    Scores: From<&'a T>,
{
    let (scores, standard) = (Scores::from(model), Scores::from(standard));
    json!({
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "support": scores.support,
        "difference": scores.minus(&standard),
    })
}

fn errors(errors: &Errors, standard: &Errors) -> Value {
    let mut value = json!({
        "false_positives": errors.false_positives,
        "false_negatives": errors.false_negatives,
    });
    for (index, kind) in Errors::KINDS.iter().enumerate() {
        let count = errors.kinds()[index];
        value[*kind] = json!({
            "count": count,
            "rate": errors.rate(count),
            "difference": errors.rate(count) - standard.rate(standard.kinds()[index]),
        });
    }
    value
}

fn interval(interval: Interval) -> Value {
    json!([interval.low, interval.high])
}

fn difference(difference: Difference) -> Value {
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

fn judged(name: &str, sentence: &Sentence, judgement: &Judgement) -> Value {
    let predicted = judgement.predicted.iter().map(|(predicted, verdict)| {
        let mut value = entity(sentence, predicted);
        value["verdict"] = match verdict {
            Verdict::Right => "right",
            Verdict::WrongType(_) => "type",
            Verdict::WrongBorders => "boundary",
            Verdict::Spurious => "spurious",
        }
        .into();
        value
    });
    let missed = judgement
        .gold
        .iter()
        .filter(|(_, fate)| *fate != Fate::Found);
    let missed = missed.map(|(gold, _)| entity(sentence, gold));
    json!({
        "name": name,
        "predicted": predicted.collect::<Vec<_>>(),
        "not_found": missed.collect::<Vec<_>>(),
    })
}
