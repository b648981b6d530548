//! The schemes tags are written in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::bio::Tag;
use super::format::named;
use crate::error::Error;

/// How tags mark where an entity begins and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// `I-` everywhere; `B-` only where an entity follows another of its type.
    Iob1,
    /// `B-` on every first word, `I-` on the others.
    #[default]
    Iob2,
    /// `B- I- E-`, and `S-` for a single word. BILOU's `L-` and `U-` are read as `E-` and `S-`.
    Bioes,
    /// `B- M- E-`, and `S-` for a single word.
    Bmes,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Scheme; 4] = [Scheme::Iob1, Scheme::Iob2, Scheme::Bioes, Scheme::Bmes];

    /// The name used on the command line and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Iob1 => "iob1",
            Scheme::Iob2 => "iob2",
            Scheme::Bioes => "bioes",
            Scheme::Bmes => "bmes",
        }
    }

    /// The scheme that tags follow, seen over all tag sequences of a file.
    ///
    /// `M-` gives BMES away and `E-`, `S-`, `L-`, `U-` BIOES. What is left is IOB2 unless no `B-` ever stands
    /// where IOB1 would not need one.
    pub fn detect<'a, S: IntoIterator<Item = &'a str>>(
        sequences: impl IntoIterator<Item = S>,
    ) -> Scheme {
        let (mut inside, mut needless_begin, mut ended) = (false, false, false);
        for tags in sequences {
            let mut previous = None;
            for tag in tags {
                let parsed = Tag::parse(tag).ok().flatten();
                match parsed.map(|tag| tag.mark) {
                    Some('M') => return Scheme::Bmes,
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
        match (ended, inside, needless_begin) {
            (true, ..) => Scheme::Bioes,
            (false, true, false) => Scheme::Iob1,
            _ => Scheme::Iob2,
        }
    }

    /// True for the marks this scheme uses.
    pub(super) fn knows(self, mark: char) -> bool {
        match self {
            Scheme::Iob1 | Scheme::Iob2 => matches!(mark, 'B' | 'I'),
            Scheme::Bioes => matches!(mark, 'B' | 'I' | 'E' | 'S'),
            Scheme::Bmes => matches!(mark, 'B' | 'M' | 'E' | 'S'),
        }
    }

    /// True when the last word of an entity is marked.
    pub(super) fn marks_ends(self) -> bool {
        matches!(self, Scheme::Bioes | Scheme::Bmes)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        named(name, &Self::ALL, Scheme::name, "tagging scheme")
    }
}
