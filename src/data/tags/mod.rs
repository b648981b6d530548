//! Tags of words, such as `B-PER`, and the entities they stand for.

pub mod bio;
pub(super) mod brackets;
pub(super) mod multi;
pub(super) mod scheme;
pub(super) mod style;

use std::collections::HashSet;

use super::sentences::entities::given_twice;
use super::source::Collector;
use crate::text::{Entity, Sentence};
use bio::TagProblem;

/// Reports the problems of decoded tags; `line` gives the line of a word. False when one of the texts is not a tag.
pub(super) fn report(
    problems: Vec<TagProblem>,
    line: impl Fn(usize) -> usize,
    corpus: &mut Collector,
) -> bool {
    let mut valid = true;
    for problem in problems {
        let line = line(problem.index);
        if problem.fatal {
            valid = false;
            corpus.error(line, problem);
        } else {
            corpus.warn(line, problem);
        }
    }
    valid
}

/// Adds the entities of one layer of tags to a sentence and reports those that another layer has as well. `seen` has the
/// entities of the layers before; `line` gives the line of a word.
pub(super) fn add_layer(
    sentence: &mut Sentence,
    entities: Vec<Entity>,
    seen: &mut HashSet<Entity>,
    line: impl Fn(usize) -> usize,
    corpus: &mut Collector,
) {
    for entity in entities {
        if seen.insert(entity.clone()) {
            sentence.entities.push(entity);
        } else {
            let text = format!("`{}`", sentence.surface(entity.span));
            corpus.warn(line(entity.span.start), given_twice(&entity.label, text));
        }
    }
}
