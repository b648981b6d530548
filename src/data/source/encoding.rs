//! The encoding of a text file: everything becomes UTF-8 with line feeds at the ends of lines.

/// Refuses archives and compressed files that are not decompressed here; each with its first bytes and a command.
const ARCHIVES: [(&[u8], &str, &str); 5] = [
    (b"BZh", "bzip2 data", "bzip2 -dc FILE | nerzoo data check -"),
    (
        b"\xfd7zXZ\0",
        "xz data",
        "xz -dc FILE | nerzoo data check -",
    ),
    (b"PK\x03\x04", "a zip archive", "unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x FILE"),
    (
        b"\x04\x22\x4d\x18",
        "lz4 data",
        "lz4 -dc FILE | nerzoo data check -",
    ),
];

/// Offset of the mark of a tar archive.
const TAR_MARK: usize = 257;

/// Removes a byte-order mark, converts UTF-16 and, in a file without any `\n`, the line ending `\r` of old Macintosh
/// programs. Bytes that are not valid UTF-8 are kept, so that their line can be reported.
pub(super) fn to_utf8(mut bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    refuse_archives(&bytes)?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    } else if bytes.starts_with(b"\xff\xfe\0\0") || bytes.starts_with(b"\0\0\xfe\xff") {
        return Err("UTF-32; convert the file with `iconv -f utf-32 -t utf-8`".to_string());
    } else if bytes.starts_with(b"\xff\xfe") {
        bytes = utf16(&bytes[2..], u16::from_le_bytes)?;
    } else if bytes.starts_with(b"\xfe\xff") {
        bytes = utf16(&bytes[2..], u16::from_be_bytes)?;
    } else if let Some(name) = unmarked_utf16(&bytes) {
        return Err(format!(
            "looks like UTF-16 without a byte-order mark; convert the file with `iconv -f {name} -t utf-8`"
        ));
    }
    if !bytes.contains(&b'\n') {
        for byte in &mut bytes {
            if *byte == b'\r' {
                *byte = b'\n';
            }
        }
    }
    Ok(bytes)
}

fn refuse_archives(bytes: &[u8]) -> Result<(), String> {
    let mut starts = bytes.windows(3).take(1 << 16);
    if bytes.starts_with(b"PK\x03\x04") && starts.any(|bytes| bytes == b"xl/") {
        return Err("is a spreadsheet; save it as CSV in UTF-8".to_string());
    }
    for (mark, name, command) in ARCHIVES {
        if bytes.starts_with(mark) {
            return Err(format!("is {name}; unpack it first, with `{command}`"));
        }
    }
    if bytes.starts_with(b"\x1f\x8b") || bytes.starts_with(b"\x28\xb5\x2f\xfd") {
        return Err("is compressed twice; decompress it once first".to_string());
    }
    if bytes.get(TAR_MARK..TAR_MARK + 5) == Some(b"ustar") {
        return Err("is a tar archive; unpack it first, with `tar -xf FILE`".to_string());
    }
    Ok(())
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Vec<u8>, String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("UTF-16 with an odd number of bytes; the file is cut off".to_string());
    }
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut lines = 1;
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        let character = character.map_err(|_| {
            format!("invalid UTF-16 in line {lines}: half of a surrogate pair; correct the text")
        })?;
        lines += usize::from(character == '\n');
        text.push(character);
    }
    Ok(text.into_bytes())
}

/// The encoding of a text whose first bytes are those of ASCII characters in UTF-16.
fn unmarked_utf16(bytes: &[u8]) -> Option<&'static str> {
    let sample = &bytes[..bytes.len().min(1000)];
    let zeros = |offset: usize| {
        let bytes = sample.iter().skip(offset).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let (first, second) = (zeros(0), zeros(1));
    let many = sample.len() / 4;
    match sample.len() {
        0..4 => None,
        _ if second > many && first == 0 => Some("utf-16le"),
        _ if first > many && second == 0 => Some("utf-16be"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn utf16_becomes_utf8() {
        let text = "Zoë\r\n北京 👩‍🔬\n";
        for unit in [u16::to_le_bytes, u16::to_be_bytes] {
            let bytes = encode(&format!("\u{feff}{text}"), unit);
            assert_eq!(to_utf8(bytes).unwrap(), text.as_bytes());
        }
        let error = to_utf8(b"\xff\xfea\0\n\0\x00\xd8b\0".to_vec()).unwrap_err();
        assert!(error.contains("line 2"), "{error}");
        assert!(to_utf8(b"\xff\xfea".to_vec()).is_err());
    }

    #[test]
    fn other_encodings_are_refused_with_a_remedy() {
        let plain = encode("Maria B-PER\n", u16::to_be_bytes);
        let tar = [[b'a'; TAR_MARK].as_slice(), b"ustar\0"].concat();
        for (bytes, part) in [
            (plain.as_slice(), "utf-16be"),
            (b"\xff\xfe\0\0a\0\0\0", "utf-32"),
            (b"BZh91AY", "bzip2 -dc"),
            (b"PK\x03\x04..", "unzip"),
            (b"\x1f\x8b\x08", "twice"),
            (&tar, "tar -xf"),
        ] {
            let error = to_utf8(bytes.to_vec()).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn line_endings_of_old_macintosh_programs() {
        let text = |bytes: &[u8]| String::from_utf8(to_utf8(bytes.to_vec()).unwrap()).unwrap();
        assert_eq!(text(b"a\rb\r\rc"), "a\nb\n\nc");
        assert_eq!(text(b"a\rb\r\n"), "a\rb\r\n");
        assert_eq!(text(b"\xef\xbb\xbf"), "");
    }
}
