//! Tags of words, such as `B-PER`, and the entities they stand for.

pub mod bio;
pub(super) mod multi;
pub(super) mod scheme;
pub(super) mod style;
