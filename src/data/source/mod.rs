//! Opening corpus files, and their lines.

mod collector;
pub(super) mod compressed;
mod encoding;
pub(super) mod tally;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

pub(super) use collector::{BAD_ENCODING, Collector};

use crate::error::{Error, Location, Result};
use compressed::{Decompressed, Limit, MAX_BYTES};

/// The content of a file, decompressed. A text is UTF-8 without a byte-order mark, and its lines end in `\n` or `\r\n`.
pub(super) struct Source {
    bytes: Vec<u8>,
}

/// One line of a file, without its line ending.
pub(super) struct Line<'a> {
    /// Line number from 1.
    pub number: usize,
    /// The text, or the column (in characters, from 1) of the first byte that is not valid UTF-8.
    pub text: std::result::Result<&'a str, usize>,
}

/// True for `-`, which stands for standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The name of a file in messages: its path, or `<stdin>` for `-`.
pub(super) fn display_name(path: &Path) -> PathBuf {
    if is_stdin(path) {
        PathBuf::from("<stdin>")
    } else {
        path.to_path_buf()
    }
}

/// The path without the extension of a compressed file.
pub(super) fn uncompressed_name(path: &Path) -> PathBuf {
    let extension = path
        .extension()
        .map(|extension| extension.to_string_lossy());
    match extension
        .map(|extension| extension.to_lowercase())
        .as_deref()
    {
        Some("gz" | "gzip" | "zst" | "zstd") => path.with_extension(""),
        _ => path.to_path_buf(),
    }
}

/// A file's extension in lower case; that of `a.json.gz` is `json`.
pub fn file_extension(path: &Path) -> Option<String> {
    let name = uncompressed_name(path);
    name.extension()
        .map(|extension| extension.to_string_lossy().to_lowercase())
}

/// Opens a file, or standard input for the path `-`, and decompresses it while it is read if it is compressed.
pub fn open_stream(path: &Path) -> Result<Box<dyn Read + Send>> {
    let stream = Decompressed::new(open_raw(path)?, None);
    Ok(Box::new(stream.map_err(|error| read_error(path, error))?))
}

/// True for standard input and for pipes, which can be read only once.
pub fn is_stream(path: &Path) -> bool {
    is_stdin(path)
        || path
            .metadata()
            .is_ok_and(|data| !data.is_file() && !data.is_dir())
}

fn open_raw(path: &Path) -> Result<Box<dyn Read + Send>> {
    if is_stdin(path) {
        return Ok(Box::new(std::io::stdin()));
    }
    if path.is_dir() {
        return Err(Error::data(
            Location::file(path),
            "is a folder, and only `brat` is read from folders; name a file",
        ));
    }
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    Ok(Box::new(file))
}

/// The error for a failed read: problems of compressed data are problems of the file's content.
fn read_error(path: &Path, error: std::io::Error) -> Error {
    let name = display_name(path);
    match error.kind() {
        ErrorKind::InvalidData => Error::data(Location::file(name), error.to_string()),
        _ => Error::io(name, error),
    }
}

