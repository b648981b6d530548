//! Helpers for the tests of the readers.

use std::path::{Path, PathBuf};

use super::{Problem, ReadOptions, SentenceCutting, scan};
use crate::text::Sentence;

/// A path in the folder of the fixtures.
pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/formats")
        .join(name)
}

/// Writes a temporary file with this name and scans it.
pub(super) fn scan_content(
    name: &str,
    content: impl AsRef<[u8]>,
    options: &ReadOptions,
) -> (Vec<Sentence>, Vec<Problem>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    scan(&path, options).unwrap()
}

/// Options for tests that do not depend on where texts are cut into sentences.
pub(super) fn whole() -> ReadOptions {
    ReadOptions {
        sentences: Some(SentenceCutting::Whole),
        ..ReadOptions::default()
    }
}

/// The texts and types of the entities of a sentence.
pub(super) fn found(sentence: &Sentence) -> Vec<(&str, &str)> {
    let entities = sentence.entities.iter();
    entities
        .map(|entity| (sentence.surface(entity.span), entity.label.as_str()))
        .collect()
}
