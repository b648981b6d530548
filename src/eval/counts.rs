//! Counting entities that were found, and the scores that follow from the counts.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::text::Entity;

/// How many entities there were, how many were predicted, and how many of those are right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Predicted entities that are gold: span and label are equal.
    pub correct: u64,
    /// Predicted entities.
    pub predicted: u64,
    /// Gold entities, also called the support.
    pub gold: u64,
}

impl Counts {
    /// The counts of one sentence. Both sides are sets: an entity listed twice counts once.
    pub fn of(gold: &[Entity], predicted: &[Entity]) -> Self {
        let gold: BTreeSet<&Entity> = gold.iter().collect();
        let predicted: BTreeSet<&Entity> = predicted.iter().collect();
        Self {
            correct: gold.intersection(&predicted).count() as u64,
            predicted: predicted.len() as u64,
            gold: gold.len() as u64,
        }
    }

    /// Share of the predicted entities that are right; 0 when nothing was predicted.
    pub fn precision(&self) -> f64 {
        share(self.correct, self.predicted)
    }

    /// Share of the gold entities that were found; 0 when there are none.
    pub fn recall(&self) -> f64 {
        share(self.correct, self.gold)
    }

    /// Harmonic mean of precision and recall; 0 when nothing is right.
    pub fn f1(&self) -> f64 {
        // Equal to the harmonic mean, and exact for a perfect score.
        share(2 * self.correct, self.predicted + self.gold)
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.correct += other.correct;
        self.predicted += other.predicted;
        self.gold += other.gold;
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Self::add)
    }
}

/// Counts of a kind of entity that gold and prediction need not agree on.
///
/// Whether an entity is nested depends on the entities beside it, so an entity that was found can be nested among
/// the gold ones and flat among the predicted ones. Recall therefore asks for the kind among the gold entities,
/// precision for the kind among the predicted ones, and each side keeps its own count of what is right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Predicted entities of this kind that are gold, of whichever kind there.
    pub correct: u64,
    /// Predicted entities of this kind.
    pub predicted: u64,
    /// Gold entities of this kind that were predicted, as whichever kind.
    pub found: u64,
    /// Gold entities of this kind.
    pub gold: u64,
}

impl Split {
    /// Share of the predicted entities of this kind that are right; 0 when there are none.
    pub fn precision(&self) -> f64 {
        share(self.correct, self.predicted)
    }

    /// Share of the gold entities of this kind that were found; 0 when there are none.
    pub fn recall(&self) -> f64 {
        share(self.found, self.gold)
    }

    /// Harmonic mean of precision and recall; 0 when both are.
    pub fn f1(&self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        if precision + recall == 0.0 {
            return 0.0;
        }
        2.0 * precision * recall / (precision + recall)
    }

    /// Counts a gold entity of this kind.
    pub(super) fn add_gold(&mut self, found: bool) {
        self.gold += 1;
        self.found += u64::from(found);
    }

    /// Counts a predicted entity of this kind.
    pub(super) fn add_predicted(&mut self, correct: bool) {
        self.predicted += 1;
        self.correct += u64::from(correct);
    }
}

/// `part / whole`, and 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_and_label_must_both_be_right() {
        let gold = [
            Entity::new(0, 2, "PER"),
            Entity::new(3, 4, "LOC"),
            Entity::new(5, 8, "ORG"),
        ];
        let predicted = [
            Entity::new(0, 2, "PER"), // right
            Entity::new(3, 4, "ORG"), // wrong label
            Entity::new(5, 7, "ORG"), // wrong border
            Entity::new(9, 10, "LOC"),
        ];
        let counts = Counts::of(&gold, &predicted);
        assert_eq!((counts.correct, counts.predicted, counts.gold), (1, 4, 3));
        assert_eq!(counts.precision(), 0.25);
        assert_eq!(counts.recall(), 1.0 / 3.0);
        assert_eq!(counts.f1(), 2.0 / 7.0);
    }

    #[test]
    fn duplicates_count_once_on_both_sides() {
        let person = Entity::new(0, 1, "PER");
        let gold = [person.clone(), person.clone(), Entity::new(2, 3, "LOC")];
        let predicted = [person.clone(), person.clone(), person];
        let counts = Counts::of(&gold, &predicted);
        assert_eq!((counts.correct, counts.predicted, counts.gold), (1, 1, 2));
    }

    #[test]
    fn two_labels_of_one_span_are_two_entities() {
        let gold = [Entity::new(0, 1, "LOC"), Entity::new(0, 1, "ORG")];
        let counts = Counts::of(&gold, &gold[..1]);
        assert_eq!((counts.correct, counts.predicted, counts.gold), (1, 1, 2));
    }

    #[test]
    fn undefined_scores_are_zero() {
        let gold = [Entity::new(0, 1, "PER")];
        for counts in [
            Counts::of(&[], &[]),
            Counts::of(&gold, &[]),
            Counts::of(&[], &gold),
        ] {
            assert_eq!(counts.precision(), 0.0);
            assert_eq!(counts.recall(), 0.0);
            assert_eq!(counts.f1(), 0.0);
        }
        assert_eq!(Split::default().f1(), 0.0);
    }

    #[test]
    fn counts_add_up() {
        let one = Counts {
            correct: 1,
            predicted: 2,
            gold: 3,
        };
        let three: Counts = [one, one + one].into_iter().sum();
        assert_eq!(
            (three.correct, three.predicted, three.gold),
            (3, 6, 9),
            "{three:?}"
        );
    }

    #[test]
    fn a_split_divides_each_side_by_its_own_kind() {
        let split = Split {
            correct: 1,
            predicted: 2,
            found: 1,
            gold: 4,
        };
        assert_eq!((split.precision(), split.recall()), (0.5, 0.25));
        assert!((split.f1() - 1.0 / 3.0).abs() < 1e-12);
    }
}
