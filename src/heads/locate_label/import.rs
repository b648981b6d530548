//! Weights of the authors' Locate and Label.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::Config;
use crate::encoder::features::{FeatureConfig, LstmInput};
use crate::encoder::vocabulary::FeatureVocabulary;
use crate::encoder::{LayerPooling, Pooling, RowLayout};
use crate::error::{Error, Result};
use crate::heads::import::{Arrays, Imported, ImportedHead, Layout, Rename, problem};
use crate::heads::released::{ReleasedModel, ReleasedSettings, class_order};
use crate::heads::settings::{Preset, Settings};
use crate::nn::host::HostArray;

/// Longest seed span.
const LONGEST_WINDOW: usize = 10_000;

/// The prefix of the encoder's parameters.
const ENCODER: &str = "bert.";

/// The head's parameters; the spelling is the authors'.
pub const PARAMETERS: &[Rename] = &[
    (
        "binary_classfier.0.weight",
        "filter.inner.weight",
        Layout::Transposed,
    ),
    ("binary_classfier.0.bias", "filter.inner.bias", Layout::Same),
    (
        "binary_classfier.2.weight",
        "filter.outer.weight",
        Layout::Transposed,
    ),
    ("binary_classfier.2.bias", "filter.outer.bias", Layout::Same),
    (
        "offset_regressier1.0.weight",
        "regressor.inner.weight",
        Layout::Transposed,
    ),
    (
        "offset_regressier1.0.bias",
        "regressor.inner.bias",
        Layout::Same,
    ),
    (
        "offset_regressier1.2.weight",
        "regressor.outer.weight",
        Layout::Transposed,
    ),
    (
        "offset_regressier1.2.bias",
        "regressor.outer.bias",
        Layout::Same,
    ),
    (
        "entity_classifier.0.weight",
        "classifier.inner.weight",
        Layout::Transposed,
    ),
    (
        "entity_classifier.0.bias",
        "classifier.inner.bias",
        Layout::Same,
    ),
    (
        "entity_classifier.2.weight",
        "classifier.outer.weight",
        Layout::Transposed,
    ),
    (
        "entity_classifier.2.bias",
        "classifier.outer.bias",
        Layout::Same,
    ),
];

/// Parameters of the token representation, which is [`WordFeatures`](crate::encoder::features::WordFeatures) here, except those
/// of its two BiLSTMs, which are rearranged.
pub const FEATURES: &[Rename] = &[
    ("pos_embedding.weight", "pos.weight", Layout::Same),
    ("wordvec_embedding.weight", "word_vectors", Layout::Same),
    (
        "char_embedding.weight",
        "characters.embedding.weight",
        Layout::Same,
    ),
    (
        "reduce_dimension.weight",
        "projection.weight",
        Layout::Transposed,
    ),
    ("reduce_dimension.bias", "projection.bias", Layout::Same),
];

/// Imports weights of the authors' Locate and Label. Features and stages may be missing; an unknown name is an error.
pub(super) fn import(weights: &[u8]) -> Result<Imported> {
    let given = convert(Arrays::read(weights)?)?;
    Ok(Imported {
        encoder: given.encoder.write()?,
        head: given.head.write()?,
        features: Some(given.features.write()?),
    })
}

/// The weights of the parts of a model.
struct ModelArrays {
    encoder: Arrays,
    head: Arrays,
    features: Arrays,
}

fn convert(mut given: Arrays) -> Result<ModelArrays> {
    let encoder = given.split(ENCODER);
    let head = given.renamed(PARAMETERS);
    let mut features = given.renamed(FEATURES);
    if given.0.contains_key("char_lstm.weight_ih_l0") {
        given.move_bilstm("char_lstm.", 0, "characters.lstm.", &mut features)?;
    }
    given.move_bilstm_layers(&mut features)?;
    given.expect_empty("Locate and Label")?;
    Ok(ModelArrays {
        encoder,
        head,
        features,
    })
}

