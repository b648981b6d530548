//! The tags of SeqNER and their numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which tags the types have. Tag 0 is O; those of the first type follow, then those of the second, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TagSet {
    /// B (first word of an entity) and I (its other words).
    #[default]
    Bio,
    /// B, I, E (last word) and S (the only word).
    Bioes,
}

/// The position of a word in an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagMark {
    /// The first word.
    Begin,
    /// A word that is not the first.
    Inside,
    /// The last of several words.
    End,
    /// The only word.
    Single,
}

impl TagMark {
    /// The letter of the mark.
    pub fn letter(self) -> char {
        match self {
            Self::Begin => 'B',
            Self::Inside => 'I',
            Self::End => 'E',
            Self::Single => 'S',
        }
    }
}

impl TagSet {
    /// The marks of a type, in the order of their numbers.
    pub fn marks(self) -> &'static [TagMark] {
        match self {
            Self::Bio => &[TagMark::Begin, TagMark::Inside],
            Self::Bioes => &[
                TagMark::Begin,
                TagMark::Inside,
                TagMark::End,
                TagMark::Single,
            ],
        }
    }

    /// Number of tags of this many types.
    pub fn count(self, types: usize) -> usize {
        1 + self.marks().len() * types
    }

    /// The number of a tag. With BIO, the last word of an entity is I and a single one B.
    pub fn number(self, label: usize, mark: TagMark) -> usize {
        let found = self.marks().iter().position(|known| *known == mark);
        let index = found.unwrap_or(usize::from(mark == TagMark::End));
        1 + self.marks().len() * label + index
    }

    /// The type and the mark of a tag; `None` for O.
    pub fn read(self, tag: usize) -> Option<(usize, TagMark)> {
        let marks = self.marks();
        let index = tag.checked_sub(1)?;
        Some((index / marks.len(), marks[index % marks.len()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for set in [TagSet::Bio, TagSet::Bioes] {
            assert_eq!(set.read(0), None);
            let mut next = 1;
            for label in 0..3 {
                for mark in set.marks() {
                    assert_eq!(set.number(label, *mark), next);
                    assert_eq!(set.read(next), Some((label, *mark)));
                    next += 1;
                }
            }
            assert_eq!(set.count(3), next);
        }
        assert_eq!(TagSet::Bio.number(1, TagMark::End), 4);
        assert_eq!(TagSet::Bio.number(1, TagMark::Single), 3);
    }
}
