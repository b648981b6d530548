//! Models as folders of the transformers library.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::import::make_folder;
use super::summary;
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::transformer::{EncoderFamily, Layout};
use crate::encoder::{EncoderConfig, LayerPooling, Pooling, RowLayout, export, weight_files};
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::heads::token_classifier::TokenClassifier;
use crate::model::card::{code, markdown, yaml};
use crate::model::folder::ModelConfig;
use crate::nn::host::HostArray;
use crate::recipe::set::Assignment;
use crate::registry;

/// Longest `tokenizer.json` that is read, in bytes.
const LONGEST_TOKENIZER: u64 = 256 << 20;
/// The prefix of the encoder's weights in a model folder.
const ENCODER: &str = "encoder.transformer.";

/// Writes a model as a folder that the transformers library loads, with the same tags for every word. Fails, with the reason,
/// if no model there gives them. `overrides` replace settings of the head.
pub fn export_transformers(
    folder: &Path,
    overrides: &[Assignment],
    out: &Path,
    force: bool,
) -> Result<()> {
    let entry = registry::find(&ModelConfig::read(folder)?.head)?;
    let (config, classifier) = (entry.export_tagger)(folder, overrides)?;
    let is_quantized = config.quantization.is_some();
    let quantized = "its weights are in eight bits; export the model that it was made from";
    let checked = if is_quantized {
        Err(quantized.into())
    } else {
        check(&config.encoder, &classifier)
    };
    checked
        .map_err(|problem| Error::model_folder(folder, format!("cannot be exported: {problem}")))?;
    let weights = weights(folder, &config.encoder, &classifier)?;
    let tokenizer = folder.join("tokenizer.json");
    let pieces = WordTokenizer::from_file(&tokenizer)?;
    let tokenizer_json = tokenizer_json(&tokenizer, &pieces)?;
    make_folder(out, force, |inside| {
        let put = |name: &str, text: String| {
            let path = inside.join(name);
            fs::write(&path, text).map_err(|problem| Error::io(&path, problem))
        };
        put(
            "config.json",
            format!(
                "{:#}\n",
                model_config(&config.encoder, &classifier, &pieces)
            ),
        )?;
        put("tokenizer.json", tokenizer_json.to_string())?;
        put(
            "tokenizer_config.json",
            format!("{:#}\n", tokenizer_config(&pieces, &config.encoder)),
        )?;
        put("README.md", card(folder, &config))?;
        write_weights(&weights, &inside.join("model.safetensors"))
    })
}

/// Fails, with the reason, unless the states that the classifier reads are those of the transformers library.
fn check(encoder: &EncoderConfig, classifier: &TokenClassifier) -> Result<(), String> {
    let refuse = |what: &str| {
        Err(format!(
            "{what}; no token classifier of transformers does that"
        ))
    };
    if encoder.pooling != Pooling::First {
        return refuse(
            "encoder.pooling is not \"first\": the state of a word is computed from all of its pieces (train with \
             encoder.pooling = \"first\")",
        );
    }
    if encoder.layers != LayerPooling::Last {
        return refuse("encoder.layers is not \"last\": several layers are averaged");
    }
    if encoder.context > 0 || encoder.rows != RowLayout::Standard {
        return refuse("neighbouring sentences are read with each one (encoder.context)");
    }
    if encoder.features.is_some() {
        return refuse("it has word features (encoder.features)");
    }
    let has_hidden = encoder.transformer.family == EncoderFamily::Modernbert;
    match (has_hidden, &classifier.hidden) {
        (true, None) => Err(
            "a token classifier of ModernBERT always has a hidden layer before the tagger; train with head.transform = \"gelu\""
                .into(),
        ),
        (false, Some(_)) => refuse("it has a hidden layer before the tagger (head.transform), which only ModernBERT has there"),
        (true, Some(hidden)) if hidden.norm_epsilon != encoder.transformer.norm_epsilon => {
            refuse("head.transform_epsilon differs from the encoder's epsilon")
        }
        _ => Ok(()),
    }
}

