//! spaCy's JSON.
//!
//! - Training data of version 2 (<https://v2.spacy.io/api/annotation#json-input>): documents of `paragraphs` of `sentences`
//!   of `tokens` with BILUO tags under `ner`, and perhaps the `raw` text.
//! - `Doc.to_json` of version 3 (<https://spacy.io/api/doc#to_json>): `text`, `tokens`, `ents`, `spans` by group, `sents`.
//! - Texts with offsets: `["text", {"entities": [[start, end, type], ...]}]`, also with `spans` by group, and in the files
//!   of NER Annotator (`{"classes": [...], "annotations": [...]}`).
//! - `Example.to_dict` of version 3: `token_annotation` and `doc_annotation`.

mod tokens;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::json::content::document;
use super::json::entity::{RawSpan, Unit};
use super::json::keys::KNOWN;
use super::json::record::Record;
use super::json::text::document_id;
use super::json::values::{offset, type_name};
use super::json::{self, Place};
use super::sentences::annotated_text::{self, AnnotatedText, TextEntity};
use super::sentences::given_words::{self, WordText};
use super::source::tally::Tally;
use super::source::{Collector, Source};
use super::{ReadOptions, Severity, words};
use crate::text::CharacterIndex;

/// First character, one past the last character, and part of speech of each word.
pub(super) type Words<'a> = Vec<(usize, usize, Option<&'a str>)>;

/// Reads a file of spaCy's JSON.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    let mut reader = Reader {
        options,
        tally: Tally::default(),
        annotated: 0,
    };
    let faults = json::records(source, |place, value| reader.record(place, &value, corpus));
    faults.report(corpus);
    if !corpus.sentences.is_empty() && reader.annotated == 0 {
        corpus.warn(
            0,
            "no record has entities; read as texts without annotations",
        );
    }
    reader.tally.report(corpus);
}

/// The state of reading a file.
pub(super) struct Reader<'o> {
    pub options: &'o ReadOptions,
    pub tally: Tally,
    /// Number of records with a key of entities.
    pub annotated: usize,
}

