//! Training batches: sentences of similar length, reshuffled every epoch, prepared ahead in a background thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;

use crate::encoder::EncodedSentence;
use crate::encoder::batching::{BatchLimits, PieceBatch, PieceBatcher, plan, plan_shuffled};
use crate::encoder::shapes::{BatchShape, Ladder, Rung};
use crate::heads::Head;
use crate::text::{Entity, Labels, Sentence};

/// Number of batches that are prepared ahead.
const AHEAD: usize = 4;

/// A training batch as plain data.
#[derive(Debug, Clone)]
pub struct Batch<G> {
    /// The sentences as word pieces.
    pub pieces: PieceBatch,
    /// The head's training targets.
    pub gold: G,
    /// Gold entities of each sentence, for scoring.
    pub entities: Vec<Vec<Entity>>,
    /// Whether the encoder is frozen in this step.
    pub frozen: bool,
    /// Indices of the sentences in the corpus.
    pub sentences: Vec<usize>,
    /// Index of the batch in its epoch.
    pub number: usize,
    /// Seed of the batch's random numbers.
    pub seed: u64,
    /// Factor of the loss in the backward pass.
    pub loss_scale: f64,
    /// The sizes on which the shapes of the step's tensors depend.
    pub sizes: Vec<usize>,
}

impl<G> Batch<G> {
    /// Number of pieces, without and with padding.
    pub fn piece_counts(&self) -> [usize; 2] {
        let rows = &self.pieces.rows;
        // Sentences that pad the batch are last, with the rows after them.
        let real = (self.pieces.sentence_rows)
            .get(self.sentences.len())
            .copied();
        let lengths = &rows.lengths[..real.unwrap_or(rows.len())];
        [lengths.iter().sum(), rows.len() * rows.width()]
    }
}

/// Sentences with their word pieces.
#[derive(Debug)]
pub struct EncodedCorpus {
    /// The sentences.
    pub sentences: Vec<Sentence>,
    /// The same sentences as word pieces.
    pub encoded: Vec<EncodedSentence>,
}

/// Makes the batches of a split: which sentences are together in which epoch, with their gold.
#[derive(Debug)]
pub struct Batcher<H: Head> {
    /// The sentences.
    pub corpus: EncodedCorpus,
    /// Makes batches of word pieces.
    pub pieces: PieceBatcher,
    /// Settings of the head.
    pub head: H::Config,
    /// The entity types.
    pub labels: Labels,
    /// Number of sentences in a batch.
    pub batch: usize,
    /// Number of batches whose sentences are sorted by length together.
    pub bucket: usize,
    /// Largest number of pieces in a batch, padding included; replaces the number of sentences unless it is 0.
    pub tokens: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Number of epochs at the start in which the encoder is frozen.
    pub freeze_encoder: usize,
    /// The sizes that batches are padded to, if any.
    pub ladder: Option<Ladder>,
}

impl<H: Head> Batcher<H> {
    /// Number of batches in an epoch.
    pub fn batches(&self, epoch: usize) -> usize {
        match self.tokens {
            0 => self.corpus.sentences.len().div_ceil(self.batch),
            _ => self.plan(epoch).len(),
        }
    }

    /// Number of batches in all epochs before this one.
    pub fn batches_before(&self, epoch: usize) -> usize {
        (1..epoch).map(|epoch| self.batches(epoch)).sum()
    }

    /// Share of padding among the pieces of an epoch if rows were padded to the longest of their batch, or to the batch's
    /// shape if it has one.
    pub fn padding_share(&self, epoch: usize) -> f64 {
        let limits = self.limits();
        let (mut padded, mut real) = (0, 0);
        for batch in self.plan(epoch) {
            let sentences = batch.iter().map(|index| &self.corpus.encoded[*index]);
            let lengths = sentences.map(|sentence| limits.row_length(sentence));
            padded += match self.shape(&batch) {
                Some(shape) => shape.sentences * shape.width,
                None => batch.len() * lengths.clone().max().unwrap_or(0),
            };
            real += lengths.sum::<usize>();
        }
        1.0 - real as f64 / padded.max(1) as f64
    }

    /// Largest size of a batch: a number of sentences or a number of pieces.
    fn limits(&self) -> BatchLimits {
        let (sentences, pieces) = match self.tokens {
            0 => (self.batch, usize::MAX),
            tokens => (usize::MAX, tokens),
        };
        BatchLimits {
            sentences,
            pieces,
            row: self.pieces.window,
        }
    }

    /// Number of sentences in batches that are padded to a rung. At most half of them are padding, however few sentences
    /// there are.
    fn batch_of(&self, rung: &Rung) -> usize {
        let size = match self.tokens {
            0 => self.batch,
            tokens => tokens / rung.width.max(1),
        };
        size.clamp(1, 2 * self.corpus.sentences.len().max(1))
    }

