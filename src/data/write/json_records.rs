//! Parts that the JSON formats share.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::annotated::{Annotated, WordEntity, rounded};
use super::documents::{Document, DocumentEntity};
use super::summary::{Loss, Summary};

/// A JSON object.
pub(super) type Record = Map<String, Value>;

/// A JSON list whose elements are made while it is written: those of a long document take much more memory than its text.
pub(super) struct LazyList<F>(pub F);

impl<F: Fn() -> I, I: IntoIterator<Item: Serialize>> Serialize for LazyList<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Adds the name of the sentence's document.
pub(super) fn document(record: &mut Record, key: &str, item: &Annotated<'_>) {
    if let Some(document) = &item.sentence.document {
        record.insert(key.into(), json!(document));
    }
}

/// Adds part-of-speech tags.
pub(super) fn part_of_speech(record: &mut Record, item: &Annotated<'_>) {
    if let Some(pos) = &item.sentence.pos {
        record.insert("pos".into(), json!(pos));
    }
}

/// Adds the words before and after the sentence.
pub(super) fn context(record: &mut Record, item: &Annotated<'_>) {
    let sentence = item.sentence;
    for (key, words) in [("ltokens", &sentence.left), ("rtokens", &sentence.right)] {
        if !words.is_empty() {
            record.insert(key.into(), json!(words));
        }
    }
}

/// Adds what only this program's formats have: discontinuous entities, and the position of a sentence in its document.
pub(super) fn position(record: &mut Record, item: &Annotated<'_>) {
    let sentence = item.sentence;
    let discontinuous: Vec<Value> = (item.discontinuous().iter())
        .map(|entity| json!({"parts": entity.parts, "type": entity.label}))
        .collect();
    if !discontinuous.is_empty() {
        record.insert("discontinuous".into(), discontinuous.into());
    }
    if sentence.offset > 0 {
        record.insert("offset".into(), json!(sentence.offset));
    }
    if !sentence.trailing.is_empty() {
        record.insert("trailing".into(), json!(sentence.trailing));
    }
}

/// An entity as a span of words or characters.
pub(super) fn span(start: usize, end: usize, entity: &WordEntity<'_>) -> Value {
    let mut value = json!({"start": start, "end": end, "type": entity.label});
    if let Some(score) = entity.score {
        value["score"] = json!(rounded(score));
    }
    value
}

/// The entities as spans of words.
pub(super) fn word_spans(item: &Annotated<'_>, summary: &mut Summary) -> Value {
    summary.entities += item.entities.len();
    let spans = item.entities.iter();
    spans.map(|e| span(e.span.start, e.span.end, e)).collect()
}

/// The continuous entities of a document with their offsets.
pub(super) fn continuous(
    document: &Document,
) -> impl Iterator<Item = ((usize, usize), &DocumentEntity)> {
    let entities = document.entities.iter();
    entities.filter_map(|entity| entity.span().map(|span| (span, entity)))
}

/// Counts the continuous entities of a document as written, and the others as left out.
pub(super) fn count_continuous(document: &Document, summary: &mut Summary) {
    let count = continuous(document).count();
    summary.entities += count;
    summary.lose(Loss::Discontinuous, document.entities.len() - count);
}

/// Counts what no format for documents has.
pub(super) fn lose_document_extras(document: &Document, losses: &[Loss], summary: &mut Summary) {
    summary.lose(Loss::Context, document.with_context);
    summary.lose(Loss::PartOfSpeech, document.with_pos);
    if losses.contains(&Loss::DocumentName) {
        summary.lose(Loss::DocumentName, usize::from(document.name.is_some()));
    }
    if losses.contains(&Loss::Score) {
        let scores = document.entities.iter().filter(|e| e.score.is_some());
        summary.lose(Loss::Score, scores.count());
    }
}