impl Source {
    /// Reads a file, or standard input for the path `-`, into memory.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |error| read_error(path, error);
        let reader = Decompressed::new(open_raw(path)?, Some(Limit::default())).map_err(fail)?;
        let mut bytes = Vec::new();
        if is_stream(path) {
            // A pipe does not tell its size.
            let mut reader = reader.take(MAX_BYTES + 1);
            reader.read_to_end(&mut bytes).map_err(fail)?;
            if bytes.len() as u64 > MAX_BYTES {
                let message = format!(
                    "gives more than {} MiB, the limit; save it to files",
                    MAX_BYTES >> 20
                );
                return Err(Error::data(Location::file(display_name(path)), message));
            }
        } else {
            let mut reader = reader;
            let length = path.metadata().map_or(0, |data| data.len());
            let reserved = bytes.try_reserve(usize::try_from(length).unwrap_or(usize::MAX));
            reserved.map_err(|error| Error::io(path, std::io::Error::other(error)))?;
            reader.read_to_end(&mut bytes).map_err(fail)?;
        }
        let source = Self::from_bytes(bytes).and_then(|source| {
            source.check_line_ends()?;
            Ok(source)
        });
        source.map_err(|problem| Error::data(Location::file(display_name(path)), problem))
    }

    /// Fails if the lines of a text end with carriage returns only, as on computers before 2001: it would be one line.
    fn check_line_ends(&self) -> std::result::Result<(), String> {
        let is_text = super::detect::binary_format(&self.bytes).is_none();
        let has = |byte: u8| self.bytes.contains(&byte);
        let inner = self.bytes.trim_ascii().contains(&b'\r');
        if is_text && inner && !has(b'\n') {
            return Err(
                "its lines end with carriage returns only; convert it with `tr '\\r' '\\n'`".into(),
            );
        }
        Ok(())
    }

    /// The content of a file from its bytes: a text in UTF-8 or, with a byte-order mark, UTF-16, or a binary format.
    pub fn from_bytes(bytes: Vec<u8>) -> std::result::Result<Self, String> {
        let bytes = if super::detect::binary_format(&bytes).is_some() {
            bytes
        } else {
            encoding::to_utf8(bytes)?
        };
        Ok(Self { bytes })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The lines, which end in `\n` or `\r\n`.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.bytes
            .split(|byte| *byte == b'\n')
            .enumerate()
            .map(|(index, bytes)| {
                let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
                Line {
                    number: index + 1,
                    text: decode(bytes),
                }
            })
    }

    /// The first byte that is not white space.
    pub fn first_byte(&self) -> Option<u8> {
        self.bytes
            .iter()
            .copied()
            .find(|byte| !byte.is_ascii_whitespace())
    }

    /// The whole text, with invalid UTF-8 replaced by U+FFFD.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The whole text, or the line and column of the first byte that is not valid UTF-8.
    pub fn text(&self) -> std::result::Result<&str, (usize, usize)> {
        if let Ok(text) = std::str::from_utf8(&self.bytes) {
            return Ok(text);
        }
        let bad = self
            .lines()
            .find_map(|line| line.text.err().map(|column| (line.number, column)));
        Err(bad.unwrap_or((1, 1)))
    }
}

fn decode(bytes: &[u8]) -> std::result::Result<&str, usize> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        String::from_utf8_lossy(valid).chars().count() + 1
    })
}

#[cfg(test)]
mod tests {
    use super::compressed::tests::{gzip, zstd};
    use super::*;
    use crate::data::{Format, ReadOptions, check, detect_format, read, scan};
    use crate::text::Sentence;

    const COLUMNS: &str = "Maria B-PER\nsings O\n\nYes O\n";

    #[test]
    fn all_line_endings_are_understood() {
        let source = Source::from_bytes(b"a\r\n\nb\xe9c\nd".to_vec()).unwrap();
        let lines: Vec<_> = source.lines().map(|line| line.text).collect();
        assert_eq!(lines, [Ok("a"), Ok(""), Err(2), Ok("d")]);
        assert_eq!(source.text(), Err((3, 2)));
        let source = Source::from_bytes(b"a\rb\r".to_vec()).unwrap();
        let lines: Vec<_> = source.lines().map(|line| line.text).collect();
        assert_eq!(lines, [Ok("a"), Ok("b"), Ok("")]);
    }

