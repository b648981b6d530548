//! Everything that is wrong with a corpus, and what each kind of model can reach in it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::leak::{Leak, Seen};
use super::source::Collector;
use super::stats::{Overlaps, share};
use super::{Format, Options, Problem, Severity, collect, sniff};
use crate::error::{Error, Location, Result};
use crate::text::{Entity, Sentence, Span, outermost};

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// One for each file that could be read.
    pub files: Vec<FileReport>,
    /// Everything that is wrong, file by file.
    pub problems: Vec<Problem>,
    /// How many of them are errors.
    pub errors: usize,
    /// How many of them are warnings.
    pub warnings: usize,
    /// Entities in all files, those off word borders included.
    pub entities: usize,
    /// Entities that share characters with any other.
    pub overlapping: usize,
    /// Entities that share characters with one of a different span.
    pub nested: usize,
    /// Entities whose very span has another type as well.
    pub same_span: usize,
    /// Entities that overlap another without one containing the other.
    pub crossing: usize,
    /// Entities off word borders.
    pub misaligned: usize,
    /// How many entities each kind of model can find.
    pub reach: Vec<Reach>,
    /// The best recall a model can have that looks only at spans of up to so many words.
    pub span_limits: Vec<SpanLimit>,
    /// Sentences that stand in two files.
    pub leaks: Vec<Leak>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileReport {
    /// Which.
    pub file: PathBuf,
    /// How it was read.
    pub format: Format,
    /// Its sound sentences.
    pub sentences: usize,
    /// Their words.
    pub words: usize,
    /// Their entities.
    pub entities: usize,
}

/// How many entities a kind of model can find at best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reach {
    /// The kind.
    pub model: &'static str,
    /// How many.
    pub entities: usize,
    /// The same as a share of all entities: the recall it cannot exceed.
    pub recall: f64,
}

/// The best recall under a limit on the length of spans.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanLimit {
    /// The longest span looked at, in words.
    pub words: usize,
    /// Entities no longer than that.
    pub entities: usize,
    /// The same as a share of all entities.
    pub recall: f64,
}

/// Check files against the format they are in and against each other. A file that cannot be read at all is one of
/// the problems.
pub fn check(files: &[PathBuf], options: &Options) -> Report {
    let mut report = Report::default();
    let mut counts = Counts::default();
    let mut seen = Seen::default();
    for file in files {
        match scan_file(file, options) {
            Ok((format, corpus)) => {
                report
                    .files
                    .push(FileReport::of(file, format, &corpus.sentences));
                for sentence in &corpus.sentences {
                    counts.add(sentence);
                }
                let leaks = seen.compare(file, &corpus);
                report.problems.extend(corpus.problems);
                for (leak, place) in leaks {
                    report.problems.push(leak.warning(place));
                    report.leaks.push(leak);
                }
            }
            Err(error) => report.problems.push(unreadable(file, error)),
        }
    }
    let errors = |problem: &&Problem| problem.severity == Severity::Error;
    report.errors = report.problems.iter().filter(errors).count();
    report.warnings = report.problems.len() - report.errors;
    counts.fill(&mut report);
    report
}

fn scan_file(file: &Path, options: &Options) -> Result<(Format, Collector)> {
    let format = options.format.map_or_else(|| sniff(file), Ok)?;
    let options = Options {
        format: Some(format),
        ..options.clone()
    };
    Ok((format, collect(file, &options)?))
}

fn unreadable(file: &Path, error: Error) -> Problem {
    let (place, message) = match error {
        Error::Data { place, problem } => (place, problem),
        Error::Io { path, said } => (Location::file(path), said.to_string()),
        other => (Location::file(file), other.to_string()),
    };
    Problem {
        place,
        message,
        severity: Severity::Error,
    }
}

impl FileReport {
    fn of(file: &Path, format: Format, sentences: &[Sentence]) -> Self {
        let entities = |sentence: &Sentence| sentence.entities.len() + sentence.misaligned.len();
        Self {
            file: file.to_path_buf(),
            format,
            sentences: sentences.len(),
            words: sentences.iter().map(Sentence::len).sum(),
            entities: sentences.iter().map(entities).sum(),
        }
    }
}

