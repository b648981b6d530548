//! Compression of Parquet pages.

use super::{Problem, Result};
use crate::data::source::compressed::{Limit, inflate};

/// Decompresses a page to exactly `size` bytes.
pub(super) fn decompress(codec: i64, bytes: &[u8], size: usize) -> Result<Vec<u8>> {
    let limit = Limit {
        bytes: size as u64,
        guarded: u64::MAX,
        ..Limit::default()
    };
    let decompressed = match codec {
        0 => bytes.to_vec(),
        1 => snappy(bytes, size)?,
        2 => inflate(
            flate2::bufread::MultiGzDecoder::new(bytes),
            bytes.len(),
            limit,
        )
        .map_err(|_| Problem::Damaged)?,
        6 => {
            let decoder =
                ruzstd::decoding::StreamingDecoder::new(bytes).map_err(|_| Problem::Damaged)?;
            inflate(decoder, bytes.len(), limit).map_err(|_| Problem::Damaged)?
        }
        7 => lz4(bytes, size)?,
        other => {
            let name = match other {
                3 => "LZO",
                4 => "Brotli",
                5 => "the old LZ4",
                _ => "an unknown",
            };
            return Err(Problem::Unsupported(format!(
                "compressed with {name} codec; write it again with `compression=\"zstd\"`"
            )));
        }
    };
    if decompressed.len() == size {
        Ok(decompressed)
    } else {
        Err(Problem::Damaged)
    }
}

fn snappy(bytes: &[u8], size: usize) -> Result<Vec<u8>> {
    // The decoder allocates the length that the data gives. No input of Snappy becomes 64 times as long.
    let length = snap::raw::decompress_len(bytes).map_err(|_| Problem::Damaged)?;
    if length != size || length / 64 > bytes.len() {
        return Err(Problem::Damaged);
    }
    snap::raw::Decoder::new()
        .decompress_vec(bytes)
        .map_err(|_| Problem::Damaged)
}

/// A block of LZ4 without a frame.
fn lz4(mut bytes: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut output: Vec<u8> = Vec::new();
    let next = |bytes: &mut &[u8]| {
        let (first, rest) = bytes.split_first().ok_or(Problem::Damaged)?;
        *bytes = rest;
        Ok::<usize, Problem>((*first).into())
    };
    // A length of 15 continues in the following bytes.
    let length = |bytes: &mut &[u8], start: usize| {
        let mut length = start;
        if start == 15 {
            loop {
                let more = next(bytes)?;
                length += more;
                if more < 255 {
                    break;
                }
            }
        }
        Ok::<usize, Problem>(length)
    };
    while !bytes.is_empty() {
        let token = next(&mut bytes)?;
        let literals = length(&mut bytes, token >> 4)?;
        let (literals, rest) = bytes.split_at_checked(literals).ok_or(Problem::Damaged)?;
        bytes = rest;
        output.extend_from_slice(literals);
        if bytes.is_empty() {
            break;
        }
        let offset = next(&mut bytes)? + 256 * next(&mut bytes)?;
        let count = 4 + length(&mut bytes, token & 15)?;
        let start = output
            .len()
            .checked_sub(offset)
            .filter(|_| offset > 0)
            .ok_or(Problem::Damaged)?;
        if output.len() + count > size {
            return Err(Problem::Damaged);
        }
        // The copied bytes may overlap those that are being written.
        for index in start..start + count {
            output.push(output[index]);
        }
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_lz4() {
        // Literals `abc`, six bytes from three before, then literals `x`.
        let bytes = [0x32, b'a', b'b', b'c', 3, 0, 0x10, b'x'];
        assert_eq!(lz4(&bytes, 10).unwrap(), b"abcabcabcx");
        assert!(lz4(&bytes, 8).is_err());
        assert!(lz4(&[0x10, b'a', 0, 0], 9).is_err() && lz4(&[0xf0, 255], 9).is_err());
    }
}
