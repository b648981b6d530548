//! The spellings of the tag of a word: with a mark before or after the type, with a mark only, as a number, without a mark,
//! with the number of the entity, or as brackets.

use std::borrow::Cow;
use std::collections::HashSet;

use super::bio::{self, TagProblem};
use super::brackets;
use super::multi::{self, CellReading};
use super::scheme::TagScheme;
use crate::text::Entity;

/// The most different types without marks; a column with more does not hold types.
const MOST_TYPES: usize = 500;

/// The type of entities whose tags have none.
pub(in crate::data) const NO_TYPE: &str = "ENTITY";

/// How the cells that give the tags of words are spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::data) enum TagStyle {
    /// A mark and a type, as in `B-PER`; several in one cell if the reading says so.
    Marked(CellReading),
    /// As [`Marked`](Self::Marked) with other characters, as in `b-per`, `B_PER` or `B:PER`.
    Variant,
    /// The mark after the type, as in `PER_B` (GiNZA).
    Suffixed,
    /// A mark without a type, as in `B`.
    Bare,
    /// Brackets around the words of an entity, as in `(PERSON*` and `*)` (CoNLL-2012).
    Bracketed,
    /// The types and numbers of the entities, as in `P_1-pf_2` (NameTag).
    Numbered,
    /// The index of a tag in a list of names.
    Index(Vec<String>),
    /// A type without a mark, on every word of an entity.
    Plain,
}

/// Why cells are not tags. Completes "column `tag` ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::data) enum StyleError {
    #[error(
        "has numbers instead of tags; give the names of the tags in the order of their numbers with --labels (`labels` in a \
         recipe)"
    )]
    NoNames,
    #[error("has the number {number}, but --labels names only {names} tags")]
    TooFewNames { number: usize, names: usize },
    #[error("has no tags such as `O` and `B-PER`, but for example `{0}`")]
    NotTags(String),
}

/// True for a cell that says that a word is outside every entity.
pub(in crate::data) fn is_outside(cell: &str) -> bool {
    matches!(
        cell,
        "" | "O" | "o" | "_" | "-" | "NONE" | "None" | "none" | "null" | "nan" | "NaN"
    )
}

