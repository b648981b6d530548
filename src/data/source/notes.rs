//! Remarks that a reader makes once for a file, with the number of cases.

use std::collections::BTreeMap;

use super::Collector;

/// Counts the cases of each kind of remark and remembers the line of the first.
pub(in crate::data) struct Notes<N> {
    cases: BTreeMap<N, (usize, usize)>,
}

impl<N: Ord + Copy> Notes<N> {
    /// No cases.
    pub fn new() -> Self {
        Self {
            cases: BTreeMap::new(),
        }
    }

    /// Counts a case at a line.
    pub fn add(&mut self, note: N, line: usize) {
        let (_, count) = self.cases.entry(note).or_insert((line, 0));
        *count += 1;
    }

    /// Adds a warning for each kind, at the line of its first case. `message` makes the text from the kind and the number.
    pub fn report(&self, corpus: &mut Collector, message: impl Fn(N, usize) -> String) {
        for (note, (line, count)) in &self.cases {
            corpus.warn(*line, message(*note, *count));
        }
    }
}
