//! Texts as sentences: where sentences end, and annotated texts cut into them.

mod abbreviations;
pub(super) mod annotated_text;
pub mod bounds;
pub(super) mod crossing;
mod cutter;
pub(super) mod entities;
pub(super) mod given_words;
mod marks;
pub(super) mod offset_unit;

/// Splits the text of a sentence from the white space before the next one. The last sentence of a text keeps its own.
pub(super) fn split_trailing(text: &str, is_last: bool) -> (&str, &str) {
    let kept = if is_last { text } else { text.trim_end() };
    text.split_at(kept.len())
}
