//! Finding the tag column of a file whose tags are not like `B-PER`.

use std::collections::HashSet;

use crate::data::ReadOptions;
use crate::data::tags::style::TagStyle;

/// The last column of a file that certainly holds tags in another spelling than `B-PER`: `PER-B`, `B_PER`, `B`, brackets,
/// numbers whose names are given, or types without marks (Few-NERD). `is_whole` says that all rows of the file have the
/// same number of columns.
pub(super) fn find(
    rows: &[&[&str]],
    word: usize,
    tabs: bool,
    is_whole: bool,
    options: &ReadOptions,
) -> Option<usize> {
    let width = rows.first()?.len();
    let is_tags = |column: &usize| {
        let cells = rows.iter().map(|row| row[*column]);
        // In a text, this saves the closer look.
        let has_outside = || cells.clone().any(|cell| matches!(cell, "O" | "o" | "*"));
        if options.labels.is_none() && !has_outside() {
            return false;
        }
        match TagStyle::detect(cells.clone(), options.labels.as_deref()) {
            Ok(TagStyle::Variant | TagStyle::Suffixed | TagStyle::Bare) => {
                cells.clone().any(|cell| matches!(cell, "O" | "o"))
            }
            Ok(TagStyle::Index(_)) => true,
            Ok(TagStyle::Bracketed) => cells.clone().any(|cell| cell == "*"),
            Ok(TagStyle::Plain) => is_whole && are_types(cells, tabs),
            _ => false,
        }
    };
    let mut found = (0..width)
        .rev()
        .filter(|column| *column != word)
        .filter(is_tags);
    let last = found.next()?;
    // A parse has brackets like those of entities.
    let is_bracketed = |column: usize| {
        let cells = rows.iter().map(|row| row[column]);
        TagStyle::detect(cells, None) == Ok(TagStyle::Bracketed)
    };
    let is_ambiguous = is_bracketed(last) && found.any(is_bracketed);
    (!is_ambiguous).then_some(last)
}

/// True when enough words are outside every entity, and the others have few types that look like names.
fn are_types<'a>(cells: impl Iterator<Item = &'a str> + Clone, tabs: bool) -> bool {
    let all = cells.clone().count();
    let outside = cells.clone().filter(|cell| *cell == "O").count();
    let types: HashSet<&str> = cells.filter(|cell| *cell != "O").collect();
    let is_type = |cell: &&str| {
        cell.starts_with(char::is_alphabetic) && !cell.ends_with(['.', ',', ':', ';', '!', '?'])
    };
    // Prose with a fixed number of words per line may have an `O` by chance.
    let least = if tabs { 10 } else { 3 };
    outside * least >= all && types.len() * 2 <= all.max(4) && types.iter().all(is_type)
}
