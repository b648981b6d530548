//! Entities as brackets around words, as in the columns of CoNLL-2012: `(PERSON*`, `*`, `*)`, `(GPE)`.

use super::bio::TagProblem;
use crate::text::Entity;

/// The most entities that one word may begin or end.
const MOST_BRACKETS: usize = 64;

/// The brackets of one word: the types of the entities that begin at it, and how many end at it.
#[derive(Debug, PartialEq, Eq)]
struct Brackets<'a> {
    begins: Vec<&'a str>,
    ends: usize,
}

/// True for the brackets of a word and for `*`, a word without any.
pub(in crate::data) fn is_cell(cell: &str) -> bool {
    parse(cell).is_some()
}

/// True for a cell that begins an entity.
pub(in crate::data) fn begins(cell: &str) -> bool {
    parse(cell).is_some_and(|brackets| !brackets.begins.is_empty())
}

fn parse(cell: &str) -> Option<Brackets<'_>> {
    let mut rest = cell;
    let mut begins = Vec::new();
    while let Some(after) = rest.strip_prefix('(') {
        let length = after.find(['(', ')', '*']).unwrap_or(after.len());
        let (label, tail) = after.split_at(length);
        // Numbers in brackets are coreference chains.
        if !label.contains(char::is_alphabetic) || begins.len() == MOST_BRACKETS {
            return None;
        }
        begins.push(label);
        rest = tail;
    }
    let (has_star, closing) = match rest.strip_prefix('*') {
        Some(closing) => (true, closing),
        None => (false, rest),
    };
    let is_complete = has_star || (!begins.is_empty() && !closing.is_empty());
    let closes = closing.bytes().all(|byte| byte == b')') && closing.len() <= MOST_BRACKETS;
    (is_complete && closes).then_some(Brackets {
        begins,
        ends: closing.len(),
    })
}

/// Decodes the cells of a sentence. A bracket closes the entity that began last.
pub(super) fn decode(cells: &[&str]) -> (Vec<Entity>, Vec<TagProblem>) {
    let (mut entities, mut problems) = (Vec::new(), Vec::new());
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut report = |index: usize, message: String| {
        problems.push(TagProblem::fatal(index, message));
    };
    for (index, cell) in cells.iter().enumerate() {
        let Some(brackets) = parse(cell) else {
            if !super::style::is_outside(cell) {
                report(
                    index,
                    format!("`{cell}` is not a bracket such as `(PERSON*`, `*`, `*)` or `(GPE)`"),
                );
            }
            continue;
        };
        open.extend(brackets.begins.iter().map(|label| (index, *label)));
        for _ in 0..brackets.ends {
            match open.pop() {
                Some((start, label)) => entities.push(Entity::new(start, index + 1, label)),
                None => report(
                    index,
                    format!("`{cell}` ends an entity that has not begun; delete the `)`"),
                ),
            }
        }
    }
    for (index, label) in open {
        report(
            index,
            format!("the {label} that begins here does not end; add a `)` at its last word"),
        );
    }
    entities.sort();
    problems.sort_by_key(|problem| problem.index);
    (entities, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_nested() {
        let (entities, problems) = decode(&["(ORG(GPE*)", "*", "*)", "(DATE)", "(A(B))", "-", "*"]);
        assert_eq!(problems, []);
        assert_eq!(
            entities,
            [
                Entity::new(0, 1, "GPE"),
                Entity::new(0, 3, "ORG"),
                Entity::new(3, 4, "DATE"),
                Entity::new(4, 5, "A"),
                Entity::new(4, 5, "B"),
            ]
        );
    }

    #[test]
    fn brackets_without_a_partner_are_errors() {
        for (cells, index) in [(["(A*", "*"], 0), (["*", "*)"], 1), (["*", "B-A"], 1)] {
            let (_, problems) = decode(&cells);
            assert_eq!((problems.len(), problems[0].index), (1, index), "{cells:?}");
            assert!(problems[0].fatal);
        }
    }

    #[test]
    fn other_texts_are_not_brackets() {
        for cell in [
            "", "-", "(12)", "(12", "(", ")", "()", "(A", "a*", "*a", "**", "(A b",
        ] {
            assert!(!is_cell(cell), "{cell}");
        }
        assert!(is_cell("*") && is_cell("(WORK_OF_ART*") && is_cell("*))"));
        assert!(!is_cell(&"(A".repeat(100_000)));
    }
}
