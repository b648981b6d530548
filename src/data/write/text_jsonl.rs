//! Writing `text_jsonl`: texts with spans of characters.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::annotated::{Annotated, rounded};
use super::documents::Document;
use super::json_records::{self as records, LazyList, Record};
use super::summary::{Loss, Summary};
use crate::data::words;
use crate::error::Result;
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

/// A document with predicted mentions, as `predict` prints it.
///
/// `L` is the list of mentions. Those of a long document are made while it is written.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PredictedDocument")]
pub struct PredictedDocument<'a, L = Vec<PredictedMention<'a>>> {
    /// The name of the document, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<Cow<'a, str>>,
    /// The text.
    pub text: Cow<'a, str>,
    /// Its mentions.
    pub entities: L,
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

impl PredictedDocument<'static> {
    /// The record of a text that was cut into these sentences; an empty text has none.
    pub fn of(items: &[Annotated<'_>]) -> Result<Self> {
        for (index, item) in items.iter().enumerate() {
            item.check(index + 1)?;
        }
        let document = Document::join(items);
        let entities = mentions(&document, &document.characters())
            .map(PredictedMention::into_owned)
            .collect();
        Ok(Self {
            doc: document.name.map(Cow::Owned),
            text: Cow::Owned(document.text),
            entities,
        })
    }
}

impl PredictedMention<'_> {
    fn into_owned(self) -> PredictedMention<'static> {
        PredictedMention {
            label: Cow::Owned(self.label.into_owned()),
            text: Cow::Owned(self.text.into_owned()),
            ..self
        }
    }
}

/// The predicted mentions of a document.
fn mentions<'d>(
    document: &'d Document,
    characters: &CharacterIndex<'d>,
) -> impl Iterator<Item = PredictedMention<'d>> {
    records::continuous(document).map(|((start, end), entity)| PredictedMention {
        start,
        end,
        label: Cow::Borrowed(&*entity.label),
        score: entity.score.map(rounded),
        text: Cow::Borrowed(characters.slice(start, end)),
    })
}

/// The record of a document with predicted mentions.
pub(super) fn predicted<'d>(
    document: &'d Document,
    characters: &'d CharacterIndex<'d>,
    summary: &mut Summary,
) -> PredictedDocument<'d, impl Serialize + use<'d>> {
    records::count_continuous(document, summary);
    PredictedDocument {
        doc: document.name.as_deref().map(Cow::Borrowed),
        text: Cow::Borrowed(&document.text),
        entities: LazyList(|| mentions(document, characters)),
    }
}

#[cfg(test)]
mod tests {
    use crate::data::write::{Annotated, PredictedDocument, predictions};
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
        let out = String::from_utf8(out).unwrap();
        let owned = PredictedDocument::of(&items).unwrap();
        assert_eq!(serde_json::to_string(&owned).unwrap() + "\n", out);
        assert_eq!(
            out,
            "{\"text\":\"Zoë left. 👍 Bo.\",\"entities\":[\
             {\"start\":0,\"end\":3,\"label\":\"PER\",\"score\":0.75,\"text\":\"Zoë\"},\
             {\"start\":12,\"end\":14,\"label\":\"PER\",\"score\":0.75,\"text\":\"Bo\"}]}\n"
        );
        let empty = PredictedDocument::of(&[]).unwrap();
        let empty = serde_json::to_string(&empty).unwrap();
        assert_eq!(empty, "{\"text\":\"\",\"entities\":[]}");
    }

    #[test]
    fn the_schema_has_the_name_of_the_record() {
        let schema = schemars::schema_for!(PredictedDocument<'static>);
        let schema = schema.to_value();
        assert_eq!(schema["title"], "PredictedDocument");
        let mentions = &schema["properties"]["entities"];
        assert_eq!(mentions["items"]["$ref"], "#/$defs/PredictedMention");
    }
}
