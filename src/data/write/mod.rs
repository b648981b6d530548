//! Writing corpora and predictions.
//!
//! Every written file can be read back. `tokens_jsonl` is lossless. `text_jsonl` keeps everything but a word segmentation
//! that differs from the one in [`words`](super::words). The other formats lose what they cannot represent, and [`Summary`]
//! counts it. Formats that hold whole documents get the text back from which sentences were cut, see [`documents`].
//!
//! [`write()`] and [`to_path`] write a corpus, [`predictions`] and [`Writer`] also mentions with scores.

mod annotated;
mod brat;
mod columns;
mod conllu;
mod csv;
mod doccano;
pub mod documents;
mod gliner;
mod html;
mod json_records;
mod label_studio;
mod prodigy;
mod pubtator;
mod spacy;
mod spert;
mod summary;
mod tags;
mod text;
mod text_jsonl;
mod tokens_jsonl;
mod w2ner;
mod writer;

use std::io::Write;
use std::path::Path;

pub use annotated::Annotated;
pub use brat::{BratWriter, brat_document};
pub use html::{ENTITY_STYLE, HtmlWriter};
pub use label_studio::LabelStudioNames;
pub use summary::{Loss, Summary};
pub use text::bracketed;
pub use text_jsonl::{PredictedDocument, PredictedMention};
pub use writer::Writer;

use super::{Format, TagScheme};
use crate::error::{Error, Result};
use crate::files::write_atomic_with;
use crate::text::Sentence;

/// How a corpus or predictions are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    /// The format.
    pub format: Format,
    /// The tagging scheme of formats with tags.
    pub scheme: TagScheme,
    /// Formats with tags: all tags of a word in one column, such as `I-ORG|B-LOC`.
    pub multi_tag: bool,
    /// Column files: one tag per word; entities inside others are left out.
    pub flat: bool,
    /// `tokens_jsonl`: `ner_tags` with one tag per word, as on the Hugging Face hub, instead of spans.
    pub tags: bool,
    /// Whether to fail if an entity cannot be represented, instead of leaving it out.
    pub strict: bool,
    /// Predictions as text: colour the brackets with escape sequences of a terminal.
    pub colour: bool,
    /// Names for Label Studio.
    pub label_studio: LabelStudioNames,
}

impl WriteOptions {
    /// Default options for a format.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            scheme: TagScheme::default(),
            multi_tag: false,
            flat: false,
            tags: false,
            strict: false,
            colour: false,
            label_studio: LabelStudioNames::default(),
        }
    }

    /// The same options with a tagging scheme.
    fn with_scheme(self, scheme: TagScheme) -> Self {
        Self { scheme, ..self }
    }

    /// Whether the sentences of a document are joined to one record. `text_jsonl` keeps the sentences of a corpus, but
    /// predictions have offsets in the text that was tagged.
    fn joins_documents(&self, is_predicted: bool) -> bool {
        match self.format {
            Format::Brat
            | Format::Doccano
            | Format::LabelStudio
            | Format::Prodigy
            | Format::Pubtator
            | Format::Spacy => true,
            Format::TextJsonl | Format::PlainText => is_predicted,
            _ => false,
        }
    }
}

/// The format that the ending of a path stands for; folders stand for `brat`, and `-` for `tokens_jsonl`.
///
/// ```
/// use nerzoo::data::{Format, write::format_of_path};
///
/// assert_eq!(format_of_path("train.conll".as_ref()), Some(Format::Columns));
/// assert_eq!(format_of_path("corpus/".as_ref()), Some(Format::Brat));
/// assert_eq!(format_of_path("notes.docx".as_ref()), None);
/// ```
pub fn format_of_path(path: &Path) -> Option<Format> {
    if path == Path::new("-") {
        return Some(Format::TokensJsonl);
    }
    let is_folder = path.is_dir() || path.as_os_str().to_string_lossy().ends_with(['/', '\\']);
    let Some(ending) = path.extension().filter(|_| !is_folder) else {
        return Some(Format::Brat);
    };
    match ending.to_string_lossy().to_lowercase().as_str() {
        "conll" | "conllup" | "bio" | "iob" | "iob2" | "bioes" | "bmes" | "bilou" | "tsv" => {
            Some(Format::Columns)
        }
        "jsonl" | "ndjson" => Some(Format::TokensJsonl),
        "json" => Some(Format::Spert),
        "conllu" => Some(Format::Conllu),
        "csv" => Some(Format::Csv),
        "ann" => Some(Format::Brat),
        "pubtator" => Some(Format::Pubtator),
        "txt" => Some(Format::PlainText),
        "spacy" => Some(Format::DocBin),
        "parquet" => Some(Format::Parquet),
        _ => None,
    }
}

