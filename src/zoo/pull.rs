//! Fetching: a model from the hub, from an http(s) server or from a folder becomes a folder of the cache.
//!
//! Everything goes into a staging folder first, is checked there against the manifest, and gets its name last. A staging
//! folder that was left by a cut download is used again by the next one.

use std::fs;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::fetching::Fetching;
use super::index;
use super::limits::LARGEST_MODEL;
use super::names::Zoo;
use super::places::{MODELS, NAME_RULE, is_model_name};
use super::source::{Source, SourceRecord};
use super::verify::Verified;
use crate::error::{Error, Result};

/// How a model is fetched.
#[derive(Debug, Clone)]
pub struct PullOptions {
    /// Its name; by default the last part of the source.
    pub name: Option<String>,
    /// The folder that gets a folder of this name; by default `models` of the cache.
    pub to: Option<PathBuf>,
    /// Replace a model of this name that comes from elsewhere.
    pub force: bool,
    /// Most bytes of the model.
    pub largest: u64,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            name: None,
            to: None,
            force: false,
            largest: LARGEST_MODEL,
        }
    }
}

/// A fetched model.
#[derive(Debug)]
pub struct Pulled {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What was checked.
    pub verified: Verified,
}

impl Zoo {
    /// Fetches a model. Hashes and sizes are checked before it gets its name, and nothing of it is executed.
    pub fn pull(&self, source: &Source, options: &PullOptions) -> Result<Pulled> {
        let name = options.name.clone().or_else(|| source.default_name());
        let name = name.ok_or_else(|| {
            Error::Config(format!(
                "{source}: the source gives no name for the model; give one with --name"
            ))
        })?;
        if !is_model_name(&name) {
            return Err(Error::Config(format!("--name {name:?}: {NAME_RULE}")));
        }
        let parent = options
            .to
            .clone()
            .unwrap_or_else(|| self.cache.join(MODELS));
        let target = parent.join(&name);
        let text = source.to_string();
        // Folders are recorded by their last part only, which several may have.
        let is_same = !matches!(source, Source::Path(_))
            && SourceRecord::read(&target).is_some_and(|record| record.source == text);
        if target.exists() && !is_same && !options.force {
            return Err(Error::model_folder(
                &target,
                "another model has this name; choose one with --name, or replace it with --force",
            ));
        }
        fs::create_dir_all(&parent).map_err(|problem| Error::io(&parent, problem))?;
        let fetching = Fetching::begin(&parent, &text, options.largest)?;
        let commit = match source {
            Source::Hub(_) => Some(fetching.fill_from_hub(&self.hub, source)?),
            Source::Address(address) if source.is_archive() => {
                fetching.fill_from_archive_at(&self.hub, address)?
            }
            Source::Address(address) => fetching.fill_from_address(&self.hub, address)?,
            Source::Path(path) if source.is_archive() && path.is_file() => {
                fetching.fill_from_archive(path)?
            }
            Source::Path(path) => fetching.fill_from_folder(path)?,
        };
        let verified = fetching.finish(
            &SourceRecord {
                source: text,
                commit,
            },
            &target,
        )?;
        if options.to.is_some() {
            index::update(&parent)?;
        }
        Ok(Pulled {
            name,
            folder: target,
            verified,
        })
    }

    /// Fetches a model that is used by its source; its name in the cache is one that is free.
    pub(super) fn fetch(&self, source: &Source) -> Result<PathBuf> {
        let digest = Sha256::digest(source.to_string());
        let suffix: String = digest
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = source.default_name().unwrap_or_else(|| "model".into());
        let name = if self.cache.join(MODELS).join(&name).exists() {
            format!("{}-{suffix}", &name[..name.len().min(80)])
        } else {
            name
        };
        let options = PullOptions {
            name: Some(name),
            ..PullOptions::default()
        };
        Ok(self.pull(source, &options)?.folder)
    }
}
