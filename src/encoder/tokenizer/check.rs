//! Checks of a `tokenizer.json` from a stranger: settings that would make the tokenizer hang or fill the memory.

use std::collections::HashMap;

use serde_json::Value;

/// Largest number of times that a normaliser may lengthen a text.
const MOST_GROWTH: usize = 64;

/// Largest `max_input_chars_per_word`. The time for a word grows with the square of its length.
const MOST_CHARACTERS: u64 = 1_000;

/// Longest text in bytes that one character may be replaced by in a table of replacements.
const LONGEST_REPLACEMENT: usize = 64;

/// Fails, with the reason, if the tokenizer should not be used.
pub fn check(tokenizer: &Value) -> Result<(), String> {
    let growth = growth(&tokenizer["normalizer"])?;
    if growth > MOST_GROWTH {
        return Err(format!(
            "the normaliser can make texts {growth} times as long, more than {MOST_GROWTH} times"
        ));
    }
    check_ids(&tokenizer["model"]["vocab"])?;
    match tokenizer["model"]["max_input_chars_per_word"].as_u64() {
        Some(most) if most > MOST_CHARACTERS => Err(format!(
            "max_input_chars_per_word = {most} must be at most {MOST_CHARACTERS}"
        )),
        _ => Ok(()),
    }
}

/// Fails if two pieces of a vocabulary have the same id: only one of them would be there after the tokenizer is saved.
fn check_ids(vocabulary: &Value) -> Result<(), String> {
    let mut pieces: HashMap<u64, &str> = HashMap::new();
    for (piece, id) in vocabulary.as_object().into_iter().flatten() {
        if let Some(other) = id.as_u64().and_then(|id| pieces.insert(id, piece)) {
            return Err(format!(
                "the pieces {other:?} and {piece:?} have the same id {id}"
            ));
        }
    }
    Ok(())
}

/// How many times a text can be as long after a normaliser as before, in bytes.
fn growth(normalizer: &Value) -> Result<usize, String> {
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    match normalizer["type"].as_str() {
        Some("Sequence") => {
            let steps = normalizer["normalizers"].as_array();
            (steps.into_iter().flatten()).try_fold(1usize, |product, step| {
                growth(step).map(|factor| product.saturating_mul(factor))
            })
        }
        Some("Replace") => {
            let content = length(&normalizer["content"]);
            Ok(match &normalizer["pattern"]["String"] {
                Value::String(pattern) if !pattern.is_empty() => {
                    content.div_ceil(pattern.len()).max(1)
                }
                // A regular expression can match between any two bytes.
                _ => 1 + content,
            })
        }
        Some("Prepend") => Ok(1 + length(&normalizer["prepend"])),
        Some("Precompiled") => {
            check_replacements(length_of_replacements(&normalizer["precompiled_charsmap"])?)?;
            Ok(1)
        }
        // Unicode's own forms replace a character by a few others.
        _ => Ok(1),
    }
}

fn check_replacements(longest: usize) -> Result<(), String> {
    if longest > LONGEST_REPLACEMENT {
        return Err(format!(
            "precompiled_charsmap replaces a character by {longest} bytes, more than {LONGEST_REPLACEMENT}"
        ));
    }
    Ok(())
}

/// Length of the longest replacement in a table of SentencePiece: base64 of the size of an index (four bytes), the index, and
/// the replacements, each ended by a zero byte.
fn length_of_replacements(charsmap: &Value) -> Result<usize, String> {
    let bytes = base64(charsmap.as_str().unwrap_or_default())
        .ok_or("precompiled_charsmap is not base64")?;
    let Some((size, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(0);
    };
    let size = u32::from_le_bytes(*size) as usize;
    let replacements = (rest.get(size..)).ok_or("precompiled_charsmap is shorter than it says")?;
    let lengths = replacements.split(|byte| *byte == 0).map(<[u8]>::len);
    Ok(lengths.max().unwrap_or(0))
}

/// The bytes of a text in base64; `None` if it is not valid.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text
        .trim_end_matches('=')
        .bytes()
        .map(|letter| match letter {
            b'A'..=b'Z' => Some(letter - b'A'),
            b'a'..=b'z' => Some(letter - b'a' + 26),
            b'0'..=b'9' => Some(letter - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        });
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = (four.iter().chain([0; 3].iter()).take(4))
            .fold(0u32, |bits, digit| bits << 6 | u32::from(*digit));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_must_not_grow_without_bound() {
        let replace = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let sequence =
            |steps: Vec<Value>| json!({"normalizer": {"type": "Sequence", "normalizers": steps}});
        let space = replace(json!({"String": " "}), "\u{2581}");
        let quotes = replace(json!({"String": "``"}), "\"");
        let lines = replace(json!({"Regex": " {2,}"}), " ");
        let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
        let lower = json!({"type": "Lowercase"});
        check(&sequence(vec![space, quotes, lines, prepend, lower])).unwrap();
        check(&json!({"normalizer": null})).unwrap();
        let ten = || replace(json!({"String": "a"}), "aaaaaaaaaa");
        check(&sequence(vec![ten()])).unwrap();
        assert!(
            check(&sequence(vec![ten(), ten()]))
                .unwrap_err()
                .contains("100 times")
        );
        let inner = || sequence(vec![ten(); 40])["normalizer"].clone();
        check(&sequence(vec![inner(); 40])).unwrap_err();
        check(&sequence(vec![replace(
            json!({"Regex": ""}),
            &"x".repeat(100),
        )]))
        .unwrap_err();
        check(&sequence(vec![replace(
            json!({"String": ""}),
            &"x".repeat(100),
        )]))
        .unwrap_err();
    }

    /// Found by fuzzing: after such a tokenizer is saved and loaded, words have other pieces.
    #[test]
    fn pieces_have_ids_of_their_own() {
        check(&json!({"model": {"vocab": {"a": 0, "b": 1, "c": 5}}})).unwrap();
        check(&json!({"model": {"vocab": [["a", 0.0], ["b", 0.0]]}})).unwrap();
        let problem = check(&json!({"model": {"vocab": {"a": 0, "b": 1, "c": 0}}})).unwrap_err();
        assert_eq!(problem, "the pieces \"a\" and \"c\" have the same id 0");
    }

    #[test]
    fn long_words_must_stay_cheap() {
        let model =
            |most: u64| json!({"model": {"type": "WordPiece", "max_input_chars_per_word": most}});
        check(&model(100)).unwrap();
        assert!(
            check(&model(u64::MAX))
                .unwrap_err()
                .contains("max_input_chars_per_word")
        );
    }

    #[test]
    fn tables_of_replacements_are_read() {
        assert_eq!(base64("AAECAw==").unwrap(), [0, 1, 2, 3]);
        assert_eq!(base64("AAEC").unwrap(), [0, 1, 2]);
        assert_eq!(base64("").unwrap(), [0; 0]);
        assert!(base64("AA*C").is_none());
        // An index of two bytes, then replacements of one and three bytes: 2 0 0 0, 9 9, "a" 0 "bcd" 0.
        let table = |text: &str| json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": text}});
        assert_eq!(
            length_of_replacements(&json!("AgAAAAkJYQBiY2QA")).unwrap(),
            3
        );
        check(&table("AgAAAAkJYQBiY2QA")).unwrap();
        check(&table("/////w==")).unwrap_err();
        check(&table("%")).unwrap_err();
        check(&table("")).unwrap();
    }
}
