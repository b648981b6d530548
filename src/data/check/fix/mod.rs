//! Mended copies of files, with a log of every change.
//!
//! Mended are: types that differ only in case or separators, punctuation and white space at the edges of entities, entities
//! that are given twice or are not within their sentence, violations of the tagging scheme, and on request sentences that
//! occur in two files. Records that cannot be read are left out. Everything else stays as it is and is listed.

mod display;
mod mend;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use mend::{Change, ChangeKind};

use super::{CheckReport, check, labels};
use crate::data::columns::layout::ColumnLayout;
use crate::data::leakage::leakage_key;
use crate::data::source::{Collector, Source};
use crate::data::{Format, ReadOptions, TagScheme, collect, write};
use crate::error::{Error, Result};
use crate::files::write_atomic_with;
use crate::text::Sentence;

/// Where mended copies are written, and what else is mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixOptions {
    /// The file to write, or for several files the folder.
    pub out: PathBuf,
    /// Remove sentences that occur in several files from all but the smallest of them.
    pub leaks: bool,
    /// Overwrite existing files.
    pub force: bool,
}

/// What [`fix`] has done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FixReport {
    /// The copies.
    pub files: Vec<FixedFile>,
    /// Number of changes by kind.
    pub changes: BTreeMap<ChangeKind, usize>,
    /// The log: one JSON object per change.
    pub log: PathBuf,
    /// The check of the copies: what was not mended.
    pub remaining: CheckReport,
}

/// A mended copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FixedFile {
    /// The file it is a copy of.
    pub from: PathBuf,
    /// The copy.
    pub to: PathBuf,
    /// The format of the copy.
    pub format: Format,
    /// Number of sentences.
    pub sentences: usize,
    /// Number of entities.
    pub entities: usize,
    /// Number of entities that the format cannot represent.
    pub left_out: usize,
}

/// A file that is being mended.
struct Input {
    from: PathBuf,
    to: PathBuf,
    format: Format,
    scheme: TagScheme,
    corpus: Collector,
}

/// Writes mended copies of files and a log of all changes, `OUT.changes.jsonl`. Nothing is written when a file cannot be read
/// or a copy exists already.
pub fn fix(files: &[PathBuf], options: &ReadOptions, fix: &FixOptions) -> Result<FixReport> {
    let mut inputs = Vec::new();
    for file in files {
        let (format, corpus) = collect(file, options, true)?;
        inputs.push(Input {
            from: file.clone(),
            to: PathBuf::new(),
            scheme: scheme(file, format, options),
            format,
            corpus,
        });
    }
    let changes = mend_all(&mut inputs, fix.leaks);
    for input in &mut inputs {
        input.format = writable(&input.corpus.sentences, input.format, input.scheme);
    }
    let log = name_outputs(&mut inputs, fix)?;
    if let Some(folder) = inputs.first().and_then(|input| input.to.parent())
        && !folder.as_os_str().is_empty()
    {
        std::fs::create_dir_all(folder).map_err(|source| Error::io(folder, source))?;
    }
    let mut fixed = Vec::new();
    for input in &inputs {
        let sentences = &input.corpus.sentences;
        let summary = write::to_file(&input.to, sentences, input.format, input.scheme)?;
        fixed.push(FixedFile {
            from: input.from.clone(),
            to: input.to.clone(),
            format: input.format,
            sentences: summary.sentences,
            entities: summary.entities,
            left_out: summary.left_out,
        });
    }
    write_log(&log, &changes)?;
    let mut by_kind = BTreeMap::new();
    for change in &changes {
        *by_kind.entry(change.kind).or_default() += 1;
    }
    let copies: Vec<PathBuf> = inputs.into_iter().map(|input| input.to).collect();
    // The copies say how they are read, but for the words of a text.
    let reading = ReadOptions {
        segmentation: options.segmentation,
        strip_digit: Some(false),
        ..ReadOptions::default()
    };
    Ok(FixReport {
        files: fixed,
        changes: by_kind,
        log,
        remaining: check(&copies, &reading),
    })
}

/// Mends the sentences of all files.
fn mend_all(inputs: &mut [Input], leaks: bool) -> Vec<Change> {
    let mut counts = super::EntityCounts::default();
    for input in inputs.iter() {
        input
            .corpus
            .sentences
            .iter()
            .for_each(|sentence| counts.add_types(sentence));
    }
    let names = labels::unified(&counts.types);
    let mut changes = Vec::new();
    for input in inputs.iter_mut() {
        changes.extend(input.corpus.problems.iter().filter_map(Change::of_problem));
        let mut sentences = std::mem::take(&mut input.corpus.sentences);
        for (index, sentence) in sentences.iter_mut().enumerate() {
            let location = input.corpus.location(index);
            mend::mend(sentence, &names, &location, &mut changes);
        }
        input.corpus.sentences = sentences;
    }
    if leaks {
        remove_leaks(inputs, &mut changes);
    }
    changes
}

