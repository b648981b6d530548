//! From gold entities to tags.

use super::tag_set::{TagMark, TagSet};
use crate::text::{Entity, Labels, Sentence, outermost};

/// Gold tags of a batch, one list per sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gold {
    /// The tag index of each word of each sentence.
    pub tags: Vec<Vec<i32>>,
    /// If the batch is padded to a shape, the number of sentences without padding.
    pub padded_from: Option<usize>,
}

impl Gold {
    /// The tags of the outermost entities.
    pub fn new(set: TagSet, labels: &Labels, sentences: &[&Sentence]) -> Self {
        let tags = sentences
            .iter()
            .map(|sentence| tags(&outermost(&sentence.entities), sentence.len(), set, labels))
            .collect();
        Self {
            tags,
            padded_from: None,
        }
    }

    /// Padded with sentences without words.
    pub fn pad(mut self, sentences: usize) -> Self {
        self.padded_from = Some(self.tags.len());
        self.tags.resize(sentences.max(self.tags.len()), Vec::new());
        self
    }
}

/// Tags of flat entities over `words` words. Entities of an unknown type are tagged O.
pub fn tags(entities: &[Entity], words: usize, set: TagSet, labels: &Labels) -> Vec<i32> {
    let mut tags = vec![0; words];
    for entity in entities {
        let Some(label) = labels.index(&entity.label) else {
            continue;
        };
        let number = |mark| set.number(label, mark) as i32;
        let span = entity.span;
        tags[span.start..span.end].fill(number(TagMark::Inside));
        tags[span.end - 1] = number(TagMark::End);
        tags[span.start] = number(if span.len() == 1 {
            TagMark::Single
        } else {
            TagMark::Begin
        });
    }
    tags
}
