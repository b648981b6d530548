//! `dataset.toml`: the description of a dataset.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::VARIABLE;
use crate::data::{Format, ReadOptions};
use crate::error::{Error, Result};

/// The description of a dataset, read from `dataset.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetInfo {
    /// Full name of the corpus.
    pub title: String,
    /// Description in one or two sentences.
    pub description: String,
    /// Language tag, such as `en`.
    pub language: String,
    /// True when entities may contain each other.
    pub nested: bool,
    /// Entity types.
    pub types: Vec<String>,
    /// Origin of the corpus.
    pub source: String,
    /// Licence terms.
    pub licence: String,
    /// True when the licence allows everyone to redistribute the files.
    pub redistributable: bool,
    /// Format of the files; detected when absent.
    pub format: Option<Format>,
    /// Options for reading the files.
    #[serde(default)]
    pub options: ReadOptions,
    /// Splits by name: train, dev and test.
    #[serde(default)]
    pub splits: BTreeMap<String, SplitInfo>,
    /// Names of the datasets that this one is made of, instead of files of its own. Its splits are theirs, joined.
    #[serde(default)]
    pub parts: Vec<String>,
    /// Counts in papers, where they differ from the files.
    #[serde(default)]
    pub papers: Vec<PaperCounts>,
    /// Further notes.
    pub notes: Option<String>,
}

/// A split of a dataset: a list of files, or the last sentences of another split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SplitInfo {
    /// Names of its files in the dataset's folder, in reading order.
    pub files: Vec<String>,
    /// Number of sentences in the files.
    pub sentences: Option<usize>,
    /// Number of entities in the files, including those that do not match word boundaries.
    pub entities: Option<usize>,
    /// SHA-256 by file name, of the files that were counted.
    pub sha256: BTreeMap<String, String>,
    /// The split whose last sentences this one consists of.
    pub hold_out_of: Option<String>,
    /// Their number in percent of that split.
    pub last_percent: Option<usize>,
}

/// Number of sentences and entities, where known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SplitCounts {
    /// Number of sentences.
    pub sentences: Option<usize>,
    /// Number of entities.
    pub entities: Option<usize>,
}

/// The counts given in a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCounts {
    /// The paper and its table.
    pub paper: String,
    /// Counts of train.
    pub train: Option<SplitCounts>,
    /// Counts of dev.
    pub dev: Option<SplitCounts>,
    /// Counts of test.
    pub test: Option<SplitCounts>,
}

/// A contradiction in `dataset.toml`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// A hash is recorded for a file that is not in the list.
    #[error("splits.{split}.sha256 names {file:?}, which is not among its files")]
    UnknownFile {
        /// Name of the split.
        split: String,
        /// Name of the file.
        file: String,
    },
    /// A dataset has both splits and parts, or neither.
    #[error("a dataset has either splits or parts")]
    SplitsOrParts,
    /// A file is not in the dataset's folder.
    #[error("splits.{split}.files: {file:?} is not a path inside the dataset's folder")]
    Outside {
        /// Name of the split.
        split: String,
        /// The path.
        file: String,
    },
    /// A split has neither files nor a split to hold out of.
    #[error("splits.{0} needs files or hold_out_of")]
    NoFiles(String),
    /// A held-out split has files of its own or no valid percentage.
    #[error("splits.{0} is held out: it takes no files and a last_percent from 1 to 99")]
    InvalidHoldOut(String),
    /// The split to hold out of does not exist or has no files.
    #[error("splits.{split}.hold_out_of: {source_split:?} is not a split with files")]
    UnknownSource {
        /// Name of the split.
        split: String,
        /// Name of the split to hold out of.
        source_split: String,
    },
    /// Two splits are held out of the same split.
    #[error("two splits are held out of {0:?}; keep one")]
    TwoHoldOuts(String),
}

