//! Error analysis of a sentence: the outcome of every gold and predicted entity, and the kinds of errors.
//!
//! A correct prediction and the gold entity it equals are never part of an error. Only wrong predictions and gold
//! entities that were not found are compared with each other, so with nested gold a wrong prediction is attributed to
//! an entity the model did not find, not to one it found:
//!
//! 1. **type error**: a wrong prediction has the span of a gold entity that was not found; they are paired one to one;
//! 2. **boundary error**: a wrong prediction without a type error shares a word with a gold entity that was not found
//!    and has another span, regardless of the labels;
//! 3. **spurious**: every other wrong prediction;
//! 4. **missed**: a gold entity that was not found and that no wrong prediction overlaps.
//!
//! For flat gold and flat predictions this is the definition of the Bundling Learning paper: there, no other
//! prediction can overlap an entity that was found.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::eval::counts::{ratio, sorted_distinct};
use crate::text::{Entity, Mention};

/// Outcome of a gold entity: found, or the reason why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoldOutcome {
    /// Predicted with the same span and label.
    Found,
    /// The span was predicted with this other label.
    WrongType(String),
    /// Not predicted, but a wrong prediction with another span overlaps it.
    WrongBoundary,
    /// No wrong prediction overlaps it.
    Missed,
}

/// Outcome of a predicted entity: correct, or the kind of its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PredictionOutcome {
    /// It equals a gold entity.
    Correct,
    /// Its span is correct, but gold has this other label.
    WrongType(String),
    /// It overlaps a gold entity that was not found and has another span.
    WrongBoundary,
    /// It overlaps no gold entity that was not found.
    Spurious,
}

/// Outcomes of all gold and predicted entities of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentenceOutcomes {
    /// The gold entities in order, without duplicates.
    pub gold: Vec<(Entity, GoldOutcome)>,
    /// The predicted entities in order, without duplicates.
    pub predicted: Vec<(Entity, PredictionOutcome)>,
}

impl SentenceOutcomes {
    /// Compares the predictions of a sentence with its gold entities.
    pub fn of(gold: &[Entity], predicted: &[Mention]) -> Self {
        let gold = sorted_distinct(gold);
        let predicted = sorted_distinct(predicted.iter().map(|mention| &mention.entity));
        let not_found = difference(&gold, &predicted);
        let wrong = difference(&predicted, &gold);
        let (mut gold_outcomes, mut prediction_outcomes) = (BTreeMap::new(), BTreeMap::new());
        for &prediction in &wrong {
            let partner = not_found
                .iter()
                .find(|gold| gold.span == prediction.span && !gold_outcomes.contains_key(*gold));
            if let Some(&gold) = partner {
                let (gold_label, label) = (gold.label.clone(), prediction.label.clone());
                gold_outcomes.insert(gold, GoldOutcome::WrongType(label));
                prediction_outcomes.insert(prediction, PredictionOutcome::WrongType(gold_label));
            }
        }
        Self {
            predicted: outcomes(&predicted, |entity| {
                if let Some(outcome) = prediction_outcomes.remove(entity) {
                    outcome
                } else if wrong.binary_search(&entity).is_err() {
                    PredictionOutcome::Correct
                } else if overlaps_other_span(entity, &not_found) {
                    PredictionOutcome::WrongBoundary
                } else {
                    PredictionOutcome::Spurious
                }
            }),
            gold: outcomes(&gold, |entity| {
                if let Some(outcome) = gold_outcomes.remove(entity) {
                    outcome
                } else if not_found.binary_search(&entity).is_err() {
                    GoldOutcome::Found
                } else if overlaps_other_span(entity, &wrong) {
                    GoldOutcome::WrongBoundary
                } else {
                    GoldOutcome::Missed
                }
            }),
        }
    }

    /// Number of gold entities that were found.
    pub fn found(&self) -> u64 {
        let found = self.gold.iter();
        let found = found.filter(|(_, outcome)| *outcome == GoldOutcome::Found);
        found.count() as u64
    }

