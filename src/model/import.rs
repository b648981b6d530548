//! Models made of the weights of other programs.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use toml::Table;

use super::card::{ImportedCard, imported_card};
use super::folder::{self, ModelConfig, ModelFiles};
use super::recognizer::Recognizer;
use crate::device;
use crate::encoder::features::FeatureChoice;
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::transformer::TransformerConfig;
use crate::encoder::{EncoderConfig, load};
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::heads::import::ImportedHead;
use crate::heads::released::ReleasedSettings;
use crate::heads::settings::Settings;
use crate::hub::Origin;
use crate::nn::host::HostArray;
use crate::recipe::{DataConfig, EncoderChoice, PredictConfig, Recipe, TrainConfig};

/// The name of a corpus that an imported model's files do not name.
const UNKNOWN: &str = "unknown";

/// What an imported model has besides its head.
#[derive(Debug)]
pub struct ImportedModel<'a> {
    /// Sizes and settings of the encoder.
    pub encoder: EncoderConfig,
    /// Where its weights are.
    pub weights: EncoderWeights<'a>,
    /// The weights of word features, as the bytes of a safetensors file.
    pub features: Option<Vec<u8>>,
    /// The tokenizer.
    pub tokenizer: WordTokenizer,
    /// Where it comes from.
    pub facts: ImportFacts,
}

/// Where the weights of an encoder are.
#[derive(Debug)]
pub enum EncoderWeights<'a> {
    /// In a folder in the Hugging Face layout.
    Folder(&'a Path),
    /// In memory, as the bytes of a safetensors file with Hugging Face names.
    Bytes(Vec<u8>),
}

/// Where an imported model comes from, for its card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportFacts {
    /// The model for people: its name on a hub, or the last part of its path.
    pub name: String,
    /// The program that it was made for.
    pub program: String,
    /// Its class in that program.
    pub architecture: String,
    /// The repository and commit, if known.
    pub origin: Option<Origin>,
    /// The licence identifier, if known.
    pub licence: Option<String>,
    /// The name on a hub of the encoder that it was trained from, if known.
    pub base_model: Option<String>,
    /// The corpus, if known.
    pub corpus: Option<String>,
    /// The language tag, if known.
    pub language: Option<String>,
}

/// Writes a model folder with the weights of another program.
pub fn write<H: Head>(
    folder: &Path,
    head: ImportedHead<H::Config>,
    model: ImportedModel<'_>,
) -> Result<()> {
    let check = |result: Result<(), String>, what: &str| {
        result.map_err(|problem| Error::Config(format!("{what} to import: {problem}")))
    };
    head.config.check()?;
    check(head.labels.check(), "the entity types")?;
    check(model.encoder.check(), "the encoder")?;
    check(
        model.tokenizer.check_fits(&model.encoder.transformer),
        "the model",
    )?;
    H::fits(&head.config, model.encoder.width())?;
    let device = device::cpu();
    let mut built = Recognizer::<H>::new(&model.encoder, &head.config, &head.labels, &device);
    let transformer = &mut built.encoder.transformer;
    match model.weights {
        EncoderWeights::Folder(source) => load::weights(transformer, source)?,
        EncoderWeights::Bytes(bytes) => load::weights_from_bytes(transformer, bytes)?,
    }
    if let (Some(features), Some(bytes)) = (&mut built.encoder.features, model.features) {
        folder::load_weights_from_bytes(features, bytes)?;
    }
    folder::load_weights_from_bytes(&mut built.head, head.weights)?;
    let facts = &model.facts;
    let mut config = ModelConfig::new::<H>(&head.config, &head.labels, &model.encoder);
    config.encoder_origin = facts.origin.clone();
    let recipe = recipe::<H>(&head.config, &model.encoder, facts)?;
    let files = ModelFiles {
        model: &built,
        config,
        tokenizer: &model.tokenizer,
        recipe: recipe.to_toml()?,
        metrics: json!({"imported": {
            "program": facts.program,
            "architecture": facts.architecture,
            "model": facts.name,
            "commit": facts.origin.as_ref().map(|origin| &origin.commit),
            "licence": facts.licence,
        }}),
        card: imported_card(&ImportedCard {
            facts,
            head: &H::name(),
            labels: &head.labels,
            nested: built.head.nested(),
        }),
        half: false,
    };
    folder::write(folder, &files)
}

/// The parts of a checkpoint that the authors of a paper trained.
#[derive(Debug)]
pub struct ReleasedFiles<'a> {
    /// All weights by the names that the authors' program gives them.
    pub weights: BTreeMap<String, HostArray>,
    /// The settings of the authors' program.
    pub settings: &'a ReleasedSettings,
    /// Sizes of the encoder.
    pub transformer: TransformerConfig,
    /// Its tokenizer.
    pub tokenizer: WordTokenizer,
    /// Where the checkpoint comes from.
    pub facts: ImportFacts,
}

/// Writes a model folder with the weights of a checkpoint that the authors' program wrote.
pub fn write_released<H: Head>(folder: &Path, files: ReleasedFiles<'_>) -> Result<()> {
    let released = H::from_released(files.weights, files.settings)?;
    let (features, bytes) = released.features.unzip();
    let model = ImportedModel {
        encoder: EncoderConfig {
            transformer: files.transformer,
            pooling: released.pooling,
            layers: released.layers,
            overlap: EncoderChoice::default().overlap,
            context: released.context,
            rows: released.rows,
            features,
        },
        weights: EncoderWeights::Bytes(released.encoder),
        features: bytes,
        tokenizer: files.tokenizer,
        facts: files.facts,
    };
    write::<H>(folder, released.head, model)
}

/// A recipe that describes the model. It was not trained with it, so what concerns training has the defaults.
fn recipe<H: Head>(
    head: &H::Config,
    encoder: &EncoderConfig,
    facts: &ImportFacts,
) -> Result<Recipe> {
    let mut table = Table::try_from(head)
        .map_err(|problem| Error::Config(format!("the settings of {}: {problem}", H::name())))?;
    table.insert("name".into(), H::name().into());
    Ok(Recipe {
        about: format!(
            "Imported from {} ({}); it was not trained with this recipe.",
            facts.name, facts.program
        ),
        data: DataConfig {
            corpus: Some(facts.corpus.clone().unwrap_or_else(|| UNKNOWN.into())),
            ..DataConfig::default()
        },
        encoder: EncoderChoice {
            pretrained: Some(facts.base_model.clone().unwrap_or(facts.name.clone())),
            licence: facts.licence.clone(),
            pooling: encoder.pooling,
            layers: encoder.layers,
            overlap: encoder.overlap,
            context: encoder.context,
            features: FeatureChoice::default(),
            ..EncoderChoice::default()
        },
        head: table,
        bundle: None,
        train: TrainConfig::default(),
        predict: PredictConfig::default(),
        sample: None,
        paper: None,
    })
}
