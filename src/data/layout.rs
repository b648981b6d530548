//! Finding out what the columns of a column file hold.

use std::collections::{BTreeSet, HashMap};

use super::Options;
use super::bio::{self, Scheme};
use super::header::Header;
use super::source::Source;

/// What the columns of a file hold. Columns count from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Fields are separated by tabs; else by any ASCII white space.
    pub tabs: bool,
    /// How many columns a row has.
    pub width: usize,
    /// The column of the word.
    pub word: usize,
    /// The columns of tags, one a layer.
    pub tags: Vec<usize>,
    /// The column of the part of speech.
    pub pos: Option<usize>,
    /// The column that numbers the words of a sentence.
    pub id: Option<usize>,
    /// The scheme of the tags.
    pub scheme: Scheme,
    /// Words carry a number that counts characters within a word.
    pub strip_digit: bool,
    /// Columns that look like tags but were left out.
    pub left_out: Vec<usize>,
}

/// Sentences of rows of fields: what a file plainly shows before anything is known about its columns.
type Sample<'a> = Vec<Vec<Vec<&'a str>>>;

/// The labels of phrase chunks, which CoNLL files carry beside the entities.
const CHUNKS: [&str; 17] = [
    "NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "INTJ", "CONJP", "LST", "UCP", "NC", "VC",
    "PC", "ADVC", "ADJC", "CC",
];

impl Layout {
    /// The layout of a file: what the options say, then what a `# global.columns` line says, then what the rows
    /// look like. `Ok(None)` when the file has no rows; the error is a message.
    pub fn find(source: &Source, options: &Options) -> Result<Option<Self>, String> {
        let tabs = separated_by_tabs(source);
        let sample = sample(source, tabs);
        let Some(width) = usual_width(&sample) else {
            return Ok(None);
        };
        let header = Header::find(source).filter(|header| header.width == width);
        let header = header.unwrap_or_default();
        let rows: Vec<&[&str]> = sample
            .iter()
            .flatten()
            .map(Vec::as_slice)
            .filter(|row| row.len() == width)
            .collect();

        let id = header.id.or_else(|| {
            let free = options.word_column != Some(0) && header.word.is_none();
            (free && width >= 3 && numbered(&sample)).then_some(0)
        });
        let word = options
            .word_column
            .or(header.word)
            .unwrap_or(usize::from(id == Some(0)));
        let looks: Vec<usize> = (0..width)
            .filter(|column| *column != word && mostly_tags(&rows, *column))
            .collect();
        let tags = match options.tag_columns.clone().or(header.tags) {
            Some(tags) => tags,
            None => choose(&rows, &looks, id.is_some()),
        };
        let pos = options.pos_column.or(header.pos).or_else(|| {
            // CoNLL-2003: word, part of speech, chunk, entity.
            (id.is_none() && word == 0 && tags == [3] && looks.contains(&2)).then_some(1)
        });
        check_columns(width, word, &tags, pos, &rows)?;
        let scheme = options
            .scheme
            .unwrap_or_else(|| scheme(&sample, width, &tags));
        let strip_digit = options
            .strip_digit
            .unwrap_or_else(|| counts_characters(&sample, word));
        let named = options.tag_columns.is_some();
        let left_out = looks
            .into_iter()
            .filter(|column| !named && !tags.contains(column))
            .filter(|column| !labels(&rows, *column).iter().all(|l| CHUNKS.contains(l)))
            .collect();
        Ok(Some(Self {
            tabs,
            width,
            word,
            tags,
            pos,
            id,
            scheme,
            strip_digit,
            left_out,
        }))
    }

    /// The fields of a row.
    pub fn fields<'a>(&self, line: &'a str) -> Vec<&'a str> {
        fields(line, self.tabs)
    }

    /// True when the row is as wide as the file and holds tags where tags belong.
    pub fn fits(&self, row: &[&str]) -> bool {
        row.len() == self.width && self.tags.iter().all(|column| bio::is_tag(row[*column]))
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

/// Lines that may be comments are no evidence for anything.
fn plain_lines(source: &Source) -> impl Iterator<Item = &str> {
    source
        .lines()
        .filter_map(|line| line.text.ok())
        .filter(|text| !text.starts_with('#') && !text.starts_with("-DOCSTART-"))
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
        // Nothing but words that start with `#`, perhaps.
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

/// True for `# text = ...`, GermEval's `#<tab>source` and CoNLL-2012's `#begin document`; not for a hashtag.
pub(super) fn is_comment(line: &str) -> bool {
    line.strip_prefix('#').is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with([' ', '\t', '#'])
            || rest.starts_with("begin document")
            || rest.starts_with("end document")
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

/// Most rows count on from the row before, or start at 1.
fn numbered(sample: &Sample) -> bool {
    let (mut rows, mut good, mut beyond_one) = (0, 0, false);
    for sentence in sample {
        let mut previous = 0;
        for row in sentence.iter().filter(|row| !is_range(row[0])) {
            rows += 1;
            let number = row[0].parse::<usize>().unwrap_or(0);
            if number > 0 && number == previous + 1 {
                good += 1;
                beyond_one |= number > 1;
            }
            previous = number;
        }
    }
    beyond_one && good * 10 >= rows * 9
}

/// True for the numbers of CoNLL-U's multiword tokens (`3-4`) and empty nodes (`3.1`).
pub(super) fn is_range(id: &str) -> bool {
    id.split_once(['-', '.']).is_some_and(|(from, to)| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        number(from) && number(to)
    })
}

fn mostly_tags(rows: &[&[&str]], column: usize) -> bool {
    let tags = rows.iter().filter(|row| bio::is_tag(row[column])).count();
    tags * 2 > rows.len()
}

fn labels<'a>(rows: &[&[&'a str]], column: usize) -> BTreeSet<&'a str> {
    rows.iter()
        .filter_map(|row| bio::label_of(row[column]))
        .collect()
}

