//! Cutting a text into sentences.
//!
//! The rules are those of Unicode's sentence boundaries ([UAX #29](https://www.unicode.org/reports/tr29/)): a sentence ends
//! after a terminator of any script, with the closing quotes and brackets that follow it, and a full stop before a
//! lower-case letter ends nothing. They are mended where UAX #29 is known to be wrong:
//!
//! * abbreviations, initials, acronyms, ordinals and the numbers of list items do not end a sentence (`abbreviations.rs`);
//! * `!` and `?` before a lower-case letter do not end one (`"Stop!" he said`), nor within a word, such as a URL;
//! * terminators of Chinese, Japanese and other scripts end one without white space after them, but not before an opening
//!   quote's text or, within quotes, before a Japanese particle (`「行く。」と言った`);
//! * blank lines always end one. A single line break, which UAX #29 cuts at, ends one only after a terminator, after a line
//!   that looks like a heading (a line of capitalised words, or of symbols), and before a list item.
//!
//! The crate `unicode-segmentation` takes quadratic time on long runs of spaces or brackets. Here every decision looks at
//! a bounded number of characters, so the time is linear in the length of the text.

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

/// Byte ranges of the sentences of a text. They follow each other and cover the text; white space between sentences
/// belongs to the one before it, and at the start of the text to the first. None is empty; only a text of nothing but
/// white space has a sentence without anything visible.
///
/// ```
/// use nerzoo::data::sentence_bounds::sentence_bounds;
///
/// let text = "Dr. Ada B. Lovelace paid 3.50 francs. She left.\n\nThe end";
/// let sentences: Vec<&str> = sentence_bounds(text).into_iter().map(|range| &text[range]).collect();
/// assert_eq!(sentences, ["Dr. Ada B. Lovelace paid 3.50 francs. ", "She left.\n\n", "The end"]);
/// ```
pub fn sentence_bounds(text: &str) -> Vec<Range<usize>> {
    static TERMINATORS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"[\p{sb=STerm}\p{sb=ATerm}…‥]+"));
    static LINE_BREAKS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\s*[\n\r\x0b\x0c\x{85}\x{2028}\x{2029}]\s*"));
    if text.is_empty() {
        return Vec::new();
    }
    let mut cutter = Cutter {
        text,
        visible: text.len() - text.trim_start().len(),
        starts: vec![0],
        line: 0,
    };
    let mut lines = LINE_BREAKS.find_iter(text).peekable();
    for terminators in TERMINATORS.find_iter(text) {
        while let Some(line) = lines.next_if(|line| line.start() < terminators.start()) {
            cutter.line_break(line.range());
        }
        cutter.terminators(terminators);
    }
    for line in lines {
        cutter.line_break(line.range());
    }
    let ends = cutter.starts[1..].iter().copied().chain([text.len()]);
    cutter
        .starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is fixed and tested")
}

