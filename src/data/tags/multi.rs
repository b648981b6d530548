//! Several tags per word in one column, such as `I-ORG|B-LOC` for a word of two nested entities.
//!
//! A `|` can also be part of an entity type. All tags of a file decide which of the two it is: the tags are split
//! when most of the parts are tags themselves.

use super::bio::{self, Tag, TagProblem};
use super::scheme::TagScheme;
use crate::data::correction::Message;
use crate::text::Entity;

/// Characters that may separate the tags of a word, the usual one first.
const SEPARATORS: [char; 3] = ['|', ',', ';'];
/// The most tags a word may have; more are not a list of tags but a damaged file.
const MOST_TAGS: usize = 64;

/// True for a tag, and for several tags with a separator between them.
pub(in crate::data) fn is_tag_or_list(cell: &str) -> bool {
    bio::is_tag(cell) || SEPARATORS.iter().any(|separator| is_list(cell, *separator))
}

/// True for at least two tags with this separator between them.
fn is_list(cell: &str, separator: char) -> bool {
    cell.contains(separator) && cell.split(separator).all(|part| bio::is_tag(part.trim()))
}

/// The entity types of a cell that is a tag or a list of tags.
pub(in crate::data) fn labels_of(cell: &str) -> Vec<&str> {
    let separator = SEPARATORS
        .into_iter()
        .find(|separator| is_list(cell, *separator));
    match separator {
        Some(separator) => parts(cell, separator).filter_map(bio::label_of).collect(),
        None => bio::label_of(cell).into_iter().collect(),
    }
}

fn parts(cell: &str, separator: char) -> impl Iterator<Item = &str> {
    cell.split(separator).map(str::trim)
}

/// How the cells of a tag column are to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::data) struct CellReading {
    /// The separator between the tags of a cell; `None` when every cell is one tag.
    pub separator: Option<char>,
    /// What was decided, if a cell could be read in two ways.
    pub note: Option<String>,
}

impl CellReading {
    /// Decides from all cells of the tag columns of a file.
    pub fn decide<'a>(cells: impl IntoIterator<Item = &'a str>) -> Self {
        // For each separator: cells that are lists, cells that are not, and an example of each.
        let mut counts = [(0usize, 0usize, "", ""); SEPARATORS.len()];
        for cell in cells {
            for (separator, count) in SEPARATORS.iter().zip(&mut counts) {
                if is_list(cell, *separator) {
                    count.0 += 1;
                    count.2 = cell;
                } else if cell.contains(*separator) && bio::is_tag(cell) {
                    count.1 += 1;
                    count.3 = cell;
                }
            }
        }
        for (separator, (lists, single, list, tag)) in SEPARATORS.iter().zip(counts) {
            if lists > single {
                let note = format!(
                    "words with several tags ({lists} in all, such as `{list}`) are read as words of nested entities"
                );
                return Self {
                    separator: Some(*separator),
                    note: Some(note),
                };
            }
            if lists > 0 {
                let note = format!(
                    "`{separator}` separates tags in {lists} cells, such as `{list}`, and is part of the type in {single}, such \
                     as `{tag}`; read as part of the type, so write the tags of nested entities in columns of their own"
                );
                return Self {
                    separator: None,
                    note: Some(note),
                };
            }
            if single > 0 && *separator == '|' {
                let note = format!(
                    "tags such as `{tag}` are read as one tag with `|` in its type, because the parts are not tags"
                );
                return Self {
                    separator: None,
                    note: Some(note),
                };
            }
        }
        Self::default()
    }

    /// Decodes the cells of a sentence to entities and lists all violations of the scheme.
    pub fn decode(&self, cells: &[&str], scheme: TagScheme) -> (Vec<Entity>, Vec<TagProblem>) {
        match self.separator {
            None => bio::decode(cells, scheme),
            Some(separator) => decode_lists(cells, separator, scheme),
        }
    }

    /// Detects the scheme from the cells of all sentences; see [`TagScheme::detect`].
    pub fn detect_scheme<'a, S: IntoIterator<Item = &'a str>>(
        &self,
        sentences: impl IntoIterator<Item = S>,
    ) -> TagScheme {
        let Some(separator) = self.separator else {
            return TagScheme::detect(sentences);
        };
        let (mut inside, mut needless_begin, mut ended) = (false, false, false);
        for cells in sentences {
            let mut previous: Vec<&str> = Vec::new();
            for cell in cells {
                let tags: Vec<Tag> = parts(cell, separator)
                    .take(MOST_TAGS)
                    .filter_map(|part| Tag::parse(part).ok().flatten())
                    .collect();
                for tag in &tags {
                    match tag.mark {
                        'M' => return TagScheme::Bmes,
                        'E' | 'S' => ended = true,
                        'I' => inside = true,
                        _ => needless_begin |= !previous.contains(&tag.label),
                    }
                }
                previous = tags.into_iter().map(|tag| tag.label).collect();
            }
        }
        TagScheme::from_marks(ended, inside, needless_begin)
    }
}

