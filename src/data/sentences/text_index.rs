//! Access to the characters of a text by offset, in constant time, and offsets in other units.
//!
//! Tools count characters as code points (Python), UTF-16 code units (JavaScript) or bytes. Where a file gives the text of
//! an entity, the unit that finds this text at the offsets is the right one.

use std::cell::OnceCell;

/// A unit of offsets other than code points.
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

/// A text with the places of its characters.
pub(in crate::data) struct TextIndex<'a> {
    text: &'a str,
    /// The byte at which each character starts, and the length; `None` for ASCII.
    bytes: Option<Vec<usize>>,
    /// The UTF-16 unit at which each character starts, and the length.
    units: OnceCell<Vec<usize>>,
}

impl<'a> TextIndex<'a> {
    /// Indexes a text.
    pub fn new(text: &'a str) -> Self {
        let starts = || {
            text.char_indices()
                .map(|(byte, _)| byte)
                .chain([text.len()])
        };
        Self {
            text,
            bytes: (!text.is_ascii()).then(|| starts().collect()),
            units: OnceCell::new(),
        }
    }

    /// Number of characters.
    pub fn len(&self) -> usize {
        self.bytes
            .as_ref()
            .map_or(self.text.len(), |bytes| bytes.len() - 1)
    }

    /// The characters `start..end`; `None` when out of range.
    pub fn slice(&self, start: usize, end: usize) -> Option<&'a str> {
        let byte = |character: usize| match &self.bytes {
            None => Some(character),
            Some(bytes) => bytes.get(character).copied(),
        };
        self.text.get(byte(start)?..byte(end)?)
    }

    /// The character at an offset in another unit; `None` inside a character and beyond the text.
    fn character(&self, offset: usize, unit: OffsetUnit) -> Option<usize> {
        match (unit, &self.bytes) {
            (OffsetUnit::Characters, _) | (_, None) => Some(offset),
            (OffsetUnit::Bytes, Some(bytes)) => bytes.binary_search(&offset).ok(),
            (OffsetUnit::Utf16, Some(_)) => {
                let units = self.units.get_or_init(|| {
                    let mut units = vec![0];
                    let mut unit = 0;
                    units.extend(self.text.chars().map(|character| {
                        unit += character.len_utf16();
                        unit
                    }));
                    units
                });
                units.binary_search(&offset).ok()
            }
        }
    }

    /// The characters of a span in a unit.
    pub fn convert(
        &self,
        (start, end): (usize, usize),
        unit: OffsetUnit,
    ) -> Option<(usize, usize)> {
        Some((self.character(start, unit)?, self.character(end, unit)?))
    }

    /// The unit in which a span has the given text; code points first. White space may differ in kind and number.
    pub fn unit_of(&self, span: (usize, usize), surface: &str) -> Option<OffsetUnit> {
        let units = [OffsetUnit::Characters, OffsetUnit::Utf16, OffsetUnit::Bytes];
        let found = |test: fn(&str, &str) -> bool| {
            units.into_iter().find(|unit| {
                let slice = self
                    .convert(span, *unit)
                    .and_then(|(start, end)| self.slice(start, end));
                slice.is_some_and(|slice| test(slice, surface))
            })
        };
        found(|slice, surface| slice == surface).or_else(|| found(is_same))
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
        let text = TextIndex::new("💩 Zoë in 北京");
        assert_eq!(text.len(), 11);
        assert_eq!(text.unit_of((2, 5), "Zoë"), Some(OffsetUnit::Characters));
        assert_eq!(text.unit_of((3, 6), "Zoë"), Some(OffsetUnit::Utf16));
        assert_eq!(text.unit_of((5, 9), "Zoë"), Some(OffsetUnit::Bytes));
        assert_eq!(text.convert((3, 6), OffsetUnit::Utf16), Some((2, 5)));
        assert_eq!(text.unit_of((0, 3), "Zoë"), None);
        assert_eq!(
            text.unit_of((2, 8), "Zoë\nin"),
            Some(OffsetUnit::Characters)
        );
        assert_eq!(text.convert((1, 3), OffsetUnit::Utf16), None);
        assert_eq!(text.slice(9, 12), None);
    }

    proptest! {
        #[test]
        fn slices_are_those_of_the_text(text in any::<String>(), start in 0..20usize, length in 0..20usize) {
            let index = TextIndex::new(&text);
            let expected = (start + length <= index.len()).then(|| slice(&text, start, start + length));
            prop_assert_eq!(index.slice(start, start + length), expected);
            prop_assert_eq!(index.len(), text.chars().count());
        }
    }
}
