//! BioC JSON: collections of documents with passages, sentences and annotations.
//!
//! The form is that of the `bioc` libraries (<https://github.com/bionlp/bioc>) and of PubTator's interface, whose answers
//! hold the documents under `PubTator3`. Offsets count from the start of the document. An annotation with several locations is
//! discontinuous. The schema of BigBIO (`bigbio_kb`), with `passages` and `entities` of a document, is read too.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::ReadOptions;
use super::json::entity::RawSpan;
use super::json::record::{Record, object};
use super::json::text::document_id;
use super::json::values::offset;
use super::json::{self, Place};
use super::sentences::annotated_text::{self, AnnotatedText};
use super::sentences::offset_unit::OffsetUnit;
use super::source::tally::Tally;
use super::source::{Collector, Source};
use crate::text::CharacterIndex;

/// Reads a file of documents in BioC JSON.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut tally = Tally::default();
    let mut annotated = false;
    let faults = json::records(source, |place, value| {
        let Some(record) = object(&value, place, corpus) else {
            return;
        };
        // A collection inside a list.
        if let Some(list) = record.get("documents").and_then(Value::as_array) {
            for (index, document) in list.iter().enumerate() {
                let place = Place {
                    at: place.at,
                    prefix: format!("{}document {}: ", place.prefix, index + 1),
                };
                if let Some(document) = object(document, &place, corpus) {
                    let mut record = Record::new(document, &place, corpus);
                    annotated |= read_document(&mut record, options, &mut tally);
                }
            }
            return;
        }
        let converted = from_bigbio(record);
        let document = converted.as_ref().unwrap_or(record);
        let mut record = Record::new(document, place, corpus);
        annotated |= read_document(&mut record, options, &mut tally);
    });
    faults.report(corpus);
    if !corpus.sentences.is_empty() && !annotated {
        corpus.warn(
            0,
            "no document has `annotations`; read as texts without entities",
        );
    }
    tally.report(corpus);
}

/// A document in BigBIO's schema, whose texts and offsets are lists of parts, as one of BioC; `None` for other documents.
fn from_bigbio(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let passages = object.get("passages")?.as_array()?;
    let is_bigbio = |passage: &Value| passage["text"].is_array() && passage["offsets"].is_array();
    if passages.is_empty() || !passages.iter().all(is_bigbio) {
        return None;
    }
    let passage =
        |passage: &Value| json!({"offset": passage["offsets"][0][0], "text": passage["text"][0]});
    let annotation = |entity: &Value| {
        let location = |part: &Value| {
            let length = part[1].as_u64()?.checked_sub(part[0].as_u64()?)?;
            Some(json!({"offset": part[0], "length": length}))
        };
        let parts = entity["offsets"].as_array().into_iter().flatten();
        let text = entity["text"].as_array().filter(|texts| texts.len() == 1);
        json!({
            "id": entity["id"],
            "infons": {"type": entity["type"]},
            "text": text.map(|texts| texts[0].clone()),
            "locations": parts.filter_map(location).collect::<Vec<_>>(),
        })
    };
    let entities = object
        .get("entities")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let document = json!({
        "id": object.get("document_id").or_else(|| object.get("id")),
        "passages": passages.iter().map(passage).collect::<Vec<_>>(),
        "annotations": entities.map(annotation).collect::<Vec<_>>(),
        "relations": object.get("relations"),
    });
    match document {
        Value::Object(document) => Some(document),
        _ => None,
    }
}

