//! Corpora: reading, writing, checking, counting and splitting.
//!
//! Every reader produces [`Sentence`]s, and every [`Problem`] names its location and a remedy. [`read`] stops at the first
//! error; [`scan`] collects all problems and returns the valid records.

mod bioc;
mod brat;
pub mod check;
mod columns;
mod conllu;
mod correction;
mod csv;
pub mod datasets;
mod detect;
mod doc_bin;
mod format;
mod gliner;
pub mod input_text;
mod json;
mod label_studio;
mod leakage;
mod parquet;
mod prodigy;
mod pubtator;
mod sentences;
mod skip_bad;
mod source;
mod spacy;
pub mod split;
pub mod stats;
pub mod synthetic;
mod tags;
#[cfg(test)]
mod testing;
mod unread;
mod webanno;
pub mod words;
pub mod write;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use correction::Correction;
pub use detect::detect_format;
pub use format::{Format, ReadOptions, SentenceCutting};
pub use leakage::{Leakage, leakage_key};
pub use sentences::bounds as sentence_bounds;
pub use source::{file_extension, is_stream, open_stream};
pub use tags::bio;
pub use tags::scheme::TagScheme;
use words::Segmentation;
pub use words::choice as segmentation_choice;

use crate::error::{Error, Location, Result};
use crate::text::{Misaligned, Sentence, slice, visible};
use json::record::RecordKind;
use source::{Collector, Source};

/// Severity of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// The record is used, but may have been understood differently from what its author intended.
    Warning,
    /// The record is invalid and is skipped.
    Error,
}

/// A warning or error about a corpus file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File, line and column.
    pub location: Location,
    /// Description of the problem, and a remedy.
    pub message: String,
    /// Warning or error.
    pub severity: Severity,
    /// What the reader did about it, if anything. Records with an error are always left out.
    pub correction: Option<Correction>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = visible(&self.message);
        write!(f, "{}: {}: {message}", self.location, self.severity)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Problem", 5)?;
        fields.serialize_field("file", &self.location.file)?;
        fields.serialize_field("line", &self.location.line)?;
        fields.serialize_field("column", &self.location.column)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("message", &self.message)?;
        fields.end()
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Error::data(problem.location, problem.message)
    }
}

/// Reads a corpus file, or a folder of BRAT file pairs. The path `-` stands for standard input, and files compressed with
/// gzip or Zstandard are decompressed.
///
/// The first error in the file is returned as [`Error::Data`], unless [`ReadOptions::skip_bad`] allows to skip records;
/// warnings are counted in one log line.
///
/// ```
/// use nerzoo::data::{self, ReadOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("train.conll");
/// std::fs::write(&path, "Ada\tB-PER\nLovelace\tI-PER\nwrote\tO\n")?;
/// // The format and the tagging scheme are detected.
/// let sentences = data::read(&path, &ReadOptions::default())?;
/// assert_eq!(sentences[0].text, "Ada Lovelace wrote");
/// assert_eq!(sentences[0].entities[0].label, "PER");
/// # Ok(())
/// # }
/// ```
pub fn read(path: &Path, options: &ReadOptions) -> Result<Vec<Sentence>> {
    let (_, mut corpus) = collect(path, options, false)?;
    let is_error = |problem: &Problem| problem.severity == Severity::Error;
    if let Some(limit) = options.skip_bad {
        skip_bad::skip(&mut corpus, path, limit)?;
    } else if let Some(error) = corpus.problems.iter().position(is_error) {
        return Err(corpus.problems.swap_remove(error).into());
    }
    let Collector {
        sentences,
        problems,
        ..
    } = corpus;
    if let Some(first) = problems.first() {
        warn_once(warning_line(problems.len(), path, first));
    }
    Ok(sentences)
}

/// Logs a warning, unless it was logged before: a file is read more than once if two splits come from it, and by every run of a
/// comparison.
fn warn_once(line: String) {
    static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(|lock| lock.into_inner());
    if !logged.contains(&line) {
        tracing::warn!("{line}");
        logged.insert(line);
    }
}

/// One line about all warnings of a file.
fn warning_line(count: usize, path: &Path, first: &Problem) -> String {
    let (warnings, which) = if count == 1 {
        ("warning", "it is")
    } else {
        ("warnings", "the first")
    };
    format!(
        "{count} {warnings}, listed by `nerzoo data check {}`; {which}: {first}",
        path.display()
    )
}

/// Reads several files as one corpus, in the given order.
pub fn read_many(paths: &[PathBuf], options: &ReadOptions) -> Result<Vec<Sentence>> {
    let mut sentences = Vec::new();
    for path in paths {
        sentences.extend(read(path, options)?);
    }
    Ok(sentences)
}

