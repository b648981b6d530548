//! GLiNER's JSON: a list or lines of `{"tokenized_text": [...], "ner": [[first word, last word, type], ...]}`.
//!
//! The form is that of the training data of GLiNER 0.2 (<https://github.com/urchade/GLiNER>). Ends are inclusive; a file whose
//! spans show the opposite is read with exclusive ends and a warning.

use super::ReadOptions;
use super::json::record::{RecordKind, read as read_records};
use super::source::{Collector, Source};

/// Reads a file of GLiNER's training data.
pub(super) fn read(source: &Source, options: &ReadOptions, corpus: &mut Collector) {
    read_records(source, RecordKind::Gliner, options, corpus);
}
