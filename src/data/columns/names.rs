//! A first row that names the columns, as in the files of HIPE: `TOKEN NE-COARSE-LIT NE-COARSE-METO ...`.

use super::header::ColumnHeader;
use crate::data::csv::names::{TAGS, WORD, normalised};
use crate::data::tags::multi;

/// True for a row that names a column of words and one of tags, and has no tag itself.
pub(super) fn are_names(row: &[&str]) -> bool {
    row.iter().any(|name| is_word(name))
        && row.iter().any(|name| is_tags(name))
        && !row.iter().any(|name| multi::is_tag_or_list(name))
}

fn is_word(name: &str) -> bool {
    WORD.contains(&normalised(name).as_str())
}

fn is_tags(name: &str) -> bool {
    let name = normalised(name);
    TAGS.contains(&name.as_str()) || name.starts_with("necoarse") || name.starts_with("nefine")
}

/// The columns of words and, in HIPE, of the literal coarse types; other tag columns are found by their tags.
pub(super) fn header(row: &[&str]) -> ColumnHeader {
    let tags = row
        .iter()
        .position(|name| normalised(name) == "necoarselit")
        .or_else(|| row.iter().position(|name| is_tags(name)));
    ColumnHeader {
        width: row.len(),
        word: row.iter().position(|name| is_word(name)),
        tags: tags.map(|column| vec![column]),
        ..ColumnHeader::default()
    }
}
