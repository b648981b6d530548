//! Detecting the format of a file from its name and its first records.

use std::path::Path;

use serde_json::{Map, Value};
use strum::VariantNames;

use super::columns::layout::ColumnLayout;
use super::source::{Source, display_name, file_extension, is_stream, uncompressed_name};
use super::tags::multi;
use super::{Format, ReadOptions, conllu, csv, json, pubtator, unread, webanno};
use crate::error::{Error, Location, Result};

/// Detects the format of a file from its name, its content and, for BRAT, the other files of its folder.
///
/// This reads the whole file. Standard input and pipes can be read only once, so use [`scan`](super::scan) for them, which
/// detects the format too.
pub fn detect_format(path: &Path) -> Result<Format> {
    open(path, &ReadOptions::default()).map(|(format, _)| format)
}

/// Opens a file in the format of the options or, without one, detects the format from what was read. There is no source for
/// BRAT, whose reader opens a pair of files or a folder.
pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<(Format, Option<Source>)> {
    let is_brat = match options.format {
        Some(format) => format == Format::Brat,
        None => names_brat(path)?,
    };
    if is_brat {
        refuse_single_brat(path)?;
        return Ok((Format::Brat, None));
    }
    let source = Source::open(path)?;
    let format = match options.format {
        Some(format) => format,
        None => detect_content(path, &source, options)?,
    };
    Ok((format, Some(source)))
}

/// True for a folder with `.ann` files and for a file that belongs to a BRAT pair.
fn names_brat(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return if has_annotations(path)? {
            Ok(true)
        } else {
            Err(unknown(path, "a folder without `.ann` files"))
        };
    }
    let name = uncompressed_name(path);
    let extension = name.extension().and_then(|extension| extension.to_str());
    Ok(match extension {
        Some("ann") => true,
        Some("txt") => path.with_extension("ann").is_file(),
        _ => false,
    })
}

/// Refuses what cannot be a pair of files.
fn refuse_single_brat(path: &Path) -> Result<()> {
    let problem = if is_stream(path) {
        "cannot be read from a pipe; name one of the files or their folder"
    } else if uncompressed_name(path) != path {
        "is not read from compressed files; decompress both"
    } else {
        return Ok(());
    };
    Err(Error::data(
        Location::file(display_name(path)),
        format!("`brat` is a pair of files, `.txt` and `.ann`, and {problem}"),
    ))
}

/// The binary format that these bytes begin with.
pub(super) fn binary_format(bytes: &[u8]) -> Option<Format> {
    if super::parquet::is_parquet(bytes) {
        Some(Format::Parquet)
    } else if super::doc_bin::is_doc_bin(bytes) {
        Some(Format::DocBin)
    } else {
        None
    }
}

/// Detects the format from the content, and from the extension where the content leaves a choice.
pub(super) fn detect_content(
    path: &Path,
    source: &Source,
    options: &ReadOptions,
) -> Result<Format> {
    let extension = file_extension(path);
    let extension = extension.as_deref();
    if let Some(format) = binary_format(source.bytes()) {
        return Ok(format);
    }
    match extension {
        Some("parquet") => return Ok(Format::Parquet),
        Some("spacy") => return Ok(Format::DocBin),
        _ => {}
    }
    let Some(first) = source.first_byte() else {
        return Err(unknown(path, "the file is empty"));
    };
    if let Some(kind) = unread::binary(source.bytes()) {
        return Err(Error::data(Location::file(display_name(path)), kind));
    }
    let record = match first {
        b'{' | b'[' => json::first_record(source),
        _ => None,
    };
    let format = record
        .as_ref()
        .and_then(|(record, layout)| json::format::of(record, *layout));
    if let Some(format) = format {
        return Ok(format);
    }
    let record = record.map(|(record, _)| record);
    if let Some(format) = detect_text(source) {
        return Ok(format);
    }
    // Only these two options tell more about a file than its content; the others are for the reader.
    let naming = ReadOptions {
        tag_columns: options.tag_columns.clone(),
        labels: options.labels.clone(),
        ..ReadOptions::default()
    };
    if let Ok(Some(_)) = ColumnLayout::detect(source, &naming) {
        return Ok(Format::Columns);
    }
    if record.is_none() && csv::detect_without_header(source, extension == Some("csv")) {
        return Ok(Format::Csv);
    }
    match record {
        // A text that begins with a bracket, such as `[1] ...`.
        Some(record)
            if extension == Some("txt") && !record.is_object() && !json::is_json(source) =>
        {
            Ok(Format::PlainText)
        }
        Some(record) => Err(unknown(path, &describe(&record))),
        None if let Some(kind) = unread::text(source) => {
            Err(Error::data(Location::file(display_name(path)), kind))
        }
        None if extension == Some("txt") => Ok(Format::PlainText),
        None if extension == Some("csv") => Err(unknown(path, &csv::describe(source))),
        None if matches!(first, b'{' | b'[') || matches!(extension, Some("json" | "jsonl")) => {
            let why = json::first_fault(source);
            Err(unknown(
                path,
                why.as_deref().unwrap_or("the file has no records"),
            ))
        }
        None => Err(unknown(
            path,
            &format!(
                "the file is neither JSON nor columns with tags; it begins with `{}`",
                beginning(source)
            ),
        )),
    }
}

