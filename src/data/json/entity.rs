//! Parsing the entities of a JSON record, in the different forms in which tools and corpora write them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields::{Columns, Fields, offsets, pair};
use super::values::offset;
use crate::data::sentences::entities::{self, SpanError};

/// What the offsets of a span count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) enum Unit {
    /// Words.
    Words,
    /// Characters.
    Characters,
}

/// Start and end of each part of a span.
pub(super) type Parts = Vec<(usize, usize)>;

/// Spans or problems with the index or key of each entity.
type Placed<T> = Vec<(String, T)>;

/// An entity as written in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct RawSpan<'a> {
    /// Start and end of each part, as written: the end may be inclusive. More than one part for a discontinuous entity.
    pub parts: Parts,
    /// The entity type.
    pub label: Cow<'a, str>,
    /// The text of the entity, if the file gives it.
    pub surface: Option<&'a str>,
    /// What the offsets count, where the keys say so.
    pub unit: Option<Unit>,
    /// Whether the end is inclusive, where the form says so.
    pub inclusive: Option<bool>,
}

/// Why a JSON value is not a valid entity. Messages continue "`entities[3]` ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::data) enum EntityError {
    #[error("must be an object with `start`, `end` and `type`, or [start, end, type]")]
    NotAnEntity,
    #[error("must be an object with `index` and `type`")]
    NotAnIndexEntity,
    #[error("has no `{0}`; add it, or delete the entity")]
    Missing(&'static str),
    #[error("has `{key}` {value}; it must be an integer, 0 or more")]
    NotAnOffset { key: &'static str, value: String },
    #[error(
        "has the type {0}; it must be a string (types that are numbers are named with --labels)"
    )]
    TypeIsNotAString(String),
    #[error("has `type` {kind} and `label` {label}; keep one")]
    TwoTypes { kind: String, label: String },
    #[error("has an empty type; name it, or delete the entity")]
    EmptyType,
    #[error("({label}) {error}")]
    Span { label: String, error: SpanError },
    #[error("has no list `index`; list its words, or delete the entity")]
    NoIndexList,
    #[error("has an empty `index`; list its words, or delete the entity")]
    EmptyIndex,
    #[error("has an `index` that is not in ascending order; sort it")]
    UnsortedIndex,
    #[error("gives texts without offsets; give [start, end, type] for each entity")]
    NoOffsets,
}

/// Parses the entities of a list, or of an object by type, by name or by column. `context` is what offsets count unless
/// their keys say otherwise; `names` are the types that are given as numbers. Returns a problem with the index or key of
/// each entity that cannot be parsed.
pub(super) fn parse_entities<'a>(
    value: &'a Value,
    context: Unit,
    names: Option<&'a [String]>,
) -> (Placed<RawSpan<'a>>, Placed<EntityError>) {
    let mut found = Found {
        context,
        names,
        spans: Vec::new(),
        problems: Vec::new(),
    };
    match value {
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                found.add(format!("[{index}]"), value);
            }
        }
        Value::Object(object) => found.add_object(object),
        _ => {}
    }
    (found.spans, found.problems)
}

struct Found<'a> {
    context: Unit,
    names: Option<&'a [String]>,
    spans: Vec<(String, RawSpan<'a>)>,
    problems: Vec<(String, EntityError)>,
}

impl<'a> Found<'a> {
    fn add(&mut self, at: String, value: &'a Value) {
        match self.parse(value) {
            Ok(spans) => self
                .spans
                .extend(spans.into_iter().map(|span| (at.clone(), span))),
            Err(error) => self.problems.push((at, error)),
        }
    }

