//! A sentence with its entities as boxes in the line of the text, nested ones in each other.

use std::cmp::Reverse;

use super::markup::Markup;
use crate::text::{Sentence, Span, slice};

/// How often a sentence is repeated for entities that cross each other; a model that predicts nearly every span
/// would fill pages.
const LAYERS: usize = 3;

/// An entity to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bracket {
    /// Which words.
    pub span: Span,
    /// Its label.
    pub label: String,
    /// What is wrong with it, if anything.
    pub mistake: Option<String>,
}

/// Draws a sentence. Entities that cross one already drawn come on a copy of the sentence below.
pub(super) fn draw(markup: &mut Markup, sentence: &Sentence, brackets: Vec<Bracket>) {
    let mut layers = layers(brackets);
    let hidden: usize = layers.iter().skip(LAYERS).map(Vec::len).sum();
    layers.truncate(LAYERS);
    for layer in &layers {
        markup.element("div", &[("class", "sentence"), ("dir", "auto")], |markup| {
            words(markup, sentence, Span::new(0, sentence.len()), layer);
        });
    }
    if hidden > 0 {
        let text = format!("and {hidden} more that cross these");
        markup.leaf("div", &[("class", "remark")], &text);
    }
}

/// The brackets sorted, outer before inner, in as few layers without crossings as come of taking the first that
/// fits; at least one layer.
fn layers(mut brackets: Vec<Bracket>) -> Vec<Vec<Bracket>> {
    brackets.sort_by(|a, b| {
        let key = |bracket: &Bracket| (bracket.span.start, Reverse(bracket.span.end));
        (key(a), &a.label).cmp(&(key(b), &b.label))
    });
    let mut layers: Vec<Vec<Bracket>> = vec![Vec::new()];
    for bracket in brackets {
        let fits = |layer: &&mut Vec<Bracket>| {
            layer.iter().all(|other| !crosses(other.span, bracket.span))
        };
        match layers.iter_mut().find(fits) {
            Some(layer) => layer.push(bracket),
            None => layers.push(vec![bracket]),
        }
    }
    layers
}

fn crosses(one: Span, other: Span) -> bool {
    one.overlaps(&other) && !one.contains(&other) && !other.contains(&one)
}

/// The words of a span, with brackets that all lie in it and do not cross.
fn words(markup: &mut Markup, sentence: &Sentence, span: Span, brackets: &[Bracket]) {
    let mut next = span.start;
    let mut rest = brackets;
    while next < span.end {
        if next > span.start {
            let between = slice(
                &sentence.text,
                sentence.words[next - 1].end,
                sentence.words[next].start,
            );
            markup.text(between);
        }
        match rest.first() {
            Some(bracket) if bracket.span.start == next => {
                let inside = rest[1..]
                    .iter()
                    .take_while(|inner| inner.span.start < bracket.span.end);
                let (inner, after) = rest[1..].split_at(inside.count());
                boxed(markup, sentence, bracket, inner);
                rest = after;
                next = bracket.span.end;
            }
            _ => {
                markup.text(&sentence.words[next].text);
                next += 1;
            }
        }
    }
}

fn boxed(markup: &mut Markup, sentence: &Sentence, bracket: &Bracket, inner: &[Bracket]) {
    let class = match bracket.mistake {
        Some(_) => "entity wrong",
        None => "entity",
    };
    // A box is higher than those inside it, or their borders would lie on each other.
    let style = format!("--inside:{}", height(inner).min(4));
    markup.element("span", &[("class", class), ("style", &style)], |markup| {
        words(markup, sentence, bracket.span, inner);
        markup.element("sub", &[], |markup| {
            markup.leaf("bdi", &[], &bracket.label);
            if let Some(mistake) = &bracket.mistake {
                markup.text(" ✗ ");
                markup.leaf("bdi", &[], mistake);
            }
        });
    });
}

/// How many of the sorted brackets lie in each other at most.
fn height(mut brackets: &[Bracket]) -> usize {
    let mut highest = 0;
    while let Some((first, rest)) = brackets.split_first() {
        let inside = |inner: &&Bracket| inner.span.start < first.span.end;
        let (inner, after) = rest.split_at(rest.iter().take_while(inside).count());
        highest = highest.max(1 + height(inner));
        brackets = after;
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(start: usize, end: usize, label: &str) -> Bracket {
        Bracket {
            span: Span::new(start, end),
            label: label.to_owned(),
            mistake: None,
        }
    }

    fn drawn(words: &[&str], brackets: Vec<Bracket>) -> String {
        let mut markup = Markup::default();
        draw(
            &mut markup,
            &Sentence::from_words(words.iter().copied()),
            brackets,
        );
        let html = (0..5).fold(markup.finish(), |html, inside| {
            html.replace(&format!(" style=\"--inside:{inside}\""), "")
        });
        html.replace("<div class=\"sentence\" dir=\"auto\">", "")
            .replace("</div>", "")
            .replace("<span class=\"entity\">", "[")
            .replace("<span class=\"entity wrong\">", "[")
            .replace("</span>", "]")
            .replace("<sub><bdi>", "/")
            .replace("</bdi></sub>", "")
    }

    #[test]
    fn boxes_nest_as_entities_do() {
        let brackets = vec![
            bracket(2, 3, "LOC"),
            bracket(0, 3, "ORG"),
            bracket(0, 3, "GPE"),
            bracket(4, 5, "PER"),
        ];
        assert_eq!(
            drawn(&["Bank", "of", "Oslo", "hired", "Ida"], brackets),
            "[[Bank of [Oslo/LOC]/ORG]/GPE] hired [Ida/PER]\n"
        );
        assert_eq!(drawn(&["a", "b"], Vec::new()), "a b\n");
        assert_eq!(drawn(&[], Vec::new()), "\n");
    }

    #[test]
    fn boxes_know_how_much_is_inside() {
        let brackets = [
            bracket(0, 9, "A"),
            bracket(0, 3, "B"),
            bracket(4, 8, "C"),
            bracket(5, 6, "D"),
        ];
        assert_eq!(height(&brackets), 3);
        assert_eq!(height(&brackets[1..2]), 1);
        assert_eq!(height(&[]), 0);
    }

    #[test]
    fn what_crosses_comes_below() {
        let brackets = vec![bracket(0, 2, "A"), bracket(1, 3, "B"), bracket(2, 3, "C")];
        assert_eq!(
            drawn(&["x", "y", "z"], brackets),
            "[x y/A] [z/C]\nx [y z/B]\n"
        );
        let many: Vec<Bracket> = (0..6).map(|start| bracket(start, start + 6, "A")).collect();
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
        let mut markup = Markup::default();
        let wrong = Bracket {
            mistake: Some("type, gold: <b>".to_owned()),
            ..bracket(0, 1, "\"A\"")
        };
        draw(&mut markup, &sentence, vec![wrong]);
        let html = markup.finish();
        assert!(html.contains("&lt;script&gt;<sub><bdi>&quot;A&quot;</bdi> ✗ <bdi>type, gold: &lt;b&gt;</bdi></sub></span>x"));
    }
}
