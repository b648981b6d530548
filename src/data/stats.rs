//! Statistics of a corpus.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::table::Table;
use crate::text::Sentence;

/// Statistics of a corpus. Entities are counted as in the file, including those that do not match word boundaries and those
/// of several parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Number of sentences.
    pub sentences: usize,
    /// Number of named documents.
    pub documents: usize,
    /// Number of words.
    pub words: usize,
    /// Number of entities.
    pub entities: usize,
    /// Entities that do not start and end at word boundaries.
    pub misaligned: usize,
    /// Entities of several parts.
    pub discontinuous: usize,
    /// Entities that share characters with an entity of a different span.
    pub nested: usize,
    /// `nested` as a share of all entities, 0..=1.
    pub nested_share: f64,
    /// Entities whose span has a second type.
    pub same_span: usize,
    /// Sentences without entities.
    pub without_entities: usize,
    /// Number of entities by type.
    pub types: BTreeMap<String, usize>,
    /// Number of entities by length in words, without those that do not match word boundaries or have several parts.
    pub lengths: BTreeMap<usize, usize>,
    /// Number of sentences by number of entities in them, without those that do not match word boundaries.
    pub entities_per_sentence: BTreeMap<usize, usize>,
    /// Sentence lengths in words.
    pub sentence_lengths: SentenceLengths,
}

/// Distribution of sentence lengths, in words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SentenceLengths {
    /// Mean length.
    pub mean: f64,
    /// Median length.
    pub median: usize,
    /// 99th percentile.
    pub percentile_99: usize,
    /// Length of the longest sentence.
    pub max: usize,
    /// Number of sentences by upper bound of their length: 5, 10, 20, 40, ... words.
    pub histogram: BTreeMap<usize, usize>,
}

impl Stats {
    /// The statistics of a corpus.
    pub fn of(sentences: &[Sentence]) -> Self {
        let mut stats = Self {
            sentences: sentences.len(),
            sentence_lengths: SentenceLengths::of(sentences),
            ..Self::default()
        };
        let mut documents: Vec<&str> = Vec::new();
        for sentence in sentences {
            documents.extend(sentence.document.as_deref());
            stats.words += sentence.len();
            let count = sentence.entity_count();
            stats.entities += count;
            stats.misaligned += sentence.misaligned.len();
            stats.discontinuous += sentence.discontinuous.len();
            stats.without_entities += usize::from(count == 0);
            let overlaps = Overlaps::of(sentence);
            stats.nested += overlaps.nested;
            stats.same_span += overlaps.same_span;
            let aligned = sentence.entities.len();
            *stats.entities_per_sentence.entry(aligned).or_default() += 1;
            for entity in &sentence.entities {
                *stats.lengths.entry(entity.span.len()).or_default() += 1;
            }
            let labels = sentence.entities.iter().map(|entity| entity.label.as_str());
            for label in labels.chain(sentence.unreachable_labels()) {
                match stats.types.get_mut(label) {
                    Some(count) => *count += 1,
                    None => {
                        stats.types.insert(label.to_string(), 1);
                    }
                }
            }
        }
        documents.sort_unstable();
        documents.dedup();
        stats.documents = documents.len();
        stats.nested_share = share(stats.nested, stats.entities);
        stats
    }

    /// The shortest length in words that at least `percent` of all entities do not exceed, and the percentage that do not;
    /// the longest if entities that do not match word boundaries make that impossible. None without entities.
    pub fn length_covering(&self, percent: f64) -> Option<(usize, f64)> {
        let mut covered = 0;
        let mut found = None;
        for (words, count) in &self.lengths {
            covered += count;
            let share = 100.0 * share(covered, self.entities);
            found = Some((*words, share));
            if share >= percent {
                break;
            }
        }
        found
    }

    /// The number of entities that at least `percent` of the sentences with entities do not exceed.
    pub fn entities_covering(&self, percent: f64) -> usize {
        let with_entities = || self.entities_per_sentence.iter().filter(|(n, _)| **n > 0);
        let total: usize = with_entities().map(|(_, sentences)| sentences).sum();
        let mut covered = 0;
        for (entities, sentences) in with_entities() {
            covered += sentences;
            if 100.0 * share(covered, total) >= percent {
                return *entities;
            }
        }
        0
    }
}

