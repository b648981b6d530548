//! Characters that are likely mistakes: control and invisible characters, and signs of a wrong encoding.

use super::finding::FindingKind;
use crate::text::Sentence;

/// Longer words are reported, in characters.
const LONGEST_WORD: usize = 80;
/// Longer sentences are reported, in words.
const LONGEST_SENTENCE: usize = 200;

/// Calls `found` with each suspicious property of a sentence's text and words, and the words or text that show it.
pub(super) fn inspect(sentence: &Sentence, mut found: impl FnMut(FindingKind, &str)) {
    if sentence.len() > LONGEST_SENTENCE {
        found(
            FindingKind::LongSentence,
            &format!("{} words: {}", sentence.len(), start_of(&sentence.text)),
        );
    }
    for word in &sentence.words {
        let is_address = || word.text.contains("://") || word.text.starts_with("www.");
        if word.text.len() > LONGEST_WORD
            && word.text.chars().count() > LONGEST_WORD
            && !is_address()
        {
            found(FindingKind::LongWord, &word.text);
        }
        if word.text.contains(char::is_whitespace) && !word.text.trim().is_empty() {
            found(FindingKind::SpaceInWord, &word.text);
        }
    }
    let text = &sentence.text;
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\n' | b'\r');
    if text.bytes().all(is_plain) {
        return;
    }
    let characters: Vec<char> = text.chars().collect();
    let mut kinds: Vec<FindingKind> = Vec::new();
    for index in 0..characters.len() {
        let Some(kind) = suspicious(&characters, index) else {
            continue;
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
            let from = index.saturating_sub(20);
            let around: String = characters[from..characters.len().min(index + 20)]
                .iter()
                .collect();
            found(
                kind,
                &format!(
                    "{} in `{}`",
                    names(&characters, index, kind),
                    visible(&around)
                ),
            );
        }
    }
}

fn start_of(text: &str) -> String {
    text.chars().take(50).collect()
}

/// Why a character of a text is suspicious.
fn suspicious(characters: &[char], index: usize) -> Option<FindingKind> {
    let character = characters[index];
    match character {
        '\t' | '\n' | '\r' => None,
        // NEL separates lines in some texts.
        '\u{85}' => None,
        '\u{fffd}' => Some(FindingKind::ReplacementCharacter),
        _ if character.is_control() => Some(FindingKind::ControlCharacter),
        // Joiners are part of emoji and of the spelling of several scripts.
        '\u{200c}' | '\u{200d}' => {
            let is_joined = |at: Option<&char>| at.is_some_and(|character| !character.is_ascii());
            let before = index
                .checked_sub(1)
                .and_then(|before| characters.get(before));
            (!is_joined(before) || !is_joined(characters.get(index + 1)))
                .then_some(FindingKind::InvisibleCharacter)
        }
        '\u{ad}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' => Some(FindingKind::InvisibleCharacter),
        // Embeddings and overrides of the direction; marks of the direction (U+200E, U+200F) are common in Hebrew and Arabic.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(FindingKind::InvisibleCharacter),
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => Some(FindingKind::PrivateUse),
        _ => wrong_decoding(&characters[index..]).map(|_| FindingKind::Mojibake),
    }
}

/// The character that was meant, when a text starts with the bytes of its UTF-8 form decoded as Windows-1252 or Latin-1.
fn wrong_decoding(characters: &[char]) -> Option<char> {
    // The first characters of common mistakes: Latin, Greek, Cyrillic, punctuation, East Asian scripts and emoji. Others, such
    // as `É`, are too often the last letter of a word before a typographic quote.
    let length = match characters.first()? {
        'Â' | 'Ã' | 'Ä' | 'Å' | 'Î' | 'Ï' | 'Ð' | 'Ñ' => 2,
        'â' | 'ã' | 'ä' | 'å' | 'æ' | 'ç' | 'è' | 'é' => 3,
        'ð' => 4,
        _ => return None,
    };
    let bytes: Option<Vec<u8>> = characters.get(..length)?.iter().map(|c| byte(*c)).collect();
    let text = String::from_utf8(bytes?).ok()?;
    // `Ä“` and `Ä”` are the end of a quotation in German.
    let is_quoted =
        length == 2 && matches!(characters[1], '“' | '”' | '‘' | '’' | '‹' | '›' | '«' | '»');
    text.chars().next().filter(|_| !is_quoted)
}

