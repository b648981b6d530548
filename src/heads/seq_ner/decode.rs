//! From tag scores to mentions.

use burn::tensor::activation::softmax;

use super::config::Combiner;
use super::network::SeqNer;
use crate::encoder::WordStates;
use crate::nn::host;
use crate::text::{Entity, Mention, Span};

/// The mentions of each sentence. A mention's score is the lowest probability among its tags.
pub fn decode(head: &SeqNer, states: &WordStates) -> Vec<Vec<Mention>> {
    let emissions = head.emissions(states);
    let [_, words, tag_count] = emissions.dims();
    let (chosen, probabilities) = match &head.crf {
        None => {
            let probabilities = host::floats(softmax(emissions, 2));
            (
                host::argmax_words(&probabilities, words, tag_count, &states.lengths),
                probabilities,
            )
        }
        Some(crf) => (
            crf.viterbi(emissions.clone(), &states.lengths),
            host::floats(crf.marginals(emissions, &states.lengths)),
        ),
    };
    chosen
        .iter()
        .enumerate()
        .map(|(sentence, tags)| {
            let probability = |word: usize| {
                probabilities[(sentence * words + word) * tag_count + tags[word] as usize]
            };
            combine(tags, head.combiner)
                .into_iter()
                .map(|(label, span)| Mention {
                    entity: Entity {
                        span,
                        label: head.labels.name(label).to_string(),
                    },
                    score: (span.start..span.end).map(probability).fold(1.0, f32::min),
                })
                .collect()
        })
        .collect()
}

/// The entities of a sequence of BIO tags as (type, span), in order.
pub fn combine(tags: &[i32], combiner: Combiner) -> Vec<(usize, Span)> {
    let mut entities: Vec<(usize, Span)> = Vec::new();
    let mut open: Option<(usize, usize)> = None; // type and first word
    for (word, tag) in tags.iter().chain([&0]).enumerate() {
        let kind = (*tag > 0).then(|| (*tag as usize - 1) / 2);
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
