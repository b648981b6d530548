//! The corpus formats, and the options for reading them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoEnumIterator, VariantNames};

use super::tags::scheme::TagScheme;
use super::words::Segmentation;
use crate::error::{Error, nearest};

/// The format of a corpus file. Its name in recipes and on the command line is the variant's name in snake case.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
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
    parse_err_fn = unknown_format
)]
pub enum Format {
    /// One word per line with its tags in columns, blank lines between sentences (CoNLL, GermEval, UNER, WNUT).
    Columns,
    /// One JSON object per line: `tokens`, and tags of the words (`ner_tags`) or entities as spans of words.
    #[strum(to_string = "tokens_jsonl", serialize = "tokens-jsonl")]
    TokensJsonl,
    /// JSON objects, one per line or in a list: `text`, and entities as spans of characters.
    #[strum(to_string = "text_jsonl", serialize = "text-jsonl")]
    TextJsonl,
    /// A JSON list of objects with `tokens` and `entities`, the format of SpERT and DiffusionNER; or with tags.
    Spert,
    /// A JSON list of objects with `sentence` and `ner` index lists, the format of W2NER and BOPN.
    W2ner,
    /// BRAT standoff: a `.txt` file with an `.ann` file of the same name, or a folder of such pairs.
    Brat,
    /// Doccano's JSON lines: `text`, and `label` as [start, end, type] or `entities` with `start_offset` and `end_offset`.
    Doccano,
    /// GLiNER's JSON: `tokenized_text`, and `ner` as [first word, last word, type].
    Gliner,
    /// spaCy's JSON: training data of version 2, `Doc.to_json`, and [text, {"entities": [[start, end, type]]}].
    Spacy,
    /// spaCy's binary `.spacy` files (DocBin).
    DocBin,
    /// Prodigy's JSON lines: `text`, `tokens` as objects, and `spans`.
    Prodigy,
    /// Label Studio's JSON and JSON-MIN exports.
    LabelStudio,
    /// WebAnno TSV 3, the tab-separated export of INCEpTION and WebAnno.
    Webanno,
    /// CoNLL-U with entities in the last column: `Entity=` brackets (GUM) or `NE=` tags.
    Conllu,
    /// PubTator: title and abstract with tab-separated annotations.
    Pubtator,
    /// BioC JSON: documents, passages and annotations.
    Bioc,
    /// Comma- or tab-separated values with a header: sentence, word, tag.
    Csv,
    /// Parquet files with `tokens` and `ner_tags`, as on the Hugging Face hub.
    Parquet,
    /// One sentence per line without annotations. Named `text`.
    #[serde(rename = "text")]
    #[strum(to_string = "text")]
    PlainText,
}

fn unknown_format(name: &str) -> Error {
    unknown_name("format", name, Format::VARIANTS)
}

impl Format {
    /// True for formats that can be written; the others are only read.
    pub fn is_writable(self) -> bool {
        !matches!(
            self,
            Format::DocBin | Format::Webanno | Format::Bioc | Format::Parquet
        )
    }

    /// The names of the formats that can be written.
    pub fn writable_names() -> impl Iterator<Item = &'static str> {
        let formats = Format::iter().zip(Format::VARIANTS);
        formats.filter_map(|(format, name)| format.is_writable().then_some(*name))
    }

    /// The format with this name, which is to be written. `others` are further names; the error for an unknown name lists
    /// them and all formats that can be written.
    pub fn parse_output(name: &str, others: &[(&'static str, Format)]) -> Result<Format, Error> {
        let other = others.iter().find(|(other, _)| *other == name);
        if let Some((_, format)) = other {
            return Ok(*format);
        }
        name.parse().map_err(|_| {
            let others = others.iter().map(|(name, _)| *name);
            let names: Vec<&str> = others.chain(Format::writable_names()).collect();
            unknown_name("output format", name, &names)
        })
    }
}

/// The error for a name that is not one of `known`, with a suggestion.
pub(super) fn unknown_name(kind: &str, name: &str, known: &[&'static str]) -> Error {
    let hint = nearest(&name.trim().replace('-', "_"), known.iter().copied())
        .map(|near| format!(" (did you mean `{near}`?)"))
        .unwrap_or_default();
    let known = known.join(", ");
    Error::Config(format!("unknown {kind} `{name}`{hint}; known: {known}"))
}

/// Options for reading a corpus file. What is `None` is detected from the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// Format of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Column of the words, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word_column: Option<usize>,
    /// Columns of the entity tags, counted from 0; several columns are layers of nested entities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_columns: Option<Vec<usize>>,
    /// Column of the part-of-speech tags, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pos_column: Option<usize>,
    /// Tagging scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<TagScheme>,
    /// Whether to remove the number from words like `科0`, where it is the index of a character in its word (WeiboNER).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strip_digit: Option<bool>,
    /// How texts are split into words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<Segmentation>,
    /// Whether texts are split into words by the rule `segmentation` even if the file has words of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_words: Option<bool>,
    /// Whether texts are cut into sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentences: Option<SentenceCutting>,
    /// Names of tags that are given as numbers, in the order of the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Skip records with an error, up to this many in each file, instead of refusing the file. `usize::MAX`, in recipes
    /// `true`, allows any number up to half of the records.
    #[serde(
        skip_serializing_if = "Option::is_none",
        with = "super::skip_bad::setting"
    )]
    #[schemars(with = "Option<usize>")]
    pub skip_bad: Option<usize>,
    /// Other names for entity types. Entities of a type whose other name is empty are left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
}

