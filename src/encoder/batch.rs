//! A batch of sentences as plain numbers, ready to become tensors: made in the data loader's threads.

use super::pieces::{EncodedSentence, WordTokenizer};
use super::vocabulary::FeatureBatch;
use super::window::windows;

/// Rows of pieces, and where each word's pieces lie in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceBatch {
    /// Pieces a row, padding included.
    pub width: usize,
    /// Piece numbers, row after row.
    pub ids: Vec<i32>,
    /// Real pieces of each row, special ones included. A long sentence has several rows.
    pub row_lengths: Vec<usize>,
    /// The first row of each sentence.
    pub sentence_rows: Vec<usize>,
    /// Words of each sentence.
    pub lengths: Vec<usize>,
    /// Words of the longest sentence.
    pub words: usize,
    /// For each sentence and word (padding words too) the place of its first piece in `ids`.
    pub first_piece: Vec<usize>,
    /// And how many pieces it has; padding words have one.
    pub piece_count: Vec<usize>,
    /// What else is known of each word, when the encoder wants it.
    pub features: Option<FeatureBatch>,
}

impl PieceBatch {
    /// Lays out sentences in rows of at most `window` pieces, long ones in several rows that share `overlap`
    /// pieces. Neighbours of a sentence stand around it as far as its row has room; in a sentence that is cut they
    /// have none.
    pub fn new(
        sentences: &[&EncodedSentence],
        pieces: &WordTokenizer,
        window: usize,
        overlap: usize,
    ) -> Self {
        let limit = window.saturating_sub(2).max(1);
        let mut rows: Vec<Vec<u32>> = Vec::with_capacity(sentences.len());
        let words = sentences
            .iter()
            .map(|s| s.words())
            .max()
            .unwrap_or(0)
            .max(1);
        let mut places = vec![(0, 0, 1); sentences.len() * words]; // (row, column, pieces)
        let mut sentence_rows = Vec::with_capacity(sentences.len());
        for (index, sentence) in sentences.iter().enumerate() {
            sentence_rows.push(rows.len());
            let counts = sentence.counts();
            let parts = windows(&counts, limit, overlap);
            let room = match parts.len() {
                1 => limit.saturating_sub(sentence.ids.len()),
                _ => 0,
            };
            let (left, right) = sentence.neighbours(room);
            for part in parts {
                let row = rows.len();
                let mut ids = vec![pieces.first()];
                left.iter().for_each(|word| ids.extend_from_slice(word));
                for word in part.words.clone() {
                    // Only a word that alone exceeds the window loses pieces; the rest of it still speaks.
                    let count = counts[word].min(limit);
                    if part.owned.contains(&word) {
                        places[index * words + word] = (row, ids.len(), count);
                    }
                    let start = sentence.starts[word];
                    ids.extend_from_slice(&sentence.ids[start..start + count]);
                }
                right.iter().for_each(|word| ids.extend_from_slice(word));
                ids.push(pieces.last());
                rows.push(ids);
            }
        }
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(rows.len() * width);
        for row in &rows {
            ids.extend(row.iter().map(|id| *id as i32));
            ids.resize(ids.len() + width - row.len(), pieces.padding() as i32);
        }
        Self {
            width,
            ids,
            row_lengths: rows.iter().map(Vec::len).collect(),
            sentence_rows,
            lengths: sentences.iter().map(|sentence| sentence.words()).collect(),
            words,
            first_piece: places
                .iter()
                .map(|(row, column, _)| row * width + column)
                .collect(),
            piece_count: places.iter().map(|(_, _, count)| *count).collect(),
            features: None,
        }
    }

    /// The same batch with what else is known of its words.
    pub fn with_features(self, features: Option<FeatureBatch>) -> Self {
        Self { features, ..self }
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// True for a batch of nothing.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Share of `ids` that is padding.
    pub fn padding_share(&self) -> f64 {
        let real: usize = self.row_lengths.iter().sum();
        1.0 - real as f64 / self.ids.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Sentence;

    #[test]
    fn every_word_finds_its_pieces() {
        let sentences = [
            Sentence::from_words([
                "anna", "lives", "in", "lindholm", "today", "and", "anna", "sings",
            ]),
            Sentence::from_words(Vec::<String>::new()),
            Sentence::from_words(["anna"]),
        ];
        let pieces = WordTokenizer::train(&sentences, 60, true).unwrap();
        let encoded = pieces.encode(&sentences);
        let encoded: Vec<&EncodedSentence> = encoded.iter().collect();
        for window in [7, 12, 512] {
            let batch = PieceBatch::new(&encoded, &pieces, window, 3);
            assert!(batch.width <= window);
            assert_eq!(batch.words, 8);
            for (index, sentence) in encoded.iter().enumerate() {
                for (word, count) in sentence.counts().into_iter().enumerate() {
                    let place = index * batch.words + word;
                    let at = batch.first_piece[place];
                    let count = count.min(window - 2);
                    assert_eq!(batch.piece_count[place], count);
                    let found: Vec<u32> = batch.ids[at..at + count]
                        .iter()
                        .map(|id| *id as u32)
                        .collect();
                    let start = sentence.starts[word];
                    assert_eq!(found, &sentence.ids[start..start + count]);
                }
            }
        }
    }

    #[test]
    fn neighbours_take_what_room_there_is() {
        let mut sentence = Sentence::from_words(["anna", "sings"]);
        sentence.left = ["we", "know", "that"].map(String::from).to_vec();
        sentence.right = ["in", "lindholm"].map(String::from).to_vec();
        let all = Sentence::from_words(["we", "know", "that", "anna", "sings", "in", "lindholm"]);
        let pieces = WordTokenizer::train(&[all.clone(), all.clone()], 200, true).unwrap();
        let whole = pieces.encode(std::slice::from_ref(&all));
        assert_eq!(whole[0].ids.len(), 7); // each word is one piece
        let encoded = pieces.encode_with(std::slice::from_ref(&sentence), true);
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
            let batch = PieceBatch::new(&[&encoded[0]], &pieces, window, 0);
            let ids: Vec<u32> = batch.ids.iter().map(|id| *id as u32).collect();
            let mut expected = vec![pieces.first()];
            expected.extend_from_slice(&whole[0].ids[from..to]);
            expected.push(pieces.last());
            assert_eq!(ids, expected, "window {window}");
            assert_eq!(batch.lengths, [2]);
            assert_eq!(batch.first_piece, [1 + 3 - from, 2 + 3 - from]);
        }
        // A sentence that does not fit is cut, and no neighbour takes its room.
        let batch = PieceBatch::new(&[&encoded[0]], &pieces, 3, 0);
        assert_eq!((batch.row_lengths.len(), batch.width), (2, 3));
    }
}
