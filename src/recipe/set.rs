//! One `key=value` of `--set`, for recipes and for trained models.

use toml::{Table, Value};

use crate::error::{Error, Result};

/// A dotted key and the value to give it, such as `head.steps=5`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The key as written.
    pub key: String,
    /// The value: TOML where it parses as TOML, else a string.
    pub value: Value,
}

impl Assignment {
    /// Parses `key=value`.
    pub fn parse(text: &str) -> Result<Self> {
        let problem = |problem: &str| Err(Error::Config(format!("--set {text}: {problem}")));
        let Some((key, value)) = text.split_once('=') else {
            return problem("write it as key=value, for example train.batch=16");
        };
        let key = key.trim();
        if key.split('.').any(|part| part.trim().is_empty()) {
            return problem("a part of the key is empty");
        }
        Ok(Self {
            key: key.to_string(),
            value: parse_value(value),
        })
    }

    /// Sets the value in a table; tables on the way are created.
    pub fn apply(&self, table: &mut Table) -> Result<()> {
        let mut parts: Vec<&str> = self.key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut inner = table;
        for part in parts {
            let entry = inner.entry(part);
            let value = entry.or_insert_with(|| Value::Table(Table::new()));
            inner = value.as_table_mut().ok_or_else(|| {
                Error::Config(format!(
                    "--set {}: {part} is a single value, not a table",
                    self.key
                ))
            })?;
        }
        inner.insert(last.to_string(), self.value.clone());
        Ok(())
    }
}

/// A value of the command line: TOML where it parses as TOML, else a string.
pub fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_string()))
}

/// Splits `key=a,b,c` into its key and values. A list in brackets, such as `key=[1, 2]`, is one value.
pub fn key_and_values(text: &str) -> Option<(&str, Vec<&str>)> {
    let (key, values) = text.split_once('=')?;
    let values = if values.starts_with('[') {
        vec![values]
    } else {
        values.split(',').collect()
    };
    Some((key.trim(), values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_or_strings() {
        let value = |text: &str| Assignment::parse(text).unwrap().value;
        assert_eq!(value("a.b=3"), Value::Integer(3));
        assert_eq!(value("a=[1, 2]").as_array().unwrap().len(), 2);
        assert_eq!(value("a=crf").as_str(), Some("crf"));
        assert_eq!(value("a=x=y").as_str(), Some("x=y"));
        for wrong in ["a", "=1", "a..b=1", ".=1"] {
            assert!(Assignment::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_not_entered_as_a_table() {
        let mut table: Table = toml::from_str("a = 1").unwrap();
        let problem = Assignment::parse("a.b=2").unwrap().apply(&mut table);
        assert!(problem.unwrap_err().to_string().contains("not a table"));
    }
}
