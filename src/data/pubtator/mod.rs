//! PubTator: title and abstract of a paper, and annotations by character offsets.
//!
//! The format of the PubTator exports and of BC5CDR, NCBI disease, BioRED and tmVar: lines `PMID|t|title` and
//! `PMID|a|abstract`, then a line `PMID start end mention type identifier` for each entity, separated by tabs, and a blank
//! line between documents. Offsets count the characters of the title, one character between title and abstract, and the
//! characters of the abstract. Files that count differently are recognised by the mentions, which repeat the text.

mod offsets;

use super::ReadOptions;
use super::sentences::annotated_text::{self, AnnotatedText, TextEntity};
use super::source::{Collector, Source};
use offsets::{Counting, Passages};

/// Reads a PubTator file. Relations between entities are skipped.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut reader = Reader {
        options,
        corpus,
        document: None,
        countings: Vec::new(),
    };
    for line in source.lines() {
        match (reader.corpus.line_text(&line), &mut reader.document) {
            (Some(text), _) => reader.line(line.number, text),
            (None, Some(document)) => document.invalid = true,
            (None, None) => {}
        }
    }
    reader.end_document();
    reader.report_countings();
}

/// True when the first lines are a title and, for the same document, an abstract or an annotation.
pub(super) fn detect(source: &Source) -> bool {
    let mut lines = source
        .lines()
        .filter_map(|line| line.text.ok())
        .filter(|text| !text.trim().is_empty());
    let Some((id, kind, _)) = lines.next().and_then(passage) else {
        return false;
    };
    let follows = |line: &str| match passage(line) {
        Some((other, ..)) => other == id,
        None => annotation(line).is_ok_and(|found| found.is_some_and(|found| found.id == id)),
    };
    matches!(kind, "t" | "a" | "T" | "A") && lines.next().is_some_and(follows)
}

/// Splits a line `PMID|t|title` into the document, the kind of passage and the text.
fn passage(line: &str) -> Option<(&str, &str, &str)> {
    let (id, rest) = line.split_once('|')?;
    let (kind, text) = rest.split_once('|')?;
    let is_id = !id.is_empty() && !id.contains(char::is_whitespace);
    let is_kind =
        (1..=16).contains(&kind.len()) && kind.bytes().all(|byte| byte.is_ascii_alphabetic());
    (is_id && is_kind).then_some((id, kind, text))
}

/// A line `PMID start end mention type identifier`.
#[derive(Debug, Clone, Copy)]
struct Annotation<'a> {
    id: &'a str,
    start: usize,
    end: usize,
    mention: &'a str,
    label: &'a str,
    line: usize,
}

/// A line that is neither a passage nor an annotation nor a relation.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error(
        "expected `PMID|t|title`, `PMID|a|abstract` or `PMID start end mention type identifier`, separated by tabs; correct \
         the line or delete it"
    )]
    Unknown,
    #[error("the annotation has no type; add it in the fifth column, or delete the line")]
    NoType,
}

/// Parses an annotation; `None` for a relation, whose second column is not a number.
fn annotation(line: &str) -> Result<Option<Annotation<'_>>, LineError> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [id, start, end, ..] = columns[..] else {
        return Err(LineError::Unknown);
    };
    let (start, end) = match (start.trim().parse(), end.trim().parse()) {
        (Ok(start), Ok(end)) => (start, end),
        (Err(_), _) if !start.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            return Ok(None);
        }
        _ => return Err(LineError::Unknown),
    };
    let (Some(mention), Some(label)) = (columns.get(3), columns.get(4)) else {
        return Err(LineError::Unknown);
    };
    if label.trim().is_empty() {
        return Err(LineError::NoType);
    }
    Ok(Some(Annotation {
        id: id.trim(),
        start,
        end,
        mention,
        label: label.trim(),
        line: 0,
    }))
}

/// The document that is being read.
struct Document<'a> {
    id: &'a str,
    line: usize,
    passages: Vec<(&'a str, &'a str)>,
    annotations: Vec<Annotation<'a>>,
    /// One of its lines has an error.
    invalid: bool,
}

struct Reader<'a, 'b> {
    options: &'b ReadOptions,
    corpus: &'b mut Collector,
    document: Option<Document<'a>>,
    /// Unusual ways of counting, with the line of the first document and the number of documents.
    countings: Vec<(Counting, usize, usize)>,
}

