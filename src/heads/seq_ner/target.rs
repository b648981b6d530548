//! Gold entities to tags.

use crate::text::{Entity, Labels, Sentence, outermost};

/// Gold tags of a batch, one list a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// Tag numbers of each sentence's words.
    pub tags: Vec<Vec<i32>>,
}

impl Gold {
    /// Tags of the outermost entities.
    pub fn new(labels: &Labels, sentences: &[&Sentence]) -> Self {
        let tags = sentences
            .iter()
            .map(|sentence| tags(&outermost(&sentence.entities), sentence.len(), labels))
            .collect();
        Self { tags }
    }
}

/// BIO tags of flat entities over `words` words. Entities of unknown type are left O.
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
