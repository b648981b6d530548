//! Checkpoints that papers' authors trained with their own programs.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::make_folder;
use crate::encoder::tokenizer::WordTokenizer;
use crate::encoder::{load, weight_files};
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::heads::released::ReleasedSettings;
use crate::hub::Hub;
use crate::model::card::{hub_name, last_part};
use crate::model::import::{ImportFacts, ReleasedFiles};
use crate::registry;

/// Longest file of settings or types that is read, in bytes. That of Locate and Label may have a vocabulary.
const LONGEST_SETTINGS: u64 = 256 << 20;
/// Names of weights in a folder that is a checkpoint.
const WEIGHTS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
/// Settings of the authors' programs that name the encoder, the first that is there counts.
const ENCODERS: [&str; 3] = ["tokenizer_path", "bert_name", "model_path"];

/// What to import.
#[derive(Debug, Clone)]
pub struct ReleasedOptions {
    /// The head, by the name of its paper.
    pub head: String,
    /// A file of PyTorch or of safetensors, or a folder with one and the encoder's files.
    pub checkpoint: PathBuf,
    /// The settings of the authors' program: JSON, or lines `key = value`.
    pub config: Option<PathBuf>,
    /// The entity types in the order of their numbers: a JSON list, or a file of the authors' program.
    pub types: Option<PathBuf>,
    /// A folder or name of the encoder, for its sizes and its tokenizer; its weights are in the checkpoint.
    pub encoder: Option<String>,
}

/// Imports a checkpoint of the authors of a paper.
pub fn import_released(
    options: &ReleasedOptions,
    hub: &Hub,
    out: &Path,
    force: bool,
) -> Result<ImportFacts> {
    let entry = registry::find(&options.head)?;
    let mut settings = match &options.config {
        Some(path) => parse_settings(&read_text(path, LONGEST_SETTINGS)?, path)?,
        None => Map::new(),
    };
    if let Some(path) = &options.types {
        let types = parse_types(&read_text(path, LONGEST_SETTINGS)?, path)?;
        settings.insert("types".into(), types.into());
    }
    let settings = ReleasedSettings::new(settings);
    let weights = weights_file(&options.checkpoint)?;
    let encoder = encoder(options, &settings, hub)?;
    let transformer = load::config(&encoder)?;
    let tokenizer = WordTokenizer::from_folder(&encoder)?;
    let named = options
        .encoder
        .as_deref()
        .or_else(|| encoder_name(&settings));
    let facts = ImportFacts {
        name: last_part(&options.checkpoint.to_string_lossy()),
        program: "the program of the paper's authors".into(),
        architecture: entry.name.into(),
        base_model: named.and_then(hub_name),
        ..ImportFacts::default()
    };
    let weights = weight_files::file_weights(&weights)?;
    make_folder(out, force, |inside| {
        let files = ReleasedFiles {
            weights,
            settings: &settings,
            transformer,
            tokenizer,
            facts: facts.clone(),
        };
        (entry.import_released)(inside, files)
    })?;
    Ok(facts)
}

/// The file with the weights: the checkpoint itself, or a file in its folder.
fn weights_file(checkpoint: &Path) -> Result<PathBuf> {
    if !checkpoint.is_dir() {
        return Ok(checkpoint.to_path_buf());
    }
    let files = WEIGHTS.map(|name| checkpoint.join(name));
    files
        .into_iter()
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::encoder(
                checkpoint,
                format!(
                    "this folder has no {}; give the file of the checkpoint",
                    WEIGHTS.join(" and no ")
                ),
            )
        })
}

fn encoder_name(settings: &ReleasedSettings) -> Option<&str> {
    ENCODERS.iter().find_map(|key| settings.text(key))
}

/// The folder with the encoder's `config.json` and tokenizer: the given one, that of the checkpoint, or the one that the
/// settings name.
fn encoder(options: &ReleasedOptions, settings: &ReleasedSettings, hub: &Hub) -> Result<PathBuf> {
    if let Some(name) = &options.encoder {
        return Ok(load::find(name, hub)?.folder);
    }
    if options.checkpoint.join("config.json").is_file() {
        return Ok(options.checkpoint.clone());
    }
    let Some(name) = encoder_name(settings) else {
        return Err(Error::Config(
            "the encoder of the checkpoint is not known: give a folder with its config.json and tokenizer, or its name on the \
             hub, with --encoder"
                .into(),
        ));
    };
    let found = load::find(name, hub).map_err(|problem| {
        Error::Config(format!(
            "the settings name the encoder {name:?}; give it with --encoder if it is elsewhere: {}",
            problem.chain()
        ))
    });
    Ok(found?.folder)
}

