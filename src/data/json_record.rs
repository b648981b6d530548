//! Converting a JSON record to a sentence.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::annotated_text::{self, has_lines};
use super::json::RecordKind;
use super::json_entity::{
    IndexEntity, RawEntity, check_entity, parse_entity, parse_index_entity, type_name,
};
use super::source::Collector;
use super::{ReadOptions, Severity, words};
use crate::text::{Discontinuous, Entity, Misaligned, Sentence, Span, slice};

/// Keys of the entities; Doccano writes `label` or `labels`, Prodigy `spans`.
const ENTITIES: [&str; 5] = ["entities", "ner", "labels", "label", "spans"];
/// Keys of the document's name.
const DOCUMENT: [&str; 5] = ["doc", "document", "doc_id", "doc_key", "orig_id"];

/// Adds the sentence of a record to the corpus, or reports its problems. `at` is the record's line and column; `prefix` is
/// put before every message.
pub(super) fn read(
    value: &Value,
    kind: RecordKind,
    options: &ReadOptions,
    at: (usize, usize),
    prefix: &str,
    corpus: &mut Collector,
) {
    let Some(object) = value.as_object() else {
        let message = format!("{prefix}not a JSON object but {}", type_name(value));
        return corpus.report(Severity::Error, at, message);
    };
    let mut record = Record {
        object,
        at,
        prefix,
        corpus,
        valid: true,
    };
    let sentence = match kind {
        RecordKind::Tokens => record.tokens(&["tokens", "words"]),
        RecordKind::Index => record.tokens(&["sentence"]),
        RecordKind::Text => record.text(options),
    };
    let Some(mut sentence) = sentence else {
        return;
    };
    sentence.document = record.document();
    match kind {
        RecordKind::Tokens => record.word_entities(&mut sentence),
        RecordKind::Index => record.index_entities(&mut sentence),
        RecordKind::Text => record.character_entities(ENTITIES.as_slice(), &mut sentence),
    }
    if record.valid && kind == RecordKind::Text {
        // One record is one sentence, unless it has several lines.
        let is_document = has_lines(&sentence.text);
        annotated_text::push_sentence(sentence, at.0, is_document, options, corpus);
    } else if record.valid {
        corpus.push(at.0, sentence);
    }
}

/// A record that is being converted.
struct Record<'a, 'b> {
    object: &'a Map<String, Value>,
    at: (usize, usize),
    prefix: &'b str,
    corpus: &'b mut Collector,
    valid: bool,
}

