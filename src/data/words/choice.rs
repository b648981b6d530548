//! Choosing how texts are split into words, so that they look to a model like its training data.

use std::borrow::Cow;
use std::collections::HashSet;

use strum::IntoEnumIterator;

use super::{Segmentation, split_with};
use crate::text::{Sentence, Word};

/// Largest number of sentences that are compared.
const COMPARED: usize = 20_000;

/// The segmentation that agrees best with the words of a corpus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentationChoice {
    /// The segmentation.
    pub segmentation: Segmentation,
    /// Share of the corpus's words that are words of this segmentation, too.
    pub agreement: f64,
    /// Whether the corpus has texts with their own spacing. If not, its words are joined with a space between them, but
    /// without one in scripts that have none.
    pub has_texts: bool,
}

impl std::fmt::Display for SegmentationChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = 100.0 * self.agreement;
        let rest = if self.has_texts {
            ""
        } else {
            " when they are joined by spaces, as the corpus has no texts"
        };
        write!(
            f,
            "texts are split into words by the rule `{}`; {percent:.1} % of the words of the training data are words by it{rest}",
            self.segmentation
        )
    }
}

/// Compares the words of a corpus with those of every segmentation. Of equally good ones, `preferred` is chosen, which is
/// how the corpus was read, or else the default.
pub fn choose(sentences: &[Sentence], preferred: Option<Segmentation>) -> SegmentationChoice {
    let has_texts = |sentence: &&Sentence| !is_joined(sentence);
    let with_texts: Vec<&Sentence> = sentences.iter().filter(has_texts).collect();
    let has_texts = !with_texts.is_empty();
    let compared = if has_texts {
        with_texts
    } else {
        sentences.iter().collect()
    };
    let step = compared.len().div_ceil(COMPARED).max(1);
    let compared: Vec<(Cow<'_, str>, Cow<'_, [Word]>)> = compared
        .into_iter()
        .step_by(step)
        .map(|sentence| {
            if has_texts {
                own_text(sentence)
            } else {
                joined_by_script(sentence)
            }
        })
        .collect();
    let total: usize = compared.iter().map(|(_, words)| words.len()).sum();
    let agreement = |segmentation: Segmentation| {
        let equal = compared
            .iter()
            .map(|(text, words)| equal_words(text, words, segmentation));
        equal.sum::<usize>() as f64 / total.max(1) as f64
    };
    let preferred = preferred.unwrap_or_default();
    let others = Segmentation::iter().filter(|other| *other != preferred);
    let mut best = (preferred, agreement(preferred));
    for other in others {
        let found = agreement(other);
        if found > best.1 {
            best = (other, found);
        }
    }
    SegmentationChoice {
        segmentation: best.0,
        agreement: if total == 0 { 1.0 } else { best.1 },
        has_texts,
    }
}

fn own_text(sentence: &Sentence) -> (Cow<'_, str>, Cow<'_, [Word]>) {
    (
        Cow::Borrowed(&sentence.text),
        Cow::Borrowed(&sentence.words),
    )
}

/// Whether the text is the words with single spaces between them: the spacing of the original text is unknown.
fn is_joined(sentence: &Sentence) -> bool {
    let mut end = None;
    sentence.words.iter().all(|word| {
        let start = end.map_or(0, |end: usize| end + 1);
        end = Some(word.end);
        word.start == start
    })
}

/// The words joined by spaces, but not between two characters of scripts that are written without spaces.
fn joined_by_script(sentence: &Sentence) -> (Cow<'_, str>, Cow<'_, [Word]>) {
    let mut text = String::with_capacity(sentence.text.len());
    let mut words: Vec<Word> = Vec::with_capacity(sentence.len());
    let mut characters = 0;
    for word in &sentence.words {
        let is_close = text.ends_with(is_unspaced) && word.text.starts_with(is_unspaced);
        if !text.is_empty() && !is_close {
            text.push(' ');
            characters += 1;
        }
        text += &word.text;
        let start = characters;
        characters += word.end - word.start;
        words.push(Word {
            text: word.text.clone(),
            start,
            end: characters,
        });
    }
    (Cow::Owned(text), Cow::Owned(words))
}

/// Whether a character belongs to a script that is written without spaces, or to its punctuation.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3000}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{323af}')
}

/// Number of words that the segmentation cuts equally.
fn equal_words(text: &str, words: &[Word], segmentation: Segmentation) -> usize {
    let found = split_with(text, segmentation);
    let found: HashSet<(usize, usize)> = found.iter().map(|word| (word.start, word.end)).collect();
    words
        .iter()
        .filter(|word| found.contains(&(word.start, word.end)))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words::{align, sentence};

    #[test]
    fn texts_split_by_a_rule_give_that_rule() {
        for segmentation in Segmentation::iter() {
            let sentences = [sentence(
                "我在Tokyoのカフェ。 Anna isn't here",
                segmentation,
            )];
            let found = choose(&sentences, Some(segmentation));
            assert_eq!(
                (found.segmentation, found.agreement, found.has_texts),
                (segmentation, 1.0, true)
            );
            assert_eq!(choose(&sentences, None).segmentation, segmentation);
        }
        let english = [sentence("Anna isn't here.", Segmentation::Cjk)];
        assert_eq!(
            choose(&english, Some(Segmentation::Cjk)).segmentation,
            Segmentation::Cjk
        );
        assert_eq!(choose(&english, None).segmentation, Segmentation::Han);
    }

    #[test]
    fn a_corpus_with_its_own_words_gives_the_closest_rule() {
        let characters = [Sentence::from_words(
            "我在北京のカフェ".chars().map(String::from),
        )];
        let found = choose(&characters, None);
        assert_eq!(
            (found.segmentation, found.agreement),
            (Segmentation::Cjk, 1.0)
        );
        assert!(!found.has_texts);
        let chinese = [Sentence::from_words(["我", "在", "北京", "。"])];
        let found = choose(&chinese, None);
        assert_eq!(
            (found.segmentation, found.agreement),
            (Segmentation::Han, 0.75)
        );
        let english = [Sentence::from_words(["Anna", "is", "n't", "here", "."])];
        assert_eq!(choose(&english, None).segmentation, Segmentation::Han);
        let spaced = [align("Anna's here.", &["Anna", "'s", "here", "."]).unwrap()];
        let found = choose(&spaced, None);
        assert_eq!((found.agreement, found.has_texts), (0.75, true));
        assert!(found.to_string().contains("`han`; 75.0 %"), "{found}");
        let empty = choose(&[], None);
        assert_eq!(
            (empty.segmentation, empty.agreement),
            (Segmentation::Han, 1.0)
        );
        let thai = [Sentence::from_words(["ภาษา", "ไทย"])];
        assert_eq!(
            choose(&thai, Some(Segmentation::Words)).segmentation,
            Segmentation::Words
        );
    }
}
