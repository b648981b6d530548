//! Writing Prodigy's JSON lines: `text`, `tokens` and `spans`, which may overlap (recipes `spans.*`) and have a score.
//!
//! Offsets count characters, `token_end` is inclusive, and `ws` tells whether white space follows a token (Prodigy 1.11
//! and newer). A span that does not match the tokens has no `token_start` and `token_end`.

use serde_json::{Value, json};

use super::annotated::rounded;
use super::documents::Document;
use super::json_records::{self as records, Record};
use super::summary::Summary;

/// A document with `text`, `tokens` and `spans`.
pub(super) fn record(document: &Document<'_>, summary: &mut Summary) -> Record {
    let mut record = Record::new();
    record.insert("text".into(), json!(document.text));
    record.insert("tokens".into(), tokens(document));
    let spans: Vec<Value> = (records::continuous(document, summary).into_iter())
        .map(|((start, end), entity)| {
            let mut span = json!({"start": start, "end": end});
            if let Some(words) = entity.words {
                span["token_start"] = json!(words.start);
                span["token_end"] = json!(words.end - 1);
            }
            span["label"] = json!(entity.label);
            if let Some(score) = entity.score {
                span["score"] = json!(rounded(score));
            }
            span
        })
        .collect();
    record.insert("spans".into(), spans.into());
    records::name(&mut record, document);
    records::lose_document_extras(document, &[], summary);
    record
}

fn tokens(document: &Document<'_>) -> Value {
    let mut tokens = Vec::new();
    for (sentence, (offset, first, cut)) in document.sentences.iter().enumerate() {
        for (index, word) in cut.words.iter().enumerate() {
            let space = match cut.words.get(index + 1) {
                Some(next) => next.start > word.end,
                None => ends_in_space(cut, word.end) || !cut.trailing.is_empty(),
            };
            // A sentence may also start with white space.
            let next = document.sentences.get(sentence + 1);
            let space = space
                || index + 1 == cut.len()
                    && next.is_some_and(|(_, _, next)| next.text.starts_with(char::is_whitespace));
            tokens.push(json!({
                "text": word.text,
                "start": offset + word.start,
                "end": offset + word.end,
                "id": first + index,
                "ws": space,
            }));
        }
    }
    tokens.into()
}

/// True when a sentence has characters after its last word, which ends at `end`: they are white space.
fn ends_in_space(sentence: &crate::text::Sentence, end: usize) -> bool {
    sentence.text.ends_with(char::is_whitespace) && sentence.text.chars().count() > end
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
