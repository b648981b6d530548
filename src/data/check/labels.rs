//! Types that differ only in case, separators or one letter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

/// Types of a corpus beyond which names are not compared, and which is reported.
pub(super) const MANY_TYPES: usize = 500;
/// Shorter parts of names are not compared: `DNA` and `RNA` are different types.
const SHORTEST: usize = 5;
/// Names of which a part is at least so long are compared whatever their counts are.
const LONG: usize = 8;
/// Most types that are compared with each other because they share all letters but one.
const MOST_ALIKE: usize = 8;

/// Why types are similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// They differ in case or separators only.
    Case,
    /// They differ in one letter.
    Spelling,
}

/// Types with similar names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimilarLabels {
    /// In what they differ.
    pub differ_in: Similarity,
    /// The types with their numbers of entities, the commonest first.
    pub labels: Vec<(String, usize)>,
}

impl SimilarLabels {
    /// The types and their counts on one line.
    pub(super) fn text(&self) -> String {
        let each = self
            .labels
            .iter()
            .map(|(label, count)| format!("`{label}` ({count})"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Finds types with similar names, given the number of entities of each.
pub(super) fn similar(types: &BTreeMap<String, usize>) -> Vec<SimilarLabels> {
    if types.len() > MANY_TYPES {
        return Vec::new();
    }
    let mut variants = variants(types);
    let mut found: Vec<SimilarLabels> = Vec::new();
    for labels in variants.values_mut() {
        labels.sort_by_key(|(label, count)| (Reverse(*count), label.clone()));
        if labels.len() > 1 {
            found.push(SimilarLabels {
                differ_in: Similarity::Case,
                labels: labels.clone(),
            });
        }
    }
    // For spelling, the variants of a name are one type with the commonest name.
    let names: Vec<(String, usize)> = (variants.values())
        .map(|labels| {
            (
                labels[0].0.clone(),
                labels.iter().map(|(_, count)| count).sum(),
            )
        })
        .collect();
    for (one, other) in misspelt(&names) {
        let mut labels = vec![names[one].clone(), names[other].clone()];
        labels.sort_by_key(|(label, count)| (Reverse(*count), label.clone()));
        found.push(SimilarLabels {
            differ_in: Similarity::Spelling,
            labels,
        });
    }
    found
}

/// The commonest variant of every type that has a commoner one; of equal ones the first in the alphabet.
pub(super) fn unified(types: &BTreeMap<String, usize>) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for labels in variants(types).into_values() {
        let Some((best, _)) = labels
            .iter()
            .min_by_key(|(label, count)| (Reverse(*count), label))
        else {
            continue;
        };
        // The name is free of the white space around it.
        let name = best.trim().to_string();
        for (label, _) in labels {
            if label != name {
                names.insert(label, name.clone());
            }
        }
    }
    names
}

/// The types by their name without case and separators.
fn variants(types: &BTreeMap<String, usize>) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut variants: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for (label, count) in types {
        let key = parts(label).concat();
        variants
            .entry(key)
            .or_default()
            .push((label.clone(), *count));
    }
    variants
}

/// The parts of a name between separators, in lower case. Separators are removed only between letters and digits, so `C-`
/// and `C` stay different.
fn parts(label: &str) -> Vec<String> {
    let characters: Vec<char> = label.trim().chars().collect();
    let is_letter = |at: Option<&char>| at.is_some_and(|character| character.is_alphanumeric());
    let mut parts = vec![String::new()];
    for (index, character) in characters.iter().enumerate() {
        let is_separator = matches!(character, '-' | '_' | ' ' | '.' | '/' | ':')
            && index > 0
            && is_letter(characters.get(index - 1))
            && is_letter(characters.get(index + 1));
        if is_separator {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.extend(character.to_lowercase());
        }
    }
    parts
}

/// Pairs of names of which one part differs in one letter. Such names share a form with one letter removed, so only names
/// with the same form are compared.
fn misspelt(names: &[(String, usize)]) -> BTreeSet<(usize, usize)> {
    let parts: Vec<Vec<String>> = names.iter().map(|(name, _)| parts(name)).collect();
    let mut forms: HashMap<(usize, Vec<&str>, String), Vec<usize>> = HashMap::new();
    let mut pairs = BTreeSet::new();
    for (index, own) in parts.iter().enumerate() {
        for (at, part) in own.iter().enumerate() {
            let letters: Vec<char> = part.chars().collect();
            if letters.len() + 1 < SHORTEST || letters.len() > 64 {
                continue;
            }
            let others: Vec<&str> = (own.iter().enumerate())
                .filter(|(other, _)| *other != at)
                .map(|(_, part)| part.as_str())
                .collect();
            let without = |removed: usize| {
                let kept = letters
                    .iter()
                    .enumerate()
                    .filter(move |(index, _)| *index != removed);
                kept.map(|(_, letter)| letter).collect::<String>()
            };
            let own_forms: BTreeSet<String> = (0..=letters.len()).map(without).collect();
            for form in own_forms {
                let alike = forms.entry((at, others.clone(), form)).or_default();
                for other in alike.iter() {
                    if *other != index
                        && is_misspelt(&names[index], &names[*other], part, &parts[*other][at])
                    {
                        pairs.insert((*other, index));
                    }
                }
                if alike.len() < MOST_ALIKE {
                    alike.push(index);
                }
            }
        }
    }
    pairs
}

/// True when two parts of names differ in one letter, and the rarer name is not an established one.
fn is_misspelt(
    one: &(String, usize),
    other: &(String, usize),
    part: &str,
    other_part: &str,
) -> bool {
    let digits = |part: &str| {
        part.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    let shortest = part.chars().count().min(other_part.chars().count());
    let (rare, common) = (one.1.min(other.1), one.1.max(other.1));
    shortest >= SHORTEST
        && digits(part) == digits(other_part)
        && strsim::damerau_levenshtein(part, other_part) == 1
        && (shortest >= LONG || rare <= 3 || rare * 5 <= common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(list: &[(&str, usize)]) -> BTreeMap<String, usize> {
        list.iter()
            .map(|(label, count)| (label.to_string(), *count))
            .collect()
    }

    fn found(list: &[(&str, usize)]) -> Vec<(Similarity, String)> {
        let found = similar(&types(list)).into_iter();
        found.map(|one| (one.differ_in, one.text())).collect()
    }

    #[test]
    fn case_separators_and_typos_are_found() {
        let list = [
            ("PER", 50),
            ("Per", 2),
            ("per ", 1),
            ("creative-work", 9),
            ("creative_work", 3),
        ];
        let expected = [
            (
                Similarity::Case,
                "`creative-work` (9), `creative_work` (3)".to_string(),
            ),
            (
                Similarity::Case,
                "`PER` (50), `Per` (2), `per ` (1)".to_string(),
            ),
        ];
        assert_eq!(found(&list), expected);
        for (one, other) in [
            ("PERSON", "PRESON"),
            ("PERSON", "PERSO"),
            ("PERSON", "PERSONS"),
            ("Organisation", "organization"),
            ("bio.protein", "bio.protien"),
            ("Straße", "Strasse"),
        ] {
            let similar = found(&[(one, 100), (other, 2)]);
            assert_eq!(similar.len(), usize::from(one != "Straße"), "{one} {other}");
        }
        assert_eq!(
            found(&[("PERSON", 9), ("person", 2), ("PRESON", 1)]).len(),
            2
        );
    }

    #[test]
    fn established_types_are_not_misspelt() {
        for list in [
            [("DNA", 900), ("RNA", 90)],
            [("PER.NAM", 205), ("PER.NOM", 8)],
            [("LEVEL1", 5), ("LEVEL2", 5)],
            [("C", 5), ("C-", 5)],
            [("A+", 5), ("A-", 5)],
            [("sender", 400), ("gender", 300)],
        ] {
            assert_eq!(found(&list), [], "{list:?}");
        }
    }

    #[test]
    fn labels_are_unified_to_the_commonest() {
        let map = unified(&types(&[
            ("PER", 5),
            ("Per", 7),
            (" per", 1),
            ("LOC", 1),
            ("loc", 1),
            (" X", 3),
            ("C-", 1),
        ]));
        let mut pairs: Vec<(&str, &str)> =
            map.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        pairs.sort();
        assert_eq!(
            pairs,
            [(" X", "X"), (" per", "Per"), ("PER", "Per"), ("loc", "LOC")]
        );
    }

    #[test]
    fn many_types_take_little_time() {
        let many: BTreeMap<String, usize> = (0..MANY_TYPES)
            .map(|n| (format!("typename{}", "x".repeat(n % 60)), 1))
            .collect();
        similar(&many);
        let beyond: BTreeMap<String, usize> = (0..2 * MANY_TYPES)
            .map(|n| (format!("type{n}"), 1))
            .collect();
        assert!(similar(&beyond).is_empty());
    }
}
