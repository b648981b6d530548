//! Using a model: length-sorted batches in, mentions out, in the order asked.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::encoder::EncoderConfig;
use crate::encoder::batch::PieceBatch;
use crate::encoder::pieces::{EncodedSentence, WordTokenizer};
use crate::encoder::vocabulary::Lookup;
use crate::error::Result;
use crate::heads::{Detail, Diagnosis, Head};
use crate::model::recognizer::Recognizer;
use crate::text::{Labels, Mention, Sentence};

/// Pieces, padding included, that a prediction batch may hold: long sentences go in small batches.
const PIECES_PER_BATCH: usize = 4096;

/// Sentences a prediction batch may hold.
const SENTENCES_PER_BATCH: usize = 64;

/// Sentences that are sorted by length together.
const SORTED_TOGETHER: usize = 2048;

/// Batches laid out ahead.
const AHEAD: usize = 2;

/// The one thing evaluate, predict and analyse know about a model.
pub trait Tagger: Send + Sync {
    /// The mentions of each sentence, in order of the sentences.
    fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>>;

    /// The mentions of each sentence together with everything else the head can report about them.
    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis>;

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
    pieces: Arc<WordTokenizer>,
    lookup: Option<Lookup>,
    encoder: EncoderConfig,
    labels: Labels,
}

impl<H: Head> ModelTagger<H> {
    /// A tagger of a model without a graph.
    pub fn new(
        model: Recognizer<H>,
        pieces: Arc<WordTokenizer>,
        encoder: EncoderConfig,
        labels: Labels,
    ) -> Self {
        Self {
            model,
            pieces,
            lookup: encoder.lookup(),
            encoder,
            labels,
        }
    }

    /// Calls with the places of a batch's sentences and its pieces, batch after batch. Sentences are cut into pieces by
    /// a thread of its own while the batches before are with the model.
    fn each_batch(&self, sentences: &[Sentence], mut call: impl FnMut(&[usize], &PieceBatch)) {
        let prompts = (self.model.head.prompt()).map_or(0, |prompt| prompt.dims()[0]);
        let window = self.encoder.transformer.window().saturating_sub(prompts);
        let Self {
            pieces,
            encoder,
            lookup,
            ..
        } = self;
        let (sender, receiver) = sync_channel(AHEAD);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (number, part) in sentences.chunks(SORTED_TOGETHER).enumerate() {
                    let encoded = pieces.encode_with(part, encoder.context > 0);
                    for batch in plan(&encoded) {
                        let rows: Vec<&EncodedSentence> =
                            batch.iter().map(|i| &encoded[*i]).collect();
                        let chosen: Vec<&Sentence> = batch.iter().map(|i| &part[*i]).collect();
                        let laid = PieceBatch::new(&rows, pieces, window, encoder.overlap);
                        let features = (lookup.as_ref()).map(|of| of.batch(&chosen, laid.words));
                        let first = number * SORTED_TOGETHER;
                        let places: Vec<usize> = batch.iter().map(|i| first + i).collect();
                        if sender.send((places, laid.with_features(features))).is_err() {
                            return;
                        }
                    }
                }
            });
            for (places, pieces) in receiver {
                call(&places, &pieces);
            }
        });
    }
}

/// Batches of similar length: at most `SENTENCES_PER_BATCH` sentences and `PIECES_PER_BATCH` pieces each.
fn plan(encoded: &[EncodedSentence]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..encoded.len()).collect();
    order.sort_by_key(|index| encoded[*index].pieces());
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let pieces = encoded[index].pieces() + 2;
        match batches.last_mut() {
            Some(batch)
                if batch.len() < SENTENCES_PER_BATCH
                    && (batch.len() + 1) * pieces <= PIECES_PER_BATCH =>
            {
                batch.push(index);
            }
            _ => batches.push(vec![index]),
        }
    }
    batches
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

    fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
        let mut all = Diagnosis::empty(sentences.len());
        self.each_batch(sentences, |batch, pieces| {
            let states = self.model.states(pieces, false);
            all.insert(batch, self.model.head.diagnose(&states, Detail::Full));
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
        self.encoder.context
    }
}
