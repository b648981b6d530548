//! Seeds to mentions: filtered, moved, classified, and thinned out.

use burn::tensor::activation::softmax;

use super::network::{LocateLabel, View};
use super::seeds::prediction_seeds;
use super::suppress::{Candidate, suppress};
use crate::encoder::WordStates;
use crate::nn::host;
use crate::nn::spans::BatchSpan;
use crate::text::{Entity, Mention, Span};

/// Spans scored at once: what describes them all would need gigabytes in a large batch.
const SPANS: usize = 1 << 15;

/// The mentions of each sentence.
pub fn decode(head: &LocateLabel, states: &WordStates) -> Vec<Vec<Mention>> {
    candidates(head, states)
        .into_iter()
        .map(|candidates| {
            let mut mentions: Vec<Mention> = suppress(&head.config, candidates)
                .into_iter()
                .map(|candidate| Mention {
                    entity: Entity {
                        span: candidate.span,
                        label: head.labels.name(candidate.class - 1).to_string(),
                    },
                    // The released program's scores of repeated proposals go beyond 1.
                    score: candidate.score.min(1.0) as f32,
                })
                .collect();
            mentions.sort_by(|one, other| one.entity.cmp(&other.entity));
            mentions
        })
        .collect()
}

/// What the classifier says of each sentence's proposals, those of class none left out, in the order of the seeds.
pub fn candidates(head: &LocateLabel, states: &WordStates) -> Vec<Vec<Candidate>> {
    let view = View::new(states);
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
        let proposals = proposals(head, &view, part);
        survivors += proposals.len();
        for (sentence, candidate) in classified(head, &view, &proposals) {
            all[sentence].push(candidate);
        }
    }
    tracing::debug!(
        "{survivors} of {} seed spans are proposals in {} sentences",
        seeds.len(),
        states.lengths.len()
    );
    all
}

/// The seeds that pass the filter, where the regressor puts them.
fn proposals(head: &LocateLabel, view: &View, seeds: &[BatchSpan]) -> Vec<BatchSpan> {
    let kept = filtered(head, view, seeds);
    if kept.is_empty() {
        return kept;
    }
    let Some(offsets) = head.offsets(view, &kept) else {
        return kept;
    };
    let offsets = host::floats(offsets);
    let (pairs, _) = offsets.as_chunks::<2>();
    kept.into_iter()
        .zip(pairs)
        .map(|(span, pair)| head.moved(span, *pair, view.lengths[span.sentence]))
        .filter_map(|(span, legal)| legal.then_some(span))
        .collect()
}

/// The seeds with p(nothing) < ratio · p(proposal).
fn filtered(head: &LocateLabel, view: &View, seeds: &[BatchSpan]) -> Vec<BatchSpan> {
    let Some(verdicts) = head.verdicts(view, seeds) else {
        return seeds.to_vec();
    };
    let verdicts = host::floats(softmax(verdicts, 1));
    let (pairs, _) = verdicts.as_chunks::<2>();
    let ratio = head.config.filter_ratio as f32;
    seeds
        .iter()
        .zip(pairs)
        .filter(|(_, [nothing, proposal])| *nothing < ratio * proposal)
        .map(|(span, _)| *span)
        .collect()
}

/// Proposals whose best class is a type, with their sentences.
fn classified(head: &LocateLabel, view: &View, spans: &[BatchSpan]) -> Vec<(usize, Candidate)> {
    if spans.is_empty() {
        return Vec::new();
    }
    let classes = head.labels.len() + 1;
    let probabilities = host::floats(softmax(head.classes(view, spans), 1));
    spans
        .iter()
        .zip(probabilities.chunks_exact(classes))
        .filter_map(|(span, row)| {
            // The first of equals, so that none wins a tie.
            let best = (1..classes).fold(
                0,
                |best, class| if row[class] > row[best] { class } else { best },
            );
            (best > 0).then(|| {
                let candidate = Candidate {
                    class: best,
                    span: Span::new(span.start, span.end),
                    score: row[best] as f64,
                };
                (span.sentence, candidate)
            })
        })
        .collect()
}