/// The model of a checkpoint. Sizes come from the weights. The settings give decoding and dropout, and the vocabulary of the
/// authors' reader, which no file of a checkpoint has: `word2inx` and `pos_map`.
pub(super) fn released(
    weights: BTreeMap<String, HostArray>,
    settings: &ReleasedSettings,
) -> Result<ReleasedModel<Config>> {
    for (key, supported) in [
        ("use_size_embedding", Value::from(false)),
        ("no_times_count", false.into()),
        ("pool_type", "max".into()),
        ("norm", "sigmoid".into()),
    ] {
        settings.only(key, supported)?;
    }
    let mut model = convert(Arrays::of(weights)?)?;
    let defaults = Config::of(Preset::Released);
    let stage = |key: &str| Ok::<bool, Error>(!settings.flag(key)?.unwrap_or(false));
    let config = Config {
        windows: windows(settings)?.unwrap_or(defaults.windows),
        positive_iou: settings.number("iou_spn")?.unwrap_or(defaults.positive_iou),
        match_iou: settings
            .number("iou_classifier")?
            .unwrap_or(defaults.match_iou),
        negatives: settings
            .count("neg_entity_count")?
            .unwrap_or(defaults.negatives),
        filter: stage("no_filter")?,
        filter_ratio: settings
            .number("spn_filter")?
            .unwrap_or(defaults.filter_ratio),
        regressor: stage("no_regressor")?,
        sentence_context: settings
            .flag("use_entity_ctx")?
            .unwrap_or(defaults.sentence_context),
        dropout: settings.number("prop_drop")?.unwrap_or(defaults.dropout),
        threshold: settings.number("nms")?.unwrap_or(defaults.threshold),
        ..Config::of(Preset::Released)
    };
    // The stages that a model does not have are not loaded.
    for (is_there, prefix) in [(config.filter, "filter."), (config.regressor, "regressor.")] {
        if !is_there {
            drop(model.head.split(prefix));
        }
    }
    let (weight, bias) = (
        model.head.take("classifier.outer.weight")?,
        model.head.take("classifier.outer.bias")?,
    );
    let (labels, order) = settings.types(bias.values.len().saturating_sub(1))?;
    let order = class_order(&order);
    let weight = weight.transposed().select_rows(&order).transposed();
    model
        .head
        .0
        .insert("classifier.outer.weight".into(), weight);
    model
        .head
        .0
        .insert("classifier.outer.bias".into(), bias.select_rows(&order));
    let features = features(&model.features, settings)?;
    Ok(ReleasedModel {
        head: ImportedHead {
            config,
            labels,
            weights: model.head.write()?,
        },
        encoder: model.encoder.write()?,
        features: Some((features, model.features.write()?)),
        pooling: Pooling::Max,
        layers: LayerPooling::MeanOfLastFour,
        context: settings.count("context")?.unwrap_or(1),
        rows: RowLayout::Standard,
    })
}

/// The lengths of the seed spans: the settings have lengths less one, and one number stands for all below it.
fn windows(settings: &ReleasedSettings) -> Result<Option<Vec<usize>>> {
    let Some(value) = settings.get("window_size").or(settings.get("window_sizes")) else {
        return Ok(None);
    };
    let list = value.as_array().and_then(|list| {
        let numbers = list.iter().map(|item| usize::try_from(item.as_u64()?).ok());
        numbers.collect::<Option<Vec<usize>>>()
    });
    let is_small = |list: &Vec<usize>| list.iter().all(|length| *length < LONGEST_WINDOW);
    match list.filter(is_small).as_deref() {
        Some([count]) => Ok(Some((1..=*count).collect())),
        Some(list) => Ok(Some(list.iter().map(|length| length + 1).collect())),
        None => Err(problem(format!(
            "window_size = {value} in the settings is not a list of lengths below {LONGEST_WINDOW}"
        ))),
    }
}

/// The sizes of the word features, and their vocabulary.
fn features(weights: &Arrays, settings: &ReleasedSettings) -> Result<FeatureConfig> {
    let size = |name: &str, dimension: usize| {
        let array = weights.0.get(name);
        array
            .and_then(|array| array.shape.get(dimension))
            .copied()
            .unwrap_or(0)
    };
    let rows = |name: &str| size(name, 0).saturating_sub(1);
    let words = match rows("word_vectors") {
        0 => Vec::new(),
        count => words(settings, count)?,
    };
    // The table of parts of speech has rows that no tag uses.
    let count = rows("pos.weight");
    let mut tags = settings.texts("pos_map")?.unwrap_or_default();
    if count > 0 && tags.is_empty() {
        return Err(problem(
            "the settings have no `pos_map`: the list of parts of speech of the authors' reader, in the order of their numbers"
                .into(),
        ));
    }
    tags = tags.into_iter().skip(1).take(count).collect();
    tags.extend((tags.len() + 1..=count).map(|row| format!("row {row}")));
    let layers =
        (0..).take_while(|layer| weights.0.contains_key(&format!("lstm.{layer}.recurrent")));
    let is_before = settings.flag("bert_before_lstm")?.unwrap_or(true);
    Ok(FeatureConfig {
        vocabulary: FeatureVocabulary { words, tags },
        vector_width: size("word_vectors", 1),
        pos_width: size("pos.weight", 1),
        character_width: 2 * size("characters.embedding.weight", 1),
        dropout: settings.number("prop_drop")?.unwrap_or(0.5),
        lstm_layers: layers.count(),
        lstm_over: if is_before {
            LstmInput::All
        } else {
            LstmInput::Features
        },
        lstm_dropout: settings.number("lstm_drop")?.unwrap_or(0.2),
    })
}

/// The words that have a vector, in the order of their numbers from 1 on.
fn words(settings: &ReleasedSettings, count: usize) -> Result<Vec<String>> {
    let Some(Value::Object(numbers)) = settings.get("word2inx") else {
        return Err(problem(
            "the settings have no `word2inx`: the numbers of the words that have a vector, as the authors' reader makes them"
                .into(),
        ));
    };
    let mut words = vec![None; count];
    for (word, number) in numbers {
        let number = number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        match number {
            Some(0) => {} // unknown words
            Some(number) if number <= count && !word.contains(char::is_whitespace) => {
                words[number - 1] = Some(word.clone());
            }
            _ => {
                return Err(problem(format!(
                    "word2inx has {word:?}, but its table has the words 1 to {count}"
                )));
            }
        }
    }
    // A row that no word has is never looked up.
    let words = words.into_iter().enumerate();
    Ok(words
        .map(|(row, word)| word.unwrap_or_else(|| format!("\u{1}{row}")))
        .collect())
}
