//! Entities given by offsets: checking their spans, adding them to a sentence, and the messages about them.

use std::fmt;

use crate::data::correction::{Correction, Message};
use crate::text::{Discontinuous, Entity, Misaligned, Sentence};

/// Why a span is not one of its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::data) enum SpanError {
    #[error(
        "is empty: start {start}, end {end}; the end is exclusive, one past the last of the {unit}, so add one if this file \
         includes it"
    )]
    Empty {
        start: usize,
        end: usize,
        unit: &'static str,
    },
    #[error("ends at {end}, but there are only {length} {unit}; spans count {unit} from 0")]
    OutOfRange {
        end: usize,
        length: usize,
        unit: &'static str,
    },
}

/// Checks a span of a text with `length` words or characters.
pub(in crate::data) fn check_span(
    (start, end): (usize, usize),
    length: usize,
    unit: &'static str,
) -> Result<(), SpanError> {
    if start >= end {
        Err(SpanError::Empty { start, end, unit })
    } else if end > length {
        Err(SpanError::OutOfRange { end, length, unit })
    } else {
        Ok(())
    }
}

/// Checks the parts of an entity in a text of `length` characters. An entity without parts is empty.
pub(in crate::data) fn check_parts(
    parts: &[(usize, usize)],
    length: usize,
) -> Result<(), SpanError> {
    if parts.is_empty() {
        return check_span((0, 0), length, "characters");
    }
    parts
        .iter()
        .try_for_each(|part| check_span(*part, length, "characters"))
}

/// Adds an entity to a sentence by the characters of its parts. False when its only part does not start and end at word
/// boundaries.
pub(in crate::data) fn add(
    sentence: &mut Sentence,
    parts: Vec<(usize, usize)>,
    label: String,
) -> bool {
    let [(start, end)] = parts[..] else {
        sentence.discontinuous.push(Discontinuous { parts, label });
        return true;
    };
    let span = sentence.span_of(start, end);
    match span {
        Some(span) => (sentence.entities).push(Entity::new(span.start, span.end, label)),
        None => sentence.misaligned.push(Misaligned { start, end, label }),
    }
    span.is_some()
}

/// The message about an entity that was given before. `place` is its text or its offsets.
pub(in crate::data) fn given_twice(label: &str, place: impl fmt::Display) -> Message {
    let text = format!("{label} {place} is given twice; counted once, delete one");
    Message::corrected(text, Correction::Duplicate)
}

/// The message about an entity that [`add`] found not to match words. `text` is that of the span.
pub(in crate::data) fn not_at_word_boundaries(
    label: &str,
    (start, end): (usize, usize),
    text: &str,
) -> String {
    format!(
        "{label} {start}..{end} `{text}` does not start and end at word boundaries, so no model can find it; correct the \
         offsets if they are wrong"
    )
}

/// The offsets of an entity for a message: `3..5`, or `3..5 and 7..9`.
pub(in crate::data) fn ranges(parts: &[(usize, usize)]) -> String {
    let ranges = parts.iter().map(|(start, end)| format!("{start}..{end}"));
    ranges.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_added_by_their_characters() {
        let mut sentence = Sentence::from_words(["Ada", "Lovelace", "wrote"]);
        assert!(add(&mut sentence, vec![(0, 12)], "PER".to_string()));
        assert!(!add(&mut sentence, vec![(0, 2)], "X".to_string()));
        assert!(add(&mut sentence, vec![(0, 3), (13, 18)], "Y".to_string()));
        assert_eq!(sentence.entities, [Entity::new(0, 2, "PER")]);
        assert_eq!(sentence.misaligned.len(), 1);
        assert_eq!(ranges(&sentence.discontinuous[0].parts), "0..3 and 13..18");
    }

    #[test]
    fn spans_must_be_within_the_text() {
        let problem = |span| check_span(span, 5, "words").unwrap_err().to_string();
        assert_eq!(check_span((0, 5), 5, "words"), Ok(()));
        assert!(problem((3, 9)).starts_with("ends at 9, but there are only 5 words"));
        assert!(problem((3, 3)).starts_with("is empty"));
        assert!(problem((4, 3)).starts_with("is empty"));
    }
}
