//! From seeds to mentions: filter, move, classify and suppress.

use burn::tensor::activation::softmax;

use super::config::Config;
use super::network::{LocateLabel, SpanContext};
use super::seeds::prediction_seeds;
use super::suppress::{Proposal, suppress};
use crate::encoder::WordStates;
use crate::heads::overlaps::one_type_per_span;
use crate::nn::host;
use crate::nn::spans::BatchSpan;
use crate::text::{Entity, Mention, Span};

/// The number of spans scored at once: the features of all spans of a large batch would need gigabytes.
const SPANS: usize = 1 << 15;

/// The mentions of a sentence from its classified proposals.
pub fn mentions(head: &LocateLabel, config: &Config, proposals: &[Proposal]) -> Vec<Mention> {
    let found = suppress(config, proposals.to_vec()).into_iter();
    let mut mentions: Vec<Mention> = found
        .map(|proposal| Mention {
            entity: Entity {
                span: proposal.span,
                label: head.labels.name(proposal.class - 1).to_string(),
            },
            // In the released code, scores of repeated proposals can exceed 1.
            score: proposal.score.min(1.0) as f32,
        })
        .collect();
    if config.one_type {
        mentions = one_type_per_span(mentions);
    }
    config.overlaps.keep_best(mentions)
}

/// The classified proposals of each sentence in the order of the seeds, without those of class none.
pub fn proposals(head: &LocateLabel, states: &WordStates) -> Vec<Vec<Proposal>> {
    let context = SpanContext::new(states);
    let mut all = vec![Vec::new(); states.lengths.len()];
    let mut seeds = Vec::new();
    for (sentence, length) in states.lengths.iter().copied().enumerate() {
        let spans = prediction_seeds(&head.config, length).into_iter();
        seeds.extend(spans.map(|span| BatchSpan {
            sentence,
            start: span.start,
            end: span.end,
        }));
    }
    let mut survivors = 0;
    for part in seeds.chunks(SPANS) {
        let spans = proposed_spans(head, &context, part);
        survivors += spans.len();
        for (sentence, proposal) in classified(head, &context, &spans) {
            all[sentence].push(proposal);
        }
    }
    tracing::debug!(
        "{survivors} of {} seed spans are proposals in {} sentences",
        seeds.len(),
        states.lengths.len()
    );
    all
}

/// The seeds that pass the filter, moved by the regressor.
fn proposed_spans(
    head: &LocateLabel,
    context: &SpanContext,
    seeds: &[BatchSpan],
) -> Vec<BatchSpan> {
    let kept = filtered(head, context, seeds);
    if kept.is_empty() {
        return kept;
    }
    let Some(offsets) = head.offsets(context, &kept) else {
        return kept;
    };
    let offsets = host::floats(offsets);
    let (pairs, _) = offsets.as_chunks::<2>();
    kept.into_iter()
        .zip(pairs)
        .map(|(span, pair)| head.moved(span, *pair, context.lengths[span.sentence]))
        .filter_map(|(span, legal)| legal.then_some(span))
        .collect()
}

/// The seeds with p(none) < ratio · p(proposal).
fn filtered(head: &LocateLabel, context: &SpanContext, seeds: &[BatchSpan]) -> Vec<BatchSpan> {
    let Some(logits) = head.filter_logits(context, seeds) else {
        return seeds.to_vec();
    };
    let probabilities = host::floats(softmax(logits, 1));
    let (pairs, _) = probabilities.as_chunks::<2>();
    let ratio = head.config.filter_ratio as f32;
    seeds
        .iter()
        .zip(pairs)
        .filter(|(_, [none, proposal])| *none < ratio * proposal)
        .map(|(span, _)| *span)
        .collect()
}

/// Proposals whose most probable class is a type, with their sentences.
fn classified(
    head: &LocateLabel,
    context: &SpanContext,
    spans: &[BatchSpan],
) -> Vec<(usize, Proposal)> {
    if spans.is_empty() {
        return Vec::new();
    }
    let classes = head.labels.len() + 1;
    let probabilities = host::floats(softmax(head.classes(context, spans), 1));
    spans
        .iter()
        .zip(probabilities.chunks_exact(classes))
        .filter_map(|(span, row)| {
            // The first of equal maxima, so that class none wins a tie.
            let best = host::argmax(row);
            (best > 0).then(|| {
                let proposal = Proposal {
                    class: best,
                    span: Span::new(span.start, span.end),
                    score: row[best] as f64,
                };
                (span.sentence, proposal)
            })
        })
        .collect()
}
