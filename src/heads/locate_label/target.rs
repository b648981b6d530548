//! From gold entities to training examples: seeds paired with the entity of highest IoU.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use super::config::Config;
use super::seeds::{iou, training_seeds};
use crate::encoder::shapes::{BatchShape, next_size};
use crate::nn::spans::BatchSpan;
use crate::text::{Labels, Sentence, Span};

/// Sentences of a padded batch have room for so many examples per word, more than those of any batch of GENIA; for more,
/// there are more rows.
const EXAMPLES_PER_WORD: usize = 4;

/// The entity that an example is paired with, and its class; class 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairedEntity {
    /// Its words.
    pub span: Span,
    /// 1 + k is type k.
    pub class: i32,
}

/// A seed span as a training example.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Example {
    /// Its sentence and words.
    pub span: BatchSpan,
    /// True if its IoU with the entity is high enough for a proposal.
    pub positive: bool,
    /// The entity it is compared with after it has been moved.
    pub pair: Option<PairedEntity>,
    /// Its weight in the first stage, equation (11).
    pub weight: f32,
}

/// The examples of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    /// Sentence by sentence, positive ones first.
    pub examples: Vec<Example>,
    /// For each sentence, how many fewer examples it has than the sentence with most; the authors' code adds up as many
    /// empty rows.
    pub padding: Vec<usize>,
    /// If the batch is padded to a shape, the number of rows that the examples and all padding are made up to.
    pub rows: Option<usize>,
}

impl Gold {
    /// The positive seeds of each sentence and a random sample of its negative ones.
    pub fn new(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut all = Vec::new();
        let mut counts = Vec::with_capacity(sentences.len());
        for (index, sentence) in sentences.iter().enumerate() {
            let entities = entities(config, labels, sentence);
            let (mut chosen, negatives) = examples(config, index, sentence.len(), &entities);
            let wanted = config.negatives * chosen.len() + config.extra_negatives;
            let drawn = sample(&mut random, negatives.len(), wanted.min(negatives.len()));
            chosen.extend(drawn.into_iter().map(|index| negatives[index]));
            counts.push(chosen.len());
            all.extend(chosen);
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        Self {
            examples: all,
            padding: counts.into_iter().map(|count| most - count).collect(),
            rows: None,
        }
    }

    /// Padded to one of a few numbers of rows.
    pub fn pad(mut self, shape: &BatchShape) -> Self {
        let most = self.examples.len() + self.padding.len();
        let usual = shape.sentences * (shape.words * EXAMPLES_PER_WORD + 2);
        self.rows = Some(next_size(most, usual));
        self
    }
}

/// Each gold span once, with the first of its types.
fn entities(config: &Config, labels: &Labels, sentence: &Sentence) -> Vec<PairedEntity> {
    let mut entities: Vec<PairedEntity> = Vec::new();
    for entity in config.overlaps.entities(sentence).iter() {
        let known = labels.index(&entity.label);
        if let Some(label) = known.filter(|_| !entities.iter().any(|e| e.span == entity.span)) {
            entities.push(PairedEntity {
                span: entity.span,
                class: 1 + label as i32,
            });
        }
    }
    entities
}

/// All positive and all negative examples of a sentence.
fn examples(
    config: &Config,
    sentence: usize,
    length: usize,
    entities: &[PairedEntity],
) -> (Vec<Example>, Vec<Example>) {
    let in_batch = |span: Span| BatchSpan {
        sentence,
        start: span.start,
        end: span.end,
    };
    let (mut positives, mut negatives) = (Vec::new(), Vec::new());
    for span in training_seeds(config, length) {
        let (best, nearest) = nearest(span, entities);
        let positive = best > config.positive_iou;
        let pair = match (positive, config.pair_negatives) {
            (false, false) => Some(PairedEntity { span, class: 0 }),
            _ => nearest,
        };
        let eta = if config.eta_in_filter {
            config.eta
        } else {
            1.0
        };
        let certainty = if positive { best } else { 1.0 - best };
        let list = if positive {
            &mut positives
        } else {
            &mut negatives
        };
        list.push(Example {
            span: in_batch(span),
            positive,
            pair,
            weight: certainty.powf(eta) as f32,
        });
    }
    if config.append_gold {
        for entity in entities {
            let span = in_batch(entity.span);
            if !positives.iter().any(|known| known.span == span) {
                positives.push(Example {
                    span,
                    positive: true,
                    pair: Some(*entity),
                    weight: 1.0,
                });
            }
        }
    }
    (positives, negatives)
}

/// The entity of highest IoU with a span, the first of equals, and that IoU; none if no entity overlaps the span.
fn nearest(span: Span, entities: &[PairedEntity]) -> (f64, Option<PairedEntity>) {
    entities.iter().fold((0.0, None), |(best, pair), entity| {
        let share = iou(span, entity.span);
        if share > best {
            (share, Some(*entity))
        } else {
            (best, pair)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Entity;

    fn sentence() -> Sentence {
        let mut sentence = Sentence::from_words((0..20).map(|word| word.to_string()));
        sentence.entities = vec![
            Entity::new(2, 6, "B"),
            Entity::new(2, 6, "A"), // a second type on one span is not learned
            Entity::new(4, 5, "A"),
            Entity::new(0, 19, "A"), // longer than every seed
        ];
        sentence
    }

    #[test]
    fn seeds_are_paired_and_weighted() {
        let config = Config::of(Preset::Paper);
        let labels = Labels::new(["A", "B"]);
        let gold = Gold::new(&config, &labels, &[&sentence(), &Sentence::default()], 3);
        let positives: Vec<&Example> = gold.examples.iter().filter(|s| s.positive).collect();
        let find = |start, end| {
            let found = positives
                .iter()
                .find(|s| (s.span.start, s.span.end) == (start, end));
            found.map(|example| (example.pair.unwrap().class, example.weight))
        };
        assert_eq!(find(2, 6), Some((2, 1.0)));
        assert_eq!(find(2, 5), Some((2, 0.75)));
        assert_eq!(find(4, 5), Some((1, 1.0)));
        assert_eq!(find(0, 15), Some((1, 15.0 / 19.0)));
        assert_eq!(find(0, 19), None);
        assert!(positives.iter().all(|example| example.weight > 0.7));
        let negatives = gold.examples.len() - positives.len();
        assert_eq!(negatives, 5 * positives.len() + 2);
        assert_eq!(gold.padding, [0, gold.examples.len()]);
        let near = gold.examples.iter().find(|s| !s.positive && s.weight < 1.0);
        assert!(near.unwrap().pair.unwrap().class > 0, "paired all the same");
        let other = Gold::new(&config, &labels, &[&sentence(), &Sentence::default()], 4);
        assert_ne!(gold, other);
    }

    #[test]
    fn the_released_program_learns_every_entity_and_leaves_negatives_alone() {
        let config = Config::of(Preset::Released);
        let gold = Gold::new(&config, &Labels::new(["A", "B"]), &[&sentence()], 3);
        let whole = |s: &&Example| s.positive && (s.span.start, s.span.end) == (0, 19);
        assert_eq!(gold.examples.iter().filter(whole).count(), 1);
        for example in gold.examples.iter().filter(|example| !example.positive) {
            let pair = example.pair.unwrap();
            assert_eq!(pair.class, 0);
            assert_eq!(pair.span, Span::new(example.span.start, example.span.end));
        }
    }
}
