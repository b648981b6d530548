//! Compares what the book shows with what a command prints.
//!
//! Every line that the book shows has to be in the output, in the same order. Spaces may differ in number, `...` stands for
//! anything, whole numbers have to be equal, and numbers with a decimal point nearly so: another processor rounds
//! differently, and scores follow from that.

use std::sync::LazyLock;

use regex::Regex;

/// An error that names the first line of `shown` that is not in `printed`.
pub fn compare(shown: &str, printed: &str) -> Result<(), String> {
    let mut rest = printed.lines();
    for line in shown
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && *line != "...")
    {
        let pattern = Pattern::new(line);
        let mut nearest: Option<&str> = None;
        let found = rest
            .clone()
            .position(|printed| match pattern.matches(printed.trim()) {
                Match::Yes => true,
                Match::OtherNumbers => {
                    nearest.get_or_insert(printed);
                    false
                }
                Match::No => false,
            });
        let Some(index) = found else {
            let hint = nearest
                .map(|line| format!("\nthe output has other numbers: {line}"))
                .unwrap_or_default();
            return Err(format!(
                "the output does not have this line, or not in this order:\n{line}{hint}"
            ));
        };
        rest.nth(index);
    }
    Ok(())
}

/// Like [`compare`], for one long line that the book breaks into several: only what is not white space counts.
pub fn compare_joined(shown: &str, printed: &str) -> Result<(), String> {
    let joined = |text: &str| text.split_whitespace().collect::<String>();
    let pattern = Pattern::new(&format!("...{}...", joined(shown)));
    let wanted = |line: &str| pattern.matches(&joined(line));
    let whole = std::iter::once(printed).chain(printed.lines());
    let mut problem = "the output does not have this";
    for part in whole {
        match wanted(part) {
            Match::Yes => return Ok(()),
            Match::OtherNumbers => problem = "the output has other numbers",
            Match::No => {}
        }
    }
    Err(format!("{problem}:\n{shown}"))
}

enum Match {
    Yes,
    OtherNumbers,
    No,
}

/// A line of the book.
struct Pattern {
    regex: Regex,
    numbers: Vec<String>,
}

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?:e-?[0-9]+)?").unwrap());

impl Pattern {
    fn new(line: &str) -> Self {
        let mut numbers = Vec::new();
        let mut regex = String::from("^");
        let parts: Vec<&str> = line.split("...").collect();
        for (index, mut part) in parts.iter().copied().enumerate() {
            // Spaces beside `...` are for readers.
            if index > 0 {
                regex.push_str(".*?");
                part = part.trim_start();
            }
            if index + 1 < parts.len() {
                part = part.trim_end();
            }
            let mut end = 0;
            for number in NUMBER.find_iter(part) {
                literal(&mut regex, &part[end..number.start()]);
                regex.push_str(&format!("({})", NUMBER.as_str()));
                numbers.push(number.as_str().to_string());
                end = number.end();
            }
            literal(&mut regex, &part[end..]);
        }
        regex.push('$');
        let regex = Regex::new(&regex).unwrap_or_else(|problem| panic!("{line}: {problem}"));
        Self { regex, numbers }
    }

    fn matches(&self, line: &str) -> Match {
        let Some(found) = self.regex.captures(line) else {
            return Match::No;
        };
        let printed = found
            .iter()
            .skip(1)
            .map(|group| group.map_or("", |group| group.as_str()));
        let close = self
            .numbers
            .iter()
            .zip(printed)
            .all(|(shown, printed)| is_close(shown, printed));
        if close {
            Match::Yes
        } else {
            Match::OtherNumbers
        }
    }
}

/// Adds text as it is, with any number of spaces where it has some.
fn literal(regex: &mut String, text: &str) {
    let mut in_space = false;
    for character in text.chars() {
        if character.is_whitespace() {
            if !in_space {
                regex.push_str(r"\s+");
            }
        } else {
            regex.push_str(&regex::escape(&character.to_string()));
        }
        in_space = character.is_whitespace();
    }
}

/// True for equal whole numbers, and for numbers with a decimal point that differ by little: scores in percent by two points
/// or 2 %, probabilities by a twentieth.
fn is_close(shown: &str, printed: &str) -> bool {
    if shown == printed {
        return true;
    }
    let value = |text: &str| text.replace(',', "").parse::<f64>().unwrap_or(f64::NAN);
    let is_decimal = |text: &str| text.contains(['.', 'e']);
    let (shown_value, printed_value) = (value(shown), value(printed));
    let allowed = if shown_value.abs() <= 1.0 {
        0.05
    } else {
        2.0_f64.max(0.02 * shown_value.abs())
    };
    is_decimal(shown) && is_decimal(printed) && (shown_value - printed_value).abs() <= allowed
}

/// The comparison itself, on small examples.
pub fn check_comparison() {
    let printed = "type   P      R\nDATE   100.00 99.61\nmicro  98.90  92.31\nin 3 files";
    let ok = |shown: &str| compare(shown, printed).is_ok();
    assert!(
        ok("type P R\nmicro 97.50 92.00"),
        "scores may differ by a point"
    );
    assert!(!ok("micro 90.00 92.31"), "but not by many");
    assert!(
        !ok("micro 98.90 92.31\nDATE 100.00 99.61"),
        "the order counts"
    );
    assert!(
        ok("DATE ...\n...\nin 3 files") && !ok("in 4 files"),
        "whole numbers are equal"
    );
    assert!(
        !ok("macro 98.90 92.31") && !ok("micro 98.90"),
        "lines are whole"
    );
    let json = r#"{"text":"Ada Keller","entities":[{"start":0,"score":0.9972}]}"#;
    let joined = |shown: &str| compare_joined(shown, json).is_ok();
    assert!(joined(
        "{\"text\":\"Ada Keller\",\"entities\":[\n {\"start\":0,\"score\":0.991}]}"
    ));
    assert!(!joined(
        "{\"text\":\"Ada Keller\",\"entities\":[\n {\"start\":1,\"score\":0.991}]}"
    ));
}
