//! The JSON formats: one object per line, or a list of objects.
//!
//! There are three kinds of records: words with spans of words (`tokens`), a text with spans of characters (`text`), and
//! words with lists of word indices (`sentence`). All spans are half-open.

use serde_json::Value;

use super::source::{Collector, Source};
use super::{ReadOptions, Severity, json_record};

/// The kind of a JSON record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// `tokens`, and entities as spans of words.
    Tokens,
    /// `text`, and entities as spans of characters.
    Text,
    /// `sentence`, and entities as lists of word indices.
    Index,
}

/// Reads a JSON file: a list of records, or one record per line.
pub(super) fn read(
    source: &Source,
    kind: RecordKind,
    options: &ReadOptions,
    corpus: &mut Collector,
) {
    if source.first_byte() == Some(b'[') {
        match source.text() {
            Ok(text) => read_list(text, kind, options, corpus),
            Err((line, column)) => corpus.bad_encoding(line, column),
        }
        return;
    }
    for line in source.lines() {
        match line.text {
            Err(column) => corpus.bad_encoding(line.number, column),
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => match serde_json::from_str::<Value>(text) {
                Ok(value) => json_record::read(&value, kind, options, (line.number, 0), "", corpus),
                Err(error) => {
                    let column = characters(text, error.column().saturating_sub(1)) + 1;
                    let message = format!("{}; every line must be one JSON object", reason(&error));
                    corpus.report(Severity::Error, (line.number, column), message);
                }
            },
        }
    }
}

/// The first valid record near the start of a file; a list must start with a valid record.
pub(super) fn first_record(source: &Source) -> Option<Value> {
    let text = source.lossy();
    match text.trim_start().strip_prefix('[') {
        Some(list) => parse_one(list).ok().map(|(value, _)| value),
        None => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines
                .take(100)
                .find_map(|line| serde_json::from_str(line).ok())
        }
    }
}

/// Parses the JSON value at the start of a text and returns its length in bytes as well.
fn parse_one(text: &str) -> Result<(Value, usize), serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(value) => value.map(|value| (value, values.byte_offset())),
        None => serde_json::from_str(text).map(|value| (value, text.len())),
    }
}

/// Reads a list. Records are parsed one by one, so that a problem has the line and column of its record.
fn read_list(text: &str, kind: RecordKind, options: &ReadOptions, corpus: &mut Collector) {
    let mut cursor = Cursor {
        text,
        byte: 0,
        line: 1,
        column: 1,
    };
    cursor.skip(|character| character.is_whitespace());
    cursor.advance(1);
    for number in 1.. {
        cursor.skip(|character| character.is_whitespace());
        let rest = &text[cursor.byte..];
        if rest.starts_with(']') {
            cursor.advance(1);
            cursor.skip(|character| character.is_whitespace());
            if cursor.byte < text.len() {
                corpus.report(
                    Severity::Error,
                    cursor.position(),
                    "text after the end of the list; delete it",
                );
            }
            return;
        }
        let rest = match (number, rest.strip_prefix(',')) {
            (2.., Some(after)) => {
                cursor.advance(1);
                cursor.skip(|character| character.is_whitespace());
                after.trim_start()
            }
            (2.., None) => {
                let message =
                    "expected `,` or `]` after a record; the rest of the file was not read";
                return corpus.report(Severity::Error, cursor.position(), message);
            }
            _ => rest,
        };
        match parse_one(rest) {
            Ok((value, length)) => {
                let prefix = format!("record {number}: ");
                json_record::read(&value, kind, options, cursor.position(), &prefix, corpus);
                cursor.advance(length);
            }
            Err(error) => {
                let message = format!(
                    "record {number}, which starts here, is not valid JSON ({}); the rest of the file was not read",
                    reason(&error)
                );
                return corpus.report(Severity::Error, cursor.position(), message);
            }
        }
    }
}

/// A position in a text with its line and column.
struct Cursor<'a> {
    text: &'a str,
    byte: usize,
    line: usize,
    column: usize,
}

impl Cursor<'_> {
    fn advance(&mut self, bytes: usize) {
        let end = (self.byte + bytes).min(self.text.len());
        for character in self.text[self.byte..end].chars() {
            if character == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.byte = end;
    }

    fn skip(&mut self, over: impl Fn(char) -> bool) {
        let rest = &self.text[self.byte..];
        self.advance(rest.len() - rest.trim_start_matches(over).len());
    }

    /// Line and column.
    fn position(&self) -> (usize, usize) {
        (self.line, self.column)
    }
}

/// Number of characters in the first `bytes` bytes.
fn characters(text: &str, bytes: usize) -> usize {
    text.char_indices()
        .take_while(|(byte, _)| *byte < bytes)
        .count()
}

