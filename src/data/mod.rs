//! Corpora: reading, writing, checking, counting, cutting.
//!
//! Every reader makes [`Sentence`]s; every problem has a place and a remedy. [`read`] stops at the first error,
//! [`scan`] collects them all and goes on with what is sound.

pub mod bio;
mod brat;
pub mod check;
mod columns;
pub mod datasets;
mod format;
mod header;
mod json;
mod layout;
mod leak;
pub mod make;
mod record;
mod scheme;
mod sniff;
mod source;
mod spelling;
pub mod split;
pub mod stats;
pub mod words;
pub mod write;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use bio::Scheme;
pub use format::{Format, Options};
pub use leak::Leak;
pub use sniff::sniff;

use crate::error::{Error, Location, Result};
use crate::text::Sentence;
use source::{Collector, Source};

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file can be used, but what was read may not be what was meant.
    Warning,
    /// The record cannot be used.
    Error,
}

/// Something wrong with a corpus file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Location,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// How bad it is.
    pub severity: Severity,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{}: {severity}: {}", self.place, self.message)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Problem", 5)?;
        fields.serialize_field("file", &self.place.file)?;
        fields.serialize_field("line", &self.place.line)?;
        fields.serialize_field("column", &self.place.column)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("message", &self.message)?;
        fields.end()
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Error::data(problem.place, problem.message)
    }
}

/// Read a corpus file (or a folder of BRAT pairs). The first error ends it; that there are warnings is logged.
pub fn read(path: &Path, options: &Options) -> Result<Vec<Sentence>> {
    let (sentences, mut problems) = scan(path, options)?;
    let error = problems
        .iter()
        .position(|problem| problem.severity == Severity::Error);
    if let Some(error) = error {
        return Err(problems.swap_remove(error).into());
    }
    if let Some(first) = problems.first() {
        let count = problems.len();
        tracing::warn!("{count} to look at with `nerzoo data check`, the first: {first}");
    }
    Ok(sentences)
}

/// Read several files as one corpus, in the order given.
pub fn read_many(paths: &[PathBuf], options: &Options) -> Result<Vec<Sentence>> {
    let mut sentences = Vec::new();
    for path in paths {
        sentences.extend(read(path, options)?);
    }
    Ok(sentences)
}

/// Read what can be read and list everything that is wrong, in the order of the file. Records with an error
/// are left out; an entity with only a warning is kept where it can be.
pub fn scan(path: &Path, options: &Options) -> Result<(Vec<Sentence>, Vec<Problem>)> {
    let corpus = collect(path, options)?;
    Ok((corpus.sentences, corpus.problems))
}

/// What [`scan`] returns, with the line every sentence starts on.
fn collect(path: &Path, options: &Options) -> Result<Collector> {
    let format = match options.format {
        Some(format) => format,
        None => sniff(path)?,
    };
    let mut corpus = Collector::new(path);
    if format == Format::Brat {
        brat::read(path, options, &mut corpus)?;
        return Ok(corpus);
    }
    let source = Source::open(path)?;
    match format {
        Format::Columns => columns::read(&source, options, &mut corpus),
        Format::TokensJsonl | Format::Spert => {
            json::read(&source, json::Shape::Tokens, options, &mut corpus)
        }
        Format::TextJsonl => json::read(&source, json::Shape::Text, options, &mut corpus),
        Format::W2ner => json::read(&source, json::Shape::Index, options, &mut corpus),
        Format::PlainText | Format::Brat => plain_text(&source, options, &mut corpus),
    }
    corpus.problems.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(corpus)
}

/// One text a line; blank lines are passed over.
fn plain_text(source: &Source, options: &Options, corpus: &mut Collector) {
    for line in source.lines() {
        match line.text {
            Err(column) => corpus.bad_encoding(line.number, column),
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => corpus.push(
                line.number,
                words::sentence(text, options.segmentation.unwrap_or_default()),
            ),
        }
    }
}

/// Give every sentence the words of its neighbours in the same document, where it has none yet.
///
/// Neighbours are adjacent sentences with an equal `document`; sentences without one get nothing.
pub fn link_neighbours(sentences: &mut [Sentence]) {
    link_context(sentences, 1);
}

