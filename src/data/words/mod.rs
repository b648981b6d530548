//! Splitting a text into words.
//!
//! A word is a run of letters, marks, digits and connectors (`\w+`), or one other visible character. Every Chinese
//! character is a word, as character-based models require, and an emoji is one word together with its modifiers and
//! joined parts. Offsets count characters.

pub mod choice;

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use strum::VariantNames;

use super::format::unknown_name;
use crate::error::Error;
use crate::text::{CharacterIndex, Entity, Misaligned, Sentence, Word};

/// Word segmentation of a text: which scripts are split into single characters.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::EnumIter,
    strum::VariantNames,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(
    serialize_all = "snake_case",
    parse_err_ty = Error,
    parse_err_fn = unknown_segmentation
)]
pub enum Segmentation {
    /// None: a run of letters is one word in all scripts.
    Words,
    /// Han characters.
    #[default]
    Han,
    /// All scripts written without spaces: Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar.
    Cjk,
}

impl Segmentation {
    /// The pattern of a word.
    fn pattern(self) -> &'static Regex {
        static WORDS: LazyLock<Regex> = LazyLock::new(|| word_pattern(""));
        static HAN: LazyLock<Regex> = LazyLock::new(|| word_pattern(r"\p{Han}"));
        static CJK: LazyLock<Regex> = LazyLock::new(|| {
            word_pattern(r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}")
        });
        match self {
            Segmentation::Words => &WORDS,
            Segmentation::Han => &HAN,
            Segmentation::Cjk => &CJK,
        }
    }
}

fn unknown_segmentation(name: &str) -> Error {
    unknown_name("segmentation", name, Segmentation::VARIANTS)
}

/// The pattern of a word. `single` is the class of characters that are words of their own.
fn word_pattern(single: &str) -> Regex {
    // A pictograph or a joined sequence of pictographs, a flag (two regional indicators), or a keycap.
    let part = r"\p{Extended_Pictographic}[\x{FE0F}\p{Emoji_Modifier}\x{E0020}-\x{E007F}]*";
    let emoji = format!(
        r"{part}(?:\x{{200D}}{part})*|[\x{{1F1E6}}-\x{{1F1FF}}]{{2}}|[0-9#*]\x{{FE0F}}?\x{{20E3}}"
    );
    let run = if single.is_empty() {
        r"\w+".to_string()
    } else {
        // Marks that follow a character belong to it and never start a word.
        format!(r"[{single}&&\w]\p{{M}}*|[\w--[{single}]]+")
    };
    let pattern = format!(r"{emoji}|{run}|[^\w\s]\p{{M}}*");
    Regex::new(&pattern).expect("the pattern is fixed and tested")
}

/// Splits a text into words, with each Han character as a word.
pub fn split(text: &str) -> Vec<Word> {
    split_with(text, Segmentation::default())
}

/// Splits a text into words with the given segmentation.
pub fn split_with(text: &str, segmentation: Segmentation) -> Vec<Word> {
    let (mut byte, mut characters) = (0, 0);
    segmentation
        .pattern()
        .find_iter(text)
        .map(|found| {
            let start = characters + text[byte..found.start()].chars().count();
            let end = start + found.as_str().chars().count();
            (byte, characters) = (found.end(), end);
            Word {
                text: found.as_str().to_string(),
                start,
                end,
            }
        })
        .collect()
}

/// A sentence without annotations from a text.
pub fn sentence(text: &str, segmentation: Segmentation) -> Sentence {
    Sentence {
        text: text.to_string(),
        words: split_with(text, segmentation),
        ..Sentence::default()
    }
}