/// Reads all valid records and lists all problems in file order. Records with an error are skipped; records with only a
/// warning are kept. Fails only when the file cannot be read at all or its format cannot be detected.
pub fn scan(path: &Path, options: &ReadOptions) -> Result<(Vec<Sentence>, Vec<Problem>)> {
    let (_, corpus) = collect(path, options, false)?;
    Ok((corpus.sentences, corpus.problems))
}

/// Like [`scan`], with the format and the location of every sentence. With `mending`, readers leave out single entities where
/// they can, instead of the record. The file is opened once.
fn collect(path: &Path, options: &ReadOptions, mending: bool) -> Result<(Format, Collector)> {
    let (format, source) = detect::open(path, options)?;
    let mut corpus = Collector::new(path);
    corpus.mending = mending;
    match &source {
        None => brat::read(path, options, &mut corpus)?,
        Some(source) => {
            read_source(format, source, options, &mut corpus);
            if options.skip_bad.is_some() {
                skip_bad::prepare(&mut corpus, source, format);
            }
        }
    }
    if options.split_words == Some(true) {
        split_words(&mut corpus, options.segmentation.unwrap_or_default());
    }
    rename_types(&mut corpus.sentences, &options.rename);
    corpus.report_discontinuous();
    sentences::crossing::report_crossing(&mut corpus);
    // The files of a BRAT folder are in order already.
    if source.is_some() {
        corpus.problems.sort_by(|a, b| a.location.cmp(&b.location));
    }
    Ok((format, corpus))
}

/// Splits all sentences into words by a rule, with a warning for each entity that no model can find then.
fn split_words(corpus: &mut Collector, segmentation: Segmentation) {
    for index in 0..corpus.sentences.len() {
        let sentence = &mut corpus.sentences[index];
        for entity in words::split_again(sentence, segmentation) {
            let Misaligned { start, end, label } = entity;
            let surface = slice(&corpus.sentences[index].text, start, end);
            let (label, surface) = (visible(&label), visible(surface));
            let message = format!(
                "{label} {start}..{end} `{surface}` is not made of words of the rule `{segmentation}`, so no model can find it; \
                 use another rule (`segmentation`), or the words of the file"
            );
            corpus.warn_at(corpus.location(index), message);
        }
    }
}

/// Gives entities the other names of their types, and leaves out those whose other name is empty. Entities that become equal
/// are kept once.
fn rename_types(sentences: &mut [Sentence], names: &BTreeMap<String, String>) {
    if names.is_empty() {
        return;
    }
    let is_kept = |label: &mut String| match names.get(label.as_str()) {
        Some(name) => {
            label.clone_from(name);
            !name.is_empty()
        }
        None => true,
    };
    for sentence in sentences {
        let mut seen = HashSet::new();
        (sentence.entities)
            .retain_mut(|entity| is_kept(&mut entity.label) && seen.insert(entity.clone()));
        (sentence.misaligned).retain_mut(|entity| is_kept(&mut entity.label));
        (sentence.discontinuous).retain_mut(|entity| is_kept(&mut entity.label));
    }
}

/// Reads a source in a format other than BRAT.
fn read_source(format: Format, source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    match format {
        Format::Columns => columns::read(source, options, corpus),
        Format::TokensJsonl | Format::Spert => {
            json::record::read(source, RecordKind::Tokens, options, corpus)
        }
        Format::TextJsonl => json::record::read(source, RecordKind::Text, options, corpus),
        Format::Doccano => json::record::read(source, RecordKind::Document, options, corpus),
        Format::W2ner => json::record::read(source, RecordKind::Index, options, corpus),
        Format::Gliner => gliner::read(source, options, corpus),
        Format::Spacy => spacy::read(source, options, corpus),
        Format::DocBin => doc_bin::read(source, options, corpus),
        Format::Prodigy => prodigy::read(source, options, corpus),
        Format::LabelStudio => label_studio::read(source, options, corpus),
        Format::Webanno => webanno::read(source, options, corpus),
        Format::Conllu => conllu::read(source, options, corpus),
        Format::Pubtator => pubtator::read(source, options, corpus),
        Format::Bioc => bioc::read(source, options, corpus),
        Format::Csv => csv::read(source, options, corpus),
        Format::Parquet => parquet::read(source, options, corpus),
        Format::PlainText | Format::Brat => plain_text(source, options, corpus),
    }
}

/// Plain text: one sentence per line; blank lines are skipped.
fn plain_text(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    if options.format.is_none()
        && let Some(warning) = unread::table(source)
    {
        corpus.warn(0, warning);
    }
    for line in source.lines() {
        let text = corpus
            .line_text(&line)
            .filter(|text| !text.trim().is_empty());
        if let Some(text) = text {
            let sentence = words::sentence(text, options.segmentation.unwrap_or_default());
            corpus.push(line.number, sentence);
        }
    }
}

