//! Detecting the content of the columns of a column file.

use std::collections::{BTreeSet, HashMap};

use super::header::ColumnHeader;
use super::inline::{self, Inline};
use super::{conll_2012, names, unmarked};
use crate::data::ReadOptions;
use crate::data::source::Source;
use crate::data::tags::bio::{self, TagProblem};
use crate::data::tags::multi::{self, CellReading};
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

/// The labels of phrase chunks, which CoNLL files have in addition to entities.
const CHUNKS: [&str; 17] = [
    "NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "INTJ", "CONJP", "LST", "UCP", "NC", "VC",
    "PC", "ADVC", "ADJC", "CC",
];

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
            .filter(|column| !labels(&rows, *column).iter().all(|l| CHUNKS.contains(l)))
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

/// True when the first column numbers the words of each sentence from 1, in at least 90 % of the rows.
fn has_word_numbers(sample: &Sample) -> bool {
    let (mut rows, mut consecutive, mut beyond_one) = (0, 0, false);
    for sentence in sample {
        let mut previous = 0;
        for row in sentence.iter().filter(|row| !is_range(row[0])) {
            rows += 1;
            let number = row[0].parse::<usize>().unwrap_or(0);
            if number > 0 && number == previous + 1 {
                consecutive += 1;
                beyond_one |= number > 1;
            }
            previous = number;
        }
    }
    beyond_one && consecutive * 10 >= rows * 9
}

/// True when the first column has the numbers of sentence and word in every row, as in WebAnno's TSV 2: `1-1`, `1-2`.
fn has_paired_numbers(sample: &Sample) -> bool {
    sample.iter().all(|sentence| {
        (1..).zip(sentence).all(|(number, row)| {
            let pair = row[0].split_once('-');
            row.len() >= 3
                && is_range(row[0])
                && pair.is_some_and(|(_, word)| word.parse() == Ok(number))
        })
    })
}

/// True for the word numbers of CoNLL-U's multiword tokens (`3-4`) and empty nodes (`3.1`).
pub(super) fn is_range(id: &str) -> bool {
    id.split_once(['-', '.']).is_some_and(|(from, to)| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        number(from) && number(to)
    })
}

/// The last of several tag columns if it repeats most entities of the one before, as the predictions in the output of
/// taggers do. Layers of nested entities do not repeat each other.
fn prediction_column(rows: &[&[&str]], tags: &[usize]) -> Option<usize> {
    let [.., gold, predicted] = tags else {
        return None;
    };
    let both = rows
        .iter()
        .map(|row| (row[*gold], row[*predicted]))
        .filter(|tags| *tags != ("O", "O"));
    let (mut equal, mut all) = (0, 0);
    for (gold, predicted) in both {
        all += 1;
        equal += usize::from(gold == predicted);
    }
    (equal > 1 && equal * 2 > all).then_some(*predicted)
}

/// How the tags are spelled. Tags that fit no spelling are read as marks with types, which reports every wrong one.
fn detect_style(
    rows: &[&[&str]],
    tags: &[usize],
    options: &ReadOptions,
) -> Result<TagStyle, LayoutError> {
    let cells = || {
        rows.iter()
            .flat_map(|row| tags.iter().map(|column| row[*column]))
    };
    match TagStyle::detect(cells(), options.labels.as_deref()) {
        Ok(style) => Ok(style),
        Err(StyleError::NotTags(_)) => Ok(TagStyle::Marked(CellReading::decide(cells()))),
        Err(error) => Err(LayoutError::Numbers(error)),
    }
}

/// The language and colon with which every word begins in WikiANN, as in `en:Paris`.
fn language_prefix(rows: &[&[&str]], word: usize) -> Option<String> {
    let (language, _) = rows.first()?.get(word)?.split_once(':')?;
    let is_code = (2..=12).contains(&language.len())
        && language
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let prefix = format!("{language}:");
    let mut words = rows.iter().map(|row| row[word]);
    (is_code && rows.len() > 1 && words.all(|word| word.starts_with(&prefix))).then_some(prefix)
}

fn mostly_tags(rows: &[&[&str]], column: usize) -> bool {
    let tags = rows
        .iter()
        .filter(|row| multi::is_tag_or_list(row[column]))
        .count();
    tags * 2 > rows.len()
}

fn labels<'a>(rows: &[&[&'a str]], column: usize) -> BTreeSet<&'a str> {
    rows.iter()
        .flat_map(|row| multi::labels_of(row[column]))
        .collect()
}

/// The last of the columns that look like tags and have entities, and the ones left of it that are further layers: all of
/// them when the words are numbered (GermEval) or when columns without entities follow, which leave room for deeper layers;
/// else those that share an entity type with it, because chunk columns look like tags too.
fn choose_tag_columns(rows: &[&[&str]], tag_like: &[usize], numbered: bool) -> Vec<usize> {
    let has_entities = |column: &usize| rows.iter().any(|row| row[*column] != "O");
    let count = tag_like.iter().rposition(has_entities).map(|last| last + 1);
    let padded = count.is_some_and(|count| count < tag_like.len());
    let used = &tag_like[..count.unwrap_or(tag_like.len())];
    let Some(last) = used.last() else {
        return Vec::new();
    };
    let known = labels(rows, *last);
    let are_chunks = |column: &usize| labels(rows, *column).iter().all(|l| CHUNKS.contains(l));
    let mut tags: Vec<usize> = used
        .iter()
        .rev()
        .skip(1)
        .copied()
        .take_while(|column| {
            numbered
                || (padded && !are_chunks(column))
                || !labels(rows, *column).is_disjoint(&known)
        })
        .collect();
    tags.reverse();
    tags.push(*last);
    tags
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

fn detect_scheme(sample: &Sample, width: usize, tags: &[usize], style: &TagStyle) -> TagScheme {
    let sequences = sample.iter().flat_map(|sentence| {
        tags.iter().map(move |column| {
            let rows = sentence.iter().filter(move |row| row.len() == width);
            rows.map(move |row| row[*column])
        })
    });
    style.detect_scheme(sequences)
}

/// Splits a character from its position in its word, as in WeiboNER's `科0 技1`; the number may have several digits.
/// Characters that were lost in an earlier conversion are written as two replacement characters.
pub(super) fn split_position(word: &str) -> Option<(&str, usize)> {
    let lost = "\u{fffd}\u{fffd}";
    let length = if word.starts_with(lost) {
        lost.len()
    } else {
        word.chars().next()?.len_utf8()
    };
    let (character, number) = word.split_at(length);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| number.parse().ok())
        .flatten()
        .map(|number| (character, number))
}

/// True when every word of the file is a character with a position, and every sentence starts at position 0.
fn has_positions(sample: &Sample, column: usize) -> bool {
    sample.iter().all(|sentence| {
        let mut words = sentence.iter().filter_map(|row| row.get(column));
        let starts = words
            .clone()
            .next()
            .is_some_and(|word| matches!(split_position(word), Some((_, 0))));
        starts && words.all(|word| split_position(word).is_some())
    })
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

    #[test]
    fn positions_are_split_from_the_character() {
        assert_eq!(split_position("科0"), Some(("科", 0)));
        assert_eq!(split_position("913"), Some(("9", 13)));
        assert_eq!(split_position("ab1"), None);
        assert_eq!(split_position("a"), None);
        assert_eq!(split_position(""), None);
    }
}
