//! Counts the different shapes of training steps. A GPU compiles kernels for each of them.

use std::collections::BTreeSet;
use std::fmt;

use super::batches::Batch;

/// The different shapes of steps, and the share of padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShapeCounter {
    shapes: BTreeSet<Vec<usize>>,
    batches: usize,
    pieces: [usize; 2],
}

impl ShapeCounter {
    /// Counts a batch; true if no batch before it had the same sizes.
    pub fn add<G>(&mut self, batch: &Batch<G>) -> bool {
        let [real, padded] = batch.piece_counts();
        self.pieces = [self.pieces[0] + real, self.pieces[1] + padded];
        self.batches += 1;
        self.shapes.insert(batch.sizes.clone())
    }

    /// Adds what another counter has counted.
    pub fn merge(&mut self, other: Self) {
        self.shapes.extend(other.shapes);
        self.batches += other.batches;
        self.pieces = [0, 1].map(|index| self.pieces[index] + other.pieces[index]);
    }

    /// Number of different shapes.
    pub fn distinct(&self) -> usize {
        self.shapes.len()
    }

    /// Number of batches.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// The sizes of each different shape: sentences, rows, pieces of a row and words first, those of the head last.
    pub fn shapes(&self) -> impl Iterator<Item = &[usize]> {
        self.shapes.iter().map(Vec::as_slice)
    }

    /// Share of padding among the pieces, if rows are padded.
    pub fn padding_share(&self) -> f64 {
        1.0 - self.pieces[0] as f64 / self.pieces[1].max(1) as f64
    }
}

impl fmt::Display for ShapeCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} different shapes in {} batches, {:.1} % of the pieces are padding",
            self.distinct(),
            self.batches,
            100.0 * self.padding_share()
        )
    }
}
