//! Deciding whether a sentence ends at a terminator or at a line break.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Match, Regex};

use super::abbreviations::{StopAfter, is_ordinal, is_starter, stop_after};
use super::marks::{
    HEADING, floor, is_blank, is_cjk, is_ending, is_heading, is_line_break, is_mark, is_roman,
    is_ruler, is_short_number, is_terminator, reference_mark,
};

/// Characters that a decision looks back or ahead at most.
const SIGHT: usize = 32;

/// Brackets and quotes that close, in every language.
const CLOSING: &str = ")]}〕】》」』〉〗〙〛）］｝｣»›”’＂＇*_";

/// Quotes that close in some languages and open in others. The straight ones are in this list, too.
const EITHER: &str = "“‘«‹\"'";

/// What may stand before the first letter of a sentence.
const OPENING: &str = "([{〔【《「『〈〖〘〚（［｛｢«‹»›“”„‟‘’‚\"'*_¿¡#•-–—";

/// Characters after which, following a terminator, the sentence goes on.
const CONTINUING: &str = ",;:-–—、，；：﹐،؛";

/// Characters that no abbreviation contains.
const DELIMITERS: &str =
    "()[]{}〔〕【】《》「」『』〈〉（）［］«»‹›“”„‟‘‚\"*_,;:!?/\\=<>|@&+%$…。、¿¡–—";

/// Hiragana that follow a quotation within a sentence: particles.
const PARTICLES: &str = "とっやのはがをにもでなかへよね";

/// A text that is being cut.
pub(super) struct Cutter<'a> {
    text: &'a str,
    /// The first character that is not white space.
    visible: usize,
    /// Starts of the sentences so far; the last is the sentence being read.
    pub starts: Vec<usize>,
    /// Start of the line being read.
    line: usize,
}

/// The word before a terminator.
struct Before<'a> {
    word: &'a str,
    start: usize,
}

/// The start of what follows a terminator.
struct After<'a> {
    /// The first character after opening quotes and brackets.
    first: char,
    /// The word that it starts.
    word: &'a str,
    /// Whether white space follows the word.
    is_whole: bool,
}

