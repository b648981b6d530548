//! What is right and what is wrong with each entity of a sentence, and the kinds of errors that follow.
//!
//! An entity whose span and label are right is never part of an error, on either side. What is left over is judged
//! among itself, so that beside nested gold a prediction is blamed on an entity the model missed and not on one it
//! found:
//!
//! 1. **type error**: a wrong prediction has the borders of a missed gold entity; each takes one partner;
//! 2. **boundary error**: a wrong prediction that is no type error shares a word with a missed gold entity of other
//!    borders, whatever the labels;
//! 3. **spurious**: every other wrong prediction;
//! 4. **missed**: a gold entity that was not found and that no wrong prediction touches.
//!
//! For flat gold and flat predictions this is the paper's definition: there, nothing that overlaps an entity that
//! was found can be predicted beside it.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::text::{Entity, Mention};

/// What became of a gold entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Predicted with the right label.
    Found,
    /// Predicted with this other label.
    OtherType(String),
    /// Not predicted, but a wrong prediction with other borders overlaps it.
    OtherBorders,
    /// No wrong prediction touches it.
    Missed,
}

/// What a predicted entity is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is gold.
    Right,
    /// Its borders are right, but gold has this other label.
    WrongType(String),
    /// It overlaps a gold entity that was missed and has other borders.
    WrongBorders,
    /// It has to do with no gold entity that was missed.
    Spurious,
}

/// One sentence, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The gold entities in order, each once.
    pub gold: Vec<(Entity, Fate)>,
    /// The predicted entities in order, each once.
    pub predicted: Vec<(Entity, Verdict)>,
}

impl Judgement {
    /// Judges the predictions of a sentence.
    pub fn of(gold: &[Entity], predicted: &[Mention]) -> Self {
        let gold = distinct(gold.iter());
        let predicted = distinct(predicted.iter().map(|mention| &mention.entity));
        let missed = difference(&gold, &predicted);
        let wrong = difference(&predicted, &gold);
        let (mut fates, mut verdicts) = (BTreeMap::new(), BTreeMap::new());
        for &prediction in &wrong {
            let partner = missed
                .iter()
                .find(|gold| gold.span == prediction.span && !fates.contains_key(*gold));
            if let Some(&gold) = partner {
                fates.insert(gold, Fate::OtherType(prediction.label.clone()));
                verdicts.insert(prediction, Verdict::WrongType(gold.label.clone()));
            }
        }
        for &entity in &wrong {
            let verdict = if touches(entity, &missed) {
                Verdict::WrongBorders
            } else {
                Verdict::Spurious
            };
            verdicts.entry(entity).or_insert(verdict);
        }
        for &entity in &missed {
            let fate = if touches(entity, &wrong) {
                Fate::OtherBorders
            } else {
                Fate::Missed
            };
            fates.entry(entity).or_insert(fate);
        }
        Self {
            gold: with(&gold, |entity| fates.remove(entity), Fate::Found),
            predicted: with(&predicted, |entity| verdicts.remove(entity), Verdict::Right),
        }
    }

    /// Gold entities that were found.
    pub fn found(&self) -> u64 {
        let found = self.gold.iter().filter(|(_, fate)| *fate == Fate::Found);
        found.count() as u64
    }

    /// Wrong predictions and gold entities that were not found.
    pub fn mistakes(&self) -> u64 {
        (self.gold.len() + self.predicted.len()) as u64 - 2 * self.found()
    }
}

/// How many errors of which kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Errors {
    /// Predictions that are not gold: `boundary + type_error + spurious`.
    pub false_positives: u64,
    /// Gold entities that were not found.
    pub false_negatives: u64,
    /// Predictions with wrong borders.
    pub boundary: u64,
    /// Predictions with right borders and a wrong label.
    pub type_error: u64,
    /// All other wrong predictions.
    pub spurious: u64,
    /// Gold entities that no wrong prediction touches. The other false negatives are what boundary and type
    /// errors are about.
    pub missed: u64,
}

impl Errors {
    /// Names of the kinds, in the order of [`Errors::kinds`].
    pub const KINDS: [&str; 4] = ["boundary", "type", "spurious", "missed"];

    /// The errors of a sentence.
    pub fn of(judgement: &Judgement) -> Self {
        let mut errors = Self::default();
        for (_, verdict) in &judgement.predicted {
            match verdict {
                Verdict::Right => continue,
                Verdict::WrongType(_) => errors.type_error += 1,
                Verdict::WrongBorders => errors.boundary += 1,
                Verdict::Spurious => errors.spurious += 1,
            }
            errors.false_positives += 1;
        }
        for (_, fate) in &judgement.gold {
            errors.missed += u64::from(*fate == Fate::Missed);
            errors.false_negatives += u64::from(*fate != Fate::Found);
        }
        errors
    }

