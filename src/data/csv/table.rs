//! Records of comma-separated values: separator, quotes, and line breaks inside quotes (RFC 4180).

use std::borrow::Cow;

/// The separators that are tried.
pub(super) const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// A record of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// The fields; a blank line has none.
    pub fields: Vec<Cow<'a, str>>,
}

/// A quote that is never closed, and the line it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenQuote {
    pub line: usize,
}

/// The records of a text.
pub(super) struct Table<'a> {
    text: &'a str,
    separator: char,
    quotes: bool,
    byte: usize,
    line: usize,
}

impl<'a> Table<'a> {
    /// A table with this separator. A first line such as `sep=;`, which Excel writes, is skipped.
    pub fn new(text: &'a str, separator: char) -> Self {
        let first = text.lines().next().unwrap_or_default().trim();
        let is_hint = first
            .strip_prefix("sep=")
            .is_some_and(|rest| rest.chars().count() <= 1);
        let byte = match text.find('\n') {
            Some(end) if is_hint => end + 1,
            _ => 0,
        };
        Self {
            text,
            separator,
            quotes: has_quotes(&text[byte..], separator),
            byte,
            line: 1 + usize::from(byte > 0),
        }
    }

    /// The text of an unquoted field: up to the next separator or line break.
    fn plain(&mut self) -> &'a str {
        let rest = &self.text[self.byte..];
        let length = rest.find([self.separator, '\n']).unwrap_or(rest.len());
        self.byte += length;
        let field = &rest[..length];
        if rest[length..].starts_with(self.separator) {
            field
        } else {
            field.strip_suffix('\r').unwrap_or(field)
        }
    }

    fn quoted(&mut self) -> Result<Cow<'a, str>, OpenQuote> {
        let line = self.line;
        self.byte += 1;
        let mut field = Cow::Borrowed("");
        loop {
            let rest = &self.text[self.byte..];
            let Some(end) = rest.find('"') else {
                return Err(OpenQuote { line });
            };
            self.line += rest[..end].matches('\n').count();
            self.byte += end + 1;
            append(&mut field, &rest[..end]);
            if rest[end + 1..].starts_with('"') {
                self.byte += 1;
                append(&mut field, "\"");
            } else {
                break;
            }
        }
        // Text after the closing quote belongs to the field, though it should not be there.
        let after = self.plain();
        append(&mut field, after);
        Ok(field)
    }
}

fn append<'a>(field: &mut Cow<'a, str>, text: &'a str) {
    if field.is_empty() {
        *field = Cow::Borrowed(text);
    } else if !text.is_empty() {
        field.to_mut().push_str(text);
    }
}

/// True when quotes enclose fields, false when a quote is a word.
///
/// Many files are written without quoting. Then a quote stands alone between separators, all lines have the same number of
/// fields, and with quoting fields would extend over several lines.
fn has_quotes(text: &str, separator: char) -> bool {
    let (mut lines, mut alike, mut alone, mut width) = (0usize, 0usize, false, None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields = line
            .split(separator)
            .inspect(|field| alone |= *field == "\"")
            .count();
        lines += 1;
        alike += usize::from(*width.get_or_insert(fields) == fields);
    }
    // A comma is often a word and then in quotes, a tab never.
    let is_regular = match separator {
        '\t' => alike * 100 >= lines * 99,
        _ => alike == lines,
    };
    if !alone || !is_regular {
        return true;
    }
    let mut quoted = Table {
        text,
        separator,
        quotes: true,
        byte: 0,
        line: 1,
    };
    quoted.all(|record| {
        record.is_ok_and(|record| record.fields.iter().all(|field| !field.contains('\n')))
    })
}

