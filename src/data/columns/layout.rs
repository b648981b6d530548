//! Detecting the content of the columns of a column file.

use std::collections::HashMap;

use super::header::ColumnHeader;
use super::inline::{self, Inline};
use super::tag_columns::{
    are_chunks, choose_tag_columns, detect_scheme, detect_style, mostly_tags, prediction_column,
};
use super::word_column::{has_paired_numbers, has_positions, has_word_numbers, language_prefix};
use super::{conll_2012, names, unmarked};
use crate::data::ReadOptions;
use crate::data::source::Source;
use crate::data::tags::bio::{self, TagProblem};
use crate::data::tags::scheme::TagScheme;
use crate::data::tags::style::{StyleError, TagStyle};
use crate::text::Entity;

/// The layout of a column file: which column holds what. Columns count from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) struct ColumnLayout {
    /// True when fields are separated by tabs, false when by any ASCII white space.
    pub tabs: bool,
    /// Number of columns.
    pub width: usize,
    /// Column of the words.
    pub word: usize,
    /// Columns of the entity tags, one per layer.
    pub tags: Vec<usize>,
    /// Column of the part-of-speech tags.
    pub pos: Option<usize>,
    /// Column of the word numbers.
    pub id: Option<usize>,
    /// How the cells of the tag columns are spelled.
    pub style: TagStyle,
    /// Tagging scheme.
    pub scheme: TagScheme,
    /// True when every word ends in the index of a character in its word (WeiboNER), which has to be removed.
    pub strip_digit: bool,
    /// The language and colon before every word (WikiANN), which have to be removed.
    pub prefix: Option<String>,
    /// Columns that look like entity tags but are not used.
    pub ignored: Vec<usize>,
    /// The column of predictions next to that of the tags, which is not used.
    pub predicted: Option<usize>,
    /// True when rows may have more columns than `width`, which are not used (CoNLL-2012).
    pub open_ended: bool,
    /// The first row if it names the columns, with tabs between the names.
    pub names: Option<String>,
    /// How the words of a line are separated from their tags, in files with one sentence per line.
    pub inline: Option<Inline>,
}

/// Why no layout fits a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::data) enum LayoutError {
    /// No column has tags.
    #[error(
        "no column looks like tags (`O`, `B-PER`, `I-PER`, ...); the first row is `{first_row}`. Name the column with \
         --tag-column (`tag_columns` in a recipe), counted from 0, or another format with --format"
    )]
    NoTags { first_row: String },
    /// An option names a column that does not exist.
    #[error(
        "there is no column {column} (counted from 0); rows have {width} columns, the first is `{first_row}`"
    )]
    NoSuchColumn {
        column: usize,
        width: usize,
        first_row: String,
    },
    /// The words' column is also a column of tags.
    #[error(
        "column {0} cannot be both word and tag; set --word-column and --tag-column, counted from 0"
    )]
    WordIsTag(usize),
    /// The tags are numbers without names, or with too few.
    #[error("the tag column {0}")]
    Numbers(StyleError),
}

/// Sentences of rows of fields, as sample to detect the layout from.
pub(super) type Sample<'a> = Vec<Vec<Vec<&'a str>>>;

/// How the line before a document starts: `-DOCSTART-` in CoNLL-2003, `-DOCSTART FILE` in KPWr.
pub(super) const DOCUMENT_START: &str = "-DOCSTART";

impl ColumnLayout {
    /// Determines the layout of a file from the options, then from a `# global.columns` line, then from its rows.
    /// `Ok(None)` when the file has no rows.
    pub fn detect(source: &Source, options: &ReadOptions) -> Result<Option<Self>, LayoutError> {
        let tabs = separated_by_tabs(source);
        let mut sample = sample(source, tabs);
        if conll_2012::detect(&sample) {
            for row in sample.iter_mut().flatten() {
                row.truncate(conll_2012::WIDTH);
            }
            return Self::of_sample(&sample, tabs, conll_2012::header(), true, options);
        }
        let header = ColumnHeader::find(source).unwrap_or_default();
        let names = sample.first().and_then(|rows| rows.first());
        if let Some(names) = names.filter(|row| names::are_names(row)).cloned() {
            sample[0].remove(0);
            sample.retain(|rows| !rows.is_empty());
            let header = names::header(&names);
            let layout = Self::of_sample(&sample, tabs, header, false, options)?;
            let names = Some(names.join("\t"));
            return Ok(layout.map(|layout| Self { names, ..layout }));
        }
        let layout = Self::of_sample(&sample, tabs, header, false, options);
        let Err(LayoutError::NoTags { .. }) = layout else {
            return layout;
        };
        let Some((inline, sample)) = inline::detect(source) else {
            return layout;
        };
        let header = ColumnHeader::default();
        let inside = Self::of_sample(&sample, false, header, false, options)?;
        Ok(inside.map(|layout| Self {
            inline: Some(inline),
            ..layout
        }))
    }

