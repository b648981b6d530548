//! Counts of entities, and upper bounds on the recall of models that cannot represent all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::data::stats::{Overlaps, Stats, share};
use crate::text::{Entity, Sentence, Span, outermost};

/// Upper bound on the recall of a kind of model: the share of entities it can represent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallBound {
    /// Kind of model.
    pub model: &'static str,
    /// Number of entities it can represent.
    pub entities: usize,
    /// These as a share of all entities.
    pub recall: f64,
}

/// Upper bound on the recall of a span model that considers spans of up to `words` words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanLimit {
    /// Longest span considered, in words.
    pub words: usize,
    /// Number of entities no longer than that.
    pub entities: usize,
    /// These as a share of all entities.
    pub recall: f64,
}

/// Upper bound on the recall of a head with given settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadBound {
    /// Name of the head.
    pub head: String,
    /// What it can represent.
    pub reach: Reach,
    /// Number of entities within reach.
    pub entities: usize,
    /// These as a share of all entities.
    pub recall: f64,
}

/// Which entities a model can represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Entities that share words with others. A model that cannot represent them finds the outermost ones.
    pub overlapping: bool,
    /// Several types on one span.
    pub several_types: bool,
    /// The longest entity in words; `None` for any length.
    pub longest: Option<usize>,
    /// The most entities in a sentence; `None` for any number.
    pub most: Option<usize>,
}

impl Default for Reach {
    /// All entities that start and end at word boundaries and have one part.
    fn default() -> Self {
        Self {
            overlapping: true,
            several_types: true,
            longest: None,
            most: None,
        }
    }
}

impl Reach {
    /// The reach of a flat model: entities that no other contains.
    pub fn flat() -> Self {
        Self {
            overlapping: false,
            several_types: false,
            ..Self::default()
        }
    }
}

/// How many entities there are by length, and how many sentences by number of entities.
#[derive(Debug, Clone, Default, PartialEq)]
struct Distribution {
    lengths: BTreeMap<usize, usize>,
    per_sentence: BTreeMap<usize, usize>,
}

impl Distribution {
    fn add(&mut self, spans: impl Iterator<Item = Span>) {
        let mut count = 0;
        for span in spans {
            *self.lengths.entry(span.len()).or_default() += 1;
            count += 1;
        }
        *self.per_sentence.entry(count).or_default() += 1;
    }

    /// Number of entities of up to `longest` words, of which each sentence has at most `most`: an upper bound, because the
    /// two limits are not combined sentence by sentence.
    fn within(&self, reach: &Reach) -> usize {
        let longest = reach.longest.unwrap_or(usize::MAX);
        let most = reach.most.unwrap_or(usize::MAX);
        let short: usize = self.lengths.range(..=longest).map(|(_, count)| count).sum();
        let few = self
            .per_sentence
            .iter()
            .map(|(entities, sentences)| entities.min(&most) * sentences);
        short.min(few.sum())
    }
}

/// Counts of the sentences and entities of a corpus.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EntityCounts {
    pub(super) sentences: usize,
    pub(super) words: usize,
    pub(super) aligned: usize,
    pub(super) misaligned: usize,
    pub(super) discontinuous: usize,
    pub(super) overlapping: usize,
    pub(super) nested: usize,
    pub(super) same_span: usize,
    pub(super) crossing: usize,
    pub(super) without_entities: usize,
    pub(super) types: BTreeMap<String, usize>,
    all: Distribution,
    /// Distinct spans: a model that assigns one type to a span finds one entity on each.
    spans: Distribution,
    outermost: Distribution,
}

impl EntityCounts {
    /// Adds a sentence.
    pub(super) fn add(&mut self, sentence: &Sentence) {
        self.sentences += 1;
        self.words += sentence.len();
        self.aligned += sentence.entities.len();
        self.misaligned += sentence.misaligned.len();
        self.discontinuous += sentence.discontinuous.len();
        self.without_entities += usize::from(sentence.entity_count() == 0);
        self.add_types(sentence);
        let overlaps = Overlaps::of(sentence);
        self.overlapping += overlaps.any;
        self.nested += overlaps.nested;
        self.same_span += overlaps.same_span;
        if overlaps.nested > 0 {
            self.crossing += crossing(&sentence.entities);
        }
        let spans = sentence.entities.iter().map(|entity| entity.span);
        self.all.add(spans.clone());
        let distinct: BTreeSet<Span> = spans.collect();
        self.spans.add(distinct.into_iter());
        self.outermost.add(
            outermost(&sentence.entities)
                .into_iter()
                .map(|entity| entity.span),
        );
    }

