//! Writing corpora.
//!
//! Every written file can be read back. `tokens_jsonl` is lossless. `text_jsonl` keeps everything but a word segmentation
//! that differs from the one in [`words`]. The other formats lose what they cannot represent; [`Summary`] counts the
//! entities that were lost.

mod columns;

use std::io::Write;
use std::path::Path;

pub use columns::columns;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Format, TagScheme, words};
use crate::error::{Error, Result};
use crate::files::write_atomic_with;
use crate::text::{Misaligned, Sentence};

/// Counts of what was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of sentences written.
    pub sentences: usize,
    /// Number of entities written.
    pub entities: usize,
    /// Number of entities that the format cannot represent.
    pub left_out: usize,
}

impl Summary {
    fn of(sentences: &[Sentence], keeps_misaligned: bool) -> Self {
        let aligned: usize = sentences.iter().map(|s| s.entities.len()).sum();
        let misaligned: usize = sentences.iter().map(|s| s.misaligned.len()).sum();
        let kept = if keeps_misaligned { misaligned } else { 0 };
        Self {
            sentences: sentences.len(),
            entities: aligned + kept,
            left_out: misaligned - kept,
        }
    }
}

/// Writes sentences in the given format. The tagging scheme applies to column files only.
pub fn write(
    out: &mut impl Write,
    sentences: &[Sentence],
    format: Format,
    scheme: TagScheme,
) -> Result<Summary> {
    match format {
        Format::Columns => columns(out, sentences, scheme),
        Format::TokensJsonl => tokens_jsonl(out, sentences),
        Format::TextJsonl => text_jsonl(out, sentences),
        Format::Spert => spert(out, sentences),
        Format::W2ner => w2ner(out, sentences),
        Format::PlainText => plain_text(out, sentences),
        other => Err(Error::Config(format!(
            "{other} can be read but not written; write text_jsonl instead"
        ))),
    }
}

/// Writes a file atomically. When the format cannot represent a sentence, no file is written.
pub fn to_file(
    path: &Path,
    sentences: &[Sentence],
    format: Format,
    scheme: TagScheme,
) -> Result<Summary> {
    write_atomic_with(path, |file| {
        write(file, sentences, format, scheme).map_err(|error| match error {
            Error::Io { source, .. } => Error::io(path, source),
            other => other,
        })
    })
}

/// Writes one JSON object per line with `tokens` and entities as spans of words. The text is written where it differs from
/// the words joined by spaces. Entities that do not match word boundaries are written under `misaligned`, as spans of
/// characters.
pub fn tokens_jsonl(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for sentence in sentences {
        let mut record = Map::new();
        document(&mut record, "doc", sentence);
        record.insert("tokens".into(), token_list(sentence));
        if !sentence.misaligned.is_empty() || sentence.text != joined_words(sentence) {
            record.insert("text".into(), json!(sentence.text));
        }
        part_of_speech(&mut record, sentence);
        record.insert("entities".into(), word_spans(sentence));
        if !sentence.misaligned.is_empty() {
            let list = sentence.misaligned.iter().map(misaligned);
            record.insert("misaligned".into(), list.collect());
        }
        neighbours(&mut record, sentence);
        write_line(out, &record)?;
    }
    Ok(Summary::of(sentences, true))
}

/// Writes one JSON object per line with `text` and entities as spans of characters.
pub fn text_jsonl(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for sentence in sentences {
        let mut record = Map::new();
        document(&mut record, "doc", sentence);
        record.insert("text".into(), json!(sentence.text));
        if sentence.pos.is_some() && sentence.words == words::split(&sentence.text) {
            // Only then does a reader get the same words.
            part_of_speech(&mut record, sentence);
        }
        let aligned = sentence.entities.iter().map(|entity| {
            let (start, end) = sentence.characters(entity.span);
            json!({"start": start, "end": end, "type": entity.label})
        });
        let entities = aligned.chain(sentence.misaligned.iter().map(misaligned));
        record.insert("entities".into(), entities.collect());
        write_line(out, &record)?;
    }
    Ok(Summary::of(sentences, true))
}

/// Writes a JSON list in the format of SpERT and DiffusionNER.
pub fn spert(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    let records = sentences.iter().map(|sentence| {
        let mut record = Map::new();
        record.insert("tokens".into(), token_list(sentence));
        part_of_speech(&mut record, sentence);
        record.insert("entities".into(), word_spans(sentence));
        record.insert("relations".into(), json!([]));
        neighbours(&mut record, sentence);
        document(&mut record, "orig_id", sentence);
        record
    });
    write_list(out, records)?;
    Ok(Summary::of(sentences, false))
}

