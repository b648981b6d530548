//! Batches for training and prediction: which sentences go together, and their word pieces as plain data.
//!
//! Rows of pieces are packed: they follow each other without padding. The transformer pads them only on devices that
//! have no kernels for packed rows.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::encoded_sentence::EncodedSentence;
use super::shapes::BatchShape;
use super::tokenizer::WordTokenizer;
use super::vocabulary::{FeatureBatch, FeatureLookup};
use super::window::windows;
use crate::text::Sentence;

/// Pieces that a row usually has in addition to those of its words: \[CLS\] and \[SEP\].
const SPECIAL_PIECES: usize = 2;

/// Where the special pieces of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowLayout {
    /// `[CLS] left words right [SEP]`, where left and right are words of neighbouring sentences.
    #[default]
    Standard,
    /// `[CLS] left [SEP] words [SEP] right`. A separator is only there if the neighbouring words are.
    Separated,
}

impl RowLayout {
    /// True for the standard layout.
    pub fn is_standard(&self) -> bool {
        *self == Self::Standard
    }

    /// The largest number of special pieces of a row.
    fn special_pieces(self) -> usize {
        match self {
            Self::Standard => SPECIAL_PIECES,
            Self::Separated => SPECIAL_PIECES + 1,
        }
    }
}

/// Rows of piece ids, one after the other without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedRows {
    /// Piece ids of all rows: `[pieces]`.
    pub ids: Vec<u32>,
    /// Number of pieces in each row, special ones included: `[rows]`.
    pub lengths: Vec<usize>,
    /// Piece id that fills short rows where rows have to be padded.
    pub padding_id: u32,
    /// Number of pieces that rows are padded to at least, where they have to be padded.
    pub least_width: usize,
}

impl PackedRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Length of the rows where they have to be padded.
    pub fn width(&self) -> usize {
        let longest = self.lengths.iter().copied().max();
        longest.map_or(0, |longest| longest.max(self.least_width))
    }

    /// Index in `ids` of each row's first piece: `[rows]`.
    pub fn starts(&self) -> Vec<usize> {
        starts(&self.lengths)
    }

    /// The ids with all rows padded: `[rows · width]`.
    pub fn padded_ids(&self) -> Vec<i32> {
        let width = self.width();
        let mut padded = Vec::with_capacity(self.len() * width);
        for (start, length) in self.starts().into_iter().zip(&self.lengths) {
            let row = &self.ids[start..start + length];
            padded.extend(row.iter().map(|id| *id as i32));
            padded.resize(padded.len() + width - length, self.padding_id as i32);
        }
        padded
    }

    /// Adds a row without words.
    fn push_empty(&mut self, tokenizer: &WordTokenizer) {
        self.ids.extend([tokenizer.cls_id(), tokenizer.sep_id()]);
        self.lengths.push(SPECIAL_PIECES);
    }

    /// Share of padding among the ids if the rows were padded.
    pub fn padding_share(&self) -> f64 {
        1.0 - self.ids.len() as f64 / (self.len() * self.width()).max(1) as f64
    }
}

/// Where sequences of these lengths start when they follow each other.
pub(super) fn starts(lengths: &[usize]) -> Vec<usize> {
    lengths
        .iter()
        .scan(0, |next, length| {
            *next += length;
            Some(*next - length)
        })
        .collect()
}

/// A batch of sentences as word pieces, with the pieces of each word.
///
/// A sentence has one row, or several overlapping ones when it is longer than the encoder's window. Lists over
/// `sentences · words` cover `words` words of every sentence; what is past a sentence's end is a padding word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceBatch {
    /// The pieces.
    pub rows: PackedRows,
    /// Index of each sentence's first row: `[sentences]`.
    pub sentence_rows: Vec<usize>,
    /// Number of words in each sentence: `[sentences]`.
    pub lengths: Vec<usize>,
    /// Number of words in the longest sentence, at least 1; more if the batch is padded to a shape.
    pub words: usize,
    /// Index in `rows.ids` of each word's first piece: `[sentences · words]`. Padding words have the batch's first.
    pub first_piece: Vec<usize>,
    /// Number of pieces of each word: `[sentences · words]`. Padding words have one.
    pub piece_count: Vec<usize>,
    /// Inputs of the encoder's word features, if it has any.
    pub features: Option<FeatureBatch>,
    /// The shape that the batch is padded to, if any.
    pub shape: Option<BatchShape>,
}