    fn of_sample(
        sample: &Sample,
        tabs: bool,
        header: ColumnHeader,
        open_ended: bool,
        options: &ReadOptions,
    ) -> Result<Option<Self>, LayoutError> {
        let Some(width) = usual_width(sample) else {
            return Ok(None);
        };
        let header = Some(header).filter(|header| header.width == width);
        let header = header.unwrap_or_default();
        let rows: Vec<&[&str]> = sample
            .iter()
            .flatten()
            .map(Vec::as_slice)
            .filter(|row| row.len() == width)
            .collect();

        let id = header.id.or_else(|| {
            let free = options.word_column != Some(0) && header.word.is_none();
            (free && width >= 3 && has_word_numbers(sample)).then_some(0)
        });
        let given_word = options.word_column.or(header.word);
        let is_numbered = id == Some(0) || has_paired_numbers(sample);
        let mut word = given_word.unwrap_or(usize::from(is_numbered));
        let tag_like: Vec<usize> = (0..width)
            .filter(|column| *column != word && mostly_tags(&rows, *column))
            .collect();
        let mut predicted = None;
        let tags = match options.tag_columns.clone().or(header.tags) {
            Some(tags) => tags,
            None => {
                let mut tags = choose_tag_columns(&rows, &tag_like, id.is_some());
                predicted = prediction_column(&rows, &tags);
                tags.retain(|column| Some(*column) != predicted);
                if tags.is_empty() && given_word.is_none() && width > 1 && mostly_tags(&rows, word)
                {
                    // The MIT corpora have the tag before the word.
                    tags.push(word);
                    word += 1;
                } else if tags.is_empty() {
                    let is_whole = sample.iter().flatten().count() == rows.len();
                    tags.extend(unmarked::find(&rows, word, tabs, is_whole, options));
                }
                tags
            }
        };
        let pos = options.pos_column.or(header.pos).or_else(|| {
            // CoNLL-2003: word, part of speech, chunk, entity.
            (id.is_none() && word == 0 && tags == [3] && tag_like.contains(&2)).then_some(1)
        });
        check_columns(width, word, &tags, pos, &rows)?;
        let style = if open_ended && options.tag_columns.is_none() {
            TagStyle::Bracketed
        } else {
            detect_style(&rows, &tags, options)?
        };
        let scheme = options
            .scheme
            .unwrap_or_else(|| detect_scheme(sample, width, &tags, &style));
        let strip_digit = options
            .strip_digit
            .unwrap_or_else(|| has_positions(sample, word));
        let given = options.tag_columns.is_some();
        let ignored = tag_like
            .into_iter()
            .filter(|column| !given && !tags.contains(column) && Some(*column) != predicted)
            .filter(|column| !are_chunks(&rows, *column))
            .collect();
        Ok(Some(Self {
            tabs,
            width,
            word,
            tags,
            pos,
            id,
            style,
            scheme,
            strip_digit,
            prefix: language_prefix(&rows, word),
            ignored,
            predicted,
            open_ended,
            names: None,
            inline: None,
        }))
    }

    /// Splits a line into fields.
    pub fn fields<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let mut fields = fields(line, self.tabs);
        if self.open_ended {
            fields.truncate(self.width);
        }
        fields
    }

    /// Decodes the cells of a tag column of a sentence, and lists all violations of the scheme.
    pub fn decode(&self, cells: &[&str]) -> (Vec<Entity>, Vec<TagProblem>) {
        match &self.style {
            // Unlike in other formats, a cell such as `_` does not stand for `O`.
            TagStyle::Marked(reading) => reading.decode(cells, self.scheme),
            style => style.decode(cells, self.scheme),
        }
    }

    /// True when the row has the right number of columns and tags in the tag columns.
    pub fn fits(&self, row: &[&str]) -> bool {
        let is_tag = |column: &usize| self.style.accepts(row[*column]);
        row.len() == self.width && self.tags.iter().all(is_tag)
    }
}