/// All weights under the names of the transformers library.
fn weights(
    folder: &Path,
    encoder: &EncoderConfig,
    classifier: &TokenClassifier,
) -> Result<BTreeMap<String, HostArray>> {
    let path = folder.join("model.safetensors");
    let own = weight_files::file_weights(&path)?.into_iter();
    let own =
        own.filter_map(|(name, array)| Some((name.strip_prefix(ENCODER)?.to_string(), array)));
    let mut all = export::weights(&encoder.transformer, own.collect())
        .map_err(|problem| Error::model_folder(&path, format!("cannot be exported: {problem}")))?;
    let mut bias = classifier.bias.clone();
    let mut insert = |name: &str, array: &HostArray| all.insert(name.into(), array.clone());
    insert("classifier.weight", &classifier.weight);
    if let Some(hidden) = &classifier.hidden {
        insert("head.dense.weight", &hidden.weight);
        insert("head.dense.bias", &hidden.bias);
        insert("head.norm.weight", &hidden.norm_weight);
        if has_norm_bias(encoder) {
            insert("head.norm.bias", &hidden.norm_bias);
        } else {
            // W (x + b) + c = W x + (W b + c)
            let rows = classifier.weight.values.chunks(classifier.width().max(1));
            for (bias, row) in bias.values.iter_mut().zip(rows) {
                let products = row.iter().zip(&hidden.norm_bias.values);
                *bias += products.map(|(weight, value)| weight * value).sum::<f32>();
            }
        }
    }
    insert("classifier.bias", &bias);
    Ok(all)
}

/// Whether layer norms of the family have a bias with these settings.
fn has_norm_bias(encoder: &EncoderConfig) -> bool {
    !matches!(&encoder.transformer.layout, Layout::Modernbert(layout) if !layout.norm_bias)
}

fn model_config(
    encoder: &EncoderConfig,
    classifier: &TokenClassifier,
    pieces: &WordTokenizer,
) -> Value {
    let (_, class, _) = export::family_names(encoder.transformer.family);
    let mut config = export::config(&encoder.transformer);
    let tags = || classifier.tags.iter().enumerate();
    config.insert(
        "architectures".into(),
        json!([format!("{class}ForTokenClassification")]),
    );
    let names = tags().map(|(number, tag)| (number.to_string(), Value::from(tag.as_str())));
    config.insert("id2label".into(), Value::Object(names.collect()));
    let numbers = tags().map(|(number, tag)| (tag.clone(), Value::from(number)));
    config.insert("label2id".into(), Value::Object(numbers.collect()));
    config.insert("classifier_dropout".into(), classifier.dropout.into());
    let (cls, sep) = (pieces.cls_id(), pieces.sep_id());
    for (key, id) in [("bos_token_id", cls), ("eos_token_id", sep)] {
        config.insert(key.into(), id.into());
    }
    if let Some(hidden) = &classifier.hidden {
        config.insert("cls_token_id".into(), cls.into());
        config.insert("sep_token_id".into(), sep.into());
        config.insert("classifier_bias".into(), true.into());
        let activation = export::activation_name(hidden.activation);
        config.insert("classifier_activation".into(), activation.into());
    }
    Value::Object(config)
}

/// The tokenizer. It puts the special pieces around a text. Those that mark words by the space before them put one before a
/// text, too, as this program does.
fn tokenizer_json(path: &Path, pieces: &WordTokenizer) -> Result<Value> {
    let text = read_text(path, LONGEST_TOKENIZER)?;
    let mut json: Value = serde_json::from_str(&text)
        .map_err(|problem| Error::model_folder(path, format!("not JSON: {problem}")))?;
    for (key, list) in [
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
    ] {
        for part in parts_mut(&mut json, key, list) {
            if let Some(space) = part.get_mut("add_prefix_space") {
                *space = true.into();
            }
        }
    }
    let adds_pieces = |part: &Value| {
        let kinds = ["TemplateProcessing", "BertProcessing", "RobertaProcessing"];
        kinds.iter().any(|kind| part["type"] == *kind)
    };
    let mut processors = parts_mut(&mut json, "post_processor", "processors");
    if !processors.iter().any(|part| adds_pieces(part)) {
        let mut all: Vec<Value> = processors.drain(..).map(|part| part.take()).collect();
        all.push(template(pieces));
        json["post_processor"] = match all.len() {
            1 => all.remove(0),
            _ => json!({"type": "Sequence", "processors": all}),
        };
    }
    Ok(json)
}

