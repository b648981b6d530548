//! The input of `predict`: texts or JSON objects, one per line, read as they arrive.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::data::input_text::{InputText, parse_json};

/// Length in bytes of the longest line that is read.
const LONGEST_LINE: usize = 64 << 20;

/// Lines that wait to be tagged, and their bytes.
const LINES: usize = 1024;
const BYTES: usize = 8 << 20;

/// A line of the input.
#[derive(Debug)]
pub struct Input {
    /// Its number, from 1, blank lines included.
    pub line: usize,
    /// Its text, or why it could not be read.
    pub text: Result<InputText, String>,
    /// Its share of the memory for waiting lines.
    _share: Option<Share>,
}

impl Input {
    /// A line that does not count as waiting.
    pub fn new(line: usize, text: Result<InputText, String>) -> Self {
        Self {
            line,
            text,
            _share: None,
        }
    }
}

/// Memory for lines that wait: a line has a share of it until it is dropped.
#[derive(Debug, Default)]
struct Budget {
    used: Mutex<usize>,
    changed: Condvar,
}

#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// Waits until there is room. A line that is longer than the whole budget waits until it is the only one.
    fn take(budget: &Arc<Self>, bytes: usize) -> Share {
        let bytes = bytes.min(BYTES);
        let used = budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |used: &mut usize| *used + bytes > BYTES;
        let waited = budget.changed.wait_while(used, is_full);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
        Share {
            budget: budget.clone(),
            bytes,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = (self.budget.used.lock()).unwrap_or_else(PoisonError::into_inner);
        *used -= self.bytes;
        self.budget.changed.notify_all();
    }
}

/// Reads lines in a thread of their own. Blank lines are texts, but not JSON objects: of those they are skipped.
pub fn stream(input: impl Read + Send + 'static, is_json: bool) -> Receiver<Input> {
    let (sender, receiver) = sync_channel(LINES);
    std::thread::spawn(move || {
        let budget = Arc::new(Budget::default());
        let mut lines = Lines::new(BufReader::new(input), LONGEST_LINE);
        while let Some((line, read)) = lines.next_line() {
            if is_json && read.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            let share = Budget::take(&budget, read.as_ref().map_or(0, String::len));
            let text = match read {
                Ok(text) if is_json => parse_json(&text),
                Ok(text) => Ok(InputText::Plain(text)),
                Err(problem) => Err(problem),
            };
            let input = Input {
                line,
                text,
                _share: Some(share),
            };
            if sender.send(input).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The lines of a stream, as text.
struct Lines<R> {
    reader: R,
    longest: usize,
    line: usize,
    failed: bool,
    /// Whether a carriage return inside a line was reported.
    has_warned: bool,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R, longest: usize) -> Self {
        Self {
            reader,
            longest,
            line: 0,
            failed: false,
            has_warned: false,
        }
    }

    /// The number of the next line and its text without the line ending, or why it could not be read; `None` at the end, and
    /// after the stream failed.
    fn next_line(&mut self) -> Option<(usize, Result<String, String>)> {
        if self.failed {
            return None;
        }
        let mut bytes = Vec::new();
        let limit = self.longest as u64 + 1;
        let read = self
            .reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut bytes);
        self.line += 1;
        let problem = match read {
            Ok(0) => return None,
            Ok(_) if bytes.len() > self.longest && !bytes.ends_with(b"\n") => {
                drop(bytes);
                match self.skip_line() {
                    Ok(()) => format!(
                        "longer than {} MB; cut the text into several lines",
                        self.longest >> 20
                    ),
                    Err(problem) => self.failure(&problem),
                }
            }
            Ok(_) => return Some((self.line, self.text(bytes))),
            Err(problem) => self.failure(&problem),
        };
        Some((self.line, Err(problem)))
    }

    fn failure(&mut self, problem: &std::io::Error) -> String {
        self.failed = true;
        format!("cannot be read: {problem}")
    }

    /// Reads up to the end of the line.
    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            let is_done = end.is_some() || buffer.is_empty();
            self.reader.consume(length);
            if is_done {
                return Ok(());
            }
        }
    }

    fn text(&mut self, bytes: Vec<u8>) -> Result<String, String> {
        if self.line == 1 && (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")) {
            return Err("UTF-16; convert the file with `iconv -f utf-16 -t utf-8`".into());
        }
        let mut text = String::from_utf8(bytes).map_err(|problem| {
            format!(
                "not UTF-8 after byte {}; convert the file, for example with `iconv -f windows-1252 -t utf-8`",
                problem.utf8_error().valid_up_to()
            )
        })?;
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        if !self.has_warned && text.contains('\r') {
            self.has_warned = true;
            tracing::warn!(
                "line {} contains a carriage return, which does not end a line; if it should, convert the input with `tr '\\r' \
                 '\\n'`",
                self.line
            );
        }
        // A byte-order mark is not part of the first text.
        if self.line == 1 && text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(text)
    }
}

