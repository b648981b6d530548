//! Cutting a text into sentences.
//!
//! The rules are those of Unicode's sentence boundaries ([UAX #29](https://www.unicode.org/reports/tr29/)): a sentence ends
//! after a terminator of any script, with the closing quotes and brackets that follow it, and a full stop before a
//! lower-case letter ends nothing. They differ where UAX #29 is known to be wrong:
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

use regex::Regex;

use super::cutter::{Cutter, pattern};

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
    let mut cutter = Cutter::new(text);
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