impl TagStyle {
    /// Determines the style from all cells of a file. `names` are the names of tags that are given as numbers.
    pub fn detect<'a>(
        cells: impl Iterator<Item = &'a str> + Clone,
        names: Option<&[String]>,
    ) -> Result<Self, StyleError> {
        let inside = || cells.clone().filter(|cell| !is_outside(cell));
        let total = inside().count();
        let Some(example) = inside().next() else {
            return Ok(TagStyle::Marked(CellReading::default()));
        };
        let share = |is: fn(&str) -> bool| inside().filter(|cell| is(cell)).count();
        if share(|cell| cell.bytes().all(|byte| byte.is_ascii_digit())) == total {
            let names = names.ok_or(StyleError::NoNames)?;
            let largest = inside().filter_map(|cell| cell.parse().ok()).max();
            return match largest {
                Some(largest) if largest < names.len() => Ok(TagStyle::Index(names.to_vec())),
                largest => Err(StyleError::TooFewNames {
                    number: largest.unwrap_or(usize::MAX),
                    names: names.len(),
                }),
            };
        }
        if share(multi::is_tag_or_list) * 2 >= total {
            return Ok(TagStyle::Marked(CellReading::decide(cells)));
        }
        if share(brackets::is_cell) == total && inside().any(brackets::begins) {
            return Ok(TagStyle::Bracketed);
        }
        if share(|cell| with_standard_mark(cell).is_some()) == total
            && inside().any(|cell| cell.starts_with(['B', 'b', 'I', 'i']))
        {
            return Ok(TagStyle::Variant);
        }
        if share(|cell| with_mark_first(cell).is_some()) == total {
            return Ok(TagStyle::Suffixed);
        }
        let begins = |cell: &str| cell == "B" || (cell == "I" && cells.clone().any(is_outside));
        if share(is_mark) == total && inside().any(begins) {
            return Ok(TagStyle::Bare);
        }
        if share(|cell| numbered(cell).is_some()) == total {
            return Ok(TagStyle::Numbered);
        }
        let types: HashSet<&str> = inside().take(1_000_000).collect();
        let is_type = |cell: &&str| {
            let is_short = cell.chars().count() <= 60 && !cell.trim().is_empty();
            is_short && !cell.contains(['\n', '[', '{'])
        };
        // Without a word outside, the cells may be the classes of whole texts.
        if share(multi::is_tag_or_list) == 0
            && cells.clone().any(is_outside)
            && types.len() <= MOST_TYPES
            && types.iter().all(is_type)
        {
            return Ok(TagStyle::Plain);
        }
        let bad = inside().find(|cell| !multi::is_tag_or_list(cell));
        let bad: String = bad.unwrap_or(example).chars().take(60).collect();
        Err(StyleError::NotTags(bad))
    }

    /// A warning about the style, if it needs one.
    pub fn note(&self) -> Option<String> {
        match self {
            TagStyle::Marked(reading) => reading.note.clone(),
            TagStyle::Plain => Some(
                "the types have no marks such as `B-` and `I-`; words of the same type next to each other are read as one \
                 entity"
                    .to_string(),
            ),
            TagStyle::Bare => Some(format!(
                "the tags have no types; all entities get the type {NO_TYPE}"
            )),
            _ => None,
        }
    }

    /// True for a cell that can be a tag in this style.
    pub fn accepts(&self, cell: &str) -> bool {
        match self {
            TagStyle::Marked(_) => multi::is_tag_or_list(cell),
            _ if is_outside(cell) => true,
            TagStyle::Variant => with_standard_mark(cell).is_some(),
            TagStyle::Suffixed => with_mark_first(cell).is_some(),
            TagStyle::Bare => is_mark(cell),
            TagStyle::Bracketed => brackets::is_cell(cell),
            TagStyle::Numbered => numbered(cell).is_some(),
            TagStyle::Index(names) => cell.parse().is_ok_and(|index: usize| index < names.len()),
            TagStyle::Plain => !cell.contains(char::is_whitespace),
        }
    }

    /// A cell written as a tag with its mark first; `O` for a cell that says that the word is outside.
    pub fn normalised<'a>(&'a self, cell: &'a str) -> Cow<'a, str> {
        match self {
            _ if is_outside(cell) => Cow::Borrowed("O"),
            TagStyle::Variant => or_unchanged(with_standard_mark(cell), cell),
            TagStyle::Suffixed => or_unchanged(with_mark_first(cell), cell),
            TagStyle::Bare if is_mark(cell) => Cow::Owned(format!("{cell}-{NO_TYPE}")),
            TagStyle::Index(names) => {
                let name = cell
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| names.get(index));
                match name {
                    Some(name) if bio::is_tag(name) => Cow::Borrowed(name.as_str()),
                    Some(name) if is_outside(name) => Cow::Borrowed("O"),
                    Some(name) => Cow::Owned(format!("I-{name}")),
                    None => Cow::Borrowed(cell),
                }
            }
            TagStyle::Plain => Cow::Owned(format!("I-{cell}")),
            TagStyle::Marked(_) | TagStyle::Numbered | TagStyle::Bare | TagStyle::Bracketed => {
                Cow::Borrowed(cell)
            }
        }
    }

    /// Detects the scheme from the cells of all sentences.
    pub fn detect_scheme<'a, S: IntoIterator<Item = &'a str>>(
        &self,
        sentences: impl IntoIterator<Item = S>,
    ) -> TagScheme {
        match self {
            TagStyle::Marked(reading) => reading.detect_scheme(sentences),
            TagStyle::Plain | TagStyle::Numbered => TagScheme::Iob1,
            TagStyle::Bracketed => TagScheme::default(),
            TagStyle::Variant | TagStyle::Suffixed | TagStyle::Bare | TagStyle::Index(_) => {
                let tags: Vec<Vec<String>> = sentences
                    .into_iter()
                    .map(|cells| {
                        let tags = cells.into_iter().map(|cell| self.normalised_owned(cell));
                        tags.collect()
                    })
                    .collect();
                TagScheme::detect(tags.iter().map(|tags| tags.iter().map(String::as_str)))
            }
        }
    }

    fn normalised_owned(&self, cell: &str) -> String {
        self.normalised(cell).into_owned()
    }

    /// Decodes the cells of a sentence to entities and lists all violations of the scheme.
    pub fn decode(&self, cells: &[&str], scheme: TagScheme) -> (Vec<Entity>, Vec<TagProblem>) {
        match self {
            TagStyle::Numbered => return decode_numbered(cells),
            TagStyle::Bracketed => return brackets::decode(cells),
            _ => {}
        }
        let tags: Vec<Cow<str>> = cells.iter().map(|cell| self.normalised(cell)).collect();
        let tags: Vec<&str> = tags.iter().map(AsRef::as_ref).collect();
        match self {
            TagStyle::Marked(reading) => reading.decode(&tags, scheme),
            _ => bio::decode(&tags, scheme),
        }
    }
}

fn or_unchanged(tag: Option<String>, cell: &str) -> Cow<'_, str> {
    tag.map_or(Cow::Borrowed(cell), Cow::Owned)
}

/// True for the mark of a tag.
fn is_mark(cell: &str) -> bool {
    matches!(cell, "B" | "I" | "E" | "S" | "L" | "U" | "M")
}

/// `b-PER`, `B_PER` or `B:PER` as `B-PER`.
fn with_standard_mark(cell: &str) -> Option<String> {
    let mut characters = cell.chars();
    let mark = characters.next()?.to_ascii_uppercase();
    let separator = characters.next()?;
    let standard = format!("{mark}-{}", characters.as_str());
    (matches!(separator, '-' | '_' | ':') && bio::is_tag(&standard)).then_some(standard)
}