/// The byte of a character in Windows-1252, or in Latin-1 where that has none.
fn byte(character: char) -> Option<u8> {
    const WINDOWS: &str = "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ";
    const BYTES: [u8; 27] = [
        0x80, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8e, 0x91, 0x92,
        0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9e, 0x9f,
    ];
    match u32::from(character) {
        code @ 0x80..=0xff => u8::try_from(code).ok(),
        _ => {
            let at = WINDOWS.chars().position(|known| known == character)?;
            BYTES.get(at).copied()
        }
    }
}

/// The character as a code point, or what was meant instead of a wrong decoding.
fn names(characters: &[char], index: usize, kind: FindingKind) -> String {
    match wrong_decoding(&characters[index..]) {
        Some(meant) if kind == FindingKind::Mojibake => format!("`{meant}` is meant"),
        _ => format!("U+{:04X}", u32::from(characters[index])),
    }
}

/// The text with invisible characters as code points.
fn visible(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut visible = String::new();
    for (index, character) in characters.iter().enumerate() {
        match suspicious(&characters, index) {
            Some(
                FindingKind::InvisibleCharacter
                | FindingKind::ControlCharacter
                | FindingKind::PrivateUse,
            ) => {
                visible.push_str(&format!("<U+{:04X}>", u32::from(*character)));
            }
            _ => visible.push(*character),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(FindingKind, String)> {
        let mut list = Vec::new();
        let sentence = Sentence::from_words(text.split(' '));
        inspect(&sentence, |kind, text| list.push((kind, text.to_string())));
        list
    }

    fn kinds(text: &str) -> Vec<FindingKind> {
        found(text).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn signs_of_a_wrong_encoding_are_found() {
        for (text, meant) in [
            ("cafÃ© bar", 'é'),
            ("itâ€™s", '’'),
            ("Â£5", '£'),
            ("ðŸ˜€", '😀'),
            ("ÐœÐ¾", 'М'),
            ("æ—¥", '日'),
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].0, FindingKind::Mojibake);
            assert!(
                found[0].1.starts_with(&format!("`{meant}` is meant")),
                "{}",
                found[0].1
            );
        }
        for text in [
            "Das „Ä“ fehlt",
            "São Tomé",
            "ça va",
            "Ångström",
            "naïve café",
            "Ünïcødé",
            "Ñuñoa",
            "année «été»",
        ] {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    #[test]
    fn control_and_invisible_characters_are_found() {
        assert_eq!(kinds("a\u{200b}b"), [FindingKind::InvisibleCharacter]);
        assert_eq!(
            kinds("\u{feff}a \u{202e}b"),
            [FindingKind::InvisibleCharacter]
        );
        assert_eq!(kinds("a\u{1}b \u{7f}"), [FindingKind::ControlCharacter]);
        assert_eq!(kinds("a \u{fffd}"), [FindingKind::ReplacementCharacter]);
        assert_eq!(kinds("a \u{f0b7}"), [FindingKind::PrivateUse]);
        assert_eq!(kinds("a\u{200d}b"), [FindingKind::InvisibleCharacter]);
        let text = &found("a\u{200b}b")[0].1;
        assert_eq!(text, "U+200B in `a<U+200B>b`");
        // Joiners in emoji, Persian and Hindi, and marks of the direction.
        assert_eq!(kinds("👩‍🔬 می‌خواهم क्‍ष שלום\u{200f}"), []);
    }

    #[test]
    fn long_words_and_sentences_are_found() {
        assert_eq!(kinds(&"ä".repeat(81)), [FindingKind::LongWord]);
        assert_eq!(kinds(&"ä".repeat(80)), []);
        assert_eq!(kinds(&format!("https://{}", "x".repeat(200))), []);
        assert_eq!(kinds(&"w ".repeat(201)), [FindingKind::LongSentence]);
        let mut sentence = Sentence::from_words(["New York", "\u{3000}"]);
        sentence.text = String::new();
        let mut kinds = Vec::new();
        inspect(&sentence, |kind, _| kinds.push(kind));
        assert_eq!(kinds, [FindingKind::SpaceInWord]);
    }
}
