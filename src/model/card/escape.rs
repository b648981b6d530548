//! Texts of unknown content in YAML and Markdown.

use std::fmt::Write;

/// A string as a double-quoted YAML scalar. Besides what JSON escapes, these are characters that some YAML readers take for
/// the end of a line or refuse.
pub fn yaml(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text += "\\n",
            '\t' => text += "\\t",
            '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                write!(text, "\\u{:04x}", u32::from(character)).expect("writing to a string");
            }
            _ => text.push(character),
        }
    }
    text + "\""
}

/// A text as Markdown on one line, in a paragraph, a list or a table: no markup, no HTML.
pub fn markdown(value: &str) -> String {
    let line = one_line(value);
    let characters: Vec<char> = line.chars().collect();
    let is_word = |index: Option<usize>| {
        let character = index.and_then(|index| characters.get(index));
        character.is_some_and(|character| character.is_alphanumeric())
    };
    let mut text = String::new();
    for (index, character) in characters.iter().copied().enumerate() {
        match character {
            '&' => text += "&amp;",
            '<' => text += "&lt;",
            '>' => text += "&gt;",
            // Inside a word it is no markup.
            '_' if is_word(index.checked_sub(1)) && is_word(Some(index + 1)) => text.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => text.extend(['\\', character]),
            // Headings, lists and rules.
            '#' | '-' | '+' | '=' if index == 0 => text.extend(['\\', character]),
            '.' | ')'
                if index > 0
                    && characters[..index].iter().all(char::is_ascii_digit)
                    && characters.get(index + 1).is_none_or(|next| *next == ' ') =>
            {
                text.extend(['\\', character]);
            }
            _ => text.push(character),
        }
    }
    text
}

/// A text as inline code, also in a table.
pub fn code(value: &str) -> String {
    let line = one_line(value).replace('|', "\\|");
    let fence = "`".repeat(longest_run(&line) + 1);
    let pad = if line.is_empty() || line.starts_with('`') || line.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// A text in which pairs of backticks enclose code, as Markdown on one line.
pub fn with_code(value: &str) -> String {
    let parts: Vec<&str> = value.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return markdown(value);
    }
    let part = |(index, part): (usize, &&str)| {
        if index % 2 == 1 {
            return code(part);
        }
        let edge = |is_space: bool| if is_space { " " } else { "" };
        let has_text = !part.trim().is_empty();
        let (before, after) = (part.starts_with(' '), part.ends_with(' ') && has_text);
        format!("{}{}{}", edge(before), markdown(part), edge(after))
    };
    parts.iter().enumerate().map(part).collect()
}

/// A text as a block of shell code.
pub fn shell_block(value: &str) -> String {
    let fence = "`".repeat((longest_run(value) + 1).max(3));
    let text: String = (value.chars())
        .filter(|character| !character.is_control() || *character == '\n')
        .collect();
    format!("{fence}sh\n{text}\n{fence}\n")
}

/// A text without line breaks and control characters.
fn one_line(value: &str) -> String {
    let is_space = |character: char| character.is_whitespace() || character.is_control();
    let words = value.split(is_space).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|character| character != '`').map(str::len);
    runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_scalars_stay_on_one_line() {
        assert_eq!(
            yaml("a \"b\" \\ c: [x] # é 北"),
            "\"a \\\"b\\\" \\\\ c: [x] # é 北\""
        );
        assert_eq!(
            yaml("a\nb\r\u{85}\u{2028}\u{0}"),
            "\"a\\nb\\u000d\\u0085\\u2028\\u0000\""
        );
        let hostile = "x\"\n---\n# injected";
        assert!(!yaml(hostile).contains('\n'));
        let back: String = serde_json::from_str(&yaml(hostile)).unwrap();
        assert_eq!(back, hostile);
    }

    #[test]
    fn markdown_has_no_markup_of_its_own() {
        for (value, expected) in [
            ("seq_ner on a-b", "seq_ner on a-b"),
            (
                "<script>alert(1)</script> & co",
                "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co",
            ),
            ("a | b\n| c |", "a \\| b \\| c \\|"),
            ("[x](javascript:1)", "\\[x\\](javascript:1)"),
            (
                "*bold* _it_ `code` ~s~ \\",
                "\\*bold\\* \\_it\\_ \\`code\\` \\~s\\~ \\\\",
            ),
            ("# title", "\\# title"),
            ("- item", "\\- item"),
            ("1. item 2.5", "1\\. item 2.5"),
            ("2.5 items", "2.5 items"),
            ("---", "\\---"),
            ("\u{1b}[31m", "\\[31m"),
            ("", ""),
        ] {
            assert_eq!(markdown(value), expected, "{value:?}");
        }
    }

    #[test]
    fn code_cannot_be_left() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a``b|c\nd"), "```a``b\\|c d```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(
            with_code("by `han`; 5 % [x](y)"),
            "by `han`; 5 % \\[x\\](y)"
        );
        assert_eq!(with_code("a ` b"), "a \\` b");
        assert_eq!(shell_block("a\n```\nb"), "````sh\na\n```\nb\n````\n");
    }
}
