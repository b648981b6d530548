//! Tagging schemes such as IOB2 and BIOES.

use serde::{Deserialize, Serialize};
use strum::VariantNames;

use super::bio::Tag;
use crate::data::format::unknown_name;
use crate::error::Error;

/// A tagging scheme: how the tags of words mark where an entity begins and ends.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::EnumIter,
    strum::VariantNames,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(
    serialize_all = "snake_case",
    parse_err_ty = Error,
    parse_err_fn = unknown_scheme
)]
pub enum TagScheme {
    /// `I-` on every word; `B-` only on the first word of an entity that directly follows another of its type.
    Iob1,
    /// `B-` on the first word of every entity, `I-` on the others.
    #[default]
    Iob2,
    /// `B-` on the first word, `I-` inside, `E-` on the last, `S-` on a single word. BILOU's `L-` and `U-` are read as
    /// `E-` and `S-`.
    Bioes,
    /// As [`Bioes`](Self::Bioes), with `M-` instead of `I-`.
    Bmes,
}

impl TagScheme {
    /// Detects the scheme from all tag sequences of a file.
    ///
    /// `M-` occurs only in BMES, and `E-`, `S-`, `L-`, `U-` only in BMES and BIOES. Otherwise the scheme is IOB1 if
    /// there are `I-` tags and every `B-` directly follows an entity of its type, else IOB2.
    pub fn detect<'a, S: IntoIterator<Item = &'a str>>(
        sequences: impl IntoIterator<Item = S>,
    ) -> TagScheme {
        let (mut inside, mut needless_begin, mut ended) = (false, false, false);
        for tags in sequences {
            let mut previous = None;
            for tag in tags {
                let parsed = Tag::parse(tag).ok().flatten();
                match parsed.map(|tag| tag.mark) {
                    Some('M') => return TagScheme::Bmes,
                    Some('E' | 'S') => ended = true,
                    Some('I') => inside = true,
                    Some('B') => {
                        needless_begin |= previous != parsed.map(|tag| tag.label);
                    }
                    _ => {}
                }
                previous = parsed.map(|tag| tag.label);
            }
        }
        Self::from_marks(ended, inside, needless_begin)
    }

    /// The scheme of a file without `M-`: `ended` when it has end or single marks, `inside` when it has inside marks, and
    /// `needless_begin` when a `B-` does not directly follow an entity of its type.
    pub(super) fn from_marks(ended: bool, inside: bool, needless_begin: bool) -> TagScheme {
        match (ended, inside, needless_begin) {
            (true, ..) => TagScheme::Bioes,
            (false, true, false) => TagScheme::Iob1,
            _ => TagScheme::Iob2,
        }
    }

    /// True for the marks that this scheme uses.
    pub(super) fn has_mark(self, mark: char) -> bool {
        match self {
            TagScheme::Iob1 | TagScheme::Iob2 => matches!(mark, 'B' | 'I'),
            TagScheme::Bioes => matches!(mark, 'B' | 'I' | 'E' | 'S'),
            TagScheme::Bmes => matches!(mark, 'B' | 'M' | 'E' | 'S'),
        }
    }

    /// True when the scheme marks the last word of an entity.
    pub(super) fn marks_ends(self) -> bool {
        matches!(self, TagScheme::Bioes | TagScheme::Bmes)
    }
}

fn unknown_scheme(name: &str) -> Error {
    unknown_name("tagging scheme", name, TagScheme::VARIANTS)
}