/// Splits the text of a sentence into words again, by a rule. Entities keep their characters; returns those of which the rule
/// makes no whole words, which are misaligned then. Parts of speech belong to the old words and are removed.
pub(crate) fn split_again(sentence: &mut Sentence, segmentation: Segmentation) -> Vec<Misaligned> {
    let entities = std::mem::take(&mut sentence.entities);
    let mut annotations: Vec<Misaligned> = std::mem::take(&mut sentence.misaligned);
    let old = annotations.clone();
    annotations.extend(entities.into_iter().map(|entity| {
        let (start, end) = sentence.characters(entity.span);
        let label = entity.label;
        Misaligned { start, end, label }
    }));
    sentence.words = split_with(&sentence.text, segmentation);
    sentence.pos = None;
    for annotation in annotations {
        match sentence.span_of(annotation.start, annotation.end) {
            Some(span) => {
                let label = annotation.label;
                sentence.entities.push(Entity { span, label });
            }
            None => sentence.misaligned.push(annotation),
        }
    }
    sentence.entities.sort();
    let is_new = |one: &&Misaligned| !old.contains(one);
    sentence.misaligned.iter().filter(is_new).cloned().collect()
}

/// A sentence from a text and its words. `None` unless the text is the words in this order with only white space between
/// them.
pub(crate) fn align(text: &str, words: &[&str]) -> Option<Sentence> {
    let (mut rest, mut characters) = (text, 0);
    let mut aligned = Vec::with_capacity(words.len());
    for word in words {
        // One character at a time, because a word may itself be white space that is not ASCII.
        while !rest.starts_with(word) {
            let space = rest.chars().next().filter(|next| next.is_whitespace())?;
            rest = &rest[space.len_utf8()..];
            characters += 1;
        }
        rest = &rest[word.len()..];
        let end = characters + word.chars().count();
        aligned.push(Word {
            text: (*word).to_string(),
            start: characters,
            end,
        });
        characters = end;
    }
    rest.trim().is_empty().then(|| Sentence {
        text: text.to_string(),
        words: aligned,
        ..Sentence::default()
    })
}

