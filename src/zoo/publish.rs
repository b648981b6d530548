//! Publishing: a trained model becomes a folder of a zoo, with a card filled from its run.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::draft::Draft;
use super::index;
use super::places::{NAME_RULE, is_model_name};
use super::quantize::{check_tolerance, size};
use super::staging;
use super::summary::ModelSummary;
use super::verify::verify;
use crate::error::{Error, Result};
use crate::hub::RepoId;
use crate::model::folder::REQUIRED;
use crate::model::manifest::{self, Manifest};
use crate::model::quantize::write_int8;
use crate::model::weights_file;
use crate::registry;

/// How the weights of a published model are stored. A format with fewer bits is a variant here and a line in
/// `WeightsFormat::write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightsFormat {
    /// As they were trained.
    #[default]
    AsTrained,
    /// 16-bit floats.
    Half,
    /// The encoder's linear layers and embedding tables in eight bits.
    Int8,
}

impl WeightsFormat {
    /// Writes the weights of a model folder into another one.
    fn write(self, source: &Path, target: &Path) -> Result<()> {
        match self {
            Self::AsTrained => copy(source, target),
            Self::Half => weights_file::write_half(source, target),
            Self::Int8 => write_int8(source, target),
        }
    }
}

/// What to publish, and where.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// The name of the published model.
    pub name: String,
    /// The folder that gets a folder of this name.
    pub to: PathBuf,
    /// How the weights are stored.
    pub weights: WeightsFormat,
    /// The largest loss of F1 by weights in eight bits, in points of percent.
    pub tolerance: f64,
    /// The name of the encoder on the hub, `owner/name`, if the run does not know it.
    pub base_model: Option<String>,
    /// The licence of the encoder, if the recipe does not give it.
    pub encoder_licence: Option<String>,
    /// The licence identifier of the card's metadata, such as `apache-2.0`; by default `other`.
    pub licence: Option<String>,
    /// Tag the corpus again, for the bootstrap interval and the kinds of errors, with the weights as they are stored.
    pub score: bool,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Folders of named corpora.
    pub roots: Vec<PathBuf>,
    /// The device for scoring.
    pub device: Device,
    /// Replace a model of this name.
    pub force: bool,
}

/// A published model.
#[derive(Debug)]
pub struct Published {
    /// Its folder.
    pub folder: PathBuf,
    /// The facts about it.
    pub summary: ModelSummary,
    /// What the card could not say, each with a remedy.
    pub notes: Vec<String>,
}

/// Publishes the model of a run folder or model folder. `report` gets a line about each step. The folder appears when it is
/// complete and was checked; if it is in a zoo's `models`, the zoo's index is written as well.
pub fn publish(
    source: &Path,
    options: &PublishOptions,
    report: &dyn Fn(&str),
) -> Result<Published> {
    options.check()?;
    let target = options.to.join(&options.name);
    if target.exists() && !options.force {
        return Err(Error::model_folder(
            &target,
            "a model of this name is there already; choose another --name, or replace it with --force",
        ));
    }
    report("checking the model");
    check_source(source)?;
    let mut draft = Draft::read(source, options)?;
    fs::create_dir_all(&options.to).map_err(|problem| Error::io(&options.to, problem))?;
    let staged = staging::temporary(&options.to)?;
    let folder = staged.path();
    report("writing the weights");
    copy(
        &source.join("tokenizer.json"),
        &folder.join("tokenizer.json"),
    )?;
    let weights = folder.join("model.safetensors");
    let trained = source.join("model.safetensors");
    options.weights.write(&trained, &weights)?;
    draft.describe_weights(&weights, [size(&trained)?, size(&weights)?])?;
    draft.texts.write(folder)?;
    report("loading the model");
    let tagger = registry::load(folder, &options.device, &[])?;
    draft.texts.nested = tagger.nested();
    if options.score {
        report("scoring");
        draft.score(&*tagger, source, options)?;
    }
    draft.texts.write(folder)?;
    verify(folder)?;
    let summary = ModelSummary::read(folder, &options.name)?;
    staging::install(staged, &target)?;
    index::update(&options.to)?;
    Ok(Published {
        folder: target,
        summary,
        notes: draft.notes,
    })
}

/// Fails unless a folder has a finished model with its recipe and scores, and its files are what the manifest says.
pub(super) fn check_source(source: &Path) -> Result<()> {
    if !source.join(manifest::FILE).is_file() {
        return Err(Error::model_folder(
            source,
            "no manifest.json here: the run is not finished; continue it with `nerzoo train --resume`",
        ));
    }
    let listed = Manifest::read(source)?;
    listed.require(&REQUIRED, source)?;
    listed.require(&["recipe.toml", "metrics.json"], source)?;
    manifest::verify_files(source, &listed)
}

impl PublishOptions {
    fn check(&self) -> Result<()> {
        check_tolerance(self.tolerance)?;
        if !is_model_name(&self.name) {
            return Err(Error::Config(format!(
                "--name {:?}: {NAME_RULE}",
                self.name
            )));
        }
        if let Some(name) = &self.base_model {
            let id: std::result::Result<RepoId, String> = name.parse();
            let is_owned = id.as_ref().is_ok_and(|id| id.name().contains('/'));
            if !is_owned || name.starts_with('.') {
                return Err(Error::Config(format!(
                    "--base-model {name:?} is not a name on the hub such as sentence-transformers/all-MiniLM-L6-v2"
                )));
            }
        }
        let is_id = |text: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.+".contains(&byte);
            (1..=60).contains(&text.len()) && text.bytes().all(is_allowed)
        };
        match self.licence.as_deref().filter(|text| !is_id(text)) {
            Some(text) => Err(Error::Config(format!(
                "--licence {text:?} is not a licence identifier such as apache-2.0 or cc-by-4.0"
            ))),
            None => Ok(()),
        }
    }
}

pub(super) fn copy(source: &Path, target: &Path) -> Result<()> {
    fs::copy(source, target)
        .map(|_| ())
        .map_err(|problem| Error::io(target, problem))
}