    #[test]
    fn compressed_files_are_read_whatever_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let utf16: Vec<u8> = "\u{feff}"
            .chars()
            .chain(COLUMNS.chars())
            .flat_map(|c| (c as u16).to_le_bytes())
            .collect();
        for (name, bytes, format) in [
            ("a.conll.gz", gzip(COLUMNS.as_bytes()), Format::Columns),
            ("b.conll", zstd(COLUMNS.as_bytes()), Format::Columns),
            ("c.ZST", zstd(&utf16), Format::Columns),
            (
                "d",
                gzip(COLUMNS.replace('\n', "\r").as_bytes()),
                Format::Columns,
            ),
            (
                "e.txt.gz",
                gzip(b"One text.\nAnother.\n"),
                Format::PlainText,
            ),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(detect_format(&path).unwrap(), format, "{name}");
            assert_eq!(
                read(&path, &ReadOptions::default()).unwrap().len(),
                2,
                "{name}"
            );
        }
        assert_eq!(
            Collector::new(Path::new("x/train.conll.gz")).stem(),
            "train"
        );
        assert_eq!(
            file_extension(Path::new("a.JSON.zst")).as_deref(),
            Some("json")
        );
        let mut text = String::new();
        let mut stream = open_stream(&folder.path().join("a.conll.gz")).unwrap();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, COLUMNS);
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let bytes = gzip(COLUMNS.as_bytes());
        let brat = Some(Format::Brat);
        for (path, format, part) in [
            (
                folder.path().to_path_buf(),
                Some(Format::Columns),
                "is a folder",
            ),
            (folder.path().to_path_buf(), None, "without `.ann` files"),
            (folder.path().join("missing.gz"), None, "missing.gz"),
            (file("cut.gz", &bytes[..20]), None, "cut off"),
            (file("x.ann.gz", &bytes), None, "decompress both"),
            (
                PathBuf::from("-"),
                brat,
                "<stdin>: `brat` is a pair of files",
            ),
            (file("y.json", b"PK\x03\x04"), None, "unzip"),
        ] {
            let options = ReadOptions {
                format,
                ..ReadOptions::default()
            };
            let error = scan(&path, &options).err().unwrap();
            assert!(error.to_string().contains(part), "{}", error.chain());
            assert_eq!(check::check(&[path], &options).errors, 1);
        }
    }

    /// As with `<(command)` of a shell, the writer is there only once.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        assert!(is_stream(&path));
        for bytes in [COLUMNS.as_bytes().to_vec(), gzip(COLUMNS.as_bytes())] {
            for checked in [false, true] {
                let (to, bytes) = (path.clone(), bytes.clone());
                let writer = std::thread::spawn(move || std::fs::write(to, bytes).unwrap());
                if checked {
                    let report = check::check(std::slice::from_ref(&path), &ReadOptions::default());
                    assert_eq!(report.files[0].format, Format::Columns);
                    assert_eq!((report.errors, report.files[0].entities), (0, 1));
                } else {
                    assert_eq!(read(&path, &ReadOptions::default()).unwrap().len(), 2);
                }
                writer.join().unwrap();
            }
        }
        let error = scan(&path, &ReadOptions::of(Format::Brat)).unwrap_err();
        assert!(error.to_string().contains("pipe"), "{error}");
    }

    #[test]
    fn sentences_keep_their_file_and_line() {
        let mut corpus = Collector::new(Path::new("a.txt"));
        for (file, line) in [
            ("a.txt", 1),
            ("b.txt", 1),
            ("b.txt", 4),
            ("c.txt", 2),
            ("d.txt", 3),
        ] {
            corpus.set_file(Path::new(file));
            corpus.push(line, Sentence::default());
        }
        let places = |corpus: &Collector| -> Vec<String> {
            (0..corpus.sentences.len())
                .map(|index| corpus.location(index).to_string())
                .collect()
        };
        assert_eq!(
            places(&corpus),
            ["a.txt:1", "b.txt:1", "b.txt:4", "c.txt:2", "d.txt:3"]
        );
        corpus.retain(&[false, true, false, false, true]);
        assert_eq!(places(&corpus), ["b.txt:1", "d.txt:3"]);
        corpus.retain(&[false, false]);
        assert!(corpus.sentences.is_empty() && corpus.lines.is_empty());
    }
}