/// `part / whole`; 0 when `whole` is 0.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// Number of entities of a sentence that overlap others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Overlaps {
    /// Entities that share a character with any other.
    pub any: usize,
    /// Entities that share a character with one of a different span.
    pub nested: usize,
    /// Entities with the same span as another.
    pub same_span: usize,
}

impl Overlaps {
    /// Counts in O(n log n), because a "sentence" may be a whole book.
    pub fn of(sentence: &Sentence) -> Self {
        let aligned = sentence.entities.iter();
        let mut spans: Vec<(usize, usize)> = aligned
            .map(|entity| sentence.characters(entity.span))
            .chain(sentence.misaligned.iter().map(|e| (e.start, e.end)))
            .collect();
        // When sorted by start, a span overlaps an earlier one if it starts before the furthest end so far, and a later
        // one if the next span starts before it ends.
        spans.sort_unstable();
        let groups: Vec<&[(usize, usize)]> = spans.chunk_by(|a, b| a == b).collect();
        let mut furthest = 0;
        let mut overlaps = Self::default();
        for (index, group) in groups.iter().enumerate() {
            let (start, end) = group[0];
            let next = groups.get(index + 1).is_some_and(|next| next[0].0 < end);
            let nested = start < furthest || next;
            let same = group.len() > 1;
            overlaps.nested += if nested { group.len() } else { 0 };
            overlaps.same_span += if same { group.len() } else { 0 };
            overlaps.any += if nested || same { group.len() } else { 0 };
            furthest = furthest.max(end);
        }
        overlaps
    }
}

