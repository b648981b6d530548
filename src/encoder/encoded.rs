//! A sentence as word pieces, with the words around it.

use std::sync::Arc;

/// The pieces of a word.
pub type WordPieces = Arc<[u32]>;

/// A sentence as pieces, without special ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedSentence {
    /// The pieces of all words in a row.
    pub ids: Vec<u32>,
    /// Where each word's pieces start in `ids`, and at the end their number.
    pub starts: Vec<usize>,
    /// Pieces of the words before the sentence, when its neighbours are read with it.
    pub left: Vec<WordPieces>,
    /// And of those after it.
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

    /// Number of pieces, neighbours included.
    pub fn pieces(&self) -> usize {
        let neighbours = self.left.iter().chain(&self.right);
        self.ids.len() + neighbours.map(|word| word.len()).sum::<usize>()
    }

    /// The words of the neighbours that `room` pieces can hold: the outermost go first, on the side that has more.
    pub fn neighbours(&self, room: usize) -> (&[WordPieces], &[WordPieces]) {
        let count = |words: &[WordPieces]| words.iter().map(|word| word.len()).sum::<usize>();
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