    /// Counts of the four kinds.
    pub fn kinds(&self) -> [u64; 4] {
        [self.boundary, self.type_error, self.spurious, self.missed]
    }

    /// A count divided by all errors, `FP + FN` (equations 24a and 24b); 0 when there is none.
    pub fn rate(&self, count: u64) -> f64 {
        match self.false_positives + self.false_negatives {
            0 => 0.0,
            all => count as f64 / all as f64,
        }
    }

    /// Adds gold entities that no span of words equals; they are missed.
    pub(super) fn add_unreachable(&mut self, count: u64) {
        self.false_negatives += count;
        self.missed += count;
    }
}

impl AddAssign for Errors {
    fn add_assign(&mut self, other: Self) {
        self.false_positives += other.false_positives;
        self.false_negatives += other.false_negatives;
        self.boundary += other.boundary;
        self.type_error += other.type_error;
        self.spurious += other.spurious;
        self.missed += other.missed;
    }
}

/// Which label was taken for which, on equal spans.
///
/// A gold label that was predicted as nothing stands beside `None`, and so does a predicted one that is gold of no
/// kind; the sum of a gold label is its support, and that of a predicted label the number of its predictions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confusion {
    /// How often for each pair of gold and predicted label; pairs that never occur are left out.
    pub pairs: BTreeMap<(Option<String>, Option<String>), u64>,
}

impl Confusion {
    /// How often a label was taken for another.
    pub fn count(&self, gold: Option<&str>, predicted: Option<&str>) -> u64 {
        let key = (gold.map(str::to_owned), predicted.map(str::to_owned));
        self.pairs.get(&key).copied().unwrap_or(0)
    }

    /// Adds a sentence.
    pub fn add(&mut self, judgement: &Judgement) {
        for (entity, fate) in &judgement.gold {
            let predicted = match fate {
                Fate::Found => Some(&entity.label),
                Fate::OtherType(label) => Some(label),
                Fate::OtherBorders | Fate::Missed => None,
            };
            self.note(Some(&entity.label), predicted);
        }
        for (entity, verdict) in &judgement.predicted {
            if matches!(verdict, Verdict::WrongBorders | Verdict::Spurious) {
                self.note(None, Some(&entity.label));
            }
        }
    }

    /// Counts a pair once more.
    pub(super) fn note(&mut self, gold: Option<&String>, predicted: Option<&String>) {
        *self
            .pairs
            .entry((gold.cloned(), predicted.cloned()))
            .or_default() += 1;
    }
}

/// The entities sorted, each once.
fn distinct<'a>(entities: impl Iterator<Item = &'a Entity>) -> Vec<&'a Entity> {
    let mut entities: Vec<&Entity> = entities.collect();
    entities.sort_unstable();
    entities.dedup();
    entities
}

/// Those of the sorted `entities` that are not among the sorted `others`.
fn difference<'a>(entities: &[&'a Entity], others: &[&Entity]) -> Vec<&'a Entity> {
    let missing = |entity: &&&Entity| others.binary_search(*entity).is_err();
    entities.iter().filter(missing).copied().collect()
}

/// True when the entity shares a word with one of the others that has other borders.
fn touches(entity: &Entity, others: &[&Entity]) -> bool {
    others
        .iter()
        .any(|other| other.span != entity.span && other.span.overlaps(&entity.span))
}