impl PieceBatch {
    /// Puts sentences into rows of at most `window` pieces. Sentences that do not fit are cut into several rows that
    /// share about `overlap` pieces. A sentence that fits has its neighbours' words around it as far as there is room.
    pub fn new(
        sentences: &[&EncodedSentence],
        tokenizer: &WordTokenizer,
        window: usize,
        overlap: usize,
    ) -> Self {
        Self::with_layout(sentences, tokenizer, window, overlap, RowLayout::Standard)
    }

    /// The same with the special pieces elsewhere.
    pub fn with_layout(
        sentences: &[&EncodedSentence],
        tokenizer: &WordTokenizer,
        window: usize,
        overlap: usize,
        layout: RowLayout,
    ) -> Self {
        let longest = sentences.iter().map(|sentence| sentence.words()).max();
        let words = longest.unwrap_or(0).max(1);
        let mut batch = Self {
            rows: PackedRows {
                padding_id: tokenizer.padding_id(),
                ..PackedRows::default()
            },
            sentence_rows: Vec::with_capacity(sentences.len()),
            lengths: Vec::with_capacity(sentences.len()),
            words,
            first_piece: vec![0; sentences.len() * words],
            piece_count: vec![1; sentences.len() * words],
            features: None,
            shape: None,
        };
        let limit = window.saturating_sub(layout.special_pieces()).max(1);
        for sentence in sentences {
            batch.push(sentence, tokenizer, limit, overlap, layout);
        }
        batch
    }

    /// Adds the rows of a sentence, each with at most `limit` pieces besides the special ones.
    fn push(
        &mut self,
        sentence: &EncodedSentence,
        tokenizer: &WordTokenizer,
        limit: usize,
        overlap: usize,
        layout: RowLayout,
    ) {
        let is_separated = layout == RowLayout::Separated;
        let first_word = self.len() * self.words;
        self.sentence_rows.push(self.rows.len());
        self.lengths.push(sentence.words());
        let counts = sentence.counts();
        let parts = windows(&counts, limit, overlap);
        let room = match parts.len() {
            1 => limit.saturating_sub(sentence.ids.len()),
            _ => 0,
        };
        let (left, right) = sentence.neighbours(room);
        for part in parts {
            let ids = &mut self.rows.ids;
            let start = ids.len();
            ids.push(tokenizer.cls_id());
            left.iter().for_each(|word| ids.extend_from_slice(word));
            if is_separated && !left.is_empty() {
                ids.push(tokenizer.sep_id());
            }
            for word in part.words.clone() {
                // Only a word that is longer than a whole window loses pieces: those past the limit.
                let count = counts[word].min(limit);
                if part.owned.contains(&word) {
                    self.first_piece[first_word + word] = ids.len();
                    self.piece_count[first_word + word] = count;
                }
                let from = sentence.starts[word];
                ids.extend_from_slice(&sentence.ids[from..from + count]);
            }
            if is_separated && !right.is_empty() {
                ids.push(tokenizer.sep_id());
            }
            right.iter().for_each(|word| ids.extend_from_slice(word));
            if !is_separated {
                ids.push(tokenizer.sep_id());
            }
            self.rows.lengths.push(ids.len() - start);
        }
    }

