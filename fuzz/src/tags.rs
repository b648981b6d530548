//! Conversion between tags and entities. An input is a character for the scheme, then a tag on each line.

use nerzoo::data::TagScheme;
use nerzoo::data::bio::{TagMode, decode, entities_to_tags, layers, tags_to_entities};
use nerzoo::text::Entity;

use crate::input::Input;

pub fn tags(data: &[u8]) {
    let mut given = Input::new(data);
    let schemes = [
        TagScheme::Iob1,
        TagScheme::Iob2,
        TagScheme::Bioes,
        TagScheme::Bmes,
    ];
    let scheme = given.one_of(&schemes);
    let text = String::from_utf8_lossy(given.rest());
    let tags: Vec<&str> = text.lines().collect();
    let (entities, problems) = decode(&tags, scheme);
    let mut end = 0;
    for entity in &entities {
        assert!(
            end <= entity.span.start && !entity.span.is_empty() && entity.span.end <= tags.len()
        );
        assert!(!entity.label.is_empty());
        end = entity.span.end;
    }
    assert!(
        problems
            .iter()
            .all(|problem| problem.index < tags.len() && !problem.message.is_empty())
    );
    let strict = tags_to_entities(&tags, scheme, TagMode::Strict);
    assert_eq!(strict.is_ok(), problems.is_empty());
    TagScheme::detect([tags.iter().copied()]);
    for scheme in schemes {
        assert_eq!(again(&entities, tags.len(), scheme), entities, "{scheme}");
    }
    // Nested entities: each with the words up to the end of the next one.
    let nested: Vec<Entity> = (entities.iter().zip(entities.iter().skip(1)))
        .map(|(one, next)| Entity::new(one.span.start, next.span.end, one.label.as_str()))
        .chain(entities.iter().cloned())
        .collect();
    let mut found: Vec<Entity> = (layers(&nested).iter())
        .flat_map(|layer| again(layer, tags.len(), scheme))
        .collect();
    let mut nested = nested;
    found.sort();
    nested.sort();
    assert_eq!(found, nested);
}

/// The entities after they are written as tags and read.
fn again(entities: &[Entity], length: usize, scheme: TagScheme) -> Vec<Entity> {
    let tags = entities_to_tags(entities, length, scheme).expect("they do not overlap");
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    tags_to_entities(&tags, scheme, TagMode::Strict).expect("tags of this program")
}