/// Writes sentences with their gold entities. The tagging scheme applies to formats with tags only.
pub fn write(
    out: &mut impl Write,
    sentences: &[Sentence],
    format: Format,
    scheme: TagScheme,
) -> Result<Summary> {
    let options = WriteOptions::of(format).with_scheme(scheme);
    write_with(out, sentences, &options)
}

/// Writes sentences with their gold entities.
pub fn write_with(
    out: &mut impl Write,
    sentences: &[Sentence],
    options: &WriteOptions,
) -> Result<Summary> {
    let items: Vec<Annotated<'_>> = sentences.iter().map(Annotated::gold).collect();
    let mut writer = Writer::begin_corpus(out, options.clone(), &items)?;
    writer.record(&items)?;
    writer.finish().map(|(_, summary)| summary)
}

/// Writes sentences with predicted mentions, see [`Annotated::predicted`]: the mentions have scores where the format has
/// a place for them. [`Writer`] does the same in several steps.
pub fn predictions(
    out: &mut impl Write,
    format: Format,
    scheme: TagScheme,
    documents: &[Annotated<'_>],
) -> Result<Summary> {
    let options = WriteOptions::of(format).with_scheme(scheme);
    let mut writer = Writer::begin(out, options)?;
    writer.record(documents)?;
    writer.finish().map(|(_, summary)| summary)
}

/// Writes a file atomically. When the format cannot represent a sentence, no file is written.
pub fn to_file(
    path: &Path,
    sentences: &[Sentence],
    format: Format,
    scheme: TagScheme,
) -> Result<Summary> {
    let options = WriteOptions::of(format).with_scheme(scheme);
    to_path(path, sentences, &options, true)
}

/// Writes a file, or for BRAT a folder or a pair of files. When the corpus cannot be written, nothing is. Existing files
/// are overwritten only with `force`.
pub fn to_path(
    path: &Path,
    sentences: &[Sentence],
    options: &WriteOptions,
    force: bool,
) -> Result<Summary> {
    if options.format == Format::Brat {
        let items: Vec<Annotated<'_>> = sentences.iter().map(Annotated::gold).collect();
        let mut writer = BratWriter::begin(path, force, options.clone())?;
        writer.record(&items)?;
        return writer.finish();
    }
    if path.exists() && !force {
        return Err(Error::Config(format!(
            "{} exists; choose another name, or overwrite it with --force",
            path.display()
        )));
    }
    write_atomic_with(path, |file| {
        write_with(file, sentences, options).map_err(|error| match error {
            Error::Io { source, .. } => Error::io(path, source),
            other => other,
        })
    })
}

/// The error for a format that is not written to a stream.
fn refused(format: Format) -> Error {
    let instead = match format {
        Format::Brat => "it is a folder, or a pair of files; name one instead of standard output",
        Format::DocBin => {
            "write columns and convert them with `python -m spacy convert FILE . --converter ner`"
        }
        Format::Webanno => "write brat instead, which INCEpTION imports",
        Format::Bioc => "write pubtator instead",
        Format::Parquet => {
            "write tokens_jsonl with --tags, which `datasets.load_dataset(\"json\", ...)` reads"
        }
        _ => "write tokens_jsonl instead",
    };
    Error::Config(format!("{format} cannot be written: {instead}"))
}

/// The error of a writer that does not know its path.
fn write_error(error: std::io::Error) -> Error {
    Error::io("output", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::data::{ReadOptions, Severity, scan, words};
    use crate::text::{Discontinuous, Entity, Misaligned};
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

    fn written(sentences: &[Sentence], format: Format, scheme: TagScheme) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, sentences, format, scheme).unwrap();
        out
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
            "|",
            "<b>",
            "&amp;",
        ];
        prop_oneof![
            prop::sample::select(known).prop_map(str::to_string),
            "\\PC{1,4}"
        ]
        .prop_filter("no spaces", |word| !word.contains([' ', '\u{feff}']))
    }

    fn sentence() -> impl Strategy<Value = Sentence> {
        let label = prop::sample::select(vec!["A", "B-c", "人.NAM", "a_b"]);
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
            let written = written(&sentences, Format::TokensJsonl, TagScheme::Iob2);
            prop_assert_eq!(read_back(&written, &options(Format::TokensJsonl)), sentences);
        }

        #[test]
        fn lists_round_trip(sentences in prop::collection::vec(sentence(), 0..4)) {
            for format in [Format::Spert, Format::W2ner] {
                let written = written(&sentences, format, TagScheme::Iob2);
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
            let summary = write(&mut written, &sentences, Format::TextJsonl, TagScheme::Iob2).unwrap();
            prop_assert_eq!(summary.left_out, 0);
            let whole = ReadOptions { sentences: Some(crate::data::SentenceCutting::Whole), ..options(Format::TextJsonl) };
            prop_assert_eq!(read_back(&written, &whole), sentences);
        }

        #[test]
        fn columns_round_trip(sentences in prop::collection::vec(sentence(), 1..4), which in 0..4usize) {
            let written = written(&sentences, Format::Columns, TagScheme::iter().nth(which).unwrap());
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn no_sentence_makes_a_writer_panic(
            texts in prop::collection::vec((any::<String>(), 0..9usize, 0..9usize, any::<String>()), 0..4),
            flags in 0..16u8,
        ) {
            let sentences: Vec<Sentence> = texts.into_iter().map(|(text, start, end, label)| {
                let mut sentence = words::sentence(&text, words::Segmentation::default());
                sentence.entities.push(Entity::new(start, end, label.clone()));
                if flags & 1 > 0 {
                    sentence.misaligned.push(Misaligned { start, end, label: label.clone() });
                    sentence.discontinuous.push(Discontinuous { parts: vec![(start, end), (end, end + 1)], label: label.clone() });
                }
                sentence.document = Some(label);
                sentence.trailing = " ".to_string();
                sentence.offset = start;
                sentence
            }).collect();
            for format in Format::iter() {
                let options = WriteOptions {
                    multi_tag: flags & 1 > 0,
                    flat: flags & 2 > 0,
                    tags: flags & 4 > 0,
                    strict: flags & 8 > 0,
                    ..WriteOptions::of(format)
                };
                let mut aligned = sentences.clone();
                for sentence in &mut aligned {
                    let length = sentence.len();
                    sentence.entities.retain(|e| !e.span.is_empty() && e.span.end <= length);
                }
                for sentences in [&sentences, &aligned] {
                    let _ = write_with(&mut Vec::new(), sentences, &options);
                    if format == Format::Brat {
                        let folder = tempfile::tempdir().unwrap();
                        let _ = to_path(&folder.path().join("x"), sentences, &options, false);
                    }
                }
            }
        }
    }

    #[test]
    fn formats_that_are_not_written_name_another_one() {
        for (format, other) in [
            (Format::Parquet, "tokens_jsonl"),
            (Format::DocBin, "columns"),
            (Format::Webanno, "brat"),
            (Format::Bioc, "pubtator"),
            (Format::Brat, "folder"),
        ] {
            let error = write(&mut Vec::new(), &[], format, TagScheme::Iob2).unwrap_err();
            assert!(error.to_string().contains(other), "{error}");
        }
    }

    #[test]
    fn existing_files_are_kept_without_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let options = WriteOptions::of(Format::TokensJsonl);
        to_path(&path, &[Sentence::from_words(["a"])], &options, false).unwrap();
        let error = to_path(&path, &[], &options, false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        to_path(&path, &[], &options, true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn json_lines_say_which_record_could_not_be_read() {
        for (format, line) in [
            (Format::TextJsonl, "{\"line\":3,\"error\":\"not UTF-8\"}\n"),
            (Format::Columns, ""),
        ] {
            let mut writer = Writer::begin(Vec::new(), WriteOptions::of(format)).unwrap();
            let is_written = writer.unreadable(3, "not UTF-8").unwrap();
            assert_eq!(is_written, !line.is_empty());
            assert_eq!(writer.finish().unwrap().0, line.as_bytes());
        }
    }

    #[test]
    fn records_may_come_one_by_one() {
        let sentences = [Sentence::from_words(["a"]), Sentence::from_words(["b"])];
        for format in Format::iter() {
            let Ok(mut writer) = Writer::begin(Vec::new(), WriteOptions::of(format)) else {
                continue;
            };
            for sentence in &sentences {
                writer.record(&[Annotated::gold(sentence)]).unwrap();
            }
            let (out, summary) = writer.finish().unwrap();
            assert_eq!(
                out,
                written(&sentences, format, TagScheme::Iob2),
                "{format}"
            );
            assert_eq!(summary.sentences, 2);
        }
    }
}