impl<'a> Record<'a, '_> {
    fn error(&mut self, message: impl AsRef<str>) {
        self.valid = false;
        self.report(Severity::Error, message.as_ref());
    }

    fn report(&mut self, severity: Severity, message: &str) {
        let message = format!("{}{message}", self.prefix);
        self.corpus.report(severity, self.at, message);
    }

    /// The first of the keys that the record has, with its value. That it has two of them is an error.
    fn one_of(&mut self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        let object = self.object;
        let mut present = keys
            .iter()
            .filter_map(|key| object.get(*key).map(|value| (*key, value)))
            .filter(|(_, value)| !value.is_null());
        let first = present.next();
        if let (Some((first, _)), Some((second, _))) = (first, present.next()) {
            self.error(format!("has both `{first}` and `{second}`; keep one"));
        }
        first
    }

    fn document(&self) -> Option<String> {
        let value = DOCUMENT
            .iter()
            .find_map(|key| self.object.get(*key).filter(|value| !value.is_null()))?;
        Some(match value {
            Value::String(name) => name.clone(),
            other => other.to_string(),
        })
    }

    fn strings(&mut self, key: &str, value: &'a Value) -> Option<Vec<&'a str>> {
        let strings = value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_str).collect());
        if strings.is_none() {
            self.error(format!("`{key}` must be a list of strings"));
        }
        strings
    }

    fn tokens(&mut self, keys: &[&'static str]) -> Option<Sentence> {
        let Some((key, value)) = self.one_of(keys) else {
            self.error(format!(
                "has no `{}`; choose another --format if this is not the right one",
                keys[0]
            ));
            return None;
        };
        let tokens = self.strings(key, value)?;
        if let Some(index) = tokens.iter().position(|token| token.is_empty()) {
            self.error(format!("word {index} is empty; remove it"));
        }
        let text = self.object.get("text").and_then(Value::as_str);
        let aligned = text.and_then(|text| words::align(text, &tokens));
        if text.is_some() && aligned.is_none() {
            let message = "`text` does not consist of the words of `tokens` in order; using the words joined by spaces";
            self.report(Severity::Warning, message);
        }
        let mut sentence = aligned.unwrap_or_else(|| Sentence::from_words(tokens));
        sentence.pos = self.part_of_speech(sentence.len());
        for (key, words) in [
            ("ltokens", &mut sentence.left),
            ("rtokens", &mut sentence.right),
        ] {
            if let Some(value) = self.object.get(key).filter(|value| !value.is_null()) {
                let strings = self.strings(key, value).unwrap_or_default();
                *words = strings.into_iter().map(str::to_string).collect();
            }
        }
        Some(sentence)
    }

    fn text(&mut self, options: &ReadOptions) -> Option<Sentence> {
        let Some(text) = self.object.get("text").and_then(Value::as_str) else {
            self.error(
                "has no string `text`; choose another --format if this is not the right one",
            );
            return None;
        };
        let mut sentence = words::sentence(text, options.segmentation.unwrap_or_default());
        sentence.pos = self.part_of_speech(sentence.len());
        Some(sentence)
    }

    fn part_of_speech(&mut self, length: usize) -> Option<Vec<String>> {
        let value = self.object.get("pos").filter(|value| !value.is_null())?;
        let tags = self.strings("pos", value)?;
        if tags.len() != length {
            let message = format!(
                "`pos` has {} tags for {length} words; give one for each word, or none",
                tags.len()
            );
            // A text is split into words by this program; tags for a different split are not an error of the file.
            if self.object.contains_key("tokens") || !self.object.contains_key("text") {
                self.error(message)
            } else {
                self.report(Severity::Warning, &message)
            }
            return None;
        }
        Some(tags.into_iter().map(str::to_string).collect())
    }

    fn word_entities(&mut self, sentence: &mut Sentence) {
        let mut seen = HashSet::new();
        for (start, end, label) in self.raw_entities(&ENTITIES, sentence.len(), "words") {
            if self.is_new(&mut seen, (start, end, label)) {
                sentence.entities.push(Entity::new(start, end, label));
            }
        }
        if self.object.contains_key("misaligned") {
            self.character_entities(&["misaligned"], sentence);
        }
    }

    fn character_entities(&mut self, keys: &[&'static str], sentence: &mut Sentence) {
        let mut seen = HashSet::new();
        let length = sentence.text.chars().count();
        for (start, end, label) in self.raw_entities(keys, length, "characters") {
            if !self.is_new(&mut seen, (start, end, label)) {
                continue;
            }
            if let Some(span) = sentence.span_of(start, end) {
                sentence
                    .entities
                    .push(Entity::new(span.start, span.end, label));
                continue;
            }
            self.report(
                Severity::Warning,
                &format!(
                    "{label} {start}..{end} `{}` does not start and end at word boundaries, so no model can find it; correct the offsets if they are wrong",
                    slice(&sentence.text, start, end)
                ),
            );
            sentence.misaligned.push(Misaligned {
                start,
                end,
                label: label.to_string(),
            });
        }
    }

    /// True for an entity that was not seen before; else reports a duplicate.
    fn is_new(&mut self, seen: &mut HashSet<RawEntity<'a>>, entity: RawEntity<'a>) -> bool {
        let is_new = seen.insert(entity);
        if !is_new {
            let (start, end, label) = entity;
            let message =
                format!("{label} {start}..{end} is given twice; counted once, delete one");
            self.report(Severity::Warning, &message);
        }
        is_new
    }

    /// The valid entities under one of the keys. `length` is the sentence's length in words or characters (`unit`).
    fn raw_entities(
        &mut self,
        keys: &[&'static str],
        length: usize,
        unit: &'static str,
    ) -> Vec<RawEntity<'a>> {
        let Some((key, value)) = self.one_of(keys) else {
            return Vec::new();
        };
        let Some(list) = value.as_array() else {
            self.error(format!(
                "`{key}` must be a list of entities, not {}",
                type_name(value)
            ));
            return Vec::new();
        };
        let mut valid = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            match parse_entity(value).and_then(|entity| check_entity(entity, length, unit)) {
                Ok(entity) => valid.push(entity),
                Err(problem) => self.invalid_entity(format!("`{key}`[{index}] {problem}")),
            }
        }
        valid
    }

    fn index_entities(&mut self, sentence: &mut Sentence) {
        let Some((key, value)) = self.one_of(&["ner", "entities"]) else {
            return;
        };
        let Some(list) = value.as_array() else {
            return self.error(format!("`{key}` must be a list, not {}", type_name(value)));
        };
        let mut seen = HashSet::new();
        for (position, value) in list.iter().enumerate() {
            match parse_index_entity(value, sentence.len()) {
                Ok(entity) if seen.contains(&entity) => {
                    let IndexEntity { parts, label } = entity;
                    let (start, end) = (parts[0].0, parts[parts.len() - 1].1);
                    let message =
                        format!("{label} {start}..{end} is given twice; counted once, delete one");
                    self.report(Severity::Warning, &message);
                }
                Ok(entity) => {
                    add_parts(&entity, sentence);
                    seen.insert(entity);
                }
                Err(problem) => self.invalid_entity(format!("`{key}`[{position}] {problem}")),
            }
        }
    }

    /// Reports an invalid entity: an error of the record, or in a mended copy a warning about an entity left out.
    fn invalid_entity(&mut self, message: String) {
        if self.corpus.mending {
            self.report(
                Severity::Warning,
                &format!("{message}; the entity is left out"),
            );
        } else {
            self.error(message);
        }
    }
}

/// Adds an entity given by its words; one of several parts is discontinuous.
fn add_parts(entity: &IndexEntity<'_>, sentence: &mut Sentence) {
    let IndexEntity { parts, label } = entity;
    if let [(start, end)] = parts[..] {
        return sentence.entities.push(Entity::new(start, end, *label));
    }
    let characters = |(start, end): &(usize, usize)| sentence.characters(Span::new(*start, *end));
    let parts = parts.iter().map(characters).collect();
    sentence.discontinuous.push(Discontinuous {
        parts,
        label: label.to_string(),
    });
}
