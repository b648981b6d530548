//! Detecting the format of a JSON file from its first record.

use serde_json::{Map, Value};

use super::content::{text, words};
use super::holder::is_tuple;
use super::keys::Annotations;
use super::{Layout, document};
use crate::data::Format;

/// The format of a file with this first record; `None` if the record has neither words nor a text.
pub(in crate::data) fn of(record: &Value, layout: Layout) -> Option<Format> {
    let Value::Object(object) = record else {
        return is_tuple(record).then_some(Format::Spacy);
    };
    let has = |key: &str| object.contains_key(key);
    let is_list = |key: &str| object.get(key).is_some_and(Value::is_array);
    if is_list("passages")
        || (is_list("documents") && record["documents"][0]["passages"].is_array())
    {
        return Some(Format::Bioc);
    }
    let paragraph = &record["paragraphs"][0];
    if paragraph.get("sentences").is_some()
        || paragraph.get("raw").is_some()
        || has("token_annotation")
    {
        return Some(Format::Spacy);
    }
    if is_label_studio(object) {
        return Some(Format::LabelStudio);
    }
    if is_list("tokenized_text") {
        return Some(Format::Gliner);
    }
    let has_text = object.get("text").is_some_and(Value::is_string);
    let token = &record["tokens"][0];
    let has_offsets = token.get("start").is_some() && token.get("end").is_some();
    if has_text
        && (is_list("ents") || is_list("sents") || (has_offsets && token.get("text").is_none()))
    {
        return Some(Format::Spacy);
    }
    let hashes = ["_input_hash", "_task_hash", "_view_id", "_session_id"];
    let is_answer = has("answer") && (has("spans") || has("tokens"));
    if has_text && (has_offsets || is_answer || hashes.iter().any(|key| has(key))) {
        return Some(Format::Prodigy);
    }
    if document::sentences(object).is_some() {
        return Some(token_format(layout));
    }
    if let Ok(list) = words(object) {
        let is_w2ner = list.key == "sentence" && {
            let first = &record["ner"][0];
            first.is_null() || first.get("index").is_some()
        };
        return Some(if is_w2ner {
            Format::W2ner
        } else {
            token_format(layout)
        });
    }
    text(object).map(|(key, _)| {
        if is_doccano(object, key) {
            Format::Doccano
        } else {
            Format::TextJsonl
        }
    })
}

/// A file of records with words; the name depends on whether each line is a record.
fn token_format(layout: Layout) -> Format {
    match layout {
        Layout::Lines => Format::TokensJsonl,
        _ => Format::Spert,
    }
}

fn is_label_studio(object: &Map<String, Value>) -> bool {
    let is_list = |key: &str| object.get(key).is_some_and(Value::is_array);
    let has_result = |key: &str| {
        object
            .get(key)
            .is_some_and(|list| list[0].get("result").is_some())
    };
    let is_task = object.get("data").is_some_and(Value::is_object)
        && (is_list("annotations") || is_list("completions") || is_list("predictions"));
    // JSON-MIN.
    let is_minimal = object.contains_key("annotation_id")
        && (object.contains_key("annotator") || object.contains_key("lead_time"));
    is_task || has_result("annotations") || has_result("completions") || is_minimal
}

/// Doccano has `label` or `labels` with triples, or `entities` with `start_offset`.
fn is_doccano(object: &Map<String, Value>, text_key: &str) -> bool {
    if object.contains_key("Comments") {
        return true;
    }
    let Some((key, value)) = Annotations::of(object, &[text_key]).spans else {
        return false;
    };
    let first = &value[0];
    let is_triple = first
        .as_array()
        .is_some_and(|list| list.len() == 3 && list[0].is_number());
    let is_empty = value.as_array().is_some_and(Vec::is_empty);
    match key {
        "label" | "labels" => is_triple || (is_empty && object.contains_key("id")),
        "entities" | "annotations" => first.get("start_offset").is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_every_tool_are_told_apart() {
        for (record, format) in [
            (
                json!({"id": 1, "text": "a", "label": [[0, 1, "A"]]}),
                Format::Doccano,
            ),
            (
                json!({"id": 1, "text": "a", "labels": [], "Comments": []}),
                Format::Doccano,
            ),
            (
                json!({"id": 1, "data": "a", "label": [[0, 1, "A"]]}),
                Format::Doccano,
            ),
            (
                json!({"text": "a", "entities": [{"id": 0, "start_offset": 0, "end_offset": 1, "label": "A"}], "relations": []}),
                Format::Doccano,
            ),
            (
                json!({"text": "a", "entities": [[0, 1, "A"]]}),
                Format::TextJsonl,
            ),
            (
                json!({"text": "a", "label": {"A": {"a": [[0, 0]]}}}),
                Format::TextJsonl,
            ),
            (json!({"content": "a", "annotation": []}), Format::TextJsonl),
            (
                json!({"tokens": ["a"], "ner_tags": [0]}),
                Format::TokensJsonl,
            ),
            (json!({"text": ["a"], "labels": ["O"]}), Format::TokensJsonl),
            (
                json!({"sentences": [["a"]], "ner": [[]]}),
                Format::TokensJsonl,
            ),
            (
                json!({"tokens": ["a"], "sentence": "a", "entity_mentions": []}),
                Format::TokensJsonl,
            ),
            (
                json!({"sentence": ["a"], "ner": [{"index": [0], "type": "A"}]}),
                Format::W2ner,
            ),
            (
                json!({"sentence": ["a"], "ner": [[0, 0, "A"]]}),
                Format::TokensJsonl,
            ),
            (json!({"tokenized_text": ["a"], "ner": []}), Format::Gliner),
            (json!(["a", {"entities": []}]), Format::Spacy),
            (
                json!({"id": 0, "paragraphs": [{"raw": "a", "sentences": []}]}),
                Format::Spacy,
            ),
            (
                json!({"text": "a", "ents": [], "tokens": [{"id": 0, "start": 0, "end": 1}]}),
                Format::Spacy,
            ),
            (json!({"text": "a", "ents": []}), Format::Spacy),
            (
                json!({"text": "a", "tokens": [{"text": "a", "start": 0, "end": 1, "id": 0}], "spans": []}),
                Format::Prodigy,
            ),
            (
                json!({"text": "a", "_input_hash": 1, "answer": "accept"}),
                Format::Prodigy,
            ),
            (
                json!({"id": 1, "data": {"text": "a"}, "annotations": []}),
                Format::LabelStudio,
            ),
            (
                json!({"id": 1, "text": "a", "label": [], "annotator": 1, "annotation_id": 1}),
                Format::LabelStudio,
            ),
            (json!({"id": "1", "passages": []}), Format::Bioc),
            (json!({"documents": [{"passages": []}]}), Format::Bioc),
        ] {
            assert_eq!(of(&record, Layout::Lines), Some(format), "{record}");
        }
        assert_eq!(of(&json!({"foo": 1}), Layout::Lines), None);
        assert_eq!(
            of(&json!({"tokens": ["a"], "ner_tags": [0]}), Layout::List),
            Some(Format::Spert)
        );
    }
}
