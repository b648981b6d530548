//! The encodings of values in Parquet pages.

use std::rc::Rc;

use super::schema::Type;
use super::thrift::{varint, zigzag};
use super::{Budget, Problem, Result};

/// A value of a leaf.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// A string; `None` for bytes that are not valid UTF-8.
    Text(Option<Rc<str>>),
}

/// What a value costs of the memory budget, besides the bytes of its text.
const VALUE_COST: usize = 24;

impl Scalar {
    /// The cost of a copy of this value in the output.
    fn cost(&self) -> usize {
        match self {
            Scalar::Text(Some(text)) => VALUE_COST + text.len(),
            _ => VALUE_COST,
        }
    }
}

/// Removes bytes from the start.
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Problem::Damaged)?;
    *bytes = rest;
    Ok(taken)
}

/// Removes a length of four bytes, and that many bytes after it.
pub(super) fn take_prefixed<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(Problem::Damaged)?;
    *bytes = rest;
    take(bytes, u32::from_le_bytes(*length) as usize)
}

/// The value of `width` bits that starts at a bit.
fn bits(bytes: &[u8], start: usize, width: u32) -> u64 {
    let mut value = 0u128;
    let (first, shift) = (start / 8, start % 8);
    for (index, byte) in bytes.iter().skip(first).take(9).enumerate() {
        value |= u128::from(*byte) << (8 * index);
    }
    let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
    (value >> shift) as u64 & mask
}

/// The hybrid of run lengths and packed bits: `count` values of `width` bits.
pub(super) fn hybrid(
    mut bytes: &[u8],
    width: u32,
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<u32>> {
    if width > 32 {
        return Err(Problem::Damaged);
    }
    budget.spend(count.saturating_mul(4))?;
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let header = varint(&mut bytes)?;
        let length = usize::try_from(header >> 1).map_err(|_| Problem::Damaged)?;
        let missing = count - values.len();
        if header & 1 == 0 {
            let value = take(&mut bytes, width.div_ceil(8) as usize)?;
            let value = bits(value, 0, width) as u32;
            values.extend(std::iter::repeat_n(value, length.min(missing)));
        } else {
            // Groups of eight values. The last one may be cut off after the last value.
            let size = length.checked_mul(width as usize).ok_or(Problem::Damaged)?;
            let available = size.min(bytes.len());
            let packed = take(&mut bytes, available)?;
            let wanted = length.saturating_mul(8).min(missing);
            if packed.len() < size && packed.len() < (wanted * width as usize).div_ceil(8) {
                return Err(Problem::Damaged);
            }
            values.extend(
                (0..wanted).map(|index| bits(packed, index * width as usize, width) as u32),
            );
        }
    }
    Ok(values)
}