/// A sentence from a text, its words and the offsets of their first characters, separated by spaces. The text may have more
/// than the words. `None` unless each word is where its offset says, after the word before.
pub(crate) fn align_at(text: &str, words: &[&str], starts: &str) -> Option<Sentence> {
    let index = CharacterIndex::new(text);
    let mut starts = starts.split_ascii_whitespace();
    let mut aligned: Vec<Word> = Vec::with_capacity(words.len());
    for word in words {
        let start: usize = starts.next()?.parse().ok()?;
        let end = start.checked_add(word.chars().count())?;
        let is_after = aligned.last().is_none_or(|last| last.end <= start);
        if !is_after || index.get(start, end) != Some(*word) {
            return None;
        }
        aligned.push(Word {
            text: (*word).to_string(),
            start,
            end,
        });
    }
    starts.next().is_none().then(|| Sentence {
        text: text.to_string(),
        words: aligned,
        ..Sentence::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Span;
    use crate::text::slice;
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    fn texts(text: &str, segmentation: Segmentation) -> Vec<String> {
        let words = split_with(text, segmentation);
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_separated_from_punctuation() {
        assert_eq!(
            texts("NF-kappa B (p65), 1,458 nt.", Segmentation::Han),
            [
                "NF", "-", "kappa", "B", "(", "p65", ")", ",", "1", ",", "458", "nt", "."
            ]
        );
        assert!(split("").is_empty() && split(" \t\u{3000}\u{a0}").is_empty());
    }

    #[test]
    fn segmentation_decides_which_scripts_are_split() {
        let text = "我在Tokyoのカフェ";
        assert_eq!(texts(text, Segmentation::Words), [text]);
        assert_eq!(
            texts(text, Segmentation::Han),
            ["我", "在", "Tokyoのカフェ"]
        );
        assert_eq!(
            texts(text, Segmentation::Cjk),
            ["我", "在", "Tokyo", "の", "カ", "フ", "ェ"]
        );
        assert_eq!(texts("ภาษา", Segmentation::Cjk).len(), 4);
        assert_eq!(texts("กำที่", Segmentation::Words), ["กำที่"]);
    }

    #[test]
    fn an_emoji_is_one_word() {
        let text = "👩‍🔬👍🏽🇩🇪1️⃣❤️‍🔥🏴󠁧󠁢󠁥󠁮󠁧󠁿!";
        assert_eq!(
            texts(text, Segmentation::Han),
            ["👩‍🔬", "👍🏽", "🇩🇪", "1️⃣", "❤️‍🔥", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "!"]
        );
    }

    #[test]
    fn combining_marks_belong_to_their_letter() {
        assert_eq!(
            texts("Zoe\u{308} שָׁלוֹם", Segmentation::Han),
            ["Zoe\u{308}", "שָׁלוֹם"]
        );
    }

    #[test]
    fn words_align_to_their_text() {
        let sentence = align(" Das ist\u{3000}gut.", &["Das", "ist", "gut", "."]).unwrap();
        assert_eq!(sentence.words[2].start, 9);
        assert!(align("Das ist", &["Das"]).is_none());
        assert!(align("du pain", &["de", "le", "pain"]).is_none());
        assert!(align("x", &["", "x"]).is_some());
        // Texts with more than the words, and offsets that cannot be.
        let sentence = align_at("Maria 唱 sings.", &["Maria", "sings", "."], "0 8 13").unwrap();
        assert_eq!((sentence.words[1].start, sentence.words[1].end), (8, 13));
        for starts in [
            "",
            "0 8",
            "0 8 13 14",
            "0 7 13",
            "8 0 13",
            "0 8 x",
            "0 8 -1",
            "0 8 18446744073709551615",
        ] {
            assert!(
                align_at("Maria 唱 sings.", &["Maria", "sings", "."], starts).is_none(),
                "{starts}"
            );
        }
        assert!(
            align_at("aa", &["a", "a"], "0 0").is_none()
                && align_at("aa", &["a", "a"], "0 1").is_some()
        );
    }

    #[test]
    fn a_long_text_takes_linear_time() {
        let text = "naïve 北京 ".repeat(200_000);
        assert_eq!(split(&text).len(), 600_000);
    }

    proptest! {
        #[test]
        fn words_are_slices_in_order(text in any::<String>(), which in 0..3usize) {
            let words = split_with(&text, Segmentation::iter().nth(which).unwrap());
            let mut end = 0;
            for word in &words {
                prop_assert_eq!(slice(&text, word.start, word.end), &word.text);
                prop_assert!(word.start >= end && word.start < word.end);
                end = word.end;
            }
            let visible: String = text.split_whitespace().collect();
            let kept: String = words.iter().map(|word| word.text.as_str()).collect();
            prop_assert_eq!(kept, visible);
        }
    }

    #[test]
    fn splitting_again_keeps_the_characters_of_entities() {
        let mut sentence = align(
            "北京大学 in Lindholm-Ost",
            &["北京大学", "in", "Lindholm-Ost"],
        )
        .unwrap();
        let entity = |start, end, label: &str| Entity {
            span: Span::new(start, end),
            label: label.into(),
        };
        sentence.entities = vec![entity(0, 1, "ORG"), entity(2, 3, "LOC")];
        sentence.pos = Some(["NR", "IN", "NR"].map(String::from).to_vec());
        // An entity within a word of the file.
        let inner = Misaligned {
            start: 0,
            end: 2,
            label: "LOC".into(),
        };
        sentence.misaligned = vec![inner.clone()];
        let mut by_han = sentence.clone();
        assert!(split_again(&mut by_han, Segmentation::Han).is_empty());
        let words: Vec<&str> = by_han.words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(
            words,
            ["北", "京", "大", "学", "in", "Lindholm", "-", "Ost"]
        );
        let expected = [
            entity(0, 2, "LOC"),
            entity(0, 4, "ORG"),
            entity(5, 8, "LOC"),
        ];
        assert_eq!(by_han.entities, expected);
        assert!(by_han.misaligned.is_empty() && by_han.pos.is_none());

        // A rule whose words are longer than an entity.
        let mut by_words = by_han;
        let lost = split_again(&mut by_words, Segmentation::Words);
        assert_eq!(lost, [inner]);
        assert_eq!((by_words.entities.len(), &by_words.misaligned), (2, &lost));
    }
}
