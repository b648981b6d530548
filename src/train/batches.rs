//! Batches: bucketed by length, shuffled anew each epoch, prepared ahead in a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::encoder::batch::PieceBatch;
use crate::encoder::pieces::{EncodedSentence, WordTokenizer};
use crate::encoder::vocabulary::Lookup;
use crate::heads::Head;
use crate::text::{Entity, Labels, Sentence};

/// Batches prepared ahead.
const AHEAD: usize = 4;

/// A batch as plain data.
#[derive(Debug, Clone)]
pub struct Batch<G> {
    /// The sentences as pieces.
    pub pieces: PieceBatch,
    /// What the loss compares with.
    pub gold: G,
    /// Gold entities of each sentence, for scoring.
    pub entities: Vec<Vec<Entity>>,
    /// Keep the encoder as it is in this step.
    pub frozen: bool,
    /// Which sentences of the corpus these are.
    pub sentences: Vec<usize>,
    /// Which batch of its epoch this is.
    pub number: usize,
}

/// Sentences with their pieces.
#[derive(Debug)]
pub struct Prepared {
    /// The sentences.
    pub sentences: Vec<Sentence>,
    /// Their pieces.
    pub encoded: Vec<EncodedSentence>,
}

/// What batches are made with.
#[derive(Debug)]
pub struct Batcher<H: Head> {
    /// The sentences.
    pub corpus: Prepared,
    /// Words to pieces.
    pub pieces: Arc<WordTokenizer>,
    /// What else of the words is looked up.
    pub lookup: Option<Arc<Lookup>>,
    /// Pieces a row at most.
    pub window: usize,
    /// Pieces shared by neighbouring rows of one sentence.
    pub overlap: usize,
    /// The head's knobs.
    pub head: H::Config,
    /// The entity types.
    pub labels: Labels,
    /// Sentences a batch.
    pub batch: usize,
    /// Batches sorted by length together.
    pub bucket: usize,
    /// Pieces a batch at most, padding included, instead of a number of sentences; 0 for no such limit.
    pub tokens: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Epochs with the encoder frozen.
    pub freeze_encoder: usize,
}

impl<H: Head> Batcher<H> {
    /// Number of batches of an epoch.
    pub fn batches(&self, epoch: usize) -> usize {
        match self.tokens {
            0 => self.corpus.sentences.len().div_ceil(self.batch),
            _ => self.plan(epoch).len(),
        }
    }

    /// Batches of all epochs before this one.
    pub fn batches_before(&self, epoch: usize) -> usize {
        (1..epoch).map(|epoch| self.batches(epoch)).sum()
    }

    /// Share of padding among the pieces of an epoch, were its rows as long as the longest of their batch.
    pub fn padding(&self, epoch: usize) -> f64 {
        let (mut all, mut real) = (0, 0);
        for batch in self.plan(epoch) {
            let lengths = batch.iter().map(|index| self.pieces_of(*index));
            all += batch.len() * lengths.clone().max().unwrap_or(0);
            real += lengths.sum::<usize>();
        }
        1.0 - real as f64 / all.max(1) as f64
    }

    /// Pieces of a sentence's row, the special ones included.
    fn pieces_of(&self, index: usize) -> usize {
        (self.corpus.encoded[index].pieces() + 2).min(self.window)
    }

