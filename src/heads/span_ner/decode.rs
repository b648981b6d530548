//! From span scores to mentions.

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

use super::config::Nesting;
use super::network::SpanNer;
use crate::encoder::WordStates;
use crate::nn::host;
use crate::text::{Entity, Mention, Span};

/// The mentions of each sentence: spans whose most probable class is a type, scored by its probability.
pub fn decode(head: &SpanNer, states: &WordStates) -> Vec<Vec<Mention>> {
    let [_, words, _] = states.words.dims();
    let classes = head.labels.len() + 1;
    let scores = Tensor::cat(head.all_scores(states), 1);
    let spans = scores.dims()[1];
    let probabilities = host::floats(softmax(scores, 2));
    let spans_in_order = spans_in_order(words, head.longest);
    states
        .lengths
        .iter()
        .enumerate()
        .map(|(sentence, length)| {
            let rows = &probabilities[sentence * spans * classes..(sentence + 1) * spans * classes];
            let found: Vec<Mention> = spans_in_order
                .iter()
                .zip(rows.chunks_exact(classes))
                .filter(|(span, _)| span.end <= *length)
                .filter_map(|(span, row)| mention(head, *span, row))
                .collect();
            let mut found = match head.output {
                Nesting::Nested => found,
                Nesting::Flat => greedy(found),
            };
            found.sort_by(|one, other| one.entity.cmp(&other.entity));
            found
        })
        .collect()
}

/// All spans in the order of `all_scores`.
fn spans_in_order(words: usize, longest: usize) -> Vec<Span> {
    (1..=longest.min(words))
        .flat_map(|length| (0..=words - length).map(move |start| Span::new(start, start + length)))
        .collect()
}

fn mention(head: &SpanNer, span: Span, row: &[f32]) -> Option<Mention> {
    // The first of equal maxima, so that class none wins a tie.
    let best = host::argmax(row);
    (best > 0).then(|| Mention {
        entity: Entity {
            span,
            label: head.labels.name(best - 1).to_string(),
        },
        score: row[best],
    })
}

/// Keeps the most probable of overlapping mentions; of equally probable ones, the first.
pub fn greedy(mut mentions: Vec<Mention>) -> Vec<Mention> {
    mentions.sort_by(|one, other| other.score.total_cmp(&one.score));
    let mut kept: Vec<Mention> = Vec::new();
    for mention in mentions {
        let span = &mention.entity.span;
        if kept.iter().all(|other| !other.entity.span.overlaps(span)) {
            kept.push(mention);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_wins() {
        let mention = |start, end, score| Mention {
            entity: Entity::new(start, end, "X"),
            score,
        };
        let kept = greedy(vec![
            mention(0, 2, 0.6),
            mention(1, 3, 0.9),
            mention(2, 4, 0.7),
            mention(3, 4, 0.9),
        ]);
        let spans: Vec<(usize, usize)> = kept
            .iter()
            .map(|mention| (mention.entity.span.start, mention.entity.span.end))
            .collect();
        assert_eq!(spans, [(1, 3), (3, 4)]);
    }
}
