//! Counts of gold, predicted and correct entities, and the scores computed from them.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::text::Entity;

/// Numbers of gold, predicted and correctly predicted entities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Predicted entities whose span and label both equal those of a gold entity.
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

    /// Share of the predicted entities that are correct; 0 when nothing was predicted.
    pub fn precision(&self) -> f64 {
        ratio(self.correct, self.predicted)
    }

    /// Share of the gold entities that were found; 0 when there are none.
    pub fn recall(&self) -> f64 {
        ratio(self.correct, self.gold)
    }

    /// Harmonic mean of precision and recall; 0 when nothing is correct.
    pub fn f1(&self) -> f64 {
        // Equal to the harmonic mean, and exact for a perfect score.
        ratio(2 * self.correct, self.predicted + self.gold)
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

/// Counts of a group of entities, such as the nested ones, to which a correct entity may belong on one side only.
///
/// Whether an entity is nested depends on the other entities of its sentence, so an entity that was found can be
/// nested among the gold entities and flat among the predicted ones. Recall is therefore computed over the group among
/// the gold entities, precision over the group among the predicted ones, and each side has its own count of matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounts {
    /// Predicted entities of this group that equal any gold entity.
    pub correct: u64,
    /// Predicted entities of this group.
    pub predicted: u64,
    /// Gold entities of this group that equal any predicted entity.
    pub found: u64,
    /// Gold entities of this group.
    pub gold: u64,
}

impl GroupCounts {
    /// Share of the group's predicted entities that are correct; 0 when there are none.
    pub fn precision(&self) -> f64 {
        ratio(self.correct, self.predicted)
    }

    /// Share of the group's gold entities that were found; 0 when there are none.
    pub fn recall(&self) -> f64 {
        ratio(self.found, self.gold)
    }

    /// Harmonic mean of precision and recall; 0 when both are 0.
    pub fn f1(&self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        if precision + recall == 0.0 {
            return 0.0;
        }
        2.0 * precision * recall / (precision + recall)
    }

    /// Counts a gold entity of this group.
    pub(super) fn add_gold(&mut self, found: bool) {
        self.gold += 1;
        self.found += u64::from(found);
    }

    /// Counts a predicted entity of this group.
    pub(super) fn add_predicted(&mut self, correct: bool) {
        self.predicted += 1;
        self.correct += u64::from(correct);
    }
}

/// Precision, recall, F1 and support of [`Counts`] or [`GroupCounts`]. A score that would divide by zero is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scores {
    /// `None` when nothing was predicted.
    pub precision: Option<f64>,
    /// `None` without gold entities.
    pub recall: Option<f64>,
    /// `None` without gold entities.
    pub f1: Option<f64>,
    /// Gold entities.
    pub support: u64,
}

impl Scores {
    fn new(predicted: u64, support: u64, [precision, recall, f1]: [f64; 3]) -> Self {
        Self {
            precision: (predicted > 0).then_some(precision),
            recall: (support > 0).then_some(recall),
            f1: (support > 0).then_some(f1),
            support,
        }
    }

    /// Precision, recall and F1 with 0 for undefined scores.
    pub fn or_zero(&self) -> [f64; 3] {
        [self.precision, self.recall, self.f1].map(Option::unwrap_or_default)
    }

    /// The scores as JSON, with 0 for undefined scores.
    pub fn to_json(self) -> Value {
        let [precision, recall, f1] = self.or_zero();
        json!({
            "precision": precision,
            "recall": recall,
            "f1": f1,
            "support": self.support,
        })
    }

    /// F1 minus the F1 of other scores, if both are defined.
    pub fn f1_difference(&self, other: &Scores) -> Option<f64> {
        Some(self.f1? - other.f1?)
    }
}

impl From<Counts> for Scores {
    fn from(counts: Counts) -> Self {
        let scores = [counts.precision(), counts.recall(), counts.f1()];
        Self::new(counts.predicted, counts.gold, scores)
    }
}

impl From<GroupCounts> for Scores {
    fn from(counts: GroupCounts) -> Self {
        let scores = [counts.precision(), counts.recall(), counts.f1()];
        Self::new(counts.predicted, counts.gold, scores)
    }
}

/// `part / whole`, or 0 when `whole` is 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// The items sorted, each once.
pub(super) fn sorted_distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_and_label_must_both_match() {
        let gold = [
            Entity::new(0, 2, "PER"),
            Entity::new(3, 4, "LOC"),
            Entity::new(5, 8, "ORG"),
        ];
        let predicted = [
            Entity::new(0, 2, "PER"), // correct
            Entity::new(3, 4, "ORG"), // wrong label
            Entity::new(5, 7, "ORG"), // wrong boundary
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
    fn undefined_scores_are_zero_or_none() {
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
        assert_eq!(GroupCounts::default().f1(), 0.0);
        let scores = Scores::from(Counts {
            correct: 0,
            predicted: 3,
            gold: 0,
        });
        assert_eq!(
            (scores.precision, scores.recall, scores.f1),
            (Some(0.0), None, None)
        );
        assert_eq!(scores.or_zero(), [0.0; 3]);
        let none = Scores::from(GroupCounts::default());
        assert_eq!(scores.f1_difference(&none), None);
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
    fn group_scores_divide_each_side_by_its_own_count() {
        let group = GroupCounts {
            correct: 1,
            predicted: 2,
            found: 1,
            gold: 4,
        };
        assert_eq!((group.precision(), group.recall()), (0.5, 0.25));
        assert!((group.f1() - 1.0 / 3.0).abs() < 1e-12);
    }
}
