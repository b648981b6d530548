//! The models of a hub repository: those of its index, or the one it holds.

use std::path::Path;

use super::index::{self, Index};
use super::names::Zoo;
use super::places::is_model_name;
use super::summary::SummaryTexts;
use crate::error::{Error, Result};
use crate::hub::RepoId;
use crate::model::folder::ModelConfig;
use crate::recipe::Recipe;

impl Zoo {
    /// Reads the index of a repository. A repository with a model and no index gives an index of that model. Only small
    /// files are read, and nothing is kept.
    pub fn hub_index(&self, id: &RepoId) -> Result<Index> {
        let listing = self.hub.files(id)?;
        let has = |name: &str| listing.iter().any(|(file, _)| file == name);
        let read = |name: &str| self.hub.read_file(id, name);
        let origin = |name: &str| format!("hf:{id}/{name}");
        if has(index::FILE) {
            let path = origin(index::FILE);
            return Index::parse(&read(index::FILE)?, Path::new(&path));
        }
        if !has("config.json") || !has("manifest.json") || !has("model.safetensors") {
            return Err(Error::Hub {
                name: format!("hf:{id}"),
                problem: "it has no index.json and no nerzoo model (config.json, model.safetensors, manifest.json)".into(),
            });
        }
        let path = origin("config.json");
        let config = ModelConfig::parse(&read("config.json")?, Path::new(&path))?;
        let metrics = if has("metrics.json") {
            serde_json::from_str(&read("metrics.json")?).unwrap_or_default()
        } else {
            Default::default()
        };
        let recipe = if has("recipe.toml") {
            Recipe::parse(&read("recipe.toml")?, "recipe.toml", &[]).ok()
        } else {
            None
        };
        let size = listing.iter().filter_map(|(_, size)| *size).sum();
        let name = id
            .name()
            .rsplit('/')
            .next()
            .filter(|name| is_model_name(name));
        let texts = SummaryTexts {
            config,
            metrics,
            recipe,
        };
        let summary = texts.summary(name.unwrap_or("model"), size, "–".into());
        Ok(Index {
            default: None,
            models: vec![summary],
        })
    }
}