/// `PER_B` or `PER-B` as `B-PER`.
fn with_mark_first(cell: &str) -> Option<String> {
    let (label, mark) = cell.rsplit_once(['_', '-'])?;
    (is_mark(mark) && !label.is_empty()).then(|| format!("{mark}-{label}"))
}

/// The types and numbers of `P_1-pf_2`.
fn numbered(cell: &str) -> Option<Vec<(&str, &str)>> {
    let parts = cell.split('-').take(64).map(|part| {
        let (label, number) = part.rsplit_once('_')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && !label.is_empty()).then_some((label, number))
    });
    parts.collect()
}

/// Decodes cells such as `P_1-pf_2`: words next to each other with the same type and number are one entity.
fn decode_numbered(cells: &[&str]) -> (Vec<Entity>, Vec<TagProblem>) {
    let (mut entities, mut problems) = (Vec::new(), Vec::new());
    let mut open: Vec<(&str, &str, usize)> = Vec::new();
    for (index, cell) in cells.iter().chain([&"O"]).enumerate() {
        let current = if is_outside(cell) {
            Vec::new()
        } else {
            numbered(cell).unwrap_or_else(|| {
                let message =
                    format!("`{cell}` is not a list of types with numbers, such as `P_1-pf_2`");
                problems.push(TagProblem::fatal(index, message));
                Vec::new()
            })
        };
        open.retain(|(label, number, start)| {
            let continues = current.contains(&(*label, *number));
            if !continues {
                entities.push(Entity::new(*start, index, *label));
            }
            continues
        });
        for (label, number) in current {
            if !(open.iter()).any(|known| (known.0, known.1) == (label, number)) {
                open.push((label, number, index));
            }
        }
    }
    entities.sort();
    (entities, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cells: &[&str], names: Option<&[&str]>) -> Result<Vec<Entity>, StyleError> {
        let names: Option<Vec<String>> =
            names.map(|names| names.iter().map(|name| (*name).to_string()).collect());
        let style = TagStyle::detect(cells.iter().copied(), names.as_deref())?;
        let scheme = style.detect_scheme([cells.iter().copied()]);
        let (entities, problems) = style.decode(cells, scheme);
        assert_eq!(problems, [], "{cells:?}");
        Ok(entities)
    }

    #[test]
    fn every_spelling_is_understood() {
        let expected = vec![Entity::new(0, 2, "PER"), Entity::new(3, 4, "LOC")];
        for cells in [
            ["B-PER", "I-PER", "O", "B-LOC"],
            ["B-PER", "I-PER", "", "B-LOC"],
            ["PER_B", "PER_I", "_", "LOC_B"],
            ["PER-B", "PER-E", "O", "LOC-S"],
            ["PER", "PER", "O", "LOC"],
            ["PER_1", "PER_1", "_", "LOC_2"],
            ["B_PER", "I_PER", "O", "B_LOC"],
            ["(PER*", "*)", "*", "(LOC)"],
        ] {
            assert_eq!(read(&cells, None).as_ref(), Ok(&expected), "{cells:?}");
        }
        let entities = read(&["b-per", "i-per", "o", "b-loc"], None).unwrap();
        assert_eq!(entities[0], Entity::new(0, 2, "per"));
        let entities = read(&["B", "I", "O", "B"], None).unwrap();
        assert_eq!(entities[1], Entity::new(3, 4, NO_TYPE));
        let cells = ["1", "2", "0", "3"];
        let names = ["O", "B-PER", "I-PER", "B-LOC"];
        assert_eq!(read(&cells, Some(&names)).as_ref(), Ok(&expected));
        let cells = ["1", "1", "0", "2"];
        assert_eq!(read(&cells, Some(&["O", "PER", "LOC"])), Ok(expected));
    }

    #[test]
    fn nested_entities_with_numbers_are_read() {
        let entities = read(&["P_1-pf_2", "P_1-ps_3", "_", "gu_4", "gu_5"], None).unwrap();
        assert_eq!(
            entities,
            [
                Entity::new(0, 1, "pf"),
                Entity::new(0, 2, "P"),
                Entity::new(1, 2, "ps"),
                Entity::new(3, 4, "gu"),
                Entity::new(4, 5, "gu")
            ]
        );
    }

    #[test]
    fn cells_that_are_not_tags_are_refused() {
        assert_eq!(read(&["1", "0"], None), Err(StyleError::NoNames));
        assert!(matches!(
            read(&["7", "0"], Some(&["O", "B-X"])),
            Err(StyleError::TooFewNames {
                number: 7,
                names: 2
            })
        ));
        let words: Vec<String> = (0..2000).map(|word| format!("word{word}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(matches!(read(&words, None), Err(StyleError::NotTags(_))));
        assert!(matches!(
            read(&["positive", "negative"], None),
            Err(StyleError::NotTags(_))
        ));
        assert_eq!(read(&[], None), Ok(Vec::new()));
        assert_eq!(read(&["O", ""], None), Ok(Vec::new()));
    }
}
