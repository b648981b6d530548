//! Plain text: corpora without their entities, and predictions as text with brackets for terminals.

use std::cmp::Reverse;
use std::io::Write;

use super::annotated::{Annotated, not_writable};
use super::documents::Document;
use super::summary::{Loss, Summary};
use super::write_error;
use crate::error::Result;
use crate::text::{Mention, Sentence, visible};

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
    document: &Document<'_>,
    colour: bool,
    summary: &mut Summary,
) -> Result<()> {
    let (text, crossing) = brackets(document, colour);
    summary.entities += document.entities.len() - crossing;
    summary.lose(Loss::Crossing, crossing);
    writeln!(out, "{text}").map_err(write_error)
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
    visible(&brackets(&Document::join(&[item]), false).0).into_owned()
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

/// The text with brackets, and the number of entities that were left out because they cross another one. With colour, control
/// characters of the text and of types are replaced: a terminal would obey them.
fn brackets(document: &Document<'_>, colour: bool) -> (String, usize) {
    let mut entities: Vec<(usize, usize, &str)> = (document.entities.iter())
        .filter_map(|entity| entity.span().map(|(start, end)| (start, end, entity.label)))
        .filter(|(start, end, _)| start < end)
        .collect();
    entities.sort_by_key(|(start, end, label)| (*start, Reverse(*end), *label));
    let mut written = 0;
    let mut text = String::with_capacity(document.text.len() + 8 * entities.len());
    let mut next = entities.into_iter().peekable();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let characters = document.text.chars().map(Some).chain([None]);
    for (index, character) in characters.enumerate() {
        while let Some((_, label)) = open.pop_if(|(end, _)| *end == index) {
            if colour {
                let (number, label) = (terminal_colour(label), visible(label));
                text.push_str(&format!("\x1b[1;{number}m]\x1b[22m{label}\x1b[0m"));
            } else {
                text.push(']');
                text.push_str(label);
            }
        }
        while let Some((_, end, label)) = next.next_if(|(start, ..)| *start == index) {
            if open.last().is_none_or(|(outer, _)| end <= *outer) {
                if colour {
                    let number = terminal_colour(label);
                    text.push_str(&format!("\x1b[1;{number}m[\x1b[0m"));
                } else {
                    text.push('[');
                }
                open.push((end, label));
                written += 1;
            }
        }
        match character {
            Some(one) if colour && one.is_control() && !"\t\n".contains(one) => {
                text.push('\u{fffd}')
            }
            _ => text.extend(character),
        }
    }
    (text, document.entities.len() - written)
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
        let (text, left_out) = brackets(&Document::join(&[item]), true);
        let (one, two) = (terminal_colour("ORG"), terminal_colour("L\x07"));
        assert_eq!(
            text,
            format!(
                "\x1b[1;{one}m[\x1b[0mBank of \x1b[1;{two}m[\x1b[0m\u{fffd}[31mOslo\x1b[1;{two}m]\x1b[22mL\\u{{7}}\x1b[0m\
                 \x1b[1;{one}m]\x1b[22mORG\x1b[0m"
            )
        );
        assert_eq!(left_out, 0);
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
