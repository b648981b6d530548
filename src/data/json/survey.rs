//! What all records of a JSON file show together: tagging scheme, names of tags, units and ends of spans.

use serde_json::{Map, Value};

use super::content::{text, words};
use super::ends::{Certainty, Convention, EndSurvey};
use super::entity::{RawSpan, Unit, parse_entities};
use super::keys::Annotations;
use super::parse::parse_all;
use super::record::RecordKind;
use super::tags::{Layers, TagRules, TagSurvey, layers};
use super::values::canonical;
use super::{Place, label_names};
use crate::data::sentences::offset_unit::{OffsetUnit, is_same};
use crate::data::source::{Collector, Source};
use crate::data::tags::style::NO_TYPE;
use crate::data::{ReadOptions, words};
use crate::text::CharacterIndex;

/// How the annotations of a file are read.
pub(super) struct Rules {
    /// How tags are read.
    pub tags: TagRules,
    /// The key of the first tags.
    pub tag_key: Option<String>,
    /// Whether the ends of spans are inclusive.
    pub inclusive: bool,
    /// What spans of records with words and a text count.
    pub unit: Unit,
}

/// What the records of a file have shown so far.
#[derive(Default)]
pub(super) struct Survey {
    tags: TagSurvey,
    ends: EndSurvey,
    units: UnitSurvey,
    records: usize,
    annotated: usize,
}

/// What the spans of records with words and a text show about their unit.
#[derive(Default)]
struct UnitSurvey {
    /// Texts of entities that are found by counting words, and by counting characters.
    words: usize,
    characters: usize,
    /// Spans beyond the words, and the line of the first.
    beyond: usize,
    line: usize,
    /// Spans that are not at word boundaries if they count characters.
    misaligned: usize,
}

impl Survey {
    /// Adds a record. Problems are left to the conversion.
    pub fn add(
        &mut self,
        place: &Place,
        kind: RecordKind,
        object: &Map<String, Value>,
        options: &ReadOptions,
    ) {
        let line = place.at.0;
        let names = options.labels.as_deref();
        if kind.has_words() {
            let Ok(list) = words(object) else {
                return;
            };
            self.records += 1;
            let found = Annotations::of_words(
                object,
                list.key,
                list.words.len(),
                kind == RecordKind::Gliner,
            );
            self.annotated +=
                usize::from(found.present || !found.unknown.is_empty() || list.tags.is_some());
            if let Some((key, tags)) = &list.tags {
                self.tags.add(line, key, tags);
            }
            for (key, value) in &found.tags {
                if let Ok(tags) = layers(key, value, list.words.len()) {
                    self.tags.add(line, key, &tags);
                }
            }
            if let Some((key, value)) = found.spans {
                let (spans, _) = parse_entities(value, Unit::Words, names);
                let spans: Vec<RawSpan> = spans.into_iter().map(|(_, span)| span).collect();
                self.add_word_spans(line, kind, key, &spans, &list.words, object);
            }
            return;
        }
        let Some((text_key, text)) = text(object) else {
            return;
        };
        self.records += 1;
        let found = Annotations::of(object, &[text_key]);
        self.annotated += usize::from(found.present || !found.unknown.is_empty());
        for (key, value) in &found.tags {
            if let Ok((_, tags)) = text_tags(key, value, text) {
                self.tags.add(line, key, &tags);
            }
        }
        if let Some((key, value)) = found.spans {
            let (spans, _) = parse_entities(value, Unit::Characters, names);
            let index = CharacterIndex::new(text);
            for (_, span) in &spans {
                let convention = convention(kind, key, Unit::Characters, span);
                self.ends.add(
                    line,
                    (key, convention),
                    span,
                    index.characters(),
                    |span, surface| OffsetUnit::of(&index, span, surface).is_some(),
                );
            }
        }
    }

