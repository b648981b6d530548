//! Choosing the tag columns of a column file, and how their tags are spelled.

use std::collections::BTreeSet;

use super::layout::{LayoutError, Sample};
use crate::data::ReadOptions;
use crate::data::tags::multi::{self, CellReading};
use crate::data::tags::scheme::TagScheme;
use crate::data::tags::style::{StyleError, TagStyle};

/// The labels of phrase chunks, which CoNLL files have in addition to entities.
const CHUNKS: [&str; 17] = [
    "NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "INTJ", "CONJP", "LST", "UCP", "NC", "VC",
    "PC", "ADVC", "ADJC", "CC",
];

pub(super) fn mostly_tags(rows: &[&[&str]], column: usize) -> bool {
    let tags = rows
        .iter()
        .filter(|row| multi::is_tag_or_list(row[column]))
        .count();
    tags * 2 > rows.len()
}

pub(super) fn labels<'a>(rows: &[&[&'a str]], column: usize) -> BTreeSet<&'a str> {
    rows.iter()
        .flat_map(|row| multi::labels_of(row[column]))
        .collect()
}

/// The last of the columns that look like tags and have entities, and the ones left of it that are further layers: all of
/// them when the words are numbered (GermEval) or when columns without entities follow, which leave room for deeper layers;
/// else those that share an entity type with it, because chunk columns look like tags too.
pub(super) fn choose_tag_columns(
    rows: &[&[&str]],
    tag_like: &[usize],
    numbered: bool,
) -> Vec<usize> {
    let has_entities = |column: &usize| rows.iter().any(|row| row[*column] != "O");
    let count = tag_like.iter().rposition(has_entities).map(|last| last + 1);
    let padded = count.is_some_and(|count| count < tag_like.len());
    let used = &tag_like[..count.unwrap_or(tag_like.len())];
    let Some(last) = used.last() else {
        return Vec::new();
    };
    let known = labels(rows, *last);
    let mut tags: Vec<usize> = used
        .iter()
        .rev()
        .skip(1)
        .copied()
        .take_while(|column| {
            numbered
                || (padded && !are_chunks(rows, *column))
                || !labels(rows, *column).is_disjoint(&known)
        })
        .collect();
    tags.reverse();
    tags.push(*last);
    tags
}

/// The last of several tag columns if it repeats most entities of the one before, as the predictions in the output of
/// taggers do. Layers of nested entities do not repeat each other.
pub(super) fn prediction_column(rows: &[&[&str]], tags: &[usize]) -> Option<usize> {
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
pub(super) fn detect_style(
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

pub(super) fn detect_scheme(
    sample: &Sample,
    width: usize,
    tags: &[usize],
    style: &TagStyle,
) -> TagScheme {
    let sequences = sample.iter().flat_map(|sentence| {
        tags.iter().map(move |column| {
            let rows = sentence.iter().filter(move |row| row.len() == width);
            rows.map(move |row| row[*column])
        })
    });
    style.detect_scheme(sequences)
}

/// True when all tags of a column are those of phrase chunks.
pub(super) fn are_chunks(rows: &[&[&str]], column: usize) -> bool {
    let mut labels = labels(rows, column).into_iter();
    labels.all(|label| CHUNKS.contains(&label))
}
