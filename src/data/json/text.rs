//! Converting JSON records with a text and character offsets.

use serde_json::{Map, Value};

use super::content::{document, text};
use super::entity::{RawSpan, Unit, check_span};
use super::keys::Annotations;
use super::record::{Record, RecordKind};
use super::survey::{Rules, text_tags};
use super::values::offset;
use crate::data::ReadOptions;
use crate::data::sentences::annotated_text::{self, AnnotatedText, TextEntity};
use crate::data::sentences::given_words::{self, WordText};
use crate::data::sentences::offset_unit::OffsetUnit;
use crate::data::source::Collector;
use crate::data::source::tally::Tally;
use crate::text::{CharacterIndex, Sentence};

impl<'a> Record<'a, '_> {
    /// Converts a record with a text, and entities by characters or tags for its words or characters.
    pub(super) fn convert_text(
        &mut self,
        kind: RecordKind,
        rules: &Rules,
        options: &'a ReadOptions,
        tally: &mut Tally,
    ) {
        let Some((text_key, text)) = text(self.object) else {
            return self.lacks("text");
        };
        let found = Annotations::of(self.object, &[text_key]);
        self.check(&found, tally);
        // One record is one sentence, unless it has several lines.
        let is_document = kind == RecordKind::Document || text.trim().contains(['\n', '\r']);
        let mut name = document(self.object, &[text_key]);
        if is_document && name.is_none() {
            name = document_id(self.object, self.corpus);
        }
        if let (Some((key, tags)), None) = (found.tags.first(), found.spans) {
            return self.tagged_text(key, tags, text, name, rules, options);
        }
        for (key, _) in &found.tags {
            tally.add(
                self.line(),
                &format!("`{key}` is not used, because the record has spans ({{n}} records)"),
            );
        }
        let mut entities = Vec::new();
        if let Some((key, value)) = found.spans {
            let spans = self.spans(key, value, Unit::Characters, options);
            entities =
                self.text_entities(spans, &CharacterIndex::new(text), rules.inclusive, tally);
        }
        if let Some(value) = self.object.get("discontinuous") {
            let spans = self.spans("discontinuous", value, Unit::Characters, options);
            entities.extend(self.text_entities(spans, &CharacterIndex::new(text), false, tally));
        }
        if !self.valid {
            return;
        }
        let before = self.corpus.sentences.len();
        let annotated = AnnotatedText {
            text,
            document: name,
            line: self.line(),
            entities,
            is_document,
        };
        annotated_text::push(annotated, options, self.corpus);
        self.own_place(before);
    }

    /// Adds what a record says beyond its text and entities: part-of-speech tags of the words, and for a text that is one
    /// sentence its place in the document.
    fn own_place(&mut self, before: usize) {
        let lengths = self.corpus.sentences[before..].iter().map(Sentence::len);
        let pos = self.part_of_speech(lengths.sum(), false);
        if let Some(pos) = pos {
            let mut tags = pos.into_iter();
            for sentence in &mut self.corpus.sentences[before..] {
                let length = sentence.len();
                sentence.pos = Some(tags.by_ref().take(length).collect());
            }
        }
        let start = offset(self.object.get("offset"), "offset").ok();
        let space = self.object.get("trailing").and_then(Value::as_str);
        if let [sentence] = &mut self.corpus.sentences[before..] {
            sentence.offset = start.unwrap_or(sentence.offset);
            if let Some(space) = space {
                sentence.trailing = space.to_string();
            }
        }
    }

    fn tagged_text(
        &mut self,
        key: &str,
        value: &'a Value,
        text: &'a str,
        document: Option<String>,
        rules: &Rules,
        options: &ReadOptions,
    ) {
        let (words, layers) = match text_tags(key, value, text) {
            Ok(found) => found,
            Err(problem) => return self.error(problem),
        };
        let (entities, warnings, error) = rules.tags.decode(key, &layers);
        warnings.into_iter().for_each(|warning| self.warn(warning));
        if let Some(error) = error {
            return self.error(error);
        }
        let line = self.line();
        let entities = entities.into_iter().map(|entity| TextEntity {
            parts: vec![(words[entity.span.start].0, words[entity.span.end - 1].1)],
            label: entity.label,
            line,
        });
        let tagged = WordText {
            text,
            entities: entities.collect(),
            words: words
                .iter()
                .map(|(start, end)| (*start, *end, None))
                .collect(),
            document,
            line,
            ..WordText::default()
        };
        if !self.valid {
            return;
        }
        if let Err(problem) = given_words::push(tagged, options, self.corpus) {
            self.error(problem);
        }
    }

    /// The entities of a text from its spans and their places in the record. Those with an error are reported. Offsets in
    /// other units than characters are converted where the texts of the entities show it.
    pub fn text_entities(
        &mut self,
        spans: Vec<(String, RawSpan<'_>)>,
        index: &CharacterIndex<'_>,
        inclusive: bool,
        tally: &mut Tally,
    ) -> Vec<TextEntity> {
        let line = self.line();
        let spans: Vec<_> = spans
            .into_iter()
            .map(|(at, span)| {
                let mut parts = exclusive(&span, inclusive);
                parts.sort_unstable();
                (at, parts, span)
            })
            .collect();
        let surfaces = spans.iter().filter(|(_, parts, _)| parts.len() == 1);
        let surfaces = surfaces.map(|(_, parts, span)| (parts[0], span.surface));
        let (units, common) = units(index, surfaces);
        let mut units = units.into_iter();
        let mut entities = Vec::with_capacity(spans.len());
        for (at, mut parts, span) in spans {
            let label = span.label;
            if span.unit == Some(Unit::Words) {
                self.invalid_entity(format!("{at} ({label}) counts words, but the record has none; give `start` and `end` in characters"));
                continue;
            }
            if parts.len() == 1 {
                let unit = match (units.next().flatten(), span.surface) {
                    (Some(unit), _) => unit,
                    (None, None) => common,
                    (None, Some(surface)) => {
                        let (start, end) = parts[0];
                        let text = index.slice(start, end);
                        self.warn(format!(
                            "{at} ({label}) {start}..{end} is `{text}`, but its text is given as `{surface}`; the offsets are used, correct them if they are wrong"
                        ));
                        OffsetUnit::Characters
                    }
                };
                if unit != OffsetUnit::Characters
                    && let Some(converted) = unit.characters(index, parts[0])
                {
                    parts[0] = converted;
                    tally.add(line, &format!("{{n}} spans count {unit}, as the texts of the entities show; converted to characters"));
                }
            }
            let problem = parts.iter().find_map(|part| {
                check_span(*part, &label, index.characters(), Unit::Characters).err()
            });
            if let Some(problem) = problem {
                self.invalid_entity(format!("{at} {problem}"));
                continue;
            }
            entities.push(TextEntity {
                parts,
                label: label.into_owned(),
                line,
            });
        }
        entities
    }
}

