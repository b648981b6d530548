//! Texts as sentences: where sentences end, and annotated texts cut into them.

mod abbreviations;
pub(super) mod annotated_text;
pub mod bounds;
pub(super) mod crossing;
pub(super) mod entities;
pub(super) mod given_words;
mod marks;
pub(super) mod offset_unit;
