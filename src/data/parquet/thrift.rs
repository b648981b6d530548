//! The compact protocol of Apache Thrift, in which Parquet writes its metadata.

use super::{Problem, Result};

/// Kinds of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Deepest nesting of values that are skipped.
const MAX_DEPTH: usize = 32;

/// A position in encoded values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thrift<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Thrift<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Problem::Damaged)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn length(&mut self) -> Result<usize> {
        usize::try_from(varint(&mut self.bytes)?).map_err(|_| Problem::Damaged)
    }

    /// The kind of the next field of a struct, whose number is written to `id`; `None` at the end of the struct.
    pub fn field(&mut self, id: &mut i64) -> Result<Option<u8>> {
        let header = self.byte()?;
        if header == 0 {
            return Ok(None);
        }
        *id = match header >> 4 {
            0 => zigzag(varint(&mut self.bytes)?),
            delta => id.saturating_add(delta.into()),
        };
        Ok(Some(header & 0x0f))
    }

    /// An integer of a field of this kind.
    pub fn integer(&mut self, kind: u8) -> Result<i64> {
        match kind {
            BYTE => Ok((self.byte()? as i8).into()),
            4..=6 => Ok(zigzag(varint(&mut self.bytes)?)),
            _ => Err(Problem::Damaged),
        }
    }

    /// A boolean of a field of this kind.
    pub fn boolean(&mut self, kind: u8) -> Result<bool> {
        match kind {
            TRUE | FALSE => Ok(kind == TRUE),
            _ => Err(Problem::Damaged),
        }
    }

    /// The bytes of a field of this kind.
    pub fn binary(&mut self, kind: u8) -> Result<&'a [u8]> {
        if kind != BINARY {
            return Err(Problem::Damaged);
        }
        let length = self.length()?;
        self.take(length)
    }

    /// A string of a field of this kind.
    pub fn string(&mut self, kind: u8) -> Result<&'a str> {
        std::str::from_utf8(self.binary(kind)?).map_err(|_| Problem::Damaged)
    }

    /// The elements of a field of this kind, which is a list.
    pub fn list<T>(
        &mut self,
        kind: u8,
        mut element: impl FnMut(&mut Self, u8) -> Result<T>,
    ) -> Result<Vec<T>> {
        if kind != LIST {
            return Err(Problem::Damaged);
        }
        let (length, kind) = self.list_header()?;
        // Every element has at least one byte, so the list cannot be longer than the data.
        (0..length).map(|_| element(self, kind)).collect()
    }

    fn list_header(&mut self) -> Result<(usize, u8)> {
        let header = self.byte()?;
        let length = match header >> 4 {
            15 => self.length()?,
            length => length.into(),
        };
        Ok((length, header & 0x0f))
    }

    /// Fails unless a value of this kind is a struct.
    pub fn expect_struct(kind: u8) -> Result<()> {
        if kind == STRUCT {
            Ok(())
        } else {
            Err(Problem::Damaged)
        }
    }

    /// Skips the value of a field of this kind.
    pub fn skip(&mut self, kind: u8) -> Result<()> {
        self.skip_nested(kind, 0)
    }

    fn skip_nested(&mut self, kind: u8, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Problem::Damaged);
        }
        match kind {
            TRUE | FALSE => {}
            BYTE..=6 => {
                self.integer(kind)?;
            }
            DOUBLE => {
                self.take(8)?;
            }
            BINARY => {
                self.binary(kind)?;
            }
            LIST | SET => {
                let (length, kind) = self.list_header()?;
                for _ in 0..length {
                    self.skip_element(kind, depth)?;
                }
            }
            MAP => {
                let length = self.length()?;
                let kinds = if length > 0 { self.byte()? } else { 0 };
                for _ in 0..length {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 0x0f, depth)?;
                }
            }
            STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip_nested(kind, depth + 1)?;
                }
            }
            _ => return Err(Problem::Damaged),
        }
        Ok(())
    }

    /// Skips an element of a list; unlike a field, a boolean takes a byte here.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<()> {
        match kind {
            TRUE | FALSE => self.take(1).map(|_| ()),
            _ => self.skip_nested(kind, depth + 1),
        }
    }
}

/// A number of variable length, seven bits in each byte, and removes it from the bytes.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(Problem::Damaged)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Problem::Damaged)
}

/// The signed number of an encoding that alternates the signs: 0, -1, 1, -2, 2.
pub(super) fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        assert_eq!(varint(&mut [0xac, 0x02].as_slice()).unwrap(), 300);
        assert_eq!([0, 1, 2, 3].map(zigzag), [0, -1, 1, -2]);
        assert_eq!(zigzag(u64::MAX), i64::MIN);
        assert!(varint(&mut [0xff; 11].as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for kind in 0..16 {
                let mut thrift = Thrift { bytes: &bytes };
                let _ = thrift.skip(kind);
            }
            let mut nested = Thrift { bytes: &[0x1c; 10_000] };
            prop_assert!(nested.skip(STRUCT).is_err());
        }
    }
}