fn with<T: Clone>(
    entities: &[&Entity],
    mut judged: impl FnMut(&Entity) -> Option<T>,
    right: T,
) -> Vec<(Entity, T)> {
    entities
        .iter()
        .map(|&entity| {
            (
                entity.clone(),
                judged(entity).unwrap_or_else(|| right.clone()),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eval::Counts;

    fn judge(gold: &[Entity], predicted: &[Entity]) -> Judgement {
        let mentions: Vec<Mention> = predicted
            .iter()
            .map(|entity| Mention {
                entity: entity.clone(),
                score: 1.0,
            })
            .collect();
        Judgement::of(gold, &mentions)
    }

    fn fates(judgement: &Judgement) -> Vec<Fate> {
        judgement
            .gold
            .iter()
            .map(|(_, fate)| fate.clone())
            .collect()
    }

    fn verdicts(judgement: &Judgement) -> Vec<Verdict> {
        let verdict = |(_, verdict): &(Entity, Verdict)| verdict.clone();
        judgement.predicted.iter().map(verdict).collect()
    }

    #[test]
    fn every_kind_of_error_by_hand() {
        let gold = [
            Entity::new(0, 2, "PER"),   // found
            Entity::new(3, 5, "ORG"),   // predicted as LOC
            Entity::new(6, 9, "ORG"),   // cut in two
            Entity::new(10, 11, "LOC"), // nothing there
        ];
        let predicted = [
            Entity::new(0, 2, "PER"),
            Entity::new(3, 5, "LOC"),
            Entity::new(6, 7, "ORG"),
            Entity::new(8, 9, "PER"),
            Entity::new(12, 13, "PER"),
        ];
        let judgement = judge(&gold, &predicted);
        assert_eq!(
            fates(&judgement),
            [
                Fate::Found,
                Fate::OtherType("LOC".to_owned()),
                Fate::OtherBorders,
                Fate::Missed
            ]
        );
        assert_eq!(
            verdicts(&judgement),
            [
                Verdict::Right,
                Verdict::WrongType("ORG".to_owned()),
                Verdict::WrongBorders,
                Verdict::WrongBorders,
                Verdict::Spurious
            ]
        );
        let errors = Errors::of(&judgement);
        assert_eq!((errors.false_positives, errors.false_negatives), (4, 3));
        assert_eq!(errors.kinds(), [2, 1, 1, 1]);
        assert_eq!(errors.rate(errors.boundary), 2.0 / 7.0);
        assert_eq!(judgement.mistakes(), 7);

        let mut confusion = Confusion::default();
        confusion.add(&judgement);
        assert_eq!(confusion.count(Some("PER"), Some("PER")), 1);
        assert_eq!(confusion.count(Some("ORG"), Some("LOC")), 1);
        assert_eq!(confusion.count(Some("ORG"), None), 1);
        assert_eq!(confusion.count(Some("LOC"), None), 1);
        assert_eq!(confusion.count(None, Some("ORG")), 1);
        assert_eq!(confusion.count(None, Some("PER")), 2);
        assert_eq!(confusion.pairs.values().sum::<u64>(), 7);
    }

    #[test]
    fn found_entities_take_no_blame() {
        // Outer and inner are found; a third prediction crosses into both and is about neither.
        let gold = [Entity::new(0, 5, "ORG"), Entity::new(2, 3, "LOC")];
        let predicted = [gold[0].clone(), gold[1].clone(), Entity::new(2, 4, "LOC")];
        let judgement = judge(&gold, &predicted);
        assert_eq!(fates(&judgement), [Fate::Found, Fate::Found]);
        assert_eq!(
            verdicts(&judgement),
            [Verdict::Right, Verdict::Right, Verdict::Spurious]
        );
        // An inner entity that is right does not make the missed outer one a matter of borders.
        let judgement = judge(&gold, &gold[1..]);
        assert_eq!(fates(&judgement), [Fate::Missed, Fate::Found]);
        // A second label on a span that is right already is spurious.
        let judgement = judge(&gold[1..], &[gold[1].clone(), Entity::new(2, 3, "PER")]);
        assert_eq!(verdicts(&judgement), [Verdict::Right, Verdict::Spurious]);
    }

    #[test]
    fn labels_on_one_span_pair_one_to_one() {
        let gold = [Entity::new(0, 2, "A"), Entity::new(0, 2, "B")];
        let predicted = [
            Entity::new(0, 2, "B"),
            Entity::new(0, 2, "C"),
            Entity::new(0, 2, "D"),
        ];
        let judgement = judge(&gold, &predicted);
        assert_eq!(
            fates(&judgement),
            [Fate::OtherType("C".to_owned()), Fate::Found]
        );
        assert_eq!(
            verdicts(&judgement),
            [
                Verdict::Right,
                Verdict::WrongType("A".to_owned()),
                Verdict::Spurious
            ]
        );
    }

    fn some_entities() -> impl Strategy<Value = Vec<Entity>> {
        let entity = (0usize..9, 1usize..5, "[ABC]")
            .prop_map(|(start, length, label)| Entity::new(start, start + length, label));
        prop::collection::vec(entity, 0..9)
    }

    proptest! {
        #[test]
        fn kinds_add_up(gold in some_entities(), predicted in some_entities()) {
            let judgement = judge(&gold, &predicted);
            let counts = Counts::of(&gold, &predicted);
            let errors = Errors::of(&judgement);
            prop_assert_eq!(errors.false_positives, counts.predicted - counts.correct);
            prop_assert_eq!(errors.false_negatives, counts.gold - counts.correct);
            prop_assert_eq!(errors.boundary + errors.type_error + errors.spurious, errors.false_positives);
            prop_assert!(errors.missed + errors.type_error <= errors.false_negatives);
            let mut confusion = Confusion::default();
            confusion.add(&judgement);
            let sum = |keep: fn(&(Option<String>, Option<String>)) -> bool| -> u64 {
                confusion.pairs.iter().filter(|(pair, _)| keep(pair)).map(|(_, count)| count).sum()
            };
            prop_assert_eq!(sum(|pair| pair.0.is_some()), counts.gold);
            prop_assert_eq!(sum(|pair| pair.1.is_some()), counts.predicted);
            prop_assert_eq!(sum(|pair| pair.0 == pair.1), counts.correct);
        }
    }
}