/// A text that is being cut.
struct Cutter<'a> {
    text: &'a str,
    /// The first character that is not white space.
    visible: usize,
    /// Starts of the sentences so far; the last is the sentence being read.
    starts: Vec<usize>,
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
    fn terminators(&mut self, found: Match<'_>) {
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
    fn line_break(&mut self, space: Range<usize>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts with `|` where a sentence starts.
    const EXAMPLES: &[&str] = &[
        // Abbreviations, initials, acronyms.
        "Dr. Smith met Mrs. Jones. |They left.",
        "See Fig. 3 and Eq. 5. |Then stop.",
        "Figs. S1 and S2 show it. |Next.",
        "No. 5 is alive. |No. |That is wrong.",
        "No. |I will not.",
        "We used e.g. Burn, i.e. a crate. |It works.",
        "He lives in the U.S. with her. |The U.S. Army left the U.S. |It was late.",
        "J. R. R. Tolkien wrote it. |C. S. Lewis read it.",
        "Smith et al. (2003) agree. |Smith et al. |The others do not.",
        "He works for Acme Inc. in Paris. |He is paid by Acme Inc. |She is not.",
        "Apples, pears, etc. are fruit. |Apples, pears, etc. |They are good.",
        "It starts at 5 p.m. on Monday. |It ends at 6 p.m. |We leave.",
        "George W. Bush met Vitamin C. |The end.",
        "Meet me at 12 Main St. |We leave.",
        "St. Louis vs. Chicago was fun. |Vol. II is out.",
        "He has a Ph.D. from Oxford. |Good.",
        "The Bldg. is new. |Call Tel. 555.",
        // Numbers.
        "It costs 3.14 or .5 francs. |Pay 1.000,50 now.",
        "It was 1999. |5 people came.",
        "He was born on May 3. |The party was big.",
        "Version 1.2.3. is out. |Get it.",
        "1. Introduction\n|2. Methods of work",
        "Items:\n|1. First one.\n|2. Second one.\n|3. Third",
        "Items:\n|- one\n|- two\n|• three",
        "a) one thing\n|b) another thing",
        "We counted from 1 ... 5 in all. |Then stop.",
        // Ellipses, quotes, brackets.
        "Well... |I do not know. |Wait… |What? |Yes... but no.",
        "Well . . . maybe. |Yes.",
        "\"Stop!\" he said. |\"Why?\" asked Tom.",
        "He said \"Go.\" |She went.",
        "„Komm her.“ |Er ging.",
        "»Komm her.« |Er ging. |»Warte!«",
        "« Ça va ? » |Oui. |« Bon ! » dit-elle.",
        "It ended (at last.) |Then we left. |(It was late.) |All slept.",
        "It was shown.[12] |Others disagree.[3][4] |Good.",
        "He left . '' |She said '' Yes . '' |Then .",
        "What?! |No!!! |Really?",
        "Yahoo! is a firm. |Wow! |Great.",
        "**Bold.** |Next one.",
        // URLs and addresses.
        "Go to https://example.com/a.b?c=D.E!f now. |Or write to a.b@example.com. |Thanks.",
        "Use std.io. |It is fine.",
        // Lines.
        "One line\nof a wrapped text by New\nYork. |Next\nline.",
        "A paragraph\n\n|another one\r\n\r\n|and a third",
        "Results and Discussion\n|We found it.",
        "INTRODUCTION\n|It was late\nin May.",
        "Title\n|=====\n|text here",
        "# Heading\n|Text. |More.\n|## Next\n|Text",
        "He wrote it for\nA. Smith in\n12. May of that year.",
        "page one\x0c|page two",
        // German and other European languages.
        "Am 3. Oktober 1990 war es so. |Der 2. Weltkrieg endete 1945. |Gut.",
        "Das gilt z.B. für Äpfel, d.h. immer. |Vgl. S. 12 ff. |Danach nicht.",
        "M. Dupont et Mme Durand sont là. |Le Dr. Petit aussi.",
        "El Sr. Pérez vive en EE.UU. desde 1990. |¿Qué pasa? |¡Nada!",
        "Мы живём на ул. Ленина, т.е. рядом. |А. С. Пушкин жил в г. Москве. |Да!",
        "Το βιβλίο είναι εδώ. |Πού είναι;",
        // Other scripts.
        "我在北京。|你呢？|「好。」|他走了。",
        "他说：“走吧。”|然后走了！|“好的。”",
        "他说。|\"你好。\"|我走。",
        "「行くの？」と彼は言った。|東京です。|本当！？|はい",
        "真的?|我不信。",
        "这是３．５元．|好",
        "यह एक वाक्य है। |यह दूसरा है॥ |डॉ. शर्मा आए।",
        "أين أنت؟ |أنا هنا. |التقى د. أحمد به.",
        "یہ اردو ہے۔ |ٹھیک ہے۔",
        "אני כאן. |איפה אתה?",
        "Բարեւ։ |Ինչպես ես։",
        "ይህ አማርኛ ነው። |ደህና።",
        // Emoji and marks.
        "Great! |😀 Next.",
        "It was so ( P = . 05 ) . |\" Yes , \" she said . |\" It was . \" |All agreed .",
        "  Leading space. |Next.  ",
        "...",
        "\n\n",
        "x",
    ];

    fn pieces(text: &str) -> Vec<&str> {
        let ranges = sentence_bounds(text);
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn sentences_of_many_kinds() {
        let mut wrong = Vec::new();
        for example in EXAMPLES {
            let text = example.replace('|', "");
            let found = pieces(&text).join("|");
            if found != *example {
                wrong.push(format!("expected {example:?}\n   found {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// On ordinary text the bounds are those of UAX #29.
    #[test]
    fn plain_text_is_cut_as_by_unicode() {
        use unicode_segmentation::UnicodeSegmentation;
        for text in [
            "The cat sat. It was happy! Was it? Yes (it was.) The end.",
            "Die Katze saß da. Sie war froh. \u{201e}Gut.\u{201c} Ende.",
            "我在北京。你呢？好！",
            "यह एक वाक्य है। यह दूसरा है।",
            "أين أنت؟ أنا هنا. نعم.",
            "Это дом. Он большой... и старый. Да!",
        ] {
            let expected: Vec<&str> = text.split_sentence_bounds().collect();
            assert_eq!(pieces(text), expected);
        }
    }

    #[test]
    fn time_is_linear() {
        let size = 3_000_000;
        for unit in [
            "The U.S. Army paid 3.50 to Dr. J. Smith. \"Why?\" she said.\n",
            ". ",
            " ",
            ".",
            ".)",
            "\n",
            "a",
            "? (",
            "。\"と",
            "[1].",
            "A\n",
            "1. ",
            "! '",
            "… ",
            "\r\n.",
            "é́",
            "- ",
            "。」",
            ".\u{a0}",
        ] {
            let text = unit.repeat(size / 10 / unit.len());
            let start = std::time::Instant::now();
            let ranges = sentence_bounds(&text);
            assert_eq!(ranges.last().map(|last| last.end), Some(text.len()));
            // Quadratic time would take hours.
            assert!(
                start.elapsed().as_secs() < 20,
                "{unit:?} {:?}",
                start.elapsed()
            );
        }
        let text = format!(".{}x", " ".repeat(size / 10));
        assert_eq!(sentence_bounds(&text).len(), 1);
    }

    fn check(text: &str) -> Result<(), TestCaseError> {
        let found = pieces(text);
        prop_assert_eq!(found.concat(), text);
        let is_visible = !text.trim().is_empty();
        prop_assert!(
            found
                .iter()
                .all(|piece| !piece.is_empty() && (!is_visible || !piece.trim().is_empty()))
        );
        prop_assert_eq!(found, pieces(text));
        Ok(())
    }

    proptest! {
        #[test]
        fn pieces_joined_are_the_text(text in any::<String>()) {
            check(&text)?;
        }

        #[test]
        fn pieces_of_texts_with_punctuation_joined_are_the_text(
            parts in prop::collection::vec(prop_oneof![
                "[a-zA-Z0-9]{0,4}", "[.!?…。？！।؟]{1,3}", "[ \\n\\r\\t\u{a0}\u{2029}]{1,3}", "[\"'“”«»()\\[\\]「」]{1,2}",
                "(Dr|U\\.S|No|e\\.g|1|II|J)\\.", "[北京のと👩‍🔬é]{1,2}", "(- |• |# |1\\. |a\\) )", "\\PC{0,3}",
            ], 0..24),
        ) {
            check(&parts.concat())?;
        }
    }
}