    /// Gold entities that were not found.
    pub fn not_found(&self) -> impl Iterator<Item = &Entity> {
        let gold = self.gold.iter();
        gold.filter(|(_, outcome)| *outcome != GoldOutcome::Found)
            .map(|(entity, _)| entity)
    }

    /// Number of wrong predictions and of gold entities that were not found.
    pub fn mistakes(&self) -> u64 {
        (self.gold.len() + self.predicted.len()) as u64 - 2 * self.found()
    }
}

/// Numbers of errors, in total and by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Wrong predictions: `boundary + type_error + spurious`.
    pub false_positives: u64,
    /// Gold entities that were not found.
    pub false_negatives: u64,
    /// Predictions with a wrong boundary.
    pub boundary: u64,
    /// Predictions with the correct span and a wrong label.
    pub type_error: u64,
    /// All other wrong predictions.
    pub spurious: u64,
    /// Gold entities that no wrong prediction overlaps. The other false negatives belong to boundary and type errors.
    pub missed: u64,
}

impl ErrorCounts {
    /// Names of the kinds, in the order of [`ErrorCounts::kinds`].
    pub const KINDS: [&str; 4] = ["boundary", "type", "spurious", "missed"];

    /// Counts the errors of a sentence.
    pub fn of(sentence: &SentenceOutcomes) -> Self {
        let mut errors = Self::default();
        for (_, outcome) in &sentence.predicted {
            match outcome {
                PredictionOutcome::Correct => continue,
                PredictionOutcome::WrongType(_) => errors.type_error += 1,
                PredictionOutcome::WrongBoundary => errors.boundary += 1,
                PredictionOutcome::Spurious => errors.spurious += 1,
            }
            errors.false_positives += 1;
        }
        for (_, outcome) in &sentence.gold {
            errors.missed += u64::from(*outcome == GoldOutcome::Missed);
            errors.false_negatives += u64::from(*outcome != GoldOutcome::Found);
        }
        errors
    }

    /// Counts of the four kinds.
    pub fn kinds(&self) -> [u64; 4] {
        [self.boundary, self.type_error, self.spurious, self.missed]
    }

    /// All errors, `FP + FN`.
    pub fn total(&self) -> u64 {
        self.false_positives + self.false_negatives
    }

    /// A count divided by the number of all errors (equations 24a and 24b of the paper); 0 when there are none.
    pub fn rate(&self, count: u64) -> f64 {
        ratio(count, self.total())
    }

    /// Adds gold entities that no span of words equals; they count as missed.
    pub(super) fn add_unreachable(&mut self, count: u64) {
        self.false_negatives += count;
        self.missed += count;
    }
}

impl AddAssign for ErrorCounts {
    fn add_assign(&mut self, other: Self) {
        self.false_positives += other.false_positives;
        self.false_negatives += other.false_negatives;
        self.boundary += other.boundary;
        self.type_error += other.type_error;
        self.spurious += other.spurious;
        self.missed += other.missed;
    }
}

/// Confusion matrix of labels on equal spans.
///
/// A gold entity whose span was not predicted is counted with the predicted label `None`, and a prediction whose span
/// is not gold with the gold label `None`. The sum over a gold label is its support, the sum over a predicted label the
/// number of its predictions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfusionMatrix {
    /// Count of each pair of gold and predicted label; pairs that never occur are left out.
    pub pairs: BTreeMap<(Option<String>, Option<String>), u64>,
}

impl ConfusionMatrix {
    /// How often a gold label was predicted as another.
    pub fn count(&self, gold: Option<&str>, predicted: Option<&str>) -> u64 {
        let key = (gold.map(str::to_owned), predicted.map(str::to_owned));
        self.pairs.get(&key).copied().unwrap_or(0)
    }

