//! Descriptions of the keys of a recipe, from the types and their doc comments.

use super::{BundleWith, DataConfig, EncoderChoice, PredictConfig, Reported, TrainConfig, tenth};
use crate::data::ReadOptions;
use crate::encoder::ScratchConfig;
use crate::encoder::features::FeatureChoice;
use crate::heads::settings::{Setting, describe_table};

/// A table of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct TableKeys {
    /// Its name, such as `encoder.scratch`.
    pub name: &'static str,
    /// Its keys, without those of tables inside it.
    pub keys: Vec<Setting>,
}

/// All tables of a recipe but `[head]`, whose keys depend on the head.
pub fn tables() -> Vec<TableKeys> {
    let bundle = BundleWith {
        with: String::new(),
        alpha: tenth(),
    };
    let table = |name: &'static str, mut keys: Vec<Setting>| {
        let is_table = |key: &Setting| {
            key.name.contains('.')
                || matches!(key.name.as_str(), "options" | "scratch" | "features")
        };
        keys.retain(|key| !is_table(key));
        TableKeys { name, keys }
    };
    vec![
        table("data", describe_table::<DataConfig>(&DataConfig::default())),
        table(
            "data.options",
            describe_table::<ReadOptions>(&ReadOptions::default()),
        ),
        table(
            "encoder",
            describe_table::<EncoderChoice>(&EncoderChoice::default()),
        ),
        table(
            "encoder.features",
            describe_table::<FeatureChoice>(&FeatureChoice::default()),
        ),
        table(
            "encoder.scratch",
            describe_table::<ScratchConfig>(&ScratchConfig::default()),
        ),
        table("bundle", describe_table::<BundleWith>(&bundle)),
        table(
            "train",
            describe_table::<TrainConfig>(&TrainConfig::default()),
        ),
        table(
            "predict",
            describe_table::<PredictConfig>(&PredictConfig::default()),
        ),
        table("paper", describe_table::<Reported>(&Reported::default())),
    ]
}