/// A passage or sentence: a text with its place in the document.
struct Piece<'a> {
    start: usize,
    text: &'a str,
    annotations: Vec<&'a Value>,
    is_sentence: bool,
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Adds a document; false if it has no list of annotations.
fn read_document(record: &mut Record<'_, '_>, options: &ReadOptions, tally: &mut Tally) -> bool {
    let object = record.object;
    let Some(Value::Array(passages)) = object.get("passages") else {
        record.lacks("passages");
        return true;
    };
    let line = record.line();
    let mut has_annotations = object.contains_key("annotations");
    let mut pieces: Vec<Piece> = Vec::new();
    for (index, passage) in passages.iter().enumerate() {
        tally.add_many(
            line,
            "{n} relations are ignored",
            list(passage, "relations").len(),
        );
        let text = passage
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let sentences = list(passage, "sentences");
        let parts = if text.is_empty() && !sentences.is_empty() {
            sentences
        } else {
            std::slice::from_ref(passage)
        };
        let first = pieces.len();
        for part in parts {
            has_annotations |= part.get("annotations").is_some();
            let start = match offset(part.get("offset"), "offset") {
                Ok(start) => start,
                Err(problem) => {
                    record.error(format!("`passages`[{index}]: {problem}"));
                    continue;
                }
            };
            pieces.push(Piece {
                start,
                text: part.get("text").and_then(Value::as_str).unwrap_or_default(),
                annotations: list(part, "annotations").iter().collect(),
                is_sentence: !std::ptr::eq(part, passage),
            });
        }
        // Annotations of a passage with sentences, or of the sentences of a passage with a text.
        let mut others: Vec<&Value> = Vec::new();
        if pieces.get(first).is_some_and(|piece| piece.is_sentence) {
            others.extend(list(passage, "annotations"));
        } else {
            others.extend(
                sentences
                    .iter()
                    .flat_map(|sentence| list(sentence, "annotations")),
            );
        }
        assign(&mut pieces[first..], others);
    }
    tally.add_many(
        line,
        "{n} relations are ignored",
        object
            .get("relations")
            .and_then(Value::as_array)
            .map_or(0, Vec::len),
    );
    let whole = object.get("annotations").and_then(Value::as_array);
    assign(&mut pieces, whole.into_iter().flatten().collect());
    let name = document_id(object, record.corpus);
    let mut annotated = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let mut spans = Vec::new();
        let text = CharacterIndex::new(piece.text);
        for (index, annotation) in piece.annotations.iter().enumerate() {
            let id = annotation.get("id").and_then(Value::as_str);
            let at = id.map_or_else(
                || format!("annotation {index}"),
                |id| format!("annotation `{id}`"),
            );
            match span(annotation, piece.start, &text, line, tally) {
                Ok(span) => spans.extend(span.map(|span| (at, span))),
                Err(problem) => record.error(format!("{at} {problem}")),
            }
        }
        annotated.push(record.text_entities(spans, &text, false, tally));
    }
    if !record.valid {
        return true;
    }
    let mut position = 0;
    let first = record.corpus.sentences.len();
    for (piece, entities) in pieces.iter().zip(annotated) {
        if piece.text.is_empty() {
            continue;
        }
        // Passages keep their distance in the document unless it cannot be right.
        let gap = piece
            .start
            .checked_sub(position)
            .filter(|gap| *gap <= 100)
            .unwrap_or(usize::from(position > 0));
        let before = record.corpus.sentences.len();
        if let Some(last) = record.corpus.sentences[first..].last_mut() {
            last.trailing.push_str(&"\n".repeat(gap));
        }
        position += gap;
        let text = AnnotatedText {
            text: piece.text,
            document: name.clone(),
            line,
            entities,
            is_document: !piece.is_sentence,
        };
        annotated_text::push(text, options, record.corpus);
        for sentence in &mut record.corpus.sentences[before..] {
            sentence.offset += position;
        }
        position += piece.text.chars().count();
    }
    has_annotations
}

/// Gives annotations to the piece in which they start.
fn assign<'a>(pieces: &mut [Piece<'a>], annotations: Vec<&'a Value>) {
    for annotation in annotations {
        let start = list(annotation, "locations")
            .first()
            .and_then(|location| offset(location.get("offset"), "offset").ok());
        let place = match start {
            Some(start) => pieces
                .partition_point(|piece| piece.start <= start)
                .saturating_sub(1),
            None => 0,
        };
        if let Some(piece) = pieces.get_mut(place) {
            piece.annotations.push(annotation);
        }
    }
}