    /// Adds a sentence.
    pub fn add(&mut self, sentence: &SentenceOutcomes) {
        for (entity, outcome) in &sentence.gold {
            let predicted = match outcome {
                GoldOutcome::Found => Some(&entity.label),
                GoldOutcome::WrongType(label) => Some(label),
                GoldOutcome::WrongBoundary | GoldOutcome::Missed => None,
            };
            self.add_pair(Some(&entity.label), predicted);
        }
        for (entity, outcome) in &sentence.predicted {
            if matches!(
                outcome,
                PredictionOutcome::WrongBoundary | PredictionOutcome::Spurious
            ) {
                self.add_pair(None, Some(&entity.label));
            }
        }
    }

    /// Adds one to the count of a pair.
    pub(super) fn add_pair(&mut self, gold: Option<&String>, predicted: Option<&String>) {
        *self
            .pairs
            .entry((gold.cloned(), predicted.cloned()))
            .or_default() += 1;
    }
}

/// The elements of the sorted `entities` that are not in the sorted `others`.
fn difference<'a>(entities: &[&'a Entity], others: &[&Entity]) -> Vec<&'a Entity> {
    let missing = |entity: &&&Entity| others.binary_search(*entity).is_err();
    entities.iter().filter(missing).copied().collect()
}

/// True when the entity shares a word with one of the others that has another span.
fn overlaps_other_span(entity: &Entity, others: &[&Entity]) -> bool {
    others
        .iter()
        .any(|other| other.span != entity.span && other.span.overlaps(&entity.span))
}

