//! Choosing a model's decoding settings on the dev sentences.
//!
//! Scores are computed once per sentence; every value of a setting is then tried on them. Settings are changed one after
//! the other, as long as F1 rises (coordinate search). The chosen settings are used only if they also help on sentences
//! they were not chosen on: the dev sentences are divided into parts, settings are chosen without one part and scored on
//! it, and the sum over all parts must be better than the settings as trained.

use std::collections::HashMap;
use std::fmt;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Result;
use crate::eval::{Counts, Report};
use crate::heads::Head;
use crate::heads::settings::{self, Setting};
use crate::text::{Entity, Mention, outermost};

/// Parts of the dev sentences, each scored with settings chosen on the others.
const PARTS: usize = 5;

/// Most passes over all settings.
const ROUNDS: usize = 3;

/// A dev sentence: its scores and its gold entities.
#[derive(Debug, Clone)]
pub struct ScoredSentence<C> {
    /// Its index among the dev sentences.
    pub index: usize,
    /// The head's scores.
    pub candidates: C,
    /// The gold entities.
    pub entities: Vec<Entity>,
}

/// Decoding settings chosen on the dev sentences.
#[derive(Debug, Clone)]
pub struct Tuned<C> {
    /// The head's settings: the chosen ones, or those as trained if nothing better was found.
    pub config: C,
    /// The settings that differ from those as trained.
    pub changes: Vec<Change>,
    /// Counts on the dev sentences as trained.
    pub as_trained: Counts,
    /// Counts on the dev sentences with the settings of `config`; those of each part with settings chosen on the others,
    /// so that they are comparable with a score on new sentences.
    pub cross_fitted: Counts,
}

/// A setting that was changed after training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The key under `[head]`.
    pub setting: String,
    /// The value it was trained with.
    pub trained: Value,
    /// The value chosen on the dev sentences.
    pub chosen: Value,
}

/// How the choice of decoding settings changed the scores of a finished run.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The settings that differ from those as trained.
    pub changes: Vec<Change>,
    /// Dev F1 with the settings as trained.
    pub dev_f1_as_trained: f64,
    /// Dev F1, each part of the sentences with settings chosen on the others.
    pub dev_f1_cross_fitted: f64,
    /// Scores on dev with the settings as trained.
    pub dev_as_trained: Option<Report>,
    /// Scores on test with the settings as trained.
    pub test_as_trained: Option<Report>,
}

impl Tuning {
    /// For `metrics.json`.
    pub fn to_json(&self) -> Value {
        json!({
            "changes": self.changes,
            "dev_f1_as_trained": self.dev_f1_as_trained,
            "dev_f1_cross_fitted": self.dev_f1_cross_fitted,
            "as_trained": {
                "dev": self.dev_as_trained.as_ref().map(Report::to_json),
                "test": self.test_as_trained.as_ref().map(Report::to_json),
            },
        })
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return write!(
                f,
                "decoding settings as trained: none of those tried on dev was better"
            );
        }
        let changes: Vec<String> = (self.changes.iter())
            .map(|change| {
                format!(
                    "{} = {} (was {})",
                    change.setting, change.chosen, change.trained
                )
            })
            .collect();
        write!(
            f,
            "decoding settings chosen on dev: {}; dev F1 {:.2} as trained, {:.2} cross-fitted",
            changes.join(", "),
            100.0 * self.dev_f1_as_trained,
            100.0 * self.dev_f1_cross_fitted
        )?;
        if let Some(test) = &self.test_as_trained {
            write!(f, "; test F1 {:.2} as trained", 100.0 * test.overall.f1())?;
        }
        Ok(())
    }
}