/// The span of an annotation in its passage, which starts at the offset `passage`; `None` if it has no location.
fn span<'a>(
    annotation: &'a Value,
    passage: usize,
    text: &CharacterIndex<'_>,
    line: usize,
    tally: &mut Tally,
) -> Result<Option<RawSpan<'a>>, String> {
    let infons = annotation.get("infons").and_then(Value::as_object);
    let label = infons.and_then(|infons| {
        [
            "type",
            "label",
            "entity_type",
            "class",
            "category",
            "concept_type",
        ]
        .iter()
        .find_map(|key| infons.get(*key)?.as_str())
    });
    let Some(label) = label.filter(|label| !label.trim().is_empty()) else {
        let keys: Vec<&str> = infons
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect();
        return Err(format!(
            "has no `infons.type` but the infons {}; name its type",
            keys.join(", ")
        ));
    };
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for location in list(annotation, "locations") {
        let start = offset(location.get("offset"), "offset").map_err(|error| error.to_string())?;
        let length = offset(location.get("length"), "length").map_err(|error| error.to_string())?;
        parts.push((start, start.saturating_add(length)));
    }
    parts.sort_unstable();
    // Parts that touch are one.
    parts.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
    if parts.is_empty() {
        tally.add(
            line,
            "{n} annotations without a location in the text are ignored",
        );
        return Ok(None);
    }
    let surface = annotation
        .get("text")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    let inside: Option<Vec<(usize, usize)>> = parts
        .iter()
        .map(|(start, end)| Some((start.checked_sub(passage)?, end.checked_sub(passage)?)))
        .collect();
    // Some files count from the start of the passage; the text of the annotation shows it.
    let is_found = |parts: &[(usize, usize)]| {
        surface.is_some_and(|surface| OffsetUnit::of(text, parts[0], surface).is_some())
    };
    let is_relative = passage > 0
        && parts.len() == 1
        && !inside.as_ref().is_some_and(|inside| is_found(inside))
        && is_found(&parts);
    let parts = match inside {
        _ if is_relative => {
            tally.add(line, "{n} annotations count from the start of their passage, as their texts show; read that way");
            parts
        }
        Some(inside) => inside,
        None => {
            return Err(format!(
                "({label}) starts before its passage, at {}; correct the offsets",
                parts[0].0
            ));
        }
    };
    Ok(Some(RawSpan {
        parts,
        label: Cow::Borrowed(label),
        surface,
        unit: None,
        inclusive: Some(false),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::json::fixtures::{found, read_with};
    use crate::data::testing::fixture;
    use crate::data::{Format, scan};

    fn document(annotation: &str) -> String {
        format!(
            r#"{{"id": "1", "passages": [{{"offset": 10, "text": "Naïve TP53", "annotations": [{annotation}]}}]}}"#
        )
    }

    #[test]
    fn broken_documents_are_reported() {
        for (content, part) in [
            (
                document(
                    r#"{"id": "T1", "infons": {"type": "Gene"}, "locations": [{"offset": 16, "length": 9}]}"#,
                ),
                "annotation `T1` (Gene) ends at 15",
            ),
            (
                document(
                    r#"{"infons": {"type": "Gene"}, "locations": [{"offset": 2, "length": 1}]}"#,
                ),
                "before its passage",
            ),
            (
                document(
                    r#"{"infons": {"kind": "Gene"}, "locations": [{"offset": 16, "length": 4}]}"#,
                ),
                "the infons kind",
            ),
            (
                document(r#"{"infons": {"type": "Gene"}, "locations": [{"offset": 16}]}"#),
                "no `length`",
            ),
            (
                document(r#"{"infons": {"type": "Gene"}, "locations": []}"#),
                "without a location",
            ),
            (
                document(
                    r#"{"infons": {"type": "Gene"}, "text": "TP53", "locations": [{"offset": 6, "length": 4}]}"#,
                ),
                "from the start of their passage",
            ),
            (
                document(
                    r#"{"infons": {"type": "Gene"}, "text": "TP53", "locations": [{"offset": 17, "length": 4}]}"#,
                ),
                "1 spans count bytes",
            ),
            (
                r#"{"id": "1", "passages": [{"offset": 0, "text": "a"}]}"#.to_string(),
                "no document has `annotations`",
            ),
            (
                r#"{"id": "1", "passages": [{"text": "a", "annotations": []}]}"#.to_string(),
                "no `offset`",
            ),
            (r#"{"id": "1"}"#.to_string(), "no `passages`"),
        ] {
            let (_, problems) = read_with(&content, &ReadOptions::of(Format::Bioc));
            assert_eq!(problems.len(), 1, "{content} {problems:?}");
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
        let (sentences, _) = read_with(
            document(
                r#"{"infons": {"type": "Gene"}, "text": "TP53", "locations": [{"offset": 17, "length": 4}]}"#,
            ),
            &ReadOptions::of(Format::Bioc),
        );
        assert_eq!(found(&sentences)[0].0, "TP53");
    }

    #[test]
    fn bigbio_documents_are_read() {
        let content = r#"[{"id": "0", "document_id": "d", "passages": [{"id": "1", "type": "title", "text": ["Aspirin"], "offsets": [[0, 7]]}, {"id": "2", "type": "abstract", "text": ["TP53 binds."], "offsets": [[8, 19]]}], "entities": [{"id": "3", "type": "Gene", "text": ["TP53"], "offsets": [[8, 12]], "normalized": []}], "events": [], "relations": []}]"#;
        let (sentences, problems) = read_with(content, &ReadOptions::default());
        assert_eq!(problems, []);
        assert_eq!(
            found(&sentences),
            [("TP53".to_string(), "Gene".to_string())]
        );
        assert_eq!(sentences[0].document.as_deref(), Some("d"));
    }

    #[test]
    fn passages_keep_their_place_in_the_document() {
        let (sentences, _) =
            scan(&fixture("bioc/collection.json"), &ReadOptions::default()).unwrap();
        let text: String = sentences
            .iter()
            .flat_map(|part| [part.text.as_str(), part.trailing.as_str()])
            .collect();
        assert_eq!(
            text,
            "Aspirin in Lindholm disease\nNaïve T and B cells bind IL-2."
        );
        assert_eq!(sentences.last().unwrap().offset, 28);
        assert_eq!(sentences[0].document.as_deref(), Some("123"));
        let parts = &sentences.last().unwrap().discontinuous[0].parts;
        assert_eq!(parts, &[(6, 7), (14, 19)]);
    }
}
