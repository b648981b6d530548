//! Writing `text_jsonl`: texts with spans of characters.

use serde::Serialize;
use serde_json::{Value, json};

use super::annotated::{Annotated, rounded};
use super::documents::Document;
use super::json_records::{self as records, LazyList, Record};
use super::summary::{Loss, Summary};
use crate::data::words;
use crate::text::CharacterIndex;

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

/// A document with predicted mentions: offsets in the whole text, scores and the mentions' texts.
#[derive(Serialize)]
struct PredictedDocument<'a, L: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<&'a str>,
    text: &'a str,
    entities: L,
}

#[derive(Serialize)]
struct PredictedMention<'a> {
    start: usize,
    end: usize,
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    text: &'a str,
}

/// The record of a document with predicted mentions.
pub(super) fn predicted<'d>(
    document: &'d Document,
    characters: &'d CharacterIndex<'d>,
    summary: &mut Summary,
) -> impl Serialize + use<'d> {
    records::count_continuous(document, summary);
    let entities = || {
        let entities = records::continuous(document);
        entities.map(|((start, end), entity)| PredictedMention {
            start,
            end,
            label: &entity.label,
            score: entity.score.map(rounded),
            text: characters.slice(start, end),
        })
    };
    PredictedDocument {
        doc: document.name.as_deref(),
        text: &document.text,
        entities: LazyList(entities),
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
