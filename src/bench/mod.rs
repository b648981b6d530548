//! How fast a recipe trains and predicts: the run's own batches, warm-up excluded.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use burn::data::dataloader::DataLoader;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::Learner;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::heads::Head;
use crate::model::tagger::{ModelTagger, Tagger};
use crate::process;
use crate::recipe::Recipe;
use crate::text::{Entity, Sentence};
use crate::train::batches::Loader;
use crate::train::corpus::Corpus;
use crate::train::optimizer::optimizer;
use crate::train::run::Run;
use crate::train::schedule::scheduler;

/// Steps before the clock starts.
const WARM_UP: usize = 3;

/// What to measure.
pub struct Bench {
    /// The recipe.
    pub recipe: Recipe,
    /// Where corpora are looked for.
    pub roots: Vec<PathBuf>,
    /// The device.
    pub device: Device,
    /// Steps to measure.
    pub steps: usize,
    /// Words of every sentence, instead of the corpus's own lengths.
    pub words: Option<usize>,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Sentences done.
    pub sentences: usize,
    /// Batches done.
    pub steps: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Processor seconds of all threads.
    pub cpu_seconds: Option<f64>,
    /// The most memory held, loading included.
    pub peak_memory: Option<u64>,
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
        })
    }
}

/// Wall and processor clock.
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
        }
    }
}

impl Bench {
    fn prepare<H: Head>(&self) -> Result<Run<H>> {
        let head = self.recipe.head_config()?;
        let mut corpus = Corpus::load(&self.recipe, &self.roots)?;
        if let Some(words) = self.words {
            let count = (WARM_UP + self.steps) * self.recipe.train.batch;
            corpus.train = of_length(&corpus.train, words, count)?;
            corpus.test = corpus.train.clone();
        }
        Run::prepare(self.recipe.clone(), head, corpus)
    }
}

/// So many sentences of so many words each: the corpus's, put together and cut.
fn of_length(sentences: &[Sentence], words: usize, count: usize) -> Result<Vec<Sentence>> {
    if words == 0 || sentences.iter().all(|sentence| sentence.words.is_empty()) {
        return Err(Error::Config(
            "sentences of a length are made of words: give a length above 0 and a corpus that is not empty".into(),
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

/// Times training steps: forward, backward, clipping, update.
pub fn train<H: Head>(bench: &Bench) -> Result<Measured> {
    let run = bench.prepare::<H>()?;
    let settings = &run.recipe.train;
    let loader = Loader::new(Arc::new(run.batcher(&run.corpus.train, settings.batch)));
    let (optimizer, scale) = optimizer(settings);
    let model = run.model(&bench.device.clone().autodiff())?;
    let total = WARM_UP + bench.steps;
    let mut learner = Learner::new(model, optimizer, scheduler(settings, total));
    let mut clock = Clock::start();
    let (mut steps, mut sentences) = (0, 0);
    for epoch in 1.. {
        loader.seek(epoch, 0);
        for batch in loader.iter() {
            if steps == total {
                return Ok(clock.stop(sentences, bench.steps));
            }
            if steps == WARM_UP {
                clock = Clock::start();
                sentences = 0;
            }
            let Ok(batch) = batch else { continue };
            sentences += batch.sentences.len();
            let output = learner.train_step(batch);
            let loss = output.item.unread.into_iter().collect();
            scale.clip(&learner.model(), &output.grads, loss, settings.clip);
            learner.lr_step();
            learner.optimizer_step(output.grads);
            steps += 1;
        }
    }
    unreachable!("epochs go on until enough steps are done")
}

/// Times tagging: tokenizing, forward, decoding.
pub fn predict<H: Head>(bench: &Bench) -> Result<Measured> {
    let run = bench.prepare::<H>()?;
    let model = run.model(&bench.device.clone().autodiff())?.valid();
    let tagger = ModelTagger::new(
        model,
        run.pieces.clone(),
        run.encoder.clone(),
        run.corpus.labels.clone(),
    );
    let corpus = &run.corpus;
    let sentences = if corpus.test.is_empty() {
        &corpus.train
    } else {
        &corpus.test
    };
    let batch = run.recipe.train.batch;
    let wanted = bench.steps * batch;
    let many: Vec<_> = sentences.iter().cycle().take(wanted).cloned().collect();
    tagger.tag(&many[..many.len().min(WARM_UP * batch)])?;
    let clock = Clock::start();
    tagger.tag(&many)?;
    Ok(clock.stop(many.len(), bench.steps))
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
