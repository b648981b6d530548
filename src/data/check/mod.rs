//! Checks of a corpus: all problems, likely mistakes, and an upper bound on the recall of each kind of model.
//!
//! Files are read one after the other; what is compared across files is kept in a compact form. Every step takes time that is
//! linear, or nearly so, in the size of the files.

mod balance;
mod bounds;
mod characters;
mod display;
mod edges;
mod finding;
pub mod fix;
mod groups;
mod index;
mod labels;
mod near;
mod surfaces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use bounds::{EntityCounts, HeadBound, Reach, RecallBound, SpanLimit};
pub use finding::{Example, Finding, FindingKind};
pub use groups::ProblemGroup;
pub use labels::{SimilarLabels, Similarity};
pub use near::{NearDuplicate, NearDuplicates};
pub use surfaces::{Inconsistencies, Inconsistency, Reading};

use super::leakage::{Leakage, SeenSentences};
use super::source::{Collector, display_name};
use super::{Format, Problem, ReadOptions, Severity, collect};
use crate::error::{Error, Location};
use crate::text::Sentence;
use finding::Findings;
use index::CorpusIndex;

/// How many examples of a kind are shown.
const SHOWN: usize = 3;

/// The result of [`check`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Counts for each file that could be read.
    pub files: Vec<FileReport>,
    /// All problems, file by file.
    pub problems: Vec<Problem>,
    /// The problems by kind.
    pub groups: Vec<ProblemGroup>,
    /// Number of errors among the problems.
    pub errors: usize,
    /// Number of warnings among the problems.
    pub warnings: usize,
    /// Likely mistakes in valid records.
    pub findings: Vec<Finding>,
    /// Entities in all files, including those that do not match word boundaries and those of several parts.
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
    /// Entities of several parts.
    pub discontinuous: usize,
    /// Sentences without entities.
    pub without_entities: usize,
    /// Number of entities by type.
    pub types: BTreeMap<String, usize>,
    /// Upper bound on the recall of each kind of model.
    pub recall_bounds: Vec<RecallBound>,
    /// Upper bound on the recall of span models that limit the span length.
    pub span_limits: Vec<SpanLimit>,
    /// Upper bound on the recall of each head, if [`CheckReport::add_head`] was called.
    pub heads: Vec<HeadBound>,
    /// Sentences that occur in two files.
    pub leaks: Vec<Leakage>,
    /// Sentences that are nearly the same in two files.
    pub near_duplicates: Vec<NearDuplicates>,
    /// Types with similar names.
    pub similar_labels: Vec<SimilarLabels>,
    /// The same words with different annotations.
    pub inconsistent: Inconsistencies,
    /// All counts, for further bounds.
    #[serde(skip)]
    pub counts: EntityCounts,
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

/// Checks files against their format and compares them with each other. A file that cannot be read at all is reported as
/// a problem.
pub fn check(files: &[PathBuf], options: &ReadOptions) -> CheckReport {
    check_with_progress(files, options, &mut |_| {})
}

/// Like [`check`]. `progress` is called with the bytes read so far.
pub fn check_with_progress(
    files: &[PathBuf],
    options: &ReadOptions,
    progress: &mut dyn FnMut(u64),
) -> CheckReport {
    let mut checker = Checker::default();
    let mut bytes = 0;
    for file in files {
        match collect(file, options, false) {
            Ok((format, corpus)) => checker.add(file, format, corpus),
            Err(error) => checker.report.problems.push(unreadable(file, error)),
        }
        bytes += std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        progress(bytes);
    }
    checker.finish()
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
        correction: None,
    }
}

/// The state of a check.
#[derive(Default)]
struct Checker {
    report: CheckReport,
    seen: SeenSentences,
    index: CorpusIndex,
    findings: Findings,
    /// The types of each file.
    types: Vec<(PathBuf, BTreeMap<String, usize>)>,
}