/// Writes a JSON list in the format of W2NER and BOPN.
pub fn w2ner(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    let records = sentences.iter().map(|sentence| {
        let mut record = Map::new();
        record.insert("sentence".into(), token_list(sentence));
        part_of_speech(&mut record, sentence);
        let entities = sentence.entities.iter().map(|entity| {
            let index: Vec<usize> = (entity.span.start..entity.span.end).collect();
            json!({"index": index, "type": entity.label})
        });
        record.insert("ner".into(), entities.collect());
        document(&mut record, "doc", sentence);
        record
    });
    write_list(out, records)?;
    Ok(Summary::of(sentences, false))
}

/// Writes one text per line, without entities.
pub fn plain_text(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for (index, sentence) in sentences.iter().enumerate() {
        if sentence.text.contains(['\n', '\r']) || sentence.text.trim().is_empty() {
            return Err(not_writable(
                index,
                "its text is blank or has a line break; write text_jsonl instead",
            ));
        }
        writeln!(out, "{}", sentence.text).map_err(write_error)?;
    }
    let summary = Summary::of(sentences, false);
    Ok(Summary {
        entities: 0,
        left_out: summary.left_out + summary.entities,
        ..summary
    })
}

fn joined_words(sentence: &Sentence) -> String {
    let words: Vec<&str> = sentence
        .words
        .iter()
        .map(|word| word.text.as_str())
        .collect();
    words.join(" ")
}

fn token_list(sentence: &Sentence) -> Value {
    sentence.words.iter().map(|word| json!(word.text)).collect()
}

fn word_spans(sentence: &Sentence) -> Value {
    let spans = sentence.entities.iter().map(
        |entity| json!({"start": entity.span.start, "end": entity.span.end, "type": entity.label}),
    );
    spans.collect()
}

fn misaligned(entity: &Misaligned) -> Value {
    json!({"start": entity.start, "end": entity.end, "type": entity.label})
}

fn document(record: &mut Map<String, Value>, key: &str, sentence: &Sentence) {
    if let Some(document) = &sentence.document {
        record.insert(key.into(), json!(document));
    }
}

fn part_of_speech(record: &mut Map<String, Value>, sentence: &Sentence) {
    if let Some(pos) = &sentence.pos {
        record.insert("pos".into(), json!(pos));
    }
}

fn neighbours(record: &mut Map<String, Value>, sentence: &Sentence) {
    for (key, words) in [("ltokens", &sentence.left), ("rtokens", &sentence.right)] {
        if !words.is_empty() {
            record.insert(key.into(), json!(words));
        }
    }
}

fn write_line(out: &mut impl Write, record: &Map<String, Value>) -> Result<()> {
    serde_json::to_writer(&mut *out, record).map_err(|error| write_error(error.into()))?;
    writeln!(out).map_err(write_error)
}

fn write_list(
    out: &mut impl Write,
    records: impl Iterator<Item = Map<String, Value>>,
) -> Result<()> {
    write!(out, "[").map_err(write_error)?;
    for (index, record) in records.enumerate() {
        let separator = if index > 0 { ",\n" } else { "\n" };
        write!(out, "{separator}").map_err(write_error)?;
        serde_json::to_writer(&mut *out, &record).map_err(|error| write_error(error.into()))?;
    }
    writeln!(out, "\n]").map_err(write_error)
}

/// The error of a writer that does not know its path.
fn write_error(error: std::io::Error) -> Error {
    Error::io("output", error)
}

