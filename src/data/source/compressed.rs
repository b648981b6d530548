//! Input that may be compressed: gzip and Zstandard are recognised by their first bytes and decompressed while reading.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Most bytes that a file may have after decompression.
pub(super) const MAX_BYTES: u64 = 4 << 30;
/// Most decompressed bytes for each compressed byte, beyond the first [`MIN_GUARDED`] bytes. Annotated texts stay below 50.
const MAX_RATIO: u64 = 250;
/// Number of decompressed bytes from which on [`MAX_RATIO`] applies.
const MIN_GUARDED: u64 = 64 << 20;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of the magic number of a Zstandard frame without content; the first is 0x50 to 0x5f.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// A limit on the number of decompressed bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::data) struct Limit {
    /// Most bytes.
    pub bytes: u64,
    /// Most bytes before the ratio to the compressed bytes is checked.
    pub guarded: u64,
    /// Most decompressed bytes for each compressed byte.
    pub ratio: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            guarded: MIN_GUARDED,
            ratio: MAX_RATIO,
        }
    }
}

impl Limit {
    /// Checks the number of bytes decompressed so far against that of the compressed bytes.
    pub fn check(self, compressed: u64, decompressed: u64) -> Result<(), String> {
        if decompressed > self.bytes {
            let limit = self.bytes >> 20;
            return Err(format!(
                "has more than {limit} MiB after decompression, the limit; split it into smaller files"
            ));
        }
        if decompressed > self.guarded && decompressed / self.ratio > compressed {
            return Err(format!(
                "{compressed} compressed bytes became {decompressed}, more than {} times as many, the limit beyond \
                 {} MiB; decompress it yourself if it is what you expect",
                self.ratio,
                self.guarded >> 20
            ));
        }
        Ok(())
    }
}

/// A reader of a file's content, decompressed if it is compressed. Problems of the compressed data are errors of the kind
/// [`ErrorKind::InvalidData`].
pub(super) struct Decompressed {
    state: State,
    /// `None` for a stream that is not kept in memory.
    limit: Option<Limit>,
    decompressed: u64,
}

enum State {
    Plain(Input),
    Gzip(Box<GzDecoder<Input>>),
    Zstd(Box<StreamingDecoder<Input, FrameDecoder>>),
    Finished,
}

impl Decompressed {
    /// Looks at the first bytes, as few as necessary, so that text from a terminal or pipe is passed on at once.
    pub fn new(reader: Box<dyn Read + Send>, limit: Option<Limit>) -> io::Result<Self> {
        let mut input = Input::new(reader);
        let state = if input.starts_with(GZIP)? {
            State::Gzip(Box::new(GzDecoder::new(input)))
        } else if input.starts_with(ZSTD)? || input.is_skippable_frame()? {
            zstd_frame(input)?
        } else {
            State::Plain(input)
        };
        Ok(Self {
            state,
            limit,
            decompressed: 0,
        })
    }

    fn compressed(&self) -> Option<u64> {
        match &self.state {
            State::Gzip(decoder) => Some(decoder.get_ref().taken),
            State::Zstd(decoder) => Some(decoder.get_ref().taken),
            State::Plain(_) | State::Finished => None,
        }
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let count = match &mut self.state {
                State::Plain(input) => return input.read(buffer),
                State::Finished => return Ok(0),
                State::Gzip(decoder) => decoder.read(buffer).map_err(|e| damaged("gzip", &e))?,
                State::Zstd(decoder) => {
                    decoder.read(buffer).map_err(|e| damaged("Zstandard", &e))?
                }
            };
            if count > 0 {
                self.decompressed += count as u64;
                if let (Some(limit), Some(compressed)) = (self.limit, self.compressed()) {
                    let checked = limit.check(compressed, self.decompressed);
                    checked.map_err(invalid)?;
                }
                return Ok(count);
            }
            // A file may consist of several compressed parts, each complete in itself.
            self.state = match std::mem::replace(&mut self.state, State::Finished) {
                State::Gzip(decoder) => next_member(decoder.into_inner())?,
                State::Zstd(decoder) => {
                    let expected = decoder.decoder.get_checksum_from_data();
                    if expected.is_some() && expected != decoder.decoder.get_calculated_checksum() {
                        return Err(damaged("Zstandard", &"the checksum differs"));
                    }
                    zstd_frame(decoder.into_inner())?
                }
                other => other,
            };
        }
    }
}

