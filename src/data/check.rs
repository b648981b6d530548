//! Checks of a corpus: all problems, and an upper bound on the recall of each kind of model.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::leakage::{Leakage, SeenSentences};
use super::source::display_name;
use super::stats::{Overlaps, share};
use super::{Format, Problem, ReadOptions, Severity, collect};
use crate::error::{Error, Location};
use crate::table::Table;
use crate::text::{Entity, Sentence, Span, outermost};

/// The result of [`check`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Counts for each file that could be read.
    pub files: Vec<FileReport>,
    /// All problems, file by file.
    pub problems: Vec<Problem>,
    /// Number of errors among the problems.
    pub errors: usize,
    /// Number of warnings among the problems.
    pub warnings: usize,
    /// Entities in all files, including those that do not match word boundaries.
    pub entities: usize,
    /// Entities that share characters with any other entity.
    pub overlapping: usize,
    /// Entities that share characters with an entity of a different span.
    pub nested: usize,
    /// Entities whose span has a second type.
    pub same_span: usize,
    /// Entities that overlap another entity without one containing the other.
    pub crossing: usize,
    /// Entities that do not match word boundaries.
    pub misaligned: usize,
    /// Upper bound on the recall of each kind of model.
    pub recall_bounds: Vec<RecallBound>,
    /// Upper bound on the recall of span models that limit the span length.
    pub span_limits: Vec<SpanLimit>,
    /// Sentences that occur in two files.
    pub leaks: Vec<Leakage>,
}

/// Counts for one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Path of the file.
    pub file: PathBuf,
    /// The format it was read as.
    pub format: Format,
    /// Number of valid sentences.
    pub sentences: usize,
    /// Number of words in them.
    pub words: usize,
    /// Number of entities in them.
    pub entities: usize,
}

/// Upper bound on the recall of a kind of model: the share of entities it can represent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallBound {
    /// Kind of model.
    pub model: &'static str,
    /// Number of entities it can represent.
    pub entities: usize,
    /// These as a share of all entities.
    pub recall: f64,
}

/// Upper bound on the recall of a span model that considers spans of up to `words` words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanLimit {
    /// Longest span considered, in words.
    pub words: usize,
    /// Number of entities no longer than that.
    pub entities: usize,
    /// These as a share of all entities.
    pub recall: f64,
}

/// Checks files against their format and compares them with each other. A file that cannot be read at all is reported as
/// a problem.
pub fn check(files: &[PathBuf], options: &ReadOptions) -> CheckReport {
    let mut report = CheckReport::default();
    let mut totals = Totals::default();
    let mut seen = SeenSentences::default();
    for file in files {
        match collect(file, options) {
            Ok((format, corpus)) => {
                report
                    .files
                    .push(FileReport::of(file, format, &corpus.sentences));
                for sentence in &corpus.sentences {
                    totals.add(sentence);
                }
                let leaks = seen.compare(&display_name(file), &corpus);
                report.problems.extend(corpus.problems);
                for (leak, location) in leaks {
                    report.problems.push(leak.warning(location));
                    report.leaks.push(leak);
                }
            }
            Err(error) => report.problems.push(unreadable(file, error)),
        }
    }
    let errors = |problem: &&Problem| problem.severity == Severity::Error;
    report.errors = report.problems.iter().filter(errors).count();
    report.warnings = report.problems.len() - report.errors;
    totals.fill(&mut report);
    report
}

fn unreadable(file: &Path, error: Error) -> Problem {
    let (location, message) = match error {
        Error::Data { location, problem } => (location, problem),
        Error::Io { path, source } => (Location::file(path), source.to_string()),
        other => (Location::file(display_name(file)), other.chain()),
    };
    Problem {
        location,
        message,
        severity: Severity::Error,
    }
}

impl FileReport {
    fn of(file: &Path, format: Format, sentences: &[Sentence]) -> Self {
        let entities = |sentence: &Sentence| sentence.entities.len() + sentence.misaligned.len();
        Self {
            file: display_name(file),
            format,
            sentences: sentences.len(),
            words: sentences.iter().map(Sentence::len).sum(),
            entities: sentences.iter().map(entities).sum(),
        }
    }
}

/// Counts summed over all files.
#[derive(Default)]
struct Totals {
    aligned: usize,
    misaligned: usize,
    overlapping: usize,
    nested: usize,
    same_span: usize,
    crossing: usize,
    outermost: usize,
    /// Distinct spans of entities: a span model assigns one type to each.
    spans: usize,
    /// Number of distinct spans by their length in words.
    lengths: Vec<usize>,
}

impl Totals {
    fn add(&mut self, sentence: &Sentence) {
        self.aligned += sentence.entities.len();
        self.misaligned += sentence.misaligned.len();
        self.outermost += outermost(&sentence.entities).len();
        let overlaps = Overlaps::of(sentence);
        self.overlapping += overlaps.any;
        self.nested += overlaps.nested;
        self.same_span += overlaps.same_span;
        if overlaps.nested > 0 {
            self.crossing += crossing(&sentence.entities);
        }
        let spans: BTreeSet<Span> = sentence.entities.iter().map(|entity| entity.span).collect();
        self.spans += spans.len();
        for span in spans {
            let length = span.len();
            if self.lengths.len() <= length {
                self.lengths.resize(length + 1, 0);
            }
            self.lengths[length] += 1;
        }
    }