impl<'a> Reader<'a, '_> {
    fn line(&mut self, number: usize, line: &'a str) {
        if line.trim().is_empty() {
            // Some files have a blank line between the abstract and the annotations.
            return;
        }
        if let Some((id, kind, text)) = passage(line) {
            return self.passage(number, id, kind, text);
        }
        let annotation = match annotation(line) {
            Ok(Some(annotation)) => Annotation {
                line: number,
                ..annotation
            },
            Ok(None) => return,
            Err(error) => return self.error(number, error.to_string()),
        };
        let id = annotation.id;
        match &mut self.document {
            Some(document) if document.id == id => document.annotations.push(annotation),
            Some(document) => {
                let message = format!(
                    "the annotation belongs to document {id} but follows the text of {}; put it below its own text",
                    document.id
                );
                self.error(number, message);
            }
            None => self.error(
                number,
                format!("there is no text of document {id} above; add `{id}|t|` and `{id}|a|`"),
            ),
        }
    }

    fn error(&mut self, line: usize, message: String) {
        self.corpus.error(line, message);
        if let Some(document) = &mut self.document {
            document.invalid = true;
        }
    }

    fn passage(&mut self, number: usize, id: &'a str, kind: &'a str, text: &'a str) {
        let is_new = match &self.document {
            None => true,
            // A second title begins a document, also of the same name.
            Some(document) => {
                document.id != id
                    || !document.annotations.is_empty()
                    || document.passages.iter().any(|(other, _)| *other == kind)
            }
        };
        if is_new {
            self.end_document();
            self.document = Some(Document {
                id,
                line: number,
                passages: Vec::new(),
                annotations: Vec::new(),
                invalid: false,
            });
        }
        if let Some(document) = &mut self.document {
            document.passages.push((kind, text));
        }
    }

    /// Adds the document read so far to the corpus.
    fn end_document(&mut self) {
        let Some(mut document) = self.document.take() else {
            return;
        };
        let texts: Vec<&str> = document.passages.iter().map(|(_, text)| *text).collect();
        let text = texts.join("\n");
        let passages = Passages::new(texts, &text);
        let mentions: Vec<_> = (document.annotations.iter())
            .map(|annotation| (annotation.start, annotation.end, annotation.mention))
            .collect();
        let counting = passages.detect_counting(&mentions);
        let locator = passages.locator(counting);
        let mut entities = Vec::with_capacity(mentions.len());
        for annotation in &document.annotations {
            let (start, end, mention) = (annotation.start, annotation.end, annotation.mention);
            match passages.locate(start, end, mention, &locator) {
                Ok(part) => entities.push(TextEntity {
                    parts: vec![part],
                    label: annotation.label.to_string(),
                    line: annotation.line,
                }),
                Err(problem) => {
                    let message = format!("{} {start}..{end} {problem}", annotation.label);
                    self.corpus.error(annotation.line, message);
                    document.invalid = true;
                }
            }
        }
        if counting != Counting::default() {
            let known = (self.countings.iter_mut()).find(|(known, ..)| *known == counting);
            match known {
                Some((_, _, documents)) => *documents += 1,
                None => self.countings.push((counting, document.line, 1)),
            }
        }
        if document.invalid {
            return;
        }
        let text = AnnotatedText {
            text: &text,
            document: Some(document.id.to_string()),
            line: document.line,
            entities,
            is_document: true,
        };
        annotated_text::push(text, self.options, self.corpus);
    }

    /// Reports the documents that do not count as PubTator does.
    fn report_countings(&mut self) {
        for (counting, line, documents) in std::mem::take(&mut self.countings) {
            let documents = match documents {
                1 => "this document".to_string(),
                _ => format!("{documents} documents, the first here"),
            };
            let message = format!(
                "the offsets of {documents} fit their mentions only if {counting}; read so, although PubTator counts \
                 characters, with one between title and abstract"
            );
            self.corpus.warn(line, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::data::testing::{found, whole};
    use crate::data::{Format, Problem, Severity, scan};
    use crate::text::Sentence;

    fn with(content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.txt");
        std::fs::write(&path, content).unwrap();
        assert_eq!(crate::data::detect_format(&path).unwrap(), Format::Pubtator);
        scan(&path, &whole()).unwrap()
    }

    /// As in the corpus of BioCreative V (CDR), with a relation and a composite mention.
    const CDR: &str = include_str!("../../../tests/fixtures/formats/pubtator/cdr.pubtator");

    #[test]
    fn documents_have_title_abstract_and_annotations() {
        for content in [
            CDR.to_string(),
            format!("\u{feff}\n{}", CDR.replace('\n', "\r\n")),
        ] {
            let (sentences, problems) = with(content);
            assert_eq!(problems, []);
            assert_eq!(sentences.len(), 2);
            assert_eq!(sentences[0].document.as_deref(), Some("354896"));
            assert_eq!(
                found(&sentences[0]),
                [
                    ("Lidocaine", "Chemical"),
                    ("cardiac asystole", "Disease"),
                    ("ovarian and peritoneal cancer", "Disease"),
                    ("lidocaine", "Chemical")
                ]
            );
            assert_eq!(found(&sentences[1]), [("Second", "X")]);
        }
    }

    #[test]
    fn characters_outside_ascii_and_nested_mentions_are_read() {
        let text = "PMC1|t|β-Katenin 👩‍🔬 שלום\nPMC1|a|北京 cell\n\
                    PMC1\t0\t9\tβ-Katenin\tGene\t1\nPMC1\t2\t9\tKatenin\tGene\t2\nPMC1\t19\t21\t北京\tPlace\t3\n";
        let (sentences, problems) = with(text);
        assert_eq!(problems, []);
        assert_eq!(
            found(&sentences[0]),
            [
                ("β-Katenin", "Gene"),
                ("Katenin", "Gene"),
                ("北京", "Place")
            ]
        );
    }

    #[test]
    fn other_ways_of_counting_are_recognised_by_the_mentions() {
        for (offsets, expected) in [
            ("5\t8", "directly after the title"),
            ("7\t10", "2 characters between title and abstract"),
            ("6\t8", "the end is the last character"),
        ] {
            let text = format!("1|t|Title\n1|a|abc def\n1\t0\t5\tTitle\tX\n1\t{offsets}\tabc\tX\n");
            let text = if expected.contains("last") {
                text.replace("0\t5", "0\t4")
            } else {
                text
            };
            let (sentences, problems) = with(text);
            assert_eq!(found(&sentences[0]), [("Title", "X"), ("abc", "X")]);
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].severity, Severity::Warning);
            assert!(problems[0].message.contains(expected), "{problems:?}");
        }
        let bytes = "1|t|Zoë 👍 β\n1|a|abc\n1\t15\t18\tabc\tX\n";
        let (sentences, problems) = with(bytes.replace("15\t18", "13\t16"));
        assert_eq!(found(&sentences[0]), [("abc", "X")]);
        assert!(problems[0].message.contains("bytes"), "{problems:?}");
        let (sentences, problems) = with(bytes.replace("15\t18", "9\t12"));
        assert_eq!(found(&sentences[0]), [("abc", "X")]);
        assert!(problems[0].message.contains("UTF-16"), "{problems:?}");
    }

    #[test]
    fn wrong_offsets_name_the_right_ones() {
        let text = "1|t|Title\n1|a|abc def\n1\t0\t5\tTitle\tX\n1\t6\t9\tdef\tX\n1\t0\t99\tabc\tX\n1\t6\t9\tabc\tX\n\n2|t|ok\n2|a|ok\n";
        let (sentences, problems) = with(text);
        assert_eq!(sentences.len(), 1);
        let lines: Vec<usize> = problems.iter().map(|p| p.location.line).collect();
        assert_eq!(lines, [4, 5]);
        assert!(
            problems[0]
                .message
                .contains("is `abc` in the text but `def` here")
        );
        assert!(problems[0].message.contains("10..13"), "{problems:?}");
    }

    #[test]
    fn broken_lines_are_reported_with_their_number() {
        let text: &[u8] = b"1|t|Title\n1|a|abc\n1\t0\t5\tTitle\nnonsense\n1\t-1\t5\tTitle\tX\n2\t0\t5\tTitle\tX\n1\t0\t5\tTitle\t\n1\t\xff\n";
        let (sentences, problems) = with(text);
        assert!(sentences.is_empty());
        let lines: Vec<usize> = problems.iter().map(|p| p.location.line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn plain_text_is_not_pubtator() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.txt");
        for text in [
            "a|t|b\nanother line\n",
            "x|y\n",
            "1|t|only a title\n",
            "a b|t|c\na b|a|d\n",
        ] {
            std::fs::write(&path, text).unwrap();
            assert_ne!(
                crate::data::detect_format(&path).unwrap(),
                Format::Pubtator,
                "{text}"
            );
        }
    }
}
