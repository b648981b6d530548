//! The same words with different annotations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::SHOWN;
use super::finding::excerpt;
use super::index::{CorpusIndex, IndexedEntity};
use crate::error::Location;

/// Longer entities are not compared; they rarely occur twice.
const LONGEST: u32 = 12;
/// How many word sequences are listed.
const LISTED: usize = 20;

/// Word sequences that are annotated in different ways.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Inconsistencies {
    /// How many different word sequences there are.
    pub surfaces: usize,
    /// The twenty most one-sided: where one reading is common and another rare, the rare one is likely a mistake.
    pub worst: Vec<Inconsistency>,
}

/// A word sequence that is annotated in different ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inconsistency {
    /// The words, joined by spaces.
    pub surface: String,
    /// The readings, the commonest first.
    pub readings: Vec<Reading>,
}

/// One way in which words are annotated.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The type, or several joined by ` + `; `None` where the words are not annotated and no entity covers one of them.
    pub label: Option<String>,
    /// How often.
    pub count: usize,
    /// The first places, up to three.
    pub locations: Vec<Location>,
}

impl Serialize for Reading {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place =
            |location: &Location| serde_json::json!({"file": location.file, "line": location.line});
        let places: Vec<_> = self.locations.iter().map(place).collect();
        let mut fields = serializer.serialize_struct("Reading", 3)?;
        fields.serialize_field("label", &self.label)?;
        fields.serialize_field("count", &self.count)?;
        fields.serialize_field("locations", &places)?;
        fields.end()
    }
}

impl Inconsistency {
    /// The readings on one line, each with its first place.
    pub(super) fn text(&self) -> String {
        let reading = |reading: &Reading| {
            let label = reading.label.as_deref().unwrap_or("not annotated");
            let at = reading
                .locations
                .first()
                .map(|location| format!(" ({location})"));
            format!("{label} {}{}", reading.count, at.unwrap_or_default())
        };
        let readings: Vec<String> = self.readings.iter().map(reading).collect();
        format!("`{}`: {}", excerpt(&self.surface, 60), readings.join(", "))
    }
}

/// Number of occurrences and the first sentences of a reading.
#[derive(Default)]
struct Occurrences {
    count: usize,
    sentences: Vec<usize>,
}

impl Occurrences {
    fn add(&mut self, sentence: usize) {
        self.count += 1;
        if self.sentences.len() < SHOWN {
            self.sentences.push(sentence);
        }
    }
}

/// The readings of one word sequence by the numbers of their types; without types where it is not annotated.
type Readings = BTreeMap<Vec<u32>, Occurrences>;

/// Finds word sequences that are annotated in different ways. Time is linear in the number of words.
pub(super) fn inconsistent(index: &CorpusIndex) -> Inconsistencies {
    let mut surfaces: HashMap<Box<[u32]>, Readings> = HashMap::new();
    // Lengths of entities by their first word, as bits.
    let mut lengths: HashMap<u32, u32> = HashMap::new();
    let mut sorted: Vec<IndexedEntity> = Vec::new();
    for (number, sentence) in index.sentences.iter().enumerate() {
        let words = index.words_of(sentence);
        sort_short(index.entities_of(sentence), &mut sorted);
        for same_span in sorted.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)) {
            let (start, end, _) = same_span[0];
            let surface = &words[start as usize..end as usize];
            *lengths.entry(surface[0]).or_default() |= 1 << (end - start);
            let labels: Vec<u32> = same_span.iter().map(|(_, _, label)| *label).collect();
            if !surfaces.contains_key(surface) {
                surfaces.insert(surface.into(), Readings::new());
            }
            if let Some(readings) = surfaces.get_mut(surface) {
                readings.entry(labels).or_default().add(number);
            }
        }
    }
    let mut covered: Vec<bool> = Vec::new();
    for (number, sentence) in index.sentences.iter().enumerate() {
        let words = index.words_of(sentence);
        mark_covered(index.entities_of(sentence), words.len(), &mut covered);
        for start in 0..words.len() {
            let mut bits = lengths.get(&words[start]).copied().unwrap_or(0);
            while bits != 0 {
                let length = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some(surface) = words.get(start..start + length) else {
                    break;
                };
                if covered[start..start + length].contains(&true) {
                    break; // and so are longer ones
                }
                if let Some(readings) = surfaces.get_mut(surface) {
                    readings.entry(Vec::new()).or_default().add(number);
                }
            }
        }
    }
    surfaces.retain(|_, readings| readings.len() > 1);
    let mut ranked: Vec<(&Box<[u32]>, &Readings)> = surfaces.iter().collect();
    // One sort key for each: the order must not depend on the hash map.
    ranked.sort_by_cached_key(|(surface, readings)| {
        let counts = || readings.values().map(|reading| reading.count);
        let total: usize = counts().sum();
        let most = counts().max().unwrap_or(0);
        // The share of the commonest reading; two occurrences of others are assumed, so that 50 : 1 comes before 2 : 1.
        let share = most as u64 * 1_000_000 / (total as u64 + 2);
        (Reverse(share), index.text(surface))
    });
    ranked.truncate(LISTED);
    let worst = ranked
        .into_iter()
        .map(|(surface, readings)| describe(index, surface, readings))
        .collect();
    Inconsistencies {
        surfaces: surfaces.len(),
        worst,
    }
}

