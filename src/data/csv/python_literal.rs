//! Lists and dictionaries in a table cell, as Python, NumPy or JSON write them.

use serde_json::{Map, Number, Value};

/// How deep lists may nest.
const DEEPEST: usize = 16;

/// Why a cell is not a list or dictionary. Completes "the cell ...".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LiteralError {
    #[error("is not a valid list: unexpected text at character {0}")]
    Unexpected(usize),
    #[error(
        "was shortened with `...` when it was written; write the whole list, for example with `.tolist()`"
    )]
    Shortened,
    #[error("has lists nested more than {DEEPEST} deep")]
    TooDeep,
}

/// Parses a cell: JSON, a Python literal such as `['EU', 'rejects']` or `{'entities': [(0, 2, 'ORG')]}`, or a NumPy array
/// such as `['EU' 'rejects']`. Tuples become lists.
pub(super) fn parse(cell: &str) -> Result<Value, LiteralError> {
    if let Ok(value) = serde_json::from_str(cell) {
        return Ok(value);
    }
    let mut parser = Parser {
        text: cell,
        byte: 0,
    };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.byte < cell.len() {
        return Err(parser.unexpected());
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    byte: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.byte..]
    }

    fn unexpected(&self) -> LiteralError {
        if self.rest().starts_with("...") || self.rest().starts_with('…') {
            return LiteralError::Shortened;
        }
        LiteralError::Unexpected(self.text[..self.byte].chars().count() + 1)
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.byte += rest.len() - rest.trim_start().len();
    }

    /// Moves over a text if it comes next, after white space.
    fn take(&mut self, text: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(text);
        if found {
            self.byte += text.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, LiteralError> {
        if depth > DEEPEST {
            return Err(LiteralError::TooDeep);
        }
        self.skip_space();
        let rest = self.rest();
        match rest.chars().next() {
            Some('[') => self.list("[", "]", depth),
            Some('(') => self.list("(", ")", depth),
            Some('{') => self.dictionary(depth),
            Some('\'' | '"') => self.string(),
            Some('-' | '+' | '.' | '0'..='9') if !rest.starts_with("...") => self.number(),
            Some(first) if first.is_alphabetic() || first == '_' => self.name(depth),
            _ => Err(self.unexpected()),
        }
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Result<Value, LiteralError> {
        self.take(open);
        let mut values = Vec::new();
        while !self.take(close) {
            values.push(self.value(depth + 1)?);
            // NumPy separates by white space only.
            self.take(",");
        }
        Ok(Value::Array(values))
    }

    fn dictionary(&mut self, depth: usize) -> Result<Value, LiteralError> {
        self.take("{");
        let mut object = Map::new();
        while !self.take("}") {
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            if !self.take(":") {
                return Err(self.unexpected());
            }
            let value = self.value(depth + 1)?;
            object.insert(key, value);
            self.take(",");
        }
        Ok(Value::Object(object))
    }

    fn number(&mut self) -> Result<Value, LiteralError> {
        let rest = self.rest();
        let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let length = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let text = &rest[..length];
        let value = match text.parse::<i64>() {
            Ok(integer) => Some(Number::from(integer)),
            Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64),
        };
        let value = value.ok_or_else(|| self.unexpected())?;
        self.byte += length;
        Ok(Value::Number(value))
    }

    /// A word such as `None`, a string with a prefix such as `u'EU'`, or a call such as `np.str_('EU')`, whose first argument
    /// is the value.
    fn name(&mut self, depth: usize) -> Result<Value, LiteralError> {
        let rest = self.rest();
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = &rest[..length];
        let after = rest[length..].chars().next();
        if matches!(after, Some('\'' | '"')) && length <= 2 {
            self.byte += length;
            return self.string();
        }
        if after == Some('(') {
            self.byte += length + 1;
            let value = self.value(depth + 1)?;
            // Further arguments, such as `dtype=object`, have no brackets.
            let close = self
                .rest()
                .find(['(', ')'])
                .filter(|at| self.rest()[*at..].starts_with(')'));
            self.byte += close.ok_or_else(|| self.unexpected())? + 1;
            return Ok(value);
        }
        let value = match name {
            "None" | "nan" | "NaN" | "null" => Value::Null,
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            _ => return Err(self.unexpected()),
        };
        self.byte += length;
        Ok(value)
    }

    fn string(&mut self) -> Result<Value, LiteralError> {
        let Some(quote) = self.rest().chars().next() else {
            return Err(self.unexpected());
        };
        let start = self.byte;
        self.byte += 1;
        let mut text = String::new();
        let mut characters = self.rest().char_indices();
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.byte += at + 1;
                return Ok(Value::String(text));
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some((_, escape)) = characters.next() else {
                break;
            };
            let digits = match escape {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            match escape {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                '\n' => {}
                '\\' | '\'' | '"' => text.push(escape),
                _ if digits > 0 => {
                    let hex: String = characters.by_ref().take(digits).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    text.push(code.unwrap_or('\u{fffd}'));
                }
                _ => text.extend(['\\', escape]),
            }
        }
        self.byte = start;
        Err(self.unexpected())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn all_spellings_of_a_list_are_read() {
        for cell in [
            r#"["EU", "it's", "a\"b"]"#,
            r#"['EU', "it's", 'a"b']"#,
            r#"('EU', "it's", 'a"b',)"#,
            "['EU' \"it's\"\n 'a\"b']",
            r#"[u'EU', u"it's", 'a\x22b']"#,
            r#"[np.str_('EU'), np.str_("it's"), np.str_('a"b')]"#,
            r#"array(['EU', "it's", 'a"b'], dtype=object)"#,
        ] {
            assert_eq!(parse(cell), Ok(json!(["EU", "it's", "a\"b"])), "{cell}");
        }
        assert_eq!(parse("[3 0  7\n 0]"), Ok(json!([3, 0, 7, 0])));
        assert_eq!(
            parse("{'entities': [(0, 2, 'ORG')], 'x': None, 'y': True, 1: -2.5}"),
            Ok(json!({"entities": [[0, 2, "ORG"]], "x": null, "y": true, "1": -2.5}))
        );
        assert_eq!(
            parse(r"['\u00e9\n\\', '北京']"),
            Ok(json!(["é\n\\", "北京"]))
        );
    }

    #[test]
    fn what_is_not_a_list_is_an_error() {
        assert_eq!(parse("['a' ... 'b']"), Err(LiteralError::Shortened));
        assert_eq!(parse(&"[".repeat(100_000)), Err(LiteralError::TooDeep));
        for cell in [
            "", "[", "['a", "['a'] b", "[a]", "{'a'}", "f('a'", "[1-]", "'\\",
        ] {
            assert!(
                matches!(parse(cell), Err(LiteralError::Unexpected(_))),
                "{cell}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_cell_makes_the_parser_panic(cell in "[\\[\\](){}'\"a,:\\\\ ux1é.-]{0,24}") {
            let _ = parse(&cell);
        }

        #[test]
        fn strings_of_python_come_back(words in prop::collection::vec(any::<String>(), 0..5)) {
            let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "\\'"))).collect();
            prop_assert_eq!(parse(&format!("[{}]", quoted.join(", "))), Ok(json!(words)));
        }
    }
}
