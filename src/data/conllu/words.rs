//! The words of a CoNLL-U sentence: multiword tokens, empty nodes and the spaces between words.

use super::columns::ConlluColumns;
use crate::data::words;
use crate::text::{Sentence, Word};

/// The most words of a multiword token.
const LONGEST: usize = 100;

/// The number in the first column of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowId {
    /// A word: `3`.
    Word(usize),
    /// A multiword token: `3-4`.
    Token(usize, usize),
    /// A node of the enhanced syntax that has no words: `3.1`.
    Empty,
}

impl RowId {
    fn parse(id: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<usize>().ok()).flatten()
        };
        if let Some((first, last)) = id.split_once('-') {
            let (first, last) = (number(first)?, number(last)?);
            return (first < last).then_some(RowId::Token(first, last));
        }
        if let Some((word, index)) = id.split_once('.') {
            return (number(word).is_some() && number(index).is_some()).then_some(RowId::Empty);
        }
        number(id).map(RowId::Word)
    }
}

/// A row that can have an annotation, with the syntactic words that it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit<'a> {
    pub line: usize,
    /// Index of the row in its sentence.
    pub row: usize,
    /// The annotation.
    pub value: Option<&'a str>,
    /// First syntactic word.
    pub start: usize,
    /// One past the last syntactic word; equal to `start` for an empty node.
    pub end: usize,
}

/// A word of the text.
struct TextWord {
    form: String,
    pos: String,
    space_after: bool,
}

/// The words of a sentence.
pub(super) struct Words<'a> {
    words: Vec<TextWord>,
    /// For each syntactic word the word of the text it belongs to.
    pub word: Vec<usize>,
    /// The rows with annotations, in text order.
    pub units: Vec<Unit<'a>>,
}