/// Reads settings: a JSON object, or lines `key = value` with the values of Python.
fn parse_settings(text: &str, path: &Path) -> Result<Map<String, Value>> {
    if text.trim_start().starts_with('{') {
        let value = serde_json::from_str(text);
        return value.map_err(|problem| fail(path, format!("not JSON: {problem}")));
    }
    let mut settings = Map::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '[', ';']) {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(fail(
                path,
                format!(
                    "line {} is not `key = value`: {:?}",
                    index + 1,
                    shortened(line)
                ),
            ));
        };
        let (key, value) = (key.trim().to_string(), python_value(value.trim()));
        if settings.insert(key.clone(), value).is_some() {
            return Err(fail(
                path,
                format!(
                    "line {}: {:?} is there twice; keep the settings of one run",
                    index + 1,
                    shortened(&key)
                ),
            ));
        }
    }
    Ok(settings)
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

fn fail(path: &Path, problem: String) -> Error {
    Error::Config(format!("{}: {problem}", path.display()))
}

/// A value as Python writes it.
fn python_value(text: &str) -> Value {
    match text {
        "True" => true.into(),
        "False" => false.into(),
        "None" | "" => Value::Null,
        _ => serde_json::from_str(&text.replace('\'', "\"")).unwrap_or_else(|_| text.into()),
    }
}

/// Reads entity types: a JSON list of names; `{"entities": {NAME: ...}}`, as DiffusionNER and Locate and Label have it; or
/// `{"label2id": {NAME: NUMBER}}`, as BOPN has it.
fn parse_types(text: &str, path: &Path) -> Result<Vec<String>> {
    let value: Value =
        serde_json::from_str(text).map_err(|problem| fail(path, format!("not JSON: {problem}")))?;
    if let Some(entities) = value["entities"].as_object() {
        return Ok(entities.keys().cloned().collect());
    }
    if let Some(numbers) = value["label2id"].as_object() {
        let mut names: Vec<(u64, &String)> = (numbers.iter())
            .filter_map(|(name, number)| Some((number.as_u64()?, name)))
            .collect();
        names.sort();
        let is_numbered = names.len() == numbers.len()
            && names
                .iter()
                .zip(0..)
                .all(|((number, _), index)| *number == index);
        if is_numbered {
            return Ok(names.into_iter().map(|(_, name)| name.clone()).collect());
        }
    }
    let list = value.as_array().and_then(|list| {
        let names = list.iter().map(|name| name.as_str().map(String::from));
        names.collect()
    });
    list.ok_or_else(|| {
        fail(
            path,
            "this is no list of entity types: expected [\"A\", \"B\"], {\"entities\": {\"A\": ...}} or {\"label2id\": {\"A\": 0}}"
                .into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_of_both_kinds_are_read() {
        let read = |text: &str| {
            parse_settings(text, Path::new("c")).map_err(|problem| problem.to_string())
        };
        let found = read(
            "# a\n[x]\nlr = 5e-06\nuse_pos = True\ncache_path = None\nwindow_size = [0, 1]\nname = ../a b\nl=['a']\n",
        );
        let expected = json!({"lr": 5e-06, "use_pos": true, "cache_path": null, "window_size": [0, 1], "name": "../a b", "l": ["a"]});
        assert_eq!(Value::Object(found.unwrap()), expected);
        assert_eq!(Value::Object(read(" {\"a\": 1}").unwrap()), json!({"a": 1}));
        for (text, part) in [
            ("{", "not JSON"),
            ("a = 1\na = 2", "line 2: \"a\""),
            ("a = 1\n\nb", "line 3"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn types_keep_the_order_of_their_numbers() {
        let read =
            |text: &str| parse_types(text, Path::new("t")).map_err(|problem| problem.to_string());
        for text in [
            r#"["b", "a"]"#,
            r#"{"entities": {"b": {"short": "B"}, "a": {}}, "relations": {}}"#,
            r#"{"label2id": {"a": 1, "b": 0}, "id2label": {}}"#,
        ] {
            assert_eq!(read(text).unwrap(), ["b", "a"], "{text}");
        }
        for text in [
            "",
            "{}",
            "[1]",
            r#"{"label2id": {"a": 1}}"#,
            r#"{"label2id": {"a": "x"}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
