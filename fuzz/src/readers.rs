//! The readers of corpora. An input is three characters with options, then a file; BRAT's text and annotations are separated by
//! a zero byte.

use std::collections::HashSet;
use std::path::Path;

use nerzoo::data::words::Segmentation;
use nerzoo::data::write::{self, WriteOptions};
use nerzoo::data::{self, Format, ReadOptions, SentenceCutting, Severity, TagScheme};
use nerzoo::text::{Sentence, slice};
use strum::IntoEnumIterator;

use crate::input::{self, Input};

pub fn columns(data: &[u8]) {
    read(data, &[Format::Columns, Format::PlainText]);
}

pub fn words_json(data: &[u8]) {
    read(
        data,
        &[
            Format::TokensJsonl,
            Format::Spert,
            Format::W2ner,
            Format::Gliner,
        ],
    );
}

pub fn text_json(data: &[u8]) {
    read(
        data,
        &[
            Format::TextJsonl,
            Format::Doccano,
            Format::Prodigy,
            Format::LabelStudio,
        ],
    );
}

pub fn spacy(data: &[u8]) {
    read(data, &[Format::Spacy, Format::DocBin]);
}

pub fn webanno(data: &[u8]) {
    read(data, &[Format::Webanno]);
}

pub fn conllu(data: &[u8]) {
    read(data, &[Format::Conllu]);
}

pub fn biomedical(data: &[u8]) {
    read(data, &[Format::Pubtator, Format::Bioc]);
}

pub fn csv(data: &[u8]) {
    read(data, &[Format::Csv]);
}

pub fn parquet(data: &[u8]) {
    read(data, &[Format::Parquet]);
}

pub fn brat(data: &[u8]) {
    let mut given = Input::new(data);
    let options = options(&mut given, Some(Format::Brat));
    let other = given.choose(Format::iter().count());
    let text = input::file("brat/file.txt", given.part());
    input::file("brat/file.ann", given.rest());
    scan(&text, &options, other);
}

/// Files whose format is detected by content and name, compressed or not.
pub fn detect(data: &[u8]) {
    let mut given = Input::new(data);
    let options = options(&mut given, None);
    let other = given.choose(Format::iter().count());
    let name = given.one_of(&[
        "file",
        "file.txt",
        "file.conll",
        "file.jsonl",
        "file.json",
        "file.tsv",
        "file.csv",
        "file.gz",
        "file.parquet",
        "file.spacy",
    ]);
    scan(&input::file(name, given.rest()), &options, other);
}

/// Reads a file in one of these formats.
fn read(data: &[u8], formats: &[Format]) {
    let mut given = Input::new(data);
    let format = given.one_of(formats);
    let options = options(&mut given, Some(format));
    let other = given.choose(Format::iter().count());
    scan(&input::file("file", given.rest()), &options, other);
}

fn options(given: &mut Input<'_>, format: Option<Format>) -> ReadOptions {
    let choice = given.choose(36);
    ReadOptions {
        format,
        segmentation: [None, Some(Segmentation::Words), Some(Segmentation::Cjk)][choice % 3],
        sentences: [
            None,
            Some(SentenceCutting::Cut),
            Some(SentenceCutting::Whole),
        ][choice / 3 % 3],
        scheme: [
            None,
            Some(TagScheme::Iob1),
            Some(TagScheme::Bioes),
            Some(TagScheme::Bmes),
        ][choice / 9],
        ..ReadOptions::default()
    }
}

/// Reads a file, checks the sentences, writes them in the lossless format and in another one, and reads those files.
fn scan(path: &Path, options: &ReadOptions, other: usize) {
    let Ok((sentences, problems)) = data::scan(path, options) else {
        return;
    };
    for problem in &problems {
        assert!(!problem.message.is_empty() && !problem.to_string().contains('\u{1b}'));
    }
    sentences.iter().for_each(check);
    let has_error = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    assert_eq!(data::read(path, options).is_err(), has_error);
    let report = data::check::check(&[path.to_path_buf()], options);
    assert_eq!(report.is_valid(), !has_error);
    drop(report.to_string());
    if sentences.is_empty() {
        return;
    }
    assert_eq!(
        again(&sentences, Format::TokensJsonl),
        Some(sentences.clone()),
        "tokens_jsonl is lossless"
    );
    let format = Format::iter().nth(other).unwrap_or(Format::TextJsonl);
    if let Some(others) = again(&sentences, format) {
        others.iter().for_each(check);
    }
}

/// The sentences after they are written in a format and read; `None` if the format cannot represent them.
fn again(sentences: &[Sentence], format: Format) -> Option<Vec<Sentence>> {
    if !format.is_writable() {
        return None;
    }
    let folder = input::path("again");
    let _ = std::fs::remove_dir_all(&folder);
    let path = if format == Format::Brat {
        folder
    } else {
        input::path("again-file")
    };
    write::to_path(&path, sentences, &WriteOptions::of(format), true).ok()?;
    let options = ReadOptions {
        strip_digit: Some(false),
        ..ReadOptions::of(format)
    };
    let (sentences, problems) =
        data::scan(&path, &options).expect("what was written can be opened");
    let errors: Vec<String> = (problems.iter())
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    assert!(errors.is_empty(), "{format}: {errors:?}");
    Some(sentences)
}

/// Fails unless words, entities and offsets are those of a sentence.
pub fn check(sentence: &Sentence) {
    let length = sentence.text.chars().count();
    let mut end = 0;
    for word in &sentence.words {
        assert!(
            end <= word.start && word.start < word.end && word.end <= length,
            "{word:?} in {sentence:?}"
        );
        assert_eq!(slice(&sentence.text, word.start, word.end), word.text);
        end = word.end;
    }
    if let Some(pos) = &sentence.pos {
        assert_eq!(pos.len(), sentence.words.len());
    }
    let mut seen = HashSet::new();
    for entity in &sentence.entities {
        assert!(
            !entity.span.is_empty() && entity.span.end <= sentence.len(),
            "{entity:?} in {sentence:?}"
        );
        assert!(!entity.label.is_empty(), "{sentence:?}");
        assert!(seen.insert(entity), "{entity:?} twice in {sentence:?}");
    }
    for entity in &sentence.misaligned {
        assert!(
            entity.start < entity.end && entity.end <= length,
            "{entity:?} in {sentence:?}"
        );
    }
    for entity in &sentence.discontinuous {
        let mut end = 0;
        for (first, last) in &entity.parts {
            assert!(
                end <= *first && first < last && *last <= length,
                "{entity:?} in {sentence:?}"
            );
            end = *last;
        }
    }
}
