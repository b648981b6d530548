//! The lines of a corpus file, and the collector of the sentences and problems that a reader finds in them.

use std::path::{Path, PathBuf};

use super::{Problem, Severity};
use crate::error::{Error, Location, Result};
use crate::text::Sentence;

/// The bytes of a file, without a byte-order mark.
pub(super) struct Source {
    bytes: Vec<u8>,
}

/// One line of a file, without its line ending.
pub(super) struct Line<'a> {
    /// Line number from 1.
    pub number: usize,
    /// The text, or the column (in characters, from 1) of the first byte that is not valid UTF-8.
    pub text: std::result::Result<&'a str, usize>,
}

impl Source {
    /// Reads a file into memory.
    pub fn open(path: &Path) -> Result<Self> {
        let mut bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        Ok(Self { bytes })
    }

    /// The lines, which end in `\n` or `\r\n`.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.bytes
            .split(|byte| *byte == b'\n')
            .enumerate()
            .map(|(index, bytes)| {
                let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
                Line {
                    number: index + 1,
                    text: decode(bytes),
                }
            })
    }

    /// The first byte that is not white space.
    pub fn first_byte(&self) -> Option<u8> {
        self.bytes
            .iter()
            .copied()
            .find(|byte| !byte.is_ascii_whitespace())
    }

    /// The whole text, with invalid UTF-8 replaced by U+FFFD.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The whole text, or the line and column of the first byte that is not valid UTF-8.
    pub fn text(&self) -> std::result::Result<&str, (usize, usize)> {
        if let Ok(text) = std::str::from_utf8(&self.bytes) {
            return Ok(text);
        }
        let bad = self
            .lines()
            .find_map(|line| line.text.err().map(|column| (line.number, column)));
        Err(bad.unwrap_or((1, 1)))
    }
}

fn decode(bytes: &[u8]) -> std::result::Result<&str, usize> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        String::from_utf8_lossy(valid).chars().count() + 1
    })
}

/// The sentences and problems that a reader has found so far.
pub(super) struct Collector {
    file: PathBuf,
    /// The files that sentences come from, each with the index of its first sentence.
    files: Vec<(usize, PathBuf)>,
    /// The valid sentences.
    pub sentences: Vec<Sentence>,
    /// The line number at which each sentence starts; 0 if unknown.
    pub lines: Vec<usize>,
    /// Warnings, and errors about the records that were skipped.
    pub problems: Vec<Problem>,
    /// True while a mended copy of the file is made: a reader that can leave out an invalid entity keeps its record.
    pub mending: bool,
    /// For files in which a record has several lines: the lines at which records start.
    pub records: Option<Vec<usize>>,
}

