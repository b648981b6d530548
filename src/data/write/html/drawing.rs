//! A text with its entities underlined, one inside the other.
//!
//! HTML elements nest, entities need not: one that crosses another is cut where the other ends, and drawn as two elements.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use maud::{Markup, html};

use crate::text::CharacterIndex;

/// Most elements inside one another. More cannot be told apart, and every element takes room.
const DEEPEST: usize = 8;

/// An entity to draw.
#[derive(Debug, Clone)]
pub struct Mark<'a> {
    /// Its first character.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
    /// Its type.
    pub label: &'a str,
    /// The number of its colour.
    pub colour: usize,
    /// What is shown about it.
    pub info: String,
}

/// A part of an entity, drawn as one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fragment {
    start: usize,
    end: usize,
    mark: usize,
    /// Whether it has the label: the last part of the entity.
    is_last: bool,
}

/// Draws a text.
pub fn draw(text: &str, marks: &[Mark<'_>]) -> Markup {
    let index = CharacterIndex::new(text);
    let (fragments, hidden) = fragments(marks, index.characters());
    let depth = depth(&fragments);
    html! {
        p class={ "drawing deep-" (depth) } dir="auto" {
            (draw_range(&index, marks, 0, index.characters(), &fragments))
        }
        @if hidden > 0 {
            p.remark { "Not drawn, because they overlap too many others: " (hidden) ". The table has them." }
        }
    }
}

/// Cuts entities into fragments that nest, sorted by start, outer before inner. Also returns the number of entities of which
/// not everything is drawn.
fn fragments(marks: &[Mark<'_>], length: usize) -> (Vec<Fragment>, usize) {
    // The next fragment is the one that starts first; of those, the longest.
    let mut waiting: BinaryHeap<Reverse<(usize, Reverse<usize>, usize)>> =
        (marks.iter().enumerate())
            .filter(|(_, mark)| mark.start < mark.end && mark.end <= length)
            .map(|(number, mark)| Reverse((mark.start, Reverse(mark.end), number)))
            .collect();
    let mut hidden = marks.len() - waiting.len();
    let mut open: Vec<usize> = Vec::new();
    let mut fragments = Vec::new();
    while let Some(Reverse((start, Reverse(end), mark))) = waiting.pop() {
        while open.last().is_some_and(|end| *end <= start) {
            open.pop();
        }
        if open.len() >= DEEPEST {
            hidden += 1;
            continue;
        }
        let outer = open.last().copied().unwrap_or(usize::MAX);
        let is_last = end <= outer;
        if !is_last {
            waiting.push(Reverse((outer, Reverse(end), mark)));
        }
        let end = end.min(outer);
        open.push(end);
        fragments.push(Fragment {
            start,
            end,
            mark,
            is_last,
        });
    }
    (fragments, hidden)
}

/// Draws the characters of a range; the fragments lie inside it.
fn draw_range(
    text: &CharacterIndex<'_>,
    marks: &[Mark<'_>],
    start: usize,
    end: usize,
    fragments: &[Fragment],
) -> Markup {
    let mut parts: Vec<Markup> = Vec::new();
    let mut next = start;
    let mut rest = fragments;
    while let Some((first, following)) = rest.split_first() {
        let (inner, after) = split_inner(first, following);
        let before = text.slice(next, first.start);
        parts.push(html! { (before) });
        parts.push(draw_fragment(text, marks, first, inner));
        next = first.end;
        rest = after;
    }
    let last = text.slice(next, end);
    html! { @for part in &parts { (part) } (last) }
}

fn draw_fragment(
    text: &CharacterIndex<'_>,
    marks: &[Mark<'_>],
    fragment: &Fragment,
    inner: &[Fragment],
) -> Markup {
    let mark = &marks[fragment.mark];
    let class = format!("entity colour-{} inside-{}", mark.colour, depth(inner));
    html! {
        span class=(class) tabindex="0" data-info=(mark.info) aria-description=(mark.info) {
            (draw_range(text, marks, fragment.start, fragment.end, inner))
            @if fragment.is_last { span.chip { bdi { (mark.label) } } } @else { span.chip { "…" } }
        }
    }
}

/// The largest number of the fragments that lie inside one another.
fn depth(fragments: &[Fragment]) -> usize {
    let mut open: Vec<usize> = Vec::new();
    let mut deepest = 0;
    for fragment in fragments {
        while open.last().is_some_and(|end| *end <= fragment.start) {
            open.pop();
        }
        open.push(fragment.end);
        deepest = deepest.max(open.len());
    }
    deepest
}

/// Splits the fragments that follow `outer` into those inside it and those after it.
fn split_inner<'a>(
    outer: &Fragment,
    following: &'a [Fragment],
) -> (&'a [Fragment], &'a [Fragment]) {
    following.split_at(following.partition_point(|fragment| fragment.start < outer.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mark(start: usize, end: usize, label: &str) -> Mark<'_> {
        Mark {
            start,
            end,
            label,
            colour: 0,
            info: String::new(),
        }
    }

    /// The drawing with elements as brackets.
    fn drawn(text: &str, marks: &[Mark<'_>]) -> String {
        let html = draw(text, marks).into_string();
        let html = html
            .replace("<span class=\"chip\"><bdi>", "/")
            .replace("</bdi></span></span>", "]");
        let html = html.replace("<span class=\"chip\">…</span></span>", "/…]");
        let mut out = String::new();
        let mut rest = html.as_str();
        while let Some(at) = rest.find('<') {
            out += &rest[..at];
            if rest[at..].starts_with("<span class=\"entity") {
                out.push('[');
            }
            rest = &rest[at + rest[at..].find('>').unwrap() + 1..];
        }
        out + rest
    }

    #[test]
    fn entities_nest_and_crossing_ones_are_cut() {
        let text = "Bank of Oslo hired";
        assert_eq!(
            drawn(text, &[mark(8, 12, "LOC"), mark(0, 12, "ORG")]),
            "[Bank of [Oslo/LOC]/ORG] hired"
        );
        assert_eq!(
            drawn(text, &[mark(0, 12, "A"), mark(5, 18, "B")]),
            "[Bank [of Oslo/…]/A][ hired/B]"
        );
        assert_eq!(
            drawn(text, &[mark(0, 4, "A"), mark(0, 4, "B")]),
            "[[Bank/B]/A] of Oslo hired"
        );
        assert_eq!(drawn("é北👩‍🔬", &[mark(1, 2, "A")]), "é[北/A]👩‍🔬");
        assert_eq!(drawn("", &[]), "");
        // Out of the text, or empty: not drawn, but reported.
        assert!(drawn("ab", &[mark(1, 9, "A"), mark(1, 1, "B")]).contains("others: 2."));
    }

    #[test]
    fn many_crossing_entities_take_linear_time() {
        let marks: Vec<Mark<'_>> = (0..20_000)
            .map(|start| mark(start, start + 5000, "A"))
            .collect();
        let (fragments, hidden) = fragments(&marks, 30_000);
        assert!(fragments.len() <= DEEPEST * 2 * marks.len());
        assert!(hidden > 0);
    }

    proptest! {
        #[test]
        fn every_character_is_drawn_once(spans in prop::collection::vec((0..40usize, 1..20usize), 0..12)) {
            let text: String = (0..60).map(|index| char::from(b'a' + index % 26)).collect();
            let marks: Vec<Mark<'_>> = spans.iter().map(|(start, length)| mark(*start, start + length, "L")).collect();
            let plain: String = drawn(&text, &marks).chars().filter(char::is_ascii_lowercase).collect();
            prop_assert!(plain.starts_with(&text));
            let (fragments, hidden) = fragments(&marks, 60);
            let last = fragments.iter().filter(|fragment| fragment.is_last).count();
            prop_assert_eq!(last + hidden, marks.len());
            for (index, one) in fragments.iter().enumerate() {
                for other in &fragments[index + 1..] {
                    prop_assert!(other.start >= one.end || other.end <= one.end);
                }
            }
        }
    }
}