impl SentenceLengths {
    fn of(sentences: &[Sentence]) -> Self {
        let mut lengths: Vec<usize> = sentences.iter().map(Sentence::len).collect();
        lengths.sort_unstable();
        let Some(max) = lengths.last().copied() else {
            return Self::default();
        };
        let mut histogram = BTreeMap::new();
        for length in &lengths {
            let mut bound = 5;
            while bound < *length {
                bound *= 2;
            }
            *histogram.entry(bound).or_default() += 1;
        }
        let at = |percent: usize| lengths[(lengths.len() * percent).div_ceil(100).max(1) - 1];
        Self {
            mean: share(lengths.iter().sum(), lengths.len()),
            median: at(50),
            percentile_99: at(99),
            max,
            histogram,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = &self.sentence_lengths;
        let mut totals = Table::headless().left([2]);
        let mut row = |name: &str, count: usize, remark: String| {
            totals.row([name.to_owned(), count.to_string(), remark]);
        };
        row("sentences", self.sentences, String::new());
        row("documents", self.documents, String::new());
        row(
            "words",
            self.words,
            format!(
                "{:.1} per sentence, median {}, 99 % up to {}, longest {}",
                lengths.mean, lengths.median, lengths.percentile_99, lengths.max
            ),
        );
        row(
            "entities",
            self.entities,
            format!("{} sentences have none", self.without_entities),
        );
        row(
            "  nested",
            self.nested,
            format!(
                "{:.1} % overlap an entity of another span, {} have two types on one span",
                100.0 * self.nested_share,
                self.same_span
            ),
        );
        row(
            "  misaligned",
            self.misaligned,
            "not at word boundaries".to_owned(),
        );
        if self.discontinuous > 0 {
            row(
                "  discontinuous",
                self.discontinuous,
                "of several parts; no model here finds them".to_owned(),
            );
        }
        writeln!(f, "{totals}")?;
        writeln!(f, "\ntypes")?;
        let mut by_count: Vec<(&String, &usize)> = self.types.iter().collect();
        by_count.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
        let mut types = Table::headless();
        for (name, count) in by_count {
            let percent = 100.0 * share(*count, self.entities);
            types.row([
                format!("  {name}"),
                count.to_string(),
                format!("{percent:.1} %"),
            ]);
        }
        if !self.types.is_empty() {
            writeln!(f, "{types}")?;
        }
        write_histogram(f, "\nwords in an entity", &self.lengths, 10)?;
        write_histogram(
            f,
            "\nwords in a sentence, up to",
            &lengths.histogram,
            usize::MAX,
        )
    }
}

/// Writes a histogram. Keys above `limit` are summed in the last row.
fn write_histogram(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    counts: &BTreeMap<usize, usize>,
    limit: usize,
) -> fmt::Result {
    let mut rows: Vec<(String, usize)> = Vec::new();
    let mut beyond = 0;
    for (key, count) in counts {
        if *key > limit {
            beyond += count;
        } else {
            rows.push((key.to_string(), *count));
        }
    }
    if beyond > 0 {
        rows.push((format!("> {limit}"), beyond));
    }
    writeln!(f, "{title}")?;
    let Some(most) = rows.iter().map(|(_, count)| *count).max() else {
        return Ok(());
    };
    let mut table = Table::headless().right(0).left([2]).min_widths([6]);
    for (key, count) in rows {
        let bar = "#".repeat((count * 40).div_ceil(most));
        table.row([key, count.to_string(), bar]);
    }
    writeln!(f, "{table}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Entity, Misaligned, is_nested};
    use proptest::prelude::*;

    fn sample() -> Vec<Sentence> {
        let mut first = Sentence::from_words(["a", "bc", "d", "e"]);
        first.document = Some("x".to_string());
        first.entities = vec![
            Entity::new(0, 3, "A"),
            Entity::new(1, 2, "B"),
            Entity::new(3, 4, "A"),
        ];
        first.misaligned = vec![Misaligned {
            start: 3,
            end: 4,
            label: "C".to_string(),
        }];
        vec![first, Sentence::default()]
    }

    #[test]
    fn all_entities_of_the_file_are_counted() {
        let stats = Stats::of(&sample());
        assert_eq!((stats.sentences, stats.documents, stats.words), (2, 1, 4));
        assert_eq!((stats.entities, stats.misaligned, stats.nested), (4, 1, 3));
        assert_eq!(stats.types["A"], 2);
        assert_eq!(stats.lengths.keys().next_back(), Some(&3));
        assert_eq!(
            stats.entities_per_sentence,
            BTreeMap::from([(0, 1), (3, 1)])
        );
        assert_eq!(stats.sentence_lengths.max, 4);
        let json = serde_json::to_value(&stats).unwrap();
        for key in ["sentences", "words", "entities", "nested"] {
            assert!(json[key].is_u64(), "{key}");
        }
        assert!(json["types"]["C"].is_u64());
        let text = stats.to_string();
        assert!(
            text.contains("75.0 %") && text.contains("misaligned"),
            "{text}"
        );
    }

    #[test]
    fn lengths_and_counts_are_covered_by_percentiles() {
        let stats = Stats {
            entities: 100,
            lengths: BTreeMap::from([(1, 80), (2, 15), (7, 4)]),
            entities_per_sentence: BTreeMap::from([(0, 1000), (1, 97), (2, 2), (9, 1)]),
            ..Stats::default()
        };
        assert_eq!(stats.length_covering(80.0), Some((1, 80.0)));
        assert_eq!(stats.length_covering(90.0), Some((2, 95.0)));
        // One of the hundred is not at word boundaries.
        assert_eq!(stats.length_covering(99.5), Some((7, 99.0)));
        assert_eq!(Stats::default().length_covering(99.0), None);
        assert_eq!(stats.entities_covering(97.0), 1);
        assert_eq!(stats.entities_covering(99.0), 2);
        assert_eq!(stats.entities_covering(100.0), 9);
        assert_eq!(Stats::default().entities_covering(99.0), 0);
    }

    #[test]
    fn an_empty_corpus_has_statistics() {
        assert_eq!(Stats::of(&[]), Stats::default());
        assert!(Stats::of(&[]).to_string().contains("sentences"));
    }

    proptest! {
        #[test]
        fn nesting_agrees_with_its_definition(spans in prop::collection::vec((0..12usize, 1..6usize, 0..2usize), 0..9)) {
            let mut sentence = Sentence::from_words(std::iter::repeat_n("w", 20));
            for (start, length, label) in spans {
                let entity = Entity::new(start, start + length, ["A", "B"][label]);
                if !sentence.entities.contains(&entity) {
                    sentence.entities.push(entity);
                }
            }
            let plain = sentence.entities.iter().filter(|entity| is_nested(entity, &sentence.entities)).count();
            let overlaps = Overlaps::of(&sentence);
            prop_assert_eq!(overlaps.any, plain);
            let other_span = |a: &&Entity| sentence.entities.iter().any(|b| a.span != b.span && a.span.overlaps(&b.span));
            prop_assert_eq!(overlaps.nested, sentence.entities.iter().filter(other_span).count());
        }
    }
}
