//! Where models differ: scores by what makes an entity hard, kinds of errors, significance, and the worst sentences.
//!
//! One model is the standard, and every other one is also shown as its difference to it. Everything takes nested
//! gold. Gold entities that no span of words equals count as missed wherever all entities are counted (scores, types,
//! errors, confusion, significance); buckets, lengths and nesting leave them out, as [`Report`] does.

mod attributes;
mod bootstrap;
mod brackets;
mod cells;
mod html;
mod json;
mod judge;
mod markup;
mod tables;
mod text;
mod walk;

pub use attributes::{Attribute, BUCKETS, LENGTH_GROUPS, Training};
pub use bootstrap::{Difference, Interval, Significance};
pub use judge::{Confusion, Errors, Fate, Judgement, Verdict};

use crate::error::{Error, Result, nearest};
use crate::eval::{Counts, Report, Split};
use crate::text::{Mention, Sentence};
use walk::Walk;

/// How the bootstrap is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many times the sentences are drawn anew; at least one.
    pub resamples: usize,
    /// The seed; equal seeds give equal intervals.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            resamples: 1000,
            seed: 1,
        }
    }
}

/// The analysis of one or more models on one gold corpus.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The models, in the order given.
    pub models: Vec<Model>,
    /// Which of them the others are compared with.
    pub standard: usize,
    /// How many sentences there were to train on.
    pub training_sentences: usize,
    /// How many gold sentences there are.
    pub sentences: usize,
    /// Words of the gold sentences.
    pub words: u64,
    /// Those of them that never occur in a training sentence, spelled exactly so.
    pub unknown_words: u64,
    /// The sentences with the most errors, worst first; none without any.
    pub worst: Vec<Worst>,
    /// How the bootstrap was done.
    pub options: Options,
}

/// What is known about one model.
#[derive(Debug, Clone)]
pub struct Model {
    /// What the user calls it.
    pub name: String,
    /// All entities, each type, flat and nested ones.
    pub report: Report,
    /// Entities by their number of words, in the order of [`LENGTH_GROUPS`].
    pub lengths: [Counts; 11],
    /// Entities by attribute, in the order of [`Attribute::ALL`], and bucket, in the order of [`BUCKETS`]. Recall
    /// asks for the bucket of the gold entity, precision for that of the predicted one.
    pub buckets: [[Split; 4]; 4],
    /// Kinds of errors.
    pub errors: Errors,
    /// Labels taken for others.
    pub confusion: Confusion,
    /// What the bootstrap says.
    pub significance: Significance,
}

/// A sentence in which much went wrong.
#[derive(Debug, Clone)]
pub struct Worst {
    /// Which of the gold sentences, from 0.
    pub index: usize,
    /// The sentence.
    pub sentence: Sentence,
    /// Wrong predictions and gold entities not found, of all models together. On a tie the earlier sentence is first.
    pub mistakes: u64,
    /// What each model did, in the order of [`Analysis::models`].
    pub judgements: Vec<Judgement>,
}

impl Analysis {
    /// Analyses the predictions of each model, one list a gold sentence. The standard is the model of that name, or the
    /// first one.
    pub fn new(
        train: &[Sentence],
        gold: &[Sentence],
        models: Vec<(String, Vec<Vec<Mention>>)>,
        standard: Option<&str>,
        options: Options,
    ) -> Result<Self> {
        check(gold, &models, options)?;
        let standard = find_standard(&models, standard)?;
        let training = Training::of(train);
        let (walks, counts): (Vec<Walk>, Vec<Vec<Counts>>) = models
            .iter()
            .map(|(_, predictions)| Walk::over(gold, predictions, &training))
            .unzip();
        let significance = bootstrap::bootstrap(&counts, standard, options);
        let words = gold.iter().flat_map(|sentence| &sentence.words);
        Ok(Self {
            standard,
            training_sentences: train.len(),
            sentences: gold.len(),
            words: words.clone().count() as u64,
            unknown_words: words.filter(|word| !training.knows(&word.text)).count() as u64,
            worst: walk::worst(gold, &models),
            models: models
                .into_iter()
                .zip(walks)
                .zip(significance)
                .map(|(((name, _), walk), significance)| walk.into_model(name, significance))
                .collect(),
            options,
        })
    }

    /// Share of the gold sentences' words that never occur in a training sentence; 0 of none.
    pub fn out_of_vocabulary(&self) -> f64 {
        self.unknown_words as f64 / self.words.max(1) as f64
    }

    /// The model the others are compared with.
    pub fn standard(&self) -> &Model {
        &self.models[self.standard]
    }
}

fn check(
    gold: &[Sentence],
    models: &[(String, Vec<Vec<Mention>>)],
    options: Options,
) -> Result<()> {
    let problem = |problem: String| Err(Error::Config(problem));
    if gold.is_empty() {
        return problem("there are no gold sentences to analyse".to_owned());
    }
    if models.is_empty() {
        return problem("there are no models to analyse; name one as NAME=FILE".to_owned());
    }
    if options.resamples == 0 {
        return problem("the bootstrap needs at least one resample; 1000 are usual".to_owned());
    }
    for (index, (name, predictions)) in models.iter().enumerate() {
        if models[..index].iter().any(|(other, _)| other == name) {
            return problem(format!(
                "two models are called `{name}`; give each a name of its own"
            ));
        }
        if predictions.len() != gold.len() {
            return problem(format!(
                "model `{name}` has predictions for {} sentences, but there are {} gold ones; predict the gold file again",
                predictions.len(),
                gold.len()
            ));
        }
        for (number, (sentence, mentions)) in gold.iter().zip(predictions).enumerate() {
            let outside = mentions
                .iter()
                .map(|mention| &mention.entity)
                .find(|entity| entity.span.is_empty() || entity.span.end > sentence.len());
            if let Some(entity) = outside {
                return problem(format!(
                    "model `{name}` predicts a {} at words {}..{} of sentence {}, which has {} words; are the predictions for another file?",
                    entity.label,
                    entity.span.start,
                    entity.span.end,
                    number + 1,
                    sentence.len()
                ));
            }
        }
    }
    Ok(())
}

fn find_standard(models: &[(String, Vec<Vec<Mention>>)], standard: Option<&str>) -> Result<usize> {
    let Some(standard) = standard else {
        return Ok(0);
    };
    let names: Vec<&str> = models.iter().map(|(name, _)| name.as_str()).collect();
    names
        .iter()
        .position(|name| *name == standard)
        .ok_or_else(|| {
            let hint = match nearest(standard, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the models are {}", names.join(", ")),
            };
            Error::Config(format!("no model is called `{standard}`; {hint}"))
        })
}
