//! Prodigy's JSON lines: `text`, `tokens` as objects with offsets, `spans`, and the annotator's `answer`.
//!
//! The form is that of Prodigy 1.11 to 1.18, interfaces `ner_manual`, `ner` and `spans_manual`
//! (<https://prodi.gy/docs/api-interfaces>). `start` and `end` count characters, `end` is exclusive; `token_start` and
//! `token_end` count tokens, `token_end` is inclusive.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::json::content::document;
use super::json::entity::{RawSpan, Unit};
use super::json::record::{Record, object};
use super::json::values::{offset, type_name};
use super::json::{self, Place};
use super::sentences::annotated_text::{self, AnnotatedText};
use super::sentences::given_words::{self, WordText};
use super::source::tally::Tally;
use super::source::{Collector, Source};
use super::{ReadOptions, words};
use crate::text::CharacterIndex;

/// Reads a file of Prodigy's annotations.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut tally = Tally::default();
    let mut hashes = HashSet::new();
    let mut annotated = 0;
    let faults = json::records(source, |place, value| {
        let Some(object) = object(&value, place, corpus) else {
            return;
        };
        let line = place.at.0;
        match object.get("answer").and_then(Value::as_str) {
            Some("reject") => {
                return tally.add(line, "{n} records with the answer `reject` are skipped");
            }
            Some("ignore") => {
                return tally.add(line, "{n} records with the answer `ignore` are skipped");
            }
            _ => {}
        }
        annotated += usize::from(object.contains_key("spans"));
        if object.get("_view_id").and_then(Value::as_str) == Some("ner") {
            tally.add(
                line,
                "{n} records are answers about single entities (interface `ner`); other entities of their texts are missing",
            );
        }
        let relations = object
            .get("relations")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        tally.add_many(line, "{n} relations are ignored", relations);
        if let Some(hash) = object.get("_input_hash").and_then(Value::as_i64)
            && !hashes.insert(hash)
        {
            tally.add(
                line,
                "{n} records repeat the `_input_hash` of an earlier one, by another annotator or in another session; all are \
                 kept, export one annotator or use Prodigy's `review` to have each text once",
            );
        }
        convert(object, place, options, &mut tally, corpus);
    });
    faults.report(corpus);
    if !corpus.sentences.is_empty() && annotated == 0 {
        corpus.warn(0, "no record has `spans`; read as texts without entities");
    }
    tally.report(corpus);
}

fn convert(
    object: &Map<String, Value>,
    place: &Place,
    options: &ReadOptions,
    tally: &mut Tally,
    corpus: &mut Collector,
) {
    let mut record = Record::new(object, place, corpus);
    let Some(text) = object.get("text").and_then(Value::as_str) else {
        return record.lacks("text");
    };
    let index = CharacterIndex::new(text);
    let tokens = match tokens(object, text) {
        Ok(tokens) => tokens,
        Err(problem) => return record.error(problem),
    };
    let mut spans = Vec::new();
    match object.get("spans") {
        None | Some(Value::Null) => {}
        Some(value @ Value::Array(_)) => {
            spans = record.spans("spans", value, Unit::Characters, options)
        }
        Some(other) => record.error(format!("`spans` must be a list, not {}", type_name(other))),
    }
    for (at, span) in &mut spans {
        if span.unit == Some(Unit::Words)
            && let Err(problem) = to_characters(span, tokens.as_deref())
        {
            record.error(format!("{at} {problem}"));
        }
    }
    spans.retain(|(_, span)| span.unit != Some(Unit::Words));
    let entities = record.text_entities(spans, &index, false, tally);
    if !record.valid {
        return;
    }
    let meta = object.get("meta").and_then(Value::as_object);
    let name = document(object, &["text"]).or_else(|| document(meta?, &[]));
    let line = record.line();
    let Some(tokens) = tokens else {
        let annotated = AnnotatedText {
            text,
            document: name,
            line,
            entities,
            is_document: true,
        };
        return annotated_text::push(annotated, options, record.corpus);
    };
    let annotated = WordText {
        text,
        words: tokens
            .into_iter()
            .map(|(start, end)| (start, end, None))
            .collect(),
        document: name,
        line,
        entities,
        ..WordText::default()
    };
    if let Err(problem) = given_words::push(annotated, options, record.corpus) {
        record.error(problem);
    }
}