impl Checker {
    /// Adds a file.
    fn add(&mut self, file: &Path, format: Format, corpus: Collector) {
        let counts = FileReport::of(file, format, &corpus.sentences);
        if counts.entities == 0 && counts.sentences > 0 && format != Format::PlainText {
            let text = format!("{} sentences, read as {format}", counts.sentences);
            self.findings
                .add(FindingKind::NoEntities, || Location::file(file), &text);
        }
        self.report.files.push(counts);
        let mut own = EntityCounts::default();
        for (index, sentence) in corpus.sentences.iter().enumerate() {
            self.report.counts.add(sentence);
            own.add_types(sentence);
            self.inspect(sentence, || corpus.location(index));
        }
        self.types.push((file.to_path_buf(), own.types));
        self.index.add(file, &corpus);
        let leaks = self.seen.compare(file, &corpus);
        self.report.problems.extend(corpus.problems);
        for (leak, location) in leaks {
            self.report.problems.push(leak.warning(location));
            self.report.leaks.push(leak);
        }
    }

    /// Adds the findings about a sentence.
    fn inspect(&mut self, sentence: &Sentence, location: impl Fn() -> Location) {
        let findings = &mut self.findings;
        characters::inspect(sentence, |kind, text| findings.add(kind, &location, text));
        for entity in &sentence.entities {
            if edges::trimmed(sentence, entity.span).is_some() {
                let text = format!("{} `{}`", entity.label, sentence.surface(entity.span));
                findings.add(FindingKind::EdgePunctuation, &location, &text);
            }
        }
        if sentence.misaligned.is_empty() {
            return;
        }
        let characters: Vec<char> = sentence.text.chars().collect();
        for entity in &sentence.misaligned {
            if edges::has_space(&characters, entity.start, entity.end) {
                let covered = characters.get(entity.start..entity.end).unwrap_or_default();
                let surface: String = covered.iter().take(100).collect();
                let text = format!("{} `{surface}`", entity.label);
                findings.add(FindingKind::EdgeSpace, &location, &text);
            }
        }
    }

    /// The report, after comparisons across files.
    fn finish(self) -> CheckReport {
        let Self {
            mut report,
            index,
            mut findings,
            types,
            ..
        } = self;
        report.similar_labels = labels::similar(&report.counts.types);
        for similar in &report.similar_labels {
            findings.add_general(FindingKind::SimilarLabels, similar.text());
        }
        balance::inspect(&report.counts, &types, &mut findings);
        report.inconsistent = surfaces::inconsistent(&index);
        // The twenty worst are listed in a section of their own.
        findings.add_many(
            FindingKind::Inconsistent,
            report.inconsistent.surfaces,
            Vec::new(),
        );
        report.near_duplicates = near::near_duplicates(&index);
        let pairs = || report.near_duplicates.iter();
        let examples = pairs().flat_map(|pair| &pair.examples).map(|pair| Example {
            location: pair.second.location.clone(),
            text: format!("{} ~ {}", pair.second.text, pair.first),
        });
        let count = pairs().map(|pair| pair.sentences).sum();
        findings.add_many(FindingKind::NearDuplicate, count, examples.collect());
        report.findings = findings.into_list();
        let errors = |problem: &&Problem| problem.severity == Severity::Error;
        report.errors = report.problems.iter().filter(errors).count();
        report.warnings = report.problems.len() - report.errors;
        report.groups = groups::group(
            &report.problems,
            report.counts.types.keys().map(String::as_str),
        );
        report.fill();
        report
    }
}

impl FileReport {
    fn of(file: &Path, format: Format, sentences: &[Sentence]) -> Self {
        Self {
            file: display_name(file),
            format,
            sentences: sentences.len(),
            words: sentences.iter().map(Sentence::len).sum(),
            entities: sentences.iter().map(Sentence::entity_count).sum(),
        }
    }
}

impl CheckReport {
    /// True when there are no errors. Warnings are allowed.
    pub fn is_valid(&self) -> bool {
        self.errors == 0
    }

    /// Adds the bound of a head that can represent the entities within its reach.
    pub fn add_head(&mut self, name: &str, reach: Reach) {
        self.heads.push(self.counts.head_bound(name, reach));
    }