/// The last column of tags, and those left of it that are further layers: all of them when the words are
/// numbered (GermEval), else only such as share a type with it, because chunk columns hold tags too.
fn choose(rows: &[&[&str]], looks: &[usize], numbered: bool) -> Vec<usize> {
    let Some(last) = looks.last() else {
        return Vec::new();
    };
    let known = labels(rows, *last);
    let mut tags: Vec<usize> = looks
        .iter()
        .rev()
        .skip(1)
        .copied()
        .take_while(|column| numbered || !labels(rows, *column).is_disjoint(&known))
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
) -> Result<(), String> {
    let first = rows.first().map(|row| row.join(" ")).unwrap_or_default();
    if tags.is_empty() {
        return Err(format!(
            "no column looks like tags (`O`, `B-PER`, `I-PER`, ...); the first row is `{first}`. Name the column \
             with tag_columns, counted from 0, or another format with --format"
        ));
    }
    let asked = [word].into_iter().chain(tags.iter().copied()).chain(pos);
    match asked.max() {
        Some(column) if column >= width => Err(format!(
            "there is no column {column} (counted from 0); rows have {width} columns, the first is `{first}`"
        )),
        _ if tags.contains(&word) => Err(format!(
            "column {word} cannot be both word and tag; set word_column and tag_columns, counted from 0"
        )),
        _ => Ok(()),
    }
}

fn scheme(sample: &Sample, width: usize, tags: &[usize]) -> Scheme {
    let sequences = sample.iter().flat_map(|sentence| {
        tags.iter().map(move |column| {
            let rows = sentence.iter().filter(move |row| row.len() == width);
            rows.map(move |row| row[*column])
        })
    });
    Scheme::detect(sequences)
}

/// A character and its position within its word, as in WeiboNER's `科0 技1`; the number may have several digits.
/// A character that was lost in an earlier conversion stands there as two replacement characters.
pub(super) fn cut_position(word: &str) -> Option<(&str, usize)> {
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

/// Every word of the file is a character with a position, and every sentence starts at position 0.
fn counts_characters(sample: &Sample, column: usize) -> bool {
    sample.iter().all(|sentence| {
        let mut words = sentence.iter().filter_map(|row| row.get(column));
        let starts = words
            .clone()
            .next()
            .is_some_and(|word| matches!(cut_position(word), Some((_, 0))));
        starts && words.all(|word| cut_position(word).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(content: &str) -> Layout {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, content).unwrap();
        let source = Source::open(&path).unwrap();
        Layout::find(&source, &Options::default()).unwrap().unwrap()
    }

    #[test]
    fn chunks_are_no_layer_and_no_news() {
        let found = layout("EU NNP B-NP B-ORG\nsays VBZ B-VP O\n");
        assert_eq!((found.word, found.pos, found.tags), (0, Some(1), vec![3]));
        assert!(found.left_out.is_empty());
        let found = layout("EU B-GPE B-ORG\nsays O O\n");
        assert_eq!((found.tags, found.left_out), (vec![2], vec![1]));
    }

    #[test]
    fn numbers_are_no_words() {
        let found = layout("1\ta\tO\tB-X\n2\tb\tB-Y\tO\n\n1\tc\tO\tO\n");
        assert_eq!((found.id, found.word), (Some(0), 1));
        assert_eq!(found.tags, [2, 3]);
        let found = layout("10 CD O\n20 CD B-X\n");
        assert_eq!((found.id, found.word), (None, 0));
    }

    #[test]
    fn a_named_layout_is_taken_at_its_word() {
        let found = layout("# global.columns = NER FORM NER:2 UPOS\nO\tB-x\tO\tN\n");
        assert_eq!((found.word, found.pos), (1, Some(3)));
        assert_eq!(found.tags, [0, 2]);
    }

    #[test]
    fn positions_are_cut_after_the_character() {
        assert_eq!(cut_position("科0"), Some(("科", 0)));
        assert_eq!(cut_position("913"), Some(("9", 13)));
        assert_eq!(cut_position("ab1"), None);
        assert_eq!(cut_position("a"), None);
        assert_eq!(cut_position(""), None);
    }
}
