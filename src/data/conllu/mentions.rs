//! The mentions of a CoNLL-U file that are given by brackets: opening, closing, parts and sentence boundaries.

use std::collections::HashMap;

use super::brackets::{Bracket, BracketMention, FieldOrder, brackets};
use super::words::Unit;
use crate::data::source::Collector;
use crate::data::source::tally::Tally;

/// The most mentions that may be open at a time; more are a sign of a damaged file.
const MOST_OPEN: usize = 1000;

/// Remarks that are made once for the file; `{n}` stands for the number of cases.
pub(super) mod note {
    pub const CROSSES_SENTENCE: &str =
        "{n} mentions reach from one sentence into another; skipped, the first ends here";
    pub const NO_TYPE: &str = "{n} mentions have no entity type; skipped, the first is here";
    pub const NO_WORDS: &str =
        "{n} mentions are on empty nodes and have no words; skipped, the first is here";
    pub const WIDENED: &str = "{n} entities begin or end inside a multiword token; extended to the whole token, the first is here";
    pub const OTHER_TEXT: &str = "`# text` of {n} sentences does not consist of their words; their text is built \
        from the words, the first is here";
}

/// An entity over syntactic words.
pub(super) struct Found {
    /// First syntactic word and one past the last, of each part.
    pub parts: Vec<(usize, usize)>,
    pub label: String,
    pub line: usize,
}

/// A mention whose bracket is not closed yet.
struct Open<'a> {
    mention: BracketMention<'a>,
    /// First syntactic word; `None` when it began in an earlier sentence.
    start: Option<usize>,
    line: usize,
}

/// The parts found so far of discontinuous mentions, by group and number of parts, with the line of the first.
type Partial<'a> = HashMap<(&'a str, usize), (usize, Vec<(usize, usize)>)>;

/// The open mentions of a document.
#[derive(Default)]
pub(super) struct Mentions<'a> {
    /// The order of the fields.
    pub order: FieldOrder,
    open: Vec<Open<'a>>,
}

impl<'a> Mentions<'a> {
    /// Reports the mentions that are still open.
    pub fn end_document(&mut self, corpus: &mut Collector) {
        for open in std::mem::take(&mut self.open) {
            let message = format!(
                "the bracket of this {} is never closed; add the closing bracket to its last word",
                open.mention.label
            );
            corpus.error(open.line, message);
        }
    }

    /// Reads the brackets of a sentence; false when one is invalid.
    pub fn sentence(
        &mut self,
        units: &[Unit<'a>],
        found: &mut Vec<Found>,
        tally: &mut Tally,
        corpus: &mut Collector,
    ) -> bool {
        let mut valid = true;
        let mut partial: Partial = HashMap::new();
        for unit in units {
            let Some(value) = unit.value else {
                continue;
            };
            let list = match brackets(value) {
                Ok(list) => list,
                Err(error) => {
                    corpus.error(unit.line, error.to_string());
                    valid = false;
                    continue;
                }
            };
            for bracket in list {
                match bracket {
                    Bracket::Open(content) | Bracket::Single(content) => {
                        let mention = self.order.mention(content);
                        let (start, line) = (Some(unit.start), unit.line);
                        let open = Open {
                            mention,
                            start,
                            line,
                        };
                        if matches!(bracket, Bracket::Single(_)) {
                            self.close(open, unit, &mut partial, found, tally);
                        } else if self.open.len() < MOST_OPEN {
                            self.open.push(open);
                        } else {
                            let message =
                                format!("more than {MOST_OPEN} brackets are open; close them");
                            corpus.error(line, message);
                            valid = false;
                        }
                    }
                    Bracket::Close(name) => {
                        let matches = |open: &Open| open.mention.is_closed_by(name);
                        match self.open.iter().rposition(matches) {
                            Some(index) => {
                                let open = self.open.remove(index);
                                self.close(open, unit, &mut partial, found, tally);
                            }
                            None => {
                                let message = format!(
                                    "`{name})` closes a bracket that was not opened; add `({name}` to the first word, or delete it"
                                );
                                corpus.error(unit.line, message);
                                valid = false;
                            }
                        }
                    }
                }
            }
        }
        for (line, _) in partial.into_values() {
            tally.add(line, note::CROSSES_SENTENCE);
        }
        for open in &mut self.open {
            open.start = None;
        }
        valid
    }

    /// Adds a mention that ends with a unit.
    fn close(
        &self,
        open: Open<'a>,
        unit: &Unit,
        partial: &mut Partial<'a>,
        found: &mut Vec<Found>,
        tally: &mut Tally,
    ) {
        let mention = open.mention;
        let Some(start) = open.start else {
            return tally.add(unit.line, note::CROSSES_SENTENCE);
        };
        if mention.label.is_empty() {
            return tally.add(open.line, note::NO_TYPE);
        }
        let part = (start, unit.end);
        let mut parts = vec![part];
        if let Some((_, total)) = mention.part {
            let key = (mention.group.unwrap_or(mention.label), total);
            let (_, known) = partial.entry(key).or_insert((open.line, Vec::new()));
            known.push(part);
            if known.len() < total {
                return;
            }
            parts = std::mem::take(known);
            partial.remove(&key);
        }
        parts.retain(|(start, end)| start < end);
        parts.sort();
        if parts.is_empty() {
            return tally.add(open.line, note::NO_WORDS);
        }
        found.push(Found {
            parts,
            label: mention.label.to_string(),
            line: open.line,
        });
    }
}
