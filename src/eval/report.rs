//! Strict scores of a corpus: over all entities, by type, by nesting and by length.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

use super::counts::{Scores, sorted_distinct};
use super::{Counts, GroupCounts};
use crate::table::Table;
use crate::text::{Entity, Mention, outermost};

/// Names of the groups that entities are sorted into by their number of words.
pub const LENGTHS: [&str; 4] = ["1", "2", "3-4", "5+"];

/// Strict evaluation of predictions against gold entities: counts over all entities and over groups of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All entities.
    pub overall: Counts,
    /// Entities by type, for every type that occurs in gold or predictions.
    pub per_type: BTreeMap<String, Counts>,
    /// Entities that share no word with another entity of their side: gold entities are compared with gold ones,
    /// predicted entities with predicted ones.
    pub flat: GroupCounts,
    /// Entities that share a word with another entity of their side (contain it, lie in it or cross it). `flat` and
    /// `nested` together are all entities.
    pub nested: GroupCounts,
    /// Entities by their number of words, in the order of [`LENGTHS`].
    pub lengths: [Counts; 4],
    /// The flat evaluation: the outermost predicted entities against the outermost gold entities.
    pub flat_view: Counts,
    /// Gold entities that no span of words equals, so no model can find them.
    pub unreachable: u64,
}

impl Report {
    /// The report on pairs of gold and predicted entities, one pair per sentence.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a [Entity], &'a [Mention])>) -> Self {
        let mut report = Self::default();
        for (gold, predicted) in pairs {
            report.add(gold, predicted);
        }
        report
    }

    /// Adds a sentence. Both sides are sets: an entity listed twice counts once.
    pub fn add(&mut self, gold: &[Entity], predicted: &[Mention]) {
        let gold = sorted_distinct(gold.iter().cloned());
        let predicted = sorted_distinct(predicted.iter().map(|mention| mention.entity.clone()));
        for (entity, nested) in gold.iter().zip(are_nested(&gold)) {
            let found = predicted.binary_search(entity).is_ok();
            self.group(nested).add_gold(found);
            self.count(
                entity,
                Counts {
                    correct: u64::from(found),
                    predicted: 0,
                    gold: 1,
                },
            );
        }
        for (entity, nested) in predicted.iter().zip(are_nested(&predicted)) {
            self.group(nested)
                .add_predicted(gold.binary_search(entity).is_ok());
            self.count(
                entity,
                Counts {
                    correct: 0, // counted on the gold side
                    predicted: 1,
                    gold: 0,
                },
            );
        }
        self.flat_view += Counts::of(&outermost(&gold), &outermost(&predicted));
    }

    /// Adds `count` gold entities that no span of words equals; they count as missed.
    ///
    /// Their length in words and their nesting are unknown, so `lengths`, `flat` and `nested` leave them out. The flat
    /// view includes all of them, so that it is not too optimistic.
    pub fn add_unreachable(&mut self, label: &str, count: u64) {
        if count == 0 {
            return;
        }
        let missed = Counts {
            gold: count,
            ..Counts::default()
        };
        self.overall += missed;
        self.flat_view += missed;
        *self.per_type.entry(label.to_owned()).or_default() += missed;
        self.unreachable += count;
    }

    /// True when any gold or predicted entity overlaps another one of its side.
    pub fn has_nesting(&self) -> bool {
        self.nested.gold + self.nested.predicted > 0
    }

    /// The report as JSON; scores are fractions in 0..=1.
    pub fn to_json(&self) -> Value {
        let scores =
            |name: &str, counts: &Counts| (name.to_owned(), Scores::from(*counts).to_json());
        let per_type: Map<String, Value> = self
            .per_type
            .iter()
            .map(|(label, counts)| scores(label, counts))
            .collect();
        let lengths: Map<String, Value> = LENGTHS
            .iter()
            .zip(&self.lengths)
            .map(|(name, counts)| scores(name, counts))
            .collect();
        json!({
            "precision": self.overall.precision(),
            "recall": self.overall.recall(),
            "f1": self.overall.f1(),
            "support": self.overall.gold,
            "correct": self.overall.correct,
            "predicted": self.overall.predicted,
            "per_type": per_type,
            "flat": Scores::from(self.flat).to_json(),
            "nested": Scores::from(self.nested).to_json(),
            "flat_view": Scores::from(self.flat_view).to_json(),
            "lengths": lengths,
        })
    }

    fn group(&mut self, nested: bool) -> &mut GroupCounts {
        if nested {
            &mut self.nested
        } else {
            &mut self.flat
        }
    }

    fn count(&mut self, entity: &Entity, counts: Counts) {
        self.overall += counts;
        self.lengths[length_group(entity.span.len())] += counts;
        match self.per_type.get_mut(&entity.label) {
            Some(known) => *known += counts,
            None => {
                self.per_type.insert(entity.label.clone(), counts);
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["type", "P", "R", "F1", "support"]).min_widths([0, 7, 7, 7, 9]);
        table.rule();
        for (label, counts) in &self.per_type {
            table.row(row(label, (*counts).into()));
        }
        if !self.per_type.is_empty() {
            table.rule();
        }
        table.row(row("micro", self.overall.into()));
        if self.has_nesting() {
            // Without nesting these rows would only repeat the first.
            table.row(row("flat", self.flat.into()));
            table.row(row("nested", self.nested.into()));
            table.row(row("flat view", self.flat_view.into()));
        }
        write!(f, "{table}")?;
        match unreachable_note(self.unreachable) {
            Some(note) => write!(f, "\n{note}"),
            None => Ok(()),
        }
    }
}