/// The entities that are compared, sorted, without repeated ones.
fn sort_short(entities: &[IndexedEntity], sorted: &mut Vec<IndexedEntity>) {
    sorted.clear();
    sorted.extend(
        entities
            .iter()
            .filter(|(start, end, _)| start < end && end - start <= LONGEST),
    );
    sorted.sort_unstable();
    sorted.dedup();
}

fn mark_covered(entities: &[IndexedEntity], words: usize, covered: &mut Vec<bool>) {
    covered.clear();
    covered.resize(words, false);
    let mut spans: Vec<(u32, u32)> = entities
        .iter()
        .map(|(start, end, _)| (*start, *end))
        .collect();
    spans.sort_unstable();
    let mut from = 0;
    for (start, end) in spans {
        // Words before `from` are marked already, so each is marked once.
        let (start, end) = ((start as usize).max(from), (end as usize).min(words));
        if start < end {
            covered[start..end].fill(true);
            from = end;
        }
    }
}

fn describe(index: &CorpusIndex, surface: &[u32], readings: &Readings) -> Inconsistency {
    let mut list: Vec<Reading> = (readings.iter())
        .map(|(labels, occurrences)| {
            let names: BTreeSet<&str> = labels
                .iter()
                .map(|label| index.labels.text(*label))
                .collect();
            let names: Vec<&str> = names.into_iter().collect();
            let sentences = occurrences.sentences.iter();
            Reading {
                label: (!names.is_empty()).then(|| names.join(" + ")),
                count: occurrences.count,
                locations: sentences
                    .map(|sentence| index.location(&index.sentences[*sentence]))
                    .collect(),
            }
        })
        .collect();
    list.sort_by(|one, other| (other.count, &one.label).cmp(&(one.count, &other.label)));
    Inconsistency {
        surface: index.text(surface),
        readings: list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::Collector;
    use crate::text::{Entity, Sentence};
    use std::path::Path;

    type Spans<'a> = &'a [(usize, usize, &'a str)];

    fn index(sentences: &[(&str, Spans)]) -> CorpusIndex {
        let mut corpus = Collector::new(Path::new("a.jsonl"));
        for (line, (text, entities)) in sentences.iter().enumerate() {
            let mut sentence = Sentence::from_words(text.split(' '));
            let entity =
                |(start, end, label): &(usize, usize, &str)| Entity::new(*start, *end, *label);
            sentence.entities = entities.iter().map(entity).collect();
            corpus.push(line + 1, sentence);
        }
        let mut index = CorpusIndex::default();
        index.add(Path::new("a.jsonl"), &corpus);
        index
    }

    #[test]
    fn both_readings_are_listed_with_their_places() {
        let found = inconsistent(&index(&[
            ("Jordan won", &[(0, 1, "PER")]),
            ("Jordan lost", &[(0, 1, "PER")]),
            ("in Jordan", &[(1, 2, "LOC")]),
            ("New York City", &[(0, 3, "LOC")]),
            ("New York", &[(0, 2, "LOC")]),
            ("New York .", &[]),
            ("in York", &[(1, 2, "LOC")]),
        ]));
        let texts: Vec<String> = found.worst.iter().map(Inconsistency::text).collect();
        assert_eq!(
            texts,
            [
                "`Jordan`: PER 2 (a.jsonl:1), LOC 1 (a.jsonl:3)",
                "`New York`: not annotated 1 (a.jsonl:6), LOC 1 (a.jsonl:5)",
                "`York`: not annotated 1 (a.jsonl:6), LOC 1 (a.jsonl:7)",
            ]
        );
        assert_eq!(found.surfaces, 3);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["worst"][0]["readings"][1]["locations"][0]["line"], 3);
        assert!(json["worst"][1]["readings"][0]["label"].is_null());
    }

    #[test]
    fn the_most_one_sided_come_first() {
        let mut sentences: Vec<(&str, Spans)> = vec![("A x", &[(0, 1, "P")]); 30];
        sentences.push(("A y", &[(0, 1, "Q")]));
        sentences.push(("B y", &[(0, 1, "Q")]));
        sentences.push(("B y", &[(0, 1, "P")]));
        sentences.push(("C y", &[(0, 1, "P"), (0, 1, "Q")]));
        sentences.push(("C y", &[(0, 1, "Q"), (0, 1, "P")]));
        let found = inconsistent(&index(&sentences));
        let order: Vec<&str> = found.worst.iter().map(|one| one.surface.as_str()).collect();
        // Two types on the same words, in any order, are one reading.
        assert_eq!(order, ["A", "B"]);
        assert!(inconsistent(&CorpusIndex::default()).worst.is_empty());
    }
}