    /// The shape that a batch is padded to, if any.
    fn shape(&self, sentences: &[usize]) -> Option<BatchShape> {
        let ladder = self.ladder.as_ref()?;
        let sentences = sentences.iter().map(|index| &self.corpus.encoded[*index]);
        Some(ladder.shape(sentences, |rung| self.batch_of(rung)))
    }

    /// The batches of an epoch as lists of sentence indices. Epoch 0 is for evaluation: sorted by length, not shuffled.
    fn plan(&self, epoch: usize) -> Vec<Vec<usize>> {
        let encoded = &self.corpus.encoded;
        if let Some(ladder) = &self.ladder {
            let seed = (epoch > 0).then(|| mix(self.seed, epoch as u64));
            return ladder.plan(encoded, |rung| self.batch_of(rung), seed);
        }
        if epoch == 0 {
            return plan(encoded, &self.limits());
        }
        let pool = self.batch * self.bucket.max(1);
        plan_shuffled(encoded, &self.limits(), pool, mix(self.seed, epoch as u64))
    }

    fn make_batch(&self, epoch: usize, number: usize, sentences: Vec<usize>) -> Batch<H::Gold> {
        let corpus = &self.corpus;
        let chosen: Vec<&Sentence> = sentences
            .iter()
            .map(|index| &corpus.sentences[*index])
            .collect();
        let seed = mix(mix(self.seed, epoch as u64), number as u64);
        let shape = self.shape(&sentences);
        let pieces =
            (self.pieces).make_shaped_batch(&corpus.sentences, &corpus.encoded, &sentences, shape);
        let mut gold = H::gold(&self.head, &self.labels, &chosen, seed);
        if let Some(shape) = &pieces.shape {
            gold = H::pad(&self.head, &self.labels, gold, shape);
        }
        Batch {
            sizes: [pieces.sizes(), H::sizes(&gold)].concat(),
            pieces,
            gold,
            entities: chosen.iter().map(|s| s.entities.clone()).collect(),
            frozen: epoch > 0 && epoch <= self.freeze_encoder,
            sentences,
            number,
            seed,
            loss_scale: 1.0,
        }
    }
}

/// Derives a seed from a seed and a number (with SplitMix64's finaliser).
pub fn mix(seed: u64, number: u64) -> u64 {
    let mut mixed = seed ^ number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Burn's data loader over the batches of a split.
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
    /// Creates a loader. It gives batches in evaluation order until [`seek`](Self::seek) sets an epoch.
    pub fn new(batcher: Arc<Batcher<H>>) -> Self {
        Self {
            batcher,
            epoch: Arc::default(),
            skip: Arc::default(),
        }
    }

    /// Sets the epoch of the next `iter`, and the number of its batches to skip.
    pub fn seek(&self, epoch: usize, skip: usize) {
        self.epoch.store(epoch, Ordering::SeqCst);
        self.skip.store(skip, Ordering::SeqCst);
    }

    /// The batches of an epoch from number `skip` on; a background thread prepares them.
    pub fn epoch(&self, epoch: usize, skip: usize) -> Batches<H::Gold> {
        let (sender, receiver) = sync_channel(AHEAD);
        let batcher = self.batcher.clone();
        let plan = batcher.plan(epoch);
        let done = plan[..skip.min(plan.len())].iter().map(Vec::len).sum();
        let all = batcher.corpus.sentences.len();
        std::thread::spawn(move || {
            for (number, sentences) in plan.into_iter().enumerate().skip(skip) {
                let batch = batcher.make_batch(epoch, number, sentences);
                // Sending fails when training stopped early and dropped the receiver.
                if sender.send(batch).is_err() {
                    return;
                }
            }
        });
        Batches {
            receiver,
            progress: Progress::new(done, all, Some("sentences".into())),
        }
    }

    /// The batcher behind this loader.
    pub fn batcher(&self) -> &Batcher<H> {
        &self.batcher
    }
}

