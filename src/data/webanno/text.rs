//! The text of a WebAnno sentence, and the place of its tokens.

use super::layers::{unescape, unescape_java};
use crate::data::words;
use crate::text::{Sentence, Word};

/// A token with its offsets in the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenText<'a> {
    pub begin: usize,
    pub end: usize,
    pub text: &'a str,
}

/// The sentence of some lines of text and tokens, and whether the offsets fit the text.
///
/// Offsets count UTF-16 code units. Programs that do not follow the format count characters, escape differently, or begin at
/// 0 in every sentence, so the first reading that fits is taken. If none does, the tokens are searched in the text.
pub(super) fn sentence_of(lines: &[&str], tokens: &[TokenText], is_java: bool) -> (Sentence, bool) {
    let mut readings: Vec<String> = Vec::new();
    if is_java {
        readings.push(join(lines, unescape_java));
    }
    readings.push(join(lines, |line| unescape(line, false)));
    readings.push(join(lines, |line| unescape(line, true)));
    readings.push(lines.join("\n"));
    readings.dedup();
    for text in &readings {
        for utf16 in [true, false] {
            if let Some(sentence) = fit(text, tokens, utf16) {
                return (sentence, true);
            }
        }
    }
    for text in &readings {
        for reserved in [false, true] {
            let forms: Vec<String> = tokens
                .iter()
                .map(|token| unescape(token.text, reserved))
                .collect();
            let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
            if let Some(sentence) = words::align(text, &forms) {
                return (sentence, false);
            }
        }
    }
    let forms = tokens.iter().map(|token| unescape(token.text, false));
    (Sentence::from_words(forms), false)
}

fn join(lines: &[&str], read: impl Fn(&str) -> String) -> String {
    let lines: Vec<String> = lines.iter().map(|line| read(line)).collect();
    lines.join("\n")
}

/// The sentence if the offsets, in UTF-16 code units or in characters, give the tokens.
fn fit(text: &str, tokens: &[TokenText], utf16: bool) -> Option<Sentence> {
    let first = tokens.first()?.begin;
    let spaces = text
        .chars()
        .take_while(|character| character.is_whitespace())
        .count();
    [0, spaces]
        .into_iter()
        .filter_map(|before| first.checked_sub(before))
        .find_map(|base| fit_at(text, tokens, base, utf16))
}

/// As [`fit`], with the offset of the text in the document.
fn fit_at(text: &str, tokens: &[TokenText], base: usize, utf16: bool) -> Option<Sentence> {
    let mut words = Vec::with_capacity(tokens.len());
    let mut characters = text.char_indices().peekable();
    let (mut units, mut index) = (0, 0);
    // Walks to an offset and returns its byte and character.
    let mut walk = |offset: usize| {
        while units < offset {
            let (_, character) = characters.next()?;
            units += if utf16 { character.len_utf16() } else { 1 };
            index += 1;
        }
        let byte = characters.peek().map_or(text.len(), |(byte, _)| *byte);
        (units == offset).then_some((byte, index))
    };
    let mut previous = 0;
    for token in tokens {
        let (begin, end) = (token.begin.checked_sub(base)?, token.end.checked_sub(base)?);
        if begin < previous || begin >= end {
            return None;
        }
        previous = end;
        let (from, start) = walk(begin)?;
        let (to, end) = walk(end)?;
        let found = &text[from..to];
        let is_token = found == token.text
            || found == unescape(token.text, false)
            || found == unescape(token.text, true);
        if !is_token {
            return None;
        }
        words.push(Word {
            text: found.to_string(),
            start,
            end,
        });
    }
    Some(Sentence {
        text: text.to_string(),
        words,
        ..Sentence::default()
    })
}

/// The number of characters of a token before an offset in UTF-16 code units; all of them if it is beyond the token.
pub(super) fn characters_before(token: &str, offset: usize) -> usize {
    let mut units = 0;
    let before = token.chars().take_while(|character| {
        units += character.len_utf16();
        units <= offset
    });
    before.count()
}
