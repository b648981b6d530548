//! Writing `text_jsonl`: texts with spans of characters.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::annotated::{Annotated, rounded};
use super::documents::Document;
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary};
use crate::data::words;
use crate::error::Result;

/// A sentence with `text` and entities as spans of characters.
pub(super) fn record(item: &Annotated<'_>, summary: &mut Summary) -> Record {
    let sentence = item.sentence;
    let mut record = Record::new();
    records::document(&mut record, "doc", item);
    record.insert("text".into(), json!(sentence.text));
    if sentence.pos.is_some() {
        // Only then does a reader get the same words.
        if sentence.words == words::split(&sentence.text) {
            records::part_of_speech(&mut record, item);
        } else {
            summary.lose(Loss::PartOfSpeech, 1);
        }
    }
    let aligned = item.entities.iter().map(|entity| {
        let (start, end) = sentence.characters(entity.span);
        records::span(start, end, entity)
    });
    let misaligned = (item.misaligned().iter())
        .map(|e| json!({"start": e.start, "end": e.end, "type": e.label}));
    let entities: Vec<Value> = aligned.chain(misaligned).collect();
    summary.entities += entities.len() + item.discontinuous().len();
    record.insert("entities".into(), entities.into());
    records::position(&mut record, item);
    summary.lose_extras(item, &[Loss::Context]);
    record
}

/// A document with predicted mentions, as `predict` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PredictedDocument<'a> {
    /// The name of the document, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<Cow<'a, str>>,
    /// The text.
    pub text: Cow<'a, str>,
    /// Its mentions.
    pub entities: Vec<PredictedMention<'a>>,
}

/// A mention with offsets in the text of its document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PredictedMention<'a> {
    /// Its first character, counted in Unicode scalar values.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
    /// Its type.
    pub label: Cow<'a, str>,
    /// The model's confidence, between 0 and 1. With a calibrated model, the probability that the mention is correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its text.
    pub text: Cow<'a, str>,
}

impl PredictedDocument<'_> {
    /// The record of a text that was cut into these sentences; an empty text has none.
    pub fn of(items: &[Annotated<'_>]) -> Result<PredictedDocument<'static>> {
        for (index, item) in items.iter().enumerate() {
            item.check(index + 1)?;
        }
        let document = Document::join(items);
        Ok(predicted(&document, &mut Summary::default()).into_owned())
    }

    fn into_owned(self) -> PredictedDocument<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        PredictedDocument {
            doc: self.doc.map(owned),
            text: owned(self.text),
            entities: (self.entities.into_iter())
                .map(|mention| PredictedMention {
                    label: owned(mention.label),
                    text: owned(mention.text),
                    ..mention
                })
                .collect(),
        }
    }
}

/// The record of a document with predicted mentions. It borrows from the document, because a long one has many mentions.
pub(super) fn predicted<'a>(
    document: &'a Document<'_>,
    summary: &mut Summary,
) -> PredictedDocument<'a> {
    let entities = records::continuous(document, summary).into_iter();
    let entities = entities.map(|((start, end), entity)| PredictedMention {
        start,
        end,
        label: entity.label.into(),
        score: entity.score.map(rounded),
        text: entity.texts.first().copied().unwrap_or_default().into(),
    });
    PredictedDocument {
        doc: document.name.map(Cow::from),
        text: document.text.as_ref().into(),
        entities: entities.collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::data::write::{Annotated, predictions};
    use crate::data::{Format, TagScheme, words};
    use crate::text::{Entity, Mention};

    #[test]
    fn predictions_of_a_document_are_one_record() {
        let mut first = words::sentence("Zoë left.", Default::default());
        first.trailing = " ".to_string();
        let mut second = words::sentence("👍 Bo.", Default::default());
        second.offset = 10;
        let mention = |at: usize| {
            vec![Mention {
                entity: Entity::new(at, at + 1, "PER"),
                score: 0.75,
            }]
        };
        let (one, two) = (mention(0), mention(1));
        let items = [
            Annotated::predicted(&first, &one),
            Annotated::predicted(&second, &two),
        ];
        let mut out = Vec::new();
        predictions(&mut out, Format::TextJsonl, TagScheme::Iob2, &items).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"text\":\"Zoë left. 👍 Bo.\",\"entities\":[\
             {\"start\":0,\"end\":3,\"label\":\"PER\",\"score\":0.75,\"text\":\"Zoë\"},\
             {\"start\":12,\"end\":14,\"label\":\"PER\",\"score\":0.75,\"text\":\"Bo\"}]}\n"
        );
    }
}
