//! Converting the records of a JSON file to sentences.
//!
//! Records have words with tags or with spans of words, or a text with spans of characters. Files are read twice: first to
//! decide what holds for all records (see [`Survey`]), then to convert them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::json::{self, Place};
use super::json_content::{document, text, words};
use super::json_entity::{RawSpan, Unit, check_span, offset, parse_entities, parse_index_entity, type_name};
use super::json_keys::{Annotations, KNOWN};
use super::json_survey::{Rules, Survey};
use super::json_tags::layers;
use super::json_text::exclusive;
use super::source::{Collector, Source};
use super::tally::{DISCONTINUOUS, Tally};
use super::{ReadOptions, Severity, json_document, words};
use crate::text::{Discontinuous, Entity, Misaligned, Sentence};

/// The kind of a JSON record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// `tokens`, with tags or spans of words.
    Tokens,
    /// `sentence`, and entities as lists of word indices.
    Index,
    /// `tokenized_text`, and `ner` with inclusive ends.
    Gliner,
    /// A sentence of a document with `sentences`.
    Sentences,
    /// `text`, and entities as spans of characters.
    Text,
    /// The same for whole documents.
    Document,
}

impl RecordKind {
    /// True for records with words.
    pub fn has_words(self) -> bool {
        !matches!(self, RecordKind::Text | RecordKind::Document)
    }

    /// The key that every record has.
    fn key(self) -> &'static str {
        match self {
            RecordKind::Tokens | RecordKind::Sentences => "tokens",
            RecordKind::Index => "sentence",
            RecordKind::Gliner => "tokenized_text",
            RecordKind::Text | RecordKind::Document => "text",
        }
    }
}

/// Reads a JSON file of records with words or texts.
pub(super) fn read(source: &Source, kind: RecordKind, options: &ReadOptions, corpus: &mut Collector) {
    let mut survey = Survey::default();
    json::records(source, |place, value| {
        let _ = each_sentence(value, kind, |kind, object| survey.add(place, kind, object, options));
    });
    let rules = match survey.decide(source, options, corpus) {
        Ok(rules) => rules,
        Err((line, message)) => return corpus.error(line, message),
    };
    let mut tally = Tally::default();
    let faults = json::records(source, |place, value| {
        let result = each_sentence(value, kind, |kind, object| {
            let mut record = Record::new(object, place, corpus);
            if kind.has_words() {
                record.convert_words(kind, &rules, options, &mut tally);
            } else {
                record.convert_text(kind, &rules, options, &mut tally);
            }
        });
        if let Err(problem) = result {
            corpus.report(Severity::Error, place.at, format!("{}{problem}", place.prefix));
        }
    });
    faults.report(corpus);
    tally.report(corpus);
}

/// Calls `each` with a record, or with the sentences of a document of words.
fn each_sentence(
    value: Value,
    kind: RecordKind,
    mut each: impl FnMut(RecordKind, &Map<String, Value>),
) -> Result<(), String> {
    let Value::Object(object) = &value else {
        return Err(format!("not a JSON object but {}", type_name(&value)));
    };
    if kind.has_words()
        && let Some(sentences) = json_document::sentences(object)
    {
        for sentence in sentences?.iter().filter_map(Value::as_object) {
            each(RecordKind::Sentences, sentence);
        }
    } else {
        each(kind, object);
    }
    Ok(())
}

/// A record that is being converted.
pub(super) struct Record<'a, 'b> {
    pub object: &'a Map<String, Value>,
    pub place: &'b Place,
    pub corpus: &'b mut Collector,
    /// Set to false by an error.
    pub valid: bool,
}

impl<'a, 'b> Record<'a, 'b> {
    pub fn new(object: &'a Map<String, Value>, place: &'b Place, corpus: &'b mut Collector) -> Self {
        Self {
            object,
            place,
            corpus,
            valid: true,
        }
    }

    /// Reports an error about the record, which is then not used.
    pub fn error(&mut self, message: impl AsRef<str>) {
        self.valid = false;
        self.report(Severity::Error, message.as_ref());
    }

    /// Reports a warning about the record.
    pub fn warn(&mut self, message: impl AsRef<str>) {
        self.report(Severity::Warning, message.as_ref());
    }

    fn report(&mut self, severity: Severity, message: &str) {
        let message = format!("{}{message}", self.place.prefix);
        self.corpus.report(severity, self.place.at, message);
    }

    /// The line of the record.
    pub fn line(&self) -> usize {
        self.place.at.0
    }

    /// Reports that a record does not have what its format requires.
    pub fn lacks(&mut self, key: &str) {
        let keys: Vec<&str> = self.object.keys().map(String::as_str).collect();
        self.error(format!(
            "has no `{key}`, but the keys {}; choose another --format if this is not the right one",
            keys.join(", ")
        ));
    }

