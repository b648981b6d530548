//! The scores of a corpus: all entities, each type, flat and nested ones, short and long ones.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::{Counts, Split};
use crate::text::{Entity, Mention, outermost};

/// Names of the groups of entities by their number of words.
pub const LENGTHS: [&str; 4] = ["1", "2", "3-4", "5+"];

/// Strict scores of predictions against gold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// All entities.
    pub overall: Counts,
    /// The entities of each type that is gold or was predicted.
    pub per_type: BTreeMap<String, Counts>,
    /// Entities that share no word with another one: gold ones by their neighbours among the gold entities,
    /// predicted ones by theirs among the predicted.
    pub flat: Split,
    /// Entities that share a word with another one (they contain it, lie in it or cross it), each side by its own
    /// neighbours as for `flat`. The two together are all entities.
    pub nested: Split,
    /// Entities by their number of words, in the order of [`LENGTHS`].
    pub lengths: [Counts; 4],
    /// What a flat evaluation sees: the outermost predicted entities against the outermost gold ones.
    pub flat_view: Counts,
    /// Gold entities that no span of words equals, so that no model can find them.
    pub unreachable: u64,
}

impl Report {
    /// The report on pairs of gold and predicted entities, a pair for each sentence.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a [Entity], &'a [Mention])>) -> Self {
        let mut report = Self::default();
        for (gold, predicted) in pairs {
            report.add(gold, predicted);
        }
        report
    }

    /// Adds a sentence. Both sides are sets: an entity listed twice counts once.
    pub fn add(&mut self, gold: &[Entity], predicted: &[Mention]) {
        let gold = distinct(gold);
        let predicted = distinct(predicted.iter().map(|mention| &mention.entity));
        for (entity, nested) in gold.iter().zip(nesting(&gold)) {
            let found = predicted.binary_search(entity).is_ok();
            self.split(nested).add_gold(found);
            self.count(
                entity,
                Counts {
                    correct: u64::from(found),
                    predicted: 0,
                    gold: 1,
                },
            );
        }
        for (entity, nested) in predicted.iter().zip(nesting(&predicted)) {
            self.split(nested)
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
    /// Their length in words and their nesting are unknown, so `lengths`, `flat` and `nested` leave them out; the
    /// flat view takes all of them, lest it look better than it is.
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

    /// True when a gold or predicted entity overlaps another of its side.
    pub fn has_nesting(&self) -> bool {
        self.nested.gold + self.nested.predicted > 0
    }

    /// The report as JSON; scores are fractions in 0..=1.
    pub fn to_json(&self) -> Value {
        let per_type: serde_json::Map<String, Value> = self
            .per_type
            .iter()
            .map(|(label, counts)| (label.clone(), Row::from(counts).to_json()))
            .collect();
        let lengths: serde_json::Map<String, Value> = LENGTHS
            .iter()
            .zip(&self.lengths)
            .map(|(name, counts)| ((*name).to_owned(), Row::from(counts).to_json()))
            .collect();
        json!({
            "precision": self.overall.precision(),
            "recall": self.overall.recall(),
            "f1": self.overall.f1(),
            "support": self.overall.gold,
            "correct": self.overall.correct,
            "predicted": self.overall.predicted,
            "per_type": per_type,
            "flat": Row::from(&self.flat).to_json(),
            "nested": Row::from(&self.nested).to_json(),
            "flat_view": Row::from(&self.flat_view).to_json(),
            "lengths": lengths,
        })
    }

    fn split(&mut self, nested: bool) -> &mut Split {
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
        let types: Vec<(&str, Row)> = self
            .per_type
            .iter()
            .map(|(label, counts)| (label.as_str(), Row::from(counts)))
            .collect();
        let mut totals = vec![("micro", Row::from(&self.overall))];
        if self.has_nesting() {
            // Without nesting these lines would only repeat the total.
            totals.push(("flat", Row::from(&self.flat)));
            totals.push(("nested", Row::from(&self.nested)));
            totals.push(("flat view", Row::from(&self.flat_view)));
        }
        let width = types
            .iter()
            .chain(&totals)
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let head = format!(
            "{:width$}  {:>7}  {:>7}  {:>7}  {:>9}",
            "type", "P", "R", "F1", "support"
        );
        let rule = "-".repeat(head.chars().count());
        writeln!(f, "{head}\n{rule}")?;
        for (name, row) in &types {
            writeln!(f, "{name:width$}  {row}")?;
        }
        if !types.is_empty() {
            writeln!(f, "{rule}")?;
        }
        let totals: Vec<String> = totals
            .iter()
            .map(|(name, row)| format!("{name:width$}  {row}"))
            .collect();
        f.write_str(&totals.join("\n"))?;
        match self.unreachable {
            0 => Ok(()),
            1 => write!(
                f,
                "\n1 gold entity is no span of words and counts as missed"
            ),
            count => write!(
                f,
                "\n{count} gold entities are no spans of words and count as missed"
            ),
        }
    }
}

/// The scores of a line of the table, however they were counted.
struct Row {
    precision: f64,
    recall: f64,
    f1: f64,
    support: u64,
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "support": self.support,
        })
    }
}

