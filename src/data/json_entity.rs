//! Parsing an entity of a JSON record, in the different forms in which annotation tools write it.

use serde_json::{Map, Value};

/// An entity as written in a file: start, end and type.
pub(super) type RawEntity<'a> = (usize, usize, &'a str);

/// Why a JSON value is not a valid entity. Messages continue "`entities`[3] ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntityError {
    #[error("must be an object with `start`, `end` and `type`, or [start, end, type]")]
    NotAnEntity,
    #[error("must be an object with `index` and `type`")]
    NotAnIndexEntity,
    #[error("has no `{0}`; add it, or delete the entity")]
    Missing(&'static str),
    #[error("has `{key}` {value}; it must be an integer, 0 or more")]
    NotAnOffset { key: &'static str, value: String },
    #[error("has the type {0}; it must be a string")]
    TypeIsNotAString(String),
    #[error("has `type` {kind} and `label` {label}; keep one")]
    TwoTypes { kind: String, label: String },
    #[error("has an empty type; name it, or delete the entity")]
    EmptyType,
    #[error(
        "({label}) is empty: start {start}, end {end}; the end is exclusive, one past the last of the {unit}, so add one if \
         this file includes it"
    )]
    EmptySpan {
        label: String,
        start: usize,
        end: usize,
        unit: &'static str,
    },
    #[error(
        "({label}) ends at {end}, but there are only {length} {unit}; spans count {unit} from 0"
    )]
    OutOfRange {
        label: String,
        end: usize,
        length: usize,
        unit: &'static str,
    },
    #[error("has no list `index`; list its words, or delete the entity")]
    NoIndexList,
    #[error("has an empty `index`; list its words, or delete the entity")]
    EmptyIndex,
    #[error("has an `index` that is not in ascending order; sort it")]
    UnsortedIndex,
}

/// The type of a JSON value, for messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn offset(value: Option<&Value>, key: &'static str) -> Result<usize, EntityError> {
    match value {
        None | Some(Value::Null) => Err(EntityError::Missing(key)),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| EntityError::NotAnOffset {
                key,
                value: value.to_string(),
            }),
    }
}

fn label_text(value: &Value) -> Result<&str, EntityError> {
    let text = value.as_str();
    text.ok_or_else(|| EntityError::TypeIsNotAString(value.to_string()))
}

fn label(object: &Map<String, Value>) -> Result<&str, EntityError> {
    match (object.get("type"), object.get("label")) {
        (Some(kind), Some(label)) if kind != label => Err(EntityError::TwoTypes {
            kind: kind.to_string(),
            label: label.to_string(),
        }),
        (Some(value), _) | (None, Some(value)) => label_text(value),
        (None, None) => Err(EntityError::Missing("type")),
    }
}

/// Parses an entity written as an object or as `[start, end, type]`.
pub(super) fn parse_entity(value: &Value) -> Result<RawEntity<'_>, EntityError> {
    match value {
        Value::Object(object) => {
            let key = |short: &str, long: &str| object.get(short).or(object.get(long));
            let start = offset(key("start", "start_offset"), "start")?;
            let end = offset(key("end", "end_offset"), "end")?;
            Ok((start, end, label(object)?))
        }
        Value::Array(list) if list.len() == 3 => {
            let label = label_text(&list[2])?;
            let start = offset(list.first(), "start")?;
            Ok((start, offset(list.get(1), "end")?, label))
        }
        _ => Err(EntityError::NotAnEntity),
    }
}

/// Checks that an entity has a type and is within `length` words or characters (`unit`).
pub(super) fn check_entity<'a>(
    entity: RawEntity<'a>,
    length: usize,
    unit: &'static str,
) -> Result<RawEntity<'a>, EntityError> {
    let (start, end, label) = entity;
    if label.trim().is_empty() {
        Err(EntityError::EmptyType)
    } else if start >= end {
        Err(EntityError::EmptySpan {
            label: label.to_string(),
            start,
            end,
            unit,
        })
    } else if end > length {
        Err(EntityError::OutOfRange {
            label: label.to_string(),
            end,
            length,
            unit,
        })
    } else {
        Ok(entity)
    }
}

/// An entity written as a list of word indices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct IndexEntity<'a> {
    /// The runs of adjacent words as half-open spans, in order; several for a discontinuous entity.
    pub parts: Vec<(usize, usize)>,
    /// The entity type.
    pub label: &'a str,
}

/// Parses an entity written as a list of word indices.
pub(super) fn parse_index_entity(
    value: &Value,
    length: usize,
) -> Result<IndexEntity<'_>, EntityError> {
    let object = value.as_object().ok_or(EntityError::NotAnIndexEntity)?;
    let list = object
        .get("index")
        .and_then(Value::as_array)
        .ok_or(EntityError::NoIndexList)?;
    let index: Vec<usize> = list
        .iter()
        .map(|value| offset(Some(value), "index"))
        .collect::<Result<_, _>>()?;
    let (Some(first), Some(last)) = (index.first(), index.last()) else {
        return Err(EntityError::EmptyIndex);
    };
    if index.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(EntityError::UnsortedIndex);
    }
    let entity = (*first, last.saturating_add(1), label(object)?);
    let (_, _, label) = check_entity(entity, length, "words")?;
    let runs = index.chunk_by(|one, next| one + 1 == *next);
    let parts = runs.map(|run| (run[0], run[run.len() - 1] + 1)).collect();
    Ok(IndexEntity { parts, label })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_form_of_an_entity_is_parsed() {
        for value in [
            json!({"start": 1, "end": 3, "type": "A"}),
            json!({"start": 1, "end": 3, "label": "A", "id": 7}),
            json!({"start": 1, "end": 3, "label": "A", "type": "A"}),
            json!({"start_offset": 1, "end_offset": 3, "label": "A"}),
            json!([1, 3, "A"]),
        ] {
            assert_eq!(parse_entity(&value), Ok((1, 3, "A")), "{value}");
        }
        for value in [
            json!({"start": 1, "end": 3}),
            json!({"start": -1, "end": 3, "type": "A"}),
            json!({"start": 1.5, "end": 3, "type": "A"}),
            json!({"start": 1, "end": 3, "type": "A", "label": "B"}),
            json!({"start": 1, "end": 3, "type": 4}),
            json!([1, 3]),
            json!("A"),
        ] {
            assert!(parse_entity(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn spans_must_be_in_range() {
        assert!(check_entity((0, 2, "A"), 2, "words").is_ok());
        assert!(check_entity((2, 2, "A"), 2, "words").is_err());
        assert!(check_entity((1, 3, "A"), 2, "words").is_err());
        assert!(check_entity((0, 1, " "), 2, "words").is_err());
    }

    #[test]
    fn index_lists_become_spans() {
        let of = |index: Value| {
            let value = json!({"index": index, "type": "A"});
            parse_index_entity(&value, 4).map(|entity| entity.parts)
        };
        assert_eq!(of(json!([1, 2, 3])), Ok(vec![(1, 4)]));
        assert_eq!(of(json!([0, 1, 3])), Ok(vec![(0, 2), (3, 4)]));
        for index in [
            json!([]),
            json!([2, 1]),
            json!([1, 1]),
            json!([4]),
            json!([u64::MAX]),
            json!(3),
        ] {
            assert!(of(index).is_err());
        }
    }
}
