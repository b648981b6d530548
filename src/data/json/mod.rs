//! Reading the records of a JSON file, however they are arranged.
//!
//! A file is a list of records, one record per line, one record after the other, or an object that holds records: under
//! keys such as `data` or `train`, under their names, or as columns (`{"tokens": [[...], ...], "ner_tags": [...]}`).

pub(super) mod content;
mod document;
mod ends;
pub(super) mod entity;
mod fields;
#[cfg(test)]
pub(super) mod fixtures;
pub(super) mod format;
mod holder;
pub(super) mod keys;
mod label_names;
mod parse;
pub(super) mod record;
mod survey;
mod tags;
pub(super) mod text;
pub(super) mod values;
mod walk;
mod word_records;
mod words;

use serde_json::Value;

use super::Severity;
use super::source::{BAD_ENCODING, Collector, Source};
use holder::is_tuple;
use parse::{length_of_one, parse_all};
use walk::Walk;

/// Parses a line that is one JSON value; an error is a description of the problem.
pub(super) fn parse_line(text: &str) -> Result<Value, String> {
    parse_all(text).map_err(|problem| {
        let column = 1 + text[..problem.byte.min(text.len())].chars().count();
        format!("not JSON: {} at column {column}", problem.message)
    })
}

/// Where a record is, for messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Line and column; the column is 0 when the record is a line.
    pub at: (usize, usize),
    /// Put before every message, such as `record 3: `.
    pub prefix: String,
}

/// How a file holds its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// One record per line.
    Lines,
    /// Values one after the other, over several lines.
    Stream,
    /// One list.
    List,
}

/// Problems that concern the file and not a single record.
#[derive(Debug, Default)]
pub(super) struct Faults {
    problems: Vec<(Severity, (usize, usize), String)>,
}

impl Faults {
    fn error(&mut self, at: (usize, usize), message: impl Into<String>) {
        self.problems.push((Severity::Error, at, message.into()));
    }

    /// Adds the problems to those of the corpus.
    pub fn report(self, corpus: &mut Collector) {
        for (severity, at, message) in self.problems {
            corpus.report(severity, at, message);
        }
    }
}

/// Calls `each` for the records of a file in order. Returns what is not valid JSON.
pub(super) fn records(source: &Source, mut each: impl FnMut(&Place, Value)) -> Faults {
    let mut walk = Walk::new(|place: &Place, value| {
        each(place, value);
        true
    });
    match (layout(&source.lossy()), source.text()) {
        (Layout::Lines, _) => {
            for line in source.lines() {
                match line.text {
                    Err(column) => walk.faults.error((line.number, column), BAD_ENCODING),
                    Ok(text) => walk.line(text, line.number),
                }
            }
        }
        (_, Err(at)) => walk.faults.error(at, BAD_ENCODING),
        (layout, Ok(text)) => walk.text(text, layout),
    }
    walk.finish();
    walk.faults
}

/// The first valid record near the start of a file, and how the file holds its records: [`Layout::Lines`] only if every line
/// is a record. A list must start with a valid record.
pub(super) fn first_record(source: &Source) -> Option<(Value, Layout)> {
    let text = source.lossy();
    let layout = layout(&text);
    let mut first = None;
    let mut walk = Walk::new(|place: &Place, value| {
        first = Some((value, place.prefix.is_empty()));
        false
    });
    if layout == Layout::Lines {
        for (index, line) in text.lines().enumerate() {
            if walk.stopped || walk.faults.problems.len() >= 100 {
                break;
            }
            walk.line(line, index + 1);
        }
    } else {
        walk.text(&text, layout);
    }
    walk.finish();
    first.map(|(value, is_line)| match layout {
        Layout::Lines if !is_line => (value, Layout::Stream),
        layout => (value, layout),
    })
}

/// True when a whole file is one valid JSON value.
pub(super) fn is_json(source: &Source) -> bool {
    source
        .text()
        .is_ok_and(|text| parse_all(text.trim()).is_ok())
}

