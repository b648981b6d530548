//! Writing Doccano's JSON lines for sequence labelling: `text`, and `label` as [start, end, type].
//!
//! Doccano 1.8 imports such files as "JSONL" with the columns `text` and `label`; other keys become metadata. There is no
//! place for scores.

use serde::Serialize;

use super::documents::Document;
use super::json_records::{self as records, LazyList};
use super::summary::{Loss, Summary};

#[derive(Serialize)]
struct DoccanoRecord<'a, L: Serialize> {
    text: &'a str,
    label: L,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<&'a str>,
}

/// A document with `text` and `label`.
pub(super) fn record<'d>(
    document: &'d Document,
    summary: &mut Summary,
) -> impl Serialize + use<'d> {
    records::count_continuous(document, summary);
    records::lose_document_extras(document, &[Loss::Score], summary);
    let label = || {
        let entities = records::continuous(document);
        entities.map(|((start, end), entity)| (start, end, &*entity.label))
    };
    DoccanoRecord {
        text: &document.text,
        label: LazyList(label),
        doc: document.name.as_deref(),
    }
}