/// A row of the printed table: the name, scores in percent, and the support.
fn row(name: &str, scores: Scores) -> Vec<String> {
    let percent = scores
        .or_zero()
        .map(|score| format!("{:.2}", 100.0 * score));
    let mut cells = vec![name.to_owned()];
    cells.extend(percent);
    cells.push(scores.support.to_string());
    cells
}

/// A sentence about gold entities that no span of words equals; `None` when there are none.
pub(super) fn unreachable_note(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some(
            "1 gold entity does not align with word boundaries, or has several parts, and counts as missed"
                .to_owned(),
        ),
        count => Some(format!(
            "{count} gold entities do not align with word boundaries, or have several parts, and count as missed"
        )),
    }
}

/// [`crate::text::is_nested`] for each of the sorted, distinct entities, in one pass: an untrained span model can
/// predict every span of a sentence, and comparing all pairs would be slow.
fn are_nested(entities: &[Entity]) -> impl Iterator<Item = bool> {
    let mut furthest_end = 0; // of the entities so far
    entities.iter().enumerate().map(move |(index, entity)| {
        let next = entities.get(index + 1);
        let nested = furthest_end > entity.span.start
            || next.is_some_and(|next| next.span.start < entity.span.end);
        furthest_end = furthest_end.max(entity.span.end);
        nested
    })
}

