//! The cells of a table that hold more than one value: lists of words or tags, and spans of a text.

use serde_json::{Map, Value};

use super::python_literal::{self, LiteralError};
use crate::data::sentences::annotated_text::{self, AnnotatedText, TextEntity};
use crate::data::source::Collector;
use crate::data::{ReadOptions, words as segmentation};

/// The strings of a list, or the words of a text that is not a list.
pub(super) fn strings(cell: &str) -> Result<Vec<String>, LiteralError> {
    let cell = cell.trim();
    if !cell.starts_with(['[', '(']) && !cell.starts_with("array(") {
        return Ok(cell.split_whitespace().map(str::to_string).collect());
    }
    match python_literal::parse(cell) {
        Ok(Value::Array(list)) => Ok(list
            .into_iter()
            .map(|value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            })
            .collect()),
        // A sentence that begins with a bracket.
        Ok(_) | Err(LiteralError::Unexpected(_)) if !cell.ends_with([']', ')']) => {
            Ok(cell.split_whitespace().map(str::to_string).collect())
        }
        Ok(_) => Err(LiteralError::Unexpected(1)),
        Err(error) => Err(error),
    }
}

/// The words of a text: separated by white space or, if that does not give `count` words, split as other texts are.
pub(super) fn words(text: &str, count: usize, options: &ReadOptions) -> Vec<String> {
    let mut words = strings(text).unwrap_or_default();
    if words.len() != count {
        let split = segmentation::split_with(text, options.segmentation.unwrap_or_default());
        if split.len() == count {
            words = split.into_iter().map(|word| word.text).collect();
        }
    }
    words
}

/// Reads texts with lists of spans.
#[derive(Default)]
pub(super) struct Spans {
    /// Number of texts without a document so far.
    texts: usize,
}

/// Why a value is not a span. Completes "entity 3 ...".
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum SpanError {
    #[error(
        "must be a list [start, end, type] or an object with `start`, `end` and `label`, not {0}"
    )]
    Unknown(String),
    #[error("has no type; add it as `label`, or delete the entity")]
    NoType,
    #[error(
        "is `{actual}` in the text but `{given}` in the list; offsets count characters, correct them"
    )]
    OtherText { actual: String, given: String },
}

impl Spans {
    /// Adds a text with the spans of some cells to the corpus, or reports what is wrong with them.
    pub fn push(
        &mut self,
        line: usize,
        text: &str,
        document: Option<String>,
        cells: &[&str],
        options: &ReadOptions,
        corpus: &mut Collector,
    ) {
        self.texts += 1;
        let characters: Vec<usize> = (text.char_indices().map(|(byte, _)| byte))
            .chain([text.len()])
            .collect();
        let surface = |start: usize, end: usize| {
            let (from, to) = (characters.get(start)?, characters.get(end)?);
            text.get(*from..*to)
        };
        let mut entities = Vec::new();
        let mut valid = true;
        let mut error = |message: String| {
            corpus.error(line, message);
            valid = false;
        };
        for cell in cells
            .iter()
            .map(|cell| cell.trim())
            .filter(|cell| !cell.is_empty())
        {
            let value = match python_literal::parse(cell) {
                Ok(value) => value,
                Err(problem) => {
                    error(format!("the cell of the entities {problem}"));
                    continue;
                }
            };
            let list = match list_of(&value) {
                Ok(list) => list,
                Err(message) => {
                    error(message);
                    continue;
                }
            };
            for (index, value) in list.iter().enumerate() {
                match span(value, surface) {
                    Ok(found) => {
                        entities.extend(found.into_iter().map(|(start, end, label)| TextEntity {
                            parts: vec![(start, end)],
                            label,
                            line,
                        }))
                    }
                    Err(problem) => error(format!("entity {index} {problem}")),
                }
            }
        }
        if valid {
            let name = || format!("{}#{}", corpus.stem(), self.texts);
            let document = Some(document.unwrap_or_else(name));
            let text = AnnotatedText {
                text,
                document,
                line,
                entities,
                is_document: true,
            };
            annotated_text::push(text, options, corpus);
        }
    }
}

/// The list of spans: the value itself, or the list of a dictionary.
fn list_of(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::Array(list) => Ok(list),
        Value::Null => Ok(&[]),
        Value::Object(object) => {
            let keys = ["entities", "spans", "labels", "label", "annotations", "ner"];
            let list = keys
                .iter()
                .find_map(|key| object.get(*key).and_then(Value::as_array));
            list.map(Vec::as_slice).ok_or_else(|| {
                let names: Vec<&str> = object.keys().map(String::as_str).take(20).collect();
                format!(
                    "the entities are an object with the keys {}; known are a list, and an object with one of {}",
                    names.join(", "),
                    keys.join(", ")
                )
            })
        }
        _ => Err("the entities must be a list".to_string()),
    }
}

/// The spans of a value; several when it has several types, as Label Studio allows.
/// `surface` gives the text between two characters.
fn span<'a>(
    value: &Value,
    surface: impl Fn(usize, usize) -> Option<&'a str>,
) -> Result<Vec<(usize, usize, String)>, SpanError> {
    let unknown = || SpanError::Unknown(value.to_string().chars().take(80).collect());
    let offset = |value: Option<&Value>| {
        let number = value.and_then(|value| match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_u64(),
        });
        number.and_then(|number| usize::try_from(number).ok())
    };
    let (start, end, labels, given) = match value {
        Value::Array(list) => {
            let (start, end, label) = match &list[..] {
                [Value::String(label), start, end, ..] => (start, end, Some(label)),
                [start, end, Value::String(label), ..] => (start, end, Some(label)),
                _ => return Err(unknown()),
            };
            (
                offset(Some(start)),
                offset(Some(end)),
                label.into_iter().cloned().collect(),
                None,
            )
        }
        Value::Object(object) => {
            let get = |keys: &[&str]| keys.iter().find_map(|key| object.get(*key));
            let start = offset(get(&[
                "start",
                "start_offset",
                "begin",
                "startOffset",
                "start_char",
            ]));
            let end = offset(get(&["end", "end_offset", "stop", "endOffset", "end_char"]));
            let given = object.get("text").and_then(Value::as_str);
            (start, end, types(object), given)
        }
        _ => return Err(unknown()),
    };
    let (Some(start), Some(end)) = (start, end) else {
        return Err(unknown());
    };
    let labels: Vec<String> = labels
        .into_iter()
        .filter(|label: &String| !label.trim().is_empty())
        .collect();
    if labels.is_empty() {
        return Err(SpanError::NoType);
    }
    let actual = surface(start, end).unwrap_or_default();
    match given {
        Some(given) if !actual.is_empty() && given.trim() != actual.trim() => {
            Err(SpanError::OtherText {
                actual: actual.chars().take(60).collect(),
                given: given.chars().take(60).collect(),
            })
        }
        _ => Ok(labels
            .into_iter()
            .map(|label| (start, end, label))
            .collect()),
    }
}

/// The types of a span.
fn types(object: &Map<String, Value>) -> Vec<String> {
    let keys = [
        "labels",
        "label",
        "type",
        "entity_group",
        "entity",
        "tag",
        "category",
        "class",
        "hypertextlabels",
    ];
    match keys.iter().find_map(|key| object.get(*key)) {
        Some(Value::String(label)) => vec![label.clone()],
        Some(Value::Array(list)) => {
            let labels = list.iter().filter_map(Value::as_str);
            labels.map(str::to_string).collect()
        }
        _ => Vec::new(),
    }
}