/// The error for a sentence that a format cannot represent.
fn not_writable(index: usize, problem: impl std::fmt::Display) -> Error {
    Error::Config(format!(
        "sentence {} cannot be written: {problem}",
        index + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::data::{ReadOptions, Severity, scan};
    use crate::text::Entity;
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    fn read_back(written: &[u8], options: &ReadOptions) -> Vec<Sentence> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, written).unwrap();
        let (sentences, problems) = scan(&path, options).unwrap();
        let errors: Vec<_> = problems
            .iter()
            .filter(|p| p.severity == Severity::Error)
            .collect();
        assert!(
            errors.is_empty(),
            "{errors:?}\n{}",
            String::from_utf8_lossy(written)
        );
        sentences
    }

    fn word() -> impl Strategy<Value = String> {
        let known = vec![
            "a",
            "#tag",
            "#",
            "O",
            "B-x",
            "1",
            "👩‍🔬",
            "e\u{301}",
            "北京",
            "שלום",
            "العربية",
            "{",
            "[",
            "\"",
            "-",
            "\u{3000}",
            "# text",
        ];
        let known = known
            .into_iter()
            .filter(|word| !word.contains(' '))
            .collect::<Vec<_>>();
        prop_oneof![
            prop::sample::select(known).prop_map(str::to_string),
            "\\PC{1,4}"
        ]
        .prop_filter("no spaces", |word| !word.contains([' ', '\u{feff}']))
    }

    fn sentence() -> impl Strategy<Value = Sentence> {
        let label = prop::sample::select(vec!["A", "B-c", "人.NAM"]);
        (
            prop::collection::vec(word(), 1..8),
            prop::collection::vec((0..8usize, 1..4usize, label), 0..5),
            prop::option::of(prop::sample::select(vec!["d1", "d 2"])),
            any::<bool>(),
        )
            .prop_map(|(words, spans, document, with_pos)| {
                let mut sentence = Sentence::from_words(words);
                for (start, length, label) in spans {
                    let entity = Entity::new(start, start + length, label);
                    if entity.span.end <= sentence.len() && !sentence.entities.contains(&entity) {
                        sentence.entities.push(entity);
                    }
                }
                sentence.entities.sort();
                sentence.document = document.map(str::to_string);
                sentence.pos = with_pos.then(|| vec!["N".to_string(); sentence.len()]);
                sentence
            })
    }

    fn options(format: Format) -> ReadOptions {
        ReadOptions {
            strip_digit: Some(false),
            ..ReadOptions::of(format)
        }
    }

    proptest! {
        #[test]
        fn tokens_round_trip(mut sentences in prop::collection::vec(sentence(), 0..4), extra in 0..3usize) {
            for sentence in &mut sentences {
                sentence.left = vec!["l".to_string(); extra];
                if extra == 2 {
                    sentence.misaligned.push(Misaligned { start: 0, end: sentence.text.chars().count() + 1, label: "M".to_string() });
                    sentence.text.push(' ');
                }
            }
            let mut written = Vec::new();
            tokens_jsonl(&mut written, &sentences).unwrap();
            prop_assert_eq!(read_back(&written, &options(Format::TokensJsonl)), sentences);
        }

        #[test]
        fn lists_round_trip(sentences in prop::collection::vec(sentence(), 0..4)) {
            for format in [Format::Spert, Format::W2ner] {
                let mut written = Vec::new();
                write(&mut written, &sentences, format, TagScheme::Iob2).unwrap();
                prop_assert_eq!(&read_back(&written, &options(format)), &sentences);
            }
        }

        #[test]
        fn texts_round_trip(texts in prop::collection::vec((any::<String>(), prop::collection::vec((0..9usize, 1..5usize), 0..4)), 0..4)) {
            let sentences: Vec<Sentence> = texts.into_iter().map(|(text, spans)| {
                let mut sentence = words::sentence(&text, words::Segmentation::default());
                sentence.pos = Some(vec!["X".to_string(); sentence.len()]);
                let length = text.chars().count();
                let mut seen = BTreeSet::new();
                for (start, size) in spans {
                    let end = start + size;
                    if end > length || !seen.insert((start, end)) {
                        continue;
                    }
                    match sentence.span_of(start, end) {
                        Some(span) => sentence.entities.push(Entity::new(span.start, span.end, "A")),
                        None => sentence.misaligned.push(Misaligned { start, end, label: "A".to_string() }),
                    }
                }
                sentence
            }).collect();
            let mut written = Vec::new();
            let summary = text_jsonl(&mut written, &sentences).unwrap();
            prop_assert_eq!(summary.left_out, 0);
            prop_assert_eq!(read_back(&written, &options(Format::TextJsonl)), sentences);
        }

        #[test]
        fn columns_round_trip(sentences in prop::collection::vec(sentence(), 1..4), which in 0..4usize) {
            let mut written = Vec::new();
            columns(&mut written, &sentences, TagScheme::iter().nth(which).unwrap()).unwrap();
            let read = read_back(&written, &options(Format::Columns));
            prop_assert_eq!(read.len(), sentences.len());
            for (read, sentence) in read.iter().zip(&sentences) {
                prop_assert_eq!(&read.text, &sentence.text);
                prop_assert_eq!(&read.words, &sentence.words);
                prop_assert_eq!(&read.entities, &sentence.entities);
                if let Some(pos) = &sentence.pos {
                    prop_assert_eq!(read.pos.as_ref(), Some(pos));
                }
            }
        }
    }
}