/// Sums over all files.
#[derive(Default)]
struct Counts {
    aligned: usize,
    misaligned: usize,
    overlapping: usize,
    nested: usize,
    same_span: usize,
    crossing: usize,
    outermost: usize,
    /// Distinct spans with an entity: a span model gives each one type.
    spans: usize,
    /// How many of these have so many words.
    lengths: Vec<usize>,
}

impl Counts {
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

    fn fill(&self, report: &mut Report) {
        let total = self.aligned + self.misaligned;
        report.entities = total;
        report.misaligned = self.misaligned;
        report.overlapping = self.overlapping;
        report.nested = self.nested;
        report.same_span = self.same_span;
        report.crossing = self.crossing;
        let reach = |model, entities| Reach {
            model,
            entities,
            recall: share(entities, total),
        };
        report.reach = vec![
            reach("flat tagger", self.outermost),
            reach("span model without a limit", self.spans),
            reach("boundary regression", self.aligned),
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

/// The limits worth a look: every one up to ten, then wider steps, and the longest entity.
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

impl Report {
    /// True when there is no error; warnings may be there.
    pub fn is_sound(&self) -> bool {
        self.errors == 0
    }
}

impl fmt::Display for Report {
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
        let mut row = |name: &str, count: usize| {
            let percent = 100.0 * share(count, self.entities);
            writeln!(f, "{name:<45} {count:>9}  {percent:>6.2} %")
        };
        row("entities", self.entities)?;
        row("  overlapping another", self.overlapping)?;
        row("  nested", self.nested)?;
        row("  two types on one span", self.same_span)?;
        row("  crossing another", self.crossing)?;
        row("  off word borders", self.misaligned)?;
        for reach in &self.reach {
            row(
                &format!("within reach of a {}", reach.model),
                reach.entities,
            )?;
        }
        for limit in &self.span_limits {
            row(
                &format!("  spans of up to {} words", limit.words),
                limit.entities,
            )?;
        }
        Ok(())
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
    fn shares_and_ceilings() {
        let (_folder, files) = folder(&[(
            "a.jsonl",
            r#"{"text": "one two three four five", "entities": [[0, 13, "A"], [4, 7, "B"], [8, 18, "C"], [19, 23, "D"], [20, 23, "E"]]}"#,
        )]);
        let report = check(&files, &Options::default());
        assert_eq!((report.errors, report.warnings), (0, 1));
        assert!(report.is_sound());
        assert_eq!(report.entities, 5);
        assert_eq!(
            (report.nested, report.crossing, report.misaligned),
            (5, 2, 1)
        );
        let reach: Vec<usize> = report.reach.iter().map(|reach| reach.entities).collect();
        assert_eq!(reach, [2, 4, 4]);
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
        assert!(serde_json::to_value(&report).unwrap()["problems"][0]["line"] == 1);
    }

    #[test]
    fn leaks_between_files_are_warned_of() {
        let (_folder, files) = folder(&[
            ("train.txt", "This is a test .\nYes .\n"),
            (
                "test.txt",
                "Something new here now .\nYes .\nThis is a  test.\nThis is a test .\n",
            ),
        ]);
        let report = check(&files, &Options::default());
        assert_eq!(report.leaks.len(), 1);
        assert_eq!(report.leaks[0].sentences, 2);
        assert_eq!(report.problems[0].place, Location::line(&files[1], 3));
        assert_eq!(report.warnings, 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_problem() {
        let (_folder, mut files) = folder(&[("a.txt", "fine\n"), ("b.csv", "x,y\n")]);
        files.push(PathBuf::from("missing.jsonl"));
        let report = check(&files, &Options::default());
        assert_eq!((report.files.len(), report.errors), (1, 2));
        assert!(!report.is_sound());
        assert!(check(&[], &Options::default()).is_sound());
    }
}
