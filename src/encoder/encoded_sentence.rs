//! A sentence as word pieces, with the words of its neighbours.

use std::sync::Arc;

/// Piece ids of a word, shared by all its occurrences.
pub type WordPieces = Arc<[u32]>;

/// The word pieces of a sentence, without special pieces such as \[CLS\].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedSentence {
    /// Piece ids of all words, one word after the other.
    pub ids: Vec<u32>,
    /// Index in `ids` of each word's first piece, then the length of `ids`: `[words + 1]`.
    pub starts: Vec<usize>,
    /// Pieces of the words before the sentence; empty if the encoder reads no context.
    pub left: Vec<WordPieces>,
    /// Pieces of the words after the sentence; empty if the encoder reads no context.
    pub right: Vec<WordPieces>,
}

impl EncodedSentence {
    /// Number of words.
    pub fn words(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of pieces of each word; never 0.
    pub fn counts(&self) -> Vec<usize> {
        self.starts
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect()
    }

    /// Number of pieces, those of the neighbours' words included.
    pub fn pieces(&self) -> usize {
        self.ids.len() + count(&self.left) + count(&self.right)
    }

    /// The words before and after the sentence that fit into `room` pieces. Words farthest from the sentence are left
    /// out first, always on the side that has more pieces.
    pub fn neighbours(&self, room: usize) -> (&[WordPieces], &[WordPieces]) {
        let (mut left, mut right) = (self.left.as_slice(), self.right.as_slice());
        let (mut before, mut after) = (count(left), count(right));
        while before + after > room {
            if before >= after {
                before -= left[0].len();
                left = &left[1..];
            } else {
                after -= right[right.len() - 1].len();
                right = &right[..right.len() - 1];
            }
        }
        (left, right)
    }
}

/// Number of pieces in a list of words.
fn count(words: &[WordPieces]) -> usize {
    words.iter().map(|word| word.len()).sum()
}
