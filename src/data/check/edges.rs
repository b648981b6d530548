//! Punctuation and white space at the edges of entities.

use crate::text::{Sentence, Span};

/// Punctuation that ends a part of a sentence and is never part of a name.
const SEPARATORS: [char; 9] = [',', ';', ':', '،', '؛', '、', '，', '；', '：'];
/// Ideographic punctuation that ends a sentence.
const IDEOGRAPHIC_ENDS: [char; 3] = ['。', '！', '？'];
/// Words of five letters or more that are written with a full stop; shorter ones may all be abbreviations.
const ABBREVIATIONS: [&str; 4] = ["assoc", "calif", "distr", "penna"];

/// The span without punctuation at its edges that does not belong to the entity; `None` when there is none.
///
/// Separators do not belong to it, nor do brackets and quotes without a counterpart inside it, nor the full stop of the
/// sentence. Every other character may be part of a name: `Yahoo!`, `Inc.`, `.NET`, `C#`.
pub(super) fn trimmed(sentence: &Sentence, span: Span) -> Option<Span> {
    let words = sentence.words.get(span.start..span.end)?;
    let mut texts: Vec<&str> = Vec::new();
    let is_word = |text: &str| text.contains(char::is_alphanumeric) && !is_bracket_name(text);
    // Most entities end here.
    if is_word(&words.first()?.text) && is_word(&words.last()?.text) {
        return None;
    }
    texts.extend(words.iter().map(|word| mark(&word.text)));
    if !words.iter().any(|word| is_word(&word.text)) {
        return None;
    }
    let (mut start, mut end) = (0, texts.len());
    loop {
        let inside = &texts[start..end];
        if starts_wrongly(inside) {
            start += 1;
        } else if ends_wrongly(inside)
            || (span.start + end == sentence.len() && ends_sentence(inside))
        {
            end -= 1;
        } else {
            break;
        }
    }
    let trimmed = Span::new(span.start + start, span.start + end);
    (trimmed != span && !trimmed.is_empty()).then_some(trimmed)
}

/// The words that an entity covers without the white space and separators at its edges; `None` when it still does not start
/// and end at word boundaries. `characters` are those of the sentence.
pub(super) fn aligned(
    sentence: &Sentence,
    characters: &[char],
    start: usize,
    end: usize,
) -> Option<Span> {
    let of = |(start, end)| sentence.span_of(start, end);
    let span = without(char::is_whitespace, characters, start, end).and_then(of);
    span.or_else(|| without(is_space_or_separator, characters, start, end).and_then(of))
}

/// The entity without the white space at its edges; `None` when nothing remains.
pub(super) fn without_space(
    characters: &[char],
    start: usize,
    end: usize,
) -> Option<(usize, usize)> {
    without(char::is_whitespace, characters, start, end)
}

fn without(
    is_removed: fn(char) -> bool,
    characters: &[char],
    start: usize,
    end: usize,
) -> Option<(usize, usize)> {
    let covered = characters.get(start..end)?;
    let is_kept = |character: &char| !is_removed(*character);
    let first = covered.iter().position(is_kept)?;
    let last = covered.iter().rposition(is_kept)?;
    Some((start + first, start + last + 1))
}

/// True when white space is at an edge of the entity.
pub(super) fn has_space(characters: &[char], start: usize, end: usize) -> bool {
    let is_space = |at: usize| {
        characters
            .get(at)
            .is_some_and(|character| character.is_whitespace())
    };
    start < end && (is_space(start) || is_space(end - 1))
}

fn is_space_or_separator(character: char) -> bool {
    character.is_whitespace() || SEPARATORS.contains(&character)
}

/// Names of brackets in the Penn Treebank.
fn is_bracket_name(text: &str) -> bool {
    matches!(
        text,
        "-LRB-" | "-RRB-" | "-LSB-" | "-RSB-" | "-LCB-" | "-RCB-"
    )
}

/// The punctuation that a word stands for.
fn mark(text: &str) -> &str {
    match text {
        "-LRB-" => "(",
        "-RRB-" => ")",
        "-LSB-" => "[",
        "-RSB-" => "]",
        "-LCB-" => "{",
        "-RCB-" => "}",
        "``" => "“",
        "''" => "”",
        other => other,
    }
}

/// The only character of a text.
fn single(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}

fn starts_wrongly(words: &[&str]) -> bool {
    let [first, rest @ ..] = words else {
        return false;
    };
    match single(first) {
        Some(
            ')' | ']' | '}' | '）' | '】' | '」' | '』' | '》' | '!' | '?' | '。' | '！' | '？',
        ) => true,
        Some(mark) if SEPARATORS.contains(&mark) => true,
        Some(mark) => lacks_counterpart(mark, rest),
        None => false,
    }
}

fn ends_wrongly(words: &[&str]) -> bool {
    let [rest @ .., last] = words else {
        return false;
    };
    match single(last) {
        Some('(' | '[' | '{' | '（' | '【' | '「' | '『' | '《') => true,
        Some(mark) if SEPARATORS.contains(&mark) => true,
        Some(mark) => lacks_counterpart(mark, rest),
        None => false,
    }
}

