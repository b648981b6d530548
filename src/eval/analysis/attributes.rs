//! Attributes of an entity (length, sentence length, label consistency, density), sorted into buckets.
//!
//! Attributes and bucket limits follow the Bundling Learning paper (equations 23a to 23d, table 5), with two
//! points made precise that the paper leaves open: label consistency is computed over training entities with the same
//! words only, and attributes of a predicted entity over the predicted entities, as those of a gold entity are over the
//! gold ones.

use std::collections::{HashMap, HashSet};

use crate::text::{Entity, Sentence, Span};

/// Names of the buckets, from small to large.
pub const BUCKETS: [&str; 4] = ["XS", "S", "L", "XL"];

/// Names of the groups that entities are sorted into by their number of words; finer than [`crate::eval::LENGTHS`].
pub const LENGTH_GROUPS: [&str; 11] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10-19", "20+"];

/// A property of an entity that may make it easy or hard to recognise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// Number of words of the entity.
    EntityLength,
    /// Number of words of its sentence.
    TextLength,
    /// Share of the training entities with the same words that have the same label; 0 when there are none.
    LabelConsistency,
    /// Number of entities of its sentence divided by the sentence's number of words.
    EntityDensity,
}

impl Attribute {
    /// All attributes, in the paper's order.
    pub const ALL: [Attribute; 4] = [
        Attribute::EntityLength,
        Attribute::TextLength,
        Attribute::LabelConsistency,
        Attribute::EntityDensity,
    ];

    /// The paper's abbreviation.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::EntityLength => "eLen",
            Attribute::TextLength => "tLen",
            Attribute::LabelConsistency => "eCon",
            Attribute::EntityDensity => "eDen",
        }
    }

    /// A short description.
    pub fn description(self) -> &'static str {
        match self {
            Attribute::EntityLength => "words of the entity",
            Attribute::TextLength => "words of the sentence",
            Attribute::LabelConsistency => "label consistency",
            Attribute::EntityDensity => "entity density",
        }
    }

    /// The range of values of each bucket, in the order of [`BUCKETS`].
    pub fn ranges(self) -> [&'static str; 4] {
        match self {
            Attribute::EntityLength => ["1", "2", "3 to 4", "5 or more"],
            Attribute::TextLength => ["1 to 7", "8 to 16", "17 to 31", "32 or more"],
            Attribute::LabelConsistency => ["[0, 0.1]", "(0.1, 0.5]", "(0.5, 0.9]", "(0.9, 1]"],
            Attribute::EntityDensity => {
                ["[0, 0.01]", "(0.01, 0.025]", "(0.025, 0.05]", "above 0.05"]
            }
        }
    }

    /// Index in [`BUCKETS`] for a value.
    pub fn bucket(self, value: f64) -> usize {
        // The largest value of every bucket but the last.
        let limits = match self {
            Attribute::EntityLength => [1.0, 2.0, 4.0],
            Attribute::TextLength => [7.0, 16.0, 31.0],
            Attribute::LabelConsistency => [0.1, 0.5, 0.9],
            Attribute::EntityDensity => [0.01, 0.025, 0.05],
        };
        limits.iter().filter(|limit| value > **limit).count()
    }

    /// The attribute's value for an entity. `entities` is the number of entities of the same side (gold or predicted)
    /// in the sentence.
    pub fn value(
        self,
        entity: &Entity,
        sentence: &Sentence,
        entities: u64,
        training: &TrainingData,
    ) -> f64 {
        match self {
            Attribute::EntityLength => entity.span.len() as f64,
            Attribute::TextLength => sentence.len() as f64,
            Attribute::LabelConsistency => training.label_consistency(sentence, entity),
            Attribute::EntityDensity => entities as f64 / sentence.len().max(1) as f64,
        }
    }
}

/// Index in [`LENGTH_GROUPS`] for an entity with this number of words.
pub(super) fn length_group(words: usize) -> usize {
    match words {
        0..=9 => words.saturating_sub(1),
        10..=19 => 9,
        _ => 10,
    }
}

/// Words and labelled entities of the training sentences.
#[derive(Debug, Default)]
pub struct TrainingData {
    /// For the words of an entity: how often they have which label.
    labels: HashMap<String, HashMap<String, u64>>,
    words: HashSet<String>,
}