    /// Adds the types of a sentence's entities only.
    pub(super) fn add_types(&mut self, sentence: &Sentence) {
        let labels = sentence.entities.iter().map(|entity| entity.label.as_str());
        for label in labels.chain(sentence.unreachable_labels()) {
            match self.types.get_mut(label) {
                Some(count) => *count += 1,
                None => {
                    self.types.insert(label.to_string(), 1);
                }
            }
        }
    }

    /// Number of all entities.
    pub fn entities(&self) -> usize {
        self.aligned + self.misaligned + self.discontinuous
    }

    /// Upper bound on the number of entities that a model can find.
    pub fn within(&self, reach: &Reach) -> usize {
        let entities = match (reach.overlapping, reach.several_types) {
            (false, _) => &self.outermost,
            (true, false) => &self.spans,
            (true, true) => &self.all,
        };
        entities.within(reach)
    }

    /// The bound for a head.
    pub fn head_bound(&self, head: &str, reach: Reach) -> HeadBound {
        let entities = self.within(&reach);
        HeadBound {
            head: head.to_string(),
            reach,
            entities,
            recall: share(entities, self.entities()),
        }
    }

    /// The counts as statistics, without documents and sentence lengths.
    pub fn stats(&self) -> Stats {
        Stats {
            sentences: self.sentences,
            words: self.words,
            entities: self.entities(),
            misaligned: self.misaligned,
            discontinuous: self.discontinuous,
            nested: self.nested,
            nested_share: share(self.nested, self.entities()),
            same_span: self.same_span,
            without_entities: self.without_entities,
            types: self.types.clone(),
            lengths: self.all.lengths.clone(),
            entities_per_sentence: self.all.per_sentence.clone(),
            ..Stats::default()
        }
    }

    /// The bounds of the kinds of models.
    pub(super) fn recall_bounds(&self) -> Vec<RecallBound> {
        let one_type = Reach {
            several_types: false,
            ..Reach::default()
        };
        let bound = |model, reach: &Reach| {
            let entities = self.within(reach);
            RecallBound {
                model,
                entities,
                recall: share(entities, self.entities()),
            }
        };
        vec![
            bound("flat tagger", &Reach::flat()),
            bound("span model without a limit", &one_type),
            bound("boundary regression", &Reach::default()),
        ]
    }

    /// The bounds of span models with a limit.
    pub(super) fn span_limits(&self) -> Vec<SpanLimit> {
        let longest = self.spans.lengths.keys().next_back().copied().unwrap_or(0);
        let bound = |words| {
            let reach = Reach {
                several_types: false,
                longest: Some(words),
                ..Reach::default()
            };
            let entities = self.within(&reach);
            SpanLimit {
                words,
                entities,
                recall: share(entities, self.entities()),
            }
        };
        limits(longest).map(bound).collect()
    }
}

/// The span limits to report: all up to ten, then in wider steps, and the length of the longest entity.
fn limits(longest: usize) -> impl Iterator<Item = usize> {
    let is_listed = move |words: &usize| {
        *words <= 10
            || *words == longest
            || (*words <= 30 && words.is_multiple_of(5))
            || (*words <= 100 && words.is_multiple_of(10))
            || (*words <= 1000 && words.is_multiple_of(100))
    };
    (1..=longest.min(1000))
        .filter(is_listed)
        .chain((longest > 1000).then_some(longest))
}