    /// Entities as columns (`{"start": [0], "end": [4], "label": ["A"]}`), by type, in groups, or by name.
    fn add_object(&mut self, object: &'a Map<String, Value>) {
        if let Some(columns) = Columns::of(object) {
            for index in 0..columns.length {
                let at = format!("[{index}]");
                let item = columns.item(index);
                match item.and_then(|(part, label, text)| Ok((part, self.labels(label)?, text))) {
                    Ok((part, labels, text)) => {
                        for label in labels {
                            self.typed(at.clone(), label, text, part, None);
                        }
                    }
                    Err(error) => self.problems.push((at, error)),
                }
            }
            return;
        }
        for (key, value) in object {
            match value {
                Value::Array(list) => {
                    for (index, value) in list.iter().enumerate() {
                        let at = format!("[`{key}`][{index}]");
                        match pair(value) {
                            Some(Ok(part)) => self.typed(at, key.as_str().into(), None, part, None),
                            Some(Err(error)) => self.problems.push((at, error)),
                            None if value.is_string() => {
                                self.problems.push((at, EntityError::NoOffsets))
                            }
                            None => self.add(at, value),
                        }
                    }
                }
                // CLUENER: type, text, list of [first, last].
                Value::Object(texts) if texts.values().all(Value::is_array) => {
                    for (text, places) in texts {
                        for place in places.as_array().map(Vec::as_slice).unwrap_or_default() {
                            let at = format!("[`{key}`][`{text}`]");
                            match pair(place) {
                                Some(Ok(part)) => self.typed(
                                    at,
                                    key.as_str().into(),
                                    Some(text),
                                    part,
                                    Some(true),
                                ),
                                Some(Err(error)) => self.problems.push((at, error)),
                                None => self.problems.push((at, EntityError::NotAnEntity)),
                            }
                        }
                    }
                }
                Value::Null => {}
                value => self.add(format!("[`{key}`]"), value),
            }
        }
    }

    fn typed(
        &mut self,
        at: String,
        label: Cow<'a, str>,
        surface: Option<&'a str>,
        part: (usize, usize),
        inclusive: Option<bool>,
    ) {
        let span = RawSpan {
            parts: vec![part],
            label,
            surface,
            unit: None,
            inclusive,
        };
        self.spans.push((at, span));
    }

