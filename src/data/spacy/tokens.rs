//! The forms of spaCy's JSON in which words have BILUO tags.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Reader, Words};
use crate::data::correction::Message;
use crate::data::json::entity::Unit;
use crate::data::json::record::Record;
use crate::data::json::values::type_name;
use crate::data::sentences::annotated_text::TextEntity;
use crate::data::sentences::split_trailing;
use crate::data::tags::bio;
use crate::data::tags::scheme::TagScheme;
use crate::data::words;
use crate::text::{CharacterIndex, Entity, Sentence};

/// The tag of words that were not annotated.
const MISSING: &str = "-";

impl Reader<'_> {
    /// The entities of BILUO tags. An error for text that is not a tag.
    fn decode(&mut self, record: &mut Record<'_, '_>, key: &str, tags: &[&str]) -> Vec<Entity> {
        let missing = tags.iter().filter(|tag| **tag == MISSING).count();
        self.tally.add_many(
            record.line(),
            "{n} words have the tag `-`, which means not annotated; read as `O`",
            missing,
        );
        let tags: Vec<&str> = tags
            .iter()
            .map(|tag| {
                if matches!(*tag, MISSING | "") {
                    "O"
                } else {
                    *tag
                }
            })
            .collect();
        let (entities, problems) =
            bio::decode(&tags, self.options.scheme.unwrap_or(TagScheme::Bioes));
        for problem in problems {
            let (prefix, is_fatal) = (format!("`{key}`[{}]: ", problem.index), problem.fatal);
            let message = Message::from(problem).after(&prefix);
            if is_fatal {
                record.error(message);
            } else {
                record.warn(message);
            }
        }
        entities
    }
}

/// A document of spaCy 2's training data.
pub(super) fn paragraphs(reader: &mut Reader<'_>, record: &mut Record<'_, '_>) {
    let object = record.object;
    let Some(list) = object.get("paragraphs").and_then(Value::as_array) else {
        return record.error("`paragraphs` must be a list");
    };
    let name = match object.get("id") {
        Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
        Some(Value::Number(number)) => Some(format!("{}#{number}", record.corpus.stem())),
        _ => None,
    };
    let mut sentences = Vec::new();
    for (number, paragraph) in list.iter().enumerate() {
        let Some(paragraph) = paragraph.as_object() else {
            record.error(format!(
                "`paragraphs`[{number}] must be an object, not {}",
                type_name(paragraph)
            ));
            continue;
        };
        let raw = paragraph.get("raw").and_then(Value::as_str);
        let Some(parts) = paragraph.get("sentences").and_then(Value::as_array) else {
            match (raw, paragraph.get("entities")) {
                (Some(raw), Some(value)) => offsets(reader, record, raw, value, name.clone()),
                _ => record.error(format!(
                    "`paragraphs`[{number}] has no `sentences`; add them"
                )),
            }
            continue;
        };
        let mut found = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            match tokens(part) {
                Ok((words, tags)) => {
                    let key = format!("paragraphs[{number}].sentences[{index}].ner");
                    if let Some(tags) = &tags {
                        reader.annotated += 1;
                        let entities = reader.decode(record, &key, tags);
                        found.push((words, entities));
                    } else {
                        found.push((words, Vec::new()));
                    }
                }
                Err(problem) => record.error(format!(
                    "`paragraphs`[{number}].sentences[{index}] {problem}"
                )),
            }
        }
        sentences.extend(place(raw, found));
    }
    if record.valid {
        for mut sentence in sentences {
            sentence.document = name.clone();
            record.corpus.push(record.place.at.0, sentence);
        }
    }
}

/// The words of a sentence and their tags, if a word has one.
type Tagged<'a> = (Vec<&'a str>, Option<Vec<&'a str>>);

fn tokens(sentence: &Value) -> Result<Tagged<'_>, String> {
    let list = sentence
        .get("tokens")
        .and_then(Value::as_array)
        .ok_or("has no `tokens`")?;
    let (mut words, mut tags, mut has_tags) = (Vec::new(), Vec::new(), false);
    for (index, token) in list.iter().enumerate() {
        let word = token
            .get("orth")
            .or_else(|| token.get("text"))
            .and_then(Value::as_str);
        let word = word.ok_or_else(|| format!("has no `orth` in token {index}"))?;
        let tag = match token.get("ner") {
            None | Some(Value::Null) => "O",
            Some(Value::String(tag)) => {
                has_tags = true;
                tag
            }
            Some(other) => {
                return Err(format!(
                    "has the tag {other} in token {index}; it must be a string"
                ));
            }
        };
        // White space is not a word, and no entity consists of it.
        if !word.trim().is_empty() {
            words.push(word);
            tags.push(tag);
        }
    }
    Ok((words, has_tags.then_some(tags)))
}

