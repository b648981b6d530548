//! Token classifiers of the transformers library: `...ForTokenClassification` of all encoder families.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::card::CardMetadata;
use super::{make_folder, refuse_unsupported};
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, load};
use crate::error::{Error, Result};
use crate::heads::token_classifier::{HiddenLayer, TokenClassifier};
use crate::hub::{Found, Hub, RepoId};
use crate::model::card::last_part;
use crate::model::import::{EncoderWeights, ImportFacts, ImportedModel};
use crate::nn::host::HostArray;
use crate::registry;

/// The end of the class names of token classifiers.
const CLASS: &str = "ForTokenClassification";
/// Number of pieces that neighbouring windows of a long sentence share.
const OVERLAP: usize = 64;
/// First parts of the names of parameters after the encoder.
const TASK: [&str; 5] = ["classifier", "head", "pre_classifier", "qa_outputs", "crf"];

/// Imports a token classifier from a folder or from the hub. The model tags each word by its first piece, with the same scores.
/// Returns the folder or repository that it comes from.
pub fn import_transformers(name: &str, hub: &Hub, out: &Path, force: bool) -> Result<ImportFacts> {
    let unsupported = [name].into_iter().filter(|name| !Path::new(name).exists());
    refuse_unsupported(Path::new(name), unsupported)?;
    if Path::new(name).join("gliner_config.json").is_file() {
        refuse_unsupported(Path::new(name), ["gliner"].into_iter())?;
    }
    let found = load::find_task_model(name, hub)?;
    let folder = found.folder.as_path();
    let json = load::config_json(folder)?;
    let architecture = architecture(folder, &json)?;
    let transformer = load::config(folder)?;
    let classifier = classifier(folder, &json, transformer.dropout)?;
    if classifier.width() != transformer.width {
        return Err(Error::encoder(
            folder,
            format!(
                "classifier.weight is for states of width {}, but the encoder's have {}; the files do not belong together",
                classifier.width(),
                transformer.width
            ),
        ));
    }
    let tokenizer = WordTokenizer::from_folder(folder)?;
    let encoder = EncoderConfig {
        transformer,
        pooling: Pooling::First,
        layers: LayerPooling::Last,
        overlap: OVERLAP,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    };
    let facts = facts(&found, architecture);
    let write = registry::find(registry::TAGGER)?.import_tagger;
    make_folder(out, force, |inside| {
        let model = ImportedModel {
            encoder,
            weights: EncoderWeights::Folder(folder),
            features: None,
            tokenizer,
            facts: facts.clone(),
        };
        write(inside, &classifier, model)
    })?;
    Ok(facts)
}

fn fail(folder: &Path, problem: impl Into<String>) -> Error {
    Error::encoder(folder.join("config.json"), problem)
}

/// The class of the model, which has to be a token classifier.
fn architecture(folder: &Path, json: &Value) -> Result<String> {
    let listed = json["architectures"].as_array().into_iter().flatten();
    let classes: Vec<&str> = listed.filter_map(Value::as_str).collect();
    let model_type = json["model_type"].as_str();
    refuse_unsupported(folder, classes.iter().copied().chain(model_type))?;
    for key in ["is_decoder", "add_cross_attention"] {
        if json[key] == true {
            return Err(fail(
                folder,
                format!("{key} is true: decoders are not supported"),
            ));
        }
    }
    match classes.iter().find(|class| class.ends_with(CLASS)) {
        Some(class) => Ok(class.to_string()),
        None => Err(fail(
            folder,
            format!(
                "`architectures` names no class ...{CLASS}, but {classes:?}; only token classifiers can be imported (an \
                 encoder without a tagger is used by encoder.pretrained in a recipe)"
            ),
        )),
    }
}

/// The layers after the encoder.
fn classifier(folder: &Path, json: &Value, dropout: f64) -> Result<TokenClassifier> {
    let is_task = |name: &str| {
        let first = name.split('.').next().unwrap_or_default();
        TASK.contains(&first)
    };
    let mut weights = load::task_weights(folder, is_task)?;
    let mut take = |name: &str| {
        let missing = || Error::encoder(folder, format!("the weights have no {name}"));
        weights.remove(name).ok_or_else(missing)
    };
    let (weight, bias) = (take("classifier.weight")?, take("classifier.bias")?);
    let hidden = if json["model_type"] == "modernbert" {
        Some(hidden_layer(folder, json, &mut weights)?)
    } else {
        None
    };
    if let Some(name) = weights.keys().next() {
        return Err(Error::encoder(
            folder,
            format!(
                "{name} is not a parameter of a token classifier of this family; its results would differ"
            ),
        ));
    }
    let given = json["classifier_dropout"]
        .as_f64()
        .or(json["classifier_dropout_prob"].as_f64());
    let given = given.filter(|given| (0.0..1.0).contains(given));
    Ok(TokenClassifier {
        tags: tags(folder, json, weight.shape.first().copied().unwrap_or(0))?,
        weight,
        bias,
        hidden,
        dropout: given.unwrap_or(dropout),
    })
}

