//! The regions of Label Studio's annotations, and the texts they belong to.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::data::json::entity::RawSpan;
use crate::data::json::keys::TEXTS;
use crate::data::json::values::{canonical, offset};
use crate::data::sentences::offset_unit::OffsetUnit;
use crate::data::source::tally::Tally;
use crate::text::CharacterIndex;

/// The regions of one text.
#[derive(Default)]
pub(super) struct Regions<'a> {
    /// The name of the text in the labelling configuration.
    pub name: String,
    /// With their place in the record.
    pub spans: Vec<(String, RawSpan<'a>)>,
}

/// True for a list of regions of a JSON-MIN export.
pub(super) fn is_region_list(value: &Value) -> bool {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    !list.is_empty()
        && list.iter().all(|region| {
            region.is_object() && region.get("start").is_some() && region.get("end").is_some()
        })
}

/// The entities of a region: one for each of its labels.
pub(super) fn region<'a>(
    value: &'a Value,
    tally: &mut Tally,
    line: usize,
) -> Result<Vec<RawSpan<'a>>, String> {
    let labels = ["labels", "label", "hypertextlabels", "paragraphlabels"]
        .iter()
        .find_map(|key| value.get(*key));
    let labels: Vec<&str> = match labels {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(label)) => vec![label],
        _ => Vec::new(),
    };
    if labels.is_empty() {
        tally.add(line, "{n} regions without a label are ignored");
        return Ok(Vec::new());
    }
    // Regions of HTML and of dialogues have a path or a paragraph as their start.
    let is_path = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|path| path.parse::<usize>().is_err())
    };
    if is_path("start")
        || value.get("startOffset").is_some()
        || value.get("paragraphlabels").is_some()
    {
        tally.add(
            line,
            "{n} regions of HTML or dialogues are ignored; only regions of plain texts are read",
        );
        return Ok(Vec::new());
    }
    let start = offset(value.get("start"), "start").map_err(|error| error.to_string())?;
    let end = offset(value.get("end"), "end").map_err(|error| error.to_string())?;
    let span = |label| RawSpan {
        parts: vec![(start, end)],
        label: Cow::Borrowed(label),
        surface: value
            .get("text")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty()),
        unit: None,
        inclusive: Some(false),
    };
    Ok(labels.into_iter().map(span).collect())
}

/// Fields of JSON-MIN records that are not part of the task.
const META: [&str; 11] = [
    "id",
    "annotator",
    "annotation_id",
    "created_at",
    "updated_at",
    "lead_time",
    "agreement",
    "completed_by",
    "source",
    "file_upload",
    "uuid",
];

/// The field with the text of the regions: the one in which most of their texts are found. Where that does not decide, the
/// field of the task before, the one with the name that the regions refer to, one with a usual name, or the longest.
pub(super) fn text_field<'a>(
    data: &'a Map<String, Value>,
    group: &Regions<'_>,
    known: Option<&str>,
) -> Option<(&'a str, &'a str)> {
    let fields = data
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let score = |(key, text): &(&str, &str)| {
        let index = CharacterIndex::new(text);
        let is_found = |span: &RawSpan<'_>| {
            span.surface
                .is_some_and(|surface| OffsetUnit::of(&index, span.parts[0], surface).is_some())
        };
        let found = group
            .spans
            .iter()
            .filter(|(_, span)| is_found(span))
            .count();
        let usual = TEXTS
            .iter()
            .position(|name| *name == canonical(key))
            .map(|place| TEXTS.len() - place);
        (
            found,
            Some(*key) == known,
            *key == group.name,
            !META.contains(key),
            usual,
            text.len(),
        )
    };
    fields.max_by_key(score)
}

/// True for a text that is only the address of one.
pub(super) fn is_address(text: &str) -> bool {
    let starts = ["http://", "https://", "s3://", "gs://", "/data/"];
    starts.iter().any(|start| text.starts_with(start)) && !text.trim().contains(char::is_whitespace)
}
