//! From lists of words and tags of a table to sentences.

use std::collections::HashSet;

use crate::data::ReadOptions;
use crate::data::source::Collector;
use crate::data::tags::scheme::TagScheme;
use crate::data::tags::style::TagStyle;
use crate::data::tags::{add_layer, report};
use crate::text::{Entity, Sentence};

/// A sentence as lists of words and tags.
pub(super) struct Row {
    pub line: usize,
    /// The line of each word.
    pub lines: Vec<usize>,
    pub words: Vec<String>,
    /// For each tag column a tag for each word.
    pub tags: Vec<Vec<String>>,
    pub pos: Option<Vec<String>>,
    pub text: Option<String>,
    pub document: Option<String>,
    pub invalid: bool,
}

/// The style and scheme of the tags of a file.
struct Tags {
    style: TagStyle,
    scheme: TagScheme,
}

/// Decodes the tags and adds the sentences to the corpus.
pub(super) fn push(rows: Vec<Row>, options: &ReadOptions, corpus: &mut Collector) {
    let cells = || {
        rows.iter()
            .flat_map(|row| row.tags.iter().flatten().map(String::as_str))
    };
    let style = match TagStyle::detect(cells(), options.labels.as_deref()) {
        Ok(style) => style,
        Err(error) => {
            return corpus.error(0, format!("the column of the tags {error}; choose columns with --word-column and --tag-column, counted from 0"));
        }
    };
    if let Some(note) = style.note() {
        corpus.warn(0, note);
    }
    let scheme = options.scheme.unwrap_or_else(|| {
        let lists = rows.iter().flat_map(|row| &row.tags);
        style.detect_scheme(lists.map(|tags| tags.iter().map(String::as_str)))
    });
    let tags = Tags { style, scheme };
    for row in rows {
        push_row(row, &tags, corpus);
    }
}

fn push_row(row: Row, tags: &Tags, corpus: &mut Collector) {
    if row.words.is_empty() {
        return;
    }
    let words: Vec<&str> = row.words.iter().map(String::as_str).collect();
    let aligned = row
        .text
        .as_deref()
        .and_then(|text| crate::data::words::align(text, &words));
    let mut sentence = aligned.unwrap_or_else(|| Sentence::from_words(words));
    sentence.document = row.document;
    sentence.pos = row.pos;
    let mut valid = !row.invalid;
    let mut seen: HashSet<Entity> = HashSet::new();
    for list in &row.tags {
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let (entities, problems) = tags.style.decode(&list, tags.scheme);
        let line = |word: usize| row.lines[word];
        valid &= report(problems, line, corpus);
        add_layer(&mut sentence, entities, &mut seen, line, corpus);
    }
    sentence.entities.sort();
    if valid {
        corpus.push(row.line, sentence);
    }
}
