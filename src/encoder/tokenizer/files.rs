//! Reads tokenizers from the files of pretrained models.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Model, Tokenizer};

use super::check::check;
use super::special::Hints;
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::process;

/// Files with vocabularies that this program does not read.
pub const OTHER_VOCABULARIES: &[&str] = &[
    "spm.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "vocab.json",
];

/// Largest `tokenizer.json` in bytes; those of vocabularies with 250,000 pieces have about 20 million.
const LARGEST_FILE: u64 = 256 << 20;

/// Special pieces of BERT's vocabularies.
pub(super) const BERT_PIECES: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Special pieces of MPNet's vocabularies, which have BERT's too, as leftovers.
const MPNET_PIECES: [&str; 5] = ["<s>", "<pad>", "</s>", "<mask>", "[UNK]"];

/// Reads a folder's `tokenizer.json`, or builds a WordPiece tokenizer from its `vocab.txt`. Returns the file, too.
pub(super) fn read_folder(folder: &Path) -> Result<(Tokenizer, Hints, PathBuf)> {
    let (json, vocabulary) = (folder.join("tokenizer.json"), folder.join("vocab.txt"));
    let settings = read_json(&folder.join("tokenizer_config.json"))?;
    if json.is_file() {
        let map = read_json(&folder.join("special_tokens_map.json"))?;
        return Ok((read_file(&json)?, Hints::new(vec![settings, map]), json));
    }
    if !vocabulary.is_file() {
        return Err(missing(folder));
    }
    let pieces = if is_mpnet(folder, &settings)? {
        MPNET_PIECES
    } else {
        BERT_PIECES
    };
    let tokenizer = WordPiece::from_file(&vocabulary.to_string_lossy())
        .unk_token("[UNK]".into())
        .build()
        .and_then(|model| word_piece(model, normalizer(&settings), &pieces));
    let tokenizer =
        tokenizer.map_err(|problem| Error::encoder(&vocabulary, problem.to_string()))?;
    Ok((tokenizer, Hints::new(vec![settings]), vocabulary))
}

/// Reads a `tokenizer.json`.
pub(super) fn read_file(path: &Path) -> Result<Tokenizer> {
    let text = read_text(path, LARGEST_FILE)?;
    let parsed = process::catch(|| parse(&text)).unwrap_or_else(|panic| Err(panic.to_string()));
    let mut tokenizer = parsed.map_err(|problem| {
        Error::encoder(
            path,
            format!(
                "{problem}; download the file again, or write it with a current version of the Python package tokenizers"
            ),
        )
    })?;
    // Settings for whole texts must not truncate or pad single words, and a word must have the same pieces every time.
    tokenizer
        .with_truncation(None)
        .map_err(|problem| Error::encoder(path, problem.to_string()))?;
    if let ModelWrapper::BPE(model) = tokenizer.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        tokenizer.with_model(model);
    }
    Ok(tokenizer)
}

fn parse(text: &str) -> std::result::Result<Tokenizer, String> {
    let json = serde_json::from_str(text).map_err(|problem| problem.to_string())?;
    check(&json)?;
    text.parse().or_else(|problem: tokenizers::Error| {
        let problem = problem.to_string();
        // Older versions wrote a key whose meaning later ones do not take over.
        let mut json: Value = serde_json::from_str(text).map_err(|_| problem.clone())?;
        let parts = ["pre_tokenizer", "decoder"].map(|part| replace_prefix_key(&mut json[part]));
        if parts.contains(&true) {
            serde_json::from_value(json).map_err(|problem| problem.to_string())
        } else {
            Err(problem)
        }
    })
}

/// Replaces `add_prefix_space: false` of a Metaspace, alone or in a sequence, by what has its meaning now. Returns whether
/// there was one.
fn replace_prefix_key(part: &mut Value) -> bool {
    let mut found = false;
    if let Some(list) = part.get_mut("pretokenizers").and_then(Value::as_array_mut) {
        for inner in list {
            found |= replace_prefix_key(inner);
        }
    }
    if let Some(list) = part.get_mut("decoders").and_then(Value::as_array_mut) {
        for inner in list {
            found |= replace_prefix_key(inner);
        }
    }
    if part["type"] == "Metaspace"
        && part["add_prefix_space"] == false
        && part["prepend_scheme"].is_null()
    {
        part["prepend_scheme"] = "never".into();
        found = true;
    }
    found
}

/// Explains which file a folder lacks.
fn missing(folder: &Path) -> Error {
    let others = OTHER_VOCABULARIES.iter();
    let found: Vec<&str> = (others.copied())
        .filter(|name| folder.join(name).is_file())
        .collect();
    let problem = match found.as_slice() {
        [] => "this folder has neither tokenizer.json nor vocab.txt; download one of them from the model's page, or make a \
               tokenizer.json in Python:"
            .to_string(),
        found => format!(
            "this folder has {}, which this program does not read, but no tokenizer.json; make it in Python:",
            found.join(" and ")
        ),
    };
    let path = folder.display();
    Error::encoder(
        folder,
        format!(
            "{problem} transformers.AutoTokenizer.from_pretrained({:?}).save_pretrained({:?})",
            path.to_string(),
            path.to_string()
        ),
    )
}

/// A JSON file that may be missing; null then.
fn read_json(path: &Path) -> Result<Value> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|problem| Error::encoder(path, format!("not JSON: {problem}"))),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(source) => Err(Error::io(path, source)),
    }
}

/// Whether a folder with a `vocab.txt` holds an MPNet.
fn is_mpnet(folder: &Path, settings: &Value) -> Result<bool> {
    let config = read_json(&folder.join("config.json"))?;
    let class = settings["tokenizer_class"].as_str().unwrap_or_default();
    Ok(config["model_type"] == "mpnet" || class.starts_with("MPNet"))
}

/// BERT's normaliser with the settings of a `tokenizer_config.json`; by default words are lower-cased.
fn normalizer(settings: &Value) -> BertNormalizer {
    let setting = |key: &str| settings[key].as_bool();
    BertNormalizer::new(
        true,
        setting("tokenize_chinese_chars").unwrap_or(true),
        setting("strip_accents"),
        setting("do_lower_case").unwrap_or(true),
    )
}

/// A WordPiece tokenizer like BERT's. Of the special pieces, those that the vocabulary has are found in texts.
pub(super) fn word_piece(
    model: WordPiece,
    normalizer: BertNormalizer,
    special: &[&str],
) -> tokenizers::Result<Tokenizer> {
    let special: Vec<AddedToken> = (special.iter().copied())
        .filter(|name| model.token_to_id(name).is_some())
        .map(|name| AddedToken::from(name, true))
        .collect();
    let mut tokenizer = Tokenizer::new(ModelWrapper::WordPiece(model));
    tokenizer.with_normalizer(Some(normalizer))?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.add_special_tokens(special)?;
    Ok(tokenizer)
}
