//! Writing spaCy's texts with offsets: a JSON list of [text, {"entities": [[start, end, type]]}].
//!
//! spaCy's own training refuses entities that overlap in `entities`; its span categorizer takes them.

use serde_json::{Value, json};

use super::documents::Document;
use super::json_records as records;
use super::summary::{Loss, Summary};

/// A document as [text, annotations].
pub(super) fn record(document: &Document<'_>, summary: &mut Summary) -> Value {
    let entities: Vec<Value> = (records::continuous(document, summary).into_iter())
        .map(|((start, end), entity)| json!([start, end, entity.label]))
        .collect();
    records::lose_document_extras(document, &[Loss::Score, Loss::DocumentName], summary);
    json!([document.text, {"entities": entities}])
}
