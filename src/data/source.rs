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
    /// The valid sentences.
    pub sentences: Vec<Sentence>,
    /// The line number at which each sentence starts; 0 if unknown.
    pub lines: Vec<usize>,
    /// Warnings, and errors about the records that were skipped.
    pub problems: Vec<Problem>,
}

impl Collector {
    /// An empty collector for a file.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_path_buf(),
            sentences: Vec::new(),
            lines: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Sets the file that further problems refer to.
    pub fn set_file(&mut self, file: &Path) {
        self.file = file.to_path_buf();
    }

    /// The file that problems refer to.
    pub fn path(&self) -> &Path {
        &self.file
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
        self.sentences.push(sentence);
        self.lines.push(line);
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
}