    fn fill(&self, report: &mut CheckReport) {
        let total = self.aligned + self.misaligned;
        report.entities = total;
        report.misaligned = self.misaligned;
        report.overlapping = self.overlapping;
        report.nested = self.nested;
        report.same_span = self.same_span;
        report.crossing = self.crossing;
        let bound = |model, entities| RecallBound {
            model,
            entities,
            recall: share(entities, total),
        };
        report.recall_bounds = vec![
            bound("flat tagger", self.outermost),
            bound("span model without a limit", self.spans),
            bound("boundary regression", self.aligned),
        ];
        let longest = self.lengths.len().saturating_sub(1);
        report.span_limits = limits(longest)
            .map(|words| {
                let entities = self.lengths[..=words].iter().sum();
                SpanLimit {
                    words,
                    entities,
                    recall: share(entities, total),
                }
            })
            .collect();
    }
}

/// The span limits to report: all up to ten, then in wider steps, and the length of the longest entity.
fn limits(longest: usize) -> impl Iterator<Item = usize> {
    (1..=longest).filter(move |words| {
        *words <= 10
            || *words == longest
            || (*words <= 30 && words % 5 == 0)
            || (*words <= 100 && words % 10 == 0)
            || words % 100 == 0
    })
}

fn crossing(entities: &[Entity]) -> usize {
    let crosses = |a: &Entity, b: &Entity| {
        a.span.overlaps(&b.span) && !a.span.contains(&b.span) && !b.span.contains(&a.span)
    };
    let any = |entity: &&Entity| entities.iter().any(|other| crosses(entity, other));
    entities.iter().filter(any).count()
}

impl CheckReport {
    /// True when there are no errors. Warnings are allowed.
    pub fn is_valid(&self) -> bool {
        self.errors == 0
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        if !self.problems.is_empty() {
            writeln!(f)?;
        }
        for file in &self.files {
            writeln!(
                f,
                "{} ({}): {} sentences, {} words, {} entities",
                file.file.display(),
                file.format,
                file.sentences,
                file.words,
                file.entities
            )?;
        }
        writeln!(f, "{} errors, {} warnings\n", self.errors, self.warnings)?;
        let mut table = Table::headless();
        let mut row = |name: &str, count: usize| {
            let percent = 100.0 * share(count, self.entities);
            table.row([
                name.to_owned(),
                count.to_string(),
                format!("{percent:.2} %"),
            ]);
        };
        row("entities", self.entities);
        row("  overlapping another", self.overlapping);
        row("  nested", self.nested);
        row("  two types on one span", self.same_span);
        row("  crossing another", self.crossing);
        row("  not at word boundaries", self.misaligned);
        for bound in &self.recall_bounds {
            row(
                &format!("recall bound of a {}", bound.model),
                bound.entities,
            );
        }
        for limit in &self.span_limits {
            row(
                &format!("  spans of up to {} words", limit.words),
                limit.entities,
            );
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let paths = files.iter().map(|(name, content)| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        });
        let paths = paths.collect();
        (folder, paths)
    }

    #[test]
    fn shares_and_recall_bounds() {
        let (_folder, files) = folder(&[(
            "a.jsonl",
            r#"{"text": "one two three four five", "entities": [[0, 13, "A"], [4, 7, "B"], [8, 18, "C"], [19, 23, "D"], [20, 23, "E"]]}"#,
        )]);
        let report = check(&files, &ReadOptions::default());
        assert_eq!((report.errors, report.warnings), (0, 1));
        assert!(report.is_valid());
        assert_eq!(report.entities, 5);
        assert_eq!(
            (report.nested, report.crossing, report.misaligned),
            (5, 2, 1)
        );
        let bounds: Vec<usize> = report.recall_bounds.iter().map(|b| b.entities).collect();
        assert_eq!(bounds, [2, 4, 4]);
        let limits: Vec<usize> = report
            .span_limits
            .iter()
            .map(|limit| limit.entities)
            .collect();
        assert_eq!(limits, [2, 3, 4]);
        assert_eq!(report.span_limits[2].recall, 0.8);
        let text = report.to_string();
        assert!(
            text.contains("a.jsonl:1: warning:") && text.contains("80.00 %"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["problems"][0]["line"], 1);
        assert_eq!(json["recall_bounds"][0]["entities"], 2);
    }

    #[test]
    fn leakage_between_files_is_a_warning() {
        let (_folder, files) = folder(&[
            ("train.txt", "This is a test .\nYes .\n"),
            (
                "test.txt",
                "Something new here now .\nYes .\nThis is a  test.\nThis is a test .\n",
            ),
        ]);
        let report = check(&files, &ReadOptions::default());
        assert_eq!(report.leaks.len(), 1);
        assert_eq!(report.leaks[0].sentences, 2);
        assert_eq!(report.problems[0].location, Location::line(&files[1], 3));
        assert_eq!(report.warnings, 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_problem() {
        let (_folder, mut files) = folder(&[("a.txt", "fine\n"), ("b.csv", "x,y\n")]);
        files.push(PathBuf::from("missing.jsonl"));
        let report = check(&files, &ReadOptions::default());
        assert_eq!((report.files.len(), report.errors), (1, 2));
        assert!(!report.is_valid());
        assert!(check(&[], &ReadOptions::default()).is_valid());
    }
}
