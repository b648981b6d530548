//! From span scores to mentions.

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;

use super::config::Config;
use super::network::SpanNer;
use crate::encoder::WordStates;
use crate::heads::none_bias;
use crate::nn::host;
use crate::text::{Entity, Mention, Span};

/// A span that may become a mention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanScore {
    span: Span,
    /// The most probable type.
    label: usize,
    /// Its probability.
    probability: f32,
    /// The probability of the class none.
    none: f32,
}

impl SpanScore {
    /// A span with the probabilities of its best type and of none.
    pub fn new(start: usize, end: usize, label: usize, probability: f32, none: f32) -> Self {
        Self {
            span: Span::new(start, end),
            label,
            probability,
            none,
        }
    }
}

/// The spans of each sentence that may become mentions.
pub fn candidates(head: &SpanNer, states: &WordStates) -> Vec<Vec<SpanScore>> {
    let [_, words, _] = states.words.dims();
    let classes = head.labels.len() + 1;
    let scores = Tensor::cat(head.all_scores(states), 1);
    let spans = scores.dims()[1];
    let probabilities = host::floats(softmax(scores, 2));
    let spans_in_order = spans_in_order(words, head.config.longest);
    (states.lengths.iter())
        .zip(probabilities.chunks((spans * classes).max(1)))
        .map(|(length, rows)| {
            (spans_in_order.iter().zip(rows.chunks_exact(classes)))
                .filter(|(span, _)| span.end <= *length)
                .map(|(span, row)| {
                    let label = host::argmax(&row[1..]);
                    SpanScore {
                        span: *span,
                        label,
                        probability: row[1 + label],
                        none: row[0],
                    }
                })
                .filter(|found| {
                    none_bias::can_win(found.probability, found.none, head.config.none_bias)
                })
                .collect()
        })
        .collect()
}

/// Spans with a type that is more probable than none, scored by its probability.
pub fn mentions(head: &SpanNer, config: &Config, spans: &[SpanScore]) -> Vec<Mention> {
    let mention = |found: &SpanScore| {
        let score = none_bias::biased(found.probability, found.none, config.none_bias)?;
        let entity = Entity {
            span: found.span,
            label: head.labels.name(found.label).to_string(),
        };
        Some(Mention { entity, score })
    };
    let found = spans.iter().filter_map(mention).collect();
    config.overlaps.keep_best(found)
}

/// All spans in the order of `all_scores`.
fn spans_in_order(words: usize, longest: usize) -> Vec<Span> {
    (1..=longest.min(words))
        .flat_map(|length| (0..=words - length).map(move |start| Span::new(start, start + length)))
        .collect()
}