/// True for a bracket or quote whose counterpart is not among the other words of the entity.
fn lacks_counterpart(mark: char, rest: &[&str]) -> bool {
    let counterparts: &[char] = match mark {
        '(' => &[')'],
        ')' => &['('],
        '[' => &[']'],
        ']' => &['['],
        '{' => &['}'],
        '}' => &['{'],
        '（' => &['）'],
        '）' => &['（'],
        '【' => &['】'],
        '】' => &['【'],
        '「' => &['」'],
        '」' => &['「'],
        '『' => &['』'],
        '』' => &['『'],
        '《' => &['》'],
        '》' => &['《'],
        '"' => &['"'],
        '„' => &['“', '”'],
        // In German a closing quote, in English an opening one; in Swedish both are ”.
        '“' => &['„', '”'],
        '”' => &['„', '“', '”'],
        '«' => &['»'],
        '»' => &['«', '»'],
        _ => return false,
    };
    !rest.iter().any(|word| word.contains(counterparts))
}

/// True for the punctuation of the sentence after a word that is not an abbreviation.
fn ends_sentence(words: &[&str]) -> bool {
    let [.., before, last] = words else {
        return false;
    };
    if single(last).is_some_and(|mark| IDEOGRAPHIC_ENDS.contains(&mark)) {
        return true;
    }
    // `!` and `?` may be part of a name.
    let letters = before
        .chars()
        .filter(|character| character.is_alphabetic())
        .count();
    let is_long = letters >= 5 && letters == before.chars().count();
    *last == "." && is_long && !ABBREVIATIONS.contains(&before.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::words;
    use proptest::prelude::*;

    fn trim(text: &str, start: usize, end: usize) -> Option<String> {
        let sentence = Sentence::from_words(text.split(' '));
        trimmed(&sentence, Span::new(start, end)).map(|span| sentence.surface(span).to_string())
    }

    #[test]
    fn punctuation_that_does_not_belong_is_trimmed() {
        for (text, start, end, expected) in [
            ("in Paris , where", 1, 3, "Paris"),
            ("lives in Lindholm .", 2, 4, "Lindholm"),
            ("( IL-2 receptor", 0, 3, "IL-2 receptor"),
            ("IL-2 ) and", 0, 2, "IL-2"),
            ("-LRB- IL-2 ,", 0, 3, "IL-2"),
            ("\" Maria", 0, 2, "Maria"),
            ("`` Maria said", 0, 2, "Maria"),
            ("« Le Monde", 0, 3, "Le Monde"),
            ("住 在 北 京 。", 2, 5, "北 京"),
        ] {
            assert_eq!(trim(text, start, end).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn punctuation_of_names_stays() {
        for (text, start, end) in [
            ("Apple Inc .", 0, 3),
            ("works at Yahoo !", 2, 4),
            (". NET framework", 0, 3),
            ("U.S. .", 0, 2),
            ("Univ . of Lindholm", 0, 2),
            ("IL-2 ( interleukin 2 ) receptor", 0, 5),
            ("\" Maria \" sings", 0, 3),
            ("„ Faust “ lesen", 0, 3),
            ("» Faust « lesen", 0, 3),
            ("” Faust ” läses", 0, 3),
            ("' 90s", 0, 2),
            ("# nlp", 0, 2),
            (": - )", 0, 3),
            (",", 0, 1),
            ("Lindholm , Maria", 0, 3),
        ] {
            assert_eq!(trim(text, start, end), None, "{text}");
        }
    }

    #[test]
    fn white_space_at_the_edges_is_removed() {
        let text = "Zoë lebt in 北京 , sagt man";
        let sentence = words::sentence(text, Default::default());
        let characters: Vec<char> = text.chars().collect();
        let of = |start, end| aligned(&sentence, &characters, start, end);
        assert_eq!(of(0, 4), Some(Span::new(0, 1)));
        assert_eq!(of(11, 15), Some(Span::new(3, 5)));
        assert_eq!(of(11, 17), Some(Span::new(3, 6)));
        assert_eq!(of(1, 4), None);
        assert_eq!(of(3, 4), None);
        assert_eq!(of(0, 99), None);
        assert!(
            has_space(&characters, 0, 4)
                && has_space(&characters, 3, 5)
                && !has_space(&characters, 0, 3)
        );
    }

    proptest! {
        #[test]
        fn trimming_is_idempotent_and_keeps_a_word(
            words in prop::collection::vec(prop::sample::select(vec!["a", "Lindholm", ".", ",", "(", ")", "\"", "“", "”", "-LRB-", "«", "»", "!"]), 1..9),
            start in 0..9usize,
            length in 1..9usize,
        ) {
            let sentence = Sentence::from_words(words.clone());
            let span = Span::new(start, start + length);
            if let Some(trimmed_span) = trimmed(&sentence, span) {
                prop_assert!(span.contains(&trimmed_span) && !trimmed_span.is_empty());
                prop_assert!(sentence.surface(trimmed_span).contains(char::is_alphabetic));
                prop_assert_eq!(trimmed(&sentence, trimmed_span), None);
            }
        }
    }
}
