//! Counting what many records of a file have in common, to report each kind once.

use super::Collector;

/// Counts by kind, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(in crate::data) struct Tally {
    /// The message, the number of occurrences and the first line of each kind.
    kinds: Vec<(String, usize, usize)>,
}

impl Tally {
    /// Counts an occurrence on a line. In the message, `{n}` stands for the number of occurrences.
    pub fn add(&mut self, line: usize, message: &str) {
        self.add_many(line, message, 1);
    }

    /// Counts several occurrences on a line.
    pub fn add_many(&mut self, line: usize, message: &str, count: usize) {
        match self.kinds.iter_mut().find(|(kind, ..)| kind == message) {
            _ if count == 0 => {}
            Some((_, total, first)) => {
                *total += count;
                *first = line.min(*first);
            }
            None => self.kinds.push((message.to_string(), count, line)),
        }
    }

    /// Adds one warning for each kind, at the line of its first occurrence.
    pub fn report(self, corpus: &mut Collector) {
        for (message, count, line) in self.kinds {
            corpus.warn(line, message.replace("{n}", &count.to_string()));
        }
    }
}
