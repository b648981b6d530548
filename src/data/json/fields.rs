//! The values of an entity object, whatever the spelling of their keys.

use serde_json::{Map, Value};

use super::entity::{EntityError, Parts, Unit};
use super::values::{canonical, offset};

/// Start and end as a list of two numbers.
pub(super) fn pair(value: &Value) -> Option<Result<(usize, usize), EntityError>> {
    match value.as_array()?.as_slice() {
        [start, end] if start.is_number() && end.is_number() => Some(offsets(start, end)),
        _ => None,
    }
}

/// Start and end as two values.
pub(super) fn offsets(start: &Value, end: &Value) -> Result<(usize, usize), EntityError> {
    Ok((offset(Some(start), "start")?, offset(Some(end), "end")?))
}

/// The values of an entity object that have a meaning here, whatever the spelling of their keys.
#[derive(Default)]
pub(super) struct Fields<'a> {
    /// Starts, ends, and pairs of both: of unknown unit, in characters, in words.
    start: [Option<&'a Value>; 3],
    end: [Option<&'a Value>; 3],
    pair: [Option<&'a Value>; 3],
    pub length: Option<&'a Value>,
    /// Several places of one type (DataTurks).
    pub points: Option<&'a [Value]>,
    kind: Option<&'a Value>,
    label: Option<&'a Value>,
    other_label: Option<&'a Value>,
    entity: Option<&'a Value>,
    surface: Option<&'a Value>,
}

impl<'a> Fields<'a> {
    /// Finds the values of an object.
    pub fn of(object: &'a Map<String, Value>) -> Self {
        let mut fields = Self::default();
        for (key, value) in object {
            if value.is_null() {
                continue;
            }
            let key = canonical(key);
            let slot = match key.as_str() {
                "start" | "startoffset" | "begin" | "beginoffset" | "startidx" | "startindex"
                | "startpos" | "startposition" | "from" | "offset" | "s" => &mut fields.start[0],
                "startchar"
                | "charstart"
                | "charbegin"
                | "startcharacter"
                | "characterstart"
                | "charoffsetbegin"
                | "characteroffsetbegin" => &mut fields.start[1],
                "tokenstart" | "starttoken" | "wordstart" | "startword" | "tokstart"
                | "tokenbegin" => &mut fields.start[2],
                "end" | "endoffset" | "endidx" | "endindex" | "endpos" | "endposition" | "to"
                | "stop" | "e" => &mut fields.end[0],
                "endchar" | "charend" | "endcharacter" | "characterend" | "charoffsetend"
                | "characteroffsetend" => &mut fields.end[1],
                "tokenend" | "endtoken" | "wordend" | "endword" | "tokend" => &mut fields.end[2],
                "span" | "position" | "positions" | "offsets" | "parts" | "location" | "range"
                | "pos" | "spans"
                    if value.is_array() =>
                {
                    &mut fields.pair[0]
                }
                "charspan" | "charoffsets" | "charpos" | "characters" if value.is_array() => {
                    &mut fields.pair[1]
                }
                "tokenspan" | "tokenoffsets" | "wordspan" if value.is_array() => {
                    &mut fields.pair[2]
                }
                "length" | "len" => &mut fields.length,
                "points" => {
                    fields.points = value.as_array().map(Vec::as_slice);
                    continue;
                }
                "type" => &mut fields.kind,
                "label" => &mut fields.label,
                "labels" | "entitytype" | "entitylabel" | "tag" | "category" | "class" | "ner"
                | "nertag" | "entitygroup" | "semantictype" | "typename" | "labelname" => {
                    &mut fields.other_label
                }
                "entity" => &mut fields.entity,
                "text" | "surface" | "mention" | "word" | "value" | "entitytext" | "phrase"
                | "spantext" | "name" | "content" => &mut fields.surface,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
        fields
    }

    /// The value of the entity's type.
    pub fn label(&self) -> Result<&'a Value, EntityError> {
        match (self.kind, self.label) {
            (Some(kind), Some(label)) if kind != label => Err(EntityError::TwoTypes {
                kind: kind.to_string(),
                label: label.to_string(),
            }),
            (Some(value), _) | (None, Some(value)) => Ok(value),
            (None, None) => {
                let value = self.other_label.or(self.entity);
                value.ok_or(EntityError::Missing("type"))
            }
        }
    }

    /// The text of the entity. `entity` is the text where another key gives the type.
    pub fn surface(&self) -> Option<&'a str> {
        let is_typed = self.kind.or(self.label).or(self.other_label).is_some();
        let value = self.surface.or(self.entity.filter(|_| is_typed))?;
        match value {
            Value::Array(parts) if parts.len() == 1 => parts[0].as_str(),
            value => value.as_str(),
        }
    }

    /// The parts of the span, and what they count where the keys say so.
    pub fn parts(&self, context: Unit) -> Result<(Parts, Option<Unit>), EntityError> {
        let units = [None, Some(Unit::Characters), Some(Unit::Words)];
        let order = match context {
            Unit::Words => [2, 0, 1],
            Unit::Characters => [1, 0, 2],
        };
        for slot in order {
            if let Some(value) = self.pair[slot] {
                return Ok((parse_parts(value)?, units[slot]));
            }
            if self.start[slot].is_none() && self.end[slot].is_none() {
                continue;
            }
            let start = offset(self.start[slot], "start")?;
            let end = match (self.end[slot], self.length) {
                (None, Some(length)) => start.saturating_add(offset(Some(length), "length")?),
                (end, _) => offset(end, "end")?,
            };
            return Ok((vec![(start, end)], units[slot]));
        }
        Err(EntityError::Missing("start"))
    }
}

/// `[start, end]`, or a list of those for the parts of a discontinuous entity.
fn parse_parts(value: &Value) -> Result<Vec<(usize, usize)>, EntityError> {
    if let Some(part) = pair(value) {
        return Ok(vec![part?]);
    }
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let parts = list.iter().map(|part| match part {
        Value::Object(object) => {
            let fields = Fields::of(object);
            let (parts, _) = fields.parts(Unit::Characters)?;
            parts.first().copied().ok_or(EntityError::NotAnEntity)
        }
        part => pair(part).ok_or(EntityError::NotAnEntity)?,
    });
    let parts: Vec<(usize, usize)> = parts.collect::<Result<_, _>>()?;
    if parts.is_empty() {
        return Err(EntityError::Missing("start"));
    }
    Ok(parts)
}

/// Start and end, type and text of an entity.
type Item<'a> = ((usize, usize), &'a Value, Option<&'a str>);

/// Entities as columns: lists of starts, ends and types of equal length.
pub(super) struct Columns<'a> {
    start: &'a [Value],
    end: &'a [Value],
    label: &'a [Value],
    surface: Option<&'a [Value]>,
    /// Number of entities.
    pub length: usize,
}

impl<'a> Columns<'a> {
    /// Finds the columns of an object.
    pub fn of(object: &'a Map<String, Value>) -> Option<Self> {
        let fields = Fields::of(object);
        let list = |value: Option<&'a Value>| value.and_then(Value::as_array).map(Vec::as_slice);
        let any = |slots: [Option<&'a Value>; 3]| list(slots.into_iter().flatten().next());
        let start = any(fields.start)?;
        let end = any(fields.end)?;
        let label = list(
            fields
                .kind
                .or(fields.label)
                .or(fields.other_label)
                .or(fields.entity),
        )?;
        Some(Self {
            start,
            end,
            label,
            surface: list(fields.surface),
            length: start.len().max(end.len()).max(label.len()),
        })
    }

    /// Start and end, type and text of an entity.
    pub fn item(&self, index: usize) -> Result<Item<'a>, EntityError> {
        let start = offset(self.start.get(index), "start")?;
        let end = offset(self.end.get(index), "end")?;
        let label = self.label.get(index).ok_or(EntityError::Missing("type"))?;
        let surface = self.surface.and_then(|list| list.get(index)?.as_str());
        Ok(((start, end), label, surface))
    }
}
