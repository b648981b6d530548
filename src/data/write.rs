//! Writing corpora.
//!
//! What a writer writes, the readers read back. `tokens_jsonl` keeps everything; `text_jsonl` keeps all but words
//! that are not the splitter's own; the others keep what their format can say and count what it cannot.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::bio::{self, Scheme};
use super::{Format, words};
use crate::error::{Error, Result};
use crate::files::replace;
use crate::text::{Misaligned, Sentence};

/// What went into a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Sentences written.
    pub sentences: usize,
    /// Entities written.
    pub entities: usize,
    /// Entities off word borders that the format cannot say.
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

/// Write in the given format; the scheme is for column files.
pub fn write(
    out: &mut impl Write,
    sentences: &[Sentence],
    format: Format,
    scheme: Scheme,
) -> Result<Summary> {
    match format {
        Format::Columns => columns(out, sentences, scheme),
        Format::TokensJsonl => tokens_jsonl(out, sentences),
        Format::TextJsonl => text_jsonl(out, sentences),
        Format::Spert => spert(out, sentences),
        Format::W2ner => w2ner(out, sentences),
        Format::PlainText => plain_text(out, sentences),
        Format::Brat => Err(Error::Config(
            "brat can be read but not written; write text_jsonl instead".to_string(),
        )),
    }
}

/// Write a file; when the format refuses the corpus, no file is written.
pub fn to_file(
    path: &Path,
    sentences: &[Sentence],
    format: Format,
    scheme: Scheme,
) -> Result<Summary> {
    let mut content = Vec::new();
    let summary = write(&mut content, sentences, format, scheme)?;
    replace(path, &content)?;
    Ok(summary)
}

/// One JSON object a line with `tokens` and spans of words. The text is written where it is not the words joined
/// by spaces, and entities off word borders stand under `misaligned`, in characters.
pub fn tokens_jsonl(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for sentence in sentences {
        let mut record = Map::new();
        document(&mut record, "doc", sentence);
        record.insert("tokens".into(), token_list(sentence));
        if !sentence.misaligned.is_empty() || sentence.text != joined(sentence) {
            record.insert("text".into(), json!(sentence.text));
        }
        part_of_speech(&mut record, sentence);
        record.insert("entities".into(), word_spans(sentence));
        if !sentence.misaligned.is_empty() {
            let list = sentence.misaligned.iter().map(misaligned);
            record.insert("misaligned".into(), list.collect());
        }
        neighbours(&mut record, sentence);
        line(out, &record)?;
    }
    Ok(Summary::of(sentences, true))
}

/// One JSON object a line with `text` and spans of characters.
pub fn text_jsonl(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for sentence in sentences {
        let mut record = Map::new();
        document(&mut record, "doc", sentence);
        record.insert("text".into(), json!(sentence.text));
        if sentence.pos.is_some() && sentence.words == words::split(&sentence.text) {
            // Only then will a reader find the same words to hang them on.
            part_of_speech(&mut record, sentence);
        }
        let aligned = sentence.entities.iter().map(|entity| {
            let (start, end) = sentence.characters(entity.span);
            json!({"start": start, "end": end, "type": entity.label})
        });
        let entities = aligned.chain(sentence.misaligned.iter().map(misaligned));
        record.insert("entities".into(), entities.collect());
        line(out, &record)?;
    }
    Ok(Summary::of(sentences, true))
}

/// A JSON list as SpERT and DiffusionNER read it.
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
    list(out, records)?;
    Ok(Summary::of(sentences, false))
}

/// A JSON list as W2NER and BOPN read it.
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
    list(out, records)?;
    Ok(Summary::of(sentences, false))
}

/// One text a line.
pub fn plain_text(out: &mut impl Write, sentences: &[Sentence]) -> Result<Summary> {
    for (index, sentence) in sentences.iter().enumerate() {
        if sentence.text.contains(['\n', '\r']) || sentence.text.trim().is_empty() {
            return Err(refused(
                index,
                "its text is blank or has a line break; write text_jsonl instead",
            ));
        }
        writeln!(out, "{}", sentence.text).map_err(failed)?;
    }
    let summary = Summary::of(sentences, false);
    Ok(Summary {
        entities: 0,
        left_out: summary.left_out + summary.entities,
        ..summary
    })
}