/// The characters of each token, from its offsets or from its text; `None` if the record has no tokens.
fn tokens(object: &Map<String, Value>, text: &str) -> Result<Option<Vec<(usize, usize)>>, String> {
    let list = match object.get("tokens") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) if list.is_empty() => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(format!("`tokens` must be a list, not {}", type_name(other))),
    };
    let offsets = list.iter().map(|token| {
        let start = offset(token.get("start"), "start").ok()?;
        Some((start, offset(token.get("end"), "end").ok()?))
    });
    if let Some(offsets) = offsets.collect::<Option<Vec<_>>>() {
        return Ok(Some(offsets));
    }
    let texts = list
        .iter()
        .map(|token| token.get("text").unwrap_or(token).as_str());
    let texts: Option<Vec<&str>> = texts.collect();
    let aligned = texts.and_then(|texts| words::align(text, &texts));
    match aligned {
        Some(sentence) => Ok(Some(
            sentence
                .words
                .iter()
                .map(|word| (word.start, word.end))
                .collect(),
        )),
        None => Err(
            "`tokens` must have `start` and `end`, or be the words of `text` in order".to_string(),
        ),
    }
}

/// Converts a span of tokens with an inclusive end to one of characters.
fn to_characters(span: &mut RawSpan<'_>, tokens: Option<&[(usize, usize)]>) -> Result<(), String> {
    let (start, end) = span.parts[0];
    let tokens = tokens.ok_or(
        "has `token_start` and `token_end`, but the record has no `tokens`; add `start` and `end`",
    )?;
    let (Some((from, _)), Some((_, to))) = (tokens.get(start), tokens.get(end)) else {
        return Err(format!(
            "is token {start} to {end}, but there are only {} tokens",
            tokens.len()
        ));
    };
    span.parts = vec![(*from, *to)];
    span.unit = None;
    span.inclusive = Some(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Format;
    use crate::data::json::fixtures::{found, read_with};

    #[test]
    fn broken_records_are_reported() {
        for (record, part) in [
            (r#"{"image": "x.png", "spans": []}"#, "no `text`"),
            (
                r#"{"text": "ab", "spans": [{"start": 0, "end": 3, "label": "A"}]}"#,
                "only 2 characters",
            ),
            (
                r#"{"text": "ab", "spans": [{"start": 0, "end": 2}]}"#,
                "no `type`",
            ),
            (
                r#"{"text": "ab", "spans": [{"token_start": 0, "token_end": 0, "label": "A"}]}"#,
                "no `tokens`",
            ),
            (
                r#"{"text": "ab", "tokens": [{"text": "x"}], "spans": []}"#,
                "`tokens` must have",
            ),
            (
                r#"{"text": "ab", "tokens": [{"start": 1, "end": 2}, {"start": 0, "end": 1}], "spans": []}"#,
                "not after the word before",
            ),
            (
                r#"{"text": "ab", "tokens": [{"start": 0, "end": 2}], "spans": [{"token_start": 0, "token_end": 4, "label": "A"}]}"#,
                "only 1 tokens",
            ),
            (r#"{"text": "ab", "spans": 3}"#, "must be a list"),
            (r#"{"text": "ab"}"#, "no record has `spans`"),
            (
                r#"{"text": "ab", "_view_id": "ner", "spans": [{"start": 0, "end": 2, "label": "A"}]}"#,
                "single entities",
            ),
            (r#""ab""#, "not a JSON object"),
        ] {
            let (_, problems) = read_with(record, &ReadOptions::of(Format::Prodigy));
            assert_eq!(problems.len(), 1, "{record} {problems:?}");
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
    }

    #[test]
    fn tokens_without_offsets_are_aligned_and_repeated_texts_counted() {
        let record = r#"{"text": "Zoë sings", "_input_hash": 1, "tokens": [{"text": "Zoë", "id": 0}, {"text": "sings", "id": 1}], "spans": [{"token_start": 0, "token_end": 0, "label": "PER"}]}"#;
        let (sentences, problems) = read_with(
            format!("{record}\n{record}\n"),
            &ReadOptions::of(Format::Prodigy),
        );
        assert_eq!(found(&sentences)[0].0, "Zoe\u{308}");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].message.contains("1 records repeat"));
    }
}
