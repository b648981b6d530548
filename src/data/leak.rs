//! Sentences that stand in more than one file of a corpus.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::source::Collector;
use super::{Problem, Severity};
use crate::error::Location;

/// A sentence shorter than this may well stand in two files by chance.
const LEAK_WORDS: usize = 4;

/// Sentences of one file that stand in another as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leak {
    /// The file given first.
    pub first: PathBuf,
    /// The other.
    pub second: PathBuf,
    /// How many sentences of the other stand in the first.
    pub sentences: usize,
    /// The first such sentence of the other.
    pub example: String,
}

/// The sentences of the files so far.
#[derive(Default)]
pub(super) struct Seen {
    files: Vec<PathBuf>,
    /// The first file each sentence stands in.
    sentences: HashMap<String, usize>,
}

impl Seen {
    /// Look the sentences of a file up in the files before it, then remember them.
    pub fn compare(&mut self, file: &Path, corpus: &Collector) -> Vec<(Leak, Location)> {
        let number = self.files.len();
        self.files.push(file.to_path_buf());
        let mut leaks: Vec<Option<(Leak, Location)>> = vec![None; number];
        for (sentence, line) in corpus.sentences.iter().zip(&corpus.lines) {
            if sentence.len() < LEAK_WORDS {
                continue;
            }
            let words: Vec<&str> = sentence.words.iter().map(|w| w.text.as_str()).collect();
            let first = *self.sentences.entry(words.join(" ")).or_insert(number);
            if first == number {
                continue;
            }
            let (leak, _) = leaks[first].get_or_insert_with(|| {
                let leak = Leak {
                    first: self.files[first].clone(),
                    second: file.to_path_buf(),
                    sentences: 0,
                    example: sentence.text.clone(),
                };
                (leak, Location::line(file, *line))
            });
            leak.sentences += 1;
        }
        leaks.into_iter().flatten().collect()
    }
}

impl Leak {
    /// The problem it is, at a place.
    pub(super) fn warning(&self, place: Location) -> Problem {
        let example: String = self.example.chars().take(60).collect();
        Problem {
            place,
            message: format!(
                "{} sentences of this file stand in {} as well, the first is `{example}`; \
                 if one is for training and the other for testing, take them out of one",
                self.sentences,
                self.first.display()
            ),
            severity: Severity::Warning,
        }
    }
}