/// One word a line with its tags, separated by tabs.
///
/// Flat entities without parts of speech give the plain two columns that every tool reads, `-DOCSTART-` between
/// documents. Nested entities are dealt onto as many tag columns as they need, in the manner of GermEval, and a
/// CoNLL-U Plus line `# global.columns` says what the columns hold.
pub fn columns(out: &mut impl Write, sentences: &[Sentence], scheme: Scheme) -> Result<Summary> {
    let layered: Vec<_> = sentences.iter().map(|s| bio::layers(&s.entities)).collect();
    let depth = layered.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let with_pos = sentences.iter().any(|sentence| sentence.pos.is_some());
    let named = depth > 1 || with_pos;
    if named {
        header(out, depth, with_pos)?;
    }
    let mut previous: Option<&str> = None;
    for (index, sentence) in sentences.iter().enumerate() {
        writable(index, sentence, named).map_err(|problem| refused(index, &problem))?;
        if sentence.document.as_deref() != previous {
            previous = sentence.document.as_deref();
            begin_document(out, previous, named).map_err(failed)?;
        }
        if named && is_plain_line(&sentence.text) && sentence.text != joined(sentence) {
            writeln!(out, "# text = {}", sentence.text).map_err(failed)?;
        }
        let mut rows = Vec::with_capacity(depth);
        for layer in 0..depth {
            let entities = layered[index].get(layer).map_or(&[][..], Vec::as_slice);
            let tags = bio::entities_to_tags(entities, sentence.len(), scheme);
            rows.push(tags.map_err(|problem| refused(index, &problem))?);
        }
        for (word_index, word) in sentence.words.iter().enumerate() {
            let mut row: Vec<&str> = vec![&word.text];
            let id = (word_index + 1).to_string();
            if named {
                row.insert(0, &id);
            }
            if with_pos {
                row.push(sentence.pos.as_ref().map_or("_", |pos| &pos[word_index]));
            }
            row.extend(rows.iter().map(|tags| tags[word_index].as_str()));
            writeln!(out, "{}", row.join("\t")).map_err(failed)?;
        }
        writeln!(out).map_err(failed)?;
    }
    Ok(Summary::of(sentences, false))
}

fn header(out: &mut impl Write, depth: usize, with_pos: bool) -> Result<()> {
    let mut names = vec!["ID".to_string(), "FORM".to_string()];
    names.extend(with_pos.then(|| "XPOS".to_string()));
    names.push("NER".to_string());
    names.extend((2..=depth).map(|layer| format!("NER:{layer}")));
    writeln!(out, "# global.columns = {}", names.join(" ")).map_err(failed)
}

fn begin_document(out: &mut impl Write, name: Option<&str>, named: bool) -> std::io::Result<()> {
    match name {
        Some(name) if named => writeln!(out, "# newdoc id = {}", name.replace(['\n', '\r'], " ")),
        None if named => writeln!(out, "# newdoc"),
        _ => writeln!(out, "-DOCSTART-\tO\n"),
    }
}

/// Whether columns can say this sentence so that every reader understands it.
fn writable(index: usize, sentence: &Sentence, named: bool) -> Result<(), String> {
    if sentence.is_empty() {
        return Err(
            "has no words, which columns cannot say; leave it out, or write tokens_jsonl"
                .to_string(),
        );
    }
    if sentence
        .pos
        .as_ref()
        .is_some_and(|pos| pos.len() != sentence.len())
    {
        return Err("does not have one part of speech for each word".to_string());
    }
    let is_field =
        |text: &str| !text.is_empty() && !text.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let is_word = |text: &str| {
        // At the start of a file this would be taken for a byte-order mark.
        let mark = index == 0 && !named && text.starts_with('\u{feff}');
        is_field(text) && text != "-DOCSTART-" && !mark
    };
    if let Some(word) = sentence.words.iter().find(|word| !is_word(&word.text)) {
        return Err(format!(
            "the word `{}` cannot stand in a column; write tokens_jsonl instead",
            word.text.escape_debug()
        ));
    }
    let labels: BTreeSet<&str> = sentence.entities.iter().map(|e| e.label.as_str()).collect();
    let tags = sentence.pos.iter().flatten().map(String::as_str);
    match labels.into_iter().chain(tags).find(|text| !is_field(text)) {
        Some(text) => Err(format!(
            "`{}` has white space and cannot stand in a column; rename it, or write tokens_jsonl",
            text.escape_debug()
        )),
        None => Ok(()),
    }
}

