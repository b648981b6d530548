//! Strict parsing of JSON: a key that an object has twice is an error, and problems have a line and a column.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A JSON value in which no object has a key twice. (`Value` itself silently keeps the last one.)
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                let message = format!("an object has the key `{key}` twice; rename or delete one");
                return Err(A::Error::custom(message));
            }
            let Strict(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// Text that is not JSON.
#[derive(Debug)]
pub(super) struct JsonError {
    /// What is wrong, and a remedy.
    pub message: String,
    /// Byte of the text at which it was noticed.
    pub byte: usize,
}

/// Parses the JSON value at the start of a text and returns its length in bytes as well.
pub(super) fn parse_one(text: &str) -> Result<(Value, usize), JsonError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    match values.next() {
        Some(Ok(Strict(value))) => Ok((value, values.byte_offset())),
        Some(Err(error)) => Err(explain(text, &error)),
        None => Err(JsonError {
            message: "a JSON value is missing".to_string(),
            byte: text.len(),
        }),
    }
}

/// Parses a text that is one JSON value.
pub(super) fn parse_all(text: &str) -> Result<Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict::deserialize(&mut deserializer);
    let value = value.and_then(|Strict(value)| deserializer.end().map(|()| value));
    value.map_err(|error| explain(text, &error))
}

/// The byte length of the JSON value at the start of a text, which is not stored.
pub(super) fn length_of_one(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

fn explain(text: &str, error: &serde_json::Error) -> JsonError {
    let byte = byte_of(text, error.line(), error.column());
    let message = error.to_string();
    let mut message = match message.rfind(" at line ") {
        Some(end) => message[..end].to_string(),
        None => message,
    };
    // The position is that of the first character which does not fit, or of the one before it.
    let near = &text[floor(text, byte.saturating_sub(2))..floor(text, byte + 12)];
    if ["NaN", "nan", "Infinity"]
        .iter()
        .any(|name| near.contains(name))
    {
        message.push_str("; NaN and Infinity are not JSON, write null");
    } else if near.contains('\'') && !near.contains('"') {
        message.push_str("; JSON strings have double quotes, write the file with a JSON library");
    } else if ["None", "True", "False"]
        .iter()
        .any(|name| near.contains(name))
    {
        message.push_str("; write null, true and false instead of Python's None, True and False");
    }
    JsonError { message, byte }
}

/// The byte of a line and column as serde_json counts them: lines from 1, columns in bytes from 1.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    floor(text, start + column.saturating_sub(1))
}

/// The last character boundary at or before a byte.
fn floor(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// A position in a text with its line and column, which moves forward only.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub byte: usize,
    line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a text that begins at a line of a file.
    pub fn new(text: &'a str, line: usize) -> Self {
        Self {
            text,
            byte: 0,
            line,
            column: 1,
        }
    }

    /// The text that follows.
    pub fn rest(&self) -> &'a str {
        &self.text[self.byte..]
    }

    /// Moves to a byte of the text, unless it lies behind.
    pub fn move_to(&mut self, byte: usize) {
        let end = floor(self.text, byte).max(self.byte);
        for character in self.text[self.byte..end].chars() {
            if character == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte = end;
    }

    /// Moves forward by a number of bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.move_to(self.byte.saturating_add(bytes));
    }

    /// Skips white space.
    pub fn skip_space(&mut self) {
        let rest = self.rest();
        self.advance(rest.len() - rest.trim_start().len());
    }

    /// Skips the character if it comes next.
    pub fn take(&mut self, character: char) -> bool {
        let found = self.rest().starts_with(character);
        if found {
            self.advance(character.len_utf8());
        }
        found
    }

    /// Line and column.
    pub fn position(&self) -> (usize, usize) {
        (self.line, self.column)
    }

    /// Line and column of a byte further on.
    pub fn position_of(&self, byte: usize) -> (usize, usize) {
        let mut there = self.clone();
        there.move_to(byte);
        there.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_key_that_occurs_twice_is_an_error() {
        let error = parse_all(r#"{"a": 1, "b": {"x": 1, "x": 2}}"#).unwrap_err();
        assert!(error.message.contains("key `x` twice"), "{}", error.message);
        assert!(parse_all(r#"{"a": {"x": 1}, "b": {"x": 2}}"#).is_ok());
        assert!(parse_one(r#"[{"a": 1, "\u0061": 2}]"#).is_err());
    }

    #[test]
    fn values_are_parsed_as_serde_json_does() {
        let text = r#"{"a": [1, -2, 3.5, 99999999999999999999, null, true, "x😀\n"], "b": {}}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse_all(text).unwrap(), value);
        assert_eq!(
            parse_one(&format!("{text} , 1")).unwrap(),
            (value, text.len())
        );
        assert_eq!(parse_one(" [1]x").unwrap(), (json!([1]), 4));
        assert_eq!(length_of_one(text), Some(text.len()));
        assert!(parse_all("1 2").is_err() && parse_one("").is_err() && parse_one("  ").is_err());
        let deep = "[".repeat(100_000);
        assert!(parse_all(&deep).is_err() && parse_one(&deep).is_err());
    }

    #[test]
    fn common_mistakes_have_a_remedy() {
        for (text, remedy) in [
            ("{\"a\": NaN}", "write null"),
            ("{'a': 1}", "double quotes"),
            ("{\"a\": None}", "Python"),
        ] {
            let error = parse_all(text).unwrap_err();
            assert!(error.message.contains(remedy), "{}", error.message);
        }
        let error = parse_all("{\n \"ä\": [1,\n  x]}").unwrap_err();
        assert!((13..=16).contains(&error.byte), "{}", error.byte);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = parse_all(&text);
            let _ = parse_one(&text);
        }
    }
}
