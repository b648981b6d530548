//! A sentence with the entities to be written: its own, or predicted ones with scores.

use crate::error::{Error, Result};
use crate::text::{Discontinuous, Mention, Misaligned, Sentence, Span};

/// A sentence with the entities to be written.
#[derive(Debug, Clone)]
pub struct Annotated<'a> {
    pub(super) sentence: &'a Sentence,
    pub(super) entities: Vec<WordEntity<'a>>,
    /// Whether the entities are predictions, and the sentence's own ones are not written.
    pub(super) is_predicted: bool,
}

/// An entity over words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WordEntity<'a> {
    pub span: Span,
    pub label: &'a str,
    /// The confidence of a prediction.
    pub score: Option<f32>,
}

impl<'a> Annotated<'a> {
    /// A sentence with its gold entities.
    pub fn gold(sentence: &'a Sentence) -> Self {
        let entities = sentence.entities.iter().map(|entity| WordEntity {
            span: entity.span,
            label: &entity.label,
            score: None,
        });
        Self {
            sentence,
            entities: entities.collect(),
            is_predicted: false,
        }
    }

    /// A sentence with predicted mentions. The sentence's gold entities are not written.
    pub fn predicted(sentence: &'a Sentence, mentions: &'a [Mention]) -> Self {
        let entities = mentions.iter().map(|mention| WordEntity {
            span: mention.entity.span,
            label: &mention.entity.label,
            score: Some(mention.score).filter(|score| score.is_finite()),
        });
        Self {
            sentence,
            entities: entities.collect(),
            is_predicted: true,
        }
    }

    /// The gold entities that are not spans of words.
    pub(super) fn misaligned(&self) -> &'a [Misaligned] {
        if self.is_predicted {
            &[]
        } else {
            &self.sentence.misaligned
        }
    }

    /// The gold entities of several parts.
    pub(super) fn discontinuous(&self) -> &'a [Discontinuous] {
        if self.is_predicted {
            &[]
        } else {
            &self.sentence.discontinuous
        }
    }

    /// The words' texts.
    pub(super) fn words(&self) -> Vec<&'a str> {
        let words = self.sentence.words.iter();
        words.map(|word| word.text.as_str()).collect()
    }

    /// The words of each part of a discontinuous entity; `None` when a part does not match word boundaries.
    pub(super) fn word_parts(&self, entity: &Discontinuous) -> Option<Vec<Span>> {
        let parts = entity.parts.iter();
        parts
            .map(|(start, end)| self.sentence.span_of(*start, *end))
            .collect()
    }

    /// Checks that every entity has a type and words, so that no writer has to.
    pub(super) fn check(&self, number: usize) -> Result<()> {
        let length = self.sentence.len();
        for WordEntity { span, label, .. } in &self.entities {
            if span.is_empty() || span.end > length || label.trim().is_empty() {
                let Span { start, end } = span;
                let problem = format!(
                    "entity {start}..{end} `{label}` has no type, or is not within its {length} words; correct it"
                );
                return Err(not_writable(number, problem));
            }
        }
        if let Some(index) = self.sentence.words.iter().position(|w| w.text.is_empty()) {
            let problem = format!("word {index} is empty; remove it");
            return Err(not_writable(number, problem));
        }
        if !self.misaligned().is_empty() || !self.discontinuous().is_empty() {
            self.check_offsets(number)?;
        }
        let pos = self.sentence.pos.as_ref();
        if pos.is_some_and(|pos| pos.len() != length) {
            let problem = "it does not have one part-of-speech tag for each word";
            return Err(not_writable(number, problem));
        }
        Ok(())
    }

    /// Checks the entities given by character offsets.
    fn check_offsets(&self, number: usize) -> Result<()> {
        let length = self.sentence.text.chars().count();
        let is_part = |(start, end): &(usize, usize)| start < end && *end <= length;
        let misaligned = (self.misaligned().iter())
            .find(|entity| !is_part(&(entity.start, entity.end)) || entity.label.trim().is_empty())
            .map(|entity| &entity.label);
        let discontinuous = (self.discontinuous().iter())
            .find(|entity| {
                let is_valid = !entity.parts.is_empty() && entity.parts.iter().all(is_part);
                !is_valid || entity.label.trim().is_empty()
            })
            .map(|entity| &entity.label);
        match misaligned.or(discontinuous) {
            Some(label) => {
                let problem = format!(
                    "the entity `{label}` has no type, or is not within the {length} characters of the text; correct it"
                );
                Err(not_writable(number, problem))
            }
            None => Ok(()),
        }
    }
}

/// The error for a sentence that a format cannot represent. `number` counts from 1.
pub(super) fn not_writable(number: usize, problem: impl std::fmt::Display) -> Error {
    Error::Config(format!("sentence {number} cannot be written: {problem}"))
}

/// A score with six decimal places.
pub(super) fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1e6).round() / 1e6
}