    fn parse(&self, value: &'a Value) -> Result<Vec<RawSpan<'a>>, EntityError> {
        match value {
            Value::Object(object) => self.parse_object(object),
            Value::Array(list) => self.parse_list(list),
            _ => Err(EntityError::NotAnEntity),
        }
    }

    /// `[start, end, type, ...]`, `[type, start, end]`, `[[start, end], type]` or `[type, [start, end]]`.
    fn parse_list(&self, list: &'a [Value]) -> Result<Vec<RawSpan<'a>>, EntityError> {
        let (part, label) = match list {
            [Value::Array(_), label] => (pair(&list[0]), label),
            [label, Value::Array(_)] => (pair(&list[1]), label),
            [Value::String(_), start, end] if start.is_number() && end.is_number() => {
                (Some(offsets(start, end)), &list[0])
            }
            // What follows are scores, or spaCy's identifiers. A fourth string could be the type, and the third the text.
            [start, end, label, rest @ ..]
                if rest.len() != 1 || rest[0].as_str().is_none_or(str::is_empty) =>
            {
                (Some(offsets(start, end)), label)
            }
            _ => return Err(EntityError::NotAnEntity),
        };
        let labels = self.labels(label)?;
        let part = part.ok_or(EntityError::NotAnEntity)??;
        let span = |label| RawSpan {
            parts: vec![part],
            label,
            surface: None,
            unit: None,
            inclusive: None,
        };
        Ok(labels.into_iter().map(span).collect())
    }

    fn parse_object(
        &self,
        object: &'a Map<String, Value>,
    ) -> Result<Vec<RawSpan<'a>>, EntityError> {
        let fields = Fields::of(object);
        let labels = self.labels(fields.label()?)?;
        // Dataturks: several places of one type, with inclusive ends.
        if let Some(points) = fields.points {
            let mut spans = Vec::new();
            for point in points {
                let inner = point.as_object().ok_or(EntityError::NotAnEntity)?;
                let inner = Fields::of(inner);
                let (parts, unit) = inner.parts(self.context)?;
                spans.extend(labels.iter().map(|label| RawSpan {
                    parts: parts.clone(),
                    label: label.clone(),
                    surface: inner.surface(),
                    unit,
                    inclusive: Some(true),
                }));
            }
            return Ok(spans);
        }
        let (parts, unit) = fields.parts(self.context)?;
        let inclusive = (parts.len() > 1 || fields.length.is_some()).then_some(false);
        let span = |label| RawSpan {
            parts: parts.clone(),
            label,
            surface: fields.surface(),
            unit,
            inclusive,
        };
        Ok(labels.into_iter().map(span).collect())
    }

    /// The types of an entity: a string, a number with a name, or a list of them.
    fn labels(&self, value: &'a Value) -> Result<Vec<Cow<'a, str>>, EntityError> {
        let list = match value {
            Value::Array(list) if !list.is_empty() => list.as_slice(),
            value => std::slice::from_ref(value),
        };
        let name = |value: &'a Value| match value {
            Value::String(label) if label.trim().is_empty() => Err(EntityError::EmptyType),
            Value::String(label) => Ok(Cow::Borrowed(label.as_str())),
            value => {
                let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
                let name = index.and_then(|index| self.names?.get(index));
                name.map(|name| Cow::Borrowed(name.as_str()))
                    .ok_or_else(|| EntityError::TypeIsNotAString(value.to_string()))
            }
        };
        list.iter().map(name).collect()
    }
}

/// Checks that a span with an exclusive end is not empty and within `length` words or characters.
pub(super) fn check_span(
    span: (usize, usize),
    label: &str,
    length: usize,
    unit: Unit,
) -> Result<(), EntityError> {
    let unit = match unit {
        Unit::Words => "words",
        Unit::Characters => "characters",
    };
    entities::check_span(span, length, unit).map_err(|error| EntityError::Span {
        label: label.to_string(),
        error,
    })
}

/// Parses an entity written as a list of word indices: its parts with exclusive ends, and its type.
pub(super) fn parse_index_entity(
    value: &Value,
    length: usize,
) -> Result<(Parts, &str), EntityError> {
    let object = value.as_object().ok_or(EntityError::NotAnIndexEntity)?;
    let list = object.get("index").and_then(Value::as_array);
    let list = list.ok_or(EntityError::NoIndexList)?;
    let label = match object.get("type").or_else(|| object.get("label")) {
        None | Some(Value::Null) => return Err(EntityError::Missing("type")),
        Some(Value::String(label)) if label.trim().is_empty() => {
            return Err(EntityError::EmptyType);
        }
        Some(Value::String(label)) => label,
        Some(other) => return Err(EntityError::TypeIsNotAString(other.to_string())),
    };
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for value in list {
        let index = offset(Some(value), "index")?;
        check_span((index, index.saturating_add(1)), label, length, Unit::Words)?;
        match parts.last_mut() {
            Some((_, end)) if index < *end => return Err(EntityError::UnsortedIndex),
            Some((_, end)) if index == *end => *end += 1,
            _ => parts.push((index, index + 1)),
        }
    }
    if parts.is_empty() {
        return Err(EntityError::EmptyIndex);
    }
    Ok((parts, label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The spans as (parts, type, text).
    fn spans(
        value: &Value,
        context: Unit,
    ) -> Result<Vec<(Parts, String, Option<String>)>, EntityError> {
        let (spans, problems) = parse_entities(value, context, None);
        match problems.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(spans
                .into_iter()
                .map(|(_, span)| {
                    (
                        span.parts,
                        span.label.into_owned(),
                        span.surface.map(str::to_string),
                    )
                })
                .collect()),
        }
    }

    #[test]
    fn every_form_of_an_entity_is_parsed() {
        for value in [
            json!([{"start": 1, "end": 3, "type": "A"}]),
            json!([{"start": 1, "end": 3, "label": "A", "id": 7}]),
            json!([{"start": 1, "end": 3, "label": "A", "type": "A"}]),
            json!([{"start_offset": 1, "end_offset": 3, "label": "A"}]),
            json!([{"startOffset": "1", "endOffset": 3.0, "labels": ["A"]}]),
            json!([{"start": 1, "end": 3, "entity_type": "A", "mention_type": "NAM"}]),
            json!([{"start": 1, "end": 3, "entity": "A", "value": null}]),
            json!([{"start": 1, "length": 2, "tag": "A"}]),
            json!([{"span": [1, 3], "type": "A"}]),
            json!([{"offsets": [[1, 3]], "type": "A"}]),
            json!([{"start": 7, "end": 9, "start_char": 1, "end_char": 3, "type": "A"}]),
            json!([[1, 3, "A"]]),
            json!([[1, 3, "A", 0.7, 0.9]]),
            json!([[1, 3, "A", "Q42", ""]]),
            json!([["A", 1, 3]]),
            json!([[[1, 3], "A"]]),
            json!([["A", [1, 3]]]),
            json!({"A": [[1, 3]]}),
            json!({"T1": {"start": 1, "end": 3, "type": "A"}}),
            json!({"group": [{"start": 1, "end": 3, "label": "A"}]}),
            json!({"start": [1], "end": [3], "label": ["A"]}),
        ] {
            let found = spans(&value, Unit::Characters).unwrap();
            assert_eq!(found, [(vec![(1, 3)], "A".to_string(), None)], "{value}");
        }
        for value in [
            json!([{"start": 1, "end": 3}]),
            json!([{"start": -1, "end": 3, "type": "A"}]),
            json!([{"start": 1.5, "end": 3, "type": "A"}]),
            json!([{"start": 1e300, "end": 3, "type": "A"}]),
            json!([{"start": 1, "end": 3, "type": "A", "label": "B"}]),
            json!([{"start": 1, "end": 3, "type": 4}]),
            json!([{"start": 1, "end": 3, "type": " "}]),
            json!([{"start": null, "end": 3, "type": "A"}]),
            json!([{"offsets": [], "type": "A"}]),
            json!([[1, 3]]),
            json!([[1, 3, "text", "A"]]),
            json!(["A"]),
            json!({"A": ["text"]}),
        ] {
            assert!(spans(&value, Unit::Characters).is_err(), "{value}");
        }
    }

    #[test]
    fn texts_of_entities_and_parts_are_kept() {
        let text = |value: Value| spans(&value, Unit::Characters).unwrap()[0].2.clone();
        assert_eq!(
            text(json!([{"start_idx": 3, "end_idx": 4, "type": "A", "entity": "xy"}])).unwrap(),
            "xy"
        );
        assert_eq!(
            text(json!([{"start": 3, "end": 4, "entity": "A", "value": "xy"}])).unwrap(),
            "xy"
        );
        assert_eq!(
            text(json!([{"offsets": [[3, 4]], "type": "A", "text": ["xy"]}])).unwrap(),
            "xy"
        );
        assert_eq!(text(json!({"A": {"xy": [[3, 4]]}})).unwrap(), "xy");
        let points =
            json!([{"label": ["A", "B"], "points": [{"start": 0, "end": 1, "text": "xy"}]}]);
        assert_eq!(spans(&points, Unit::Characters).unwrap().len(), 2);
        let parts = json!([{"offsets": [[3, 4], [6, 8]], "type": "A"}]);
        assert_eq!(
            spans(&parts, Unit::Characters).unwrap()[0].0,
            [(3, 4), (6, 8)]
        );
        let both = json!([{"start": 0, "end": 9, "token_start": 1, "token_end": 2, "label": "A"}]);
        assert_eq!(spans(&both, Unit::Words).unwrap()[0].0, [(1, 2)]);
        assert_eq!(spans(&both, Unit::Characters).unwrap()[0].0, [(0, 9)]);
    }

    #[test]
    fn numbers_are_types_when_they_have_names() {
        let names = ["X".to_string(), "Y".to_string()];
        let value = json!([[0, 1, 1], {"start": 0, "end": 1, "label": 2}]);
        let (spans, problems) = parse_entities(&value, Unit::Words, Some(&names));
        assert_eq!(spans[0].1.label, "Y");
        assert!(
            problems[0].1.to_string().contains("--labels"),
            "{}",
            problems[0].1
        );
    }

    #[test]
    fn spans_must_be_in_range() {
        assert!(check_span((0, 2), "A", 2, Unit::Words).is_ok());
        assert!(check_span((2, 2), "A", 2, Unit::Words).is_err());
        assert!(check_span((1, 3), "A", 2, Unit::Words).is_err());
    }

    #[test]
    fn index_lists_become_parts() {
        let of = |index: Value| {
            let value = json!({"index": index, "type": "A"});
            parse_index_entity(&value, 4).map(|(parts, _)| parts)
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
