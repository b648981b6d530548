//! BRAT standoff: a text file, and an annotation file of the same name with character offsets.
//!
//! A text file is a document, and each of its lines that is not blank is a sentence. Only text-bound annotations (`T`) are
//! read.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use super::source::{Collector, Source};
use super::{ReadOptions, words};
use crate::error::{Error, Result};
use crate::text::{Entity, Misaligned, Sentence, slice};

/// Reads a pair of files, named by either of them, or a folder of pairs.
pub(super) fn read(path: &Path, options: &ReadOptions, corpus: &mut Collector) -> Result<()> {
    if !path.is_dir() {
        return read_pair(path, options, corpus);
    }
    let entries = std::fs::read_dir(path).map_err(|source| Error::io(path, source))?;
    let mut stems: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in entries {
        let file = entry.map_err(|source| Error::io(path, source))?.path();
        if matches!(
            file.extension().and_then(|e| e.to_str()),
            Some("ann" | "txt")
        ) {
            stems.insert(file.with_extension(""));
        }
    }
    for stem in stems {
        // `with_extension` would remove the end of a name such as `pmid.123`.
        let with_extension = |extension: &str| {
            let mut name = stem.clone().into_os_string();
            name.push(extension);
            PathBuf::from(name)
        };
        let (text, annotations) = (with_extension(".txt"), with_extension(".ann"));
        if !annotations.is_file() {
            corpus.set_file(&text);
            corpus.warn(0, "has no `.ann` file of the same name; skipped");
        } else if !text.is_file() {
            corpus.set_file(&annotations);
            corpus.error(
                0,
                "has no `.txt` file of the same name; add the text, or remove this file",
            );
        } else {
            read_pair(&text, options, corpus)?;
        }
    }
    Ok(())
}

fn read_pair(path: &Path, options: &ReadOptions, corpus: &mut Collector) -> Result<()> {
    let text_path = path.with_extension("txt");
    let annotation_path = path.with_extension("ann");
    let source = Source::open(&text_path)?;
    let annotations = Source::open(&annotation_path)?;
    corpus.set_file(&text_path);
    let text = match source.text() {
        Ok(text) => text,
        Err((line, column)) => {
            corpus.bad_encoding(line, column);
            return Ok(());
        }
    };
    let mut document = Document::new(text, &corpus.stem(), options);
    corpus.set_file(&annotation_path);
    for line in annotations.lines() {
        match line.text {
            Err(column) => corpus.bad_encoding(line.number, column),
            Ok(text) if text.starts_with('T') => match text_bound(text) {
                Ok(None) => corpus.warn(
                    line.number,
                    "discontinuous entity; skipped, because no model here finds such entities",
                ),
                Ok(Some(bound)) => document.add(bound, line.number, corpus),
                Err(error) => corpus.error(line.number, error.to_string()),
            },
            Ok(_) => {}
        }
    }
    corpus.set_file(&text_path);
    for line in document.lines {
        corpus.push(line.number, line.sentence);
    }
    Ok(())
}

/// A text-bound annotation such as `T1<tab>PER 0 5<tab>Maria`.
struct TextBound<'a> {
    start: usize,
    end: usize,
    label: &'a str,
    surface: &'a str,
}

/// A line that is not a text-bound annotation.
#[derive(Debug, thiserror::Error)]
#[error("expected `T1<tab>TYPE start end<tab>text`; correct the line or delete it")]
struct InvalidAnnotation;

/// Parses a text-bound annotation; `None` for a discontinuous entity.
fn text_bound(line: &str) -> Result<Option<TextBound<'_>>, InvalidAnnotation> {
    let mut columns = line.splitn(3, '\t');
    let (Some(_), Some(middle), Some(surface)) = (columns.next(), columns.next(), columns.next())
    else {
        return Err(InvalidAnnotation);
    };
    let (label, offsets) = middle.trim().split_once(' ').ok_or(InvalidAnnotation)?;
    if offsets.contains(';') {
        return Ok(None);
    }
    let mut numbers = offsets.split_ascii_whitespace().map(str::parse::<usize>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(start)), Some(Ok(end)), None) if !label.is_empty() => Ok(Some(TextBound {
            start,
            end,
            label,
            surface,
        })),
        _ => Err(InvalidAnnotation),
    }
}

/// A line of the text file.
struct TextLine {
    number: usize,
    /// Offset of its first character in the file.
    start: usize,
    /// One past the offset of its last character, without the line ending.
    end: usize,
    sentence: Sentence,
}

/// A text file with the entities read so far.
struct Document<'a> {
    text: &'a str,
    /// Byte offset of every character, and the length in bytes.
    bytes: Vec<usize>,
    lines: Vec<TextLine>,
    /// Start, end and type of the entities so far.
    seen: HashSet<(usize, usize, String)>,
}

