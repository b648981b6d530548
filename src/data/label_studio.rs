//! Label Studio's JSON and JSON-MIN exports.
//!
//! The forms are those of Label Studio 0.9 (`completions`) to 1.20 (<https://labelstud.io/guide/task_format>). Offsets count
//! characters; versions before 1.5 counted UTF-16 code units, which the texts of the regions show.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::annotated_text::{self, AnnotatedText};
use super::json;
use super::json_content::document;
use super::json_entity::{RawSpan, canonical, offset, type_name};
use super::json_keys::TEXTS;
use super::json_record::Record;
use super::json_text::document_id;
use super::source::{Collector, Source};
use super::tally::Tally;
use super::text_index::TextIndex;
use super::{ReadOptions, Severity};

/// Reads a Label Studio export.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut labelled = 0;
    json::records(source, |_, value| labelled += usize::from(is_labelled(&value)));
    let mut reader = Reader {
        options,
        has_labels: labelled > 0,
        fields: Vec::new(),
        seen: HashSet::new(),
        tally: Tally::default(),
        tasks: 0,
    };
    let faults = json::records(source, |place, value| {
        let Value::Object(object) = &value else {
            let message = format!("{}not a JSON object but {}", place.prefix, type_name(&value));
            return corpus.report(Severity::Error, place.at, message);
        };
        let mut record = Record::new(object, place, corpus);
        reader.tasks += 1;
        if object.get("data").is_some_and(Value::is_object) {
            reader.task(&mut record);
        } else {
            reader.minimal(&mut record);
        }
    });
    faults.report(corpus);
    if reader.tasks > 0 && labelled == 0 {
        corpus.warn(0, "no task has annotations; read as texts without entities");
    }
    reader.tally.report(corpus);
}

/// The annotations of a task, under the key of its version.
fn annotations<'a>(object: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    let list = object.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn is_labelled(value: &Value) -> bool {
    let Value::Object(object) = value else {
        return false;
    };
    if object.get("data").is_some_and(Value::is_object) {
        return ["annotations", "completions", "predictions"].iter().any(|key| !annotations(object, key).is_empty());
    }
    object.values().any(is_region_list)
}

/// True for a list of regions of a JSON-MIN export.
fn is_region_list(value: &Value) -> bool {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    !list.is_empty()
        && list.iter().all(|region| {
            region.is_object() && region.get("start").is_some() && region.get("end").is_some()
        })
}

struct Reader<'o> {
    options: &'o ReadOptions,
    /// Whether a task of the file has annotations.
    has_labels: bool,
    /// The field of the text for each name that regions refer to, as in the last task.
    fields: Vec<(String, String)>,
    /// The ids of the tasks read so far, for exports with one record per annotator.
    seen: HashSet<String>,
    tally: Tally,
    tasks: usize,
}

/// The regions of one text.
#[derive(Default)]
struct Regions<'a> {
    /// The name of the text in the labelling configuration.
    name: String,
    /// With their place in the record.
    spans: Vec<(String, RawSpan<'a>)>,
}