/// Index in [`LENGTHS`] for an entity with this number of words.
fn length_group(words: usize) -> usize {
    match words {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::eval::test_data::{any_entities, mentions};
    use crate::text::is_nested;

    fn report(gold: &[Entity], predicted: &[Entity]) -> Report {
        Report::of([(gold, mentions(predicted).as_slice())])
    }

    fn counts(correct: u64, predicted: u64, gold: u64) -> Counts {
        Counts {
            correct,
            predicted,
            gold,
        }
    }

    /// Gold has a LOC inside an ORG; the prediction finds only the LOC, and two crossing PERs where gold has one.
    fn nested_example() -> Report {
        let gold = [
            Entity::new(0, 5, "ORG"),
            Entity::new(2, 3, "LOC"),
            Entity::new(6, 8, "PER"),
            Entity::new(9, 10, "LOC"),
        ];
        let predicted = [
            Entity::new(2, 3, "LOC"), // correct, nested in gold, flat here
            Entity::new(6, 8, "PER"), // correct, flat in gold, nested here
            Entity::new(7, 9, "PER"), // wrong
            Entity::new(6, 8, "PER"), // a duplicate
        ];
        report(&gold, &predicted)
    }

    #[test]
    fn counts_equal_those_made_by_hand() {
        let report = nested_example();
        assert_eq!(report.overall, counts(2, 3, 4));
        assert_eq!(report.per_type["ORG"], counts(0, 0, 1));
        assert_eq!(report.per_type["LOC"], counts(1, 1, 2));
        assert_eq!(report.per_type["PER"], counts(1, 2, 1));
        let nested = report.nested;
        assert_eq!((nested.found, nested.gold), (1, 2));
        assert_eq!((nested.correct, nested.predicted), (1, 2));
        let flat = report.flat;
        assert_eq!((flat.found, flat.gold), (1, 2));
        assert_eq!((flat.correct, flat.predicted), (1, 1));
        assert_eq!(
            report.lengths,
            [
                counts(1, 1, 2),
                counts(1, 2, 1),
                counts(0, 0, 0),
                counts(0, 0, 1)
            ]
        );
        // Outermost gold: ORG, PER, LOC at 9; outermost predictions: LOC at 2, PER at 6.
        assert_eq!(report.flat_view, counts(1, 2, 3));
    }

    #[test]
    fn flat_view_does_not_depend_on_the_order() {
        let one = [Entity::new(0, 2, "B"), Entity::new(0, 2, "A")];
        let other = [Entity::new(0, 2, "A"), Entity::new(0, 2, "B")];
        assert_eq!(report(&one, &other).flat_view, counts(1, 1, 1));
    }

    #[test]
    fn entities_of_different_sentences_do_not_match() {
        let here = [Entity::new(0, 1, "PER")];
        let found = mentions(&here);
        let report = Report::of([(&here[..], &[][..]), (&[][..], &found[..])]);
        assert_eq!(report.overall, counts(0, 1, 1));
        assert!(!report.has_nesting());
    }

    #[test]
    fn unreachable_gold_lowers_recall_only() {
        let gold = [Entity::new(0, 1, "PER")];
        let mut report = report(&gold, &gold);
        report.add_unreachable("PER", 2);
        report.add_unreachable("LOC", 1);
        report.add_unreachable("ORG", 0);
        assert_eq!(report.overall, counts(1, 1, 4));
        assert_eq!(report.per_type["PER"], counts(1, 1, 3));
        assert_eq!(report.per_type["LOC"], counts(0, 0, 1));
        assert!(!report.per_type.contains_key("ORG"));
        assert_eq!(report.flat_view, counts(1, 1, 4));
        assert_eq!(report.flat.gold, 1);
        assert!(
            report.to_string().ends_with(
                "\n3 gold entities do not align with word boundaries, or have several parts, and count as missed"
            )
        );
    }

    #[test]
    fn table_is_aligned() {
        let expected = "\
type             P        R       F1    support
-----------------------------------------------
LOC         100.00    50.00    66.67          2
ORG           0.00     0.00     0.00          1
PER          50.00   100.00    66.67          1
-----------------------------------------------
micro        66.67    50.00    57.14          4
flat        100.00    50.00    66.67          2
nested       50.00    50.00    50.00          2
flat view    50.00    33.33    40.00          3";
        assert_eq!(nested_example().to_string(), expected);
    }

    #[test]
    fn table_without_nesting_has_no_nesting_rows() {
        let expected = "\
type         P        R       F1    support
-------------------------------------------
micro     0.00     0.00     0.00          0";
        assert_eq!(Report::default().to_string(), expected);
        let gold = [Entity::new(0, 1, "Größe"), Entity::new(1, 2, "X")];
        let table = report(&gold, &gold).to_string();
        assert!(!table.contains("flat") && !table.contains("nested"));
        let first = table.lines().next().map(|line| line.chars().count());
        assert!(
            table
                .lines()
                .all(|line| Some(line.chars().count()) == first)
        );
    }

    #[test]
    fn json_has_the_documented_keys() {
        let json = nested_example().to_json();
        let mut keys: Vec<&str> = json
            .as_object()
            .expect("an object")
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "correct",
                "f1",
                "flat",
                "flat_view",
                "lengths",
                "nested",
                "per_type",
                "precision",
                "predicted",
                "recall",
                "support"
            ]
        );
        assert_eq!(json["recall"], 0.5);
        assert_eq!(json["support"], 4);
        assert_eq!(
            json["per_type"]["LOC"],
            json!({"precision": 1.0, "recall": 0.5, "f1": 2.0 / 3.0, "support": 2})
        );
        assert_eq!(json["lengths"]["5+"]["support"], 1);
        assert_eq!(json["nested"]["f1"], 0.5);
        assert_eq!(json["flat_view"]["f1"], 0.4);
    }

    proptest! {
        #[test]
        fn nesting_agrees_with_the_pairwise_definition(entities in any_entities()) {
            let entities = sorted_distinct(entities);
            let slow: Vec<bool> = entities.iter().map(|entity| is_nested(entity, &entities)).collect();
            prop_assert_eq!(are_nested(&entities).collect::<Vec<_>>(), slow);
        }

        #[test]
        fn groups_add_up_to_the_total(gold in any_entities(), predicted in any_entities()) {
            let report = report(&gold, &predicted);
            let total = Counts::of(&gold, &predicted);
            prop_assert_eq!(report.overall, total);
            prop_assert_eq!(report.per_type.values().copied().sum::<Counts>(), total);
            prop_assert_eq!(report.lengths.into_iter().sum::<Counts>(), total);
            prop_assert_eq!(report.flat.gold + report.nested.gold, total.gold);
            prop_assert_eq!(report.flat.found + report.nested.found, total.correct);
            prop_assert_eq!(report.flat.predicted + report.nested.predicted, total.predicted);
            prop_assert_eq!(report.flat.correct + report.nested.correct, total.correct);
        }
    }
}
