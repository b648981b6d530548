//! Writing GLiNER's training data: `tokenized_text`, and `ner` as [first word, last word, type].

use serde_json::{Value, json};

use super::annotated::Annotated;
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary};

/// A sentence with `tokenized_text` and `ner`. The last word of an entity is inclusive.
pub(super) fn record(item: &Annotated<'_>, summary: &mut Summary) -> Record {
    let mut record = Record::new();
    record.insert("tokenized_text".into(), json!(item.words()));
    let entities: Vec<Value> = (item.entities.iter())
        .map(|entity| json!([entity.span.start, entity.span.end - 1, entity.label]))
        .collect();
    summary.entities += entities.len();
    record.insert("ner".into(), entities.into());
    records::document(&mut record, "doc", item);
    summary.lose_unaligned(item);
    let losses = [
        Loss::Spacing,
        Loss::Position,
        Loss::Context,
        Loss::PartOfSpeech,
        Loss::Score,
    ];
    summary.lose_extras(item, &losses);
    record
}

#[cfg(test)]
mod tests {
    use crate::data::Format;
    use crate::data::write::{WriteOptions, write_with};
    use crate::text::{Entity, Sentence};

    #[test]
    fn the_last_word_is_inclusive() {
        let mut sentence = Sentence::from_words(["Bank", "of", "China"]);
        sentence.entities = vec![Entity::new(0, 3, "ORG"), Entity::new(2, 3, "LOC")];
        let mut out = Vec::new();
        write_with(&mut out, &[sentence], &WriteOptions::of(Format::Gliner)).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "[\n{\"tokenized_text\":[\"Bank\",\"of\",\"China\"],\"ner\":[[0,2,\"ORG\"],[2,2,\"LOC\"]]}\n]\n"
        );
    }
}
