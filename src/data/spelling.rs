//! The ways JSON files spell one entity.

use serde_json::{Map, Value};

/// An entity as written: from, to, type.
pub(super) type Written<'a> = (usize, usize, &'a str);

/// What a JSON value is, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn number(value: Option<&Value>, name: &str) -> Result<usize, String> {
    match value {
        None | Some(Value::Null) => Err(format!("has no `{name}`; give it one, or delete it")),
        Some(value) => value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| format!("has `{name}` {value}; it must be a number, 0 or more")),
    }
}

fn label(object: &Map<String, Value>) -> Result<&str, String> {
    match (object.get("type"), object.get("label")) {
        (Some(kind), Some(label)) if kind != label => {
            Err(format!("has `type` {kind} and `label` {label}; keep one"))
        }
        (Some(value), _) | (None, Some(value)) => value
            .as_str()
            .ok_or_else(|| format!("has the type {value}; it must be a string")),
        (None, None) => Err("has no `type`; give it one, or delete it".to_string()),
    }
}

/// An entity as an object or as `[start, end, type]`.
pub(super) fn spelled(value: &Value) -> Result<Written<'_>, String> {
    match value {
        Value::Object(object) => {
            let key = |short: &str, long: &str| object.get(short).or(object.get(long)).cloned();
            let start = number(key("start", "start_offset").as_ref(), "start")?;
            let end = number(key("end", "end_offset").as_ref(), "end")?;
            Ok((start, end, label(object)?))
        }
        Value::Array(list) if list.len() == 3 => {
            let kind = list[2]
                .as_str()
                .ok_or_else(|| format!("has the type {}; it must be a string", list[2]))?;
            Ok((
                number(list.first(), "start")?,
                number(list.get(1), "end")?,
                kind,
            ))
        }
        _ => Err(
            "must be an object with `start`, `end` and `type`, or [start, end, type]".to_string(),
        ),
    }
}

/// The entity, if it has a type and lies within `length`.
pub(super) fn fits<'a>(
    entity: Written<'a>,
    length: usize,
    unit: &str,
) -> Result<Written<'a>, String> {
    let (start, end, label) = entity;
    if label.trim().is_empty() {
        Err("has an empty type; name it, or delete the entity".to_string())
    } else if start >= end {
        Err(format!(
            "({label}) is empty: start {start}, end {end}; ends are one past the last of the {unit}, so add one if this file counts them in"
        ))
    } else if end > length {
        Err(format!(
            "({label}) ends at {end}, but there are only {length} {unit}; spans count {unit} from 0"
        ))
    } else {
        Ok(entity)
    }
}

/// An entity as a list of word numbers; `None` for one with gaps.
pub(super) fn indexed(value: &Value, length: usize) -> Result<Option<Written<'_>>, String> {
    let object = value
        .as_object()
        .ok_or("must be an object with `index` and `type`")?;
    let list = object
        .get("index")
        .and_then(Value::as_array)
        .ok_or("has no list `index`")?;
    let index: Vec<usize> = list
        .iter()
        .map(|value| number(Some(value), "index"))
        .collect::<Result<_, _>>()?;
    let (Some(first), Some(last)) = (index.first(), index.last()) else {
        return Err("has an empty `index`; list its words, or delete it".to_string());
    };
    if index.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err("has an `index` that does not rise; sort it".to_string());
    }
    let entity = fits(
        (*first, last.saturating_add(1), label(object)?),
        length,
        "words",
    )?;
    Ok((last - first + 1 == index.len()).then_some(entity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_entity_has_many_spellings() {
        for value in [
            json!({"start": 1, "end": 3, "type": "A"}),
            json!({"start": 1, "end": 3, "label": "A", "id": 7}),
            json!({"start": 1, "end": 3, "label": "A", "type": "A"}),
            json!({"start_offset": 1, "end_offset": 3, "label": "A"}),
            json!([1, 3, "A"]),
        ] {
            assert_eq!(spelled(&value), Ok((1, 3, "A")), "{value}");
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
            assert!(spelled(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn spans_must_fit() {
        assert!(fits((0, 2, "A"), 2, "words").is_ok());
        assert!(fits((2, 2, "A"), 2, "words").is_err());
        assert!(fits((1, 3, "A"), 2, "words").is_err());
        assert!(fits((0, 1, " "), 2, "words").is_err());
    }

    #[test]
    fn index_lists_become_spans() {
        let of = |index: Value| {
            let value = json!({"index": index, "type": "A"});
            indexed(&value, 4).map(|entity| entity.map(|(start, end, _)| (start, end)))
        };
        assert_eq!(of(json!([1, 2, 3])), Ok(Some((1, 4))));
        assert_eq!(of(json!([1, 3])), Ok(None));
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