    /// Pads the batch to a shape, with empty sentences and rows at its end. Sizes that are larger already stay as they are.
    pub fn pad(&mut self, shape: BatchShape, tokenizer: &WordTokenizer) {
        let words = self.words.max(shape.words);
        let lay_out = |list: &[usize], padding: usize| {
            let mut padded = Vec::with_capacity(shape.sentences * words);
            for sentence in list.chunks(self.words) {
                padded.extend_from_slice(sentence);
                padded.resize(padded.len() + words - self.words, padding);
            }
            padded.resize(shape.sentences.max(self.lengths.len()) * words, padding);
            padded
        };
        self.first_piece = lay_out(&self.first_piece, 0);
        self.piece_count = lay_out(&self.piece_count, 1);
        self.words = words;
        while self.len() < shape.sentences {
            self.sentence_rows.push(self.rows.len());
            self.lengths.push(0);
            self.rows.push_empty(tokenizer);
        }
        // Sentences of several rows.
        while !self.rows.len().is_multiple_of(self.len().max(1)) {
            self.rows.push_empty(tokenizer);
        }
        self.rows.least_width = shape.width;
        self.shape = Some(BatchShape { words, ..shape });
    }

    /// The sizes that follow from the sentences of the batch and on which shapes of the encoder's tensors depend.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![self.len(), self.rows.len(), self.rows.width(), self.words];
        match &self.shape {
            Some(shape) => sizes.push(self.longest_word().max(shape.longest_word)),
            None => {
                let split = self.piece_count.iter().filter(|count| **count > 1);
                sizes.extend([split.count(), self.longest_word()]);
            }
        }
        if let Some(features) = &self.features {
            sizes.extend([features.character_counts.len(), features.characters.len()]);
        }
        sizes
    }

    /// Number of pieces of the longest word, at least 1.
    pub(super) fn longest_word(&self) -> usize {
        self.piece_count.iter().copied().max().unwrap_or(1)
    }

    /// The same batch with inputs for the encoder's word features.
    pub fn with_features(self, features: Option<FeatureBatch>) -> Self {
        Self { features, ..self }
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no sentences.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}

/// Makes batches for one encoder: tokenizes sentences and lays out their pieces and word features.
#[derive(Debug, Clone)]
pub struct PieceBatcher {
    /// Splits words into pieces.
    pub tokenizer: Arc<WordTokenizer>,
    /// Looks up word features, if the encoder has any.
    pub features: Option<Arc<FeatureLookup>>,
    /// Largest number of pieces in a row, special ones included.
    pub window: usize,
    /// Number of pieces that neighbouring rows of a long sentence share.
    pub overlap: usize,
    /// Whether the words of neighbouring sentences are read with each sentence.
    pub has_context: bool,
    /// Where the special pieces of a row are.
    pub layout: RowLayout,
}

impl PieceBatcher {
    /// Tokenizes sentences.
    pub fn encode(&self, sentences: &[Sentence]) -> Vec<EncodedSentence> {
        self.tokenizer.encode_with(sentences, self.has_context)
    }

    /// The batch of the sentences with these indices; `encoded` are all `sentences`, tokenized.
    pub fn make_batch(
        &self,
        sentences: &[Sentence],
        encoded: &[EncodedSentence],
        indices: &[usize],
    ) -> PieceBatch {
        self.make_shaped_batch(sentences, encoded, indices, None)
    }

    /// The same, padded to a shape if there is one.
    pub fn make_shaped_batch(
        &self,
        sentences: &[Sentence],
        encoded: &[EncodedSentence],
        indices: &[usize],
        shape: Option<BatchShape>,
    ) -> PieceBatch {
        let rows: Vec<&EncodedSentence> = indices.iter().map(|index| &encoded[*index]).collect();
        let (window, overlap) = (self.window, self.overlap);
        let mut batch =
            PieceBatch::with_layout(&rows, &self.tokenizer, window, overlap, self.layout);
        if let Some(shape) = shape {
            batch.pad(shape, &self.tokenizer);
        }
        let features = self.features.as_ref().map(|lookup| {
            let empty = Sentence::default();
            let mut chosen: Vec<&Sentence> =
                indices.iter().map(|index| &sentences[*index]).collect();
            chosen.resize(batch.len(), &empty);
            let mut features = lookup.batch(&chosen, batch.words);
            if shape.is_some() {
                features.pad_spellings();
            }
            features
        });
        batch.with_features(features)
    }
}

