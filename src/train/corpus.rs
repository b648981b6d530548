//! The sentences of a run: found by name or path, limited, split and checked before training.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::data::datasets;
use crate::data::split::{folds, share, split};
use crate::data::{self, ReadOptions};
use crate::error::{Error, Result};
use crate::model::card;
use crate::recipe::{Fold, Recipe};
use crate::text::{Labels, Sentence, is_nested};

/// The first words of a sentence, with the entities among them.
pub fn shortened(sentence: &Sentence, words: usize) -> Sentence {
    let kept = sentence.words.iter().take(words);
    let mut short = Sentence::from_words(kept.map(|word| word.text.clone()));
    short.entities = sentence.entities.clone();
    (short.entities).retain(|entity| entity.span.end <= words);
    short.pos = (sentence.pos.as_ref()).map(|pos| pos[..words.min(pos.len())].to_vec());
    short
}

/// The training, dev and test sentences of a run.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Training sentences.
    pub train: Vec<Sentence>,
    /// Sentences on which the best checkpoint is chosen.
    pub dev: Vec<Sentence>,
    /// Sentences for the final scores.
    pub test: Vec<Sentence>,
    /// Entity types of the training sentences.
    pub labels: Labels,
    /// Facts for the model card, if it is a named corpus.
    pub about: Option<card::CorpusFacts>,
}

impl Corpus {
    /// Loads the corpus of a recipe.
    pub fn load(recipe: &Recipe, roots: &[PathBuf]) -> Result<Self> {
        let data = &recipe.data;
        let (mut train, mut dev, mut test, about) = match &data.corpus {
            Some(name) => named(name, roots, &data.options)?,
            None => (
                data::read_many(&data.train, &data.options)?,
                data::read_many(&data.dev, &data.options)?,
                data::read_many(&data.test, &data.options)?,
                None,
            ),
        };
        // Before any sentence is left out: neighbours stay neighbours.
        for part in [&mut train, &mut dev, &mut test] {
            data::link_context(part, recipe.encoder.context);
        }
        if let Some(limit) = data.limit {
            train.truncate(limit);
        }
        if data.fold.is_none() {
            warn_about_leakage(recipe, &train, &dev, &test);
        }
        if let Some(fold) = data.fold {
            train.append(&mut dev);
            if let Fold::One { number, count } = fold {
                (train, test) = without_fold(train, number, count, recipe.train.seed)?;
            }
        }
        if let Some(longest) = data.longest {
            let before = train.len();
            train.retain(|sentence| sentence.len() <= longest);
            if train.len() < before {
                tracing::warn!(
                    "{} training sentences are longer than data.longest = {longest} and left out",
                    before - train.len()
                );
            }
        }
        if dev.is_empty() && train.len() >= 10 && data.fold != Some(Fold::All) {
            let mut parts = split(train, &[0.9, 0.1], recipe.train.seed)?.into_iter();
            train = parts.next().unwrap_or_default();
            dev = parts.next().unwrap_or_default();
            tracing::info!(
                "no dev sentences given: {} training sentences are held out for it, {} remain",
                dev.len(),
                train.len()
            );
        }
        if let Some(wanted) = data.share {
            train = share(train, wanted, recipe.train.seed);
        }
        let labels = Labels::of(&train);
        let corpus = Self {
            train,
            dev,
            test,
            labels,
            about,
        };
        corpus.check()?;
        Ok(corpus)
    }

    fn check(&self) -> Result<()> {
        if self.train.is_empty() {
            return Err(Error::Config(
                "there are no training sentences; check [data] in the recipe, and run `nerzoo data stats` on the file"
                    .into(),
            ));
        }
        if self.labels.is_empty() {
            return Err(Error::Config(
                "no training sentence has an entity; run `nerzoo data check` on the file to see what was read".into(),
            ));
        }
        for (name, part) in [("dev", &self.dev), ("test", &self.test)] {
            let unknown: Vec<String> = Labels::of(part)
                .names()
                .iter()
                .filter(|label| self.labels.index(label).is_none())
                .cloned()
                .collect();
            if !unknown.is_empty() {
                tracing::warn!(
                    "{name} has entity types that do not occur in training, so they cannot be found: {}",
                    unknown.join(", ")
                );
            }
        }
        Ok(())
    }