/// The format of a text file, as detected from its first lines or from the shape of all lines.
fn detect_text(source: &Source) -> Option<Format> {
    if webanno::detect(source) {
        return Some(Format::Webanno);
    }
    if pubtator::detect(source) {
        return Some(Format::Pubtator);
    }
    if conllu::detect(source) {
        return Some(Format::Conllu);
    }
    if csv::detect(source) {
        return Some(Format::Csv);
    }
    None
}

/// The beginning of the first line that is not blank.
fn beginning(source: &Source) -> String {
    let text = source.lossy();
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or_default().trim().chars().take(60).collect()
}

fn describe(record: &Value) -> String {
    match record {
        Value::Object(object) if is_word(object) => {
            "each record is one word; give the words of a sentence as a list, as in `{\"tokens\": [...], \"ner_tags\": [...]}`, \
             or write the table as CSV"
                .to_string()
        }
        Value::Object(object) => {
            let keys: Vec<&str> = object.keys().map(String::as_str).collect();
            format!(
                "the first record has the keys {} but no words, such as `tokens`, and no text, such as `text`",
                keys.join(", ")
            )
        }
        _ => "the first record is not a JSON object".to_string(),
    }
}

/// True for a record of one word with its tag, as in `{"sentence_id": 0, "words": "Maria", "labels": "B-PER"}`.
pub(super) fn is_word(object: &Map<String, Value>) -> bool {
    let string = |keys: &[&str]| {
        let value = keys.iter().find_map(|key| object.get(*key));
        value.and_then(Value::as_str)
    };
    string(&["words", "word", "tokens", "token", "Word", "form", "text"]).is_some()
        && string(&[
            "labels", "label", "tags", "tag", "ner_tags", "ner_tag", "ner", "Tag",
        ])
        .is_some_and(multi::is_tag_or_list)
}

fn has_annotations(folder: &Path) -> Result<bool> {
    let mut entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    Ok(entries
        .any(|entry| entry.is_ok_and(|entry| entry.path().extension() == Some("ann".as_ref()))))
}

fn unknown(path: &Path, why: &str) -> Error {
    Error::data(
        Location::file(display_name(path)),
        format!(
            "cannot detect the format ({why}); name it with --format, one of {}",
            Format::VARIANTS.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_from_the_content() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content, format) in [
            (
                "a.txt",
                "EU NNP I-NP B-ORG\nsaid VBD I-VP O\n",
                Format::Columns,
            ),
            ("b.tsv", "[\tO\na\tB-X\n", Format::Columns),
            (
                "c.json",
                "{\"tokens\": [], \"entities\": []}",
                Format::TokensJsonl,
            ),
            (
                "d.jsonl",
                "\n{\"id\": 1, \"text\": \"a\", \"label\": []}\n",
                Format::Doccano,
            ),
            ("e.json", "[\n {\"tokens\": [\"a\"]}]", Format::Spert),
            (
                "f.json",
                "\u{feff}[{\"sentence\": [\"a\"], \"ner\": []}]",
                Format::W2ner,
            ),
            ("g.txt", "Just a text.\n", Format::PlainText),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            assert_eq!(detect_format(&path).unwrap(), format, "{name}");
        }
    }

    #[test]
    fn an_unknown_format_is_an_error_that_lists_all() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("a.csv", "a,b\n"),
            ("b.jsonl", "{\"tokens\": [\n"),
            ("c.json", "[1]"),
            ("d.json", "{\"foo\": 1}"),
            ("e", ""),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let error = detect_format(&path).unwrap_err().to_string();
            assert!(
                error.contains("--format") && error.contains("w2ner"),
                "{error}"
            );
        }
        assert!(detect_format(folder.path()).is_err());
        std::fs::write(folder.path().join("x.ann"), "").unwrap();
        assert_eq!(detect_format(folder.path()).unwrap(), Format::Brat);
    }
}