    /// The batches of an epoch as lists of sentences. Epoch 0 is for evaluation: sorted by length, unshuffled.
    fn plan(&self, epoch: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.corpus.sentences.len()).collect();
        let length = |index: &usize| self.corpus.encoded[*index].pieces();
        if epoch == 0 {
            order.sort_by_key(length);
            return self.cut(&order);
        }
        let mut random = ChaCha8Rng::seed_from_u64(mix(self.seed, epoch as u64));
        order.shuffle(&mut random);
        let mut batches: Vec<Vec<usize>> = order
            .chunks_mut(self.batch * self.bucket.max(1))
            .flat_map(|pool| {
                pool.sort_by_key(length);
                self.cut(pool)
            })
            .collect();
        batches.shuffle(&mut random);
        batches
    }

    /// Sentences in order of length, cut into batches.
    fn cut(&self, order: &[usize]) -> Vec<Vec<usize>> {
        if self.tokens == 0 {
            return order.chunks(self.batch).map(<[usize]>::to_vec).collect();
        }
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut longest = 0;
        for index in order.iter().copied() {
            longest = longest.max(self.pieces_of(index));
            match batches.last_mut() {
                Some(batch) if (batch.len() + 1) * longest <= self.tokens => batch.push(index),
                _ => {
                    longest = self.pieces_of(index);
                    batches.push(vec![index]);
                }
            }
        }
        batches
    }

    fn make_batch(&self, epoch: usize, number: usize, sentences: Vec<usize>) -> Batch<H::Gold> {
        let encoded: Vec<&EncodedSentence> = sentences
            .iter()
            .map(|index| &self.corpus.encoded[*index])
            .collect();
        let chosen: Vec<&Sentence> = sentences
            .iter()
            .map(|index| &self.corpus.sentences[*index])
            .collect();
        let seed = mix(mix(self.seed, epoch as u64), number as u64);
        let pieces = PieceBatch::new(&encoded, &self.pieces, self.window, self.overlap);
        let lookup = self.lookup.as_ref();
        let features = lookup.map(|lookup| lookup.batch(&chosen, pieces.words));
        Batch {
            pieces: pieces.with_features(features),
            gold: H::gold(&self.head, &self.labels, &chosen, seed),
            entities: chosen.iter().map(|s| s.entities.clone()).collect(),
            frozen: epoch > 0 && epoch <= self.freeze_encoder,
            sentences,
            number,
        }
    }
}

/// Spreads two numbers over 64 bits (SplitMix64's finaliser).
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut mixed = seed ^ number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Burn's view of the batches of one split.
pub struct Loader<H: Head> {
    batcher: Arc<Batcher<H>>,
    epoch: Arc<AtomicUsize>,
    skip: Arc<AtomicUsize>,
}

impl<H: Head> Clone for Loader<H> {
    fn clone(&self) -> Self {
        Self {
            batcher: self.batcher.clone(),
            epoch: self.epoch.clone(),
            skip: self.skip.clone(),
        }
    }
}

impl<H: Head> Loader<H> {
    /// A loader in evaluation order until told an epoch.
    pub fn new(batcher: Arc<Batcher<H>>) -> Self {
        Self {
            batcher,
            epoch: Arc::default(),
            skip: Arc::default(),
        }
    }

    /// The next `iter` gives this epoch's batches from number `skip` on.
    pub fn seek(&self, epoch: usize, skip: usize) {
        self.epoch.store(epoch, Ordering::SeqCst);
        self.skip.store(skip, Ordering::SeqCst);
    }

    /// What its batches are made with.
    pub fn batcher(&self) -> &Batcher<H> {
        &self.batcher
    }
}

struct Batches<G> {
    receiver: Receiver<Batch<G>>,
    progress: Progress,
}

impl<G> Iterator for Batches<G> {
    type Item = Result<Batch<G>, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.receiver.recv().ok()?;
        self.progress.items_processed += batch.sentences.len();
        Some(Ok(batch))
    }
}