/// Decodes lists of tags. Tags of the same position are a layer where the lists are padded with `O`, else the tags of a
/// word may be in any order: whichever reading violates the scheme less.
fn decode_lists(
    cells: &[&str],
    separator: char,
    scheme: TagScheme,
) -> (Vec<Entity>, Vec<TagProblem>) {
    let lists: Vec<Vec<&str>> = cells
        .iter()
        .map(|cell| parts(cell, separator).take(MOST_TAGS + 1).collect())
        .collect();
    let mut unordered = UnorderedDecoder {
        scheme,
        open: Vec::new(),
        entities: Vec::new(),
        problems: Vec::new(),
    };
    for (index, list) in lists.iter().enumerate() {
        unordered.step(index, list);
    }
    unordered.close(lists.len(), &[]);
    unordered.entities.sort();
    let width = lists.iter().map(Vec::len).max().unwrap_or(0);
    let is_padded = lists
        .iter()
        .any(|list| list.len() > 1 && list.contains(&"O"));
    let is_aligned = lists
        .iter()
        .all(|list| list.len() == width || *list == ["O"]);
    if is_padded && is_aligned && width <= MOST_TAGS {
        let (mut entities, mut problems) = (Vec::new(), Vec::new());
        for layer in 0..width {
            let tags: Vec<&str> = lists
                .iter()
                .map(|list| list.get(layer).copied().unwrap_or("O"))
                .collect();
            let decoded = bio::decode(&tags, scheme);
            entities.extend(decoded.0);
            problems.extend(decoded.1);
        }
        if problems.len() <= unordered.problems.len() {
            entities.sort();
            problems.sort_by_key(|problem| problem.index);
            return (entities, problems);
        }
    }
    (unordered.entities, unordered.problems)
}

/// Decodes lists of tags whose order within a word has no meaning.
///
/// An inside tag continues the entity of its type that began first and an end tag ends the one that began last, so that of
/// two readings the nested one is chosen.
struct UnorderedDecoder<'a> {
    scheme: TagScheme,
    /// First word and type of the entities that have begun and not ended, in the order of their first words.
    open: Vec<(usize, &'a str)>,
    entities: Vec<Entity>,
    problems: Vec<TagProblem>,
}

