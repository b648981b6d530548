//! `index.json`: the models of a zoo's folder, and which one is the default.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::places::{MODELS, is_model_name};
use super::summary::{LONGEST_TEXT, ModelSummary};
use crate::error::{Error, Result, nearest};
use crate::files::{read_text, write_atomic};

/// File name of the index.
pub const FILE: &str = "index.json";

/// The models of a zoo.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// The name of the model that `nerzoo predict` uses if none is given.
    #[serde(default)]
    pub default: Option<String>,
    /// The models, by name.
    pub models: Vec<ModelSummary>,
}

impl Index {
    /// Parses an index; `path` is named in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        // A struct would also be read from a list.
        let index: Self = serde_json::from_str(text)
            .and_then(|table: serde_json::Map<_, _>| serde_json::from_value(table.into()))
            .map_err(|problem| {
                Error::model_folder(
                    path,
                    format!(
                        "not an index of models: {problem}; write it again with `nerzoo zoo index`"
                    ),
                )
            })?;
        let names = index
            .models
            .iter()
            .map(|model| &model.name)
            .chain(&index.default);
        match names.into_iter().find(|name| !is_model_name(name)) {
            Some(name) => Err(Error::model_folder(
                path,
                format!("{name:?} is not the name of a model"),
            )),
            None => Ok(index),
        }
    }

    /// Reads the index of a zoo's folder; an empty one if there is none.
    pub fn read(zoo: &Path) -> Result<Self> {
        let path = zoo.join(FILE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        Self::parse(&read_text(&path, LONGEST_TEXT)?, &path)
    }

    /// Makes the index of the models in a zoo's folder, with this default. Fails if a folder is not a model, or if the
    /// default is not among them.
    pub fn of_folders(zoo: &Path, default: Option<String>) -> Result<Self> {
        let mut models = Vec::new();
        for (name, folder) in folders(zoo) {
            models.push(ModelSummary::read(&folder, &name)?);
        }
        if let Some(name) = &default
            && !models.iter().any(|model| model.name == *name)
        {
            let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            let near = nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            return Err(Error::Config(format!(
                "the default model {name:?} is not in {}{near} There are: {}",
                zoo.join(MODELS).display(),
                if names.is_empty() {
                    "none".into()
                } else {
                    names.join(", ")
                }
            )));
        }
        Ok(Self { default, models })
    }

    /// The index as it is written.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("an index is plain data");
        json + "\n"
    }

    /// Writes the index into a zoo's folder.
    pub fn write(&self, zoo: &Path) -> Result<PathBuf> {
        let path = zoo.join(FILE);
        write_atomic(&path, self.to_json().as_bytes())?;
        Ok(path)
    }
}

/// Writes the index of the zoo whose `models` a folder is, with the default as before; nothing for other folders.
pub fn update(models: &Path) -> Result<()> {
    let zoo = match (models.file_name(), models.parent()) {
        (Some(name), Some(zoo)) if name == MODELS => zoo,
        _ => return Ok(()),
    };
    let before = Index::read(zoo)?;
    Index::of_folders(zoo, before.default)?
        .write(zoo)
        .map(|_| ())
}

/// The model folders of a zoo, by name. Hidden folders, such as those of unfinished work, are left out.
pub fn folders(zoo: &Path) -> Vec<(String, PathBuf)> {
    let entries = zoo.join(MODELS).read_dir().into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, _)| is_model_name(name))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_back_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let zoo = folder.path();
        assert_eq!(Index::read(zoo).unwrap(), Index::default());
        let empty = Index::of_folders(zoo, None).unwrap();
        empty.write(zoo).unwrap();
        assert_eq!(Index::read(zoo).unwrap(), empty);
        let problem = Index::of_folders(zoo, Some("a".into()))
            .unwrap_err()
            .to_string();
        assert!(
            problem.contains("default model \"a\" is not in"),
            "{problem}"
        );
        std::fs::create_dir_all(zoo.join("models/.staging")).unwrap();
        assert_eq!(folders(zoo), []);
        std::fs::create_dir_all(zoo.join("models/a")).unwrap();
        let problem = Index::of_folders(zoo, None).unwrap_err().to_string();
        assert!(problem.contains("no manifest.json"), "{problem}");
        for text in [
            "{\"default\": \"../a\", \"models\": []}",
            "{\"models\": [], \"x\": 1}",
            "{}",
            "[]",
        ] {
            assert!(
                Index::parse(text, Path::new("index.json")).is_err(),
                "{text}"
            );
        }
    }
}
