//! Cutting a body into lines as it arrives.

/// Cuts a body into lines.
pub(super) struct Lines {
    /// Bytes of a line that has not ended.
    rest: Vec<u8>,
    /// The line is longer than the limit; its rest is skipped.
    is_long: bool,
    number: usize,
    longest: usize,
}

impl Lines {
    /// Lines of up to `longest` bytes.
    pub fn new(longest: usize) -> Self {
        Self {
            rest: Vec::new(),
            is_long: false,
            number: 0,
            longest,
        }
    }

    /// Number of lines that have ended.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Adds bytes, and calls `each` with the number and the text of every line that has ended.
    pub fn add(&mut self, mut bytes: &[u8], mut each: impl FnMut(usize, Result<String, String>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            self.end(&mut each);
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.rest.len() + bytes.len() > self.longest {
            self.is_long = true;
            self.rest = Vec::new();
        }
        if !self.is_long {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(usize, Result<String, String>)) {
        self.number += 1;
        let bytes = std::mem::take(&mut self.rest);
        let line = if std::mem::take(&mut self.is_long) {
            let longest = self.longest;
            Err(format!(
                "the line is longer than the limit of {longest} bytes (--max-body)"
            ))
        } else {
            String::from_utf8(bytes).map_err(|problem| {
                let at = problem.utf8_error().valid_up_to();
                format!("the line is not UTF-8 after byte {at}")
            })
        };
        // Blank lines have a number, but no answer.
        if !line.as_ref().is_ok_and(|line| line.trim().is_empty()) {
            each(self.number, line);
        }
    }

    /// The last line, if it does not end with a line break.
    pub fn finish(&mut self, mut each: impl FnMut(usize, Result<String, String>)) {
        if !self.rest.is_empty() || self.is_long {
            self.end(&mut each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_how_they_arrive() {
        let body = "one\n\n  \nzwölf\r\nlonger than ten bytes\n\u{1F600}\nlast".as_bytes();
        let cut = |size: usize| {
            let mut lines = Lines::new(10);
            let mut found = Vec::new();
            let mut each = |number, line: Result<String, String>| found.push((number, line.ok()));
            body.chunks(size)
                .for_each(|bytes| lines.add(bytes, &mut each));
            lines.finish(&mut each);
            found
        };
        let text = |text: &str| Some(text.to_string());
        let expected = vec![
            (1, text("one")),
            (4, text("zwölf\r")),
            (5, None),
            (6, text("\u{1F600}")),
            (7, text("last")),
        ];
        for size in 1..body.len() {
            assert_eq!(cut(size), expected, "{size}");
        }
    }
}