impl Reader<'_> {
    /// A task of the JSON export.
    fn task(&mut self, record: &mut Record<'_, '_>) {
        let line = record.line();
        let object = record.object;
        let Some(data) = object.get("data").and_then(Value::as_object) else {
            return record.lacks("data");
        };
        let given = match annotations(object, "annotations") {
            [] => annotations(object, "completions"),
            list => list,
        };
        let is_set = |annotation: &Value, key: &str| annotation.get(key).and_then(Value::as_bool) == Some(true);
        let usable: Vec<&Value> = given
            .iter()
            .filter(|annotation| annotation.is_object() && !is_set(annotation, "was_cancelled") && !is_set(annotation, "skipped"))
            .collect();
        let predictions = annotations(object, "predictions");
        let chosen = match (&usable[..], given, predictions) {
            ([first, others @ ..], ..) => {
                self.tally.add_many(
                    line,
                    "{n} further annotations of the same tasks are not used; of several, the one marked as ground truth counts, else the first",
                    others.len(),
                );
                let truth = usable.iter().find(|annotation| is_set(annotation, "ground_truth"));
                Some(truth.copied().unwrap_or(first))
            }
            ([], [_, ..], _) => {
                return self.tally.add(line, "{n} tasks are skipped, because all their annotations were cancelled");
            }
            ([], [], [first, ..]) => {
                self.tally.add(line, "{n} tasks have no annotations; their first prediction is used");
                Some(first)
            }
            ([], [], []) if self.has_labels => {
                return self.tally.add(line, "{n} tasks are skipped, because they have no annotations");
            }
            ([], [], []) => None,
        };
        let results = chosen.and_then(|annotation| annotation.get("result")).and_then(Value::as_array);
        let mut groups: Vec<Regions> = Vec::new();
        for (index, result) in results.map(Vec::as_slice).unwrap_or_default().iter().enumerate() {
            let name = result.get("to_name").and_then(Value::as_str).unwrap_or_default();
            let spans = match self.result(line, result) {
                Ok(spans) if spans.is_empty() => continue,
                Ok(spans) => spans.into_iter().map(|span| (format!("`result`[{index}]"), span)),
                Err(problem) => {
                    record.error(format!("`result`[{index}] {problem}"));
                    continue;
                }
            };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.spans.extend(spans),
                None => groups.push(Regions { name: name.to_string(), spans: spans.collect() }),
            }
        }
        if groups.is_empty() {
            let name = self.fields.first().map(|(name, _)| name.clone()).unwrap_or_default();
            groups.push(Regions { name, spans: Vec::new() });
        }
        let document = document(data, &[]).or_else(|| document_id(object, record.corpus));
        self.push(record, data, groups, document);
    }

    /// A record of the JSON-MIN export: the fields of the task, and lists of regions under the names of their controls.
    fn minimal(&mut self, record: &mut Record<'_, '_>) {
        let object = record.object;
        if let Some(id) = object.get("id").filter(|_| object.contains_key("annotation_id"))
            && !self.seen.insert(id.to_string())
        {
            return self.tally.add(
                record.line(),
                "{n} further annotations of the same tasks are not used; of several, the first counts",
            );
        }
        let mut regions = Regions::default();
        for (key, value) in object.iter().filter(|(_, value)| is_region_list(value)) {
            for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                let at = format!("`{key}`[{index}]");
                match region(value, &mut self.tally, record.line()) {
                    Ok(spans) => regions.spans.extend(spans.into_iter().map(|span| (at.clone(), span))),
                    Err(problem) => record.error(format!("{at} {problem}")),
                }
            }
        }
        let document = document(object, &[]).or_else(|| document_id(object, record.corpus));
        self.push(record, object, vec![regions], document);
    }

    /// The regions of an item of `result`. What is not a region of a text is counted.
    fn result<'a>(&mut self, line: usize, result: &'a Value) -> Result<Vec<RawSpan<'a>>, String> {
        let kind = result.get("type").and_then(Value::as_str).unwrap_or("labels");
        if kind != "labels" {
            self.tally.add(line, &format!("{{n}} results of the type `{kind}` are ignored"));
            return Ok(Vec::new());
        }
        let value = result.get("value").ok_or("has no `value`; delete it")?;
        region(value, &mut self.tally, line)
    }

    /// Adds the texts of a task.
    fn push(
        &mut self,
        record: &mut Record<'_, '_>,
        data: &Map<String, Value>,
        groups: Vec<Regions<'_>>,
        document: Option<String>,
    ) {
        let mut used: Vec<&str> = Vec::new();
        for group in groups {
            let known = self.fields.iter().find(|(name, _)| *name == group.name).map(|(_, field)| field.as_str());
            let Some((field, text)) = text_field(data, &group, known) else {
                let keys: Vec<&str> = data.keys().map(String::as_str).collect();
                return record.error(format!("has no text among its fields {}; export the text with the task", keys.join(", ")));
            };
            if is_address(text) {
                return record.error(format!("`{field}` is the address of a text, `{text}`; export tasks that contain the text"));
            }
            self.fields.retain(|(name, _)| *name != group.name);
            self.fields.push((group.name.clone(), field.to_string()));
            let index = TextIndex::new(text);
            let entities = record.text_entities(group.spans, &index, false, &mut self.tally);
            if !record.valid {
                return;
            }
            // Each text of a task is a document.
            let document = document.clone().map(|name| if used.is_empty() { name } else { format!("{name}/{field}") });
            used.push(field);
            let annotated = AnnotatedText {
                text,
                document,
                line: record.line(),
                entities,
                is_document: true,
            };
            annotated_text::push(annotated, self.options, record.corpus);
        }
    }
}

/// The entities of a region: one for each of its labels.
fn region<'a>(value: &'a Value, tally: &mut Tally, line: usize) -> Result<Vec<RawSpan<'a>>, String> {
    let labels = ["labels", "label", "hypertextlabels", "paragraphlabels"].iter().find_map(|key| value.get(*key));
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
    let is_path = |key: &str| value.get(key).and_then(Value::as_str).is_some_and(|path| path.parse::<usize>().is_err());
    if is_path("start") || value.get("startOffset").is_some() || value.get("paragraphlabels").is_some() {
        tally.add(line, "{n} regions of HTML or dialogues are ignored; only regions of plain texts are read");
        return Ok(Vec::new());
    }
    let start = offset(value.get("start"), "start").map_err(|error| error.to_string())?;
    let end = offset(value.get("end"), "end").map_err(|error| error.to_string())?;
    let span = |label| RawSpan {
        parts: vec![(start, end)],
        label: Cow::Borrowed(label),
        surface: value.get("text").and_then(Value::as_str).filter(|text| !text.is_empty()),
        unit: None,
        inclusive: Some(false),
    };
    Ok(labels.into_iter().map(span).collect())
}

/// Fields of JSON-MIN records that are not part of the task.
const META: [&str; 11] = [
    "id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "completed_by", "source",
    "file_upload", "uuid",
];

/// The field with the text of the regions: the one in which most of their texts are found. Where that does not decide, the
/// field of the task before, the one with the name that the regions refer to, one with a usual name, or the longest.
fn text_field<'a>(data: &'a Map<String, Value>, group: &Regions<'_>, known: Option<&str>) -> Option<(&'a str, &'a str)> {
    let fields = data.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let score = |(key, text): &(&str, &str)| {
        let index = TextIndex::new(text);
        let is_found = |span: &RawSpan<'_>| {
            span.surface.is_some_and(|surface| index.unit_of(span.parts[0], surface).is_some())
        };
        let found = group.spans.iter().filter(|(_, span)| is_found(span)).count();
        let usual = TEXTS.iter().position(|name| *name == canonical(key)).map(|place| TEXTS.len() - place);
        (found, Some(*key) == known, *key == group.name, !META.contains(key), usual, text.len())
    };
    fields.max_by_key(score)
}

/// True for a text that is only the address of one.
fn is_address(text: &str) -> bool {
    let starts = ["http://", "https://", "s3://", "gs://", "/data/"];
    starts.iter().any(|start| text.starts_with(start)) && !text.trim().contains(char::is_whitespace)
}
