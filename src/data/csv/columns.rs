//! What the columns of a comma-separated file hold, by the names in its header and by their cells.

use super::names::{DOCUMENT, POS, SENTENCE, TAGS, TEXT, WORD, normalised};
use super::python_literal;
use super::table::{Record, SEPARATORS, Table};
use crate::data::ReadOptions;
use crate::data::tags::multi;
use crate::data::tags::style::is_outside;

/// Number of records from which the columns are determined.
const SAMPLE: usize = 2000;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordIs {
    /// A word with its tag.
    Word,
    /// A sentence with a list of words, or a text, and a list of tags.
    Sentence,
    /// A text with a list of spans of characters.
    Text,
}

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CsvColumns {
    pub separator: char,
    /// True when the first record names the columns.
    pub has_header: bool,
    /// Number of columns.
    pub width: usize,
    pub record: RecordIs,
    /// Column of the words, or of the lists of words.
    pub word: Option<usize>,
    /// Column of the texts.
    pub text: Option<usize>,
    /// Columns of the tags; several are layers of nested entities.
    pub tags: Vec<usize>,
    /// Column that gives the sentence of each word.
    pub sentence: Option<usize>,
    pub pos: Option<usize>,
    pub document: Option<usize>,
}

impl CsvColumns {
    /// Determines the columns of a file; the error lists what the file has and what is known.
    pub fn of(text: &str, options: &ReadOptions) -> Result<Self, String> {
        let mut best: Option<(usize, Self)> = None;
        for separator in SEPARATORS {
            let records: Vec<Record> = Table::new(text, separator)
                .map_while(Result::ok)
                .filter(|record| !record.fields.is_empty())
                .take(SAMPLE)
                .collect();
            let Some((points, columns)) = Self::of_records(&records, separator, options) else {
                continue;
            };
            if best.as_ref().is_none_or(|(most, _)| points > *most) {
                best = Some((points, columns));
            }
        }
        best.map(|(_, columns)| columns)
            .ok_or_else(|| unknown(text))
    }

    /// The columns if the records have this separator, with the number of columns whose meaning is known.
    fn of_records(
        records: &[Record],
        separator: char,
        options: &ReadOptions,
    ) -> Option<(usize, Self)> {
        let first = records.first()?;
        let width = first.fields.len();
        let fitting = records
            .iter()
            .filter(|record| record.fields.len() == width)
            .count();
        if width < 2 || fitting * 2 < records.len() {
            return None;
        }
        let names: Vec<String> = first.fields.iter().map(|name| normalised(name)).collect();
        let find = |known: &[&str]| {
            known
                .iter()
                .find_map(|known| names.iter().position(|name| name == known))
        };
        let word = options.word_column.or_else(|| find(WORD));
        let text = find(TEXT).filter(|text| Some(*text) != word);
        let tags = match &options.tag_columns {
            Some(columns) => columns.clone(),
            None => find(TAGS).into_iter().collect(),
        };
        if tags.iter().chain(&word).any(|column| *column >= width) {
            return None;
        }
        let is_named = (word.is_some() || text.is_some()) && !tags.is_empty();
        let is_chosen = options.word_column.is_some() && options.tag_columns.is_some();
        if !is_named && !is_chosen {
            return Self::without_header(records, separator, width);
        }
        let is_header = |column: usize| !multi::is_tag_or_list(&first.fields[column]);
        let has_header = find(TAGS).is_some() || tags.iter().all(|tag| is_header(*tag));
        let body = &records[usize::from(has_header)..];
        let record = record_is(body, word.or(text)?, tags[0], text.is_some());
        let sentence = (record == RecordIs::Word)
            .then(|| sentence_column(&names, body, word.or(text), &tags))
            .flatten();
        let mut columns = Self {
            separator,
            has_header,
            width,
            record,
            word,
            text,
            tags,
            sentence,
            pos: options
                .pos_column
                .or_else(|| find(POS))
                .filter(|column| *column < width),
            document: find(DOCUMENT),
        };
        if columns.record == RecordIs::Word && columns.word.is_none() {
            (columns.word, columns.text) = (columns.text, None);
        }
        let known = [
            columns.word,
            columns.text,
            columns.sentence,
            columns.pos,
            columns.document,
        ];
        let points = known.iter().flatten().count() + columns.tags.len();
        Some((points, columns))
    }