/// Values without compression.
pub(super) fn plain(
    mut bytes: &[u8],
    of: Type,
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Scalar>> {
    let size = match of {
        Type::Boolean => count.div_ceil(8),
        Type::Int32 | Type::Float | Type::Bytes => count.saturating_mul(4),
        Type::Int64 | Type::Double => count.saturating_mul(8),
    };
    if size > bytes.len() {
        return Err(Problem::Damaged);
    }
    budget.spend(count.saturating_mul(VALUE_COST))?;
    match of {
        Type::Boolean => Ok((0..count)
            .map(|index| Scalar::Boolean(bits(bytes, index, 1) == 1))
            .collect()),
        Type::Bytes => (0..count)
            .map(|_| {
                let value = take_prefixed(&mut bytes)?;
                budget.spend(value.len())?;
                Ok(text(value))
            })
            .collect(),
        Type::Int32 => Ok(numbers(bytes, count, |bytes| {
            Scalar::Integer(i32::from_le_bytes(bytes).into())
        })),
        Type::Float => Ok(numbers(bytes, count, |bytes| {
            Scalar::Float(f32::from_le_bytes(bytes).into())
        })),
        Type::Int64 => Ok(numbers(bytes, count, |bytes| {
            Scalar::Integer(i64::from_le_bytes(bytes))
        })),
        Type::Double => Ok(numbers(bytes, count, |bytes| {
            Scalar::Float(f64::from_le_bytes(bytes))
        })),
    }
}

fn numbers<const N: usize>(
    bytes: &[u8],
    count: usize,
    number: impl Fn([u8; N]) -> Scalar,
) -> Vec<Scalar> {
    let chunks = bytes.as_chunks::<N>().0;
    chunks
        .iter()
        .take(count)
        .map(|chunk| number(*chunk))
        .collect()
}

fn text(bytes: &[u8]) -> Scalar {
    Scalar::Text(std::str::from_utf8(bytes).ok().map(Rc::from))
}

/// Indices into a dictionary, of a width given by the first byte.
pub(super) fn dictionary_values(
    mut bytes: &[u8],
    dictionary: &[Scalar],
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Scalar>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let width = take(&mut bytes, 1)?[0];
    let indices = hybrid(bytes, width.into(), count, budget)?;
    let mut values = Vec::with_capacity(count.min(1 << 16));
    for index in indices {
        let value = dictionary.get(index as usize).ok_or(Problem::Damaged)?;
        budget.spend(value.cost())?;
        values.push(value.clone());
    }
    Ok(values)
}

/// Differences of integers, packed in blocks; removes them from the bytes.
fn deltas(bytes: &mut &[u8], limit: usize, budget: &mut Budget) -> Result<Vec<i64>> {
    let length = |bytes: &mut &[u8]| usize::try_from(varint(bytes)?).map_err(|_| Problem::Damaged);
    let (block, miniblocks, count) = (length(bytes)?, length(bytes)?, length(bytes)?);
    let mut last = zigzag(varint(bytes)?);
    let per_miniblock = block
        .checked_div(miniblocks)
        .filter(|count| *count > 0)
        .ok_or(Problem::Damaged)?;
    // A page has at most as many values as its header says.
    if count > limit || miniblocks > block || block > 1 << 20 {
        return Err(Problem::Damaged);
    }
    budget.spend(count.saturating_mul(VALUE_COST))?;
    let mut values = Vec::with_capacity(count);
    values.extend((count > 0).then_some(last));
    while values.len() < count {
        let smallest = zigzag(varint(bytes)?);
        let widths = take(bytes, miniblocks)?;
        for width in widths {
            let missing = count - values.len();
            if missing == 0 {
                break;
            }
            let width = u32::from(*width);
            if width > 64 {
                return Err(Problem::Damaged);
            }
            let packed = take(bytes, (per_miniblock * width as usize).div_ceil(8))?;
            for index in 0..per_miniblock.min(missing) {
                let delta = bits(packed, index * width as usize, width) as i64;
                last = last.wrapping_add(smallest).wrapping_add(delta);
                values.push(last);
            }
        }
    }
    Ok(values)
}

/// The encoding DELTA_BINARY_PACKED.
pub(super) fn delta_integers(
    mut bytes: &[u8],
    of: Type,
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Scalar>> {
    let values = deltas(&mut bytes, count, budget)?;
    // The arithmetic of 32-bit columns wraps at 32 bits.
    let value = |value: i64| {
        Scalar::Integer(if of == Type::Int32 {
            (value as i32).into()
        } else {
            value
        })
    };
    Ok(values.into_iter().map(value).collect())
}

/// The encoding DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes.
pub(super) fn delta_lengths(
    mut bytes: &[u8],
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Scalar>> {
    suffixes(&mut bytes, count, budget)?
        .into_iter()
        .map(|value| Ok(text(value)))
        .collect()
}

fn suffixes<'a>(bytes: &mut &'a [u8], count: usize, budget: &mut Budget) -> Result<Vec<&'a [u8]>> {
    let lengths = deltas(bytes, count, budget)?;
    let slices = lengths.into_iter().map(|length| {
        let length = usize::try_from(length).map_err(|_| Problem::Damaged)?;
        budget.spend(length)?;
        take(bytes, length)
    });
    slices.collect()
}

/// The encoding DELTA_BYTE_ARRAY: each value is the start of the one before it and an end of its own.
pub(super) fn delta_texts(
    mut bytes: &[u8],
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Scalar>> {
    let shared = deltas(&mut bytes, count, budget)?;
    let ends = suffixes(&mut bytes, count, budget)?;
    if shared.len() != ends.len() {
        return Err(Problem::Damaged);
    }
    let mut value = Vec::new();
    let values = shared.into_iter().zip(ends).map(|(shared, end)| {
        let shared = usize::try_from(shared)
            .ok()
            .filter(|shared| *shared <= value.len());
        value.truncate(shared.ok_or(Problem::Damaged)?);
        value.extend_from_slice(end);
        budget.spend(value.len())?;
        Ok(text(&value))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_bits() {
        let mut budget = Budget::new(1000);
        // The example of the specification: 0 to 7 in three bits each, then a run of five times 2.
        let bytes = [0x03, 0x88, 0xc6, 0xfa, 0x0a, 0x02];
        let values = hybrid(&bytes, 3, 13, &mut budget).unwrap();
        assert_eq!(values, [0, 1, 2, 3, 4, 5, 6, 7, 2, 2, 2, 2, 2]);
        assert!(hybrid(&bytes, 3, 14, &mut budget).is_err());
        assert!(hybrid(&bytes, 33, 1, &mut budget).is_err());
        assert_eq!(hybrid(&[0x0a], 0, 5, &mut budget).unwrap(), [0; 5]);
        // A run of 2^31 values is refused before memory is allocated.
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01];
        let error = hybrid(&bytes, 3, 1 << 31, &mut budget);
        assert!(matches!(error, Err(Problem::Limit(_))));
    }

    #[test]
    fn differences() {
        let mut budget = Budget::new(10_000);
        // The example of the specification: 7, 5, 3, 1, 2, 3, 4, 5.
        let bytes = [8, 1, 8, 14, 3, 2, 0b11000000, 0b00111111, 0];
        let mut rest = bytes.as_slice();
        assert_eq!(
            deltas(&mut rest, 8, &mut budget).unwrap(),
            [7, 5, 3, 1, 2, 3, 4, 5]
        );
        assert!(deltas(&mut [8, 0, 8, 14].as_slice(), 8, &mut budget).is_err());
        assert!(deltas(&mut bytes.as_slice(), 7, &mut budget).is_err());
    }
}
