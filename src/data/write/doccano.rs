//! Writing Doccano's JSON lines for sequence labelling: `text`, and `label` as [start, end, type].
//!
//! Doccano 1.8 imports such files as "JSONL" with the columns `text` and `label`; other keys become metadata. There is no
//! place for scores.

use serde_json::{Value, json};

use super::documents::Document;
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary};

/// A document with `text` and `label`.
pub(super) fn record(document: &Document<'_>, summary: &mut Summary) -> Record {
    let mut record = Record::new();
    record.insert("text".into(), json!(document.text));
    let labels: Vec<Value> = (records::continuous(document, summary).into_iter())
        .map(|((start, end), entity)| json!([start, end, entity.label]))
        .collect();
    record.insert("label".into(), labels.into());
    records::name(&mut record, document);
    records::lose_document_extras(document, &[Loss::Score], summary);
    record
}