impl Reader<'_> {
    fn record(&mut self, place: &Place, value: &Value, corpus: &mut Collector) {
        let empty = Map::new();
        match value {
            Value::Null => self
                .tally
                .add(place.at.0, "{n} records are null and skipped"),
            Value::Object(object) => {
                let mut record = Record::new(object, place, corpus);
                if object.contains_key("paragraphs") {
                    tokens::paragraphs(self, &mut record);
                } else if object.contains_key("token_annotation") {
                    tokens::example(self, &mut record);
                } else {
                    self.doc(&mut record);
                }
            }
            Value::Array(list) => match list.as_slice() {
                [Value::String(text), Value::Object(annotations)] => {
                    let mut record = Record::new(annotations, place, corpus);
                    self.text(&mut record, text, None);
                }
                [Value::String(text), entities @ Value::Array(_)] => {
                    self.annotated += 1;
                    let mut record = Record::new(&empty, place, corpus);
                    self.offsets(&mut record, text, vec![("[1]", entities)], None, None);
                }
                _ => {
                    let message = format!(
                        "{}expected [text, {{\"entities\": [[start, end, type], ...]}}]",
                        place.prefix
                    );
                    corpus.report(Severity::Error, place.at, message);
                }
            },
            other => {
                let message = format!(
                    "{}neither an object nor [text, annotations] but {}",
                    place.prefix,
                    type_name(other)
                );
                corpus.report(Severity::Error, place.at, message);
            }
        }
    }

    /// A document of `Doc.to_json`, or a text with its entities in one object.
    fn doc(&mut self, record: &mut Record<'_, '_>) {
        let object = record.object;
        let Some(text) = object.get("text").and_then(Value::as_str) else {
            return record.lacks("text");
        };
        let name = document(object, &["text"]).or_else(|| document_id(object, record.corpus));
        self.text(record, text, name);
    }

    /// A text with annotations in the object of the record.
    fn text(&mut self, record: &mut Record<'_, '_>, text: &str, document: Option<String>) {
        let object = record.object;
        let keys = [
            "entities",
            "ents",
            "ner",
            "labels",
            "label",
            "annotations",
            "spans",
        ];
        let found: Vec<(&str, &Value)> = keys
            .iter()
            .filter_map(|key| object.get_key_value(*key))
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        if found.is_empty() {
            let known = [
                "text", "tokens", "sents", "cats", "links", "words", "heads", "deps", "tags",
                "pos", "id",
            ];
            let strange = object.keys().find(|key| {
                let key = key.to_lowercase();
                !known.contains(&key.as_str())
                    && (key.contains("ent") || key.contains("label") || key.contains("ner"))
            });
            if let Some(key) = strange.filter(|key| {
                object
                    .get(*key)
                    .is_some_and(|value| value.is_array() || value.is_object())
            }) {
                return record.error(format!("`{key}` looks like annotations but is not understood; known: `entities`, `ents`, `spans` ({KNOWN})"));
            }
        }
        self.annotated += usize::from(!found.is_empty());
        if let Some(groups) = object.get("spans").and_then(Value::as_object)
            && found.len() > 1
            && !groups.is_empty()
        {
            let names: Vec<&str> = groups.keys().map(String::as_str).collect();
            self.tally.add(
                record.line(),
                &format!(
                    "the span groups {} are read as entities, like `{}` ({{n}} records)",
                    names.join(", "),
                    found[0].0
                ),
            );
        }
        let words = match words_of(object, text) {
            Ok(words) => words,
            Err(problem) => return record.error(problem),
        };
        // BILUO tags for the words, instead of offsets.
        if let [(key, value), ..] = found[..]
            && value.get(0).is_some_and(Value::is_string)
        {
            return match words {
                Some(words) => tokens::tagged(self, record, key, value, text, words, document),
                None => record.error(format!(
                    "`{key}` has tags, but there are no `words` to which they belong"
                )),
            };
        }
        self.offsets(record, text, found, words, document);
    }

    fn offsets(
        &mut self,
        record: &mut Record<'_, '_>,
        text: &str,
        found: Vec<(&str, &Value)>,
        words: Option<Words<'_>>,
        document: Option<String>,
    ) {
        let mut spans: Vec<(String, RawSpan)> = Vec::new();
        let mut known = HashSet::new();
        for (key, value) in found {
            let own = record.spans(key, value, Unit::Characters, self.options);
            let keys: Vec<_> = own
                .iter()
                .map(|(_, span)| (span.parts.clone(), span.label.to_string()))
                .collect();
            // Entities that are in `ents` and in a span group are one.
            spans.extend(
                own.into_iter()
                    .zip(&keys)
                    .filter(|(_, key)| !known.contains(*key))
                    .map(|(span, _)| span),
            );
            known.extend(keys);
        }
        let entities =
            record.text_entities(spans, &CharacterIndex::new(text), false, &mut self.tally);
        self.push(record, text, entities, words, document);
    }

    /// Adds a text with its words, if they are given, and its entities.
    pub fn push(
        &mut self,
        record: &mut Record<'_, '_>,
        text: &str,
        entities: Vec<TextEntity>,
        words: Option<Words<'_>>,
        document: Option<String>,
    ) {
        if !record.valid {
            return;
        }
        let line = record.line();
        let Some(words) = words else {
            let annotated = AnnotatedText {
                text,
                document,
                line,
                entities,
                is_document: true,
            };
            return annotated_text::push(annotated, self.options, record.corpus);
        };
        let sentences = record
            .object
            .get("sents")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let annotated = WordText {
            text,
            words,
            sentences: sentences
                .filter_map(|sentence| offset(sentence.get("start"), "start").ok())
                .collect(),
            document,
            line,
            entities,
        };
        if let Err(problem) = given_words::push(annotated, self.options, record.corpus) {
            record.error(problem);
        }
    }
}

