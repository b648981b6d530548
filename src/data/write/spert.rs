//! Writing the format of SpERT and DiffusionNER.

use serde_json::json;

use super::annotated::Annotated;
use super::json_records::{self as records, Record};
use super::summary::{Loss, Summary};

/// A sentence with `tokens`, `entities` and no relations.
pub(super) fn record(item: &Annotated<'_>, summary: &mut Summary) -> Record {
    let mut record = Record::new();
    record.insert("tokens".into(), json!(item.words()));
    records::part_of_speech(&mut record, item);
    record.insert("entities".into(), records::word_spans(item, summary));
    record.insert("relations".into(), json!([]));
    records::context(&mut record, item);
    records::document(&mut record, "orig_id", item);
    summary.lose_unaligned(item);
    summary.lose_extras(item, &[Loss::Spacing, Loss::Position]);
    record
}