/// Whether texts with character offsets are cut into sentences.
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
    strum::VariantNames,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", parse_err_ty = Error, parse_err_fn = unknown_cutting)]
pub enum SentenceCutting {
    /// Whole documents are cut, records that are sentences already are not.
    #[default]
    Auto,
    /// Every text is cut.
    Cut,
    /// No text is cut.
    Whole,
}

fn unknown_cutting(name: &str) -> Error {
    unknown_name("value of `sentences`", name, SentenceCutting::VARIANTS)
}

impl ReadOptions {
    /// True when no option depends on the file: words can be split, bad records skipped and types renamed in any.
    pub fn are_of_any_file(&self) -> bool {
        let others = Self {
            split_words: None,
            skip_bad: None,
            rename: BTreeMap::new(),
            ..self.clone()
        };
        others == Self::default()
    }

    /// These options, with those of `other` that are meant for any file and given there.
    #[must_use]
    pub fn with_general_options_of(mut self, other: &Self) -> Self {
        self.split_words = other.split_words.or(self.split_words);
        self.skip_bad = other.skip_bad.or(self.skip_bad);
        self.rename.extend(other.rename.clone());
        self
    }

    /// Default options for a format.
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
    use strum::IntoEnumIterator;

    #[test]
    fn formats_that_are_offered_can_be_written() {
        use crate::data::write::{WriteOptions, Writer};
        for format in Format::iter().filter(|format| *format != Format::Brat) {
            let writer = Writer::begin(Vec::new(), WriteOptions::of(format));
            assert_eq!(writer.is_ok(), format.is_writable(), "{format}");
        }
        assert!(Format::Brat.is_writable());
        let names: Vec<&str> = Format::writable_names().collect();
        assert!(
            names
                .iter()
                .all(|name| name.parse::<Format>().is_ok_and(Format::is_writable))
        );
    }

    #[test]
    fn names_parse_to_their_format() {
        for format in Format::iter() {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(json, format!("\"{format}\""));
            assert_eq!(serde_json::from_str::<Format>(&json).unwrap(), format);
        }
        assert_eq!("text-jsonl".parse::<Format>().unwrap(), Format::TextJsonl);
        let error = "colums".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown format `colums` (did you mean `columns`?); known: columns, tokens_jsonl, text_jsonl, spert, w2ner, \
             brat, doccano, gliner, spacy, doc_bin, prodigy, label_studio, webanno, conllu, pubtator, bioc, csv, parquet, text"
        );
        assert_eq!(format!("{:>7}", Format::Spert), "  spert");
    }

    #[test]
    fn options_are_read_from_toml() {
        let options: ReadOptions = toml::from_str(
            "format = 'columns'\ntag_columns = [2, 3]\nscheme = 'bioes'\nsegmentation = 'cjk'",
        )
        .unwrap();
        assert_eq!(options.tag_columns, Some(vec![2, 3]));
        assert_eq!(options.scheme, Some(TagScheme::Bioes));
        assert!(toml::from_str::<ReadOptions>("tags = 3").is_err());
        assert_eq!(toml::to_string(&ReadOptions::default()).unwrap(), "");
    }
}