/// Gives each sentence the words of up to `count` sentences on each side, as far as its document goes. What a file says
/// of a sentence's neighbours is believed: it is only widened when the neighbour it names is the one in the list.
pub fn link_context(sentences: &mut [Sentence], count: usize) {
    if count == 0 {
        return;
    }
    let words: Vec<Vec<String>> = sentences
        .iter()
        .map(|sentence| sentence.words.iter().map(|w| w.text.clone()).collect())
        .collect();
    // Whether `other` is what stands beside `index`, as far as `named`, the file's word, tells.
    let beside = |index: usize, other: usize, named: &[String]| {
        if named.is_empty() {
            let document = &sentences[index].document;
            document.is_some() && *document == sentences[other].document
        } else {
            named == words[other]
        }
    };
    let before: Vec<bool> = (0..sentences.len())
        .map(|index| index > 0 && beside(index, index - 1, &sentences[index].left))
        .collect();
    let after: Vec<bool> = (0..sentences.len())
        .map(|index| index + 1 < words.len() && beside(index, index + 1, &sentences[index].right))
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

    fn write(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        (folder, path)
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
    fn context_is_widened_once() {
        let mut sentences: Vec<Sentence> = ["a", "b", "c", "d", "e"]
            .iter()
            .map(|word| Sentence::from_words([*word]))
            .collect();
        for sentence in &mut sentences[..4] {
            sentence.document = Some("x".to_string());
        }
        sentences[4].left = vec!["d".to_string()]; // named by the file, and found in the list
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
    fn read_stops_where_scan_goes_on() {
        let (_folder, path) = write(
            "a.jsonl",
            b"{\"tokens\":[\"a\"],\"entities\":[]}\n{\"tokens\":[\"b\"],\n{\"tokens\":[\"c\"]}\n",
        );
        let error = read(&path, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("a.jsonl:2"), "{error}");
        let (sentences, problems) = scan(&path, &Options::default()).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn plain_text_is_one_text_a_line() {
        let (_folder, path) = write("a.txt", "\u{feff}Ein Satz.\r\n\r\n 北京 👩‍🔬".as_bytes());
        let sentences = read(&path, &Options::default()).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[0].text, "Ein Satz.");
        let words: Vec<&str> = sentences[1].words.iter().map(|w| w.text.as_str()).collect();
        assert_eq!(words, ["北", "京", "👩‍🔬"]);
    }

    proptest! {
        #[test]
        fn no_file_makes_a_reader_panic(
            lines in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                any::<String>().prop_map(String::into_bytes),
                "[a1#-][ \\t][BIOES]-?[AB]?".prop_map(String::into_bytes),
                "T1\t[AB ]{1,3} [0-9]{1,2} [0-9]{1,2}\t[a-c]{0,2}".prop_map(String::into_bytes),
                r#"\[?\{"(tokens|text|sentence)": (\["a"\]|"ab"), "(entities|ner|label)": \[\[[0-3], [0-3], "A"\]\]\},?"#.prop_map(String::into_bytes),
            ], 0..6),
        ) {
            let content = lines.join(&b'\n');
            let (_folder, path) = write("a.txt", &content);
            let _ = scan(&path, &Options::default());
            std::fs::write(path.with_extension("ann"), &content).unwrap();
            for format in Format::ALL {
                let (sentences, _) = scan(&path, &Options::of(format)).unwrap();
                for sentence in &sentences {
                    prop_assert!(sentence.entities.iter().all(|entity| !entity.span.is_empty() && entity.span.end <= sentence.len()));
                }
                stats::Stats::of(&sentences);
            }
            check::check(&[path], &Options::default());
        }
    }

    #[test]
    fn a_missing_file_names_its_path() {
        let error = read(Path::new("no/such/file.jsonl"), &Options::default()).unwrap_err();
        assert!(error.to_string().contains("no/such/file.jsonl"));
    }

    #[test]
    fn problems_serialize_flat() {
        let problem = Problem {
            place: Location::line("a.txt", 3),
            message: "bad".to_string(),
            severity: Severity::Warning,
        };
        assert_eq!(
            serde_json::to_value(&problem).unwrap(),
            serde_json::json!({"file": "a.txt", "line": 3, "column": 0, "severity": "warning", "message": "bad"})
        );
        assert_eq!(problem.to_string(), "a.txt:3: warning: bad");
    }
}