/// The parts of a step of a tokenizer: those of its list, or itself, or none.
fn parts_mut<'a>(json: &'a mut Value, key: &str, list: &str) -> Vec<&'a mut Value> {
    match json.get_mut(key) {
        Some(step) if step.get(list).is_some_and(Value::is_array) => {
            let parts = step.get_mut(list).and_then(Value::as_array_mut);
            parts.into_iter().flatten().collect()
        }
        Some(step) if step.is_object() => vec![step],
        _ => Vec::new(),
    }
}

/// The step that puts the special pieces around a text.
fn template(pieces: &WordTokenizer) -> Value {
    let [cls, sep] = [pieces.cls_id(), pieces.sep_id()];
    let name = |id: u32| pieces.piece(id).unwrap_or_default();
    let special = |id: u32| json!({"SpecialToken": {"id": name(id), "type_id": 0}});
    let text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let token = |id: u32| json!({"id": name(id), "ids": [id], "tokens": [name(id)]});
    json!({
        "type": "TemplateProcessing",
        "single": [special(cls), text("A"), special(sep)],
        "pair": [special(cls), text("A"), special(sep), text("B"), special(sep)],
        "special_tokens": {name(cls): token(cls), name(sep): token(sep)},
    })
}

fn tokenizer_config(pieces: &WordTokenizer, encoder: &EncoderConfig) -> Value {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": encoder.transformer.window(),
        "clean_up_tokenization_spaces": false,
    });
    for (name, id) in [
        ("cls_token", pieces.cls_id()),
        ("sep_token", pieces.sep_id()),
        ("pad_token", pieces.padding_id()),
        ("unk_token", pieces.unknown_id()),
    ] {
        config[name] = pieces.piece(id).into();
    }
    config
}

fn write_weights(weights: &BTreeMap<String, HostArray>, path: &Path) -> Result<()> {
    let fail = |problem: String| Error::model_folder(path, problem);
    let bytes: Vec<Vec<u8>> = (weights.values())
        .map(|array| {
            array
                .values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        })
        .collect();
    let mut views = Vec::with_capacity(weights.len());
    for ((name, array), bytes) in weights.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes);
        views.push((
            name,
            view.map_err(|problem| fail(format!("{name}: {problem}")))?,
        ));
    }
    // Without this, older versions of the library refuse the file.
    let about = HashMap::from([("format".to_string(), "pt".to_string())]);
    safetensors::serialize_to_file(views, Some(about), path)
        .map_err(|problem| fail(problem.to_string()))
}

/// A short card. Licences are those of the model.
fn card(folder: &Path, config: &ModelConfig) -> String {
    let metrics = summary::metrics(folder).unwrap_or(Value::Null);
    let licence = ["publication", "imported"]
        .iter()
        .find_map(|key| metrics[key]["licence"].as_str());
    let name = metrics["publication"]["name"]
        .as_str()
        .unwrap_or(&config.head);
    let types: Vec<String> = config
        .labels
        .names()
        .iter()
        .map(|name| markdown(name))
        .collect();
    format!(
        "---\nlibrary_name: transformers\npipeline_tag: token-classification\nlicense: {}\ntags: [\"nerzoo\", \
         \"named-entity-recognition\"]\n---\n\n# {}\n\nA {} model of nerzoo {}, exported for transformers. Finds flat \
         entities of {} types: {}. A word has the tag of its first piece:\n\n```python\npipeline(\"token-classification\", \
         FOLDER, aggregation_strategy=\"first\")\n```\n",
        yaml(licence.unwrap_or("other")),
        markdown(name),
        code(&config.head),
        markdown(&config.nerzoo),
        types.len(),
        types.join(", ")
    )
}