impl<'a> Cutter<'a> {
    /// A text of which nothing is cut yet.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            visible: text.len() - text.trim_start().len(),
            starts: vec![0],
            line: 0,
        }
    }

    fn start(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Starts a sentence at a position.
    fn cut(&mut self, at: usize) {
        if at > self.start() && at > self.visible && at < self.text.len() {
            self.starts.push(at);
        }
    }

    /// Decides about a run of terminators.
    pub fn terminators(&mut self, found: Match<'_>) {
        let end = self.after_closing(found.end(), found.as_str());
        let rest = &self.text[end..];
        let next = end + (rest.len() - rest.trim_start().len());
        let Some(character) = self.text[next..].chars().next() else {
            return;
        };
        if CONTINUING.contains(character) || is_terminator(character) {
            return;
        }
        let has_closing = end > found.end();
        let ends = if next == end {
            self.ends_without_space(found, has_closing, character)
        } else {
            self.ends_before_space(found, next)
        };
        if ends {
            self.cut(next);
        }
    }

    /// Whether a sentence ends at terminators that are directly followed by `next`.
    fn ends_without_space(&self, found: Match<'_>, has_closing: bool, next: char) -> bool {
        let is_wide = |character: char| !character.is_ascii() && is_ending(character);
        if found.as_str().chars().any(is_wide) {
            return !(has_closing && PARTICLES.contains(next));
        }
        match found.as_str().chars().last() {
            // In texts of Chinese and Japanese the marks of ASCII are used, too.
            Some('!' | '?') => is_cjk(next) && !(has_closing && PARTICLES.contains(next)),
            Some('．') => is_cjk(next) && !self.text[..found.start()].ends_with(char::is_numeric),
            _ => false,
        }
    }

    /// Whether a sentence ends at terminators that are followed by white space; `next` is where it ends.
    fn ends_before_space(&self, found: Match<'_>, next: usize) -> bool {
        let Some(after) = self.following(next) else {
            return true;
        };
        if after.first.is_lowercase() {
            return false;
        }
        let terminators = found.as_str();
        if terminators.chars().any(is_ending) {
            return true;
        }
        let before = self.preceding(found.start());
        let follows_number = before.word.ends_with(char::is_numeric);
        if terminators.chars().count() > 1 || terminators.contains(['…', '‥']) {
            return !(follows_number && after.first.is_numeric());
        }
        // `P = .05` in a text cut into words.
        let is_fraction = before.word.is_empty() && after.first.is_numeric();
        if is_fraction || self.is_enumeration(&before) {
            return false;
        }
        if follows_number && is_short_number(before.word) {
            let earlier = self.preceding(before.start).word;
            return !(after.first.is_numeric() || is_ordinal(earlier, after.word));
        }
        let is_starter = after.is_whole && is_starter(after.word);
        match stop_after(before.word) {
            StopAfter::Ends => true,
            StopAfter::Continues => false,
            StopAfter::EndsBeforeStarter => is_starter,
            // `No. I will`, but `Vol. I`.
            StopAfter::EndsUnlessNumber => {
                !is_number_like(&after) || (is_starter && before.word.eq_ignore_ascii_case("no"))
            }
        }
    }

    /// The end of the closing quotes, brackets and reference marks after terminators.
    fn after_closing(&self, mut at: usize, terminators: &str) -> usize {
        let is_wide = terminators
            .chars()
            .any(|one| !one.is_ascii() && is_ending(one));
        loop {
            let rest = &self.text[at..];
            let mut characters = rest.chars();
            let Some(first) = characters.next() else {
                return at;
            };
            let second = characters.next();
            let is_last = second.is_none_or(|second| {
                second.is_whitespace()
                    || CLOSING.contains(second)
                    || EITHER.contains(second)
                    || is_terminator(second)
                    || CONTINUING.contains(second)
            });
            let is_closing = is_mark(first)
                || CLOSING.contains(first)
                || (EITHER.contains(first) && (is_last || (is_wide && self.closes(at, first))));
            if is_closing {
                at += first.len_utf8();
            } else if first == '[' && reference_mark(rest) > 0 {
                at += reference_mark(rest);
            } else if let (true, Some(closing)) =
                (first.is_whitespace() && !is_line_break(first), second)
            {
                // In French, and in texts cut into words, closing marks have a space before them.
                let third = characters.next();
                let is_alone = third.is_none_or(char::is_whitespace)
                    || (closing == '\'' && third == Some('\''));
                let is_bracket = CLOSING.contains(closing) && !"*_".contains(closing);
                let closes = is_bracket || closing == '\'' || self.closes(at, closing);
                if !(is_alone && closes) {
                    return at;
                }
                at += first.len_utf8() + closing.len_utf8();
            } else {
                return at;
            }
        }
    }

    /// Whether a straight quote at a position closes a quotation: if an odd number of them is before it in the sentence.
    fn closes(&self, at: usize, quote: char) -> bool {
        let from = floor(self.text, at.saturating_sub(20 * SIGHT)).max(self.start());
        quote == '"' && self.text[from..at].matches('"').count() % 2 == 1
    }

    /// The word before a position. In texts cut into words, white space may be between them.
    fn preceding(&self, at: usize) -> Before<'a> {
        let text = &self.text[floor(self.text, at.saturating_sub(4 * SIGHT))..at];
        let trimmed = text.trim_end();
        let word = trimmed
            .rsplit(char::is_whitespace)
            .next()
            .unwrap_or_default();
        // Without brackets and quotes, also those within: `(J`, `al.,[5`.
        let inside = word.rfind(|character: char| DELIMITERS.contains(character));
        let from = inside.map_or(0, |byte| {
            byte + word[byte..].chars().next().map_or(0, char::len_utf8)
        });
        let word = word[from..].trim_start_matches(['.', '-', '\'', '’']);
        Before {
            word,
            start: at - (text.len() - trimmed.len()) - word.len(),
        }
    }

    /// What follows at a position; `None` if no letter, digit or symbol is near.
    fn following(&self, at: usize) -> Option<After<'a>> {
        let rest = &self.text[at..];
        let near = &rest[..floor(rest, 4 * SIGHT)];
        let skipped = near.trim_start_matches(|character: char| {
            OPENING.contains(character) || is_mark(character) || character == ' '
        });
        let first = skipped.chars().next()?;
        let end =
            skipped.find(|character: char| !character.is_alphanumeric() && !is_mark(character));
        let word = &skipped[..end.unwrap_or(skipped.len())];
        let then = skipped[word.len()..].chars().next();
        Some(After {
            first,
            word,
            is_whole: then.is_none_or(|then| {
                then.is_whitespace() || then == ',' || then == '\'' || then == '’'
            }),
        })
    }

    /// Whether a word is the number or letter of a list item: it starts its sentence or its line.
    fn is_enumeration(&self, before: &Before<'_>) -> bool {
        let from = self.start().max(self.line);
        let starts = before.start >= from
            && before.start - from <= 4 * SIGHT
            && (self.text[from..before.start].chars())
                .all(|character| character.is_whitespace() || OPENING.contains(character));
        let is_letter =
            before.word.chars().count() == 1 && before.word.chars().all(char::is_alphabetic);
        starts && (is_letter || is_short_number(before.word) || is_roman(before.word))
    }

    /// Decides about white space with a line break in it.
    pub fn line_break(&mut self, space: Range<usize>) {
        if self.start() >= space.end {
            self.line = space.end;
            return;
        }
        let from = self.line.max(self.start());
        let line = self.text[from..space.start].trim();
        let is_first = self.line <= self.start() || from == self.visible;
        let is_cut = is_blank(&self.text[space.clone()])
            || self.is_item(space.end, space.start)
            || is_ruler(line)
            || is_ruler(self.line_at(space.end))
            || (is_first
                && is_heading(line)
                && !self.text[space.end..].starts_with(char::is_lowercase));
        self.line = space.end;
        if is_cut {
            self.cut(space.end);
        }
    }

    /// The first characters of a line.
    fn line_at(&self, at: usize) -> &'a str {
        let rest = &self.text[at..];
        let near = &rest[..floor(rest, HEADING)];
        near.split(is_line_break).next().unwrap_or_default()
    }

    /// Whether a list item starts at a line's start. A number is one only if the text before it, which ends at `end`, is
    /// finished, or starts with a number itself: lines of running text may start with any number.
    fn is_item(&self, at: usize, end: usize) -> bool {
        static BULLET: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"^(?:[-*+–—•‣◦▪●○■□·∙►➤✓✔]\s|[#]{1,6}\s)"));
        static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r"^\(?(?:[0-9]{1,3}(?:\.[0-9]{1,3})*|[ivx]{2,5})[.)]\s|^\(?[a-z]\)\s")
        });
        let line = self.line_at(at);
        if BULLET.is_match(line) {
            return true;
        }
        let before = self.text[self.line.max(self.start()).min(end)..end].trim();
        let is_finished =
            before.ends_with(|last: char| ":;)".contains(last) || is_terminator(last));
        NUMBER.is_match(line) && (is_finished || NUMBER.is_match(before))
    }
}

/// Whether what follows an abbreviation is a number, a Roman number or a single capital letter.
fn is_number_like(after: &After<'_>) -> bool {
    let is_letter = after.first.is_uppercase() && after.word.chars().count() == 1;
    is_letter || is_roman(after.word) || after.word.contains(char::is_numeric)
}

/// Compiles a pattern.
pub(super) fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and tested")
}