    fn add_word_spans(
        &mut self,
        line: usize,
        kind: RecordKind,
        key: &str,
        spans: &[RawSpan<'_>],
        words: &[&str],
        object: &Map<String, Value>,
    ) {
        let length = words.len();
        let joined =
            |(start, end): (usize, usize)| words.get(start..end).map(|words| words.concat());
        let compact = |text: &str| text.split_whitespace().collect::<String>();
        for span in spans {
            let convention = convention(kind, key, Unit::Words, span);
            self.ends
                .add(line, (key, convention), span, length, |span, surface| {
                    joined(span).is_some_and(|words| compact(&words) == compact(surface))
                });
        }
        let needs_unit = |span: &&RawSpan| span.unit.is_none() && span.parts.len() == 1;
        let is_beyond = |span: &RawSpan| span.parts[0].1 > length;
        let of_interest = |span: &RawSpan| is_beyond(span) || span.surface.is_some();
        if !spans.iter().filter(needs_unit).any(of_interest) {
            return;
        }
        let aligned = text(object).and_then(|(_, text)| words::align(text, words));
        let Some(sentence) = aligned else {
            return;
        };
        let index = CharacterIndex::new(&sentence.text);
        for span in spans.iter().filter(needs_unit) {
            let (start, end) = span.parts[0];
            if is_beyond(span) {
                self.units.beyond += 1;
                if self.units.line == 0 {
                    self.units.line = line;
                }
            }
            if let Some(surface) = span.surface {
                let by_words =
                    joined((start, end)).or_else(|| joined((start, end.saturating_add(1))));
                self.units.words +=
                    usize::from(by_words.is_some_and(|words| compact(&words) == compact(surface)));
                let by_characters = index.get(start, end);
                self.units.characters +=
                    usize::from(by_characters.is_some_and(|slice| is_same(slice, surface)));
            }
            self.units.misaligned += usize::from(sentence.span_of(start, end).is_none());
        }
    }

    /// Decides how the file is read, and reports what that means. An error when tags are numbers without names.
    pub fn decide(
        self,
        source: &Source,
        options: &ReadOptions,
        corpus: &mut Collector,
    ) -> Result<Rules, (usize, String)> {
        if self.records > 0 && self.annotated == 0 {
            corpus.warn(0, format!(
                "no record has annotations; read as {} sentences without entities. Annotations are recognised by these keys: {}",
                self.records, super::keys::KNOWN
            ));
        }
        let names = if self.tags.are_numbers() {
            Some(self.names(source, options, corpus)?)
        } else {
            None
        };
        let (inclusive, warning) = self.ends.decide();
        if let Some((line, message)) = warning {
            corpus.warn(line, message);
        }
        let (line, tag_key) = self.tags.first.clone().unzip();
        let tags = self.tags.decide(options.scheme, names.as_deref());
        if tags.have_no_types() {
            let line = line.unwrap_or_default();
            corpus.warn(
                line,
                format!("the tags have no types; all entities get the type {NO_TYPE}"),
            );
        }
        Ok(Rules {
            unit: self.units.decide(corpus),
            tags,
            tag_key,
            inclusive,
        })
    }

    /// The names of tags that are numbers.
    fn names(
        &self,
        source: &Source,
        options: &ReadOptions,
        corpus: &Collector,
    ) -> Result<Vec<String>, (usize, String)> {
        if let Some(names) = &options.labels {
            return Ok(names.clone());
        }
        let (line, key) = self.tags.first.clone().unwrap_or_default();
        let column = key.rsplit('.').next().unwrap_or(&key);
        let own = source.text().ok().and_then(|text| parse_all(text).ok());
        let own =
            own.and_then(|value| label_names::from_features(value.get("features")?, column).pop());
        if let Some(names) = own {
            return Ok(names);
        }
        match label_names::beside(corpus.path(), column) {
            Ok(Some((_, names))) => Ok(names),
            Ok(None) => Err((
                line,
                format!(
                    "the tags under `{key}` are numbers; name them in the order of the numbers with --labels O,B-PER,I-PER,... \
                 (`labels` in a recipe), or put the `dataset_info.json` or `README.md` of the dataset beside the file"
                ),
            )),
            Err(problem) => Err((line, problem)),
        }
    }
}

impl UnitSurvey {
    fn decide(&self, corpus: &mut Collector) -> Unit {
        let by_texts = self.characters > self.words;
        let by_range = self.characters + self.words == 0 && self.beyond > 0 && self.misaligned == 0;
        if by_texts || by_range {
            let why = if by_texts {
                "the texts of the entities are found that way"
            } else {
                "they are beyond the words"
            };
            corpus.warn(
                self.line,
                format!("spans are read as character offsets, because {why}"),
            );
            Unit::Characters
        } else {
            Unit::Words
        }
    }
}

/// What the format of a record says about the ends of its spans.
fn convention(kind: RecordKind, key: &str, unit: Unit, span: &RawSpan<'_>) -> Convention {
    let (inclusive, certainty) = match canonical(key).as_str() {
        _ if span.inclusive == Some(true) => (true, Certainty::Usual),
        _ if unit == Unit::Characters => (false, Certainty::Fixed),
        "entities" | "entitymentions" | "ents" => (false, Certainty::Fixed),
        "ner" | "ners" if matches!(kind, RecordKind::Gliner | RecordKind::Sentences) => {
            (true, Certainty::Usual)
        }
        "ners" => (true, Certainty::Unknown),
        _ if span.unit == Some(Unit::Words) => (true, Certainty::Unknown),
        _ => (false, Certainty::Unknown),
    };
    Convention {
        inclusive,
        certainty,
    }
}

/// Words by offset, with their tags.
type TaggedWords<'a> = (Vec<(usize, usize)>, Layers<'a>);

/// The words of a text that has tags: its characters, or what white space separates, whichever are as many as the tags.
pub(super) fn text_tags<'a>(
    key: &str,
    value: &'a Value,
    text: &str,
) -> Result<TaggedWords<'a>, String> {
    let count = match value {
        Value::Array(list) => list.len(),
        Value::String(tags) => tags.split_whitespace().count(),
        _ => 0,
    };
    let characters: Vec<char> = text.chars().collect();
    let words: Vec<(usize, usize)> = if count == characters.len() {
        (0..count).map(|index| (index, index + 1)).collect()
    } else {
        let mut words = Vec::new();
        let mut start = None;
        for (index, character) in characters.iter().chain([&' ']).enumerate() {
            match (start, character.is_whitespace()) {
                (None, false) => start = Some(index),
                (Some(from), true) => {
                    words.push((from, index));
                    start = None;
                }
                _ => {}
            }
        }
        words
    };
    if count != words.len() {
        return Err(format!(
            "`{key}` has {count} tags, but the text has {} words between white space and {} characters; give one tag for each, \
             or the words under `tokens`",
            words.len(),
            characters.len()
        ));
    }
    let layers = layers(key, value, count)?;
    Ok((words, layers))
}
