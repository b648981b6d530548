//! Texts with entities given by character offsets: from annotations to the entities of sentences.

use std::collections::HashSet;

use super::source::Collector;
use super::{ReadOptions, words};
use crate::text::{Discontinuous, Entity, Misaligned, Sentence, slice};

/// An entity of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextEntity {
    /// First character and one past the last character of each part; more than one part for a discontinuous entity.
    pub parts: Vec<(usize, usize)>,
    /// The entity type.
    pub label: String,
    /// The line of the file that it is on, for messages.
    pub line: usize,
}

/// A text, or a document of several sentences, with its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnnotatedText<'a> {
    /// The text.
    pub text: &'a str,
    /// The name of the document.
    pub document: Option<String>,
    /// The line of the file at which it starts.
    pub line: usize,
    /// Its entities.
    pub entities: Vec<TextEntity>,
    /// Whether the text is a document, which is cut into sentences unless the options say otherwise.
    pub is_document: bool,
}

/// Adds the sentences of a text to the corpus and reports the entities that cannot be used.
pub(super) fn push(text: AnnotatedText<'_>, options: &ReadOptions, corpus: &mut Collector) {
    let mut sentence = words::sentence(text.text, options.segmentation.unwrap_or_default());
    sentence.document = text.document;
    let length = text.text.chars().count();
    let mut seen = HashSet::new();
    for entity in text.entities {
        let label = &entity.label;
        if (entity.parts.iter()).any(|(start, end)| start >= end || *end > length) {
            corpus.error(
                entity.line,
                format!("{label} {:?} is not within the text of {length} characters; correct the offsets", entity.parts),
            );
            continue;
        }
        if !seen.insert((entity.parts.clone(), label.clone())) {
            corpus.warn(
                entity.line,
                format!("{label} is given twice; counted once, delete one"),
            );
            continue;
        }
        add(&mut sentence, entity, corpus);
    }
    corpus.push(text.line, sentence);
}

fn add(sentence: &mut Sentence, entity: TextEntity, corpus: &mut Collector) {
    let TextEntity { parts, label, line } = entity;
    let [(start, end)] = parts[..] else {
        return sentence.discontinuous.push(Discontinuous { parts, label });
    };
    match sentence.span_of(start, end) {
        Some(span) => (sentence.entities).push(Entity::new(span.start, span.end, label)),
        None => {
            let text = slice(&sentence.text, start, end);
            corpus.warn(line, format!(
                "{label} `{text}` does not start and end at word boundaries, so no model can find it; correct the offsets if they are wrong"
            ));
            sentence.misaligned.push(Misaligned { start, end, label });
        }
    }
}
