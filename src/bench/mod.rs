//! The speed of training and prediction of a recipe, measured on its own batches after a warm-up.

pub mod estimate;

use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::Device;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::process;
use crate::recipe::Recipe;
use crate::registry;
use crate::text::{Entity, Sentence};
use crate::train::memory::MemoryEstimate;
use crate::train::{Corpus, Trainer};

/// Steps before the measurement starts.
const WARM_UP: usize = 3;

/// What to measure.
pub struct Benchmark {
    /// The recipe.
    pub recipe: Recipe,
    /// Folders in which named corpora are searched.
    pub roots: Vec<PathBuf>,
    /// The device.
    pub device: Device,
    /// Steps to measure.
    pub steps: usize,
    /// Words of every sentence, instead of the corpus's own lengths.
    pub words: Option<usize>,
}

/// The result of a measurement.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Sentences done.
    pub sentences: usize,
    /// Batches done.
    pub steps: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// CPU seconds of all threads.
    pub cpu_seconds: Option<f64>,
    /// Peak memory, loading included.
    pub peak_memory: Option<u64>,
    /// Where training steps spent their time; `None` for predictions.
    pub first_steps: Option<FirstSteps>,
}

/// The time of steps in which a GPU compiles kernels, apart from that of the others.
#[derive(Debug, Clone, Default)]
pub struct FirstSteps {
    /// Seconds of the steps before the measurement.
    pub warm_up_seconds: f64,
    /// Different shapes of all steps, those before the measurement included.
    pub shapes: usize,
    /// Measured steps whose shapes no step before had.
    pub new_steps: usize,
    /// Seconds of these steps.
    pub new_seconds: f64,
    /// Seconds of all other measured steps.
    pub other_seconds: f64,
}

impl FirstSteps {
    fn to_json(&self) -> Value {
        json!({
            "warm_up_seconds": self.warm_up_seconds,
            "shapes": self.shapes,
            "new_steps": self.new_steps,
            "new_seconds": self.new_seconds,
            "other_seconds": self.other_seconds,
        })
    }
}

impl Measured {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let count = self.sentences as f64;
        json!({
            "sentences": self.sentences,
            "steps": self.steps,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "sentences_per_second": count / self.seconds,
            "sentences_per_cpu_second": self.cpu_seconds.map(|seconds| count / seconds),
            "peak_memory_bytes": self.peak_memory,
            "first_steps": self.first_steps.as_ref().map(FirstSteps::to_json),
        })
    }
}

/// Wall-clock and CPU time.
struct Clock(Instant, Option<f64>);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), process::cpu_seconds())
    }

    fn stop(self, sentences: usize, steps: usize) -> Measured {
        let cpu = process::cpu_seconds();
        Measured {
            sentences,
            steps,
            seconds: self.0.elapsed().as_secs_f64(),
            cpu_seconds: cpu.zip(self.1).map(|(now, before)| now - before),
            peak_memory: process::peak_memory(),
            first_steps: None,
        }
    }
}

impl Benchmark {
    /// Times training steps: forward, backward, clipping, update.
    pub fn train(&self) -> Result<Measured> {
        let mut trainer = self.trainer()?;
        let mut first = FirstSteps::default();
        let start = Instant::now();
        for _ in 0..WARM_UP {
            first.shapes += usize::from(trainer.step()?.is_new_shape);
        }
        first.warm_up_seconds = start.elapsed().as_secs_f64();
        let clock = Clock::start();
        let mut sentences = 0;
        for _ in 0..self.steps {
            let start = Instant::now();
            let batch = trainer.step()?;
            // A step ends by reading its loss, so all its work is done.
            let seconds = start.elapsed().as_secs_f64();
            sentences += batch.sentences;
            if batch.is_new_shape {
                first.shapes += 1;
                first.new_steps += 1;
                first.new_seconds += seconds;
            } else {
                first.other_seconds += seconds;
            }
        }
        Ok(Measured {
            first_steps: Some(first),
            ..clock.stop(sentences, self.steps)
        })
    }

    /// Times tagging: tokenizing, forward, decoding.
    pub fn predict(&self) -> Result<Measured> {
        let trainer = self.trainer()?;
        let (tagger, corpus) = (trainer.tagger(), trainer.corpus());
        let sentences = if corpus.test.is_empty() {
            &corpus.train
        } else {
            &corpus.test
        };
        let batch = self.recipe.train.batch;
        let wanted = self.steps * batch;
        let many: Vec<_> = sentences.iter().cycle().take(wanted).cloned().collect();
        tagger.tag(&many[..many.len().min(WARM_UP * batch)])?;
        let clock = Clock::start();
        tagger.tag(&many)?;
        Ok(clock.stop(many.len(), self.steps))
    }

    /// Estimates the memory of training, without a step.
    pub fn memory(&self) -> Result<Vec<MemoryEstimate>> {
        let entry = registry::find(self.recipe.head_name())?;
        (entry.memory)(&self.recipe, self.corpus()?, &self.device)
    }

    fn trainer(&self) -> Result<Box<dyn Trainer>> {
        let entry = registry::find(self.recipe.head_name())?;
        (entry.trainer)(&self.recipe, self.corpus()?, &self.device)
    }

    fn corpus(&self) -> Result<Corpus> {
        let mut corpus = Corpus::load(&self.recipe, &self.roots)?;
        if let Some(words) = self.words {
            let count = (WARM_UP + self.steps) * self.recipe.train.batch;
            corpus.train = of_length(&corpus.train, words, count)?;
            corpus.test = corpus.train.clone();
        }
        Ok(corpus)
    }
}

/// `count` sentences of `words` words each, made by joining and cutting sentences of the corpus.
fn of_length(sentences: &[Sentence], words: usize, count: usize) -> Result<Vec<Sentence>> {
    if words == 0 || sentences.iter().all(|sentence| sentence.words.is_empty()) {
        return Err(Error::Config(
            "sentences of a given length are made from the corpus: the length must be above 0 and the corpus not empty".into(),
        ));
    }
    let mut source = sentences.iter().cycle();
    let mut made = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut texts, mut entities) = (Vec::new(), Vec::new());
        while texts.len() < words {
            let sentence = source.next().expect("a cycle has no end");
            let shift = texts.len();
            texts.extend(sentence.words.iter().map(|word| word.text.clone()));
            entities.extend(sentence.entities.iter().map(|entity| {
                let (start, end) = (entity.span.start + shift, entity.span.end + shift);
                Entity::new(start, end, entity.label.clone())
            }));
        }
        texts.truncate(words);
        entities.retain(|entity| entity.span.end <= words);
        let mut sentence = Sentence::from_words(texts);
        sentence.entities = entities;
        made.push(sentence);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_a_length_keep_their_entities() {
        let mut one = Sentence::from_words(["Anna", "met", "Bo"]);
        one.entities = vec![Entity::new(0, 1, "PER"), Entity::new(2, 3, "PER")];
        let made = of_length(&[one], 4, 2).unwrap();
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].words.len(), 4);
        let spans: Vec<usize> = made[0].entities.iter().map(|e| e.span.start).collect();
        assert_eq!(spans, [0, 2, 3]);
        assert!(of_length(&[Sentence::default()], 4, 2).is_err());
    }
}