impl<'a> Words<'a> {
    /// The words of the rows, with line numbers, of a sentence. `key` is the key of MISC that has the annotation. An error
    /// has the line and a message.
    ///
    /// The parts of a multiword token are words of their own if they make up the token (`do` + `n't`); else the token is
    /// one word of the text (`im`, of `in` + `dem`).
    pub fn of(
        rows: &[(usize, Vec<&'a str>)],
        columns: &ConlluColumns,
        key: Option<&str>,
    ) -> Result<Self, (usize, String)> {
        let mut result = Self {
            words: Vec::new(),
            word: Vec::new(),
            units: Vec::new(),
        };
        let value = |row: &[&'a str]| key.and_then(|key| columns.misc(row, key));
        let mut index = 0;
        while let Some((line, row)) = rows.get(index) {
            let id = RowId::parse(row[columns.id]).ok_or_else(|| {
                let message = format!(
                    "`{}` is not the number of a word (`3`), of a multiword token (`3-4`) or of an empty node (`3.1`)",
                    row[columns.id]
                );
                (*line, message)
            })?;
            let mut parts = match id {
                RowId::Empty => {
                    result.unit(index, *line, value(row), 0);
                    index += 1;
                    continue;
                }
                RowId::Word(_) => vec![index],
                RowId::Token(..) => Vec::new(),
            };
            let mut next = index + 1;
            if let RowId::Token(first, last) = id {
                let mut reached = 0;
                while let Some((_, row)) = rows.get(next) {
                    match RowId::parse(row[columns.id]) {
                        Some(RowId::Word(number)) if number <= last && parts.len() < LONGEST => {
                            parts.push(next);
                            reached = number;
                        }
                        Some(RowId::Empty) if reached < last && next < index + LONGEST => {}
                        _ => break,
                    }
                    next += 1;
                }
                if parts.len() != last - first + 1 {
                    let message = format!(
                        "the multiword token {first}-{last} is followed by {} of its words; add or correct their rows below",
                        parts.len()
                    );
                    return Err((*line, message));
                }
            }
            if let Some(bad) = (parts.iter()).find(|part| rows[**part].1[columns.form].is_empty()) {
                return Err((
                    rows[*bad].0,
                    "the word is empty; put a word in it".to_string(),
                ));
            }
            result.token(rows, columns, index, &parts);
            // The annotation of a token counts if its parts have none.
            let is_of_token =
                value(row).is_some() && parts.iter().all(|part| value(&rows[*part].1).is_none());
            if parts != [index] && is_of_token {
                result.unit(index, *line, value(row), parts.len());
            } else {
                for (part, (line, row)) in rows.iter().enumerate().take(next).skip(index) {
                    let count = usize::from(parts.contains(&part));
                    if part != index || count == 1 {
                        result.unit(part, *line, value(row), count);
                    }
                }
            }
            index = next;
        }
        if result.words.is_empty() {
            let line = rows.first().map_or(0, |row| row.0);
            return Err((
                line,
                "the sentence has no words; delete its rows".to_string(),
            ));
        }
        Ok(result)
    }

    /// Adds a row that stands for the next `count` syntactic words.
    fn unit(&mut self, row: usize, line: usize, value: Option<&'a str>, count: usize) {
        let start = self.units.last().map_or(0, |unit| unit.end);
        self.units.push(Unit {
            line,
            row,
            value,
            start,
            end: start + count,
        });
    }

    /// Adds the words of the text for a row and its parts.
    fn token(
        &mut self,
        rows: &[(usize, Vec<&'a str>)],
        columns: &ConlluColumns,
        index: usize,
        parts: &[usize],
    ) {
        let row = &rows[index].1;
        let form = row[columns.form];
        let pos = |part: &usize| columns.pos.map_or("_", |column| rows[*part].1[column]);
        let space_after = columns.misc(row, "SpaceAfter") != Some("No");
        let forms: Vec<&str> = (parts.iter())
            .map(|part| rows[*part].1[columns.form])
            .collect();
        if forms.concat() == form || form == "_" || form.is_empty() {
            let is_hidden = forms.concat() != form;
            for (place, part) in parts.iter().enumerate() {
                self.word.push(self.words.len());
                self.words.push(TextWord {
                    form: forms[place].to_string(),
                    pos: pos(part).to_string(),
                    space_after: is_hidden || (place + 1 == parts.len() && space_after),
                });
            }
        } else {
            self.word.extend(parts.iter().map(|_| self.words.len()));
            let pos: Vec<&str> = parts.iter().map(pos).collect();
            self.words.push(TextWord {
                form: form.to_string(),
                pos: pos.join("+"),
                space_after,
            });
        }
    }

    /// True when some syntactic words begin or end inside a word of the text.
    pub fn cuts_token(&self, (start, end): (usize, usize)) -> bool {
        let same = |left: usize| {
            self.word.get(left) == self.word.get(left + 1) && left + 1 < self.word.len()
        };
        (start > 0 && same(start - 1)) || (end > 0 && same(end - 1))
    }

    /// The sentence without its entities, and whether its text is the given one.
    pub fn sentence(&self, text: Option<&str>) -> (Sentence, bool) {
        let forms: Vec<&str> = self.words.iter().map(|word| word.form.as_str()).collect();
        let aligned = text.and_then(|text| words::align(text, &forms));
        let is_given = aligned.is_some();
        let mut sentence = aligned.unwrap_or_else(|| self.joined());
        if self
            .words
            .iter()
            .any(|word| !word.pos.trim_matches(['_', '+']).is_empty())
        {
            sentence.pos = Some(self.words.iter().map(|word| word.pos.clone()).collect());
        }
        (sentence, is_given)
    }

    /// The sentence with spaces where the file has them.
    fn joined(&self) -> Sentence {
        let mut sentence = Sentence::default();
        let mut characters = 0;
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 && self.words[index - 1].space_after {
                sentence.text.push(' ');
                characters += 1;
            }
            let end = characters + word.form.chars().count();
            sentence.text.push_str(&word.form);
            sentence.words.push(Word {
                text: word.form.clone(),
                start: characters,
                end,
            });
            characters = end;
        }
        sentence
    }
}
