//! One resolver of model names, for every command and the library.

use std::path::{Path, PathBuf};

use super::index::{self, Index};
use super::places::{self, MODELS, is_model_name};
use super::source::{Source, SourceRecord};
use super::summary::ModelSummary;
use crate::error::{Error, Result, nearest};
use crate::hub::{Hub, RepoId};

/// Where models are looked up and fetched from.
#[derive(Debug, Clone)]
pub struct Zoo {
    /// Folders with `models/` and `index.json`; the first that has a model is used.
    pub folders: Vec<PathBuf>,
    /// The folder of fetched models: each is a folder in its sub-folder `models`.
    pub cache: PathBuf,
    /// The hub and the settings of downloads.
    pub hub: Hub,
}

/// Where a listed model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a zoo's folder.
    Published,
    /// In the cache.
    Fetched,
}

/// A model that a name was found for.
#[derive(Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Where that folder is.
    pub place: Place,
    /// The facts about it, or why it cannot be used.
    pub summary: Result<ModelSummary>,
    /// Where a fetched model comes from.
    pub source: Option<SourceRecord>,
}

impl Zoo {
    /// The zoo and cache that the environment describes: `NERZOO_ZOO`, `NERZOO_CACHE` and the variables of [`Hub::from_env`].
    pub fn from_env() -> Self {
        Self::with_hub(Hub::from_env())
    }

    /// The same with another hub.
    pub fn with_hub(hub: Hub) -> Self {
        Self {
            folders: places::zoo_folders(),
            cache: places::cache(),
            hub,
        }
    }

    /// Finds the folder of a model. A name is looked up in this order:
    ///
    /// 1. a folder (or a file in it) with a model or a run,
    /// 2. `models/NAME` in the zoo's folders: those of `NERZOO_ZOO`, `model-zoo` in the working directory, then `model-zoo`
    ///    of the source tree this program was built in,
    /// 3. `models/NAME` in the cache, which `zoo pull` fills,
    /// 4. `hf:owner/name` or `hf:owner/name@revision`,
    /// 5. an http(s) address of a model folder or of a `.tar.gz` or `.tar.zst` archive.
    ///
    /// The last two are fetched into the cache unless they are there.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        if let Some(source) = Source::remote(name)? {
            return self.fetched(&source);
        }
        let path = Path::new(name);
        if path.join("config.json").is_file() || path.is_file() {
            return Ok(path.to_path_buf());
        }
        match self.local(name) {
            Some(folder) => Ok(folder),
            // Not a model's folder; loading it explains what is missing.
            None if path.exists() => Ok(path.to_path_buf()),
            None => Err(self.unknown(name)),
        }
    }

    /// The folder of a published or fetched model.
    pub(super) fn local(&self, name: &str) -> Option<PathBuf> {
        if !is_model_name(name) {
            return None;
        }
        let roots = self.folders.iter().chain([&self.cache]);
        let mut folders = roots.map(|root| root.join(MODELS).join(name));
        folders.find(|folder| folder.join("config.json").is_file())
    }

    /// The model that is used if none is named: the default of the first index that has one.
    pub fn default_model(&self) -> Result<PathBuf> {
        for zoo in &self.folders {
            if let Some(name) = Index::read(zoo)?.default {
                return self.local(&name).ok_or_else(|| {
                    Error::model_folder(
                        zoo.join(index::FILE),
                        format!(
                            "its default model {name} is not in {}; restore that folder, or name a model with --model \
                             (`nerzoo zoo list` shows those that are there)",
                            zoo.join(MODELS).display()
                        ),
                    )
                });
            }
        }
        Err(Error::Config(format!(
            "no model is given, and no index.json of a zoo names a default. Name one with --model: {}",
            self.remedies()
        )))
    }

    /// All published and fetched models. One that cannot be read is listed with its problem.
    pub fn models(&self) -> Vec<Listed> {
        let published = self.folders.iter().map(|zoo| (zoo, Place::Published));
        let mut models: Vec<Listed> = Vec::new();
        for (root, place) in published.chain([(&self.cache, Place::Fetched)]) {
            for (name, folder) in index::folders(root) {
                if models.iter().any(|model| model.name == name) {
                    continue; // another model is found by this name
                }
                models.push(Listed {
                    summary: ModelSummary::read(&folder, &name),
                    source: SourceRecord::read(&folder).filter(|_| place == Place::Fetched),
                    name,
                    folder,
                    place,
                });
            }
        }
        models
    }

    /// The names of all published and fetched models.
    fn names(&self) -> Vec<String> {
        let roots = self.folders.iter().chain([&self.cache]);
        let mut names: Vec<String> = roots
            .flat_map(|root| index::folders(root))
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn remedies(&self) -> String {
        let names = self.names();
        let listed = if names.is_empty() {
            "`nerzoo zoo list` shows none on this machine".to_string()
        } else {
            format!("`nerzoo zoo list` shows {}", names.join(", "))
        };
        format!(
            "{listed}; fetch a model with `nerzoo zoo pull hf:OWNER/NAME`, or train one with `nerzoo train RECIPE` and give its \
             run folder"
        )
    }

    fn unknown(&self, name: &str) -> Error {
        let names = self.names();
        let mut hint = nearest(name, names.iter().map(String::as_str))
            .map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        if hint.is_empty()
            && let Ok(id) = name.parse::<RepoId>()
            && id.name().contains('/')
        {
            hint = format!("; a repository on the hub is written hf:{id}");
        }
        Error::model_folder(
            name,
            format!(
                "no such folder, and no model of this name{hint}. {}",
                self.remedies()
            ),
        )
    }

    /// The folder of a fetched model from this source.
    pub(super) fn installed(&self, source: &Source) -> Option<PathBuf> {
        let text = source.to_string();
        let mut folders = index::folders(&self.cache)
            .into_iter()
            .map(|(_, folder)| folder);
        folders
            .find(|folder| SourceRecord::read(folder).is_some_and(|record| record.source == text))
    }

    /// The folder of a remote model, which is fetched unless it is in the cache.
    fn fetched(&self, source: &Source) -> Result<PathBuf> {
        if let Some(folder) = self.installed(source) {
            return Ok(folder);
        }
        self.fetch(source)
    }

    #[cfg(not(feature = "hub"))]
    fn fetch(&self, source: &Source) -> Result<PathBuf> {
        Err(Error::Hub {
            name: source.to_string(),
            problem: "it is not in the cache, and this build cannot download it: build with the Cargo feature `hub`".into(),
        })
    }
}