/// Decompresses all of a decoder's data, `compressed` bytes, with a limit.
pub(in crate::data) fn inflate(
    decoder: impl Read,
    compressed: usize,
    limit: Limit,
) -> Result<Vec<u8>, String> {
    let mut decompressed = Vec::new();
    // One chunk at a time, so that a small file that becomes a large one is noticed early.
    let mut decoder = decoder;
    loop {
        let count = (&mut decoder).take(1 << 20).read_to_end(&mut decompressed);
        if count.map_err(|error| damaged("compressed", &error).to_string())? == 0 {
            return Ok(decompressed);
        }
        limit.check(compressed as u64, decompressed.len() as u64)?;
    }
}

/// The next gzip member, or the end. Zero bytes at the end, as tape drives add them, are ignored.
fn next_member(mut input: Input) -> io::Result<State> {
    while input.fill_buf()?.first() == Some(&0) {
        input.consume(1);
    }
    if input.fill_buf()?.is_empty() {
        Ok(State::Finished)
    } else if input.starts_with(GZIP)? {
        Ok(State::Gzip(Box::new(GzDecoder::new(input))))
    } else {
        Err(damaged("gzip", &"other bytes follow"))
    }
}

/// The next Zstandard frame with content, or the end.
fn zstd_frame(mut input: Input) -> io::Result<State> {
    while input.is_skippable_frame()? {
        let mut header = [0; 8];
        input.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let skipped = io::copy(&mut (&mut input).take(length.into()), &mut io::sink())?;
        if skipped < length.into() {
            return Err(damaged("Zstandard", &"the file ends early"));
        }
    }
    if input.fill_buf()?.is_empty() {
        return Ok(State::Finished);
    }
    if !input.starts_with(ZSTD)? {
        return Err(damaged("Zstandard", &"other bytes follow"));
    }
    match StreamingDecoder::new(input) {
        Ok(decoder) => Ok(State::Zstd(Box::new(decoder))),
        Err(error) => Err(damaged("Zstandard", &error)),
    }
}

fn damaged(kind: &str, problem: &dyn std::fmt::Display) -> io::Error {
    invalid(format!(
        "{kind} data is damaged or cut off ({problem}); compress or download the file again"
    ))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

/// A buffered reader that can look ahead and counts the bytes taken from it.
struct Input {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    taken: u64,
}

impl Input {
    fn new(reader: Box<dyn Read + Send>) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            taken: 0,
        }
    }

    /// Appends bytes to the buffer; false at the end.
    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + (1 << 16), 0);
        let result = loop {
            match self.reader.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.buffer
            .truncate(length + *result.as_ref().unwrap_or(&0));
        result.map(|count| count > 0)
    }

    /// True when the next bytes are these. Reads no further than necessary.
    fn starts_with(&mut self, expected: &[u8]) -> io::Result<bool> {
        loop {
            let next = &self.buffer[self.start..];
            if next.len() >= expected.len() || !expected.starts_with(next) {
                return Ok(next.starts_with(expected));
            }
            if !self.read_more()? {
                return Ok(false);
            }
        }
    }

    fn is_skippable_frame(&mut self) -> io::Result<bool> {
        let Some(first) = self.fill_buf()?.first().copied() else {
            return Ok(false);
        };
        let [second, third, fourth] = [ZSTD_SKIPPABLE[0], ZSTD_SKIPPABLE[1], ZSTD_SKIPPABLE[2]];
        Ok((0x50..=0x5f).contains(&first) && self.starts_with(&[first, second, third, fourth])?)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let next = self.fill_buf()?;
        let count = next.len().min(buffer.len());
        buffer[..count].copy_from_slice(&next[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.buffer.len() {
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..])
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.taken += count as u64;
    }
}

