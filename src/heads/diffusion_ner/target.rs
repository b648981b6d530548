//! From gold entities to noisy spans and the entities that their predictions are matched with.

use super::config::{Config, Expansion, Start};
use super::process::{Noise, NoiseSchedule, Pair, SPREAD_PART, SpanGeometry, spread};
use crate::text::{Labels, Sentence};

/// A gold entity: its first and its last word, and its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoldEntity {
    /// First word.
    pub left: usize,
    /// Last word.
    pub right: usize,
    /// 1 + the index of its type; 0 is none.
    pub class: usize,
}

/// The noisy spans and the gold entities of one sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct SentenceTarget {
    /// The timestep, which sets the amount of noise.
    pub timestep: usize,
    /// Boundaries of the noisy spans as fractions of the sentence; none in a sentence that pads the batch to a shape.
    pub spans: Vec<Pair>,
    /// The entities that predictions are matched with; with `repeat_gold` as many as there are spans, or none.
    pub entities: Vec<GoldEntity>,
}

impl SentenceTarget {
    /// Whether the sentence pads the batch to a shape.
    pub fn is_padding(&self) -> bool {
        self.spans.is_empty()
    }
}

/// The targets of a batch, one per sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold(pub Vec<SentenceTarget>);

impl Gold {
    /// Targets with a random timestep and random noise for each sentence.
    pub fn new(config: &Config, labels: &Labels, sentences: &[&Sentence], seed: u64) -> Self {
        let schedule = NoiseSchedule::new(config.variance, config.timesteps);
        let mut noise = Noise::new(seed);
        let target = |sentence: &&Sentence| {
            let entities = entities(config, labels, sentence);
            let timestep = noise.below(match config.start {
                Start::Noise => config.timesteps,
                Start::Spread => (config.timesteps / SPREAD_PART).max(1),
            });
            let signals = signals(config, sentence.len(), &entities, || noise.pair());
            let noises = noise.pairs(signals.len());
            SentenceTarget {
                timestep,
                spans: noisy(config, &schedule, &signals, timestep, &noises),
                entities,
            }
        };
        Self(sentences.iter().map(target).collect())
    }

    /// Padded with sentences that do not count.
    pub fn pad(mut self, sentences: usize) -> Self {
        let padding = SentenceTarget {
            timestep: 0,
            spans: Vec::new(),
            entities: Vec::new(),
        };
        self.0.resize(sentences.max(self.0.len()), padding);
        self
    }

    /// Number of sentences without padding.
    pub fn sentences(&self) -> usize {
        let real = self.0.iter().filter(|target| !target.is_padding());
        real.count()
    }
}

/// The gold entities of a sentence in the order of the corpus, without duplicates or repeated up to K.
pub fn entities(config: &Config, labels: &Labels, sentence: &Sentence) -> Vec<GoldEntity> {
    let mut once: Vec<GoldEntity> = Vec::new();
    for entity in config.overlaps.entities(sentence).iter() {
        let Some(label) = labels.index(&entity.label) else {
            continue;
        };
        let entity = GoldEntity {
            left: entity.span.start,
            right: entity.span.end - 1,
            class: 1 + label,
        };
        if !once.contains(&entity) {
            once.push(entity);
        }
    }
    if config.repeat_gold && !once.is_empty() {
        once.into_iter().cycle().take(config.spans).collect()
    } else {
        once
    }
}

/// The signals of K spans before noise is added: the entities, then repeated or random spans as set by `expansion`. If a
/// sentence has no entities, the first span is the whole sentence.
pub fn signals(
    config: &Config,
    words: usize,
    entities: &[GoldEntity],
    mut random: impl FnMut() -> Pair,
) -> Vec<Pair> {
    let geometry = SpanGeometry::of(config);
    let mut signals: Vec<Pair> = entities
        .iter()
        .take(config.spans)
        .map(|entity| geometry.of_entity(words, entity.left, entity.right))
        .collect();
    if signals.is_empty() {
        signals.push(geometry.signal([0.0, 1.0]));
    }
    let own = signals.len();
    let spread = match config.expansion {
        Expansion::Spread => spread(words, config.spans - own),
        Expansion::Repeat | Expansion::Random => Vec::new(),
    };
    while signals.len() < config.spans {
        signals.push(match config.expansion {
            Expansion::Repeat => signals[signals.len() % own],
            Expansion::Random => geometry.signal(geometry.random(random())),
            Expansion::Spread => {
                let [left, right] = spread[signals.len() - own];
                geometry.of_entity(words.max(1), left, right)
            }
        });
    }
    signals
}

/// The spans with the noise of a timestep, as fractions of the sentence.
pub fn noisy(
    config: &Config,
    schedule: &NoiseSchedule,
    signals: &[Pair],
    timestep: usize,
    noises: &[Pair],
) -> Vec<Pair> {
    let geometry = SpanGeometry::of(config);
    signals
        .iter()
        .zip(noises)
        .map(|(signal, noise)| geometry.fractions(schedule.noisy(*signal, timestep, *noise)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::Overlaps;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Entity;

    fn sentence() -> Sentence {
        let mut sentence = Sentence::from_words(["a", "b", "c", "d"]);
        sentence.entities = vec![
            Entity::new(0, 3, "X"),
            Entity::new(1, 2, "Y"),
            Entity::new(0, 3, "X"),
            Entity::new(2, 3, "unknown"),
        ];
        sentence
    }

    #[test]
    fn gold_is_repeated_only_with_the_setting() {
        let labels = Labels::new(["X", "Y"]);
        let outer = GoldEntity {
            left: 0,
            right: 2,
            class: 1,
        };
        let inner = GoldEntity {
            left: 1,
            right: 1,
            class: 2,
        };
        let paper = Config::of(Preset::Paper);
        assert_eq!(entities(&paper, &labels, &sentence()), [outer, inner]);
        let released = Config {
            spans: 5,
            ..Config::of(Preset::Released)
        };
        let repeated = entities(&released, &labels, &sentence());
        assert_eq!(repeated, [outer, inner, outer, inner, outer]);
        let flat = Config {
            overlaps: Overlaps::Flat,
            ..paper
        };
        assert_eq!(entities(&flat, &labels, &sentence()), [outer]);
    }

    #[test]
    fn every_sentence_has_k_spans() {
        let labels = Labels::new(["X", "Y"]);
        let empty = Sentence::default();
        let plain = Sentence::from_words(["a"]);
        for preset in [Preset::Paper, Preset::Released] {
            for expansion in [Expansion::Repeat, Expansion::Random, Expansion::Spread] {
                for spans in [1, 7] {
                    let config = Config {
                        expansion,
                        spans,
                        ..Config::of(preset)
                    };
                    let sentences = [&sentence(), &empty, &plain];
                    let gold = Gold::new(&config, &labels, &sentences, 5);
                    assert_eq!(gold, Gold::new(&config, &labels, &sentences, 5));
                    assert_ne!(gold, Gold::new(&config, &labels, &sentences, 6));
                    for target in &gold.0 {
                        assert_eq!(target.spans.len(), spans);
                        let shares = target.spans.concat();
                        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
                    }
                }
            }
        }
    }
}
