//! Label Studio's JSON and JSON-MIN exports.
//!
//! The forms are those of Label Studio 0.9 (`completions`) to 1.20 (<https://labelstud.io/guide/task_format>). Offsets count
//! characters; versions before 1.5 counted UTF-16 code units, which the texts of the regions show.

mod regions;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::json::content::document;
use super::json::entity::RawSpan;
use super::json::record::{Record, object};
use super::json::text::document_id;
use super::sentences::annotated_text::{self, AnnotatedText};
use super::source::tally::Tally;
use super::source::{Collector, Source};
use super::{ReadOptions, json};
use crate::text::CharacterIndex;
use regions::{Regions, is_address, is_region_list, region, text_field};

/// Reads a Label Studio export.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut labelled = 0;
    json::records(source, |_, value| {
        labelled += usize::from(is_labelled(&value))
    });
    let mut reader = Reader {
        options,
        has_labels: labelled > 0,
        fields: Vec::new(),
        seen: HashSet::new(),
        tally: Tally::default(),
    };
    let faults = json::records(source, |place, value| {
        let Some(object) = object(&value, place, corpus) else {
            return;
        };
        let mut record = Record::new(object, place, corpus);
        if object.get("data").is_some_and(Value::is_object) {
            reader.task(&mut record);
        } else {
            reader.minimal(&mut record);
        }
    });
    faults.report(corpus);
    if !corpus.sentences.is_empty() && labelled == 0 {
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
        return ["annotations", "completions", "predictions"]
            .iter()
            .any(|key| !annotations(object, key).is_empty());
    }
    object.values().any(is_region_list)
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
        let is_set = |annotation: &Value, key: &str| {
            annotation.get(key).and_then(Value::as_bool) == Some(true)
        };
        let usable: Vec<&Value> = given
            .iter()
            .filter(|annotation| {
                annotation.is_object()
                    && !is_set(annotation, "was_cancelled")
                    && !is_set(annotation, "skipped")
            })
            .collect();
        let predictions = annotations(object, "predictions");
        let chosen = match (&usable[..], given, predictions) {
            ([first, others @ ..], ..) => {
                self.tally.add_many(
                    line,
                    "{n} further annotations of the same tasks are not used; of several, the one marked as ground truth counts, else the first",
                    others.len(),
                );
                let truth = usable
                    .iter()
                    .find(|annotation| is_set(annotation, "ground_truth"));
                Some(truth.copied().unwrap_or(first))
            }
            ([], [_, ..], _) => {
                return self.tally.add(
                    line,
                    "{n} tasks are skipped, because all their annotations were cancelled",
                );
            }
            ([], [], [first, ..]) => {
                self.tally.add(
                    line,
                    "{n} tasks have no annotations; their first prediction is used",
                );
                Some(first)
            }
            ([], [], []) if self.has_labels => {
                return self.tally.add(
                    line,
                    "{n} tasks are skipped, because they have no annotations",
                );
            }
            ([], [], []) => None,
        };
        let results = chosen
            .and_then(|annotation| annotation.get("result"))
            .and_then(Value::as_array);
        let mut groups: Vec<Regions> = Vec::new();
        for (index, result) in results
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let name = result
                .get("to_name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let spans = match self.result(line, result) {
                Ok(spans) if spans.is_empty() => continue,
                Ok(spans) => spans
                    .into_iter()
                    .map(|span| (format!("`result`[{index}]"), span)),
                Err(problem) => {
                    record.error(format!("`result`[{index}] {problem}"));
                    continue;
                }
            };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.spans.extend(spans),
                None => groups.push(Regions {
                    name: name.to_string(),
                    spans: spans.collect(),
                }),
            }
        }
        if groups.is_empty() {
            let name = self
                .fields
                .first()
                .map(|(name, _)| name.clone())
                .unwrap_or_default();
            groups.push(Regions {
                name,
                spans: Vec::new(),
            });
        }
        let document = document(data, &[]).or_else(|| document_id(object, record.corpus));
        self.push(record, data, groups, document);
    }

    /// A record of the JSON-MIN export: the fields of the task, and lists of regions under the names of their controls.
    fn minimal(&mut self, record: &mut Record<'_, '_>) {
        let object = record.object;
        if let Some(id) = object
            .get("id")
            .filter(|_| object.contains_key("annotation_id"))
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
                    Ok(spans) => regions
                        .spans
                        .extend(spans.into_iter().map(|span| (at.clone(), span))),
                    Err(problem) => record.error(format!("{at} {problem}")),
                }
            }
        }
        let document = document(object, &[]).or_else(|| document_id(object, record.corpus));
        self.push(record, object, vec![regions], document);
    }

    /// The regions of an item of `result`. What is not a region of a text is counted.
    fn result<'a>(&mut self, line: usize, result: &'a Value) -> Result<Vec<RawSpan<'a>>, String> {
        let kind = result
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("labels");
        if kind != "labels" {
            self.tally.add(
                line,
                &format!("{{n}} results of the type `{kind}` are ignored"),
            );
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
            let known = self
                .fields
                .iter()
                .find(|(name, _)| *name == group.name)
                .map(|(_, field)| field.as_str());
            let Some((field, text)) = text_field(data, &group, known) else {
                let keys: Vec<&str> = data.keys().map(String::as_str).collect();
                return record.error(format!(
                    "has no text among its fields {}; export the text with the task",
                    keys.join(", ")
                ));
            };
            if is_address(text) {
                return record.error(format!("`{field}` is the address of a text, `{text}`; export tasks that contain the text"));
            }
            self.fields.retain(|(name, _)| *name != group.name);
            self.fields.push((group.name.clone(), field.to_string()));
            let index = CharacterIndex::new(text);
            let entities = record.text_entities(group.spans, &index, false, &mut self.tally);
            if !record.valid {
                return;
            }
            // Each text of a task is a document.
            let document = document.clone().map(|name| {
                if used.is_empty() {
                    name
                } else {
                    format!("{name}/{field}")
                }
            });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Format;
    use crate::data::json::fixtures::{found, read_with};

    fn task(text: &str, value: &str) -> String {
        format!(
            r#"[{{"id": 1, "data": {{"text": "{text}"}}, "annotations": [{{"result": [{{"type": "labels", "to_name": "text", "value": {value}}}]}}]}}]"#
        )
    }

    #[test]
    fn broken_tasks_are_reported() {
        for (content, part) in [
            (task("ab", r#"{"start": 0, "end": 9, "labels": ["A"]}"#), "`result`[0] (A) ends at 9"),
            (task("ab", r#"{"start": -1, "end": 2, "labels": ["A"]}"#), "must be an integer"),
            (task("ab", r#"{"end": 2, "labels": ["A"]}"#), "has no `start`"),
            (task("ab cd", r#"{"start": 0, "end": 2, "text": "cd", "labels": ["A"]}"#), "its text is given as `cd`"),
            (task("ab", r#"{"start": 0, "end": 2, "labels": []}"#), "1 regions without a label"),
            (task("https://x.org/a.txt", r#"{"start": 0, "end": 2, "labels": ["A"]}"#), "address of a text"),
            (task("<p>a</p>", r#"{"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "startOffset": 0, "endOffset": 1, "labels": ["A"]}"#), "HTML"),
            (r#"[{"id": 1, "data": {"n": 1}, "annotations": [{"result": []}]}]"#.to_string(), "no text among its fields n"),
            (r#"[{"id": 1, "data": {"text": "a"}, "annotations": []}]"#.to_string(), "no task has annotations"),
            (r#"[{"id": 1, "data": {"text": "a"}, "annotations": [{"result": [], "was_cancelled": true}]}]"#.to_string(), "cancelled"),
            ("[3]".to_string(), "not a JSON object"),
        ] {
            let (_, problems) = read_with(&content, &ReadOptions::of(Format::LabelStudio));
            assert_eq!(problems.len(), 1, "{content} {problems:?}");
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
    }

    #[test]
    fn regions_go_to_the_text_they_were_made_in() {
        let content = r#"[{"id": 1, "data": {"title": "Maria sings", "body": "In Lindholm, Zoë."}, "annotations": [{"ground_truth": false, "result": []}, {"ground_truth": true, "result": [
            {"type": "labels", "to_name": "t", "value": {"start": 0, "end": 5, "text": "Maria", "labels": ["PER"]}},
            {"type": "labels", "to_name": "b", "value": {"start": 3, "end": 11, "text": "Lindholm", "labels": ["LOC"]}}]}]}]"#;
        let (sentences, problems) = read_with(content, &ReadOptions::of(Format::LabelStudio));
        let names: Vec<String> = found(&sentences)
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        assert_eq!(names, ["Maria", "Lindholm"]);
        assert_eq!(sentences[0].document.as_deref(), Some("file#1"));
        assert_ne!(sentences[0].document, sentences[1].document);
        assert_eq!(problems.len(), 1);
    }
}