#[cfg(test)]
pub(in crate::data) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// Compresses with gzip.
    pub fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Compresses with zlib.
    pub fn zlib(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Compresses with Zstandard.
    pub fn zstd(content: &[u8]) -> Vec<u8> {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8], limit: Limit) -> Result<Vec<u8>, String> {
        let reader = Box::new(io::Cursor::new(bytes.to_vec()));
        let mut content = Vec::new();
        Decompressed::new(reader, Some(limit))
            .and_then(|mut reader| reader.read_to_end(&mut content))
            .map_err(|error| error.to_string())?;
        Ok(content)
    }

    #[test]
    fn several_parts_are_joined() {
        let skippable = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9].as_slice();
        for (bytes, content) in [
            ([gzip(b"one "), gzip(b"two")].concat(), "one two"),
            ([gzip(b"one"), vec![0; 70_000]].concat(), "one"),
            ([zstd(b"one "), zstd(b"two")].concat(), "one two"),
            ([skippable, &zstd(b"x"), skippable].concat(), "x"),
            (gzip(b""), ""),
            (skippable.to_vec(), ""),
            (b"Plain text".to_vec(), "Plain text"),
            (b"\x1f".to_vec(), "\x1f"),
            (b"(".to_vec(), "("),
            (b"P*M".to_vec(), "P*M"),
            (Vec::new(), ""),
        ] {
            let found = read(&bytes, Limit::default()).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), content);
        }
    }

    #[test]
    fn damaged_data_is_an_error() {
        for bytes in [gzip(b"some text, some text"), zstd(b"some text, some text")] {
            for length in 4..bytes.len() {
                let error = read(&bytes[..length], Limit::default()).unwrap_err();
                assert!(error.contains("damaged or cut off"), "{length}: {error}");
            }
            let error = read(&[&bytes, b"x".as_slice()].concat(), Limit::default()).unwrap_err();
            assert!(error.contains("other bytes follow"), "{error}");
        }
        // The checksum of the content is checked.
        let mut bytes = gzip(b"some text");
        let position = bytes.len() - 6;
        bytes[position] ^= 1;
        assert!(read(&bytes, Limit::default()).is_err());
    }

    #[test]
    fn the_limits_are_named() {
        let limit = Limit {
            bytes: 2 << 20,
            guarded: 1 << 20,
            ..Limit::default()
        };
        for compress in [gzip, zstd] {
            let bytes = compress(&vec![b'a'; 3 << 19]);
            let error = read(&bytes, limit).unwrap_err();
            assert!(error.contains("more than 250 times"), "{error}");
            let noise: Vec<u8> = (0..5u32 << 19)
                .flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes())
                .take(5 << 19)
                .collect();
            let error = read(&compress(&noise), limit).unwrap_err();
            assert!(error.contains("more than 2 MiB"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(
            content in prop::collection::vec(any::<u8>(), 0..300),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 0..4),
            kind in 0..4u8,
        ) {
            let limit = Limit { bytes: 1 << 20, guarded: 1 << 16, ratio: 250 };
            let mut bytes = match kind {
                0 => gzip(&content),
                1 => zstd(&content),
                2 => [GZIP, &[8, 0], &content].concat(),
                _ => [ZSTD, &content].concat(),
            };
            if kind < 2 {
                prop_assert_eq!(read(&bytes, limit).unwrap(), content);
            }
            for (index, bit) in flips {
                let index = index.index(bytes.len());
                bytes[index] ^= 1 << bit;
            }
            if let Ok(content) = read(&bytes, limit) {
                prop_assert!(content.len() <= 1 << 20);
            }
        }
    }
}
