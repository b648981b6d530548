//! Scores of a model folder, made again and compared with what was published.

use std::fmt;
use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::summary;
use crate::data;
use crate::error::{Error, Result};
use crate::eval::{Report, evaluate};
use crate::files::{inside, read_text};
use crate::model::card;
use crate::recipe::Recipe;
use crate::registry;
use crate::text::Sentence;
use crate::train::Corpus;

/// F1 of a model, scored again.
#[derive(Debug, Clone)]
pub struct Rescored {
    /// What was scored: a corpus and split, or a file.
    pub what: String,
    /// The scores now.
    pub report: Report,
    /// F1 in `metrics.json`, between 0 and 1.
    pub recorded: Option<f64>,
    /// F1 in the model card, between 0 and 1.
    pub in_card: Option<f64>,
}

impl Rescored {
    /// Fails if F1 differs from that of the card or of `metrics.json` by more than `tolerance`.
    pub fn compare(&self, tolerance: f64) -> Result<()> {
        let now = self.report.overall.f1();
        let known = [
            ("the model card", self.in_card),
            ("metrics.json", self.recorded),
        ];
        if known.iter().all(|(_, f1)| f1.is_none()) {
            return Err(Error::Config(format!(
                "F1 on {} is {:.2}, but neither card nor metrics.json have a score to compare with",
                self.what,
                100.0 * now
            )));
        }
        let is_close = |f1: f64| (f1 - now).abs() <= tolerance;
        for (place, f1) in known {
            if let Some(f1) = f1.filter(|f1| !is_close(*f1)) {
                return Err(Error::Config(format!(
                    "F1 on {} is {:.2}, but {place} says {:.2}; the corpus or the program differs, or the score is wrong",
                    self.what,
                    100.0 * now,
                    100.0 * f1
                )));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rescored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = 100.0 * self.report.overall.f1();
        write!(f, "F1 {now:.2} on {}", self.what)?;
        match self.in_card.or(self.recorded) {
            Some(f1) => write!(f, ", published {:.2}", 100.0 * f1),
            None => Ok(()),
        }
    }
}

/// The sentences that the scores of a recipe are made on: test, or dev if there is no test split.
pub(super) fn scored_split(corpus: &Corpus) -> (&'static str, &[Sentence]) {
    if corpus.test.is_empty() {
        ("dev", &corpus.dev)
    } else {
        ("test", &corpus.test)
    }
}

/// Tags the sentences of the model's recipe, or the given ones, and scores the mentions.
pub fn rescore(
    folder: &Path,
    device: &Device,
    roots: &[PathBuf],
    gold: Option<Vec<Sentence>>,
) -> Result<Rescored> {
    let metrics = summary::metrics(folder)?;
    let tagger = registry::load(folder, device, &[])?;
    let (what, split, sentences) = match gold {
        Some(mut gold) => {
            data::link_context(&mut gold, tagger.context());
            let split = if metrics["test"].is_object() {
                "test"
            } else {
                "dev"
            };
            ("the given sentences".to_string(), split, gold)
        }
        None => {
            let recipe = Recipe::read(&folder.join("recipe.toml"), &[])?;
            let corpus = Corpus::load(&recipe, roots)?;
            let (split, sentences) = scored_split(&corpus);
            let name = recipe.data.corpus.as_deref().unwrap_or("its files");
            (format!("{name} ({split})"), split, sentences.to_vec())
        }
    };
    let report = evaluate(&*tagger, &sentences)?;
    let card = inside(folder, "README.md").and_then(|path| read_text(&path, summary::LONGEST_TEXT));
    let card = card.unwrap_or_default();
    Ok(Rescored {
        what,
        report,
        recorded: metrics[split]["f1"].as_f64(),
        in_card: card::reported_f1(&card),
    })
}