impl DatasetInfo {
    /// Parses the text of a `dataset.toml`; `file` is named in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self> {
        let problem = |problem: String| Error::Config(format!("{}: {problem}", file.display()));
        let info: Self = toml::from_str(text).map_err(|error| problem(error.to_string()))?;
        info.check().map_err(|error| problem(error.to_string()))?;
        Ok(info)
    }

    fn check(&self) -> Result<(), InfoError> {
        if self.splits.is_empty() == self.parts.is_empty() {
            return Err(InfoError::SplitsOrParts);
        }
        let mut sources = Vec::new();
        for (name, split) in &self.splits {
            let stray = split.sha256.keys().find(|file| !split.files.contains(file));
            if let Some(file) = stray {
                return Err(InfoError::UnknownFile {
                    split: name.clone(),
                    file: file.clone(),
                });
            }
            if let Some(file) = split.files.iter().find(|file| !is_inside(file)) {
                return Err(InfoError::Outside {
                    split: name.clone(),
                    file: file.clone(),
                });
            }
            let Some(source) = &split.hold_out_of else {
                if split.files.is_empty() {
                    return Err(InfoError::NoFiles(name.clone()));
                }
                continue;
            };
            if !split.files.is_empty() || !matches!(split.last_percent, Some(1..=99)) {
                return Err(InfoError::InvalidHoldOut(name.clone()));
            }
            if self
                .splits
                .get(source)
                .is_none_or(|source| source.files.is_empty())
            {
                return Err(InfoError::UnknownSource {
                    split: name.clone(),
                    source_split: source.clone(),
                });
            }
            if sources.contains(&source) {
                return Err(InfoError::TwoHoldOuts(source.clone()));
            }
            sources.push(source);
        }
        Ok(())
    }

    /// Infers the description of a folder without `dataset.toml` from files whose names start with train, dev, valid or
    /// test.
    pub(super) fn infer(name: &str, folder: &Path) -> Result<Self> {
        let entries = folder
            .read_dir()
            .map_err(|error| Error::io(folder, error))?;
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let mut files: Vec<String> = files
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        files.sort();
        let mut splits: BTreeMap<String, SplitInfo> = BTreeMap::new();
        for file in files {
            let starts = [
                ("train", "train"),
                ("dev", "dev"),
                ("valid", "dev"),
                ("test", "test"),
            ];
            if let Some((_, split)) = starts.iter().find(|(start, _)| file.starts_with(start)) {
                splits
                    .entry(split.to_string())
                    .or_default()
                    .files
                    .push(file);
            }
        }
        Ok(Self {
            title: name.to_string(),
            description:
                "A folder without a dataset.toml; its splits are inferred from file names.".into(),
            language: "und".into(),
            nested: true,
            types: Vec::new(),
            source: "unknown".into(),
            licence: "unknown".into(),
            redistributable: false,
            format: None,
            options: ReadOptions::default(),
            splits,
            parts: Vec::new(),
            papers: Vec::new(),
            notes: None,
        })
    }

    /// The message for a dataset whose files were not found.
    pub(super) fn how_to_get(&self, name: &str, searched: &str) -> String {
        let files: Vec<&str> = self
            .splits
            .values()
            .flat_map(|split| &split.files)
            .map(String::as_str)
            .collect();
        format!(
            "the files of dataset {name} ({title}) are not here: {files}\n\
             looked in: {searched}\n\
             source: {source}\n\
             licence: {licence}\n\
             Put the files into a folder named {name} and set {VARIABLE} to the folder that holds it. Files with other \
             names need a dataset.toml in the same folder (its fields are explained in datasets/README.md).",
            title = self.title,
            files = files.join(", "),
            source = self.source,
            licence = self.licence,
        )
    }
}

/// Whether a relative path stays in its folder.
pub(super) fn is_inside(path: &str) -> bool {
    let parts = Path::new(path).components();
    !path.is_empty()
        && !path.contains('\\')
        && parts
            .into_iter()
            .all(|part| matches!(part, Component::Normal(_)))
}

impl SplitInfo {
    /// Index of the first held-out sentence, of so many sentences.
    pub(super) fn held_out_from(&self, sentences: usize) -> usize {
        sentences - sentences * self.last_percent.unwrap_or(0) / 100
    }

    /// True when the split has files and all of them are in the folder.
    pub(super) fn is_complete(&self, folder: &Path) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| folder.join(file).is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::datasets::tests::HELD_OUT;

    #[test]
    fn contradictions_are_errors() {
        let refuse = |from: &str, to: &str, why: &str| {
            let text = HELD_OUT.replace(from, to);
            let error = DatasetInfo::parse(&text, Path::new("x/dataset.toml"))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(why) && error.contains("x/dataset.toml"),
                "{error}"
            );
        };
        refuse("last_percent=10", "last_percent=100", "from 1 to 99");
        refuse(
            "hold_out_of='train'",
            "hold_out_of='rain'",
            "not a split with files",
        );
        refuse(
            "hold_out_of='train'\nlast_percent=10",
            "",
            "needs files or hold_out_of",
        );
        refuse("sentences=25", "sha256={'c'='0'}", "not among its files");
        refuse("title", "titel", "titel");
        for outside in ["../a.jsonl", "/a.jsonl", "x/../../a.jsonl", ".", ""] {
            refuse("a.jsonl", outside, "inside the dataset's folder");
        }
        refuse("title", "parts=['a']\ntitle", "either splits or parts");
    }
}
