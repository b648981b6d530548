//! Detecting the format of a file from its name and its first records.

use std::path::Path;

use serde_json::Value;
use strum::VariantNames;

use super::column_layout::ColumnLayout;
use super::source::Source;
use super::{Format, ReadOptions, json, json_format};
use crate::error::{Error, Location, Result};

/// Detects the format of a file from its name, its content and, for BRAT, the other files of its folder.
pub fn detect_format(path: &Path) -> Result<Format> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if path.is_dir() {
        return if has_annotations(path)? {
            Ok(Format::Brat)
        } else {
            Err(unknown(path, "a folder without `.ann` files"))
        };
    }
    if extension == Some("ann")
        || (extension == Some("txt") && path.with_extension("ann").is_file())
    {
        return Ok(Format::Brat);
    }
    let source = Source::open(path)?;
    let Some(first) = source.first_byte() else {
        return Err(unknown(path, "the file is empty"));
    };
    let record = match first {
        b'{' | b'[' => json::first_record(&source),
        _ => None,
    };
    let format = record
        .as_ref()
        .and_then(|(record, layout)| json_format::of(record, *layout));
    if let Some(format) = format {
        return Ok(format);
    }
    let record = record.map(|(record, _)| record);
    if let Ok(Some(_)) = ColumnLayout::detect(&source, &ReadOptions::default()) {
        return Ok(Format::Columns);
    }
    match record {
        Some(record) => Err(unknown(path, &describe(&record))),
        None if extension == Some("txt") => Ok(Format::PlainText),
        None if matches!(first, b'{' | b'[') || matches!(extension, Some("json" | "jsonl")) => {
            let why = json::first_fault(&source);
            Err(unknown(
                path,
                why.as_deref().unwrap_or("the file has no records"),
            ))
        }
        None => Err(unknown(
            path,
            "the file is neither JSON nor columns with tags",
        )),
    }
}

fn describe(record: &Value) -> String {
    match record {
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

fn has_annotations(folder: &Path) -> Result<bool> {
    let mut entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    Ok(entries
        .any(|entry| entry.is_ok_and(|entry| entry.path().extension() == Some("ann".as_ref()))))
}

fn unknown(path: &Path, why: &str) -> Error {
    Error::data(
        Location::file(path),
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
