//! Writing the format of W2NER and BOPN: entities as lists of word indices, which may have gaps.

use serde_json::{Value, json};

use super::annotated::{Annotated, rounded};
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary};

/// A sentence with `sentence` and `ner`.
pub(super) fn record(item: &Annotated<'_>, summary: &mut Summary) -> Record {
    let mut record = Record::new();
    record.insert("sentence".into(), json!(item.words()));
    records::part_of_speech(&mut record, item);
    let mut entities: Vec<Value> = Vec::with_capacity(item.entities.len());
    for entity in &item.entities {
        let index: Vec<usize> = (entity.span.start..entity.span.end).collect();
        let mut value = json!({"index": index, "type": entity.label});
        if let Some(score) = entity.score {
            value["score"] = json!(rounded(score));
        }
        entities.push(value);
    }
    for entity in item.discontinuous() {
        match item.word_parts(entity) {
            Some(parts) => {
                let index = parts.iter().flat_map(|part| part.start..part.end);
                let index: Vec<usize> = index.collect();
                entities.push(json!({"index": index, "type": entity.label}));
            }
            None => summary.lose(Loss::Discontinuous, 1),
        }
    }
    summary.entities += entities.len();
    record.insert("ner".into(), entities.into());
    records::document(&mut record, "doc", item);
    summary.lose(Loss::Misaligned, item.misaligned().len());
    summary.lose_extras(item, &[Loss::Spacing, Loss::Position, Loss::Context]);
    record
}

#[cfg(test)]
mod tests {
    use crate::data::Format;
    use crate::data::write::{WriteOptions, write_with};
    use crate::text::{Discontinuous, Entity, Sentence};

    #[test]
    fn discontinuous_entities_are_index_lists() {
        let mut sentence = Sentence::from_words(["muscle", "and", "joint", "pain"]);
        sentence.entities = vec![Entity::new(2, 4, "ADR")];
        let part = |parts: &[(usize, usize)]| Discontinuous {
            parts: parts.to_vec(),
            label: "ADR".to_string(),
        };
        sentence.discontinuous = vec![part(&[(0, 6), (17, 21)]), part(&[(0, 3), (17, 21)])];
        let mut out = Vec::new();
        let options = WriteOptions::of(Format::W2ner);
        let summary = write_with(&mut out, &[sentence], &options).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[\n{\"sentence\":[\"muscle\",\"and\",\"joint\",\"pain\"],\"ner\":[{\"index\":[2,3],\"type\":\"ADR\"},\
             {\"index\":[0,3],\"type\":\"ADR\"}]}\n]\n"
        );
        assert_eq!((summary.entities, summary.left_out), (2, 1));
    }
}
