//! The sentences of a run: found by name or path, limited, split, and checked before a minute is spent on them.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::data::datasets;
use crate::data::split::split;
use crate::data::{self};
use crate::error::{Error, Result};
use crate::model::card;
use crate::recipe::Recipe;
use crate::text::{Labels, Sentence, is_nested};

/// The three parts of a run's data.
#[derive(Debug)]
pub struct Corpus {
    /// Trained on.
    pub train: Vec<Sentence>,
    /// Chooses the best checkpoint.
    pub dev: Vec<Sentence>,
    /// Reported on.
    pub test: Vec<Sentence>,
    /// Types in the training sentences.
    pub labels: Labels,
    /// What the model card says of it.
    pub about: Option<card::CorpusFacts>,
}

impl Corpus {
    /// Loads what a recipe asks for.
    pub fn load(recipe: &Recipe, roots: &[PathBuf]) -> Result<Self> {
        let data = &recipe.data;
        let (mut train, mut dev, mut test, about) = match &data.corpus {
            Some(name) => named(name, roots)?,
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
        if dev.is_empty() && train.len() >= 10 {
            let mut parts = split(train, &[0.9, 0.1], recipe.train.seed)?.into_iter();
            train = parts.next().unwrap_or_default();
            dev = parts.next().unwrap_or_default();
            tracing::info!(
                "no dev sentences given: {} of the training sentences are held out, {} stay",
                dev.len(),
                train.len()
            );
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
                "there are no training sentences; look at [data] in the recipe, and try `nerzoo data stats` on the file"
                    .into(),
            ));
        }
        if self.labels.is_empty() {
            return Err(Error::Config(
                "no training sentence has an entity; `nerzoo data check` on the file shows what was read".into(),
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
                    "{name} has types that training never shows, so they cannot be found: {}",
                    unknown.join(", ")
                );
            }
        }
        Ok(())
    }

    /// A hash of what the run is trained and chosen on: words and entities of the training and dev sentences.
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

    /// How many training entities share a word with another.
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

type Parts = (
    Vec<Sentence>,
    Vec<Sentence>,
    Vec<Sentence>,
    Option<card::CorpusFacts>,
);

fn named(name: &str, roots: &[PathBuf]) -> Result<Parts> {
    let dataset = datasets::find(name, roots)?;
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
