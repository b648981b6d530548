//! From tag scores to mentions.

use std::sync::Arc;

use super::config::{Combiner, Config};
use super::network::SeqNer;
use crate::encoder::WordStates;
use crate::nn::crf::CrfScores;
use crate::nn::host;
use crate::text::{Entity, Mention, Span};

/// The tag scores of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct TagScores {
    /// [words, tags].
    emissions: Vec<f32>,
    tags: usize,
    /// Transition scores, if the decoder is a CRF.
    crf: Option<Arc<CrfScores>>,
}

/// The tag scores of each sentence.
pub fn candidates(head: &SeqNer, states: &WordStates) -> Vec<TagScores> {
    let emissions = head.emissions(states);
    let [_, words, tags] = emissions.dims();
    let emissions = host::floats(emissions);
    let crf = head.crf.as_ref().map(|crf| Arc::new(crf.scores()));
    (states
        .lengths
        .iter()
        .zip(emissions.chunks((words * tags).max(1))))
    .map(|(length, rows)| TagScores {
        emissions: rows[..length * tags].to_vec(),
        tags,
        crf: crf.clone(),
    })
    .collect()
}

/// The mentions of a sentence. A mention's score is the lowest probability among its tags.
pub fn mentions(head: &SeqNer, config: &Config, scores: &TagScores) -> Vec<Mention> {
    let mut emissions = scores.emissions.clone();
    if config.none_bias != 0.0 {
        for row in emissions.chunks_exact_mut(scores.tags) {
            row[0] += config.none_bias as f32;
        }
    }
    let (chosen, probabilities) = match &scores.crf {
        None => {
            let rows = emissions.chunks_exact(scores.tags);
            (
                rows.map(host::argmax).collect(),
                softmax(&emissions, scores.tags),
            )
        }
        Some(crf) => (crf.viterbi(&emissions), crf.marginals(&emissions)),
    };
    let probability = |word: usize| probabilities[word * scores.tags + chosen[word]];
    combine(&chosen, config.combiner)
        .into_iter()
        .map(|(label, span)| Mention {
            entity: Entity {
                span,
                label: head.labels.name(label).to_string(),
            },
            score: (span.start..span.end).map(probability).fold(1.0, f32::min),
        })
        .collect()
}

/// The softmax of each row.
fn softmax(scores: &[f32], classes: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(scores.len());
    for row in scores.chunks_exact(classes) {
        let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = all.len();
        all.extend(row.iter().map(|score| (score - highest).exp()));
        let sum: f32 = all[first..].iter().sum();
        all[first..].iter_mut().for_each(|value| *value /= sum);
    }
    all
}

/// The entities of a sequence of BIO tags as (type, span), in order.
pub fn combine(tags: &[usize], combiner: Combiner) -> Vec<(usize, Span)> {
    let mut entities: Vec<(usize, Span)> = Vec::new();
    let mut open: Option<(usize, usize)> = None; // type and first word
    for (word, tag) in tags.iter().chain([&0]).enumerate() {
        let kind = (*tag > 0).then(|| (*tag - 1) / 2);
        let begins = tag % 2 == 1;
        if let (Some((label, start)), false) = (open, !begins && kind == open.map(|(kind, _)| kind))
        {
            entities.push((label, Span::new(start, word)));
            open = None;
        }
        if let (None, Some(kind)) = (open, kind)
            && (begins || combiner == Combiner::Lenient)
        {
            open = Some((kind, word));
        }
    }
    entities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::seq_ner::tags;
    use crate::text::Labels;
    use proptest::prelude::*;

    #[test]
    fn an_i_tag_without_predecessor_starts_an_entity_or_is_dropped() {
        // I-0 I-0 B-1 I-1 I-0 O I-1
        let tags = [2, 2, 3, 4, 2, 0, 4];
        let spans = |combiner| {
            combine(&tags, combiner)
                .into_iter()
                .map(|(label, span)| (label, span.start, span.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            spans(Combiner::Lenient),
            [(0, 0, 2), (1, 2, 4), (0, 4, 5), (1, 6, 7)]
        );
        assert_eq!(spans(Combiner::Strict), [(1, 2, 4)]);
    }

    proptest! {
        #[test]
        fn tags_of_entities_combine_to_the_same_entities(
            lengths in prop::collection::vec((0usize..4, 1usize..4, 0usize..3), 0..8),
        ) {
            let labels = Labels::new(["A", "B", "C"]);
            let mut entities = Vec::new();
            let mut word = 0;
            for (gap, length, label) in lengths {
                word += gap;
                entities.push(Entity::new(word, word + length, labels.name(label)));
                word += length;
            }
            let tags = tags(&entities, word + 1, &labels);
            let tags: Vec<usize> = tags.into_iter().map(|tag| tag as usize).collect();
            for combiner in [Combiner::Lenient, Combiner::Strict] {
                let found: Vec<Entity> = combine(&tags, combiner)
                    .into_iter()
                    .map(|(label, span)| Entity { span, label: labels.name(label).into() })
                    .collect();
                prop_assert_eq!(&found, &entities);
            }
        }
    }
}