/// The message of a JSON error without its line and column.
fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_string(),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Format, Problem, scan};
    use crate::text::{Entity, Sentence};

    fn with(format: Format, content: impl AsRef<[u8]>) -> (Vec<Sentence>, Vec<Problem>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        std::fs::write(&path, content).unwrap();
        scan(&path, &ReadOptions::of(format)).unwrap()
    }

    #[test]
    fn tokens_with_word_spans() {
        let (sentences, problems) = with(
            Format::TokensJsonl,
            r#"{"doc": 3, "tokens": ["New", "York", "."], "pos": ["N", "N", "P"], "entities": [{"start": 0, "end": 2, "type": "LOC"}, [0, 1, "X"]], "text": "New York."}"#,
        );
        assert_eq!(problems, []);
        assert_eq!(sentences[0].text, "New York.");
        assert_eq!(sentences[0].document.as_deref(), Some("3"));
        assert_eq!(
            sentences[0].entities,
            [Entity::new(0, 2, "LOC"), Entity::new(0, 1, "X")]
        );
    }

    #[test]
    fn texts_with_character_spans() {
        let (sentences, problems) = with(
            Format::TextJsonl,
            "\n{\"id\": 1, \"text\": \"👩‍🔬 Zoë in 北京\", \"label\": [[4, 7, \"PER\"], [11, 13, \"LOC\"], [5, 7, \"BAD\"]]}\r\n",
        );
        assert_eq!(
            sentences[0].entities,
            [Entity::new(1, 2, "PER"), Entity::new(3, 5, "LOC")]
        );
        assert_eq!(sentences[0].misaligned.len(), 1);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].severity, Severity::Warning);
        assert!(
            problems[0].message.contains("`oë`"),
            "{}",
            problems[0].message
        );
    }

    #[test]
    fn problems_in_a_list_have_the_line_of_their_record() {
        let (sentences, problems) = with(
            Format::Spert,
            "[\n  {\"tokens\": [\"a\"], \"entities\": [], \"ltokens\": [\"x\"], \"orig_id\": \"d\"},\n  {\"tokens\": [\"b\"],\n   \"entities\": [{\"start\": 0, \"end\": 2, \"type\": \"A\"}]}, {\"tokens\": 3}\n]\n",
        );
        assert_eq!(sentences.len(), 1);
        assert_eq!(sentences[0].left, ["x"]);
        assert_eq!(sentences[0].document.as_deref(), Some("d"));
        let positions: Vec<_> = problems
            .iter()
            .map(|p| (p.location.line, p.location.column))
            .collect();
        assert_eq!(positions, [(3, 3), (4, 56)]);
        assert!(
            problems[0]
                .message
                .starts_with("record 2: `entities`[0] (A) ends at 2")
        );
    }

    #[test]
    fn index_lists_with_gaps_are_discontinuous_entities() {
        let record = r#"{"sentence": ["aé", "b", "👩‍🔬"], "word": [[0, 1]], "ner": [{"index": [0, 1], "type": "A"}, {"index": [0, 2], "type": "B"}, {"index": [0, 2], "type": "C"}]}"#;
        let (sentences, problems) = with(Format::W2ner, format!("[{record},\n{record}]"));
        assert_eq!(sentences[0].entities, [Entity::new(0, 2, "A")]);
        let found = &sentences[0].discontinuous;
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].label.as_str(), &found[0].parts[..]),
            ("B", &[(0, 2), (5, 8)][..])
        );
        // One warning for the file, not one for each entity.
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].location.line, problems[0].severity),
            (1, Severity::Warning)
        );
        assert!(
            problems[0]
                .message
                .starts_with("4 discontinuous entities in 2 of 2 sentences")
        );
        let twice = r#"[{"sentence": ["a", "b", "c"], "ner": [{"index": [0, 2], "type": "B"}, {"index": [0, 2], "type": "B"}]}]"#;
        let (sentences, problems) = with(Format::W2ner, twice);
        assert_eq!((sentences[0].discontinuous.len(), problems.len()), (1, 2));
    }

    #[test]
    fn invalid_lists_are_read_up_to_the_error() {
        for content in [
            "[{\"tokens\": [\"a\"]} {\"tokens\": [\"b\"]}]",
            "[{\"tokens\": [\"a\"]}, {\"tokens\": [\"b\"]",
            "[{\"tokens\": [\"a\"]}",
            "[{\"tokens\": [\"a\"]}] x",
            "[{\"tokens\": [\"a\"]},]",
        ] {
            let (sentences, problems) = with(Format::Spert, content);
            assert_eq!((sentences.len(), problems.len()), (1, 1), "{content}");
        }
        assert!(with(Format::Spert, "[]").1.is_empty());
        assert_eq!(
            with(Format::Spert, b"[{\"tokens\": [\"\xff\"]}]").1.len(),
            1
        );
    }

    #[test]
    fn every_mistake_is_reported() {
        for (record, part) in [
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, "A"], {"start": 0, "end": 1, "label": "A"}]}"#,
                "given twice",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, "A"]], "ner": [[0, 1, "A"]]}"#,
                "both",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 0, "A"]]}"#,
                "is empty",
            ),
            (
                r#"{"tokens": ["a"], "entities": [[0, 1, ""]]}"#,
                "empty type",
            ),
            (
                r#"{"tokens": ["a"], "entities": {"A": 1}}"#,
                "must be a list",
            ),
            (r#"{"tokens": ["a", ""]}"#, "word 1 is empty"),
            (r#"{"tokens": ["a"], "pos": []}"#, "0 tags for 1 words"),
            (r#"{"tokens": ["a"], "text": "b"}"#, "does not consist"),
            (r#"{"text": "a"}"#, "--format"),
            (r#"[1]"#, "JSON object"),
            (r#"{"tokens": ["é"], oops}"#, "key must be a string"),
        ] {
            let (_, problems) = with(Format::TokensJsonl, record);
            assert_eq!(problems.len(), 1, "{record}");
            assert!(problems[0].message.contains(part), "{}", problems[0]);
        }
    }
}
