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
    /// The names of the columns under `columns` and the rows under `data`, as pandas writes with `orient="split"`.
    Split,
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
        if column_names(object).is_some() {
            return Holder::Split;
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
    let words = ["tokens", "words", "tokenized_text", "word", "token", "Word"]
        .iter()
        .find_map(|key| object.get(*key));
    if let Some(words) = words {
        return match words {
            Value::Array(list) => list.first().is_some_and(Value::is_array),
            Value::Object(rows) => {
                let first = rows.values().next();
                first.is_some_and(|first| first.is_array() || first.is_string())
            }
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

/// The names of the columns if an object holds them apart from the rows.
fn column_names(object: &Map<String, Value>) -> Option<Vec<&str>> {
    let names = object.get("columns")?.as_array()?;
    let names: Vec<&str> = names.iter().map(Value::as_str).collect::<Option<_>>()?;
    let rows = object.get("data")?.as_array()?;
    let fits = |row: &Value| row.as_array().is_some_and(|row| row.len() == names.len());
    (!names.is_empty() && rows.first().is_some_and(fits)).then_some(names)
}

/// The rows of an object that holds the names of the columns apart from them; a row of another length as it is.
pub(super) fn name_columns(value: &Value) -> Vec<Value> {
    let names = value.as_object().and_then(column_names).unwrap_or_default();
    let rows = value["data"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let named = |row: &Value| match row.as_array() {
        Some(cells) if cells.len() == names.len() => {
            let cells = names.iter().zip(cells);
            let entries = cells.map(|(name, cell)| ((*name).to_string(), cell.clone()));
            Value::Object(entries.collect())
        }
        _ => row.clone(),
    };
    rows.iter().map(named).collect()
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
/// tags: `[["Rome", "B-LOC"], ...]`, `[["Rome", ...], ["B-LOC", ...]]` or `[{"text": "Rome", "ner": "B-LOC"}, ...]`. Other
/// values as they are.
pub(super) fn unwrap_record(mut value: Value) -> Value {
    if let Some(row) = value.get_mut("row").filter(|row| row.is_object()) {
        return row.take();
    }
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    match tagged_words(list).or_else(|| parallel_lists(list)) {
        Some((words, tags)) => json!({"tokens": words, "tags": tags}),
        None => value,
    }
}

/// Words and tags of a list of pairs or of objects.
fn tagged_words(list: &[Value]) -> Option<(Vec<&str>, Vec<&str>)> {
    let mut pairs = Vec::new();
    // The last word of a multiword token of Stanza, whose words follow it without tags.
    let mut last_inside = 0;
    for value in list {
        let pair = match value {
            Value::Array(pair) => match &pair[..] {
                [Value::String(word), Value::String(tag)] if bio::is_tag(tag) => {
                    (word.as_str(), tag.as_str())
                }
                _ => return None,
            },
            Value::Object(object) => {
                let text = |keys: &[&str]| {
                    let value = keys.iter().find_map(|key| object.get(*key));
                    value.and_then(Value::as_str)
                };
                let word = text(&["text", "word", "token", "form"])?;
                match text(&["ner", "tag", "ner_tag", "label"]) {
                    Some(tag) => {
                        last_inside = object.get("id").map_or(0, last_number);
                        (word, tag)
                    }
                    None if (object.get("id").and_then(Value::as_u64))
                        .is_some_and(|id| id <= last_inside) =>
                    {
                        continue;
                    }
                    None => return None,
                }
            }
            _ => return None,
        };
        pairs.push(pair);
    }
    (!pairs.is_empty()).then(|| pairs.into_iter().unzip())
}

/// The last number of an id such as `[1, 2]`; 0 for a single one.
fn last_number(id: &Value) -> u64 {
    let last = id.as_array().and_then(|ids| ids.last());
    last.and_then(Value::as_u64).unwrap_or(0)
}

fn strings(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

/// Words and tags of a list of both.
fn parallel_lists(list: &[Value]) -> Option<(Vec<&str>, Vec<&str>)> {
    let [words, tags] = list else {
        return None;
    };
    let (words, tags) = (strings(words)?, strings(tags)?);
    let fits = words.len() == tags.len() && tags.iter().all(|tag| bio::is_tag(tag));
    fits.then_some((words, tags))
}