/// The sentences of a paragraph, placed in its text if their words are those of the text.
fn place(raw: Option<&str>, parts: Vec<(Vec<&str>, Vec<Entity>)>) -> Vec<Sentence> {
    let all: Vec<&str> = parts
        .iter()
        .flat_map(|(words, _)| words.iter().copied())
        .collect();
    let whole = raw.and_then(|raw| words::align(raw, &all));
    let index = whole.as_ref().map(|whole| CharacterIndex::new(&whole.text));
    let mut sentences = Vec::new();
    let mut next = 0;
    let mut from = 0;
    for (words, entities) in parts {
        let end = next + words.len();
        if words.is_empty() {
            continue;
        }
        let placed = whole
            .as_ref()
            .zip(index.as_ref())
            .and_then(|(whole, index)| {
                let to = whole
                    .words
                    .get(end)
                    .map_or(index.characters(), |word| word.start);
                let text = index.get(from, to)?;
                let (kept, trailing) = split_trailing(text, to == index.characters());
                let mut sentence = Sentence {
                    text: kept.to_string(),
                    trailing: trailing.to_string(),
                    offset: from,
                    words: whole.words[next..end].to_vec(),
                    ..Sentence::default()
                };
                for word in &mut sentence.words {
                    word.start -= from;
                    word.end -= from;
                }
                from = to;
                Some(sentence)
            });
        let mut sentence = placed.unwrap_or_else(|| Sentence::from_words(words));
        sentence.entities = entities;
        sentences.push(sentence);
        next = end;
    }
    sentences
}

fn offsets(
    reader: &mut Reader<'_>,
    record: &mut Record<'_, '_>,
    text: &str,
    value: &Value,
    document: Option<String>,
) {
    reader.annotated += 1;
    let spans = record.spans("entities", value, Unit::Characters, reader.options);
    let entities =
        record.text_entities(spans, &CharacterIndex::new(text), false, &mut reader.tally);
    reader.push(record, text, entities, None, document);
}

/// A text with words and BILUO tags for them.
pub(super) fn tagged(
    reader: &mut Reader<'_>,
    record: &mut Record<'_, '_>,
    key: &str,
    value: &Value,
    text: &str,
    words: Words<'_>,
    document: Option<String>,
) {
    let tags: Option<Vec<&str>> = value
        .as_array()
        .and_then(|list| list.iter().map(Value::as_str).collect());
    let Some(tags) = tags.filter(|tags| tags.len() == words.len()) else {
        return record.error(format!(
            "`{key}` must have one tag for each of the {} words",
            words.len()
        ));
    };
    let line = record.line();
    let entities = reader.decode(record, key, &tags);
    let entities = entities.into_iter().map(|entity| TextEntity {
        parts: vec![(words[entity.span.start].0, words[entity.span.end - 1].1)],
        label: entity.label,
        line,
    });
    let entities = entities.collect();
    reader.push(record, text, entities, Some(words), document);
}

/// `Example.to_dict`: words and spaces in `token_annotation`, tags and span groups in `doc_annotation`.
pub(super) fn example(reader: &mut Reader<'_>, record: &mut Record<'_, '_>) {
    let object = record.object;
    let part = |key: &str| object.get(key).and_then(Value::as_object);
    let (Some(tokens), Some(annotations)) = (part("token_annotation"), part("doc_annotation"))
    else {
        return record.lacks("doc_annotation");
    };
    let strings = |object: &'_ Map<String, Value>, keys: [&str; 2]| -> Option<Vec<String>> {
        let list = keys.iter().find_map(|key| object.get(*key))?.as_array()?;
        list.iter()
            .map(|value| value.as_str().map(str::to_string))
            .collect()
    };
    let Some(orth) = strings(tokens, ["ORTH", "words"]) else {
        return record.error("`token_annotation` has no list `ORTH` of words");
    };
    let spaces = ["SPACY", "spaces"]
        .iter()
        .find_map(|key| tokens.get(*key)?.as_array());
    let mut text = String::new();
    let (mut words, mut position) = (Vec::new(), 0);
    for (index, word) in orth.iter().enumerate() {
        let end = position + word.chars().count();
        words.push((position, end, None));
        text.push_str(word);
        position = end;
        if spaces
            .and_then(|list| list.get(index))
            .and_then(Value::as_bool)
            .unwrap_or(true)
            && index + 1 < orth.len()
        {
            text.push(' ');
            position += 1;
        }
    }
    let tags = strings(annotations, ["entities", "ner"])
        .unwrap_or_else(|| vec!["O".to_string(); orth.len()]);
    reader.annotated += usize::from(annotations.contains_key("entities"));
    if tags.len() != orth.len() {
        return record.error(format!(
            "`doc_annotation.entities` has {} tags for {} words",
            tags.len(),
            orth.len()
        ));
    }
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let line = record.line();
    let mut entities: Vec<TextEntity> = reader
        .decode(record, "doc_annotation.entities", &tags)
        .into_iter()
        .map(|entity| TextEntity {
            parts: vec![(words[entity.span.start].0, words[entity.span.end - 1].1)],
            label: entity.label,
            line,
        })
        .collect();
    if let Some(value) = annotations.get("spans").filter(|value| value.is_object()) {
        let spans = record.spans(
            "doc_annotation.spans",
            value,
            Unit::Characters,
            reader.options,
        );
        let spans =
            record.text_entities(spans, &CharacterIndex::new(&text), false, &mut reader.tally);
        let known: HashSet<_> = entities
            .iter()
            .map(|entity| (entity.parts.clone(), entity.label.clone()))
            .collect();
        entities.extend(
            spans
                .into_iter()
                .filter(|span| !known.contains(&(span.parts.clone(), span.label.clone()))),
        );
    }
    reader.push(record, &text, entities, Some(words), None);
}