/// Number of pieces in the longest row of a sentence, special ones included, if rows have at most `row` pieces.
pub(super) fn row_length(sentence: &EncodedSentence, row: usize) -> usize {
    (sentence.pieces() + SPECIAL_PIECES).min(row)
}

/// Largest size of a batch. `usize::MAX` means no limit.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Number of sentences.
    pub sentences: usize,
    /// Number of pieces, counted as if all rows were padded to the longest.
    pub pieces: usize,
    /// A sentence with more pieces than this counts as a row of this length.
    pub row: usize,
}

impl BatchLimits {
    /// Number of pieces that a sentence counts for, special ones included.
    pub fn row_length(&self, sentence: &EncodedSentence) -> usize {
        row_length(sentence, self.row)
    }

    /// Cuts sentences, sorted by length, into batches. A sentence that exceeds the limits has a batch of its own.
    fn cut(&self, encoded: &[EncodedSentence], order: &[usize]) -> Vec<Vec<usize>> {
        let mut batches: Vec<Vec<usize>> = Vec::new();
        let mut longest = 0;
        for index in order.iter().copied() {
            let length = self.row_length(&encoded[index]);
            longest = longest.max(length);
            match batches.last_mut() {
                Some(batch)
                    if batch.len() < self.sentences
                        && (batch.len() + 1).saturating_mul(longest) <= self.pieces =>
                {
                    batch.push(index);
                }
                _ => {
                    longest = length;
                    batches.push(vec![index]);
                }
            }
        }
        batches
    }
}

/// Batches of sentences of similar length, from short to long, as lists of indices.
pub fn plan(encoded: &[EncodedSentence], limits: &BatchLimits) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..encoded.len()).collect();
    order.sort_by_key(|index| encoded[*index].pieces());
    limits.cut(encoded, &order)
}