/// The unit of each span with a text that is found, and the unit of most of them.
fn units<'s>(
    index: &CharacterIndex<'_>,
    spans: impl Iterator<Item = ((usize, usize), Option<&'s str>)>,
) -> (Vec<Option<OffsetUnit>>, OffsetUnit) {
    let units: Vec<Option<OffsetUnit>> = spans
        .map(|(span, surface)| OffsetUnit::of(index, span, surface?))
        .collect();
    let count = |unit: OffsetUnit| units.iter().filter(|found| **found == Some(unit)).count();
    let others = [OffsetUnit::Utf16, OffsetUnit::Bytes];
    let most = others
        .into_iter()
        .max_by_key(|unit| count(*unit))
        .unwrap_or(OffsetUnit::Utf16);
    // Before the first character that counts differently, all units agree and are taken for characters.
    let common = if count(most) > 0 {
        most
    } else {
        OffsetUnit::Characters
    };
    (units, common)
}

/// The parts of a span with exclusive ends.
pub(super) fn exclusive(span: &RawSpan<'_>, inclusive: bool) -> Vec<(usize, usize)> {
    let mut parts = span.parts.clone();
    if let [(_, end)] = &mut parts[..]
        && inclusive
        && span.inclusive != Some(false)
    {
        *end = end.saturating_add(1);
    }
    parts
}

/// The name of a document from its `id`; a number is put after the name of the file.
pub(in crate::data) fn document_id(
    object: &Map<String, Value>,
    corpus: &Collector,
) -> Option<String> {
    let id = ["id", "_id", "example_id"]
        .iter()
        .find_map(|key| object.get(*key))?;
    match id {
        Value::String(name) if !name.is_empty() => Some(name.clone()),
        Value::Number(number) => Some(format!("{}#{number}", corpus.stem())),
        _ => None,
    }
}
