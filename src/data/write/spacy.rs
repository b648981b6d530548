//! Writing spaCy's texts with offsets: a JSON list of [text, {"entities": [[start, end, type]]}].
//!
//! spaCy's own training refuses entities that overlap in `entities`; its span categorizer takes them.

use serde::Serialize;

use super::documents::Document;
use super::json_records::{self as records, LazyList};
use super::summary::{Loss, Summary};

#[derive(Serialize)]
struct Annotations<L: Serialize> {
    entities: L,
}

/// A document as [text, annotations].
pub(super) fn record<'d>(
    document: &'d Document,
    summary: &mut Summary,
) -> impl Serialize + use<'d> {
    records::count_continuous(document, summary);
    records::lose_document_extras(document, &[Loss::Score, Loss::DocumentName], summary);
    let entities = || {
        let entities = records::continuous(document);
        entities.map(|((start, end), entity)| (start, end, &*entity.label))
    };
    (
        &document.text,
        Annotations {
            entities: LazyList(entities),
        },
    )
}