impl<G> DataLoaderIterator<Batch<G>> for Batches<G> {
    fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl<H: Head> DataLoader<Batch<H::Gold>> for Loader<H> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch<H::Gold>> + 'a> {
        let (sender, receiver) = sync_channel(AHEAD);
        let batcher = self.batcher.clone();
        let epoch = self.epoch.load(Ordering::SeqCst);
        let skip = self.skip.load(Ordering::SeqCst);
        let plan = batcher.plan(epoch);
        let done = plan[..skip.min(plan.len())].iter().map(Vec::len).sum();
        let progress = Progress::new(done, self.num_items(), Some("sentences".into()));
        std::thread::spawn(move || {
            for (number, sentences) in plan.into_iter().enumerate().skip(skip) {
                // The receiver is gone when training stopped early.
                if sender
                    .send(batcher.make_batch(epoch, number, sentences))
                    .is_err()
                {
                    return;
                }
            }
        });
        Box::new(Batches { receiver, progress })
    }

    fn num_items(&self) -> usize {
        self.batcher.corpus.sentences.len()
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<Batch<H::Gold>>> {
        // Batches are plain data; they become tensors on the device of the model that takes them.
        Arc::new(self.clone())
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch<H::Gold>>> {
        let batcher = &self.batcher;
        Arc::new(Self::new(Arc::new(Batcher {
            corpus: Prepared {
                sentences: batcher.corpus.sentences[start..end].to_vec(),
                encoded: batcher.corpus.encoded[start..end].to_vec(),
            },
            pieces: batcher.pieces.clone(),
            lookup: batcher.lookup.clone(),
            window: batcher.window,
            overlap: batcher.overlap,
            head: batcher.head.clone(),
            labels: batcher.labels.clone(),
            batch: batcher.batch,
            bucket: batcher.bucket,
            tokens: batcher.tokens,
            seed: batcher.seed,
            freeze_encoder: batcher.freeze_encoder,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::seq_ner::SeqNer;

    fn loader(tokens: usize) -> Loader<SeqNer> {
        let sentences: Vec<Sentence> = (0..103)
            .map(|index| Sentence::from_words((0..index % 17).map(|word| format!("w{word}"))))
            .collect();
        let pieces = WordTokenizer::train(&sentences, 50, true).unwrap();
        Loader::new(Arc::new(Batcher {
            corpus: Prepared {
                encoded: pieces.encode(&sentences),
                sentences,
            },
            pieces: Arc::new(pieces),
            lookup: None,
            window: 32,
            overlap: 4,
            head: crate::heads::Settings::of(crate::heads::Preset::Paper),
            labels: Labels::new(["X"]),
            batch: 8,
            bucket: 32,
            tokens,
            seed: 3,
            freeze_encoder: 1,
        }))
    }

    fn order(loader: &Loader<SeqNer>) -> Vec<Vec<usize>> {
        loader
            .iter()
            .map(|batch| batch.unwrap().sentences)
            .collect()
    }

    #[test]
    fn epochs_differ_but_repeat_and_can_be_entered_midway() {
        let loader = loader(0);
        loader.seek(1, 0);
        let first = order(&loader);
        assert_eq!(first, order(&loader));
        let mut all: Vec<usize> = first.concat();
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<_>>());
        loader.seek(1, 5);
        assert_eq!(first[5..], order(&loader)[..]);
        loader.seek(2, 0);
        assert_ne!(first, order(&loader));
    }

    #[test]
    fn buckets_keep_padding_small() {
        let loader = loader(0);
        loader.seek(1, 0);
        let (mut share, mut count) = (0.0, 0.0);
        for batch in loader.iter() {
            let batch = batch.unwrap();
            assert!(batch.frozen);
            share += batch.pieces.padding_share();
            count += 1.0;
        }
        assert!(share / count < 0.1, "{}", share / count);
        assert!(loader.batcher().padding(1) < 0.1);
    }

    #[test]
    fn a_budget_of_pieces_holds_and_loses_no_sentence() {
        let loader = loader(64);
        for epoch in [0, 1, 2] {
            loader.seek(epoch, 0);
            let batches: Vec<Batch<_>> = loader.iter().map(Result::unwrap).collect();
            assert_eq!(batches.len(), loader.batcher().batches(epoch));
            let pieces = batches.iter().map(|batch| batch.pieces.ids.len());
            assert!(pieces.max().unwrap() <= 64);
            let mut all: Vec<usize> = batches.iter().flat_map(|b| b.sentences.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..103).collect::<Vec<_>>());
            // Short sentences share a batch with more others than long ones.
            assert!(batches.iter().map(|batch| batch.sentences.len()).max() > Some(8));
        }
        let before = loader.batcher().batches_before(3);
        assert_eq!(
            before,
            loader.batcher().batches(1) + loader.batcher().batches(2)
        );
    }
}