    /// Reports annotations that are not understood, and counts those that are not used.
    pub fn check(&mut self, found: &Annotations<'_>, tally: &mut Tally) {
        if let (Some((first, _)), [second, ..]) = (found.spans, &found.unknown[..]) {
            self.error(format!("has both `{first}` and `{second}`; keep one"));
        } else if !found.unknown.is_empty() {
            self.error(format!(
                "`{}` looks like annotations but is not understood; rename it to one of the known keys ({KNOWN}), or delete it",
                found.unknown.join("`, `")
            ));
        }
        for key in &found.unused {
            let used = found.tags.first().map_or("", |(key, _)| key);
            tally.add(self.line(), &format!("`{key}` is not used, because `{used}` is ({{n}} records)"));
        }
        if found.present && found.tags.is_empty() && found.spans.is_none() {
            tally.add(self.line(), "{n} records have null instead of annotations; read as sentences without entities");
        }
    }

    fn strings(&mut self, key: &str, value: &'a Value) -> Option<Vec<&'a str>> {
        let list = value.as_array();
        let strings = list.and_then(|list| list.iter().map(Value::as_str).collect());
        if strings.is_none() {
            self.error(format!("`{key}` must be a list of strings"));
        }
        strings
    }

    fn convert_words(&mut self, kind: RecordKind, rules: &Rules, options: &'a ReadOptions, tally: &mut Tally) {
        let list = match words(self.object) {
            Ok(list) => list,
            Err(problem) if problem.is_empty() => return self.lacks(kind.key()),
            Err(problem) => return self.error(problem),
        };
        let found = Annotations::of_words(self.object, list.key, list.words.len(), kind == RecordKind::Gliner);
        self.check(&found, tally);
        let mut sentence = self.sentence(list.key, &list.words);
        sentence.document = document(self.object, &[list.key]);
        let (mut tagged, mut known) = (Vec::new(), HashSet::new());
        let mut has_tags = false;
        let from_keys = found.tags.iter().map(|(key, value)| {
            (key.to_string(), layers(key, value, list.words.len()))
        });
        let from_words = list.tags.into_iter().map(|(key, layers)| (key, Ok(layers)));
        for (key, layers) in from_keys.chain(from_words) {
            let layers = match layers {
                Ok(layers) => layers,
                Err(problem) => {
                    self.error(problem);
                    continue;
                }
            };
            has_tags = true;
            let (entities, warnings, error) = rules.tags.decode(&key, &layers);
            warnings.iter().for_each(|warning| self.warn(warning));
            if let Some(error) = error {
                self.error(error);
            }
            tagged.extend(entities.into_iter().filter(|entity| known.insert(entity.clone())));
        }
        if let Some((key, value)) = found.spans {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            if is_empty && !sentence.is_empty() && rules.tag_key.as_deref() == Some(key) {
                self.error(format!("`{key}` has 0 tags for {} words; give one for each word", sentence.len()));
            }
            self.word_spans(key, value, rules, options, &mut sentence);
            let spans: HashSet<&Entity> = sentence.entities.iter().collect();
            if has_tags && self.valid && !tagged.iter().all(|entity| spans.contains(entity)) {
                let tags = found.tags.first().map_or("the tags of the words", |(key, _)| key);
                self.error(format!("`{key}` and `{tags}` give different entities; delete one of them"));
            }
        } else {
            sentence.entities = tagged;
        }
        self.own_keys(&mut sentence);
        tally.add_many(self.line(), DISCONTINUOUS, sentence.discontinuous.len());
        if self.valid {
            self.corpus.push(self.place.at.0, sentence);
        }
    }

    fn sentence(&mut self, key: &str, words: &[&str]) -> Sentence {
        if let Some(index) = words.iter().position(|word| word.is_empty()) {
            self.error(format!("word {index} is empty; remove it"));
        }
        let text = text(self.object).filter(|(text, _)| *text != key);
        let aligned = text.and_then(|(_, text)| words::align(text, words));
        if let (Some(("text", _)), None) = (text, &aligned) {
            self.warn(format!("`text` does not consist of the words of `{key}` in order; using the words joined by spaces"));
        }
        let mut sentence = aligned.unwrap_or_else(|| Sentence::from_words(words.iter().copied()));
        sentence.pos = self.part_of_speech(sentence.len(), true);
        for (key, words) in [("ltokens", &mut sentence.left), ("rtokens", &mut sentence.right)] {
            if let Some(value) = self.object.get(key).filter(|value| !value.is_null()) {
                let strings = self.strings(key, value).unwrap_or_default();
                *words = strings.into_iter().map(str::to_string).collect();
            }
        }
        sentence
    }

    /// The part-of-speech tags. A text is split into words by this program; tags for a different split are no error.
    pub fn part_of_speech(&mut self, length: usize, is_strict: bool) -> Option<Vec<String>> {
        let value = self.object.get("pos").filter(|value| !value.is_null())?;
        let tags = self.strings("pos", value)?;
        if tags.len() != length {
            let message = format!("`pos` has {} tags for {length} words; give one for each word, or none", tags.len());
            if is_strict {
                self.error(message);
            } else {
                self.warn(message);
            }
            return None;
        }
        Some(tags.into_iter().map(str::to_string).collect())
    }

    fn word_spans(&mut self, key: &str, value: &'a Value, rules: &Rules, options: &'a ReadOptions, sentence: &mut Sentence) {
        let mut seen = HashSet::new();
        // Lists of word indices have no ends.
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if list.iter().any(|entity| entity.get("index").is_some_and(Value::is_array)) {
            for (index, value) in list.iter().enumerate() {
                match parse_index_entity(value, sentence.len()) {
                    Ok((parts, label)) => self.add_words(&mut seen, parts, label, sentence),
                    Err(problem) => self.error(format!("`{key}`[{index}] {problem}")),
                }
            }
            return;
        }
        let length = sentence.text.chars().count();
        for (at, span) in self.spans(key, value, Unit::Words, options) {
            let unit = span.unit.unwrap_or(rules.unit);
            let parts = exclusive(&span, rules.inclusive && unit == Unit::Words);
            let length = if unit == Unit::Words { sentence.len() } else { length };
            let problem = parts.iter().find_map(|part| check_span(*part, &span.label, length, unit).err());
            match problem {
                Some(problem) => self.error(format!("{at} {problem}")),
                None if unit == Unit::Words => self.add_words(&mut seen, parts, &span.label, sentence),
                None => self.add_characters(&mut seen, parts, &span.label, sentence),
            }
        }
    }

    /// The spans of a value with their places, such as `entities`[3]; those that cannot be parsed are reported.
    pub fn spans<'v>(
        &mut self,
        key: &str,
        value: &'v Value,
        unit: Unit,
        options: &'v ReadOptions,
    ) -> Vec<(String, RawSpan<'v>)> {
        let (spans, problems) = parse_entities(value, unit, options.labels.as_deref());
        for (at, problem) in problems {
            self.error(format!("`{key}`{at} {problem}"));
        }
        spans.into_iter().map(|(at, span)| (format!("`{key}`{at}"), span)).collect()
    }

