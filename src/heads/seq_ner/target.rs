//! From gold entities to tags.

use crate::text::{Entity, Labels, Sentence, outermost};

/// Gold tags of a batch, one list per sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// The tag index of each word of each sentence.
    pub tags: Vec<Vec<i32>>,
}

impl Gold {
    /// The tags of the outermost entities.
    pub fn new(labels: &Labels, sentences: &[&Sentence]) -> Self {
        let tags = sentences
            .iter()
            .map(|sentence| tags(&outermost(&sentence.entities), sentence.len(), labels))
            .collect();
        Self { tags }
    }
}

/// BIO tags of flat entities over `words` words. Entities of an unknown type are tagged O.
pub fn tags(entities: &[Entity], words: usize, labels: &Labels) -> Vec<i32> {
    let mut tags = vec![0; words];
    for entity in entities {
        let Some(label) = labels.index(&entity.label) else {
            continue;
        };
        let inside = 2 + 2 * label as i32;
        tags[entity.span.start..entity.span.end].fill(inside);
        tags[entity.span.start] = inside - 1;
    }
    tags
}
