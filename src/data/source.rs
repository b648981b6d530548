//! A file in memory, line by line, and the place where readers put what they find.

use std::path::{Path, PathBuf};

use super::{Problem, Severity};
use crate::error::{Error, Location, Result};
use crate::text::Sentence;

/// A file's bytes, without a byte-order mark.
pub(super) struct Source {
    bytes: Vec<u8>,
}

/// One line of a file, without its line ending.
pub(super) struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// The text, or the column (in characters, from 1) of the first byte that is not UTF-8.
    pub text: std::result::Result<&'a str, usize>,
}

impl Source {
    /// Read a file into memory.
    pub fn open(path: &Path) -> Result<Self> {
        let mut bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        Ok(Self { bytes })
    }

    /// The lines; `\r\n` ends a line as `\n` does.
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

    /// The whole text, with what is not UTF-8 replaced.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The whole text, or the line and column of the first byte that is not UTF-8.
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
        let sound = &bytes[..error.valid_up_to()];
        String::from_utf8_lossy(sound).chars().count() + 1
    })
}

/// What a reader has found so far.
pub(super) struct Collector {
    file: PathBuf,
    /// The sound sentences.
    pub sentences: Vec<Sentence>,
    /// The line each sentence starts on; 0 where unknown.
    pub lines: Vec<usize>,
    /// What is wrong with the rest.
    pub problems: Vec<Problem>,
}

impl Collector {
    /// Nothing found yet in this file.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_path_buf(),
            sentences: Vec::new(),
            lines: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// The file problems are about from now on.
    pub fn enter(&mut self, file: &Path) {
        self.file = file.to_path_buf();
    }

    /// The name of the file without folder and extension.
    pub fn stem(&self) -> String {
        self.file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Keep a sentence.
    pub fn push(&mut self, line: usize, sentence: Sentence) {
        self.sentences.push(sentence);
        self.lines.push(line);
    }

    /// Note a problem; line and column as in [`Place`].
    pub fn note(&mut self, severity: Severity, at: (usize, usize), message: impl Into<String>) {
        self.problems.push(Problem {
            place: Location::line(&self.file, at.0).at(at.1),
            message: message.into(),
            severity,
        });
    }

    /// Note an error on a line.
    pub fn error(&mut self, line: usize, message: impl Into<String>) {
        self.note(Severity::Error, (line, 0), message);
    }

    /// Note a warning on a line.
    pub fn warn(&mut self, line: usize, message: impl Into<String>) {
        self.note(Severity::Warning, (line, 0), message);
    }

    /// Note bytes that are not UTF-8.
    pub fn bad_encoding(&mut self, line: usize, column: usize) {
        self.note(
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
    fn lines_survive_every_ending() {
        let source = Source {
            bytes: b"a\r\n\nb\xe9c\nd".to_vec(),
        };
        let lines: Vec<_> = source.lines().map(|line| line.text).collect();
        assert_eq!(lines, [Ok("a"), Ok(""), Err(2), Ok("d")]);
        assert_eq!(source.text(), Err((3, 2)));
    }
}
