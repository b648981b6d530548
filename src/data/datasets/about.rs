//! `dataset.toml`: what is known about a corpus.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::VARIABLE;
use crate::data::{Format, Options};
use crate::error::{Error, Result};

/// What `dataset.toml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The corpus's full name.
    pub title: String,
    /// What it is, in a sentence or two.
    pub description: String,
    /// Language tag, such as `en`.
    pub language: String,
    /// True when entities may contain each other.
    pub nested: bool,
    /// The entity types.
    pub types: Vec<String>,
    /// Where it comes from.
    pub source: String,
    /// Under which terms.
    pub licence: String,
    /// True when the licence lets everyone pass the files on.
    pub redistributable: bool,
    /// How its files are written; recognised from the file when absent.
    pub format: Option<Format>,
    /// How to read them.
    #[serde(default)]
    pub options: Options,
    /// Train, dev and test.
    pub splits: BTreeMap<String, Split>,
    /// What the papers count, where that differs from the files.
    #[serde(default)]
    pub papers: Vec<Paper>,
    /// Whatever else one should know.
    pub notes: Option<String>,
}

/// A part of a corpus: files, or the tail of another part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Files inside the dataset's folder, read one after the other.
    pub files: Vec<String>,
    /// How many sentences the files have.
    pub sentences: Option<usize>,
    /// How many entities they have, those that miss a word border included.
    pub entities: Option<usize>,
    /// SHA-256 of the files the numbers were counted in.
    pub sha256: BTreeMap<String, String>,
    /// The split this one is the tail of.
    pub hold_out_of: Option<String>,
    /// How much of it, in percent of its sentences.
    pub last_percent: Option<usize>,
}

/// How many sentences and entities there are, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Count {
    /// Sentences.
    pub sentences: Option<usize>,
    /// Entities.
    pub entities: Option<usize>,
}

/// The counts a paper prints.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Which paper and table.
    pub paper: String,
    /// Its counts for training.
    pub train: Option<Count>,
    /// For development.
    pub dev: Option<Count>,
    /// For testing.
    pub test: Option<Count>,
}

impl About {
    /// Reads a `dataset.toml`; `file` is named in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self> {
        let problem = |problem: String| Error::Config(format!("{}: {problem}", file.display()));
        let about: Self = toml::from_str(text).map_err(|error| problem(error.to_string()))?;
        about.check().map_err(problem)?;
        Ok(about)
    }

    fn check(&self) -> Result<(), String> {
        let mut sources = Vec::new();
        for (name, split) in &self.splits {
            let stray = split.sha256.keys().find(|file| !split.files.contains(file));
            if let Some(stray) = stray {
                return Err(format!(
                    "splits.{name}.sha256 names {stray:?}, which is not among its files"
                ));
            }
            let Some(source) = &split.hold_out_of else {
                if split.files.is_empty() {
                    return Err(format!("splits.{name} needs files or hold_out_of"));
                }
                continue;
            };
            if !split.files.is_empty() || !matches!(split.last_percent, Some(1..=99)) {
                return Err(format!(
                    "splits.{name} is held out: it takes no files and a last_percent from 1 to 99"
                ));
            }
            if self
                .splits
                .get(source)
                .is_none_or(|source| source.files.is_empty())
            {
                return Err(format!(
                    "splits.{name}.hold_out_of: {source:?} is no split with files"
                ));
            }
            if sources.contains(&source) {
                return Err(format!("two splits are held out of {source:?}"));
            }
            sources.push(source);
        }
        Ok(())
    }

    /// A folder without a `dataset.toml`: files whose names start with train, dev (valid, devel) or test.
    pub(super) fn infer(name: &str, folder: &Path) -> Result<Self> {
        let entries = folder
            .read_dir()
            .map_err(|error| Error::io(folder, error))?;
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let mut files: Vec<String> = files
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        files.sort();
        let mut splits: BTreeMap<String, Split> = BTreeMap::new();
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
            description: "A folder without a dataset.toml; its splits are guessed from file names."
                .into(),
            language: "und".into(),
            nested: true,
            types: Vec::new(),
            source: "unknown".into(),
            licence: "unknown".into(),
            redistributable: false,
            format: None,
            options: Options::default(),
            splits,
            papers: Vec::new(),
            notes: None,
        })
    }

    pub(super) fn how_to_get(&self, name: &str, looked: &str) -> String {
        let files: Vec<&str> = self
            .splits
            .values()
            .flat_map(|split| &split.files)
            .map(String::as_str)
            .collect();
        format!(
            "the files of dataset {name} ({title}) are not here: {files}\n\
             looked in: {looked}\n\
             source: {source}\n\
             licence: {licence}\n\
             Put the files into a folder named {name} and set {VARIABLE} to the folder that holds it. Files with other \
             names need a dataset.toml beside them (datasets/README.md says what goes in).",
            title = self.title,
            files = files.join(", "),
            source = self.source,
            licence = self.licence,
        )
    }
}

impl Split {
    /// Where its tail begins in so many sentences.
    pub(super) fn cut(&self, sentences: usize) -> usize {
        sentences - sentences * self.last_percent.unwrap_or(0) / 100
    }

    /// True when it has files and the folder has them all.
    pub(super) fn is_in(&self, folder: &Path) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| folder.join(file).is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::HELD_OUT;
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let refuse = |from: &str, to: &str, why: &str| {
            let text = HELD_OUT.replace(from, to);
            let error = About::parse(&text, Path::new("x/dataset.toml"))
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
            "no split with files",
        );
        refuse(
            "hold_out_of='train'\nlast_percent=10",
            "",
            "needs files or hold_out_of",
        );
        refuse("sentences=25", "sha256={'c'='0'}", "not among its files");
        refuse("title", "titel", "titel");
    }
}