impl<'a> Iterator for Table<'a> {
    type Item = Result<Record<'a>, OpenQuote>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.byte >= self.text.len() {
            return None;
        }
        let line = self.line;
        let mut fields = Vec::new();
        loop {
            let is_quoted = self.quotes && self.text[self.byte..].starts_with('"');
            let field = if is_quoted {
                match self.quoted() {
                    Ok(field) => field,
                    Err(error) => {
                        self.byte = self.text.len();
                        return Some(Err(error));
                    }
                }
            } else {
                Cow::Borrowed(self.plain())
            };
            fields.push(field);
            let rest = &self.text[self.byte..];
            if rest.starts_with(self.separator) {
                self.byte += self.separator.len_utf8();
            } else {
                self.byte += usize::from(!rest.is_empty());
                self.line += usize::from(!rest.is_empty());
                break;
            }
        }
        if fields
            .iter()
            .all(|field| field.bytes().all(|byte| byte.is_ascii_whitespace()))
        {
            fields.clear();
        }
        Some(Ok(Record { line, fields }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(text: &str, separator: char) -> Vec<(usize, Vec<String>)> {
        Table::new(text, separator)
            .map(|record| {
                let record = record.unwrap();
                (
                    record.line,
                    record.fields.into_iter().map(Cow::into_owned).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn quotes_and_line_breaks_are_understood() {
        let text = "a,\"b \"\"c\"\"\",\"d\ne\"\r\n\r\n\",\",\"\"\"\",x\"y\n1,,";
        assert_eq!(
            fields(text, ','),
            [
                (1, vec!["a".into(), "b \"c\"".into(), "d\ne".into()]),
                (3, vec![]),
                (4, vec![",".into(), "\"".into(), "x\"y".into()]),
                (5, vec!["1".into(), String::new(), String::new()])
            ]
        );
        assert_eq!(
            fields("sep=;\na;b", ';'),
            [(2, vec!["a".into(), "b".into()])]
        );
        let mut table = Table::new("a\nb,\"c\nd", ',');
        assert!(table.next().unwrap().is_ok());
        assert_eq!(table.next(), Some(Err(OpenQuote { line: 2 })));
        assert_eq!(table.next(), None);
    }

    #[test]
    fn a_quote_is_a_word_in_tabs_without_quoting() {
        assert_eq!(
            fields("\"\tO\nx\tO\n\"\tO", '\t'),
            [
                (1, vec!["\"".into(), "O".into()]),
                (2, vec!["x".into(), "O".into()]),
                (3, vec!["\"".into(), "O".into()])
            ]
        );
        assert_eq!(
            fields("\"\"\"\"\tO", '\t'),
            [(1, vec!["\"".into(), "O".into()])]
        );
        assert_eq!(fields("\",O\na,O\n\",O", ',').len(), 3);
        assert_eq!(fields("w,O\n\",\",O\n\"a\nb\",O", ',')[1].1, [",", "O"]);
        assert_eq!(fields("t\tx\n\"a\nb\"\tO", '\t').len(), 2);
    }

    proptest! {
        #[test]
        // Fields have either separators or line breaks, because both can look like a table without quoting.
        fn written_tables_come_back(rows in prop_oneof![
            prop::collection::vec(prop::collection::vec("[a\",; é]{0,6}", 3), 1..5),
            prop::collection::vec(prop::collection::vec("[a\";\n\r é]{0,6}", 3), 1..5),
        ]) {
            let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let lines: Vec<String> = rows.iter().map(|row| row.iter().map(quote).collect::<Vec<_>>().join(",")).collect();
            let text = format!("a,b,c\n{}", lines.join("\n"));
            let read: Vec<Vec<String>> = fields(&text, ',').into_iter().skip(1).map(|(_, fields)| fields).collect();
            let expected: Vec<Vec<String>> = rows.into_iter().map(|row| if row.iter().all(|field| field.trim().is_empty()) { Vec::new() } else { row }).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a\",;\t\n\ré|]{0,30}", which in 0..4usize) {
            let _ = Table::new(&text, SEPARATORS[which]).count();
        }
    }
}