    /// A file of words and tags whose columns have no known names: the tags are the last column that mostly holds them.
    fn without_header(records: &[Record], separator: char, width: usize) -> Option<(usize, Self)> {
        // Not the first record, which may have names that are not known.
        let body = if records.len() > 1 {
            &records[1..]
        } else {
            records
        };
        let cells = |column: usize| {
            let fitting = body
                .iter()
                .filter(move |record| record.fields.len() == width);
            fitting.map(move |record| record.fields[column].trim())
        };
        let share = |column: usize, is: fn(&str) -> bool| {
            cells(column).filter(|cell| is(cell)).count() * 10 >= cells(column).count() * 9
        };
        let fitting = records
            .iter()
            .filter(|record| record.fields.len() == width)
            .count();
        if fitting * 10 < records.len() * 9 {
            return None;
        }
        let tag = (0..width)
            .rev()
            .find(|column| share(*column, multi::is_tag_or_list))?;
        let is_number = |cell: &str| cell.bytes().all(|byte| byte.is_ascii_digit());
        let word = (0..width).find(|column| *column != tag && !share(*column, is_number))?;
        // A tag without a mark in the first record is not a name if others are like it; names are not numbers.
        let first = &records[0].fields;
        let has_header = !multi::is_tag_or_list(first[tag].trim())
            && cells(tag).all(multi::is_tag_or_list)
            && !first.iter().any(|cell| !cell.is_empty() && is_number(cell));
        let columns = Self {
            separator,
            has_header,
            width,
            record: RecordIs::Word,
            word: Some(word),
            text: None,
            tags: vec![tag],
            sentence: None,
            pos: None,
            document: None,
        };
        Some((1, columns))
    }
}

/// The column that gives the sentence of each word, by its name. It must not be different in every record.
fn sentence_column(
    names: &[String],
    records: &[Record],
    word: Option<usize>,
    tags: &[usize],
) -> Option<usize> {
    let is_free = |column: &usize| Some(*column) != word && !tags.contains(column);
    let mut candidates = SENTENCE
        .iter()
        .filter_map(|known| names.iter().position(|name| name == known))
        .filter(is_free);
    candidates.find(|column| {
        let cell = |index: usize| records[index].fields.get(*column).map(|cell| cell.trim());
        let continues = |index: usize| cell(index) == Some("") || cell(index) == cell(index - 1);
        records.len() < 2 || (1..records.len()).any(continues)
    })
}

/// What the records are, by the cells of the first tag column.
fn record_is(records: &[Record], words: usize, tags: usize, has_text: bool) -> RecordIs {
    let mut is_empty_list = false;
    for record in records {
        let Some(cell) = record.fields.get(tags).map(|cell| cell.trim()) else {
            continue;
        };
        if cell.starts_with(['[', '{', '(']) || cell.starts_with("array(") {
            let Ok(value) = python_literal::parse(cell) else {
                continue;
            };
            match value.as_array().map(|list| list.first()) {
                // A dictionary, such as `{"entities": []}`.
                None => return RecordIs::Text,
                Some(None) => is_empty_list = true,
                Some(Some(first)) if first.is_array() || first.is_object() => {
                    return RecordIs::Text;
                }
                Some(Some(_)) => return RecordIs::Sentence,
            }
        } else if cell.contains(char::is_whitespace) {
            let is_tag =
                |tag: &str| is_outside(tag) || multi::is_tag_or_list(tag) || is_number(tag);
            let count = record
                .fields
                .get(words)
                .map_or(0, |text| text.split_whitespace().count());
            let tags: Vec<&str> = cell.split_whitespace().collect();
            if tags.iter().all(|tag| is_tag(tag)) || (count > 1 && count == tags.len()) {
                return RecordIs::Sentence;
            }
        }
    }
    match (is_empty_list, has_text) {
        (true, true) => RecordIs::Text,
        (true, false) => RecordIs::Sentence,
        (false, _) => RecordIs::Word,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The message about a file whose columns are not known.
pub(super) fn unknown(text: &str) -> String {
    let separator = SEPARATORS
        .into_iter()
        .max_by_key(|separator| {
            Table::new(text, *separator)
                .next()
                .map_or(0, |record| record.map_or(0, |r| r.fields.len()))
        })
        .unwrap_or(',');
    let first = Table::new(text, separator)
        .map_while(Result::ok)
        .find(|record| !record.fields.is_empty());
    let names: Vec<String> = (first.iter().flat_map(|record| &record.fields).take(50))
        .map(|name| format!("`{}`", name.chars().take(40).collect::<String>()))
        .collect();
    format!(
        "the first line has the columns {}, and none of them holds tags; name them, for example, `sentence_id`, `word` and `tag` \
         for a word in each line, or `text` and `labels` or `entities` for a sentence in each line, or give --word-column and \
         --tag-column, counted from 0",
        names.join(", ")
    )
}
