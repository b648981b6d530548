//! Sentences of several requests that are tagged together.

use std::sync::Arc;

use super::metrics::ModelMetrics;
use super::request::{Request, TagFailure};
use crate::encoder::EncodedSentence;
use crate::error::{Error, Result};
use crate::model::tagger::Tagger;
use crate::process;
use crate::text::{Mention, Sentence};

/// Most sentences of a batch.
const SENTENCES: usize = 512;

/// Pieces that every sentence has in addition to those of its words.
const SPECIAL_PIECES: usize = 2;

/// A sentence of a request.
pub(super) struct Job {
    /// Its index in the request.
    pub index: usize,
    pub sentence: Sentence,
    pub encoded: EncodedSentence,
}

impl Job {
    /// Number of pieces that it counts for.
    pub fn pieces(&self) -> usize {
        self.encoded.pieces() + SPECIAL_PIECES
    }
}

/// Sentences that are tagged together, each with its request and its index there.
pub(super) struct Batch {
    pub tagger: Arc<dyn Tagger>,
    pub sentences: Vec<Sentence>,
    encoded: Vec<EncodedSentence>,
    owners: Vec<(Arc<Request>, usize)>,
    pub pieces: usize,
}

impl Batch {
    /// An empty batch for a tagger.
    pub fn new(tagger: Arc<dyn Tagger>) -> Self {
        Self {
            tagger,
            sentences: Vec::new(),
            encoded: Vec::new(),
            owners: Vec::new(),
            pieces: 0,
        }
    }

    /// Whether it has fewer than `most` pieces.
    pub fn has_room(&self, most: usize) -> bool {
        self.pieces < most && self.sentences.len() < SENTENCES
    }

    pub fn push(&mut self, job: Job, request: &Arc<Request>) {
        self.pieces += job.pieces();
        self.owners.push((request.clone(), job.index));
        self.sentences.push(job.sentence);
        self.encoded.push(job.encoded);
    }

    /// Tags the sentences and answers their requests. If that fails, each request is tried alone, so that one text cannot
    /// make the requests of others fail.
    pub fn run(self, metrics: &ModelMetrics) {
        match tag(&*self.tagger, &self.sentences, &self.encoded) {
            Ok(mentions) => self.answer(mentions),
            Err(problem) => {
                metrics.fail_batch();
                tracing::warn!("a batch failed: {problem}");
                let groups = self.by_request();
                if let [only] = &groups[..] {
                    only.owners[0].0.fail(TagFailure::Tagger(problem));
                    return;
                }
                for group in groups {
                    match tag(&*group.tagger, &group.sentences, &group.encoded) {
                        Ok(mentions) => group.answer(mentions),
                        Err(problem) => group.owners[0].0.fail(TagFailure::Tagger(problem)),
                    }
                }
            }
        }
    }

    fn answer(self, mentions: Vec<Vec<Mention>>) {
        let parts = self.sentences.into_iter().zip(mentions);
        for ((request, index), part) in self.owners.into_iter().zip(parts) {
            request.add(index, part);
        }
    }

    /// A batch for each request.
    fn by_request(self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let sentences = self.sentences.into_iter().zip(self.encoded);
        for ((request, index), (sentence, encoded)) in self.owners.into_iter().zip(sentences) {
            let of_request = |batch: &&mut Batch| Arc::ptr_eq(&batch.owners[0].0, &request);
            let job = Job {
                index,
                sentence,
                encoded,
            };
            match batches.iter_mut().find(of_request) {
                Some(batch) => batch.push(job, &request),
                None => {
                    let mut batch = Batch::new(self.tagger.clone());
                    batch.push(job, &request);
                    batches.push(batch);
                }
            }
        }
        batches
    }
}

/// The mentions of sentences; a panic is an error.
fn tag(
    tagger: &dyn Tagger,
    sentences: &[Sentence],
    encoded: &[EncodedSentence],
) -> Result<Vec<Vec<Mention>>, String> {
    let result = process::catch(|| tagger.tag_encoded(sentences, encoded));
    let mentions = result
        .map_err(|panic| format!("panic: {panic}"))?
        .map_err(|error: Error| error.chain())?;
    if mentions.len() != sentences.len() {
        return Err(format!(
            "{} sentences were tagged as {}",
            sentences.len(),
            mentions.len()
        ));
    }
    Ok(mentions)
}
