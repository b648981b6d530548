//! Units of offsets: tools count characters as code points (Python), UTF-16 code units (JavaScript) or bytes.
//!
//! Where a file gives the text of an entity, the unit that finds this text at the offsets is the right one.

use crate::text::CharacterIndex;

/// The unit of the offsets of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(in crate::data) enum OffsetUnit {
    /// Code points, as everywhere in this library.
    #[strum(to_string = "characters")]
    Characters,
    /// UTF-16 code units.
    #[strum(to_string = "UTF-16 code units")]
    Utf16,
    /// Bytes of UTF-8.
    #[strum(to_string = "bytes of UTF-8")]
    Bytes,
}

impl OffsetUnit {
    /// The unit in which a span has the given text; code points first. White space may differ in kind and number.
    pub fn of(index: &CharacterIndex<'_>, span: (usize, usize), surface: &str) -> Option<Self> {
        let units = [OffsetUnit::Characters, OffsetUnit::Utf16, OffsetUnit::Bytes];
        let found = |test: fn(&str, &str) -> bool| {
            units.into_iter().find(|unit| {
                let span = unit.characters(index, span);
                let slice = span.and_then(|(start, end)| index.get(start, end));
                slice.is_some_and(|slice| test(slice, surface))
            })
        };
        found(|slice, surface| slice == surface).or_else(|| found(is_same))
    }

    /// The characters of a span in this unit; `None` when it starts or ends inside a character.
    pub fn characters(
        self,
        index: &CharacterIndex<'_>,
        (start, end): (usize, usize),
    ) -> Option<(usize, usize)> {
        let character = |offset| match self {
            OffsetUnit::Characters => Some(offset),
            OffsetUnit::Utf16 => index.character_at_utf16(offset),
            OffsetUnit::Bytes => index.character_at_byte(offset),
        };
        Some((character(start)?, character(end)?))
    }
}

/// True when two texts are equal up to white space.
pub(in crate::data) fn is_same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::slice;
    use proptest::prelude::*;

    #[test]
    fn the_unit_is_the_one_that_finds_the_text() {
        let text = CharacterIndex::new("💩 Zoë in 北京");
        let unit = |span, surface| OffsetUnit::of(&text, span, surface);
        assert_eq!(text.characters(), 11);
        assert_eq!(unit((2, 5), "Zoë"), Some(OffsetUnit::Characters));
        assert_eq!(unit((3, 6), "Zoë"), Some(OffsetUnit::Utf16));
        assert_eq!(unit((5, 9), "Zoë"), Some(OffsetUnit::Bytes));
        assert_eq!(OffsetUnit::Utf16.characters(&text, (3, 6)), Some((2, 5)));
        assert_eq!(unit((0, 3), "Zoë"), None);
        assert_eq!(unit((2, 8), "Zoë\nin"), Some(OffsetUnit::Characters));
        assert_eq!(OffsetUnit::Utf16.characters(&text, (1, 3)), None);
        assert_eq!(text.get(9, 12), None);
    }

    proptest! {
        #[test]
        fn slices_are_those_of_the_text(text in any::<String>(), start in 0..20usize, length in 0..20usize) {
            let index = CharacterIndex::new(&text);
            let expected = (start + length <= index.characters()).then(|| slice(&text, start, start + length));
            prop_assert_eq!(index.get(start, start + length), expected);
            prop_assert_eq!(index.characters(), text.chars().count());
        }
    }
}
