//! The span groups of a document: spans of tokens under names, which may nest and overlap.

use super::msgpack::Cursor;

/// The names of the span groups of a document and their spans. They are a map from groups to names or, in older versions, a
/// list of groups; none are an empty list or no bytes.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<(&str, Cursor<'_>)>> {
    let mut groups = Vec::new();
    let mut cursor = Cursor::new(bytes);
    if bytes.is_empty() {
        return Some(groups);
    }
    if let Some(length) = { cursor }.list() {
        cursor.list()?;
        for _ in 0..length {
            groups.push(parse_group(cursor.bytes()?)?);
        }
        return Some(groups);
    }
    for _ in 0..cursor.map()? {
        let (name, spans) = parse_group(cursor.bytes()?)?;
        // Groups that are equal are stored once with all their names.
        let keys = cursor.list()?;
        for key in 0..keys {
            let key_name = cursor.string()?;
            if key == 0 {
                groups.push((key_name, spans));
            }
        }
        if keys == 0 {
            groups.push((name, spans));
        }
    }
    Some(groups)
}

fn parse_group(bytes: &[u8]) -> Option<(&str, Cursor<'_>)> {
    let mut cursor = Cursor::new(bytes);
    let (mut name, mut spans) = ("", None);
    for _ in 0..cursor.map()? {
        match cursor.string()? {
            "name" => name = cursor.string()?,
            "spans" => spans = cursor.skip(),
            _ => {
                cursor.skip()?;
            }
        }
    }
    Some((name, spans?))
}

/// Label, first token and one past the last token of a span: big-endian id (not in older versions), knowledge-base id,
/// label, tokens and characters.
pub(super) fn parse_span(bytes: &[u8]) -> Option<(u64, usize, usize)> {
    let bytes = match bytes.len() {
        40 => &bytes[16..32],
        32 => &bytes[8..24],
        _ => return None,
    };
    let label = u64::from_be_bytes(bytes[..8].try_into().ok()?);
    let token = |at: usize| {
        let bytes = bytes[at..at + 4].try_into().ok()?;
        usize::try_from(i32::from_be_bytes(bytes)).ok()
    };
    Some((label, token(8)?, token(12)?))
}

/// True for the names of span groups that hold something else: clusters of coreference, and spans known to be wrong.
pub(super) fn is_not_entities(name: &str) -> bool {
    name.starts_with("coref") || name.starts_with("incorrect")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a group named `sc` with one span.
    fn group(span: &[u8]) -> Vec<u8> {
        let head = b"\x83\xa4name\xa2sc\xa5attrs\x80\xa5spans\x91\xc4";
        [head.as_slice(), &[span.len() as u8], span].concat()
    }

    #[test]
    fn lists_and_maps_of_groups() {
        let span = [[0; 7].as_slice(), &[9, 0, 0, 0, 1, 0, 0, 0, 3], &[0; 8]].concat();
        // Without and with an id before the id of the knowledge base.
        for span in [
            [&[0; 8], &span[..]].concat(),
            [&[0; 16], &span[..]].concat(),
        ] {
            let group = group(&span);
            let bytes = [&[0xc4, group.len() as u8], &group[..]].concat();
            let list = [&[0x91], &bytes[..]].concat();
            let map = [&[0x81], &bytes[..], b"\x92\xa2sc\xa1x"].concat();
            for groups in [list, map] {
                let groups = parse(&groups).unwrap();
                assert_eq!((groups.len(), groups[0].0), (1, "sc"));
                let mut spans = groups[0].1;
                assert_eq!(spans.list(), Some(1));
                assert_eq!(spans.bytes().and_then(parse_span), Some((9, 1, 3)));
            }
        }
        assert!(parse(b"").unwrap().is_empty() && parse(b"\x90").unwrap().is_empty());
        assert!(parse(b"\x91").is_none() && parse(b"\x01").is_none());
        assert_eq!(parse_span(&[0; 39]), None);
    }
}