impl<'a> UnorderedDecoder<'a> {
    /// Processes the tags of word `index`.
    fn step(&mut self, index: usize, list: &[&'a str]) {
        if list.len() > MOST_TAGS {
            let message = format!("the word has more than {MOST_TAGS} tags; correct the row");
            self.problems.push(TagProblem::fatal(index, message));
        }
        let mut continues = vec![false; self.open.len()];
        let mut ended = vec![false; self.open.len()];
        let mut begun = Vec::new();
        for text in list.iter().take(MOST_TAGS) {
            let tag = match Tag::parse(text) {
                Ok(None) => continue,
                Ok(Some(tag)) => tag,
                Err(error) => {
                    let problem = TagProblem::fatal(index, error.to_string());
                    self.problems.push(problem);
                    continue;
                }
            };
            if !self.scheme.has_mark(tag.mark) {
                self.violation(index, bio::wrong_mark(text, self.scheme));
            }
            let is_free = |slot: &usize| {
                self.open[*slot].1 == tag.label && !continues[*slot] && !ended[*slot]
            };
            match tag.mark {
                'B' => begun.push((index, tag.label)),
                'S' => self.entities.push(Entity::new(index, index + 1, tag.label)),
                'E' => match (0..self.open.len()).rev().find(is_free) {
                    Some(slot) => {
                        ended[slot] = true;
                        let start = self.open[slot].0;
                        self.entities.push(Entity::new(start, index + 1, tag.label));
                    }
                    None => {
                        self.violation(index, bio::stray_end(text, tag.label));
                        self.entities.push(Entity::new(index, index + 1, tag.label));
                    }
                },
                _ => match (0..self.open.len()).find(is_free) {
                    Some(slot) => continues[slot] = true,
                    None => {
                        if self.scheme != TagScheme::Iob1 {
                            self.violation(index, bio::stray_inside(text, tag.label));
                        }
                        begun.push((index, tag.label));
                    }
                },
            }
        }
        let mut slot = 0;
        self.open.retain(|_| {
            slot += 1;
            !ended[slot - 1]
        });
        let continues: Vec<bool> = (continues.into_iter().zip(ended))
            .filter(|(_, ended)| !ended)
            .map(|(continues, _)| continues)
            .collect();
        self.close(index, &continues);
        self.open.extend(begun);
    }

    /// Ends the open entities before word `index`, except those that continue.
    fn close(&mut self, index: usize, continues: &[bool]) {
        let open = std::mem::take(&mut self.open);
        for (slot, (start, label)) in open.into_iter().enumerate() {
            if continues.get(slot) == Some(&true) {
                self.open.push((start, label));
                continue;
            }
            if self.scheme.marks_ends() {
                let last = index - 1;
                let is_single = start == last;
                let tag = format!("{}-{label}", if is_single { 'B' } else { 'I' });
                self.violation(last, bio::missing_end(&tag, label, is_single));
            }
            self.entities.push(Entity::new(start, index, label));
        }
    }

    fn violation(&mut self, index: usize, message: Message) {
        self.problems.push(TagProblem::violation(index, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use strum::IntoEnumIterator;

    fn read(cells: &str, scheme: TagScheme) -> (Vec<Entity>, Vec<TagProblem>) {
        let cells: Vec<&str> = cells.split(' ').collect();
        decode_lists(&cells, '|', scheme)
    }

    #[test]
    fn nested_entities_come_back_in_any_order() {
        let expected = [
            Entity::new(0, 3, "ORG"),
            Entity::new(2, 3, "LOC"),
            Entity::new(3, 4, "PER"),
        ];
        for cells in [
            "B-ORG I-ORG I-ORG|B-LOC B-PER",
            "B-ORG I-ORG B-LOC|I-ORG B-PER",
            "B-ORG|O I-ORG|O I-ORG|B-LOC B-PER|O",
            "O|B-ORG O|I-ORG B-LOC|I-ORG B-PER|O",
        ] {
            let (entities, problems) = read(cells, TagScheme::Iob2);
            assert_eq!(entities, expected, "{cells}");
            assert_eq!(problems, [], "{cells}");
        }
        let (entities, problems) = read("B-ORG I-ORG L-ORG|U-LOC U-PER", TagScheme::Bioes);
        assert_eq!((entities.as_slice(), problems), (&expected[..], vec![]));
    }

    #[test]
    fn entities_of_one_type_nest_and_cross() {
        let (entities, problems) = read("B-X B-X|I-X I-X O", TagScheme::Iob2);
        assert_eq!(problems, []);
        assert_eq!(entities, [Entity::new(0, 3, "X"), Entity::new(1, 2, "X")]);
        // Padded lists are layers, and so are entities of one type that cross.
        let (entities, problems) = read("B-X|O I-X|B-X O|I-X O", TagScheme::Iob2);
        assert_eq!(problems, []);
        assert_eq!(entities, [Entity::new(0, 2, "X"), Entity::new(1, 3, "X")]);
        let (entities, _) = read("B-X I-X|B-Y I-Y", TagScheme::Iob2);
        assert_eq!(entities, [Entity::new(0, 2, "X"), Entity::new(1, 3, "Y")]);
        let (entities, problems) = read("B-X I-X|B-X E-X|E-X", TagScheme::Bioes);
        assert_eq!(problems, []);
        assert_eq!(entities, [Entity::new(0, 3, "X"), Entity::new(1, 3, "X")]);
    }

    #[test]
    fn violations_are_reported() {
        let (entities, problems) = read("O I-X|B-Y O|X", TagScheme::Iob2);
        assert_eq!(entities, [Entity::new(1, 2, "X"), Entity::new(1, 2, "Y")]);
        let found: Vec<(usize, bool)> = problems.iter().map(|p| (p.index, p.fatal)).collect();
        assert_eq!(found, [(1, false), (2, true)]);
        let (_, problems) = read("B-X|B-Y E-X O", TagScheme::Bioes);
        assert_eq!(problems.len(), 1);
        let (_, problems) = read(&"|B-X".repeat(100)[1..], TagScheme::Iob2);
        assert!(problems[0].fatal);
    }

    #[test]
    fn the_file_decides_whether_a_cell_is_a_list() {
        let lists = CellReading::decide(["O", "B-ORG", "I-ORG|B-LOC"]);
        assert_eq!(lists.separator, Some('|'));
        assert!(lists.note.unwrap().contains("`I-ORG|B-LOC`"));
        let single = CellReading::decide(["O", "B-PER|person", "I-PER|person"]);
        assert_eq!(single.separator, None);
        assert!(single.note.unwrap().contains("one tag"));
        let mixed = CellReading::decide(["B-PER|x", "I-PER|x", "B-A|B-B"]);
        assert_eq!(mixed.separator, None);
        assert_eq!(CellReading::decide(["O", "B-A,B-B"]).separator, Some(','));
        assert_eq!(CellReading::decide(["O", "B-A"]), CellReading::default());
    }

    #[test]
    fn the_scheme_of_lists_is_detected() {
        let scheme = |cells: &str| {
            let reading = CellReading::decide(cells.split(' '));
            reading.detect_scheme([cells.split(' ')])
        };
        assert_eq!(scheme("B-X I-X|B-Y"), TagScheme::Iob2);
        assert_eq!(scheme("I-X I-X|I-Y"), TagScheme::Iob1);
        assert_eq!(scheme("B-X E-X|S-Y"), TagScheme::Bioes);
        assert_eq!(scheme("B-X M-X|S-Y"), TagScheme::Bmes);
    }

    proptest! {
        #[test]
        fn layers_written_as_lists_come_back(
            spans in prop::collection::vec((0..8usize, 1..5usize, "[AB]"), 0..8),
            which in 0..4usize,
        ) {
            let mut entities: Vec<Entity> = spans.into_iter().map(|(start, length, label)| Entity::new(start, start + length, label)).collect();
            entities.sort();
            entities.dedup();
            let scheme = TagScheme::iter().nth(which).unwrap();
            let layers = bio::layers(&entities);
            let rows: Vec<Vec<String>> = layers.iter().map(|layer| bio::entities_to_tags(layer, 12, scheme).unwrap()).collect();
            let cells: Vec<String> = (0..12).map(|word| rows.iter().map(|row| row[word].as_str()).collect::<Vec<_>>().join("|")).collect();
            let cells: Vec<&str> = cells.iter().map(|cell| if cell.is_empty() { "O" } else { cell.as_str() }).collect();
            let (mut decoded, problems) = decode_lists(&cells, '|', scheme);
            decoded.sort();
            prop_assert_eq!(decoded, entities);
            prop_assert!(problems.is_empty());
        }

        #[test]
        fn decoding_never_panics(cells in prop::collection::vec("([BIMESLUO]-?[AB]?\\|?){0,3}", 0..12), which in 0..4usize) {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            let (entities, _) = decode_lists(&cells, '|', TagScheme::iter().nth(which).unwrap());
            prop_assert!(entities.iter().all(|entity| !entity.span.is_empty() && entity.span.end <= cells.len()));
        }
    }
}
