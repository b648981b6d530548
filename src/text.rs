//! Sentences, words, spans, entities: what every other part of the house speaks about.
//!
//! Spans count words and are half-open. Offsets into texts count characters (Unicode scalar values), as in
//! JSON written by most annotation tools, never bytes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Words `start..end` of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First word.
    pub start: usize,
    /// One past the last word.
    pub end: usize,
}

impl Span {
    /// Words `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// True for a span without words; no entity is one.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// True when the two share a word.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// True when `other` lies inside this span (equal spans contain each other).
    pub fn contains(&self, other: &Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// A word and where it stands in its sentence's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The word as written.
    pub text: String,
    /// First character in the sentence's text.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
}

/// A labelled span: gold, or a decision without its score.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Entity {
    /// Which words.
    pub span: Span,
    /// Its type.
    pub label: String,
}

impl Entity {
    /// Words `start..end` are a `label`.
    pub fn new(start: usize, end: usize, label: impl Into<String>) -> Self {
        Self {
            span: Span::new(start, end),
            label: label.into(),
        }
    }
}

/// An entity a model found, with the model's confidence in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mention {
    /// The entity.
    pub entity: Entity,
    /// Confidence in 0..=1.
    pub score: f32,
}

/// A gold entity whose characters do not start and end on word borders, so no span of words equals it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misaligned {
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
    /// Its type.
    pub label: String,
}

/// One sentence (or short text) with what is known about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// The text the words were cut from; where a corpus has only words, they are joined by single spaces.
    pub text: String,
    /// The words in order.
    pub words: Vec<Word>,
    /// Part-of-speech tag of each word, when the corpus has them.
    pub pos: Option<Vec<String>>,
    /// The document this sentence belongs to, when known.
    pub document: Option<String>,
    /// Words of the sentence before it in its document.
    pub left: Vec<String>,
    /// Words of the sentence after it in its document.
    pub right: Vec<String>,
    /// Gold entities; they may nest and overlap.
    pub entities: Vec<Entity>,
    /// Gold entities that no span of words equals.
    pub misaligned: Vec<Misaligned>,
}

impl Sentence {
    /// A sentence from ready-made words, its text being the words joined by single spaces.
    pub fn from_words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let mut sentence = Self::default();
        let mut characters = 0;
        for (index, text) in words.into_iter().enumerate() {
            let text = text.into();
            if index > 0 {
                sentence.text.push(' ');
                characters += 1;
            }
            sentence.text.push_str(&text);
            let end = characters + text.chars().count();
            sentence.words.push(Word {
                text,
                start: characters,
                end,
            });
            characters = end;
        }
        sentence
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True when there is no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// First and one-past-last character of a span of words.
    pub fn characters(&self, span: Span) -> (usize, usize) {
        if span.is_empty() || span.end > self.words.len() {
            return (0, 0);
        }
        (self.words[span.start].start, self.words[span.end - 1].end)
    }

    /// The text under a span of words.
    pub fn surface(&self, span: Span) -> &str {
        let (start, end) = self.characters(span);
        slice(&self.text, start, end)
    }

    /// The span of words that covers exactly characters `start..end`, if there is one.
    pub fn span_of(&self, start: usize, end: usize) -> Option<Span> {
        let first = self.words.binary_search_by_key(&start, |word| word.start);
        let last = self.words.binary_search_by_key(&end, |word| word.end);
        match (first, last) {
            (Ok(first), Ok(last)) if first <= last => Some(Span::new(first, last + 1)),
            _ => None,
        }
    }
}

/// Characters `start..end` of a text; empty when out of range.
pub fn slice(text: &str, start: usize, end: usize) -> &str {
    let mut borders = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()]);
    let Some(from) = borders.by_ref().nth(start) else {
        return "";
    };
    match end.checked_sub(start) {
        None | Some(0) => "",
        Some(length) => borders.nth(length - 1).map_or("", |to| &text[from..to]),
    }
}

/// The entities that no other entity contains; of equal spans the alphabetically first label stays, and of two that
/// cross the one that starts first. What is left is flat.
pub fn outermost(entities: &[Entity]) -> Vec<Entity> {
    let mut sorted: Vec<&Entity> = entities.iter().collect();
    sorted.sort_by_key(|entity| {
        let span = entity.span;
        (span.start, std::cmp::Reverse(span.end), &entity.label)
    });
    let mut kept: Vec<Entity> = Vec::new();
    for entity in sorted {
        if kept
            .last()
            .is_none_or(|last| !last.span.overlaps(&entity.span))
        {
            kept.push(entity.clone());
        }
    }
    kept
}

/// True when the entity shares a word with another of the list (it nests, is nested in, or crosses one).
pub fn is_nested(entity: &Entity, all: &[Entity]) -> bool {
    all.iter()
        .any(|other| other != entity && other.span.overlaps(&entity.span))
}

/// The entity types of a corpus, numbered in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    /// The given types, sorted, each once.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        Self {
            names: names.into_iter().collect(),
        }
    }

    /// All types that occur in the sentences.
    pub fn of<'a>(sentences: impl IntoIterator<Item = &'a Sentence>) -> Self {
        Self::new(
            sentences
                .into_iter()
                .flat_map(|sentence| &sentence.entities)
                .map(|entity| entity.label.clone()),
        )
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of a type.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names
            .binary_search_by(|known| known.as_str().cmp(name))
            .ok()
    }

    /// The type with this number.
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// All types in order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_characters() {
        let sentence = Sentence::from_words(["Zoë", "👩‍🔬", "نص", "北京"]);
        for (index, word) in sentence.words.iter().enumerate() {
            assert_eq!(sentence.surface(Span::new(index, index + 1)), word.text);
        }
        assert_eq!(sentence.surface(Span::new(1, 3)), "👩‍🔬 نص");
        let (start, end) = sentence.characters(Span::new(1, 3));
        assert_eq!(sentence.span_of(start, end), Some(Span::new(1, 3)));
        assert_eq!(sentence.span_of(start + 1, end), None);
    }

    #[test]
    fn slices_out_of_range_are_empty() {
        assert_eq!(slice("abc", 1, 3), "bc");
        assert_eq!(slice("abc", 2, 9), "");
        assert_eq!(slice("abc", 3, 3), "");
        assert_eq!(slice("abc", 2, 1), "");
    }

    #[test]
    fn outermost_is_flat() {
        let entities = [
            Entity::new(1, 2, "LOC"),
            Entity::new(0, 3, "ORG"),
            Entity::new(2, 5, "ORG"),
            Entity::new(6, 7, "PER"),
        ];
        assert_eq!(
            outermost(&entities),
            [Entity::new(0, 3, "ORG"), Entity::new(6, 7, "PER")]
        );
        assert!(is_nested(&entities[0], &entities));
        assert!(!is_nested(&entities[3], &entities));
    }
}
