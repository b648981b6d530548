//! From a JSON record to a sentence.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::json::Shape;
use super::source::Collector;
use super::spelling::{Written, fits, indexed, kind, spelled};
use super::{Options, Severity, words};
use crate::text::{Entity, Misaligned, Sentence, slice};

/// Where entities may stand in a record; Doccano writes `label` or `labels`, Prodigy `spans`.
const ENTITIES: [&str; 5] = ["entities", "ner", "labels", "label", "spans"];
/// Where the document's name may stand.
const DOCUMENT: [&str; 5] = ["doc", "document", "doc_id", "doc_key", "orig_id"];

/// Put the sentence of a record into the corpus, or what is wrong with it. `at` is its line and column and
/// `prefix` goes before every message.
pub(super) fn read(
    value: &Value,
    shape: Shape,
    options: &Options,
    at: (usize, usize),
    prefix: &str,
    corpus: &mut Collector,
) {
    let Some(object) = value.as_object() else {
        let message = format!("{prefix}not a JSON object but {}", kind(value));
        return corpus.note(Severity::Error, at, message);
    };
    let mut record = Record {
        object,
        at,
        prefix,
        corpus,
        sound: true,
    };
    let sentence = match shape {
        Shape::Tokens => record.tokens(&["tokens", "words"]),
        Shape::Index => record.tokens(&["sentence"]),
        Shape::Text => record.text(options),
    };
    let Some(mut sentence) = sentence else {
        return;
    };
    sentence.document = record.document();
    match shape {
        Shape::Tokens => record.word_entities(&mut sentence),
        Shape::Index => record.index_entities(&mut sentence),
        Shape::Text => record.character_entities(ENTITIES.as_slice(), &mut sentence),
    }
    if record.sound {
        corpus.push(at.0, sentence);
    }
}

/// A record on its way to a sentence.
struct Record<'a, 'b> {
    object: &'a Map<String, Value>,
    at: (usize, usize),
    prefix: &'b str,
    corpus: &'b mut Collector,
    sound: bool,
}

impl<'a> Record<'a, '_> {
    fn error(&mut self, message: impl AsRef<str>) {
        self.sound = false;
        self.note(Severity::Error, message.as_ref());
    }

    fn note(&mut self, severity: Severity, message: &str) {
        let message = format!("{}{message}", self.prefix);
        self.corpus.note(severity, self.at, message);
    }

    /// The value of the one key of these that is there; two that are there are an error.
    fn one_of(&mut self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        let object = self.object;
        let mut there = keys
            .iter()
            .filter_map(|key| object.get(*key).map(|value| (*key, value)))
            .filter(|(_, value)| !value.is_null());
        let first = there.next();
        if let (Some((first, _)), Some((second, _))) = (first, there.next()) {
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
            self.error(format!("word {index} is empty; take it out"));
        }
        let text = self.object.get("text").and_then(Value::as_str);
        let aligned = text.and_then(|text| words::align(text, &tokens));
        if text.is_some() && aligned.is_none() {
            let message = "`text` does not hold the words of `tokens` in order; using the words joined by spaces";
            self.note(Severity::Warning, message);
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

    fn text(&mut self, options: &Options) -> Option<Sentence> {
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
            // The words of a text are ours, so tags for other words are no fault of the file.
            if self.object.contains_key("tokens") || !self.object.contains_key("text") {
                self.error(message)
            } else {
                self.note(Severity::Warning, &message)
            }
            return None;
        }
        Some(tags.into_iter().map(str::to_string).collect())
    }

    fn word_entities(&mut self, sentence: &mut Sentence) {
        let mut seen = HashSet::new();
        for (start, end, label) in self.written(&ENTITIES, sentence.len(), "words") {
            if self.fresh(&mut seen, (start, end, label)) {
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
        for (start, end, label) in self.written(keys, length, "characters") {
            if !self.fresh(&mut seen, (start, end, label)) {
                continue;
            }
            if let Some(span) = sentence.span_of(start, end) {
                sentence
                    .entities
                    .push(Entity::new(span.start, span.end, label));
                continue;
            }
            self.note(
                Severity::Warning,
                &format!(
                    "{label} {start}..{end} `{}` does not start and end on word borders; no model of words can find it, move its borders if they are wrong",
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

    /// True for an entity that was not there before.
    fn fresh(&mut self, seen: &mut HashSet<Written<'a>>, entity: Written<'a>) -> bool {
        let fresh = seen.insert(entity);
        if !fresh {
            let (start, end, label) = entity;
            let message =
                format!("{label} {start}..{end} is given twice; counted once, delete one");
            self.note(Severity::Warning, &message);
        }
        fresh
    }

    /// The sound entities under one of the keys, each within `length`.
    fn written(&mut self, keys: &[&'static str], length: usize, unit: &str) -> Vec<Written<'a>> {
        let Some((key, value)) = self.one_of(keys) else {
            return Vec::new();
        };
        let Some(list) = value.as_array() else {
            self.error(format!(
                "`{key}` must be a list of entities, not {}",
                kind(value)
            ));
            return Vec::new();
        };
        let mut sound = Vec::with_capacity(list.len());
        for (index, value) in list.iter().enumerate() {
            match spelled(value).and_then(|entity| fits(entity, length, unit)) {
                Ok(entity) => sound.push(entity),
                Err(problem) => self.error(format!("`{key}`[{index}] {problem}")),
            }
        }
        sound
    }

    fn index_entities(&mut self, sentence: &mut Sentence) {
        let Some((key, value)) = self.one_of(&["ner", "entities"]) else {
            return;
        };
        let Some(list) = value.as_array() else {
            return self.error(format!("`{key}` must be a list, not {}", kind(value)));
        };
        let mut seen = HashSet::new();
        for (position, value) in list.iter().enumerate() {
            match indexed(value, sentence.len()) {
                Ok(Some(entity)) => {
                    if self.fresh(&mut seen, entity) {
                        let (start, end, label) = entity;
                        sentence.entities.push(Entity::new(start, end, label));
                    }
                }
                Ok(None) => {
                    let message = format!(
                        "`{key}`[{position}] is discontinuous; left out, no model here finds such entities"
                    );
                    self.note(Severity::Warning, &message);
                }
                Err(problem) => self.error(format!("`{key}`[{position}] {problem}")),
            }
        }
    }
}