/// Chooses decoding settings of a head on scored dev sentences.
pub fn tune<H: Head>(head: &H, dev: &[ScoredSentence<H::Candidates>]) -> Result<Tuned<H::Config>> {
    let trained = settings::to_map(head.config());
    let mut search = Search {
        head,
        dev,
        settings: settings::describe::<H::Config>(),
        known: HashMap::new(),
    };
    search.settings.retain(|setting| {
        let own = value_of(&trained, &setting.name);
        own.is_some_and(|own| own.is_number() || setting.tuned_over.contains(own))
            && !setting.tuned_over.is_empty()
    });
    let start = Value::Object(trained);
    let as_trained: Counts = search.counts(&start)?.iter().copied().sum();
    let mut cross_fitted = Counts::default();
    for part in 0..PARTS {
        let chosen = search.choose(&start, Some(part))?;
        cross_fitted += search.counts(&chosen)?[part];
    }
    if cross_fitted.f1() <= as_trained.f1() {
        return Ok(Tuned {
            config: head.config().clone(),
            changes: Vec::new(),
            as_trained,
            cross_fitted: as_trained,
        });
    }
    let chosen = search.choose(&start, None)?;
    let changes = (search.settings.iter())
        .filter_map(|setting| {
            let path = pointer(&setting.name);
            let (trained, chosen) = (start.pointer(&path)?, chosen.pointer(&path)?);
            (trained != chosen).then(|| Change {
                setting: setting.name.clone(),
                trained: trained.clone(),
                chosen: chosen.clone(),
            })
        })
        .collect();
    Ok(Tuned {
        config: read::<H>(&chosen)?,
        changes,
        as_trained,
        cross_fitted,
    })
}

struct Search<'a, H: Head> {
    head: &'a H,
    dev: &'a [ScoredSentence<H::Candidates>],
    /// The settings to choose.
    settings: Vec<Setting>,
    /// Counts of each part for every combination tried so far.
    known: HashMap<String, [Counts; PARTS]>,
}

impl<H: Head> Search<'_, H> {
    /// The settings with the best F1 on all sentences except those of one part.
    fn choose(&mut self, start: &Value, without: Option<usize>) -> Result<Value> {
        let mut best = start.clone();
        for _ in 0..ROUNDS {
            let before = best.clone();
            for setting in self.settings.clone() {
                best = self.choose_one(best, &setting, without)?;
            }
            if best == before {
                break;
            }
        }
        Ok(best)
    }

    /// The settings with the best value of one of them.
    fn choose_one(
        &mut self,
        config: Value,
        setting: &Setting,
        without: Option<usize>,
    ) -> Result<Value> {
        let path = pointer(&setting.name);
        let mut variants = Vec::with_capacity(setting.tuned_over.len());
        let mut scores = Vec::with_capacity(setting.tuned_over.len());
        for value in &setting.tuned_over {
            let mut variant = config.clone();
            if let Some(own) = variant.pointer_mut(&path) {
                *own = value.clone();
            }
            scores.push(self.f1(&variant, without)?);
            variants.push(variant);
        }
        // The F1 of a value varies by chance: a number is judged by the mean of itself and its two neighbours.
        if setting.tuned_over.iter().all(Value::is_number) {
            scores = smoothed(&scores);
        }
        let own = self.f1(&config, without)?;
        let mut best = None;
        for (index, score) in scores.iter().enumerate() {
            if *score > best.map_or(own, |(_, score)| score) + 1e-9 {
                best = Some((index, *score));
            }
        }
        Ok(best.map_or(config, |(index, _)| variants.swap_remove(index)))
    }

    fn f1(&mut self, config: &Value, without: Option<usize>) -> Result<f64> {
        let parts = self.counts(config)?;
        let kept = (0..PARTS).filter(|part| Some(*part) != without);
        let sum: Counts = kept.map(|part| parts[part]).sum();
        Ok(sum.f1())
    }

    /// The counts of each part; sentences are dealt out in turn.
    fn counts(&mut self, config: &Value) -> Result<[Counts; PARTS]> {
        let key = config.to_string();
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let settings = read::<H>(config)?;
        let flat = !self.head.nested();
        let each: Vec<Counts> = (self.dev.par_iter())
            .map(|sentence| {
                let mentions = self.head.mentions(&settings, &sentence.candidates);
                count(&sentence.entities, mentions, !flat)
            })
            .collect();
        let mut parts = [Counts::default(); PARTS];
        for (sentence, counts) in self.dev.iter().zip(each) {
            parts[sentence.index % PARTS] += counts;
        }
        self.known.insert(key, parts);
        Ok(parts)
    }
}

/// Strict counts of a sentence; a flat head is scored on the outermost entities.
pub fn count(gold: &[Entity], mentions: Vec<Mention>, nested: bool) -> Counts {
    let found: Vec<Entity> = mentions.into_iter().map(|mention| mention.entity).collect();
    if nested {
        Counts::of(gold, &found)
    } else {
        Counts::of(&outermost(gold), &found)
    }
}

