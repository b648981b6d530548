//! A short measurement of how fast a recipe trains, for planning.

use std::time::Instant;

use burn::tensor::Device;

use super::plan::Cost;
use crate::error::Result;
use crate::recipe::Recipe;
use crate::registry;
use crate::train::Corpus;

/// Training sentences of the measurement: a sample of the corpus.
const SAMPLE: usize = 400;
/// Steps before the measurement starts.
const WARM_UP: usize = 1;
/// A dev sentence takes this share of the time of a training sentence.
const DEV_SHARE: f64 = 1.0 / 3.0;

/// The time that a recipe takes on a corpus, measured with a few steps for about so many seconds.
pub fn measure(recipe: &Recipe, corpus: &Corpus, device: &Device, seconds: f64) -> Result<Cost> {
    let sentences = corpus.train.len() as f64 + DEV_SHARE * corpus.dev.len() as f64;
    let start = Instant::now();
    let entry = registry::find(recipe.head_name())?;
    let mut trainer = (entry.trainer)(recipe, sample(corpus), device)?;
    let prepared = start.elapsed().as_secs_f64();
    for _ in 0..WARM_UP {
        trainer.step()?;
    }
    let start = Instant::now();
    let mut trained = 0;
    while trained == 0 || start.elapsed().as_secs_f64() < seconds {
        trained += trainer.step()?.sentences;
    }
    Ok(Cost {
        start: prepared,
        epoch: sentences * start.elapsed().as_secs_f64() / trained as f64,
    })
}

/// Sentences from the whole corpus, as many as the measurement needs at the most.
fn sample(corpus: &Corpus) -> Corpus {
    let every = corpus.train.len().div_ceil(SAMPLE).max(1);
    Corpus {
        train: corpus.train.iter().step_by(every).cloned().collect(),
        dev: Vec::new(),
        test: Vec::new(),
        labels: corpus.labels.clone(),
        about: None,
    }
}