/// The hidden layer before the classifier of ModernBERT.
fn hidden_layer(
    folder: &Path,
    json: &Value,
    weights: &mut BTreeMap<String, HostArray>,
) -> Result<HiddenLayer> {
    let mut take = |name: &str| weights.remove(name);
    let missing = |name: &str| Error::encoder(folder, format!("the weights have no {name}"));
    let weight = take("head.dense.weight").ok_or_else(|| missing("head.dense.weight"))?;
    let norm_weight = take("head.norm.weight").ok_or_else(|| missing("head.norm.weight"))?;
    let width = norm_weight.values.len();
    let mut bias = |name: &str, key: &str| match (take(name), json[key] == true) {
        (Some(bias), _) => Ok(bias),
        (None, true) => Err(missing(name)),
        (None, false) => Ok(HostArray::zeros(&[width])),
    };
    let dense_bias = bias("head.dense.bias", "classifier_bias")?;
    let norm_bias = bias("head.norm.bias", "norm_bias")?;
    let name = json["classifier_activation"].as_str().unwrap_or("gelu");
    let activation =
        load::activation(name).map_err(|problem| fail(folder, format!("classifier_{problem}")))?;
    Ok(HiddenLayer {
        weight,
        bias: dense_bias,
        activation,
        norm_weight,
        norm_bias,
        norm_epsilon: json["norm_eps"].as_f64().unwrap_or(1e-5),
    })
}

/// The names of the tags by their numbers.
fn tags(folder: &Path, json: &Value, count: usize) -> Result<Vec<String>> {
    let Some(names) = json["id2label"].as_object() else {
        return Err(fail(
            folder,
            "there is no `id2label`, which names the tags; add it",
        ));
    };
    let mut tags = vec![None; count];
    for (number, name) in names {
        let index: Option<usize> = number.parse().ok();
        match (index.and_then(|index| tags.get_mut(index)), name.as_str()) {
            (Some(tag), Some(name)) => *tag = Some(name.to_string()),
            _ => {
                return Err(fail(
                    folder,
                    format!(
                        "id2label has {number:?}: {name}, but the classifier has the tags 0 to {}; correct the list",
                        count.saturating_sub(1)
                    ),
                ));
            }
        }
    }
    let given: Option<Vec<String>> = tags.iter().cloned().collect();
    let Some(given) = given else {
        let missing = tags.iter().position(Option::is_none).unwrap_or(0);
        return Err(fail(
            folder,
            format!("id2label has no name for the tag {missing}; the classifier has {count} tags"),
        ));
    };
    let is_default = |(index, name): (usize, &String)| *name == format!("LABEL_{index}");
    if given.iter().enumerate().all(is_default) {
        return Err(fail(
            folder,
            "id2label has the names LABEL_0, LABEL_1, ... that stand for no names; write the real names of the tags there",
        ));
    }
    Ok(given)
}

/// Where the model comes from, from its folder and its card.
fn facts(found: &Found, architecture: String) -> ImportFacts {
    let card = CardMetadata::read(&found.folder);
    let is_repository = |name: &String| name.parse::<RepoId>().is_ok();
    let path = found.folder.canonicalize().unwrap_or(found.folder.clone());
    let name = match &found.origin {
        Some(origin) => origin.repository.clone(),
        None => last_part(&path.to_string_lossy()),
    };
    ImportFacts {
        name,
        program: "transformers".into(),
        architecture,
        origin: found.origin.clone(),
        licence: card.licence,
        base_model: card.base_model.filter(is_repository),
        corpus: card.corpus,
        language: card.language,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_need_one_name_each() {
        let folder = Path::new("m");
        let read = |names: Value, count| {
            tags(folder, &json!({"id2label": names}), count).map_err(|problem| problem.to_string())
        };
        assert_eq!(
            read(json!({"1": "I-A", "0": "O"}), 2).unwrap(),
            ["O", "I-A"]
        );
        for (names, count, problem) in [
            (json!(null), 2, "no `id2label`"),
            (json!({"0": "O"}), 2, "no name for the tag 1"),
            (json!({"0": "O", "2": "A"}), 2, "0 to 1"),
            (json!({"0": "O", "x": "A"}), 2, "\"x\""),
            (json!({"0": "O", "1": 7}), 2, "\"1\""),
            (json!({"0": "LABEL_0", "1": "LABEL_1"}), 2, "LABEL_0"),
            (json!({"0": "O"}), 0, "0 to 0"),
        ] {
            let found = read(names, count).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