/// Iterator over the batches that a background thread prepares.
pub struct Batches<G> {
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
        let epoch = self.epoch.load(Ordering::SeqCst);
        let skip = self.skip.load(Ordering::SeqCst);
        Box::new(self.epoch(epoch, skip))
    }

    fn num_items(&self) -> usize {
        self.batcher.corpus.sentences.len()
    }

    fn to_device(&self, _device: &Device) -> Arc<dyn DataLoader<Batch<H::Gold>>> {
        // Batches are plain data; the model creates tensors on its own device.
        Arc::new(self.clone())
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch<H::Gold>>> {
        let batcher = &self.batcher;
        Arc::new(Self::new(Arc::new(Batcher {
            corpus: EncodedCorpus {
                sentences: batcher.corpus.sentences[start..end].to_vec(),
                encoded: batcher.corpus.encoded[start..end].to_vec(),
            },
            pieces: batcher.pieces.clone(),
            head: batcher.head.clone(),
            labels: batcher.labels.clone(),
            batch: batcher.batch,
            bucket: batcher.bucket,
            tokens: batcher.tokens,
            seed: batcher.seed,
            freeze_encoder: batcher.freeze_encoder,
            ladder: batcher.ladder.clone(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::encoder::tokenizer::WordTokenizer;
    use crate::heads::seq_ner::SeqNer;

    fn loader(tokens: usize) -> Loader<SeqNer> {
        let sentences: Vec<Sentence> = (0..103)
            .map(|index| Sentence::from_words((0..index % 17).map(|word| format!("w{word}"))))
            .collect();
        let tokenizer = WordTokenizer::train(&sentences, 50, true).unwrap();
        Loader::new(Arc::new(Batcher {
            corpus: EncodedCorpus {
                encoded: tokenizer.encode(&sentences),
                sentences,
            },
            pieces: PieceBatcher {
                tokenizer: Arc::new(tokenizer),
                features: None,
                window: 32,
                overlap: 4,
                has_context: false,
                layout: crate::encoder::RowLayout::Standard,
            },
            head: crate::heads::Settings::of(crate::heads::Preset::Paper),
            labels: Labels::new(["X"]),
            batch: 8,
            bucket: 32,
            tokens,
            seed: 3,
            freeze_encoder: 1,
            ladder: None,
        }))
    }

    fn with_ladder(tokens: usize) -> Loader<SeqNer> {
        let mut batcher = Arc::try_unwrap(loader(tokens).batcher).unwrap();
        batcher.ladder = Some(Ladder::fit(&batcher.corpus.encoded, batcher.pieces.window));
        Loader::new(Arc::new(batcher))
    }

    fn order(loader: &Loader<SeqNer>) -> Vec<Vec<usize>> {
        loader
            .iter()
            .map(|batch| batch.unwrap().sentences)
            .collect()
    }

    #[test]
    fn epochs_differ_are_reproducible_and_can_be_resumed() {
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
            share += batch.pieces.rows.padding_share();
            count += 1.0;
        }
        assert!(share / count < 0.1, "{}", share / count);
        assert!(loader.batcher().padding_share(1) < 0.1);
    }

    #[test]
    fn a_limit_on_pieces_is_kept_and_no_sentence_is_lost() {
        let loader = loader(64);
        for epoch in [0, 1, 2] {
            loader.seek(epoch, 0);
            let batches: Vec<Batch<_>> = loader.iter().map(Result::unwrap).collect();
            assert_eq!(batches.len(), loader.batcher().batches(epoch));
            let pieces = batches.iter().map(|batch| {
                let rows = &batch.pieces.rows;
                rows.len() * rows.width()
            });
            assert!(pieces.max().unwrap() <= 64);
            let mut all: Vec<usize> = batches.iter().flat_map(|b| b.sentences.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..103).collect::<Vec<_>>());
            // A batch of short sentences has more of them than one of long sentences.
            assert!(batches.iter().map(|batch| batch.sentences.len()).max() > Some(8));
        }
        let before = loader.batcher().batches_before(3);
        assert_eq!(
            before,
            loader.batcher().batches(1) + loader.batcher().batches(2)
        );
    }

    #[test]
    fn batches_on_a_ladder_have_few_shapes_and_the_same_sentences() {
        for tokens in [0, 64] {
            let loader = with_ladder(tokens);
            let mut shapes = BTreeSet::new();
            for epoch in [0, 1, 2] {
                loader.seek(epoch, 0);
                let batches: Vec<Batch<_>> = loader.iter().map(Result::unwrap).collect();
                assert_eq!(batches.len(), loader.batcher().batches(epoch));
                let mut all = batches
                    .iter()
                    .flat_map(|b| b.sentences.clone())
                    .collect::<Vec<_>>();
                all.sort_unstable();
                assert_eq!(all, (0..103).collect::<Vec<_>>());
                let mut counts = [0, 0];
                for batch in batches {
                    let shape = batch.pieces.shape.unwrap();
                    assert_eq!(batch.pieces.len(), shape.sentences);
                    assert_eq!(batch.pieces.rows.width(), shape.width);
                    assert_eq!(
                        batch.pieces.first_piece.len(),
                        shape.sentences * shape.words
                    );
                    assert_eq!(batch.gold.tags.len(), shape.sentences);
                    assert_eq!(batch.entities.len(), batch.sentences.len());
                    let [real, padded] = batch.piece_counts();
                    counts = [counts[0] + real, counts[1] + padded];
                    shapes.insert(batch.sizes);
                }
                let share = 1.0 - counts[0] as f64 / counts[1] as f64;
                assert!((share - loader.batcher().padding_share(epoch)).abs() < 1e-9);
            }
            assert!(shapes.len() <= 6, "{shapes:?}");
        }
        let mut batcher = Arc::try_unwrap(with_ladder(0).batcher).unwrap();
        batcher.batch = usize::MAX;
        let loader = Loader::new(Arc::new(batcher));
        let batch = loader.iter().next().unwrap().unwrap();
        assert_eq!((batch.sentences.len(), batch.pieces.len()), (103, 206));
    }
}
