//! JSON objects that hold records: in lists, by name, or as columns.

use serde_json::{Map, Value, json};

use crate::data::tags::bio;

/// What an object at the top level of a file holds.
pub(super) enum Holder {
    /// It is a record.
    None,
    /// Records under these keys.
    Lists(Vec<String>),
    /// Records under their names.
    Named,
    /// An object that holds records, under its only key.
    Inside,
    /// Columns: the words of all records under one key, their tags under another.
    Columns,
}

impl Holder {
    /// What a value at the top level of a file holds.
    pub fn of(value: &Value) -> Self {
        let Value::Object(object) = value else {
            return Holder::None;
        };
        if holds_columns(object) {
            return Holder::Columns;
        }
        if is_record(value) {
            return Holder::None;
        }
        let lists: Vec<String> = object
            .iter()
            .filter(|(_, value)| {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let first = list.iter().find(|value| !value.is_null());
                first.is_some_and(is_record)
            })
            .map(|(key, _)| key.clone())
            .collect();
        if !lists.is_empty() {
            Holder::Lists(lists)
        } else if !object.is_empty() && object.values().all(is_record) {
            Holder::Named
        } else if let (1, Some(inner @ Value::Object(_))) = (object.len(), object.values().next())
            && matches!(Holder::of(inner), Holder::Lists(_))
        {
            Holder::Inside
        } else {
            Holder::None
        }
    }
}

/// Keys of which every record has one.
const RECORD_KEYS: [&str; 15] = [
    "tokens",
    "words",
    "tokenized_text",
    "text",
    "content",
    "sentence",
    "source_text",
    "context",
    "sents",
    "passages",
    "paragraphs",
    "row",
    "token_annotation",
    "document_text",
    "raw_text",
];

/// True for a value that is a record of one of the formats, and not an entity of one.
fn is_record(value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            let is_task = object.get("data").is_some_and(Value::is_object);
            let is_entity = ["start", "end", "start_offset", "offset", "result"]
                .iter()
                .any(|key| object.contains_key(*key));
            let is_document =
                (object.get("sentences")).is_some_and(|value| value[0][0].is_string());
            let has_key = || RECORD_KEYS.iter().any(|key| object.contains_key(*key));
            (!is_entity || object.contains_key("tokens")) && (is_task || is_document || has_key())
        }
        value => is_tuple(value),
    }
}

/// True for `["text", {...}]` or `["text", [[...], ...]]`, a text with annotations in spaCy's form.
pub(super) fn is_tuple(value: &Value) -> bool {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    match list {
        [Value::String(_), Value::Object(_)] => true,
        [Value::String(_), Value::Array(list)] => list.iter().all(Value::is_array),
        _ => false,
    }
}

/// True when the words or texts of an object are those of many records.
fn holds_columns(object: &Map<String, Value>) -> bool {
    let words = ["tokens", "words", "tokenized_text"]
        .iter()
        .find_map(|key| object.get(*key));
    if let Some(words) = words {
        return match words {
            Value::Array(list) => list.first().is_some_and(Value::is_array),
            Value::Object(rows) => rows.values().next().is_some_and(Value::is_array),
            _ => false,
        };
    }
    match object.get("text").or_else(|| object.get("sentence")) {
        Some(Value::Object(rows)) => rows.values().next().is_some_and(Value::is_string),
        // A list of strings is a list of words unless another column holds a list of annotations for each of them.
        Some(Value::Array(texts)) if texts.first().is_some_and(Value::is_string) => {
            object.values().any(|column| {
                let rows = column.as_array().map(Vec::as_slice).unwrap_or_default();
                let is_row = |row: &Value| row[0].is_array() || row[0].is_object();
                rows.len() == texts.len() && rows.iter().any(is_row)
            })
        }
        _ => false,
    }
}

/// The rows of an object of columns. A column is a list, or an object from row numbers to values as pandas writes it.
pub(super) fn transpose(value: Value) -> Result<Vec<Value>, String> {
    let Value::Object(object) = value else {
        return Ok(Vec::new());
    };
    let mut rows: Vec<Value> = Vec::new();
    let mut first: Option<String> = None;
    let mut common = Vec::new();
    for (key, column) in object {
        let column: Vec<Value> = match column {
            Value::Array(list) => list,
            Value::Object(object) => object.into_iter().map(|(_, value)| value).collect(),
            // The name of the document and the like hold for every row.
            other => {
                common.push((key, other));
                continue;
            }
        };
        match &first {
            None => rows.resize_with(column.len(), || Value::Object(Map::new())),
            Some(first) if column.len() != rows.len() => {
                return Err(format!(
                    "the column `{first}` has {} rows but `{key}` has {}; give every column one value for each row",
                    rows.len(),
                    column.len()
                ));
            }
            Some(_) => {}
        }
        for (row, value) in rows.iter_mut().zip(column) {
            row[key.as_str()] = value;
        }
        first.get_or_insert(key);
    }
    for row in &mut rows {
        for (key, value) in &common {
            row[key.as_str()] = value.clone();
        }
    }
    Ok(rows)
}

/// The record of a row of Hugging Face's dataset viewer, `{"row_idx": 0, "row": {...}}`, or of a list of words with their
/// tags, `[["Rome", "B-LOC"], ...]`; other values as they are.
pub(super) fn unwrap_record(mut value: Value) -> Value {
    if let Some(row) = value.get_mut("row").filter(|row| row.is_object()) {
        return row.take();
    }
    let pair = |pair: &Value| match pair.as_array().map(Vec::as_slice) {
        Some([Value::String(word), Value::String(tag)]) if bio::is_tag(tag) => {
            Some((word.clone(), tag.clone()))
        }
        _ => None,
    };
    let pairs = value.as_array().filter(|list| !list.is_empty());
    let pairs = pairs.and_then(|list| list.iter().map(pair).collect::<Option<Vec<_>>>());
    match pairs {
        Some(pairs) => {
            let (words, tags): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
            json!({"tokens": words, "tags": tags})
        }
        None => value,
    }
}
