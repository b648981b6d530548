//! Converting JSON records with words, and tags or spans of words.

use std::collections::HashSet;

use serde_json::Value;

use super::content::{document, text, words};
use super::entity::{Unit, check_span, parse_entities, parse_index_entity};
use super::keys::Annotations;
use super::record::{Record, RecordKind};
use super::survey::Rules;
use super::tags::layers;
use super::text::exclusive;
use super::values::offset;
use crate::data::sentences::entities;
use crate::data::source::tally::Tally;
use crate::data::{ReadOptions, words};
use crate::text::{Discontinuous, Entity, Sentence};

/// The entities seen so far, to find those that are given twice.
type Seen = HashSet<(Vec<(usize, usize)>, String)>;

impl<'a> Record<'a, '_> {
    /// Converts a record with words, and tags or spans of words.
    pub(super) fn convert_words(
        &mut self,
        kind: RecordKind,
        rules: &Rules,
        options: &'a ReadOptions,
        tally: &mut Tally,
    ) {
        let list = match words(self.object) {
            Ok(list) => list,
            Err(problem) if problem.is_empty() => return self.lacks(kind.key()),
            Err(problem) => return self.error(problem),
        };
        let found = Annotations::of_words(
            self.object,
            list.key,
            list.words.len(),
            kind == RecordKind::Gliner,
        );
        self.check(&found, tally);
        let mut sentence = self.sentence(list.key, &list.words);
        sentence.document = document(self.object, &[list.key]);
        let (mut tagged, mut known) = (Vec::new(), HashSet::new());
        let mut has_tags = false;
        let from_keys = found
            .tags
            .iter()
            .map(|(key, value)| (key.to_string(), layers(key, value, list.words.len())));
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
            warnings.into_iter().for_each(|warning| self.warn(warning));
            if let Some(error) = error {
                self.error(error);
            }
            tagged.extend(
                entities
                    .into_iter()
                    .filter(|entity| known.insert(entity.clone())),
            );
        }
        if let Some((key, value)) = found.spans {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            if is_empty && !sentence.is_empty() && rules.tag_key.as_deref() == Some(key) {
                self.error(format!(
                    "`{key}` has 0 tags for {} words; give one for each word",
                    sentence.len()
                ));
            }
            self.word_spans(key, value, rules, options, &mut sentence);
            let spans: HashSet<&Entity> = sentence.entities.iter().collect();
            if has_tags && self.valid && !tagged.iter().all(|entity| spans.contains(entity)) {
                let tags = found
                    .tags
                    .first()
                    .map_or("the tags of the words", |(key, _)| key);
                self.error(format!(
                    "`{key}` and `{tags}` give different entities; delete one of them"
                ));
            }
        } else {
            sentence.entities = tagged;
        }
        self.own_keys(&mut sentence);
        if self.valid {
            self.corpus.push(self.place.at.0, sentence);
        }
    }

    fn sentence(&mut self, key: &str, words: &[&str]) -> Sentence {
        if let Some(index) = words.iter().position(|word| word.is_empty()) {
            self.error(format!("word {index} is empty; remove it"));
        }
        let text = text(self.object).filter(|(text, _)| *text != key);
        let starts = self.object.get("word_starts").and_then(Value::as_str);
        let aligned = text.and_then(|(_, text)| {
            let given = starts.and_then(|starts| words::align_at(text, words, starts));
            given.or_else(|| words::align(text, words))
        });
        if let (Some(("text", _)), None) = (text, &aligned) {
            self.warn(format!("`text` does not consist of the words of `{key}` in order; using the words joined by spaces"));
        }
        let mut sentence = aligned.unwrap_or_else(|| Sentence::from_words(words.iter().copied()));
        sentence.pos = self.part_of_speech(sentence.len(), true);
        for (key, words) in [
            ("ltokens", &mut sentence.left),
            ("rtokens", &mut sentence.right),
        ] {
            if let Some(value) = self.object.get(key).filter(|value| !value.is_null()) {
                let strings = self.strings(key, value).unwrap_or_default();
                *words = strings.into_iter().map(str::to_string).collect();
            }
        }
        sentence
    }

    fn word_spans(
        &mut self,
        key: &str,
        value: &'a Value,
        rules: &Rules,
        options: &'a ReadOptions,
        sentence: &mut Sentence,
    ) {
        let mut seen = HashSet::new();
        // Lists of word indices have no ends.
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if list
            .iter()
            .any(|entity| entity.get("index").is_some_and(Value::is_array))
        {
            for (index, value) in list.iter().enumerate() {
                match parse_index_entity(value, sentence.len()) {
                    Ok((parts, label)) => self.add_words(&mut seen, parts, label, sentence),
                    Err(problem) => self.invalid_entity(format!("`{key}`[{index}] {problem}")),
                }
            }
            return;
        }
        let length = sentence.text.chars().count();
        for (at, span) in self.spans(key, value, Unit::Words, options) {
            let unit = span.unit.unwrap_or(rules.unit);
            let parts = exclusive(&span, rules.inclusive && unit == Unit::Words);
            let length = if unit == Unit::Words {
                sentence.len()
            } else {
                length
            };
            let problem = parts
                .iter()
                .find_map(|part| check_span(*part, &span.label, length, unit).err());
            match problem {
                Some(problem) => self.invalid_entity(format!("{at} {problem}")),
                None if unit == Unit::Words => {
                    self.add_words(&mut seen, parts, &span.label, sentence)
                }
                None => self.add_characters(&mut seen, parts, &span.label, sentence),
            }
        }
    }

    fn is_new(&mut self, seen: &mut Seen, parts: &[(usize, usize)], label: &str) -> bool {
        let is_new = seen.insert((parts.to_vec(), label.to_string()));
        if !is_new {
            self.warn(entities::given_twice(label, entities::ranges(parts)));
        }
        is_new
    }

    fn add_words(
        &mut self,
        seen: &mut Seen,
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
        let characters = |(start, end): &(usize, usize)| {
            (sentence.words[*start].start, sentence.words[end - 1].end)
        };
        let parts = parts.iter().map(characters).collect();
        sentence.discontinuous.push(Discontinuous {
            parts,
            label: label.to_string(),
        });
    }

    fn add_characters(
        &mut self,
        seen: &mut Seen,
        parts: Vec<(usize, usize)>,
        label: &str,
        sentence: &mut Sentence,
    ) {
        if !self.is_new(seen, &parts, label) {
            return;
        }
        let part = parts[0];
        if !entities::add(sentence, parts, label.to_string()) {
            let text = crate::text::slice(&sentence.text, part.0, part.1);
            self.warn(entities::not_at_word_boundaries(label, part, text));
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
                self.invalid_entity(format!("`{key}`{at} {problem}"));
            }
            for (at, span) in spans {
                let problem = span.parts.iter().find_map(|part| {
                    check_span(*part, &span.label, length, Unit::Characters).err()
                });
                match problem {
                    Some(problem) => self.invalid_entity(format!("`{key}`{at} {problem}")),
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
