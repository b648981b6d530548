//! Problems of the same kind, so that thousands of equal warnings take a few lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::SHOWN;
use crate::data::{Problem, Severity};

/// Problems of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProblemGroup {
    /// Warning or error.
    pub severity: Severity,
    /// How many there are.
    pub count: usize,
    /// The first ones, up to three.
    pub examples: Vec<Problem>,
}

impl fmt::Display for ProblemGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.examples.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        match self.count - self.examples.len() {
            0 => Ok(()),
            1 => write!(f, "\n    and 1 more {} of this kind", self.severity),
            more => write!(f, "\n    and {more} more {}s of this kind", self.severity),
        }
    }
}

/// Groups problems by kind, in the order of the first of each. `labels` are the types of the corpus, which messages name.
pub(super) fn group<'a>(
    problems: &[Problem],
    labels: impl Iterator<Item = &'a str>,
) -> Vec<ProblemGroup> {
    let labels: BTreeSet<&str> = labels.collect();
    let mut groups: Vec<ProblemGroup> = Vec::new();
    let mut known: BTreeMap<(Severity, String), usize> = BTreeMap::new();
    for problem in problems {
        let key = (problem.severity, kind(&problem.message, &labels));
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(ProblemGroup {
                severity: problem.severity,
                count: 0,
                examples: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.count += 1;
        if group.examples.len() < SHOWN {
            group.examples.push(problem.clone());
        }
    }
    groups
}

/// The message without what differs between problems of a kind: quotations, numbers, types and other names.
fn kind(message: &str, labels: &BTreeSet<&str>) -> String {
    let mut kind = String::new();
    let mut word = String::new();
    let mut characters = message.chars();
    while let Some(character) = characters.next() {
        if character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '/') {
            word.push(character);
            continue;
        }
        push_word(&mut kind, &mut word, labels);
        match character {
            // Quoted text, and the detail in brackets. Without a closing mark the rest of the message.
            '`' => characters
                .by_ref()
                .take_while(|next| *next != '`')
                .for_each(drop),
            '(' => characters
                .by_ref()
                .take_while(|next| *next != ')')
                .for_each(drop),
            '[' => characters
                .by_ref()
                .take_while(|next| *next != ']')
                .for_each(drop),
            _ => {}
        }
        kind.push(character);
    }
    push_word(&mut kind, &mut word, labels);
    kind
}

fn push_word(kind: &mut String, word: &mut String, labels: &BTreeSet<&str>) {
    let is_name = |text: &str| {
        text.contains(|c: char| c.is_uppercase() || c.is_numeric()) || labels.contains(text)
    };
    if is_name(word) || is_name(word.trim_end_matches('.')) {
        kind.push('#');
    } else {
        kind.push_str(word);
    }
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Location;

    fn problem(line: usize, severity: Severity, message: &str) -> Problem {
        Problem {
            location: Location::line("a.txt", line),
            message: message.to_string(),
            severity,
            correction: None,
        }
    }

    #[test]
    fn messages_that_differ_in_names_and_numbers_are_of_one_kind() {
        let labels = BTreeSet::from(["protein", "cell line"]);
        let of = |message| kind(message, &labels);
        for (one, other) in [
            (
                "PER 3..7 `a; b` does not start; correct it",
                "LOC-x 10..12 `` does not start; correct it",
            ),
            ("protein 1..2 is given twice", "DNA 3..4 is given twice"),
            (
                "record 3: `entities`[0] (A) ends at 2",
                "record 14: `ner`[12] (B c) ends at 99",
            ),
            (
                "`I-PER` does not continue a PER; write `B-PER`",
                "`I-A` does not continue a A; write `B-A`",
            ),
        ] {
            assert_eq!(of(one), of(other));
        }
        assert_ne!(of("PER 1..2 is given twice"), of("PER 1..2 is empty"));
        of("unclosed ` quote");
        of("unclosed ( [");
    }

    #[test]
    fn three_of_a_kind_are_shown_and_all_are_counted() {
        let (warning, error) = (Severity::Warning, Severity::Error);
        let mut problems: Vec<Problem> = (1..=7)
            .map(|n| problem(n, warning, &format!("A {n} is odd; mend it")))
            .collect();
        problems.insert(2, problem(9, error, "bad"));
        problems.push(problem(8, error, "A 3 is odd; mend it"));
        let groups = group(&problems, std::iter::empty());
        let sizes: Vec<(Severity, usize)> = groups.iter().map(|g| (g.severity, g.count)).collect();
        assert_eq!(sizes, [(warning, 7), (error, 1), (error, 1)]);
        let text = groups[0].to_string();
        assert!(
            text.contains("a.txt:3: warning: A 3") && !text.contains("a.txt:4"),
            "{text}"
        );
        assert!(text.ends_with("and 4 more warnings of this kind"), "{text}");
        assert_eq!(groups[1].to_string(), "a.txt:9: error: bad");
    }
}