impl<'a> Document<'a> {
    fn new(text: &'a str, name: &str, options: &ReadOptions) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        for (index, line) in text.split('\n').enumerate() {
            let length = line.chars().count();
            let kept = line.strip_suffix('\r').unwrap_or(line);
            if !kept.trim().is_empty() {
                let mut sentence = words::sentence(kept, options.segmentation.unwrap_or_default());
                sentence.document = Some(name.to_string());
                lines.push(TextLine {
                    number: index + 1,
                    start,
                    end: start + kept.chars().count(),
                    sentence,
                });
            }
            start += length + 1;
        }
        let bytes = text.char_indices().map(|(byte, _)| byte);
        Self {
            text,
            bytes: bytes.chain([text.len()]).collect(),
            lines,
            seen: HashSet::new(),
        }
    }

    /// Adds an entity to its sentence, or reports why it is invalid.
    fn add(&mut self, bound: TextBound<'_>, line_number: usize, corpus: &mut Collector) {
        let TextBound {
            start,
            end,
            label,
            surface,
        } = bound;
        if start >= end || end >= self.bytes.len() {
            let message = format!(
                "{label} {start}..{end} is not within the text of {} characters; correct the offsets",
                self.bytes.len() - 1
            );
            return corpus.error(line_number, message);
        }
        let actual = &self.text[self.bytes[start]..self.bytes[end]];
        let at = self.lines.partition_point(|line| line.start <= start);
        let line = at.checked_sub(1).map(|at| &mut self.lines[at]);
        let Some(line) = line.filter(|line| end <= line.end) else {
            return corpus.error(line_number, format!(
                "{label} {start}..{end} crosses the end of a line, and every line is a sentence; join the lines of the text"
            ));
        };
        if actual != surface {
            return corpus.error(line_number, format!(
                "{label} {start}..{end} is `{actual}` in the text but `{surface}` here; offsets count characters, correct them"
            ));
        }
        if !self.seen.insert((start, end, label.to_string())) {
            return corpus.warn(
                line_number,
                format!("{label} {start}..{end} is also on a line above; counted once, delete one"),
            );
        }
        let (start, end) = (start - line.start, end - line.start);
        match line.sentence.span_of(start, end) {
            Some(span) => line
                .sentence
                .entities
                .push(Entity::new(span.start, span.end, label)),
            None => {
                corpus.warn(line_number, format!(
                    "{label} `{}` does not start and end at word boundaries, so no model can find it; correct the offsets if they are wrong",
                    slice(&line.sentence.text, start, end)
                ));
                line.sentence.misaligned.push(Misaligned {
                    start,
                    end,
                    label: label.to_string(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Severity, read, scan};

    fn pair(folder: &Path, name: &str, text: &str, annotations: &str) {
        std::fs::write(folder.join(format!("{name}.txt")), text).unwrap();
        std::fs::write(folder.join(format!("{name}.ann")), annotations).unwrap();
    }

    #[test]
    fn a_pair_is_a_document() {
        let folder = tempfile::tempdir().unwrap();
        let text = "Zoë lebt.\r\n\r\n👍 In 北京 auch.";
        pair(
            folder.path(),
            "a.b",
            text,
            "T1\tPER 0 3\tZoë\nT2\tLOC 18 20\t北京\nR1\tx Arg1:T1 Arg2:T2\nT3\tX 1 3\toë\n",
        );
        for name in ["a.b.txt", "a.b.ann", ""] {
            let sentences = read(&folder.path().join(name), &ReadOptions::default()).unwrap();
            assert_eq!(sentences.len(), 2);
            assert_eq!(sentences[0].document.as_deref(), Some("a.b"));
            assert_eq!(sentences[0].entities, [Entity::new(0, 1, "PER")]);
            assert_eq!(sentences[0].misaligned.len(), 1);
            assert_eq!(sentences[1].surface(sentences[1].entities[0].span), "北京");
        }
    }

    #[test]
    fn invalid_annotations_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        pair(
            folder.path(),
            "a",
            "one two\nthree\n",
            "T1\tA 4 13\ttwo three\nT2\tA 0 2;4 6\ton tw\nT3\tA 0 3\tuno\nT4\tA 0 99\tone\nT5 A\nT6\tA 0 3\tone\nT7\tA 0 3\tone\n",
        );
        std::fs::write(folder.path().join("b.ann"), "").unwrap();
        std::fs::write(folder.path().join("c.txt"), "x").unwrap();
        let (sentences, problems) = scan(folder.path(), &ReadOptions::default()).unwrap();
        assert_eq!(sentences.len(), 2);
        assert_eq!(sentences[0].entities.len(), 1);
        let found: Vec<(usize, Severity)> = problems
            .iter()
            .map(|p| (p.location.line, p.severity))
            .collect();
        let (warning, error) = (Severity::Warning, Severity::Error);
        assert_eq!(
            found,
            [
                (1, error),
                (2, warning),
                (3, error),
                (4, error),
                (5, error),
                (7, warning),
                (0, error),
                (0, warning)
            ]
        );
    }
}