impl TrainingData {
    /// Collects words and entities. An entity listed twice in a sentence counts once; entities that no span of words
    /// equals are left out.
    pub fn of(sentences: &[Sentence]) -> Self {
        let mut training = Self::default();
        for sentence in sentences {
            let words = sentence.words.iter().map(|word| word.text.clone());
            training.words.extend(words);
            let distinct: HashSet<&Entity> = sentence.entities.iter().collect();
            for entity in distinct {
                let labels = training.labels.entry(joined_words(sentence, entity.span));
                *labels.or_default().entry(entity.label.clone()).or_default() += 1;
            }
        }
        training
    }

    /// True when the word occurs in a training sentence in exactly this spelling.
    pub fn contains_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Share of the training entities with the same words that have the entity's label; 0 when there are none.
    pub fn label_consistency(&self, sentence: &Sentence, entity: &Entity) -> f64 {
        let Some(labels) = self.labels.get(&joined_words(sentence, entity.span)) else {
            return 0.0;
        };
        let same = labels.get(&entity.label).copied().unwrap_or(0);
        same as f64 / labels.values().sum::<u64>() as f64
    }
}

/// The words of a span joined by single spaces, so that line breaks and spacing make no difference.
fn joined_words(sentence: &Sentence, span: Span) -> String {
    let words = sentence.words.get(span.start..span.end).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sentence;
    use super::*;

    #[test]
    fn limits_belong_to_the_smaller_bucket() {
        let cases: [(Attribute, [&[f64]; 4]); 4] = [
            (
                Attribute::EntityLength,
                [&[1.0], &[2.0], &[3.0, 4.0], &[5.0, 90.0]],
            ),
            (
                Attribute::TextLength,
                [&[1.0, 7.0], &[8.0, 16.0], &[17.0, 31.0], &[32.0, 900.0]],
            ),
            (
                Attribute::LabelConsistency,
                // 2/20 and 18/20 are the limits themselves.
                [
                    &[0.0, 2.0 / 20.0],
                    &[0.11, 0.5],
                    &[0.51, 18.0 / 20.0],
                    &[0.91, 1.0],
                ],
            ),
            (
                Attribute::EntityDensity,
                // One entity in 100, 40 and 20 words; nested entities can give more than one per word.
                [
                    &[0.0, 1.0 / 100.0],
                    &[0.011, 1.0 / 40.0],
                    &[0.026, 1.0 / 20.0],
                    &[0.051, 1.5],
                ],
            ),
        ];
        for (attribute, buckets) in cases {
            for (bucket, values) in buckets.iter().enumerate() {
                for value in *values {
                    assert_eq!(
                        attribute.bucket(*value),
                        bucket,
                        "{} {value}",
                        attribute.name()
                    );
                }
            }
        }
    }

    #[test]
    fn label_consistency_compares_entities_with_equal_words() {
        let training = TrainingData::of(&[
            // "Paris" is a LOC twice and a PER once, although the second sentence lists it twice.
            sentence("Paris met Paris", &[(0, 1, "PER"), (2, 3, "LOC")]),
            sentence("in Paris", &[(1, 2, "LOC"), (1, 2, "LOC")]),
            sentence("Paris Hilton", &[(0, 2, "PER")]),
        ]);
        let here = sentence("Paris Hilton left paris", &[]);
        let share = |start, end, label: &str| {
            training.label_consistency(&here, &Entity::new(start, end, label))
        };
        assert_eq!(share(0, 1, "LOC"), 2.0 / 3.0);
        assert_eq!(share(0, 1, "PER"), 1.0 / 3.0);
        assert_eq!(share(0, 1, "ORG"), 0.0); // known words, never this label
        assert_eq!(share(0, 2, "PER"), 1.0);
        assert_eq!(share(1, 2, "PER"), 0.0); // unseen as an entity
        assert_eq!(share(3, 4, "LOC"), 0.0); // case matters
        assert!(training.contains_word("Hilton") && !training.contains_word("paris"));
    }

    #[test]
    fn values_describe_the_entity_and_its_sentence() {
        let training = TrainingData::of(&[sentence("New York", &[(0, 2, "LOC")])]);
        let here = sentence("in New York .", &[]);
        let entity = Entity::new(1, 3, "LOC");
        let values = Attribute::ALL.map(|attribute| attribute.value(&entity, &here, 3, &training));
        assert_eq!(values, [2.0, 4.0, 1.0, 0.75]);
    }

    #[test]
    fn every_length_has_a_group() {
        let names: Vec<&str> = [1, 9, 10, 19, 20, 400]
            .iter()
            .map(|words| LENGTH_GROUPS[length_group(*words)])
            .collect();
        assert_eq!(names, ["1", "9", "10-19", "10-19", "20+", "20+"]);
    }
}
