//! The four attributes an entity is sorted by, their buckets, and what the training sentences say about it.
//!
//! Attributes and borders are those of the Bundling Learning paper (equations 23a to 23d, table 5), in two points read
//! as they must be meant: label consistency looks at training entities with the same words only, and an attribute
//! of a predicted entity is computed among the predicted entities, as that of a gold entity is among the gold ones.

use std::collections::{HashMap, HashSet};

use crate::text::{Entity, Sentence, Span};

/// Names of the buckets, from small to large.
pub const BUCKETS: [&str; 4] = ["XS", "S", "L", "XL"];

/// Names of the groups of entities by their number of words; finer than [`crate::eval::LENGTHS`].
pub const LENGTH_GROUPS: [&str; 11] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10-19", "20+"];

/// Something about an entity that makes it easy or hard to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute {
    /// Words of the entity.
    EntityLength,
    /// Words of its sentence.
    TextLength,
    /// Of the training entities with the same words, the share that has its label; 0 when there are none.
    LabelConsistency,
    /// Entities of its sentence for each word of it.
    EntityDensity,
}

impl Attribute {
    /// All four, in the paper's order.
    pub const ALL: [Attribute; 4] = [
        Attribute::EntityLength,
        Attribute::TextLength,
        Attribute::LabelConsistency,
        Attribute::EntityDensity,
    ];

    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Attribute::EntityLength => "eLen",
            Attribute::TextLength => "tLen",
            Attribute::LabelConsistency => "eCon",
            Attribute::EntityDensity => "eDen",
        }
    }

    /// What it is, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Attribute::EntityLength => "words of the entity",
            Attribute::TextLength => "words of the sentence",
            Attribute::LabelConsistency => "label consistency",
            Attribute::EntityDensity => "entity density",
        }
    }

    /// The values each bucket takes, in the order of [`BUCKETS`].
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

    /// Which of [`BUCKETS`] a value falls into.
    pub fn bucket(self, value: f64) -> usize {
        // The largest values of all buckets but the last.
        let borders = match self {
            Attribute::EntityLength => [1.0, 2.0, 4.0],
            Attribute::TextLength => [7.0, 16.0, 31.0],
            Attribute::LabelConsistency => [0.1, 0.5, 0.9],
            Attribute::EntityDensity => [0.01, 0.025, 0.05],
        };
        borders.iter().filter(|border| value > **border).count()
    }

    /// The value for an entity of a sentence; `entities` is how many its side (gold or predicted) has there.
    pub fn of(
        self,
        entity: &Entity,
        sentence: &Sentence,
        entities: u64,
        training: &Training,
    ) -> f64 {
        match self {
            Attribute::EntityLength => entity.span.len() as f64,
            Attribute::TextLength => sentence.len() as f64,
            Attribute::LabelConsistency => training.consistency(sentence, entity),
            Attribute::EntityDensity => entities as f64 / sentence.len().max(1) as f64,
        }
    }
}

/// Which of [`LENGTH_GROUPS`] an entity of so many words belongs to.
pub(super) fn length_group(words: usize) -> usize {
    match words {
        0..=9 => words.saturating_sub(1),
        10..=19 => 9,
        _ => 10,
    }
}

/// What the training sentences know.
#[derive(Debug, Default)]
pub struct Training {
    /// How often an entity with these words has which label.
    surfaces: HashMap<String, HashMap<String, u64>>,
    words: HashSet<String>,
}

impl Training {
    /// What these sentences know. An entity that a sentence lists twice counts once; entities that are no span of
    /// words are left out.
    pub fn of(sentences: &[Sentence]) -> Self {
        let mut training = Self::default();
        for sentence in sentences {
            let words = sentence.words.iter().map(|word| word.text.clone());
            training.words.extend(words);
            let distinct: HashSet<&Entity> = sentence.entities.iter().collect();
            for entity in distinct {
                let labels = training.surfaces.entry(surface(sentence, entity.span));
                *labels.or_default().entry(entity.label.clone()).or_default() += 1;
            }
        }
        training
    }

    /// True when a training sentence has this word, spelled exactly so.
    pub fn knows(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Of the training entities with the same words, the share that has the entity's label; 0 when there are none.
    pub fn consistency(&self, sentence: &Sentence, entity: &Entity) -> f64 {
        let Some(labels) = self.surfaces.get(&surface(sentence, entity.span)) else {
            return 0.0;
        };
        let same = labels.get(&entity.label).copied().unwrap_or(0);
        same as f64 / labels.values().sum::<u64>() as f64
    }
}

/// The words of a span with single spaces between them, so that line breaks and spacing make no difference.
fn surface(sentence: &Sentence, span: Span) -> String {
    let words = sentence.words.get(span.start..span.end).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(words: &str, entities: &[(usize, usize, &str)]) -> Sentence {
        let mut sentence = Sentence::from_words(words.split(' '));
        sentence.entities = entities
            .iter()
            .map(|(start, end, label)| Entity::new(*start, *end, *label))
            .collect();
        sentence
    }

    #[test]
    fn borders_belong_to_the_smaller_bucket() {
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
                // 2/20 and 18/20 are the borders themselves.
                [
                    &[0.0, 2.0 / 20.0],
                    &[0.11, 0.5],
                    &[0.51, 18.0 / 20.0],
                    &[0.91, 1.0],
                ],
            ),
            (
                Attribute::EntityDensity,
                // One entity in 100, 40 and 20 words; nested entities can make it more than one a word.
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
    fn consistency_is_counted_among_equal_words() {
        let training = Training::of(&[
            // "Paris" is a LOC twice and a PER once, however often the second sentence repeats itself.
            sentence("Paris met Paris", &[(0, 1, "PER"), (2, 3, "LOC")]),
            sentence("in Paris", &[(1, 2, "LOC"), (1, 2, "LOC")]),
            sentence("Paris Hilton", &[(0, 2, "PER")]),
        ]);
        let here = sentence("Paris Hilton left paris", &[]);
        let share =
            |start, end, label: &str| training.consistency(&here, &Entity::new(start, end, label));
        assert_eq!(share(0, 1, "LOC"), 2.0 / 3.0);
        assert_eq!(share(0, 1, "PER"), 1.0 / 3.0);
        assert_eq!(share(0, 1, "ORG"), 0.0); // known words, never this label
        assert_eq!(share(0, 2, "PER"), 1.0);
        assert_eq!(share(1, 2, "PER"), 0.0); // unseen as an entity
        assert_eq!(share(3, 4, "LOC"), 0.0); // case matters
        assert!(training.knows("Hilton") && !training.knows("paris"));
    }

    #[test]
    fn values_are_those_of_the_entity_and_its_sentence() {
        let training = Training::of(&[sentence("New York", &[(0, 2, "LOC")])]);
        let here = sentence("in New York .", &[]);
        let entity = Entity::new(1, 3, "LOC");
        let values = Attribute::ALL.map(|attribute| attribute.of(&entity, &here, 3, &training));
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
