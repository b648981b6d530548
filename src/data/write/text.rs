//! Plain text: corpora without their entities, and predictions as text with brackets for terminals.

use std::cmp::Reverse;
use std::io::Write;

use super::annotated::{Annotated, not_writable};
use super::documents::{Document, DocumentEntity};
use super::summary::{Loss, Summary};
use super::write_error;
use crate::error::Result;
use crate::text::{CharacterIndex, Mention, Sentence};

/// Writes the text of a sentence on a line, without entities.
pub(super) fn plain(
    out: &mut dyn Write,
    item: &Annotated<'_>,
    summary: &mut Summary,
) -> Result<()> {
    let sentence = item.sentence;
    let entities = item.entities.len() + item.misaligned().len() + item.discontinuous().len();
    summary.lose(Loss::Entity, entities);
    summary.lose_extras(
        item,
        &[
            Loss::DocumentName,
            Loss::Position,
            Loss::PartOfSpeech,
            Loss::Context,
        ],
    );
    if sentence.text.trim().is_empty() {
        summary.lose(Loss::Blank, 1);
        return Ok(());
    }
    if sentence.text.contains(['\n', '\r']) {
        let problem = "its text has a line break; write text_jsonl instead";
        return Err(not_writable(summary.sentences, problem));
    }
    writeln!(out, "{}", sentence.text).map_err(write_error)
}

/// Writes a document with its mentions in brackets.
pub(super) fn bracketed_document(
    out: &mut dyn Write,
    document: &Document,
    summary: &mut Summary,
) -> Result<()> {
    let written = brackets(out, document).map_err(write_error)?;
    summary.entities += written;
    summary.lose(Loss::Crossing, document.entities.len() - written);
    writeln!(out).map_err(write_error)
}

/// The text of a sentence with its mentions in brackets, nested ones inside each other. A mention that overlaps another
/// partly cannot be shown and is left out.
///
/// ```
/// use nerzoo::data::write::bracketed;
/// use nerzoo::text::{Entity, Mention, Sentence};
///
/// let sentence = Sentence::from_words(["University", "of", "Oxford"]);
/// let mention = |start, end, label| Mention { entity: Entity::new(start, end, label), score: 1.0 };
/// let mentions = [mention(2, 3, "LOC"), mention(0, 3, "ORG")];
/// assert_eq!(bracketed(&sentence, &mentions), "[University of [Oxford]LOC]ORG");
/// ```
pub fn bracketed(sentence: &Sentence, mentions: &[Mention]) -> String {
    let item = Annotated::predicted(sentence, mentions);
    let mut text = Vec::new();
    // Nothing fails here: the output is in memory, and consists of strings.
    let _ = brackets(&mut text, &Document::begin(&item, false));
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes the text with brackets. Returns the number of entities in brackets; the others cross one of them.
fn brackets(out: &mut dyn Write, document: &Document) -> std::io::Result<usize> {
    let text = document.characters();
    let is_shown = |entity: &DocumentEntity| {
        let span = entity.span();
        span.is_some_and(|(start, end)| start < end && end <= text.characters())
    };
    let mut order: Vec<usize> = (0..document.entities.len())
        .filter(|index| is_shown(&document.entities[*index]))
        .collect();
    order.sort_by_key(|index| {
        let entity = &document.entities[*index];
        let (start, end) = entity.span().unwrap_or_default();
        (start, Reverse(end), &*entity.label)
    });
    let (mut written, mut at) = (0, 0);
    let mut open: Vec<(usize, &str)> = Vec::new();
    for index in order {
        let entity = &document.entities[index];
        let (start, end) = entity.span().unwrap_or_default();
        at = close(out, &mut open, &text, at, start)?;
        if open.last().is_none_or(|(outer, _)| end <= *outer) {
            write!(out, "{}[", text.slice(at, start))?;
            at = start;
            open.push((end, &entity.label));
            written += 1;
        }
    }
    at = close(out, &mut open, &text, at, text.characters())?;
    write!(out, "{}", text.slice(at, text.characters()))?;
    Ok(written)
}

/// Writes the text from the character `at` to the last bracket that closes up to the character `end`. Returns the character
/// after it.
fn close(
    out: &mut dyn Write,
    open: &mut Vec<(usize, &str)>,
    text: &CharacterIndex<'_>,
    mut at: usize,
    end: usize,
) -> std::io::Result<usize> {
    while let Some((to, label)) = open.pop_if(|(to, _)| *to <= end) {
        write!(out, "{}]{label}", text.slice(at, to))?;
        at = to;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::write::{WriteOptions, predictions, write_with};
    use crate::data::{Format, TagScheme, words};
    use crate::text::Entity;

    fn mention(start: usize, end: usize, label: &str) -> Mention {
        Mention {
            entity: Entity::new(start, end, label),
            score: 0.9,
        }
    }

    #[test]
    fn brackets_keep_the_text() {
        let sentence = words::sentence("Zoë 👩‍🔬 of the  “北京 Uni”.", Default::default());
        let mentions = [
            mention(0, 2, "PER"),
            mention(5, 7, "LOC"),
            mention(5, 8, "ORG"),
            mention(6, 9, "X"),
        ];
        assert_eq!(
            bracketed(&sentence, &mentions),
            "[Zoë 👩‍🔬]PER of the  “[[北京]LOC Uni]ORG”."
        );
        assert_eq!(bracketed(&Sentence::default(), &[]), "");
    }

    #[test]
    fn predictions_of_a_document_are_one_text() {
        let mut first = Sentence::from_words(["Ada", "left"]);
        first.trailing = "\n".to_string();
        let mut second = Sentence::from_words(["Bo"]);
        second.offset = 9;
        let (one, two) = ([mention(0, 1, "PER")], [mention(0, 1, "PER")]);
        let items = [
            Annotated::predicted(&first, &one),
            Annotated::predicted(&second, &two),
        ];
        let mut out = Vec::new();
        let summary = predictions(&mut out, Format::PlainText, TagScheme::Iob2, &items).unwrap();
        assert_eq!(out, b"[Ada]PER left\n[Bo]PER\n");
        assert_eq!((summary.sentences, summary.entities), (2, 2));
    }

    #[test]
    fn corpora_lose_their_entities() {
        let mut sentence = Sentence::from_words(["Ada"]);
        sentence.entities = vec![Entity::new(0, 1, "PER")];
        let options = WriteOptions::of(Format::PlainText);
        let mut out = Vec::new();
        let summary = write_with(&mut out, &[sentence, Sentence::default()], &options).unwrap();
        assert_eq!(out, b"Ada\n");
        assert_eq!(
            summary.notes(),
            ["left out: 1 entity", "left out: 1 sentence without words"]
        );
        let broken = Sentence::from_words(["a\nb"]);
        assert!(write_with(&mut Vec::new(), &[broken], &options).is_err());
    }
}