    /// A hash of the words and entities of the training and dev sentences.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for (part, sentences) in [("train", &self.train), ("dev", &self.dev)] {
            hasher.update(part);
            for sentence in sentences {
                hasher.update((sentence.words.len() as u64).to_le_bytes());
                for word in &sentence.words {
                    hasher.update(word.text.as_bytes());
                    hasher.update([0]);
                }
                for entity in &sentence.entities {
                    hasher.update((entity.span.start as u64).to_le_bytes());
                    hasher.update((entity.span.end as u64).to_le_bytes());
                    hasher.update(entity.label.as_bytes());
                    hasher.update([0]);
                }
            }
        }
        let digest = hasher.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Number of training entities that overlap another.
    pub fn nested(&self) -> usize {
        self.train
            .iter()
            .map(|sentence| {
                let all = &sentence.entities;
                all.iter().filter(|entity| is_nested(entity, all)).count()
            })
            .sum()
    }
}

/// The sentences of all folds but one, and those of that one.
fn without_fold(
    sentences: Vec<Sentence>,
    number: usize,
    count: usize,
    seed: u64,
) -> Result<(Vec<Sentence>, Vec<Sentence>)> {
    let fold_of = folds(&sentences, count, seed);
    let (inside, outside): (Vec<_>, Vec<_>) =
        (sentences.into_iter().zip(fold_of)).partition(|(_, fold)| fold + 1 == number);
    if inside.is_empty() {
        return Err(Error::Config(format!(
            "fold {number} of {count} has no sentences: there are fewer documents than folds; use fewer folds"
        )));
    }
    let sentences = |part: Vec<(Sentence, usize)>| part.into_iter().map(|(one, _)| one).collect();
    Ok((sentences(outside), sentences(inside)))
}

/// Warns, once for the same corpus, about dev and test sentences that occur in training.
fn warn_about_leakage(recipe: &Recipe, train: &[Sentence], dev: &[Sentence], test: &[Sentence]) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if let Some(message) = leakage_message(recipe, train, dev, test) {
        let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(message.clone()) {
            tracing::warn!("{message}");
        }
    }
}

fn leakage_message(
    recipe: &Recipe,
    train: &[Sentence],
    dev: &[Sentence],
    test: &[Sentence],
) -> Option<String> {
    let known: HashSet<String> = train.iter().filter_map(data::leakage_key).collect();
    let is_known =
        |sentence: &&Sentence| data::leakage_key(sentence).is_some_and(|key| known.contains(&key));
    let part = |name: &str, part: &[Sentence]| {
        let count = part.iter().filter(is_known).count();
        (count > 0).then(|| format!("{count} of {} {name} sentences", part.len()))
    };
    let parts: Vec<String> = part("dev", dev)
        .into_iter()
        .chain(part("test", test))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let data = &recipe.data;
    let files = data.train.iter().chain(&data.dev).chain(&data.test);
    let files = files.map(|file| file.display().to_string());
    let sources: Vec<String> = data.corpus.iter().cloned().chain(files).collect();
    Some(format!(
        "{} also occur in training, so scores on them are too good; `nerzoo data check {}` lists them",
        parts.join(" and "),
        sources.join(" ")
    ))
}

type Parts = (
    Vec<Sentence>,
    Vec<Sentence>,
    Vec<Sentence>,
    Option<card::CorpusFacts>,
);

fn named(name: &str, roots: &[PathBuf], options: &ReadOptions) -> Result<Parts> {
    let mut dataset = datasets::find(name, roots)?;
    dataset.add_general_options(options);
    let names: Vec<String> = dataset.splits().map(String::from).collect();
    let part = |split: &str| {
        if names.iter().any(|name| name == split) {
            dataset.load(split)
        } else {
            Ok(Vec::new())
        }
    };
    let about = card::CorpusFacts {
        title: dataset.info.title.clone(),
        language: dataset.info.language.clone(),
        licence: dataset.info.licence.clone(),
        source: dataset.info.source.clone(),
    };
    Ok((part("train")?, part("dev")?, part("test")?, Some(about)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_are_counted_and_the_command_is_named() {
        let text = "[data]\ntrain = ['a.jsonl']\ntest = ['b.jsonl']\n[head]\nname = 'seq_ner'\n";
        let recipe = Recipe::parse(text, "test", &[]).unwrap();
        let sentences = |texts: &[&str]| -> Vec<Sentence> {
            texts
                .iter()
                .map(|text| Sentence::from_words(text.split(' ')))
                .collect()
        };
        let train = sentences(&[
            "this is a test",
            "short one",
            "another sentence of training",
        ]);
        let test = sentences(&["this is a test", "short one", "something new here now"]);
        let message = leakage_message(&recipe, &train, &[], &test).unwrap();
        assert_eq!(
            message,
            "1 of 3 test sentences also occur in training, so scores on them are too good; `nerzoo data check a.jsonl b.jsonl` \
             lists them"
        );
        assert_eq!(leakage_message(&recipe, &train, &test[1..], &[]), None);
    }
}