    /// Fills in the counts and bounds.
    fn fill(&mut self) {
        let counts = &self.counts;
        self.entities = counts.entities();
        self.overlapping = counts.overlapping;
        self.nested = counts.nested;
        self.same_span = counts.same_span;
        self.crossing = counts.crossing;
        self.misaligned = counts.misaligned;
        self.discontinuous = counts.discontinuous;
        self.without_entities = counts.without_entities;
        self.types = counts.types.clone();
        self.recall_bounds = counts.recall_bounds();
        self.span_limits = counts.span_limits();
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
    fn likely_mistakes_are_found_with_their_places() {
        let mut train = String::new();
        for _ in 0..30 {
            train += "{\"tokens\": [\"Maria\", \"sings\"], \"entities\": [[0, 1, \"PER\"]]}\n";
        }
        train += "{\"text\": \"Maria , who cafÃ© \\u200bx\", \"tokens\": [\"Maria\", \",\", \"who\", \"cafÃ©\", \"\\u200bx\"], \"entities\": [[0, 2, \"per\"]]}\n";
        train += "{\"tokens\": [\"Maria\", \"left\"], \"entities\": []}\n";
        let dev = "{\"tokens\": [\"Nobody\"], \"entities\": []}\n{\"tokens\": [\"Rare\"], \"entities\": [[0, 1, \"MISC\"]]}\n";
        let (_folder, files) = folder(&[("train.jsonl", &train), ("dev.jsonl", dev)]);
        let mut report = check(&files, &ReadOptions::default());
        let kinds: Vec<FindingKind> = report.findings.iter().map(|finding| finding.kind).collect();
        use FindingKind::*;
        assert_eq!(
            kinds,
            [
                SimilarLabels,
                RareType,
                MissingType,
                EdgePunctuation,
                Inconsistent,
                InvisibleCharacter,
                Mojibake
            ]
        );
        assert_eq!((report.errors, report.warnings), (0, 0));
        assert_eq!(report.inconsistent.worst[0].readings.len(), 2);
        report.add_head("flat", Reach::flat());
        let text = report.to_string();
        for part in [
            "train.jsonl:31: per `Maria ,`",
            "`PER` (30), `per` (1)",
            "`Maria`: PER 30",
            "not annotated 1",
            "U+200B",
            "within reach of flat",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["similar_labels"][0]["differ_in"], "case");
        assert_eq!(json["heads"][0]["head"], "flat");
        assert_eq!(json["without_entities"], 2);
        assert!(
            json["findings"]
                .as_array()
                .unwrap()
                .iter()
                .all(|finding| finding["remedy"].is_string())
        );
    }

    #[test]
    fn warnings_of_a_kind_are_grouped() {
        let records: String = (0..9)
            .map(|n| {
                format!(
                    "{{\"text\": \"word{n}\", \"entities\": [[1, {}, \"T{n}\"]]}}\n",
                    3 + n % 2
                )
            })
            .collect();
        let (_folder, files) = folder(&[("a.jsonl", &records)]);
        let report = check(&files, &ReadOptions::default());
        assert_eq!((report.problems.len(), report.warnings), (9, 9));
        assert_eq!((report.groups.len(), report.groups[0].count), (1, 9));
        let text = report.to_string();
        assert!(
            text.contains("a.jsonl:3: warning:") && !text.contains("a.jsonl:4: warning:"),
            "{text}"
        );
        assert!(text.contains("and 6 more warnings of this kind"), "{text}");
    }

    #[test]
    fn discontinuous_entities_are_counted_and_out_of_reach() {
        let (_folder, files) = folder(&[(
            "a.json",
            r#"[{"sentence": ["a", "b", "c"], "ner": [{"index": [0, 2], "type": "B"}, {"index": [1], "type": "B"}]}]"#,
        )]);
        let report = check(&files, &ReadOptions::default());
        assert_eq!(
            (
                report.entities,
                report.discontinuous,
                report.files[0].entities
            ),
            (2, 1, 2)
        );
        assert!(report.recall_bounds.iter().all(|bound| bound.entities == 1));
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
