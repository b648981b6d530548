//! Imbalance: rare types, types that are missing in a file, sentences without entities.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::bounds::EntityCounts;
use super::finding::{FindingKind, Findings};
use super::labels::MANY_TYPES;
use crate::data::stats::share;

/// Types with fewer entities are rare if others are common.
const FEW: usize = 10;
/// A type is rare if the commonest has so many times its entities.
const TIMES: usize = 100;
/// The share of sentences without entities from which on it is reported, and the fewest sentences.
const MOST_WITHOUT: f64 = 0.8;
const FEWEST_SENTENCES: usize = 20;

/// Adds the findings about types and sentences. `by_file` are the types of each file.
pub(super) fn inspect(
    counts: &EntityCounts,
    by_file: &[(PathBuf, BTreeMap<String, usize>)],
    findings: &mut Findings,
) {
    let most = counts.types.values().copied().max().unwrap_or(0);
    if counts.types.len() > MANY_TYPES {
        findings.add_general(
            FindingKind::ManyTypes,
            format!("{} types", counts.types.len()),
        );
    }
    let mut by_count: Vec<(&String, usize)> = counts
        .types
        .iter()
        .map(|(label, count)| (label, *count))
        .collect();
    by_count.sort_by_key(|(label, count)| (*count, *label));
    for (label, count) in by_count {
        let is_tag = label == "O"
            || label.starts_with("B-")
            || label.starts_with("I-")
            || label.contains('|');
        if is_tag {
            findings.add_general(
                FindingKind::TagAsLabel,
                format!("`{label}` ({count} entities)"),
            );
        }
        if (count < FEW && count.saturating_mul(10) <= most) || count.saturating_mul(TIMES) <= most
        {
            let text = format!("`{label}` has {count} of {} entities", counts.entities());
            findings.add_general(FindingKind::RareType, text);
        }
    }
    if let Some(((first, known), others)) = by_file.split_first()
        && !known.is_empty()
    {
        let mut missing: BTreeSet<&String> = BTreeSet::new();
        for (file, types) in others {
            for (label, count) in types
                .iter()
                .filter(|(label, _)| !known.contains_key(*label))
            {
                if missing.insert(label) {
                    let (file, first) = (file.display(), first.display());
                    let text = format!("`{label}` ({count} entities in {file}, none in {first})");
                    findings.add_general(FindingKind::MissingType, text);
                }
            }
        }
    }
    let without = share(counts.without_entities, counts.sentences);
    if counts.entities() > 0 && counts.sentences >= FEWEST_SENTENCES && without > MOST_WITHOUT {
        let text = format!(
            "{} of {} sentences ({:.1} %)",
            counts.without_entities,
            counts.sentences,
            100.0 * without
        );
        findings.add_general(FindingKind::FewAnnotations, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Entity, Sentence};

    fn of(labels: &[(&str, usize)], empty: usize) -> (EntityCounts, BTreeMap<String, usize>) {
        let mut counts = EntityCounts::default();
        for (label, count) in labels {
            for _ in 0..*count {
                let mut sentence = Sentence::from_words(["a"]);
                sentence.entities = vec![Entity::new(0, 1, *label)];
                counts.add(&sentence);
            }
        }
        for _ in 0..empty {
            counts.add(&Sentence::from_words(["a"]));
        }
        let types = counts.types.clone();
        (counts, types)
    }

    fn found(labels: &[(&str, usize)], empty: usize) -> Vec<(FindingKind, Vec<String>)> {
        let mut findings = Findings::default();
        inspect(&of(labels, empty).0, &[], &mut findings);
        let list = findings.into_list().into_iter();
        list.map(|finding| {
            (
                finding.kind,
                finding.examples.into_iter().map(|e| e.text).collect(),
            )
        })
        .collect()
    }

    #[test]
    fn rare_types_and_missing_annotations_are_found() {
        assert_eq!(found(&[("A", 30), ("B", 25)], 10), []);
        let rare = found(&[("A", 900), ("B", 30), ("C", 2), ("D", 8)], 0);
        let texts = ["`C` has 2 of 940 entities", "`D` has 8 of 940 entities"];
        assert_eq!(
            rare,
            [(FindingKind::RareType, texts.map(String::from).to_vec())]
        );
        assert_eq!(
            found(&[("A", 5)], 95)[0].1,
            ["95 of 100 sentences (95.0 %)"]
        );
        assert_eq!(found(&[], 100), []);
        let tags = found(&[("I-ORG|B-LOC", 20), ("B-PER", 20)], 0);
        assert_eq!((tags[0].0, tags[0].1.len()), (FindingKind::TagAsLabel, 2));
    }

    #[test]
    fn types_that_the_first_file_lacks_are_found() {
        let (counts, types) = of(&[("A", 20)], 0);
        let other = BTreeMap::from([("A".to_string(), 1), ("B".to_string(), 3)]);
        let mut findings = Findings::default();
        let files = [
            ("train".into(), types),
            ("dev".into(), other.clone()),
            ("test".into(), other),
        ];
        inspect(&counts, &files, &mut findings);
        let list = findings.into_list();
        assert_eq!(
            list[0].examples[0].text,
            "`B` (3 entities in dev, none in train)"
        );
        assert_eq!((list.len(), list[0].count), (1, 1));
    }
}
