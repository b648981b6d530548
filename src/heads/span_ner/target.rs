//! From gold entities to labelled spans, with random negatives.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use super::config::Config;
use crate::encoder::shapes::{BatchShape, next_size};
use crate::nn::spans::{BatchSpan, all_spans};
use crate::text::{Labels, Sentence};

/// Sentences of a padded batch have room for one entity in so many words; for more, there are more spans.
const WORDS_PER_ENTITY: usize = 4;

/// The spans a batch is trained on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// The spans.
    pub spans: Vec<BatchSpan>,
    /// The class of each span: 0 is none, 1 + k is type k. If the batch is padded to a shape, those of the spans at the end,
    /// which are padding, are missing.
    pub classes: Vec<i32>,
}

impl Gold {
    /// The gold spans of at most ε words, and random other spans.
    pub fn new(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut gold = Self {
            spans: Vec::new(),
            classes: Vec::new(),
        };
        for (index, sentence) in sentences.iter().enumerate() {
            let entities = entities(config, labels, sentence);
            for ((start, end), class) in &entities {
                gold.push(index, (*start, *end), *class);
            }
            let others: Vec<BatchSpan> = all_spans(&[sentence.len()], config.longest)
                .into_iter()
                .filter(|span| !entities.contains_key(&(span.start, span.end)))
                .collect();
            let count = config.negatives.min(others.len());
            for other in sample(&mut random, others.len(), count) {
                gold.push(index, (others[other].start, others[other].end), 0);
            }
        }
        gold
    }

    /// Padded with spans that have no class, to a number that depends on the shape alone unless there are very many
    /// entities.
    pub fn pad(mut self, config: &Config, shape: &BatchShape) -> Self {
        let longest = config.longest.min(shape.words);
        let all = longest * shape.words - longest * (longest - 1) / 2;
        let most = all.min(config.negatives + shape.words.div_ceil(WORDS_PER_ENTITY));
        let size = next_size(self.spans.len(), shape.sentences * most + 1);
        // As long as any, so that the table of maxima does not depend on the spans.
        let padding = BatchSpan {
            sentence: 0,
            start: 0,
            end: longest,
        };
        self.spans.resize(size, padding);
        self
    }

    fn push(&mut self, sentence: usize, (start, end): (usize, usize), class: i32) {
        self.spans.push(BatchSpan {
            sentence,
            start,
            end,
        });
        self.classes.push(class);
    }
}

/// The class of each gold span of at most ε words; if a span has two types, the alphabetically first.
fn entities(
    config: &Config,
    labels: &Labels,
    sentence: &Sentence,
) -> BTreeMap<(usize, usize), i32> {
    let mut entities = BTreeMap::new();
    for entity in config.overlaps.entities(sentence).iter() {
        if let Some(label) = labels.index(&entity.label)
            && entity.span.len() <= config.longest
        {
            let class = 1 + label as i32;
            let known = entities
                .entry((entity.span.start, entity.span.end))
                .or_insert(class);
            *known = class.min(*known);
        }
    }
    entities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Entity;

    #[test]
    fn negatives_are_distinct_and_follow_from_the_seed() {
        let mut sentence = Sentence::from_words((0..30).map(|word| word.to_string()));
        sentence.entities = vec![
            Entity::new(2, 4, "B"),
            Entity::new(2, 4, "A"),
            Entity::new(0, 20, "A"), // out of reach
        ];
        let config = Config::of(Preset::Paper);
        let labels = Labels::new(["A", "B"]);
        let gold = Gold::new(&config, &labels, &[&sentence], 5);
        assert_eq!(gold, Gold::new(&config, &labels, &[&sentence], 5));
        assert_ne!(gold, Gold::new(&config, &labels, &[&sentence], 6));
        assert_eq!(gold.spans.len(), 101);
        assert_eq!(gold.classes.iter().sum::<i32>(), 1);
        let mut distinct: Vec<_> = gold
            .spans
            .iter()
            .map(|span| (span.start, span.end))
            .collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 101);
        assert!(gold.spans.iter().all(|span| span.words() <= 10));
    }
}
