//! MessagePack: a cursor over encoded values that copies and allocates nothing.

/// A position in encoded values. All functions return `None` for data that ends early or has another type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

/// The first bytes of a value.
enum Head<'a> {
    /// An integer; negative ones as in two's complement.
    Integer(u64),
    /// A string or bytes.
    Bytes(&'a [u8]),
    /// A list and its length.
    List(usize),
    /// A map and its number of entries.
    Map(usize),
    /// Nil, true or false.
    Constant(u8),
    /// A floating-point number or an extension, which is skipped.
    Other,
}

impl<'a> Cursor<'a> {
    /// The start of encoded values.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// A big-endian number of this many bytes.
    fn number(&mut self, count: usize) -> Option<u64> {
        let bytes = self.take(count)?;
        Some(
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    fn length(&mut self, count: usize) -> Option<usize> {
        usize::try_from(self.number(count)?).ok()
    }

    fn head(&mut self) -> Option<Head<'a>> {
        let first = self.take(1)?[0];
        Some(match first {
            0x00..=0x7f => Head::Integer(first.into()),
            0x80..=0x8f => Head::Map(usize::from(first & 0x0f)),
            0x90..=0x9f => Head::List(usize::from(first & 0x0f)),
            0xa0..=0xbf => Head::Bytes(self.take(usize::from(first & 0x1f))?),
            0xc0 | 0xc2 | 0xc3 => Head::Constant(first),
            0xc1 => return None,
            0xc4 | 0xd9 => {
                let length = self.length(1)?;
                Head::Bytes(self.take(length)?)
            }
            0xc5 | 0xda => {
                let length = self.length(2)?;
                Head::Bytes(self.take(length)?)
            }
            0xc6 | 0xdb => {
                let length = self.length(4)?;
                Head::Bytes(self.take(length)?)
            }
            0xc7..=0xc9 => {
                let length = self.length(1 << (first - 0xc7))?;
                self.take(length.checked_add(1)?)?;
                Head::Other
            }
            0xca | 0xcb => {
                self.take(4 << (first - 0xca))?;
                Head::Other
            }
            0xcc..=0xcf => Head::Integer(self.number(1 << (first - 0xcc))?),
            0xd0..=0xd3 => {
                let size = 1 << (first - 0xd0);
                let number = self.number(size)?;
                let unused = 64 - 8 * size as u32;
                Head::Integer(((number << unused) as i64 >> unused) as u64)
            }
            0xd4..=0xd8 => {
                self.take(1 + (1 << (first - 0xd4)))?;
                Head::Other
            }
            0xdc => Head::List(self.length(2)?),
            0xdd => Head::List(self.length(4)?),
            0xde => Head::Map(self.length(2)?),
            0xdf => Head::Map(self.length(4)?),
            0xe0..=0xff => Head::Integer(first as i8 as i64 as u64),
        })
    }

    /// The number of entries of a map, whose keys and values follow.
    pub fn map(&mut self) -> Option<usize> {
        match self.head()? {
            Head::Map(length) => Some(length),
            _ => None,
        }
    }

    /// The number of elements of a list, which follow.
    pub fn list(&mut self) -> Option<usize> {
        match self.head()? {
            Head::List(length) => Some(length),
            _ => None,
        }
    }

    /// A string or bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        match self.head()? {
            Head::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A string.
    pub fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// An integer.
    pub fn integer(&mut self) -> Option<u64> {
        match self.head()? {
            Head::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// Whether the next value is `true`.
    pub fn is_true(&mut self) -> Option<bool> {
        match self.head()? {
            Head::Constant(byte) => Some(byte == 0xc3),
            _ => None,
        }
    }

    /// Skips a value with all that it contains, without recursion, and returns a cursor at its start.
    pub fn skip(&mut self) -> Option<Self> {
        let start = *self;
        let mut values = 1u64;
        while values > 0 {
            values -= 1;
            let inner = match self.head()? {
                Head::List(length) => length as u64,
                Head::Map(length) => 2 * length as u64,
                _ => 0,
            };
            values = values.checked_add(inner)?;
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_of_all_kinds() {
        // {"a": [1, -1, -300, 70000, "é", b"\x01", nil, true, 1.5, ext], "b": {}}
        let bytes = b"\x82\xa1a\x9a\x01\xff\xd1\xfe\xd4\xce\x00\x01\x11\x70\xa2\xc3\xa9\xc4\x01\x01\xc0\xc3\xcb\x3f\xf8\0\0\0\0\0\0\xd4\x01\x02\xa1b\x80";
        let mut cursor = Cursor::new(bytes);
        assert_eq!(cursor.map(), Some(2));
        assert_eq!(cursor.string(), Some("a"));
        let mut list = cursor.skip().unwrap();
        assert_eq!(list.list(), Some(10));
        let numbers: Vec<i64> = (0..4).map(|_| list.integer().unwrap() as i64).collect();
        assert_eq!(numbers, [1, -1, -300, 70_000]);
        assert_eq!(list.string(), Some("é"));
        assert_eq!(list.bytes(), Some([1].as_slice()));
        assert_eq!(list.is_true(), Some(false));
        assert_eq!(list.is_true(), Some(true));
        assert!(list.skip().is_some() && list.skip().is_some());
        assert_eq!(list.string(), Some("b"));
        assert_eq!(cursor.string(), Some("b"));
        assert_eq!(cursor.map(), Some(0));
        assert!(cursor.skip().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.skip().is_some() {}
            // Deeply nested lists need no stack.
            prop_assert!(Cursor::new(&[0x91; 100_000]).skip().is_none());
        }
    }
}
