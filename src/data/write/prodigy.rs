//! Writing Prodigy's JSON lines: `text`, `tokens` and `spans`, which may overlap (recipes `spans.*`) and have a score.
//!
//! Offsets count characters, `token_end` is inclusive, and `ws` tells whether white space follows a token (Prodigy 1.11
//! and newer). A span that does not match the tokens has no `token_start` and `token_end`.

use serde::Serialize;

use super::annotated::rounded;
use super::documents::Document;
use super::json_records::{self as records, LazyList};
use super::summary::Summary;
use crate::text::CharacterIndex;

#[derive(Serialize)]
struct ProdigyRecord<'a, T: Serialize, L: Serialize> {
    text: &'a str,
    tokens: T,
    spans: L,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<&'a str>,
}

#[derive(Serialize)]
struct ProdigyToken<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    id: usize,
    ws: bool,
}

#[derive(Serialize)]
struct ProdigySpan<'a> {
    start: usize,
    end: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_start: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_end: Option<usize>,
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

/// A document with `text`, `tokens` and `spans`.
pub(super) fn record<'d>(
    document: &'d Document,
    characters: &'d CharacterIndex<'d>,
    summary: &mut Summary,
) -> impl Serialize + use<'d> {
    records::count_continuous(document, summary);
    records::lose_document_extras(document, &[], summary);
    let tokens = || {
        let tokens = document.tokens.iter().flat_map(|all| all.iter(characters));
        tokens.enumerate().map(|(id, (token, text))| ProdigyToken {
            text,
            start: token.start,
            end: token.end,
            id,
            ws: token.has_space,
        })
    };
    let spans = || {
        let entities = records::continuous(document);
        entities.map(|((start, end), entity)| ProdigySpan {
            start,
            end,
            token_start: entity.words.map(|words| words.start),
            token_end: entity.words.map(|words| words.end - 1),
            label: &entity.label,
            score: entity.score.map(rounded),
        })
    };
    ProdigyRecord {
        text: &document.text,
        tokens: LazyList(tokens),
        spans: LazyList(spans),
        doc: document.name.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use crate::data::write::{Annotated, predictions};
    use crate::data::{Format, TagScheme, words};
    use crate::text::{Entity, Mention};

    #[test]
    fn tokens_and_spans_count_in_the_document() {
        let mut first = words::sentence("Hi.", Default::default());
        first.trailing = " ".to_string();
        first.document = Some("d".to_string());
        let mut second = words::sentence("Zoë 👍", Default::default());
        second.offset = 4;
        second.document = Some("d".to_string());
        let mention = Mention {
            entity: Entity::new(0, 1, "PER"),
            score: 0.25,
        };
        let items = [
            Annotated::predicted(&first, &[]),
            Annotated::predicted(&second, std::slice::from_ref(&mention)),
        ];
        let mut out = Vec::new();
        let summary = predictions(&mut out, Format::Prodigy, TagScheme::Iob2, &items).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(record["text"], "Hi. Zoë 👍");
        assert_eq!(
            record["spans"],
            serde_json::json!([{"start": 4, "end": 7, "token_start": 2, "token_end": 2, "label": "PER", "score": 0.25}])
        );
        assert_eq!(
            record["tokens"][1],
            serde_json::json!({"text": ".", "start": 2, "end": 3, "id": 1, "ws": true})
        );
        let ends: Vec<bool> = (record["tokens"].as_array().unwrap().iter())
            .map(|token| token["ws"].as_bool().unwrap())
            .collect();
        assert_eq!(ends, [false, true, true, false]);
        assert_eq!((summary.documents, summary.sentences), (1, 2));
    }
}