/// Removes sentences that occur in several files from all but the smallest of them: the training file is the largest, and test
/// files stay complete.
fn remove_leaks(inputs: &mut [Input], changes: &mut Vec<Change>) {
    // The file in which a sentence stays.
    let mut kept: HashMap<String, usize> = HashMap::new();
    let mut by_size: Vec<usize> = (0..inputs.len()).collect();
    by_size.sort_by_key(|number| {
        (
            inputs[*number].corpus.sentences.len(),
            std::cmp::Reverse(*number),
        )
    });
    for number in by_size {
        for key in inputs[number]
            .corpus
            .sentences
            .iter()
            .filter_map(leakage_key)
        {
            kept.entry(key).or_insert(number);
        }
    }
    let names: Vec<String> = inputs
        .iter()
        .map(|input| input.from.display().to_string())
        .collect();
    for (number, input) in inputs.iter_mut().enumerate() {
        let mut keep = vec![true; input.corpus.sentences.len()];
        for (index, sentence) in input.corpus.sentences.iter().enumerate() {
            let stays_in = leakage_key(sentence)
                .and_then(|key| kept.get(&key))
                .copied();
            if let Some(other) = stays_in.filter(|other| *other != number) {
                keep[index] = false;
                changes.push(Change {
                    location: input.corpus.location(index),
                    kind: ChangeKind::Leak,
                    before: sentence.text.clone(),
                    after: None,
                    message: format!("removed, because it also occurs in {}", names[other]),
                });
            }
        }
        input.corpus.retain(&keep);
    }
}

/// The tagging scheme of a column file.
fn scheme(file: &Path, format: Format, options: &ReadOptions) -> TagScheme {
    let detected = || {
        let source = Source::open(file)
            .ok()
            .filter(|_| format == Format::Columns)?;
        let layout = ColumnLayout::detect(&source, options).ok().flatten()?;
        Some(layout.scheme)
    };
    options.scheme.or_else(detected).unwrap_or_default()
}

/// The format of a copy: that of the file if it can represent all sentences, else `tokens_jsonl`.
fn writable(sentences: &[Sentence], format: Format, scheme: TagScheme) -> Format {
    let is_known = matches!(
        format,
        Format::Columns | Format::TextJsonl | Format::Spert | Format::W2ner | Format::PlainText
    );
    let has_parts = || {
        sentences
            .iter()
            .any(|sentence| !sentence.discontinuous.is_empty())
    };
    let keeps_all = || {
        write::write(&mut std::io::sink(), sentences, format, scheme)
            .is_ok_and(|summary| summary.left_out == 0)
    };
    if is_known && (format == Format::W2ner || !has_parts()) && keeps_all() {
        format
    } else {
        Format::TokensJsonl
    }
}

/// Gives every input the path of its copy and returns the path of the log.
fn name_outputs(inputs: &mut [Input], fix: &FixOptions) -> Result<PathBuf> {
    let text = fix.out.to_string_lossy();
    let is_folder =
        inputs.len() > 1 || fix.out.is_dir() || text.ends_with(['/', std::path::MAIN_SEPARATOR]);
    let out = PathBuf::from(text.trim_end_matches(['/', std::path::MAIN_SEPARATOR]));
    if out.as_os_str().is_empty() {
        return Err(Error::Config(format!(
            "--fix {text}: name a file or a folder"
        )));
    }
    for input in inputs.iter_mut() {
        input.to = if is_folder {
            out.join(copy_name(input))
        } else {
            out.clone()
        };
    }
    let mut log = out.into_os_string();
    log.push(".changes.jsonl");
    let log = PathBuf::from(log);
    for (index, input) in inputs.iter().enumerate() {
        let path = &input.to;
        if inputs[..index].iter().any(|other| other.to == *path) {
            return Err(Error::Config(format!(
                "two files would be written to {}; mend them one by one, each with its own --fix",
                path.display()
            )));
        }
        let is_input = |other: &Input| other.from == *path || same_file(&other.from, path);
        if inputs.iter().any(is_input) {
            return Err(Error::Config(format!(
                "{} is one of the files to mend; choose another --fix",
                path.display()
            )));
        }
    }
    let existing = inputs
        .iter()
        .map(|input| &input.to)
        .chain([&log])
        .find(|path| path.exists());
    if let Some(path) = existing.filter(|_| !fix.force) {
        return Err(Error::Config(format!(
            "{} exists; choose another --fix, or overwrite it with --force",
            path.display()
        )));
    }
    Ok(log)
}

/// The file name of a copy in a folder.
fn copy_name(input: &Input) -> PathBuf {
    let name = input
        .from
        .file_name()
        .map(PathBuf::from)
        .unwrap_or_else(|| "corpus".into());
    let is_compressed = name
        .extension()
        .is_some_and(|extension| extension == "gz" || extension == "zst");
    let name = if is_compressed {
        name.with_extension("")
    } else {
        name
    };
    let is_json = name
        .extension()
        .is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
    if input.format == Format::TokensJsonl && !is_json {
        name.with_extension("jsonl")
    } else {
        name
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn write_log(path: &Path, changes: &[Change]) -> Result<()> {
    write_atomic_with(path, |file| {
        for change in changes {
            let written = serde_json::to_writer(&mut *file, change).map_err(std::io::Error::from);
            written
                .and_then(|()| writeln!(file))
                .map_err(|source| Error::io(path, source))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