/// Sets the context of every sentence ([`Sentence::left`] and [`Sentence::right`]) to the words of the sentences directly
/// before and after it, where the file does not give a context. See [`link_context`].
pub fn link_neighbours(sentences: &mut [Sentence]) {
    link_context(sentences, 1);
}

/// Sets the context of every sentence to the words of up to `count` sentences on each side within the same document.
///
/// Adjacent sentences belong together when they have the same `document`; a sentence without one gets no context. A
/// context given by the file takes precedence: it is extended only when it equals the adjacent sentence of the list.
pub fn link_context(sentences: &mut [Sentence], count: usize) {
    if count == 0 {
        return;
    }
    let words: Vec<Vec<String>> = sentences
        .iter()
        .map(|sentence| sentence.words.iter().map(|w| w.text.clone()).collect())
        .collect();
    // Whether `other` is the neighbour of `index`. `given` is the context from the file, empty if it gives none.
    let are_neighbours = |index: usize, other: usize, given: &[String]| {
        if given.is_empty() {
            let document = &sentences[index].document;
            document.is_some() && *document == sentences[other].document
        } else {
            given == words[other]
        }
    };
    let before: Vec<bool> = (0..sentences.len())
        .map(|index| index > 0 && are_neighbours(index, index - 1, &sentences[index].left))
        .collect();
    let after: Vec<bool> = (0..sentences.len())
        .map(|index| {
            index + 1 < words.len() && are_neighbours(index, index + 1, &sentences[index].right)
        })
        .collect();
    for (index, sentence) in sentences.iter_mut().enumerate() {
        let mut first = index;
        while first > 0 && index - first < count && before[first] {
            first -= 1;
        }
        let mut last = index;
        while last - index < count && after[last] {
            last += 1;
        }
        if first < index {
            sentence.left = words[first..index].concat();
        }
        if last > index {
            sentence.right = words[index + 1..=last].concat();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    fn write(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn one_warning_is_not_plural() {
        let (_folder, path) = write(
            "a.conll",
            b"Ada\tI-PER\nBo\tB-PER\nmet\tO\nCy\tB-PER\nDe\tI-LOC\n",
        );
        let (_, problems) = scan(&path, &ReadOptions::default()).unwrap();
        let line = |count| warning_line(count, &path, &problems[0]);
        assert!(line(1).starts_with("1 warning, listed by `nerzoo data check "));
        assert!(line(2).starts_with("2 warnings, listed by `nerzoo data check "));
        assert!(line(2).contains("; the first: "));
    }

    #[test]
    fn neighbours_stay_in_their_document() {
        let mut sentences: Vec<Sentence> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|word| Sentence::from_words([*word]))
            .collect();
        for (index, document) in [(0, "x"), (1, "x"), (2, "y")] {
            sentences[index].document = Some(document.to_string());
        }
        sentences[0].right = vec!["kept".to_string()];
        link_neighbours(&mut sentences);
        assert_eq!(sentences[0].right, ["kept"]);
        assert_eq!(sentences[1].left, ["a"]);
        assert!(sentences[1].right.is_empty() && sentences[2].left.is_empty());
        assert!(sentences[3].right.is_empty() && sentences[4].left.is_empty());
        link_neighbours(&mut []);
    }

    #[test]
    fn extending_the_context_is_idempotent() {
        let mut sentences: Vec<Sentence> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|word| Sentence::from_words([*word]))
            .collect();
        for sentence in &mut sentences[..4] {
            sentence.document = Some("x".to_string());
        }
        sentences[4].left = vec!["d".to_string()]; // given by the file, and equal to the sentence before
        link_context(&mut sentences, 2);
        let sides = |index: usize| {
            let sentence: &Sentence = &sentences[index];
            (sentence.left.concat(), sentence.right.concat())
        };
        assert_eq!(sides(0), (String::new(), "bc".to_string()));
        assert_eq!(sides(2), ("ab".to_string(), "d".to_string()));
        assert_eq!(sides(4), ("cd".to_string(), String::new()));
        let before = sentences.clone();
        link_context(&mut sentences, 2);
        assert_eq!(sentences, before);
    }

    #[test]
    fn read_stops_at_an_error_and_scan_continues() {
        let (_folder, path) = write(
            "a.jsonl",
            b"{\"tokens\":[\"a\"],\"entities\":[]}\n{\"tokens\":[\"b\"],\n{\"tokens\":[\"c\"]}\n",
        );
        let error = read(&path, &ReadOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("a.jsonl:2"), "{error}");
        let (sentences, problems) = scan(&path, &ReadOptions::default()).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn types_are_renamed_and_left_out() {
        let (_folder, path) = write(
            "a.jsonl",
            br#"{"tokens":["a","b"],"entities":[{"start":0,"end":1,"type":"person"},{"start":0,"end":1,"type":"human"},{"start":1,"end":2,"type":"misc"},{"start":0,"end":2,"type":"ORG"}]}"#,
        );
        let names = [
            ("person", "PER"),
            ("human", "PER"),
            ("misc", ""),
            ("absent", "X"),
        ];
        let options = ReadOptions {
            rename: names.map(|(from, to)| (from.into(), to.into())).into(),
            ..ReadOptions::default()
        };
        let sentences = read(&path, &options).unwrap();
        let mut entities: Vec<(usize, usize, &str)> = (sentences[0].entities.iter())
            .map(|entity| (entity.span.start, entity.span.end, entity.label.as_str()))
            .collect();
        entities.sort();
        assert_eq!(entities, [(0, 1, "PER"), (0, 2, "ORG")]);
        assert!(options.are_of_any_file());
    }

    #[test]
    fn plain_text_has_one_sentence_per_line() {
        let (_folder, path) = write("a.txt", "\u{feff}Ein Satz.\r\n\r\n 北京 👩‍🔬".as_bytes());
        let sentences = read(&path, &ReadOptions::default()).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[0].text, "Ein Satz.");
        let words: Vec<&str> = sentences[1].words.iter().map(|w| w.text.as_str()).collect();
        assert_eq!(words, ["北", "京", "👩‍🔬"]);
    }

    proptest! {
        #[test]
        fn no_content_makes_a_reader_panic(
            lines in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                any::<String>().prop_map(String::into_bytes),
                "[a1#-][ \\t][BIOES]-?[AB]?".prop_map(String::into_bytes),
                "T1\t[AB ]{1,3} [0-9]{1,2} [0-9]{1,2}\t[a-c]{0,2}".prop_map(String::into_bytes),
                "1\\|[ta]\\|[ab ]{0,4}|1\t[0-3]\t[0-3]\t[ab]\t[AB]".prop_map(String::into_bytes),
                "#FORMAT=WebAnno TSV 3.[12]|#T_SP=a.NamedEntity\\|value|#Text=[ab\\\\ ]{0,4}|1-[12](\\.1)?\t[0-2]-[0-3]\t[ab]\t([AB_*](\\[[12]\\])?\\|?){1,2}".prop_map(String::into_bytes),
                "[12](-[23]|\\.1)?\t[ab]\t_\tX\t_\t_\t0\tx\t_\t(Entity=([(]?[12](-[AB])?(\\[[12]/2\\])?[)]?){1,2}|NE=[BI]-A|_)".prop_map(String::into_bytes),
                "# global.(Entity = GRP-etype|columns = ID FORM (NER|MISC))".prop_map(String::into_bytes),
                "(sentence_id,)?(word|text),(tag|entities)|[12]?,\"?[ab]\"?,(O|B-A|\"\\[\\(0,[12],'A'\\)\\]\")".prop_map(String::into_bytes),
                r#"\[?\{"(tokens|text|sentence)": (\["a"\]|"ab"), "(entities|ner|label)": \[\[[0-3], [0-3], "A"\]\]\},?"#.prop_map(String::into_bytes),
            ], 0..6),
        ) {
            let content = lines.join(&b'\n');
            let (_folder, path) = write("a.txt", &content);
            let _ = scan(&path, &ReadOptions::default());
            std::fs::write(path.with_extension("ann"), &content).unwrap();
            for format in Format::iter() {
                let Ok((sentences, _)) = scan(&path, &ReadOptions::of(format)) else {
                    continue; // such as UTF-16 that is cut off
                };
                for sentence in &sentences {
                    prop_assert!(sentence.entities.iter().all(|entity| !entity.span.is_empty() && entity.span.end <= sentence.len()));
                }
                stats::Stats::of(&sentences);
            }
            check::check(&[path], &ReadOptions::default());
        }
    }

    #[test]
    fn a_missing_file_names_its_path() {
        let error = read(Path::new("no/such/file.jsonl"), &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("no/such/file.jsonl"));
    }

    #[test]
    fn problems_serialize_to_flat_objects() {
        let problem = Problem {
            location: Location::line("a.txt", 3),
            message: "bad".to_string(),
            severity: Severity::Warning,
            correction: None,
        };
        assert_eq!(
            serde_json::to_value(&problem).unwrap(),
            serde_json::json!({"file": "a.txt", "line": 3, "column": 0, "severity": "warning", "message": "bad"})
        );
        assert_eq!(problem.to_string(), "a.txt:3: warning: bad");
    }
}