/// Batches of sentences of similar length in random order, as lists of indices.
///
/// The sentences are shuffled and divided into pools of `pool` sentences, each pool is sorted by length and cut into
/// batches, and the batches of all pools are shuffled.
pub fn plan_shuffled(
    encoded: &[EncodedSentence],
    limits: &BatchLimits,
    pool: usize,
    seed: u64,
) -> Vec<Vec<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..encoded.len()).collect();
    order.shuffle(&mut random);
    let mut batches: Vec<Vec<usize>> = order
        .chunks_mut(pool)
        .flat_map(|pool| {
            pool.sort_by_key(|index| encoded[*index].pieces());
            limits.cut(encoded, pool)
        })
        .collect();
    batches.shuffle(&mut random);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_finds_its_pieces() {
        let sentences = [
            Sentence::from_words([
                "anna", "lives", "in", "lindholm", "today", "and", "anna", "sings",
            ]),
            Sentence::from_words(Vec::<String>::new()),
            Sentence::from_words(["anna"]),
        ];
        let tokenizer = WordTokenizer::train(&sentences, 60, true).unwrap();
        let encoded = tokenizer.encode(&sentences);
        let encoded: Vec<&EncodedSentence> = encoded.iter().collect();
        for window in [7, 12, 512] {
            let batch = PieceBatch::new(&encoded, &tokenizer, window, 3);
            assert!(batch.rows.width() <= window);
            let total: usize = batch.rows.lengths.iter().sum();
            assert_eq!(batch.rows.ids.len(), total);
            assert_eq!(batch.words, 8);
            for (index, sentence) in encoded.iter().enumerate() {
                for (word, count) in sentence.counts().into_iter().enumerate() {
                    let position = index * batch.words + word;
                    let first = batch.first_piece[position];
                    let count = count.min(window - 2);
                    assert_eq!(batch.piece_count[position], count);
                    let start = sentence.starts[word];
                    assert_eq!(
                        batch.rows.ids[first..first + count],
                        sentence.ids[start..start + count]
                    );
                }
            }
        }
    }

    #[test]
    fn padded_rows_are_as_long_as_the_longest() {
        let rows = PackedRows {
            ids: vec![5, 6, 7, 8, 9, 4],
            lengths: vec![2, 1, 3],
            padding_id: 1,
            least_width: 0,
        };
        assert_eq!(rows.starts(), [0, 2, 3]);
        assert_eq!(rows.padded_ids(), [5, 6, 1, 7, 1, 1, 8, 9, 4]);
        assert!((rows.padding_share() - 1.0 / 3.0).abs() < 1e-12);
        let wider = PackedRows {
            least_width: 4,
            ..rows
        };
        let expected = [5, 6, 1, 1, 7, 1, 1, 1, 8, 9, 4, 1];
        assert_eq!(wider.padded_ids(), expected);
        let none = PackedRows::default();
        assert_eq!((none.width(), none.padded_ids().len()), (0, 0));
    }

    #[test]
    fn neighbours_fill_the_room_that_is_left() {
        let mut sentence = Sentence::from_words(["anna", "sings"]);
        sentence.left = ["we", "know", "that"].map(String::from).to_vec();
        sentence.right = ["in", "lindholm"].map(String::from).to_vec();
        let all = Sentence::from_words(["we", "know", "that", "anna", "sings", "in", "lindholm"]);
        let tokenizer = WordTokenizer::train(&[all.clone(), all.clone()], 200, true).unwrap();
        let whole = tokenizer.encode(std::slice::from_ref(&all));
        assert_eq!(whole[0].ids.len(), 7); // each word is one piece
        let encoded = tokenizer.encode_with(std::slice::from_ref(&sentence), true);
        assert_eq!(encoded[0].pieces(), 7);
        // The window, and the words in it.
        for (window, from, to) in [
            (9, 0, 7),
            (8, 1, 7),
            (7, 2, 7),
            (6, 2, 6),
            (5, 3, 6),
            (4, 3, 5),
        ] {
            let batch = PieceBatch::new(&[&encoded[0]], &tokenizer, window, 0);
            let mut expected = vec![tokenizer.cls_id()];
            expected.extend_from_slice(&whole[0].ids[from..to]);
            expected.push(tokenizer.sep_id());
            assert_eq!(batch.rows.ids, expected, "window {window}");
            assert_eq!(batch.lengths, [2]);
            assert_eq!(batch.first_piece, [1 + 3 - from, 2 + 3 - from]);
        }
        // A sentence that has to be cut has no neighbours.
        let batch = PieceBatch::new(&[&encoded[0]], &tokenizer, 3, 0);
        assert_eq!(batch.rows.lengths, [3, 3]);
    }

    #[test]
    fn batches_keep_to_all_limits() {
        let sentences: Vec<Sentence> = (0..40)
            .map(|index| Sentence::from_words((0..index * 7 % 23).map(|_| "a")))
            .collect();
        let tokenizer = WordTokenizer::train(&sentences, 20, true).unwrap();
        let encoded = tokenizer.encode(&sentences);
        let limits = BatchLimits {
            sentences: 4,
            pieces: 50,
            row: usize::MAX,
        };
        for batches in [
            plan(&encoded, &limits),
            plan_shuffled(&encoded, &limits, 10, 3),
        ] {
            for batch in &batches {
                let longest = batch
                    .iter()
                    .map(|index| limits.row_length(&encoded[*index]));
                assert!(batch.len() <= 4);
                assert!(batch.len() * longest.max().unwrap() <= 50);
            }
            assert!(batches.iter().any(|batch| batch.len() == 4));
            let mut all = batches.concat();
            all.sort_unstable();
            assert_eq!(all, (0..40).collect::<Vec<_>>());
        }
    }
}
