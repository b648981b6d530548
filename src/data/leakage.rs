//! Data leakage: sentences that occur in more than one file of a corpus.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::source::Collector;
use super::{Problem, Severity};
use crate::error::Location;
use crate::text::Sentence;

/// Shorter sentences may occur in two files by chance and are not compared.
const MINIMUM_WORDS: usize = 4;

/// How many lines a warning lists.
const SHOWN_LINES: usize = 20;

/// Data leakage between two files: sentences that occur in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Leakage {
    /// The file that was given first.
    pub first: PathBuf,
    /// The other file.
    pub second: PathBuf,
    /// Number of sentences of the second file that occur in the first.
    pub sentences: usize,
    /// The first such sentence.
    pub example: String,
    /// For each of them its line in the second file, and the line of its first occurrence in the first.
    pub lines: Vec<(usize, usize)>,
}

/// The words of a sentence joined by spaces; `None` for a sentence that is too short to be compared.
pub fn leakage_key(sentence: &Sentence) -> Option<String> {
    let words: Vec<&str> = sentence.words.iter().map(|w| w.text.as_str()).collect();
    (sentence.len() >= MINIMUM_WORDS).then(|| words.join(" "))
}

/// The sentences of all files read so far.
#[derive(Default)]
pub(super) struct SeenSentences {
    files: Vec<PathBuf>,
    /// For each sentence the index of the first file it occurs in, and its line there.
    first: HashMap<String, (usize, usize)>,
}

impl SeenSentences {
    /// Compares the sentences of a file with those of the files before it, then remembers them.
    pub fn compare(&mut self, file: &Path, corpus: &Collector) -> Vec<(Leakage, Location)> {
        let current = self.files.len();
        self.files.push(file.to_path_buf());
        let mut leaks: Vec<Option<(Leakage, Location)>> = vec![None; current];
        for (sentence, line) in corpus.sentences.iter().zip(&corpus.lines) {
            let Some(key) = leakage_key(sentence) else {
                continue;
            };
            let (first, first_line) = *self.first.entry(key).or_insert((current, *line));
            if first == current {
                continue;
            }
            let (leak, _) = leaks[first].get_or_insert_with(|| {
                let leak = Leakage {
                    first: self.files[first].clone(),
                    second: file.to_path_buf(),
                    sentences: 0,
                    example: sentence.text.clone(),
                    lines: Vec::new(),
                };
                (leak, Location::line(file, *line))
            });
            leak.sentences += 1;
            leak.lines.push((*line, first_line));
        }
        leaks.into_iter().flatten().collect()
    }
}

impl Leakage {
    /// A warning about the leakage at the given location.
    pub(super) fn warning(&self, location: Location) -> Problem {
        let example: String = self.example.chars().take(60).collect();
        let shown = self
            .lines
            .iter()
            .take(SHOWN_LINES)
            .map(|(line, _)| line.to_string());
        let mut list = shown.collect::<Vec<_>>().join(", ");
        if self.lines.len() > SHOWN_LINES {
            list += ", ...; --json lists all";
        }
        Problem {
            location,
            message: format!(
                "{} sentences of this file also occur in {} (lines {list} here), the first is `{example}`; if one file is for \
                 training and the other for testing, remove them from one, or use --fix-leaks",
                self.sentences,
                self.first.display()
            ),
            severity: Severity::Warning,
            correction: None,
        }
    }
}
