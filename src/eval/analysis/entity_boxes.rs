//! A sentence as HTML, with its entities as boxes in the line of the text; boxes nest as entities do.

use std::cmp::Reverse;

use maud::{Markup, html};

use crate::text::{Sentence, Span, slice};

/// Largest number of copies of a sentence drawn for entities that cross each other. A model that predicts nearly
/// every span would otherwise fill pages.
const MAX_LAYERS: usize = 3;

/// An entity to draw as a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntityBox {
    /// The words it covers.
    pub span: Span,
    /// The label shown below it.
    pub label: String,
    /// The kind of error; `None` for a correct entity.
    pub mistake: Option<String>,
}

/// Draws a sentence. Entities that cross one already drawn are drawn on a copy of the sentence below.
pub(super) fn draw_sentence(sentence: &Sentence, boxes: Vec<EntityBox>) -> Markup {
    let mut layers = layers(boxes);
    let hidden: usize = layers.iter().skip(MAX_LAYERS).map(Vec::len).sum();
    layers.truncate(MAX_LAYERS);
    html! {
        @for layer in &layers {
            div.sentence dir="auto" { (draw_words(sentence, Span::new(0, sentence.len()), layer)) }
        }
        @if hidden > 0 {
            div.remark { "and " (hidden) " more that cross these" }
        }
    }
}

/// Sorts the boxes, outer before inner, into layers without crossings; each box goes into the first layer it fits.
/// There is at least one layer.
fn layers(mut boxes: Vec<EntityBox>) -> Vec<Vec<EntityBox>> {
    boxes.sort_by(|a, b| {
        let key = |entity: &EntityBox| (entity.span.start, Reverse(entity.span.end));
        (key(a), &a.label).cmp(&(key(b), &b.label))
    });
    let mut layers: Vec<Vec<EntityBox>> = vec![Vec::new()];
    for entity in boxes {
        let fits = |layer: &&mut Vec<EntityBox>| {
            layer.iter().all(|other| !crosses(other.span, entity.span))
        };
        match layers.iter_mut().find(fits) {
            Some(layer) => layer.push(entity),
            None => layers.push(vec![entity]),
        }
    }
    layers
}

fn crosses(one: Span, other: Span) -> bool {
    one.overlaps(&other) && !one.contains(&other) && !other.contains(&one)
}

/// Draws the words of a span. The boxes are sorted, lie inside the span and do not cross.
fn draw_words(sentence: &Sentence, span: Span, boxes: &[EntityBox]) -> Markup {
    let words = &sentence.words;
    let mut parts: Vec<Markup> = Vec::new();
    let mut next = span.start;
    let mut rest = boxes;
    while next < span.end {
        if next > span.start {
            let between = slice(&sentence.text, words[next - 1].end, words[next].start);
            parts.push(html! { (between) });
        }
        match rest.split_first() {
            Some((first, others)) if first.span.start == next => {
                let (inner, after) = split_inner(first, others);
                parts.push(draw_box(sentence, first, inner));
                rest = after;
                next = first.span.end;
            }
            _ => {
                parts.push(html! { (words[next].text) });
                next += 1;
            }
        }
    }
    html! { @for part in &parts { (part) } }
}

fn draw_box(sentence: &Sentence, entity: &EntityBox, inner: &[EntityBox]) -> Markup {
    // A box is higher than the boxes inside it, or their lines would coincide.
    let style = format!("--inside:{}", depth(inner).min(4));
    html! {
        span.entity.wrong[entity.mistake.is_some()] style=(style) {
            (draw_words(sentence, entity.span, inner))
            sub {
                bdi { (entity.label) }
                @if let Some(mistake) = &entity.mistake { " ✗ " bdi { (mistake) } }
            }
        }
    }
}

/// The largest number of the sorted boxes that lie inside each other.
fn depth(mut boxes: &[EntityBox]) -> usize {
    let mut deepest = 0;
    while let Some((first, rest)) = boxes.split_first() {
        let (inner, after) = split_inner(first, rest);
        deepest = deepest.max(1 + depth(inner));
        boxes = after;
    }
    deepest
}

/// Splits the boxes that follow `outer` in sorted order into those inside it and those after it.
fn split_inner<'a>(
    outer: &EntityBox,
    following: &'a [EntityBox],
) -> (&'a [EntityBox], &'a [EntityBox]) {
    let inside = |entity: &&EntityBox| entity.span.start < outer.span.end;
    following.split_at(following.iter().take_while(inside).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(start: usize, end: usize, label: &str) -> EntityBox {
        EntityBox {
            span: Span::new(start, end),
            label: label.to_owned(),
            mistake: None,
        }
    }

    /// The drawn sentence with boxes as brackets and layers as lines.
    fn drawn(words: &[&str], boxes: Vec<EntityBox>) -> String {
        let sentence = Sentence::from_words(words.iter().copied());
        let html = draw_sentence(&sentence, boxes).into_string();
        let html = (0..5).fold(html, |html, inside| {
            html.replace(&format!(" style=\"--inside:{inside}\""), "")
        });
        html.replace("<div class=\"sentence\" dir=\"auto\">", "")
            .replace("</div>", "\n")
            .replace("<span class=\"entity\">", "[")
            .replace("<span class=\"entity wrong\">", "[")
            .replace("</span>", "]")
            .replace("<sub><bdi>", "/")
            .replace("</bdi></sub>", "")
    }

    #[test]
    fn boxes_nest_as_entities_do() {
        let boxes = vec![
            entity(2, 3, "LOC"),
            entity(0, 3, "ORG"),
            entity(0, 3, "GPE"),
            entity(4, 5, "PER"),
        ];
        assert_eq!(
            drawn(&["Bank", "of", "Oslo", "hired", "Ida"], boxes),
            "[[Bank of [Oslo/LOC]/ORG]/GPE] hired [Ida/PER]\n"
        );
        assert_eq!(drawn(&["a", "b"], Vec::new()), "a b\n");
        assert_eq!(drawn(&[], Vec::new()), "\n");
    }

    #[test]
    fn depth_counts_nested_boxes() {
        let boxes = [
            entity(0, 9, "A"),
            entity(0, 3, "B"),
            entity(4, 8, "C"),
            entity(5, 6, "D"),
        ];
        assert_eq!(depth(&boxes), 3);
        assert_eq!(depth(&boxes[1..2]), 1);
        assert_eq!(depth(&[]), 0);
    }

    #[test]
    fn crossing_entities_are_drawn_on_copies_below() {
        let boxes = vec![entity(0, 2, "A"), entity(1, 3, "B"), entity(2, 3, "C")];
        assert_eq!(drawn(&["x", "y", "z"], boxes), "[x y/A] [z/C]\nx [y z/B]\n");
        let many: Vec<EntityBox> = (0..6).map(|start| entity(start, start + 6, "A")).collect();
        let words: Vec<String> = (0..12).map(|word| word.to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(drawn(&words, many).contains("and 3 more that cross these"));
    }

    #[test]
    fn text_between_words_is_kept_and_words_are_escaped() {
        let mut sentence = Sentence::from_words(["<script>", "x"]);
        sentence.text = "<script>x".to_owned();
        sentence.words[1].start = 8;
        sentence.words[1].end = 9;
        let wrong = EntityBox {
            mistake: Some("type, gold: <b>".to_owned()),
            ..entity(0, 1, "\"A\"")
        };
        let html = draw_sentence(&sentence, vec![wrong]).into_string();
        assert!(html.contains("&lt;script&gt;<sub><bdi>&quot;A&quot;</bdi> ✗ <bdi>type, gold: &lt;b&gt;</bdi></sub></span>x"));
    }
}
