//! The metadata of a model card: licence, base model, language and corpus.

use std::path::Path;

use crate::files::read_text;

/// Longest card that is read, in bytes.
const LONGEST_CARD: u64 = 4 << 20;
/// Longest value that is taken from a card, in bytes.
const LONGEST_VALUE: usize = 200;

/// What the metadata of a card says. Each is the first value if there are several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CardMetadata {
    pub licence: Option<String>,
    pub base_model: Option<String>,
    pub language: Option<String>,
    pub corpus: Option<String>,
}

impl CardMetadata {
    /// Reads the card of a folder. Without one, or without metadata, nothing is known.
    pub(super) fn read(folder: &Path) -> Self {
        let text = read_text(&folder.join("README.md"), LONGEST_CARD);
        text.map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Parses the metadata between the first two lines of dashes: keys at the start of a line, with a plain or quoted value, a
    /// list in brackets, or a list on the following lines.
    fn parse(text: &str) -> Self {
        let mut lines = text.trim_start_matches('\u{feff}').lines();
        if lines.next().map(str::trim_end) != Some("---") {
            return Self::default();
        }
        let lines: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
        let value = |key: &str| -> Option<String> {
            let own = |line: &str| {
                Some(
                    line.strip_prefix(key)?
                        .strip_prefix(':')?
                        .trim()
                        .to_string(),
                )
            };
            let (index, inline) =
                (lines.iter().enumerate()).find_map(|(index, line)| Some((index, own(line)?)))?;
            let inline = without_comment(&inline);
            let first = match inline.strip_prefix('[') {
                Some(list) => list.trim_end_matches(']').split(',').next()?.trim(),
                None if inline.is_empty() => {
                    let next = lines.get(index + 1)?.trim();
                    without_comment(next.strip_prefix('-')?.trim())
                }
                None => inline,
            };
            unquoted(first)
        };
        Self {
            licence: value("license"),
            base_model: value("base_model"),
            language: value("language"),
            corpus: value("datasets"),
        }
    }
}

/// A value without the comment behind it.
fn without_comment(value: &str) -> &str {
    let is_quoted = value.starts_with(['"', '\'']);
    match value.find(" #").filter(|_| !is_quoted) {
        Some(end) => value[..end].trim_end(),
        None => value,
    }
}

/// A value without quotation marks; `None` if it is empty, a mapping or too long to be a name.
fn unquoted(value: &str) -> Option<String> {
    let value = ['"', '\'']
        .iter()
        .find_map(|mark| value.strip_prefix(*mark)?.strip_suffix(*mark))
        .unwrap_or(value);
    let is_name = (1..=LONGEST_VALUE).contains(&value.len())
        && !value.starts_with(['{', '|', '>', '&', '*', '!'])
        && !value.chars().any(char::is_control);
    is_name.then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_from_all_usual_spellings() {
        let read = CardMetadata::parse;
        let known = |licence: &str, base: &str, language: &str, corpus: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
            CardMetadata {
                licence: some(licence),
                base_model: some(base),
                language: some(language),
                corpus: some(corpus),
            }
        };
        for (text, expected) in [
            (
                "---\nlicense: mit\nbase_model: a/b\nlanguage: en\ndatasets: [conll2003, x]\n---\n# Hello\n",
                known("mit", "a/b", "en", "conll2003"),
            ),
            (
                "---\r\nlicense: \"apache-2.0\"\r\nlanguage:\r\n- de\r\n- en\r\ndatasets:\r\n  - 'a/b' \r\n---\r\n",
                known("apache-2.0", "", "de", "a/b"),
            ),
            (
                "\u{feff}---\nlicense: mit # free\nbase_model:\n- x/y # z\ntags:\n- license: no\n---\n",
                known("mit", "x/y", "", ""),
            ),
            ("# no metadata\nlicense: mit\n", known("", "", "", "")),
            (
                "---\nlicense:\nbase_model: {a: b}\nlanguage: []\ndatasets: |\n",
                known("", "", "", ""),
            ),
            ("---", known("", "", "", "")),
            ("", known("", "", "", "")),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let long = format!("---\nlicense: {}\n---\n", "x".repeat(300));
        assert_eq!(read(&long), CardMetadata::default());
    }
}