/// What keeps the start of a file from being JSON records, with its line and column; `None` for an empty list.
pub(super) fn first_fault(source: &Source) -> Option<String> {
    let text = source.lossy();
    let layout = layout(&text);
    let mut walk = Walk::new(|_: &Place, _| false);
    match layout {
        Layout::Lines => {
            let mut lines = text.lines().enumerate();
            if let Some((index, line)) = lines.find(|(_, line)| !line.trim().is_empty()) {
                walk.line(line, index + 1);
            }
        }
        layout => walk.text(&text, layout),
    }
    let (_, (line, column), message) = walk.faults.problems.into_iter().next()?;
    Some(format!("line {line}, column {column}: {message}"))
}

/// Detects how a file holds its records from its first lines.
fn layout(text: &str) -> Layout {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_complete = |line: &str| length_of_one(line) == Some(line.len());
    let Some(first) = lines().next() else {
        return Layout::Lines;
    };
    let second = lines().nth(1);
    if first.starts_with('[') {
        let goes_on = second.is_some_and(|line| line.starts_with(['[', '{']));
        let is_tuple = || parse_all(first).is_ok_and(|value| is_tuple(&value));
        return if is_complete(first) && (goes_on || is_tuple()) {
            Layout::Lines
        } else {
            Layout::List
        };
    }
    if second.is_none() || is_complete(first) {
        return Layout::Lines;
    }
    if length_of_one(text.trim_start()).is_some() {
        return Layout::Stream;
    }
    // The first value is broken. It is a line of its own if another line is a value, or if its line cannot be continued.
    let is_line = |line: &str| line.starts_with('{') && line.len() > 2 && is_complete(line);
    let has_rest = |line: &str| {
        serde_json::from_str::<serde::de::IgnoredAny>(line).is_err_and(|error| error.is_eof())
    };
    if text.lines().take(100).any(is_line) || !has_rest(first) {
        Layout::Lines
    } else {
        Layout::Stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positions and prefixes of the records, and the messages.
    fn walk(content: &str) -> (Vec<(Place, Value)>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        std::fs::write(&path, content).unwrap();
        let source = Source::open(&path).unwrap();
        let mut found = Vec::new();
        let faults = records(&source, |place, value| found.push((place.clone(), value)));
        let first = first_record(&source).map(|(value, _)| value);
        assert_eq!(
            first,
            found.first().map(|(_, value)| value.clone()),
            "{content}"
        );
        let problems = faults.problems.into_iter();
        (
            found,
            problems
                .map(|(_, at, message)| format!("{at:?} {message}"))
                .collect(),
        )
    }

    #[test]
    fn records_have_their_line_in_every_layout() {
        for (content, places) in [
            (
                "{\"text\": \"a\"}\r\n\n{\"text\": \"b\"}",
                vec![((1, 0), ""), ((3, 0), "")],
            ),
            (
                "[{\"text\": \"a\"},\n {\"text\": \"b\"}]",
                vec![((1, 2), "record 1: "), ((2, 2), "record 2: ")],
            ),
            (
                "{\n\"text\": \"a\"\n}\n{\n\"text\": \"b\"\n}\n",
                vec![((1, 1), ""), ((4, 1), "")],
            ),
            (
                "{\"version\": 1, \"data\": [\n{\"text\": \"a\"},\n\n{\"text\": \"b\"}]}",
                vec![((2, 1), "`data` record 1: "), ((4, 1), "`data` record 2: ")],
            ),
            (
                "{\"a\": {\"text\": \"x\"},\n \"b\": {\"text\": \"y\"}}",
                vec![((1, 7), "record `a`: "), ((2, 7), "record `b`: ")],
            ),
            (
                "{\"tokens\": [[\"a\"], [\"b\"]], \"ner_tags\": [[0], [1]]}",
                vec![((1, 0), "row 1: "), ((1, 0), "row 2: ")],
            ),
            (
                "[\"a\", {\"entities\": []}]\n[\"b\", {\"entities\": []}]\n",
                vec![((1, 0), ""), ((2, 0), "")],
            ),
            ("[\"a\", {\"entities\": []}]\n", vec![((1, 0), "")]),
            (
                "[[\"a\", {\"entities\": []}]]",
                vec![((1, 2), "record 1: ")],
            ),
        ] {
            let (found, problems) = walk(content);
            assert_eq!(problems, [""; 0], "{content}");
            let found: Vec<_> = found
                .iter()
                .map(|(place, _)| (place.at, place.prefix.as_str()))
                .collect();
            assert_eq!(found, places, "{content}");
        }
    }

    #[test]
    fn columns_become_rows() {
        for content in [
            r#"{"tokens": [["a"], ["b"]], "ner_tags": [[0], [1]]}"#,
            r#"{"tokens": {"0": ["a"], "1": ["b"]}, "ner_tags": {"0": [0], "1": [1]}}"#,
            r#"{"features": [], "rows": [{"row_idx": 0, "row": {"tokens": ["a"], "ner_tags": [0]}}, {"row_idx": 1, "row": {"tokens": ["b"], "ner_tags": [1]}}]}"#,
        ] {
            let (found, problems) = walk(content);
            assert_eq!(problems, [""; 0], "{content}");
            let rows: Vec<String> = found.iter().map(|(_, value)| value.to_string()).collect();
            assert_eq!(
                rows,
                [
                    r#"{"tokens":["a"],"ner_tags":[0]}"#,
                    r#"{"tokens":["b"],"ner_tags":[1]}"#
                ]
            );
        }
        let (found, _) = walk(r#"{"doc": "d", "tokens": [["a"]], "ner_tags": [[0]]}"#);
        assert_eq!(found[0].1["doc"], "d");
        let (found, _) = walk(r#"[[["a", "B-X"], ["b", "O"]]]"#);
        assert_eq!(
            found[0].1.to_string(),
            r#"{"tokens":["a","b"],"tags":["B-X","O"]}"#
        );
        let (found, problems) = walk(r#"{"tokens": [["a"], ["b"]], "ner_tags": [[0]]}"#);
        assert!(found.is_empty() && problems[0].contains("2 rows but `ner_tags` has 1"));
        assert_eq!(
            walk(r#"{"text": ["a b", "c"], "label": [[[0, 1, "A"]], []]}"#)
                .0
                .len(),
            2
        );
        assert_eq!(
            walk(r#"{"text": ["a", "b"], "label": ["O", "O"]}"#).0.len(),
            1
        );
    }

    #[test]
    fn what_looks_like_a_holder_and_is_a_record_stays_one() {
        for content in [
            r#"{"id": 1, "passages": [{"offset": 0, "text": "a"}]}"#,
            r#"{"id": 1, "data": {"text": "a"}, "annotations": [{"result": [], "text": 1}]}"#,
            r#"{"my_text": "abc", "label": [{"start": 0, "end": 1, "text": "a", "labels": ["A"]}]}"#,
            r#"{"doc_key": "d", "sentences": [["a", "b"]], "ner": [[]]}"#,
            r#"{"foo": 1}"#,
            r#"{}"#,
        ] {
            assert_eq!(walk(content).0.len(), 1, "{content}");
        }
    }

    #[test]
    fn several_splits_in_one_file_are_reported() {
        let (found, problems) =
            walk(r#"{"train": [{"tokens": ["a"]}], "test": [{"tokens": ["b"]}]}"#);
        assert_eq!(found.len(), 2);
        assert!(problems[0].contains("`train`, `test`"), "{problems:?}");
    }

    #[test]
    fn broken_files_are_read_as_far_as_they_go() {
        for (content, records, at) in [
            (
                "{\"text\": \"a\"}\n{\"text\": \n{\"text\": \"c\"}\n",
                2,
                "(2, ",
            ),
            ("{\"text\": \n{\"text\": \"b\"}\n", 1, "(1, "),
            ("{\n \"text\": \"a\",\n \"text\": \"b\"\n}\n", 0, "(3, "),
            ("{\n \"text\": \"a\",\n oops\n}\n", 0, "(3, "),
            ("{\"text\": \"é\", oops}", 0, "(1, 1"),
            ("[{\"text\": \"a\"}, {\"text\": oops}]", 1, "(1, 17)"),
            ("[{\"text\": \"a\"}", 1, "(1, 15)"),
            ("{\"text\": \"a\"},\n{\"text\": \"b\"},\n", 2, "(1, 14)"),
        ] {
            let (found, problems) = walk(content);
            assert_eq!(
                (found.len(), problems.len()),
                (records, 1),
                "{content} {problems:?}"
            );
            assert!(problems[0].starts_with(at), "{content} {problems:?}");
        }
        assert!(walk("").0.is_empty() && walk("[]").1.is_empty() && walk(" \n").1.is_empty());
    }
}
