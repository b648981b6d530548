//! The columns of a CoNLL-U file, and the keys of its column MISC.

use crate::data::ReadOptions;
use crate::data::columns::header::ColumnHeader;
use crate::data::source::Source;

/// The columns of a CoNLL-U or CoNLL-U Plus file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConlluColumns {
    /// True when fields are separated by tabs, false when by white space.
    tabs: bool,
    /// Number of columns.
    pub width: usize,
    /// Column of the word numbers.
    pub id: usize,
    /// Column of the words.
    pub form: usize,
    /// Column of the part-of-speech tags.
    pub pos: Option<usize>,
    /// Column of the further annotations.
    pub misc: Option<usize>,
    /// Columns of tags; empty when the tags are in MISC.
    pub tags: Vec<usize>,
}

impl ConlluColumns {
    /// The columns by the options, the line `# global.columns`, or the ten of CoNLL-U.
    pub fn of(source: &Source, options: &ReadOptions) -> Result<Self, String> {
        let (mut with_tabs, mut without) = (0, 0);
        for line in source.lines().filter_map(|line| line.text.ok()) {
            if !line.starts_with('#') && !line.trim().is_empty() {
                if line.contains('\t') {
                    with_tabs += 1;
                } else {
                    without += 1;
                }
            }
        }
        let header = ColumnHeader::find(source);
        let columns = match header {
            None => Self {
                tabs: with_tabs >= without,
                width: 10,
                id: 0,
                form: options.word_column.unwrap_or(1),
                pos: options.pos_column.or(Some(3)),
                misc: Some(9),
                tags: options.tag_columns.clone().unwrap_or_default(),
            },
            Some(header) => {
                let missing = |name: &str| {
                    format!(
                        "the line `# global.columns` has no {name}, which every CoNLL-U Plus file needs; add it"
                    )
                };
                Self {
                    tabs: with_tabs >= without,
                    width: header.width,
                    id: header.id.ok_or_else(|| missing("ID"))?,
                    form: (options.word_column.or(header.word)).ok_or_else(|| missing("FORM"))?,
                    pos: options.pos_column.or(header.upos).or(header.pos),
                    misc: header.misc,
                    tags: (options.tag_columns.clone().or(header.tags)).unwrap_or_default(),
                }
            }
        };
        let used = [columns.form].into_iter().chain(columns.pos);
        match used.chain(columns.tags.iter().copied()).max() {
            Some(column) if column >= columns.width => Err(format!(
                "there is no column {column} (counted from 0); rows have {} columns",
                columns.width
            )),
            _ => Ok(columns),
        }
    }

    /// Splits a row into fields; `None` when it has another number of them.
    pub fn fields<'a>(&self, line: &'a str) -> Result<Vec<&'a str>, usize> {
        let mut fields: Vec<&str> = if self.tabs {
            line.split('\t')
                .map(|field| field.trim_matches(' '))
                .collect()
        } else {
            line.split_whitespace().collect()
        };
        if fields.len() == self.width + 1 && fields.last() == Some(&"") {
            fields.pop();
        }
        if fields.len() == self.width {
            Ok(fields)
        } else {
            Err(fields.len())
        }
    }

    /// The value of a key of MISC.
    pub fn misc<'a>(&self, row: &[&'a str], key: &str) -> Option<&'a str> {
        pairs(row[self.misc?])
            .find_map(|(name, value)| name.eq_ignore_ascii_case(key).then_some(value))
    }
}

/// The keys and values of MISC.
pub(super) fn pairs(misc: &str) -> impl Iterator<Item = (&str, &str)> {
    misc.split('|').filter_map(|pair| pair.split_once('='))
}