/// Number of lines of a file, without keeping any of them.
pub fn count_lines(mut reader: impl BufRead) -> u64 {
    let mut count = 0;
    while let Ok(buffer) = reader.fill_buf() {
        if buffer.is_empty() {
            break;
        }
        count += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
        let length = buffer.len();
        reader.consume(length);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all lines; those longer than the limit are errors.
    fn lines(input: &[u8], longest: usize) -> Vec<(usize, Result<String, String>)> {
        let mut lines = Lines::new(BufReader::with_capacity(3, input), longest);
        std::iter::from_fn(|| lines.next_line()).collect()
    }

    #[test]
    fn a_long_or_bad_line_does_not_end_the_stream() {
        let found = lines(
            "\u{feff}ab\r\n\nlonger than ten\nxÿ\n0123456789\nend".as_bytes(),
            10,
        );
        let texts: Vec<(usize, Option<&str>)> = found
            .iter()
            .map(|(line, text)| (*line, text.as_deref().ok()))
            .collect();
        assert_eq!(
            texts,
            [
                (1, Some("ab")),
                (2, Some("")),
                (3, None),
                (4, Some("xÿ")),
                (5, Some("0123456789")),
                (6, Some("end"))
            ]
        );
        let bad = lines(b"a\nb\xff\nc", 10);
        let problem = bad[1].1.as_ref().unwrap_err();
        assert!(problem.starts_with("not UTF-8 after byte 1; "), "{problem}");
        let wide = lines(b"\xff\xfea\0\n\0", 10);
        assert!(wide[0].1.as_ref().unwrap_err().contains("utf-16"));
        assert_eq!(bad.len(), 3);
        assert!(lines(b"", 10).is_empty());
    }

    #[test]
    fn lines_keep_their_numbers() {
        let input = b"{\"text\": \"a\"}\n\n \nnothing\n{\"tokens\": [\"b\", \"c\"], \"text\": \"bc\"}\n{\"text\": 3}".to_vec();
        let found: Vec<Input> = stream(std::io::Cursor::new(input), true).iter().collect();
        let numbers: Vec<(usize, bool)> = found
            .iter()
            .map(|one| (one.line, one.text.is_ok()))
            .collect();
        assert_eq!(numbers, [(1, true), (4, false), (5, true), (6, false)]);
        assert!(
            matches!(&found[2].text, Ok(InputText::Sentences(one)) if one[0].words[1].start == 1)
        );
        assert_eq!(count_lines(&b"a\nb\n\n"[..]), 3);
    }

    #[test]
    fn long_lines_wait_for_their_turn() {
        let line = format!("{}\n", "x".repeat(BYTES));
        let input = std::io::Cursor::new(line.repeat(3).into_bytes());
        let receiver = stream(input, false);
        for number in 1..=3 {
            let input = receiver.recv().unwrap();
            assert_eq!(input.line, number);
        }
        assert!(receiver.recv().is_err());
    }
}