fn fields(line: &str, tabs: bool) -> Vec<&str> {
    if tabs {
        line.split('\t')
            .map(|field| field.trim_matches(' '))
            .collect()
    } else {
        line.split_ascii_whitespace().collect()
    }
}

/// The lines that are certainly not comments.
fn plain_lines(source: &Source) -> impl Iterator<Item = &str> {
    source
        .lines()
        .filter_map(|line| line.text.ok())
        .filter(|text| !text.starts_with('#') && !text.starts_with(DOCUMENT_START))
}

fn separated_by_tabs(source: &Source) -> bool {
    let (mut with, mut without) = (0, 0);
    for line in plain_lines(source).filter(|line| !line.trim().is_empty()) {
        if line.contains('\t') {
            with += 1
        } else {
            without += 1
        }
    }
    with > without
}

fn sample(source: &Source, tabs: bool) -> Sample<'_> {
    let mut sentences = vec![Vec::new()];
    for line in plain_lines(source) {
        if line.trim().is_empty() {
            sentences.push(Vec::new());
        } else if let Some(sentence) = sentences.last_mut() {
            sentence.push(fields(line, tabs));
        }
    }
    sentences.retain(|rows| !rows.is_empty());
    if sentences.is_empty() {
        // Perhaps all words start with `#`.
        let tabs = source.text().is_ok_and(|text| text.contains('\t'));
        let lines = source.lines().filter_map(|line| line.text.ok());
        let rows = lines
            .filter(|line| line.starts_with('#'))
            .map(|line| fields(line, tabs))
            .filter(|row| row.len() > 1 && row.last().is_some_and(|tag| bio::is_tag(tag)));
        sentences.extend(rows.map(|row| vec![row]));
    }
    sentences
}

/// True for `# text = ...`, GermEval's `#<tab>source`, CoNLL-2012's `#begin document` and WebAnno's `#id=1`; false for a
/// hashtag.
pub(super) fn is_comment(line: &str) -> bool {
    line.strip_prefix('#').is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with([' ', '\t', '#'])
            || rest.starts_with("begin document")
            || rest.starts_with("end document")
            || ["id=", "text=", "Text="]
                .iter()
                .any(|key| rest.starts_with(key))
    })
}

fn usual_width(sample: &Sample) -> Option<usize> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for row in sample.iter().flatten() {
        *counts.entry(row.len()).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(width, count)| (*count, *width))
        .map(|(width, _)| width)
}

fn check_columns(
    width: usize,
    word: usize,
    tags: &[usize],
    pos: Option<usize>,
    rows: &[&[&str]],
) -> Result<(), LayoutError> {
    let first_row = rows.first().map(|row| row.join(" ")).unwrap_or_default();
    if tags.is_empty() {
        return Err(LayoutError::NoTags { first_row });
    }
    let used = [word].into_iter().chain(tags.iter().copied()).chain(pos);
    match used.max() {
        Some(column) if column >= width => Err(LayoutError::NoSuchColumn {
            column,
            width,
            first_row,
        }),
        _ if tags.contains(&word) => Err(LayoutError::WordIsTag(word)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(content: &str) -> ColumnLayout {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let source = Source::open(&path).unwrap();
        ColumnLayout::detect(&source, &ReadOptions::default())
            .unwrap()
            .unwrap()
    }

    #[test]
    fn chunk_columns_are_ignored_silently() {
        let found = layout("EU NNP B-NP B-ORG\nsays VBZ B-VP O\n");
        assert_eq!((found.word, found.pos, found.tags), (0, Some(1), vec![3]));
        assert!(found.ignored.is_empty());
        let found = layout("EU B-GPE B-ORG\nsays O O\n");
        assert_eq!((found.tags, found.ignored), (vec![2], vec![1]));
    }

    #[test]
    fn word_numbers_are_not_words() {
        let found = layout("1\ta\tO\tB-X\n2\tb\tB-Y\tO\n\n1\tc\tO\tO\n");
        assert_eq!((found.id, found.word), (Some(0), 1));
        assert_eq!(found.tags, [2, 3]);
        let found = layout("10 CD O\n20 CD B-X\n");
        assert_eq!((found.id, found.word), (None, 0));
    }

    #[test]
    fn a_header_line_defines_the_layout() {
        let found = layout("# global.columns = NER FORM NER:2 UPOS\nO\tB-x\tO\tN\n");
        assert_eq!((found.word, found.pos), (1, Some(3)));
        assert_eq!(found.tags, [0, 2]);
    }
}
