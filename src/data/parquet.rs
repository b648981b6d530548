//! Parquet files of token records.

use super::ReadOptions;
use super::source::{Collector, Source};

/// True when the bytes begin like a Parquet file.
pub(super) fn is_parquet(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PAR1")
}

pub(super) fn read(_source: &Source, _options: &ReadOptions, corpus: &mut Collector) {
    corpus.error(0, "this format cannot be read yet");
}