    fn is_new(&mut self, seen: &mut HashSet<(Vec<(usize, usize)>, String)>, parts: &[(usize, usize)], label: &str) -> bool {
        let is_new = seen.insert((parts.to_vec(), label.to_string()));
        if !is_new {
            let (start, end) = parts[0];
            self.warn(format!("{label} {start}..{end} is given twice; counted once, delete one"));
        }
        is_new
    }

    fn add_words(
        &mut self,
        seen: &mut HashSet<(Vec<(usize, usize)>, String)>,
        parts: Vec<(usize, usize)>,
        label: &str,
        sentence: &mut Sentence,
    ) {
        if !self.is_new(seen, &parts, label) {
            return;
        }
        if let [(start, end)] = parts[..] {
            return sentence.entities.push(Entity::new(start, end, label));
        }
        let characters = |(start, end): &(usize, usize)| (sentence.words[*start].start, sentence.words[end - 1].end);
        let parts = parts.iter().map(characters).collect();
        sentence.discontinuous.push(Discontinuous { parts, label: label.to_string() });
    }

    fn add_characters(
        &mut self,
        seen: &mut HashSet<(Vec<(usize, usize)>, String)>,
        parts: Vec<(usize, usize)>,
        label: &str,
        sentence: &mut Sentence,
    ) {
        if !self.is_new(seen, &parts, label) {
            return;
        }
        let label = label.to_string();
        let [(start, end)] = parts[..] else {
            return sentence.discontinuous.push(Discontinuous { parts, label });
        };
        match sentence.span_of(start, end) {
            Some(span) => sentence.entities.push(Entity::new(span.start, span.end, label)),
            None => {
                self.warn(format!(
                    "{label} {start}..{end} `{}` does not start and end at word boundaries, so no model can find it; correct the offsets if they are wrong",
                    crate::text::slice(&sentence.text, start, end)
                ));
                sentence.misaligned.push(Misaligned { start, end, label });
            }
        }
    }

    /// What only this program writes: entities that are not spans of words, and the place of the sentence in its document.
    fn own_keys(&mut self, sentence: &mut Sentence) {
        let length = sentence.text.chars().count();
        let mut seen = HashSet::new();
        for key in ["misaligned", "discontinuous"] {
            let Some(value) = self.object.get(key) else {
                continue;
            };
            let (spans, problems) = parse_entities(value, Unit::Characters, None);
            for (at, problem) in problems {
                self.error(format!("`{key}`{at} {problem}"));
            }
            for (at, span) in spans {
                let problem = span.parts.iter().find_map(|part| check_span(*part, &span.label, length, Unit::Characters).err());
                match problem {
                    Some(problem) => self.error(format!("`{key}`{at} {problem}")),
                    None => self.add_characters(&mut seen, span.parts, &span.label, sentence),
                }
            }
        }
        if let Ok(start) = offset(self.object.get("offset"), "offset") {
            sentence.offset = start;
        }
        if let Some(space) = self.object.get("trailing").and_then(Value::as_str) {
            sentence.trailing = space.to_string();
        }
    }
}
