//! One tag per word: the entities of a sentence for formats with a single column of tags.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::annotated::Annotated;
use super::summary::{Loss, Summary};
use crate::data::TagScheme;
use crate::data::tags::bio::{self, EncodeError};
use crate::text::{Entity, Span};

/// What one row of tags holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TagRow {
    /// One tag per word; of entities that overlap, the outer or first one is kept.
    Flat,
    /// All tags of a word, the outer entity's first: `I-ORG|B-LOC`. In a sentence where entities of one type overlap, tags
    /// alone do not tell which of them goes on, so each entity keeps its position in the list: `B-PER|O`, `I-PER|B-PER`.
    Multi,
}

/// The tags of a sentence's words. Entities that cannot be tagged are counted.
pub(super) fn tags(
    item: &Annotated<'_>,
    scheme: TagScheme,
    row: TagRow,
    summary: &mut Summary,
) -> Result<Vec<String>, EncodeError> {
    let length = item.sentence.len();
    if row == TagRow::Flat {
        return bio::entities_to_tags(&flat(item, summary), length, scheme);
    }
    summary.entities += item.entities.len();
    let mut rows = Vec::new();
    match by_label(item) {
        Some(groups) => {
            for entities in groups {
                rows.push((bio::entities_to_tags(&entities, length, scheme)?, entities));
            }
        }
        None => {
            let mut layers = Vec::new();
            for layer in bio::layers(&as_entities(item)) {
                layers.push(bio::entities_to_tags(&layer, length, scheme)?);
            }
            return Ok(joined(length, |index| {
                let tags: Vec<&str> = layers.iter().map(|layer| layer[index].as_str()).collect();
                if tags.iter().all(|tag| *tag == "O") {
                    Vec::new()
                } else {
                    tags
                }
            }));
        }
    }
    let mut spans: Vec<Vec<(Span, &str)>> = vec![Vec::new(); length];
    for (tags, entities) in &rows {
        for entity in entities {
            for index in entity.span.start..entity.span.end {
                spans[index].push((entity.span, &tags[index]));
            }
        }
    }
    for tags in &mut spans {
        tags.sort_by_key(|(span, _)| (span.start, Reverse(span.end)));
    }
    let tags_of = |index: usize| spans[index].iter().map(|(_, tag)| *tag).collect();
    Ok(joined(length, tags_of))
}

fn joined<'t>(length: usize, tags: impl Fn(usize) -> Vec<&'t str>) -> Vec<String> {
    let words = (0..length).map(|index| match tags(index)[..] {
        [] => "O".to_string(),
        ref tags => tags.join("|"),
    });
    words.collect()
}

/// Entities that do not overlap: the outer or first one of those that do. The others are counted.
fn flat(item: &Annotated<'_>, summary: &mut Summary) -> Vec<Entity> {
    let mut kept: Vec<Entity> = Vec::with_capacity(item.entities.len());
    for entity in as_entities(item) {
        match kept.last() {
            Some(other) if other.span.overlaps(&entity.span) => {
                summary.lose(overlap(other.span, entity.span), 1);
            }
            _ => kept.push(entity),
        }
    }
    summary.entities += kept.len();
    kept
}

/// The entities of each type; `None` when some of one type overlap.
fn by_label(item: &Annotated<'_>) -> Option<Vec<Vec<Entity>>> {
    let mut groups: BTreeMap<String, Vec<Entity>> = BTreeMap::new();
    for entity in as_entities(item) {
        let group = groups.entry(entity.label.clone()).or_default();
        if group
            .last()
            .is_some_and(|last| last.span.overlaps(&entity.span))
        {
            return None;
        }
        group.push(entity);
    }
    Some(groups.into_values().collect())
}

/// The entities without scores, outer ones first.
pub(super) fn as_entities(item: &Annotated<'_>) -> Vec<Entity> {
    let mut entities: Vec<Entity> = (item.entities.iter())
        .map(|entity| Entity::new(entity.span.start, entity.span.end, entity.label))
        .collect();
    entities.sort_by(|a, b| {
        let key = |entity: &Entity| (entity.span.start, Reverse(entity.span.end));
        key(a).cmp(&key(b)).then_with(|| a.label.cmp(&b.label))
    });
    entities
}

/// How an entity that is left out overlaps the one that is kept.
fn overlap(kept: Span, entity: Span) -> Loss {
    if kept == entity {
        Loss::SameSpan
    } else if kept.contains(&entity) {
        Loss::Nested
    } else {
        Loss::Crossing
    }
}

/// True for a label that a tag can hold: without white space, and not to be mistaken for several tags.
pub(super) fn is_tag_label(label: &str) -> bool {
    let is_list = |separator| label.split(separator).skip(1).any(bio::is_tag);
    is_field(label) && !label.contains('|') && !is_list(',') && !is_list(';')
}

/// True for text that fits a column separated by white space.
pub(super) fn is_field(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Sentence;

    fn rows(spans: &[(usize, usize, &str)], row: TagRow) -> (String, Summary) {
        let mut sentence = Sentence::from_words(["a", "b", "c", "d"]);
        let entities = spans
            .iter()
            .map(|(s, e, label)| Entity::new(*s, *e, *label));
        sentence.entities = entities.collect();
        let mut summary = Summary::default();
        let item = Annotated::gold(&sentence);
        let tags = tags(&item, TagScheme::Iob2, row, &mut summary).unwrap();
        (tags.join(" "), summary)
    }

    #[test]
    fn flat_rows_keep_the_outer_entity() {
        let spans = [(0, 3, "A"), (1, 2, "B"), (0, 3, "C"), (2, 4, "D")];
        let (tags, summary) = rows(&spans, TagRow::Flat);
        assert_eq!(tags, "B-A I-A I-A O");
        assert_eq!((summary.entities, summary.left_out), (1, 3));
        let kinds: Vec<Loss> = summary.losses.keys().copied().collect();
        assert_eq!(kinds, [Loss::Nested, Loss::Crossing, Loss::SameSpan]);
    }

    #[test]
    fn several_tags_of_a_word_are_joined() {
        let spans = [(1, 2, "B"), (0, 3, "A"), (2, 4, "B"), (0, 1, "C")];
        let (tags, summary) = rows(&spans, TagRow::Multi);
        assert_eq!(tags, "B-A|B-C I-A|B-B I-A|B-B I-B");
        assert_eq!((summary.entities, summary.left_out), (4, 0));
        let (tags, _) = rows(&[(0, 3, "A"), (1, 2, "A")], TagRow::Multi);
        assert_eq!(tags, "B-A|O I-A|B-A I-A|O O");
    }

    #[test]
    fn labels_that_look_like_several_tags_are_not_tags() {
        for label in ["PER", "B-c", "a,b", "人_x"] {
            assert!(is_tag_label(label), "{label}");
        }
        for label in ["", "a b", "a|b", "a,B-x", "a;O"] {
            assert!(!is_tag_label(label), "{label}");
        }
    }
}
