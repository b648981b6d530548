//! Plain text: corpora without their entities, and predictions as text with brackets for terminals.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::Write;

use super::annotated::{Annotated, not_writable};
use super::documents::{Document, DocumentEntity};
use super::summary::{Loss, Summary};
use super::write_error;
use crate::error::Result;
use crate::text::{CharacterIndex, Mention, Sentence, is_hidden, visible};

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

/// Writes a document with its mentions in brackets, in colour if the output is a terminal.
pub(super) fn bracketed_document(
    out: &mut dyn Write,
    document: &Document,
    colour: bool,
    summary: &mut Summary,
) -> Result<()> {
    let written = brackets(
        &mut Style {
            out,
            colour,
            replace: true,
        },
        document,
    )
    .map_err(write_error)?;
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
    let mut style = Style {
        out: &mut text,
        colour: false,
        replace: false,
    };
    // Nothing fails here: the output is in memory, and consists of strings.
    let _ = brackets(&mut style, &Document::begin(&item, false));
    visible(&String::from_utf8_lossy(&text)).into_owned()
}

/// A type's colour on a terminal: the same for the same type in every run.
fn terminal_colour(label: &str) -> u32 {
    const FIRST: u32 = 31;
    const COLOURS: u32 = 6;
    let sum = label.bytes().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    FIRST + sum % COLOURS
}

/// Writes texts and brackets.
struct Style<'a> {
    out: &'a mut dyn Write,
    colour: bool,
    /// Whether characters that a terminal would obey are replaced in the text, and escaped in types.
    replace: bool,
}

impl Style<'_> {
    fn text(&mut self, text: &str) -> std::io::Result<()> {
        if !self.replace {
            return write!(self.out, "{text}");
        }
        for (number, part) in text.split(is_hidden).enumerate() {
            let replaced = if number > 0 { "\u{fffd}" } else { "" };
            write!(self.out, "{replaced}{part}")?;
        }
        Ok(())
    }

    fn open(&mut self, label: &str) -> std::io::Result<()> {
        if !self.colour {
            return write!(self.out, "[");
        }
        write!(self.out, "\x1b[1;{}m[\x1b[0m", terminal_colour(label))
    }

    fn close(&mut self, label: &str) -> std::io::Result<()> {
        let colour = terminal_colour(label);
        let label = if self.replace {
            visible(label)
        } else {
            Cow::Borrowed(label)
        };
        if !self.colour {
            return write!(self.out, "]{label}");
        }
        write!(self.out, "\x1b[1;{colour}m]\x1b[22m{label}\x1b[0m")
    }
}

/// Writes the text with brackets. Returns the number of entities in brackets; the others cross one of them.
fn brackets(style: &mut Style<'_>, document: &Document) -> std::io::Result<usize> {
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
        at = close(style, &mut open, &text, at, start)?;
        if open.last().is_none_or(|(outer, _)| end <= *outer) {
            style.text(text.slice(at, start))?;
            style.open(&entity.label)?;
            at = start;
            open.push((end, &entity.label));
            written += 1;
        }
    }
    at = close(style, &mut open, &text, at, text.characters())?;
    style.text(text.slice(at, text.characters()))?;
    Ok(written)
}

/// Writes the text from the character `at` to the last bracket that closes up to the character `end`. Returns the character
/// after it.
fn close(
    style: &mut Style<'_>,
    open: &mut Vec<(usize, &str)>,
    text: &CharacterIndex<'_>,
    mut at: usize,
    end: usize,
) -> std::io::Result<usize> {
    while let Some((to, label)) = open.pop_if(|(to, _)| *to <= end) {
        style.text(text.slice(at, to))?;
        style.close(label)?;
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
    fn colours_are_for_terminals() {
        let sentence = Sentence::from_words(["Bank", "of", "\x1b[31mOslo"]);
        let mentions = [mention(0, 3, "ORG"), mention(2, 3, "L\x07")];
        let item = Annotated::predicted(&sentence, &mentions);
        let mut text = Vec::new();
        let mut summary = Summary::default();
        let document = Document::begin(&item, false);
        bracketed_document(&mut text, &document, true, &mut summary).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (one, two) = (terminal_colour("ORG"), terminal_colour("L\x07"));
        assert_eq!(
            text,
            format!(
                "\x1b[1;{one}m[\x1b[0mBank of \x1b[1;{two}m[\x1b[0m\u{fffd}[31mOslo\x1b[1;{two}m]\x1b[22mL\\u{{7}}\x1b[0m\
                 \x1b[1;{one}m]\x1b[22mORG\x1b[0m\n"
            )
        );
        assert_eq!((summary.entities, summary.left_out), (2, 0));
        assert!((31..=36).contains(&one) && (31..=36).contains(&two));
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