fn is_plain_line(text: &str) -> bool {
    text.trim() == text && !text.contains(['\n', '\r'])
}

fn joined(sentence: &Sentence) -> String {
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

fn line(out: &mut impl Write, record: &Map<String, Value>) -> Result<()> {
    serde_json::to_writer(&mut *out, record).map_err(|error| failed(error.into()))?;
    writeln!(out).map_err(failed)
}

fn list(out: &mut impl Write, records: impl Iterator<Item = Map<String, Value>>) -> Result<()> {
    write!(out, "[").map_err(failed)?;
    for (index, record) in records.enumerate() {
        let separator = if index > 0 { ",\n" } else { "\n" };
        write!(out, "{separator}").map_err(failed)?;
        serde_json::to_writer(&mut *out, &record).map_err(|error| failed(error.into()))?;
    }
    writeln!(out, "\n]").map_err(failed)
}

fn failed(error: std::io::Error) -> Error {
    Error::io("output", error)
}

fn refused(index: usize, problem: &str) -> Error {
    Error::Config(format!(
        "sentence {} cannot be written: {problem}",
        index + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Options, Severity, scan};
    use crate::text::Entity;
    use proptest::prelude::*;

    fn back(written: &[u8], options: &Options) -> Vec<Sentence> {
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

    fn options(format: Format) -> Options {
        Options {
            strip_digit: Some(false),
            ..Options::of(format)
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
            prop_assert_eq!(back(&written, &options(Format::TokensJsonl)), sentences);
        }

        #[test]
        fn lists_round_trip(sentences in prop::collection::vec(sentence(), 0..4)) {
            for format in [Format::Spert, Format::W2ner] {
                let mut written = Vec::new();
                write(&mut written, &sentences, format, Scheme::Iob2).unwrap();
                prop_assert_eq!(&back(&written, &options(format)), &sentences);
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
            prop_assert_eq!(back(&written, &options(Format::TextJsonl)), sentences);
        }

        #[test]
        fn columns_round_trip(sentences in prop::collection::vec(sentence(), 1..4), which in 0..4usize) {
            let mut written = Vec::new();
            columns(&mut written, &sentences, Scheme::ALL[which]).unwrap();
            let read = back(&written, &options(Format::Columns));
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

    #[test]
    fn flat_columns_are_plain_and_nested_ones_layered() {
        let mut sentence = Sentence::from_words(["New", "York", "wins"]);
        sentence.entities = vec![Entity::new(0, 2, "ORG")];
        let mut written = Vec::new();
        columns(&mut written, &[sentence.clone()], Scheme::Bioes).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "New\tB-ORG\nYork\tE-ORG\nwins\tO\n\n"
        );
        sentence.entities.push(Entity::new(1, 2, "LOC"));
        sentence.document = Some("d".to_string());
        let mut written = Vec::new();
        columns(&mut written, &[sentence], Scheme::Iob2).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "# global.columns = ID FORM NER NER:2\n# newdoc id = d\n1\tNew\tB-ORG\tO\n2\tYork\tI-ORG\tB-LOC\n3\twins\tO\tO\n\n"
        );
    }

    #[test]
    fn what_columns_cannot_say_is_refused() {
        for words in [
            vec!["a b"],
            vec!["a\u{b}"],
            vec!["", "x"],
            vec![],
            vec!["-DOCSTART-"],
        ] {
            let sentence = Sentence::from_words(words);
            let error = columns(&mut Vec::new(), &[sentence], Scheme::Iob2).unwrap_err();
            assert!(error.to_string().starts_with("sentence 1"), "{error}");
        }
        let mut sentence = Sentence::from_words(["a"]);
        sentence.entities = vec![Entity::new(0, 1, "two words")];
        assert!(columns(&mut Vec::new(), &[sentence.clone()], Scheme::Iob2).is_err());
        sentence.entities.clear();
        sentence.misaligned = vec![Misaligned {
            start: 0,
            end: 1,
            label: "X".to_string(),
        }];
        let summary = columns(&mut Vec::new(), &[sentence], Scheme::Iob2).unwrap();
        assert_eq!(summary.left_out, 1);
    }
}
