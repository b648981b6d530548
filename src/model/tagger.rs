//! Using a model: sentences in, mentions out, computed in batches of sentences of similar length.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::encoder::EncoderConfig;
use crate::encoder::batching::{BatchLimits, PieceBatch, PieceBatcher, plan};
use crate::encoder::tokenizer::WordTokenizer;
use crate::error::Result;
use crate::heads::{Head, Reading};
use crate::model::recognizer::Recognizer;
use crate::text::{Labels, Mention, Sentence};

/// Largest size of a prediction batch: few long sentences, or up to 64 short ones.
const LIMITS: BatchLimits = BatchLimits {
    sentences: 64,
    pieces: 4096,
    row: usize::MAX,
};

/// Number of sentences that are sorted by length together.
const SORTED_TOGETHER: usize = 2048;

/// Number of batches that are prepared ahead.
const AHEAD: usize = 2;

/// The one thing evaluate, predict and analyse know about a model.
pub trait Tagger: Send + Sync {
    /// The mentions of each sentence, in order of the sentences.
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>>;

    /// What each kind of the model's evidence by itself finds; nothing for models with one kind.
    fn readings(&self, sentences: &[Sentence]) -> Result<Vec<Reading>>;

    /// The entity types it knows.
    fn labels(&self) -> &Labels;

    /// True when its mentions may nest.
    fn nested(&self) -> bool;

    /// Sentences it reads beside each one, on each side: what `Sentence::left` and `Sentence::right` are for.
    fn context(&self) -> usize {
        0
    }
}

/// A trained model with its tokenizer.
pub struct ModelTagger<H: Head> {
    model: Recognizer<H>,
    batcher: PieceBatcher,
    context: usize,
    labels: Labels,
}

impl<H: Head> ModelTagger<H> {
    /// A tagger of a model without a graph.
    pub fn new(
        model: Recognizer<H>,
        tokenizer: Arc<WordTokenizer>,
        encoder: EncoderConfig,
        labels: Labels,
    ) -> Self {
        let prompts = (model.head.prompt()).map_or(0, |prompt| prompt.dims()[0]);
        Self {
            model,
            batcher: encoder.batcher(tokenizer, prompts),
            context: encoder.context,
            labels,
        }
    }

    /// Calls `call` with the indices of a batch's sentences and the batch, for one batch after the other. A background
    /// thread prepares the next batches meanwhile.
    fn each_batch(&self, sentences: &[Sentence], mut call: impl FnMut(&[usize], &PieceBatch)) {
        let batcher = &self.batcher;
        let (sender, receiver) = sync_channel(AHEAD);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (number, part) in sentences.chunks(SORTED_TOGETHER).enumerate() {
                    let encoded = batcher.encode(part);
                    for indices in plan(&encoded, &LIMITS) {
                        let batch = batcher.make_batch(part, &encoded, &indices);
                        let first = number * SORTED_TOGETHER;
                        let indices: Vec<usize> = indices.iter().map(|i| first + i).collect();
                        if sender.send((indices, batch)).is_err() {
                            return;
                        }
                    }
                }
            });
            for (indices, batch) in receiver {
                call(&indices, &batch);
            }
        });
    }
}

impl<H: Head> Tagger for ModelTagger<H> {
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        let mut mentions = vec![Vec::new(); sentences.len()];
        self.each_batch(sentences, |batch, pieces| {
            for (index, found) in batch.iter().zip(self.model.decode(pieces)) {
                mentions[*index] = found;
            }
        });
        Ok(mentions)
    }

    fn readings(&self, sentences: &[Sentence]) -> Result<Vec<Reading>> {
        let mut all: Vec<Reading> = Vec::new();
        self.each_batch(sentences, |batch, pieces| {
            let readings = self.model.head.readings(&self.model.states(pieces, false));
            if all.is_empty() {
                all = readings
                    .iter()
                    .map(|reading| Reading {
                        name: reading.name.clone(),
                        apart: reading.apart,
                        mentions: vec![Vec::new(); sentences.len()],
                    })
                    .collect();
            }
            for (all, reading) in all.iter_mut().zip(readings) {
                for (index, found) in batch.iter().zip(reading.mentions) {
                    all.mentions[*index] = found;
                }
            }
        });
        Ok(all)
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn nested(&self) -> bool {
        self.model.head.nested()
    }

    fn context(&self) -> usize {
        self.context
    }
}
