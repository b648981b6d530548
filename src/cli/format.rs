//! Options of all commands that read corpus files.

use clap::Args;

use crate::data::{Format, ReadOptions, SentenceCutting, TagScheme};

/// How to read corpus files; what is not given is detected.
#[derive(Debug, Args)]
pub struct FormatArgs {
    /// The files' format, if it is not detected: columns, tokens_jsonl, text_jsonl, spert, w2ner, brat or text.
    #[arg(long)]
    pub format: Option<Format>,
    /// Whether texts are cut into sentences: documents only (auto, the default), every text (cut), or none (whole).
    #[arg(long, value_name = "HOW")]
    sentences: Option<SentenceCutting>,
    /// Column files: the word's column, from 0.
    #[arg(long, value_name = "N")]
    word_column: Option<usize>,
    /// Column files: the tags' column, from 0; several for nested layers.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    tag_column: Vec<usize>,
    /// Column files: the part of speech's column, from 0.
    #[arg(long, value_name = "N")]
    pos_column: Option<usize>,
    /// Column files: iob1, iob2, bioes or bmes.
    #[arg(long)]
    scheme: Option<TagScheme>,
}

impl FormatArgs {
    /// True when an option for column files is given.
    pub fn has_column_options(&self) -> bool {
        let columns = self.word_column.is_some() || self.pos_column.is_some();
        columns || !self.tag_column.is_empty() || self.scheme.is_some()
    }

    /// The options as the readers take them.
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            sentences: self.sentences,
            word_column: self.word_column,
            tag_columns: (!self.tag_column.is_empty()).then(|| self.tag_column.clone()),
            pos_column: self.pos_column,
            scheme: self.scheme,
            ..ReadOptions::default()
        }
    }
}