/// The words of a text with their part of speech: `tokens` with offsets, or `words` as strings. `None` if there are none.
fn words_of<'a>(object: &'a Map<String, Value>, text: &str) -> Result<Option<Words<'a>>, String> {
    let list = object
        .get("tokens")
        .or_else(|| object.get("words"))
        .and_then(Value::as_array);
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    if let Some(words) = list
        .iter()
        .map(Value::as_str)
        .collect::<Option<Vec<&str>>>()
    {
        let visible: Vec<&str> = words
            .into_iter()
            .filter(|word| !word.trim().is_empty())
            .collect();
        let aligned = words::align(text, &visible);
        let aligned = aligned
            .ok_or("the words are not those of the text in order; correct or delete them")?;
        return Ok(Some(
            aligned
                .words
                .iter()
                .map(|word| (word.start, word.end, None))
                .collect(),
        ));
    }
    let mut words = Vec::with_capacity(list.len());
    for (index, token) in list.iter().enumerate() {
        let bounds = offset(token.get("start"), "start")
            .and_then(|start| Ok((start, offset(token.get("end"), "end")?)));
        let (start, end) = bounds.map_err(|problem| format!("`tokens`[{index}] {problem}"))?;
        let tag = token
            .get("tag")
            .or_else(|| token.get("pos"))
            .and_then(Value::as_str);
        words.push((start, end, tag.filter(|tag| !tag.is_empty())));
    }
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Format;
    use crate::data::json::fixtures::{found, read_with};

    #[test]
    fn broken_records_are_reported() {
        for (record, part) in [
            (
                r#"["ab", {"entities": [[0, 3, "A"]]}]"#,
                "only 2 characters",
            ),
            (r#"["ab", {"entities": [[0, "A"]]}]"#, "must be an object"),
            (
                r#"["ab", {"my_entities": [[0, 1, "A"]]}]"#,
                "not understood",
            ),
            (r#"["ab", {"cats": {"x": 1}}]"#, "no record has entities"),
            (r#"["ab", {"entities": ["U-A"]}]"#, "no `words`"),
            (
                r#"["ab", {"entities": ["U-A"], "words": ["x"]}]"#,
                "not those of the text",
            ),
            (r#"[["ab", 3]]"#, "expected [text"),
            (
                r#"{"text": "ab", "ents": [], "tokens": [{"id": 0}]}"#,
                "`tokens`[0] has no `start`",
            ),
            (r#"{"paragraphs": 3}"#, "must be a list"),
            (
                r#"{"paragraphs": [{"sentences": [{"tokens": [{"orth": "a", "ner": "X"}]}]}]}"#,
                "is not a tag",
            ),
            (
                r#"{"paragraphs": [{"sentences": [{"tokens": [{"ner": "O"}]}]}]}"#,
                "no `orth`",
            ),
            (
                r#"{"paragraphs": [{"sentences": [{"tokens": [{"orth": "a"}]}]}]}"#,
                "no record has entities",
            ),
            (
                r#"{"token_annotation": {}, "doc_annotation": {}}"#,
                "no list `ORTH`",
            ),
        ] {
            let (_, problems) = read_with(record, &ReadOptions::of(Format::Spacy));
            assert_eq!(problems.len(), 1, "{record} {problems:?}");
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
    }

    #[test]
    fn words_and_tags_of_a_tuple_are_used() {
        for record in [
            r#"["Zoë isn't here", {"entities": ["U-PER", "O", "O", "O"], "words": ["Zoë", "is", "n't", "here"]}]"#,
            r#"["Zoë isn't here", {"entities": [[0, 3, "PER"]], "words": ["Zoë", "is", "n't", "here"]}]"#,
            r#"["Zoë isn't here", [[0, 3, "PER"]]]"#,
        ] {
            let (sentences, problems) = read_with(record, &ReadOptions::of(Format::Spacy));
            assert_eq!(problems, [], "{record}");
            assert_eq!(found(&sentences), [("Zoë".to_string(), "PER".to_string())]);
        }
    }

    #[test]
    fn a_paragraph_without_its_text_has_its_words() {
        let record = r#"{"id": "d", "paragraphs": [{"sentences": [{"tokens": [{"orth": "Zoë", "ner": "U-PER"}, {"orth": "sings", "ner": "O"}]}]}]}"#;
        let (sentences, _) = read_with(record, &ReadOptions::of(Format::Spacy));
        assert_eq!(
            (sentences[0].text.as_str(), sentences[0].document.as_deref()),
            ("Zoë sings", Some("d"))
        );
    }
}
