//! The formats corpora come in, and the knobs for reading them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bio::Scheme;
use super::words::Segmentation;
use crate::error::{Error, nearest};

/// How a corpus file is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One word a line with its tags in columns, blank lines between sentences (CoNLL, GermEval, UNER, WNUT).
    Columns,
    /// One JSON object a line: `tokens`, and entities that count words.
    TokensJsonl,
    /// One JSON object a line: `text`, and entities that count characters (Doccano's export too).
    TextJsonl,
    /// A JSON list of objects with `tokens` and `entities`, as SpERT and DiffusionNER read it.
    Spert,
    /// A JSON list of objects with `sentence` and `ner` index lists, as W2NER and BOPN read it.
    W2ner,
    /// BRAT standoff: a `.txt` with its `.ann` beside it, or a folder of such pairs.
    Brat,
    /// One text a line, nothing annotated.
    #[serde(rename = "text")]
    PlainText,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 7] = [
        Format::Columns,
        Format::TokensJsonl,
        Format::TextJsonl,
        Format::Spert,
        Format::W2ner,
        Format::Brat,
        Format::PlainText,
    ];

    /// The name used on the command line and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Format::Columns => "columns",
            Format::TokensJsonl => "tokens_jsonl",
            Format::TextJsonl => "text_jsonl",
            Format::Spert => "spert",
            Format::W2ner => "w2ner",
            Format::Brat => "brat",
            Format::PlainText => "text",
        }
    }

    /// All names in one line, for messages.
    pub fn names() -> String {
        Self::ALL.map(Format::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named(name, &Self::ALL, Format::name, "format")
    }
}

/// Find a value by its name (hyphens and underscores are one), or say which name was probably meant.
pub(super) fn named<T: Copy>(
    name: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
    kind: &str,
) -> Result<T, Error> {
    let spelled = name.trim().replace('-', "_");
    if let Some(found) = all.iter().find(|value| name_of(**value) == spelled) {
        return Ok(*found);
    }
    let names: Vec<&str> = all.iter().map(|value| name_of(*value)).collect();
    let hint = nearest(&spelled, names.iter().copied())
        .map(|near| format!(" (did you mean `{near}`?)"))
        .unwrap_or_default();
    Err(Error::Config(format!(
        "unknown {kind} `{name}`{hint}; known: {}",
        names.join(", ")
    )))
}

/// Knobs for reading; what is `None` is found out from the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The format of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The column that holds the word, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_column: Option<usize>,
    /// The columns that hold tags, counted from 0; several are layers of nested entities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_columns: Option<Vec<usize>>,
    /// The column that holds the part of speech, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pos_column: Option<usize>,
    /// How tags mark where entities begin and end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Whether to cut the number off words like `科0`, where it counts characters within a word (WeiboNER).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strip_digit: Option<bool>,
    /// How texts are cut into words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<Segmentation>,
}

impl Options {
    /// Default options for one format.
    pub fn of(format: Format) -> Self {
        Self {
            format: Some(format),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(json, format!("\"{format}\""));
            assert_eq!(serde_json::from_str::<Format>(&json).unwrap(), format);
        }
        assert_eq!("text-jsonl".parse::<Format>().unwrap(), Format::TextJsonl);
        let error = "colums".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("did you mean `columns`"), "{error}");
    }

    #[test]
    fn options_come_from_toml() {
        let options: Options = toml::from_str(
            "format = 'columns'\ntag_columns = [2, 3]\nscheme = 'bioes'\nsegmentation = 'cjk'",
        )
        .unwrap();
        assert_eq!(options.tag_columns, Some(vec![2, 3]));
        assert_eq!(options.scheme, Some(Scheme::Bioes));
        assert!(toml::from_str::<Options>("tags = 3").is_err());
        assert_eq!(toml::to_string(&Options::default()).unwrap(), "");
    }
}