impl From<&Counts> for Row {
    fn from(counts: &Counts) -> Self {
        Self {
            precision: counts.precision(),
            recall: counts.recall(),
            f1: counts.f1(),
            support: counts.gold,
        }
    }
}

impl From<&Split> for Row {
    fn from(split: &Split) -> Self {
        Self {
            precision: split.precision(),
            recall: split.recall(),
            f1: split.f1(),
            support: split.gold,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7.2}  {:>7.2}  {:>7.2}  {:>9}",
            100.0 * self.precision,
            100.0 * self.recall,
            100.0 * self.f1,
            self.support
        )
    }
}

/// The entities sorted, each once.
fn distinct<'a>(entities: impl IntoIterator<Item = &'a Entity>) -> Vec<Entity> {
    let mut entities: Vec<Entity> = entities.into_iter().cloned().collect();
    entities.sort_unstable();
    entities.dedup();
    entities
}

/// For each of the distinct, sorted entities what [`crate::text::is_nested`] says of it, in one pass: an untrained
/// span model can predict every span of a sentence, too many to compare each with each.
fn nesting(entities: &[Entity]) -> impl Iterator<Item = bool> {
    let mut covered = 0; // one past the last word of the entities so far
    entities.iter().enumerate().map(move |(index, entity)| {
        let follower = entities.get(index + 1);
        let nested = covered > entity.span.start
            || follower.is_some_and(|next| next.span.start < entity.span.end);
        covered = covered.max(entity.span.end);
        nested
    })
}

/// Which of [`LENGTHS`] an entity of so many words belongs to.
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
    use crate::text::is_nested;

    fn mentions(entities: &[Entity]) -> Vec<Mention> {
        entities
            .iter()
            .map(|entity| Mention {
                entity: entity.clone(),
                score: 0.5,
            })
            .collect()
    }

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

    /// Gold nests a LOC in an ORG; the prediction finds the LOC alone, and crosses two PERs over one gold.
    fn nested_example() -> Report {
        let gold = [
            Entity::new(0, 5, "ORG"),
            Entity::new(2, 3, "LOC"),
            Entity::new(6, 8, "PER"),
            Entity::new(9, 10, "LOC"),
        ];
        let predicted = [
            Entity::new(2, 3, "LOC"), // right, nested in gold, flat here
            Entity::new(6, 8, "PER"), // right, flat in gold, nested here
            Entity::new(7, 9, "PER"), // wrong
            Entity::new(6, 8, "PER"), // said before
        ];
        report(&gold, &predicted)
    }

    #[test]
    fn parts_are_counted_by_hand() {
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
    fn flat_views_agree_whatever_the_order() {
        let one = [Entity::new(0, 2, "B"), Entity::new(0, 2, "A")];
        let other = [Entity::new(0, 2, "A"), Entity::new(0, 2, "B")];
        assert_eq!(report(&one, &other).flat_view, counts(1, 1, 1));
    }

    #[test]
    fn sentences_are_counted_apart() {
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
            report
                .to_string()
                .ends_with("\n3 gold entities are no spans of words and count as missed")
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
    fn table_of_nothing_and_of_flat_text_has_no_nesting_lines() {
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
    fn json_has_the_promised_keys() {
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

    fn some_entities() -> impl Strategy<Value = Vec<Entity>> {
        let entity = (0usize..12, 1usize..7, "[AB]")
            .prop_map(|(start, length, label)| Entity::new(start, start + length, label));
        prop::collection::vec(entity, 0..12)
    }

    proptest! {
        #[test]
        fn nesting_is_what_text_says(entities in some_entities()) {
            let entities = distinct(&entities);
            let slow: Vec<bool> = entities.iter().map(|entity| is_nested(entity, &entities)).collect();
            prop_assert_eq!(nesting(&entities).collect::<Vec<_>>(), slow);
        }

        #[test]
        fn parts_add_up_to_the_whole(gold in some_entities(), predicted in some_entities()) {
            let report = report(&gold, &predicted);
            let whole = Counts::of(&gold, &predicted);
            prop_assert_eq!(report.overall, whole);
            prop_assert_eq!(report.per_type.values().copied().sum::<Counts>(), whole);
            prop_assert_eq!(report.lengths.into_iter().sum::<Counts>(), whole);
            prop_assert_eq!(report.flat.gold + report.nested.gold, whole.gold);
            prop_assert_eq!(report.flat.found + report.nested.found, whole.correct);
            prop_assert_eq!(report.flat.predicted + report.nested.predicted, whole.predicted);
            prop_assert_eq!(report.flat.correct + report.nested.correct, whole.correct);
        }
    }
}