impl Collector {
    /// An empty collector for a file.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_path_buf(),
            files: Vec::new(),
            sentences: Vec::new(),
            lines: Vec::new(),
            problems: Vec::new(),
            mending: false,
            records: None,
        }
    }

    /// Sets the file that further problems refer to.
    pub fn set_file(&mut self, file: &Path) {
        self.file = file.to_path_buf();
    }

    /// The file's name without folder and extension.
    pub fn stem(&self) -> String {
        self.file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Adds a sentence that starts at a line.
    pub fn push(&mut self, line: usize, sentence: Sentence) {
        if self.files.last().is_none_or(|(_, file)| *file != self.file) {
            self.files.push((self.sentences.len(), self.file.clone()));
        }
        self.sentences.push(sentence);
        self.lines.push(line);
    }

    /// The file and line at which a sentence starts.
    pub fn location(&self, sentence: usize) -> Location {
        let next = self.files.partition_point(|(first, _)| *first <= sentence);
        let file = next
            .checked_sub(1)
            .map_or(&self.file, |at| &self.files[at].1);
        Location::line(file, self.lines.get(sentence).copied().unwrap_or(0))
    }

    /// Keeps the sentences for which `keep` is true.
    pub fn retain(&mut self, keep: &[bool]) {
        let is_kept = |index: usize| keep.get(index).copied().unwrap_or(true);
        let (mut seen, mut kept) = (0, 0);
        for (first, _) in &mut self.files {
            kept += (seen..*first).filter(|index| is_kept(*index)).count();
            seen = *first;
            *first = kept;
        }
        let mut index = 0..;
        self.sentences.retain(|_| index.next().is_none_or(is_kept));
        let mut index = 0..;
        self.lines.retain(|_| index.next().is_none_or(is_kept));
    }

    /// Reports once how many discontinuous entities there are, unless the reader has.
    pub fn report_discontinuous(&mut self) {
        let is_reported = |problem: &Problem| problem.message.contains("discontinuous entit");
        if self.problems.iter().any(is_reported) {
            return;
        }
        let with = |sentence: &&Sentence| !sentence.discontinuous.is_empty();
        let count: usize = self
            .sentences
            .iter()
            .map(|sentence| sentence.discontinuous.len())
            .sum();
        let Some(first) = self.sentences.iter().position(|sentence| with(&sentence)) else {
            return;
        };
        let sentences = self.sentences.iter().filter(with).count();
        let noun = if count == 1 { "entity" } else { "entities" };
        self.problems.push(Problem {
            location: self.location(first),
            message: format!(
                "{count} discontinuous {noun} in {sentences} of {} sentences, the first here; kept and counted as missed, \
                 because no model here finds entities of several parts",
                self.sentences.len()
            ),
            severity: Severity::Warning,
        });
    }

    /// Adds a problem at (line, column), which count as in [`Location`].
    pub fn report(&mut self, severity: Severity, at: (usize, usize), message: impl Into<String>) {
        self.problems.push(Problem {
            location: Location::line(&self.file, at.0).at(at.1),
            message: message.into(),
            severity,
        });
    }

    /// Adds an error about a line.
    pub fn error(&mut self, line: usize, message: impl Into<String>) {
        self.report(Severity::Error, (line, 0), message);
    }

    /// Adds a warning about a line.
    pub fn warn(&mut self, line: usize, message: impl Into<String>) {
        self.report(Severity::Warning, (line, 0), message);
    }

    /// Adds an error about bytes that are not valid UTF-8.
    pub fn bad_encoding(&mut self, line: usize, column: usize) {
        self.report(
            Severity::Error,
            (line, column),
            "not valid UTF-8; convert the file, for example with `iconv -f latin1 -t utf8`",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_line_endings_are_understood() {
        let source = Source {
            bytes: b"a\r\n\nb\xe9c\nd".to_vec(),
        };
        let lines: Vec<_> = source.lines().map(|line| line.text).collect();
        assert_eq!(lines, [Ok("a"), Ok(""), Err(2), Ok("d")]);
        assert_eq!(source.text(), Err((3, 2)));
    }

    #[test]
    fn sentences_keep_their_file_and_line() {
        let mut corpus = Collector::new(Path::new("a.txt"));
        for (file, line) in [
            ("a.txt", 1),
            ("b.txt", 1),
            ("b.txt", 4),
            ("c.txt", 2),
            ("d.txt", 3),
        ] {
            corpus.set_file(Path::new(file));
            corpus.push(line, Sentence::default());
        }
        let places = |corpus: &Collector| -> Vec<String> {
            (0..corpus.sentences.len())
                .map(|index| corpus.location(index).to_string())
                .collect()
        };
        assert_eq!(
            places(&corpus),
            ["a.txt:1", "b.txt:1", "b.txt:4", "c.txt:2", "d.txt:3"]
        );
        corpus.retain(&[false, true, false, false, true]);
        assert_eq!(places(&corpus), ["b.txt:1", "d.txt:3"]);
        corpus.retain(&[false, false]);
        assert!(corpus.sentences.is_empty() && corpus.lines.is_empty());
    }
}