/// Each entity with its outcome.
fn outcomes<T>(entities: &[&Entity], mut outcome: impl FnMut(&Entity) -> T) -> Vec<(Entity, T)> {
    let pair = |&entity: &&Entity| (entity.clone(), outcome(entity));
    entities.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eval::Counts;
    use crate::eval::test_data::{any_entities, mentions};

    fn compare(gold: &[Entity], predicted: &[Entity]) -> SentenceOutcomes {
        SentenceOutcomes::of(gold, &mentions(predicted))
    }

    fn gold_outcomes(sentence: &SentenceOutcomes) -> Vec<GoldOutcome> {
        let outcome = |(_, outcome): &(Entity, GoldOutcome)| outcome.clone();
        sentence.gold.iter().map(outcome).collect()
    }

    fn prediction_outcomes(sentence: &SentenceOutcomes) -> Vec<PredictionOutcome> {
        let outcome = |(_, outcome): &(Entity, PredictionOutcome)| outcome.clone();
        sentence.predicted.iter().map(outcome).collect()
    }

    #[test]
    fn every_kind_of_error_is_recognised() {
        let gold = [
            Entity::new(0, 2, "PER"),   // found
            Entity::new(3, 5, "ORG"),   // predicted as LOC
            Entity::new(6, 9, "ORG"),   // predicted as two parts
            Entity::new(10, 11, "LOC"), // nothing there
        ];
        let predicted = [
            Entity::new(0, 2, "PER"),
            Entity::new(3, 5, "LOC"),
            Entity::new(6, 7, "ORG"),
            Entity::new(8, 9, "PER"),
            Entity::new(12, 13, "PER"),
        ];
        let sentence = compare(&gold, &predicted);
        assert_eq!(
            gold_outcomes(&sentence),
            [
                GoldOutcome::Found,
                GoldOutcome::WrongType("LOC".to_owned()),
                GoldOutcome::WrongBoundary,
                GoldOutcome::Missed
            ]
        );
        assert_eq!(
            prediction_outcomes(&sentence),
            [
                PredictionOutcome::Correct,
                PredictionOutcome::WrongType("ORG".to_owned()),
                PredictionOutcome::WrongBoundary,
                PredictionOutcome::WrongBoundary,
                PredictionOutcome::Spurious
            ]
        );
        let errors = ErrorCounts::of(&sentence);
        assert_eq!((errors.false_positives, errors.false_negatives), (4, 3));
        assert_eq!(errors.kinds(), [2, 1, 1, 1]);
        assert_eq!(errors.rate(errors.boundary), 2.0 / 7.0);
        assert_eq!(sentence.mistakes(), 7);

        let mut confusion = ConfusionMatrix::default();
        confusion.add(&sentence);
        assert_eq!(confusion.count(Some("PER"), Some("PER")), 1);
        assert_eq!(confusion.count(Some("ORG"), Some("LOC")), 1);
        assert_eq!(confusion.count(Some("ORG"), None), 1);
        assert_eq!(confusion.count(Some("LOC"), None), 1);
        assert_eq!(confusion.count(None, Some("ORG")), 1);
        assert_eq!(confusion.count(None, Some("PER")), 2);
        assert_eq!(confusion.pairs.values().sum::<u64>(), 7);
    }

    #[test]
    fn found_entities_are_part_of_no_error() {
        // Outer and inner are found; a third prediction overlaps both and belongs to neither.
        let gold = [Entity::new(0, 5, "ORG"), Entity::new(2, 3, "LOC")];
        let predicted = [gold[0].clone(), gold[1].clone(), Entity::new(2, 4, "LOC")];
        let sentence = compare(&gold, &predicted);
        assert_eq!(
            gold_outcomes(&sentence),
            [GoldOutcome::Found, GoldOutcome::Found]
        );
        assert_eq!(
            prediction_outcomes(&sentence),
            [
                PredictionOutcome::Correct,
                PredictionOutcome::Correct,
                PredictionOutcome::Spurious
            ]
        );
        // A correct inner entity does not turn the missed outer one into a boundary error.
        let sentence = compare(&gold, &gold[1..]);
        assert_eq!(
            gold_outcomes(&sentence),
            [GoldOutcome::Missed, GoldOutcome::Found]
        );
        // A second label on a span that is already correct is spurious.
        let sentence = compare(&gold[1..], &[gold[1].clone(), Entity::new(2, 3, "PER")]);
        assert_eq!(
            prediction_outcomes(&sentence),
            [PredictionOutcome::Correct, PredictionOutcome::Spurious]
        );
    }

    #[test]
    fn labels_on_one_span_are_paired_one_to_one() {
        let gold = [Entity::new(0, 2, "A"), Entity::new(0, 2, "B")];
        let predicted = [
            Entity::new(0, 2, "B"),
            Entity::new(0, 2, "C"),
            Entity::new(0, 2, "D"),
        ];
        let sentence = compare(&gold, &predicted);
        assert_eq!(
            gold_outcomes(&sentence),
            [GoldOutcome::WrongType("C".to_owned()), GoldOutcome::Found]
        );
        assert_eq!(
            prediction_outcomes(&sentence),
            [
                PredictionOutcome::Correct,
                PredictionOutcome::WrongType("A".to_owned()),
                PredictionOutcome::Spurious
            ]
        );
    }

    proptest! {
        #[test]
        fn kinds_add_up_to_all_errors(gold in any_entities(), predicted in any_entities()) {
            let sentence = compare(&gold, &predicted);
            let counts = Counts::of(&gold, &predicted);
            let errors = ErrorCounts::of(&sentence);
            prop_assert_eq!(errors.false_positives, counts.predicted - counts.correct);
            prop_assert_eq!(errors.false_negatives, counts.gold - counts.correct);
            prop_assert_eq!(errors.boundary + errors.type_error + errors.spurious, errors.false_positives);
            prop_assert!(errors.missed + errors.type_error <= errors.false_negatives);
            let mut confusion = ConfusionMatrix::default();
            confusion.add(&sentence);
            let sum = |keep: fn(&(Option<String>, Option<String>)) -> bool| -> u64 {
                confusion.pairs.iter().filter(|(pair, _)| keep(pair)).map(|(_, count)| count).sum()
            };
            prop_assert_eq!(sum(|pair| pair.0.is_some()), counts.gold);
            prop_assert_eq!(sum(|pair| pair.1.is_some()), counts.predicted);
            prop_assert_eq!(sum(|pair| pair.0 == pair.1), counts.correct);
        }
    }
}