/// The mean of each score and its neighbours.
fn smoothed(scores: &[f64]) -> Vec<f64> {
    (0..scores.len())
        .map(|index| {
            let around = &scores[index.saturating_sub(1)..(index + 2).min(scores.len())];
            around.iter().sum::<f64>() / around.len() as f64
        })
        .collect()
}

fn pointer(name: &str) -> String {
    format!("/{}", name.replace('.', "/"))
}

fn value_of<'a>(settings: &'a serde_json::Map<String, Value>, name: &str) -> Option<&'a Value> {
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    let value = settings.get(first)?;
    if rest.is_empty() {
        Some(value)
    } else {
        value.pointer(&pointer(rest))
    }
}

fn read<H: Head>(config: &Value) -> Result<H::Config> {
    settings::read(config.as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::heads::seq_ner::SeqNer;
    use crate::heads::span_ner::{self, SpanNer};
    use crate::heads::{Preset, Settings};
    use crate::text::Labels;

    #[test]
    fn neighbours_are_averaged() {
        assert_eq!(smoothed(&[0.0, 3.0, 6.0, 0.0]), [1.5, 3.0, 3.0, 3.0]);
        assert_eq!(smoothed(&[2.0]), [2.0]);
        assert!(smoothed(&[]).is_empty());
    }

    fn head() -> SpanNer {
        let config = span_ner::Config::of(Preset::Paper);
        SpanNer::init(&config, 4, &Labels::new(["X"]), &Device::flex())
    }

    /// A sentence with a span for each score: right ones have a gold entity.
    fn sentence(index: usize, spans: &[(f32, bool)]) -> ScoredSentence<Vec<span_ner::SpanScore>> {
        let scored = |(index, (probability, _)): (usize, &(f32, bool))| {
            span_ner::SpanScore::new(index, index + 1, 0, *probability, 1.0 - probability)
        };
        let entities = (spans.iter().enumerate())
            .filter(|(_, (_, right))| *right)
            .map(|(index, _)| Entity::new(index, index + 1, "X"));
        ScoredSentence {
            index,
            candidates: spans.iter().enumerate().map(scored).collect(),
            entities: entities.collect(),
        }
    }

    #[test]
    fn a_bias_that_helps_everywhere_is_chosen() {
        // Everything from 0.2 on is right: the bias must fall below ln(0.2 / 0.8) = -1.39.
        let one = [(0.2, true), (0.3, true), (0.9, true), (0.1, false)];
        let dev: Vec<_> = (0..20).map(|index| sentence(index, &one)).collect();
        let found = tune(&head(), &dev).unwrap();
        assert_eq!(found.as_trained.correct, 20);
        assert_eq!(found.cross_fitted.correct, 60);
        assert_eq!(found.cross_fitted.f1(), 1.0);
        assert_eq!(found.changes.len(), 1);
        assert_eq!(found.changes[0].setting, "none_bias");
        assert!((-2.2..-1.39).contains(&found.config.none_bias), "{found:?}");
        // The next right span, at 0.1, is not.
        assert_eq!(found.cross_fitted.predicted, 60);
    }

    #[test]
    fn settings_that_help_only_where_they_were_chosen_are_not_used() {
        // Every part of the sentences would like another bias.
        let parts = [
            sentence(0, &[(0.6, true), (0.7, false)]),
            sentence(1, &[(0.6, false), (0.7, true)]),
            sentence(2, &[(0.4, true), (0.6, true)]),
            sentence(3, &[(0.4, false), (0.6, true)]),
            sentence(4, &[(0.3, false), (0.6, true)]),
        ];
        let found = tune(&head(), &parts).unwrap();
        assert!(found.changes.is_empty(), "{found:?}");
        assert_eq!(found.cross_fitted, found.as_trained);
        assert_eq!(found.config, *head().config());
    }

    #[test]
    fn no_sentences_change_nothing() {
        let head = SeqNer::init(
            &Settings::of(Preset::Paper),
            4,
            &Labels::new(["X"]),
            &Device::flex(),
        );
        let found = tune(&head, &[]).unwrap();
        assert!(found.changes.is_empty());
    }
}
