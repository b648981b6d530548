//! Texts to be tagged: as they are, or with their words.

use serde_json::Value;

use super::{json, words};
use crate::text::Sentence;

/// A text to be tagged.
#[derive(Debug)]
pub enum InputText {
    /// A text, to be cut into sentences and words.
    Plain(String),
    /// Sentences with their words.
    Sentences(Vec<Sentence>),
}

/// Parses `{"text": ...}` or `{"tokens": [...]}`; an error is a description of the problem.
pub fn parse_json(line: &str) -> Result<InputText, String> {
    let mut value = json::parse_line(line)?;
    let Some(tokens) = value["tokens"].as_array() else {
        return match value.get_mut("text").map(Value::take) {
            Some(Value::String(text)) => Ok(InputText::Plain(text)),
            _ => Err("needs a `text` (a string) or `tokens` (a list of strings)".into()),
        };
    };
    let tokens: Option<Vec<&str>> = tokens.iter().map(Value::as_str).collect();
    let tokens = tokens.ok_or("`tokens` has an element that is not a string")?;
    // Given both, the words are the tokens, and the offsets count in the text.
    let sentence = match value["text"].as_str() {
        Some(text) => words::align(text, &tokens)
            .ok_or("the `tokens` do not stand in the `text` in this order")?,
        None => Sentence::from_words(tokens),
    };
    Ok(InputText::Sentences(vec![sentence]))
}
