//! The span groups of a document: spans of tokens under names, which may nest and overlap.

use crate::data::msgpack::Cursor;

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