/// Number of entities that overlap another without one containing the other, in O(n log n).
///
/// An entity crosses one that starts inside it and ends after it, or one that ends inside it and starts before it.
fn crossing(entities: &[Entity]) -> usize {
    let mut by_start: Vec<Span> = entities.iter().map(|entity| entity.span).collect();
    by_start.sort_by_key(|span| span.start);
    let mut by_end = by_start.clone();
    by_end.sort_by_key(|span| span.end);
    let furthest = RangeMaximum::new(by_start.iter().map(|span| span.end).collect());
    // Negated: the smallest start is the largest of these.
    let earliest = RangeMaximum::new(by_end.iter().map(|span| usize::MAX - span.start).collect());
    let crosses = |span: &&Span| {
        let inside = by_start.partition_point(|other| other.start <= span.start)
            ..by_start.partition_point(|other| other.start < span.end);
        let later = furthest.of(inside).is_some_and(|end| end > span.end);
        let inside = by_end.partition_point(|other| other.end <= span.start)
            ..by_end.partition_point(|other| other.end < span.end);
        later
            || earliest
                .of(inside)
                .is_some_and(|start| usize::MAX - start < span.start)
    };
    by_start.iter().filter(crosses).count()
}

/// The maximum of any range of a list, from maxima of all runs of 1, 2, 4, 8 ... elements.
struct RangeMaximum {
    levels: Vec<Vec<usize>>,
}

impl RangeMaximum {
    fn new(values: Vec<usize>) -> Self {
        let mut levels = vec![values];
        let mut width = 1;
        while let Some(last) = levels.last().filter(|last| last.len() > width) {
            let pairs = last.iter().zip(&last[width..]);
            let next = pairs.map(|(one, other)| *one.max(other)).collect();
            levels.push(next);
            width *= 2;
        }
        Self { levels }
    }

    fn of(&self, range: std::ops::Range<usize>) -> Option<usize> {
        let level = range.len().checked_ilog2()? as usize;
        let maxima = &self.levels[level];
        Some(maxima[range.start].max(maxima[range.end - (1 << level)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Spans<'a> = &'a [(usize, usize, &'a str)];

    fn counts(sentences: &[(usize, Spans)]) -> EntityCounts {
        let mut counts = EntityCounts::default();
        for (length, entities) in sentences {
            let mut sentence = Sentence::from_words(std::iter::repeat_n("w", *length));
            let entity =
                |(start, end, label): &(usize, usize, &str)| Entity::new(*start, *end, *label);
            sentence.entities = entities.iter().map(entity).collect();
            counts.add(&sentence);
        }
        counts
    }

    #[test]
    fn each_limit_is_an_upper_bound() {
        let counts = counts(&[
            (9, &[(0, 6, "A"), (0, 6, "B"), (1, 2, "A"), (7, 8, "A")]),
            (3, &[(0, 1, "A")]),
        ]);
        let within = |reach| counts.within(&reach);
        let all = Reach::default();
        assert_eq!(within(all), 5);
        assert_eq!(within(Reach::flat()), 3);
        assert_eq!(
            within(Reach {
                several_types: false,
                ..all
            }),
            4
        );
        assert_eq!(
            within(Reach {
                longest: Some(5),
                ..all
            }),
            3
        );
        assert_eq!(
            within(Reach {
                most: Some(2),
                ..all
            }),
            3
        );
        assert_eq!(counts.head_bound("x", Reach::flat()).recall, 0.6);
        assert_eq!(counts.stats().lengths, BTreeMap::from([(1, 3), (6, 2)]));
        assert_eq!(EntityCounts::default().within(&all), 0);
    }

    #[test]
    fn long_entities_do_not_make_long_lists() {
        let listed: Vec<usize> = limits(100_000).collect();
        assert_eq!(listed.last(), Some(&100_000));
        assert!(listed.len() < 50);
        assert_eq!(
            limits(12).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
        );
    }

    proptest! {
        #[test]
        fn crossing_agrees_with_its_definition(spans in prop::collection::vec((0..12usize, 1..6usize), 0..12)) {
            let entities: Vec<Entity> = spans.into_iter().map(|(start, length)| Entity::new(start, start + length, "A")).collect();
            let crosses = |a: &Span, b: &Span| a.overlaps(b) && !a.contains(b) && !b.contains(a);
            let plain = entities.iter().filter(|a| entities.iter().any(|b| crosses(&a.span, &b.span))).count();
            prop_assert_eq!(crossing(&entities), plain);
        }
    }
}
