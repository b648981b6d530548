//! Going through the records of a JSON file, one by one.

use serde_json::Value;

use super::holder::{Holder, name_columns, transpose, unwrap_record};
use super::parse::{Cursor, length_of_one, parse_all, parse_one};
use super::word_records::{WordGroup, WordRecord};
use super::{Faults, Layout, Place};
use crate::data::Severity;

/// The state of going through the records of a file.
pub(super) struct Walk<F> {
    each: F,
    /// What could not be read.
    pub faults: Faults,
    /// Set when `each` wants no more records.
    pub stopped: bool,
    /// A sentence whose words are records of their own.
    group: Option<WordGroup>,
}

impl<F: FnMut(&Place, Value) -> bool> Walk<F> {
    pub fn new(each: F) -> Self {
        Self {
            each,
            faults: Faults::default(),
            stopped: false,
            group: None,
        }
    }

    fn call(&mut self, at: (usize, usize), prefix: String, value: Value) {
        let place = Place { at, prefix };
        let word = match (WordRecord::of(&value), &mut self.group) {
            (Some(word), Some(group)) => match group.add(word) {
                Some(other) => Some(other),
                None => return,
            },
            (word, _) => word,
        };
        self.finish();
        if self.stopped {
            return;
        }
        match word {
            Some(word) => self.group = Some(WordGroup::new(word, place)),
            None => self.stopped = !(self.each)(&place, value),
        }
    }

    /// Ends the sentence whose words are records of their own, if there is one.
    pub fn finish(&mut self) {
        if let Some(group) = self.group.take()
            && !self.stopped
        {
            let (place, record) = group.record();
            self.stopped = !(self.each)(&place, record);
        }
    }

    /// A file of one record per line.
    pub fn line(&mut self, text: &str, number: usize) {
        if text.trim().is_empty() {
            return;
        }
        let mut cursor = Cursor::new(text, number);
        match parse_all(text) {
            Ok(value) => {
                cursor.skip_space();
                self.value(&cursor, value, (number, 0));
            }
            Err(error) => {
                let message = format!("{}; every line must be one JSON object", error.message);
                self.faults.error(cursor.position_of(error.byte), message);
            }
        }
    }

    /// A file that is a list or a sequence of values.
    pub fn text(&mut self, text: &str, layout: Layout) {
        let mut cursor = Cursor::new(text, 1);
        cursor.skip_space();
        if layout == Layout::List {
            if !self.list(&mut cursor, "") {
                return;
            }
            cursor.skip_space();
            if !cursor.rest().is_empty() && !self.stopped {
                let message = "text after the end of the list; delete it";
                self.faults.error(cursor.position(), message);
            }
            return;
        }
        let mut has_commas = false;
        while !cursor.rest().is_empty() && !self.stopped {
            match parse_one(cursor.rest()) {
                Ok((value, length)) => {
                    self.value(&cursor, value, cursor.position());
                    cursor.advance(length);
                }
                Err(error) => {
                    let at = cursor.position_of(cursor.byte + error.byte);
                    let message = format!("{}; the rest of the file was not read", error.message);
                    return self.faults.error(at, message);
                }
            }
            cursor.skip_space();
            let at = cursor.position();
            if cursor.take(',') {
                if !has_commas {
                    let message = "records are separated by commas outside a list; delete them, or put `[` and `]` around the records";
                    self.faults
                        .problems
                        .push((Severity::Warning, at, message.to_string()));
                }
                has_commas = true;
                cursor.skip_space();
            }
        }
    }

    /// A list. Records are parsed one by one, so that a problem has the line and column of its record. False when the
    /// list is broken.
    fn list(&mut self, cursor: &mut Cursor<'_>, prefix: &str) -> bool {
        cursor.take('[');
        for number in 1.. {
            cursor.skip_space();
            if cursor.take(']') {
                return true;
            }
            if number > 1 && !cursor.take(',') {
                let message =
                    "expected `,` or `]` after a record; the rest of the file was not read";
                self.faults.error(cursor.position(), message);
                return false;
            }
            cursor.skip_space();
            match parse_one(cursor.rest()) {
                Ok((value, length)) => {
                    let at = cursor.position();
                    self.call(
                        at,
                        format!("{prefix}record {number}: "),
                        unwrap_record(value),
                    );
                    cursor.advance(length);
                }
                Err(error) => {
                    let message = format!(
                        "{prefix}record {number}, which starts here, is not valid JSON ({}); the rest of the file was not read",
                        error.message
                    );
                    self.faults.error(cursor.position(), message);
                    return false;
                }
            }
            if self.stopped {
                return false;
            }
        }
        true
    }

    /// A value at the top level of the file: a record, or an object that holds records.
    fn value(&mut self, cursor: &Cursor<'_>, value: Value, at: (usize, usize)) {
        match Holder::of(&value) {
            Holder::None => self.call(at, String::new(), unwrap_record(value)),
            Holder::Columns => match transpose(value) {
                Ok(rows) => {
                    for (number, row) in rows.into_iter().enumerate() {
                        self.call(at, format!("row {}: ", number + 1), row);
                    }
                }
                Err(message) => self.faults.error(at, message),
            },
            Holder::Split => {
                for (number, row) in name_columns(&value).into_iter().enumerate() {
                    self.call(at, format!("row {}: ", number + 1), row);
                }
            }
            Holder::Lists(keys) => {
                if keys.len() > 1 {
                    let message = format!(
                        "the records of `{}` are read as one corpus; write one file each to keep them apart",
                        keys.join("`, `")
                    );
                    self.faults.problems.push((Severity::Warning, at, message));
                }
                self.entries(cursor, |walk, key, cursor| {
                    if keys.iter().any(|list| *list == key) {
                        walk.list(cursor, &format!("`{key}` "));
                    }
                });
            }
            Holder::Inside => self.entries(cursor, |walk, _, cursor| {
                if let Ok((value, _)) = parse_one(cursor.rest()) {
                    walk.value(cursor, value, cursor.position());
                }
            }),
            Holder::Named => self.entries(cursor, |walk, key, cursor| {
                if let Ok((value, _)) = parse_one(cursor.rest()) {
                    walk.call(cursor.position(), format!("record `{key}`: "), value);
                }
            }),
        }
    }

    /// Calls `each` with the entries of the object at the cursor, which is valid JSON.
    fn entries(&mut self, at: &Cursor<'_>, mut each: impl FnMut(&mut Self, &str, &mut Cursor<'_>)) {
        let mut cursor = at.clone();
        cursor.take('{');
        loop {
            cursor.skip_space();
            cursor.take(',');
            cursor.skip_space();
            let Ok((Value::String(key), length)) = parse_one(cursor.rest()) else {
                return;
            };
            cursor.advance(length);
            cursor.skip_space();
            cursor.take(':');
            cursor.skip_space();
            let end = cursor.byte + length_of_one(cursor.rest()).unwrap_or(0);
            each(self, &key, &mut cursor);
            cursor.move_to(end);
        }
    }
}
