//! The sentences and problems that a reader finds in a file.

use std::path::{Path, PathBuf};

use super::{Line, display_name, uncompressed_name};
use crate::data::correction::Message;
use crate::data::sentences::crossing::CrossingEntities;
use crate::data::{Problem, Severity};
use crate::error::Location;
use crate::text::Sentence;

/// The problem of bytes that are not valid UTF-8.
pub(in crate::data) const BAD_ENCODING: &str = "not valid UTF-8; convert the file, for example with `iconv -f windows-1252 -t utf-8 FILE > NEW`";

/// The sentences and problems that a reader has found so far.
pub(in crate::data) struct Collector {
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
    /// Entities that cross the end of a sentence, for one warning about all of them.
    pub crossing: CrossingEntities,
    /// Number of documents that were given a name.
    unnamed: usize,
}

impl Collector {
    /// An empty collector for a file.
    pub fn new(file: &Path) -> Self {
        Self {
            file: display_name(file),
            files: Vec::new(),
            sentences: Vec::new(),
            lines: Vec::new(),
            problems: Vec::new(),
            mending: false,
            records: None,
            crossing: CrossingEntities::default(),
            unnamed: 0,
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
        uncompressed_name(&self.file)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// A line of the file, for a message.
    pub fn line_location(&self, line: usize) -> Location {
        Location::line(&self.file, line)
    }

    /// A name for a document without one: the file's name and a number.
    pub fn next_document(&mut self) -> String {
        self.unnamed += 1;
        format!("{}-{}", self.stem(), self.unnamed)
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
            correction: None,
        });
    }

    /// Adds a problem at (line, column), which count as in [`Location`].
    pub fn report(&mut self, severity: Severity, at: (usize, usize), message: impl Into<Message>) {
        let location = Location::line(&self.file, at.0).at(at.1);
        self.report_at(severity, location, message);
    }

    /// Adds an error about a line.
    pub fn error(&mut self, line: usize, message: impl Into<Message>) {
        self.report(Severity::Error, (line, 0), message);
    }

    /// Adds a warning about a line.
    pub fn warn(&mut self, line: usize, message: impl Into<Message>) {
        self.report(Severity::Warning, (line, 0), message);
    }

    /// Adds a warning about a location.
    pub fn warn_at(&mut self, location: Location, message: impl Into<Message>) {
        self.report_at(Severity::Warning, location, message);
    }

    fn report_at(&mut self, severity: Severity, location: Location, message: impl Into<Message>) {
        let Message { text, correction } = message.into();
        self.problems.push(Problem {
            location,
            message: text,
            severity,
            correction,
        });
    }

    /// The text of a line. An error is reported for a line that is not valid UTF-8.
    pub fn line_text<'a>(&mut self, line: &Line<'a>) -> Option<&'a str> {
        if let Err(column) = line.text {
            self.bad_encoding(line.number, column);
        }
        line.text.ok()
    }

    /// Adds an error about bytes that are not valid UTF-8.
    pub fn bad_encoding(&mut self, line: usize, column: usize) {
        self.report(Severity::Error, (line, column), BAD_ENCODING);
    }
}
