//! From tag scores to mentions.

use std::sync::Arc;

use super::config::{Combiner, Config};
use super::network::SeqNer;
use super::tag_set::{TagMark, TagSet};
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

impl TagScores {
    /// The scores of all tags of each word with the bias of O added: [words, tags].
    fn biased(&self, config: &Config) -> Vec<f32> {
        let mut emissions = self.emissions.clone();
        if config.none_bias != 0.0 {
            for row in emissions.chunks_exact_mut(self.tags) {
                row[0] += config.none_bias as f32;
            }
        }
        emissions
    }

    /// The tag that is chosen from these scores for each word.
    fn choose(&self, emissions: &[f32]) -> Vec<usize> {
        match &self.crf {
            None => emissions
                .chunks_exact(self.tags)
                .map(host::argmax)
                .collect(),
            Some(crf) => crf.viterbi(emissions),
        }
    }

    /// The number of the tag of each word.
    pub fn chosen(&self, config: &Config) -> Vec<usize> {
        self.choose(&self.biased(config))
    }
}

/// The mentions of a sentence. A mention's score is the lowest probability among its tags; one that overflowed counts as 0.
pub fn mentions(head: &SeqNer, config: &Config, scores: &TagScores) -> Vec<Mention> {
    let emissions = scores.biased(config);
    let chosen = scores.choose(&emissions);
    let probabilities = match &scores.crf {
        None => softmax(&emissions, scores.tags),
        Some(crf) => crf.marginals(&emissions),
    };
    let probability = |word: usize| {
        let value = probabilities[word * scores.tags + chosen[word]];
        if value.is_nan() { 0.0 } else { value }
    };
    combine(&chosen, config.tags, config.combiner)
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

/// The entities of a sequence of tags as (type, span), in order. With the combiner `strict`, only complete entities count;
/// with `lenient`, a tag that continues no entity starts one, and an entity ends where its tags end.
pub fn combine(tags: &[usize], set: TagSet, combiner: Combiner) -> Vec<(usize, Span)> {
    let is_lenient = combiner == Combiner::Lenient;
    let mut entities: Vec<(usize, Span)> = Vec::new();
    let mut open: Option<(usize, usize)> = None; // type and first word
    for (word, tag) in tags.iter().chain([&0]).enumerate() {
        let read = set.read(*tag);
        let continues = |label: usize| {
            read.is_some_and(|(kind, mark)| {
                kind == label && matches!(mark, TagMark::Inside | TagMark::End)
            })
        };
        if let Some((label, start)) = open.filter(|(label, _)| !continues(*label)) {
            // With BIOES, an entity without its last word is not complete.
            if is_lenient || set == TagSet::Bio {
                entities.push((label, Span::new(start, word)));
            }
            open = None;
        }
        let Some((kind, mark)) = read else { continue };
        let begins = matches!(mark, TagMark::Begin | TagMark::Single);
        if open.is_none() && (begins || is_lenient) {
            open = Some((kind, word));
        }
        if matches!(mark, TagMark::End | TagMark::Single)
            && let Some((label, start)) = open.take()
        {
            entities.push((label, Span::new(start, word + 1)));
        }
    }
    entities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::Head;
    use crate::heads::seq_ner::tags;
    use crate::heads::settings::{Preset, Settings};
    use crate::text::Labels;
    use proptest::prelude::*;

    #[test]
    fn an_i_tag_without_predecessor_starts_an_entity_or_is_dropped() {
        // I-0 I-0 B-1 I-1 I-0 O I-1
        let tags = [2, 2, 3, 4, 2, 0, 4];
        let spans = |combiner| {
            combine(&tags, TagSet::Bio, combiner)
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

    #[test]
    fn scores_that_overflow_are_not_certain() {
        let (labels, config) = (Labels::new(["A"]), Config::of(Preset::Paper));
        let head = SeqNer::init(&config, 4, &labels, &crate::device::cpu());
        for emissions in [
            vec![0.0, f32::INFINITY, 0.0],
            vec![f32::NEG_INFINITY, f32::INFINITY, f32::NAN],
        ] {
            let scores = TagScores {
                emissions,
                tags: 3,
                crf: None,
            };
            let found = mentions(&head, &config, &scores);
            assert_eq!((found.len(), found[0].score), (1, 0.0));
        }
    }

    #[test]
    fn incomplete_entities_of_bioes_tags_are_read_as_by_the_usual_scorers() {
        let [b, i, e, s] = [1, 2, 3, 4];
        let other_i = 6;
        for (tags, lenient, strict) in [
            (vec![b, i, e], vec![(0, 0, 3)], vec![(0, 0, 3)]),
            (
                vec![s, s, b, e],
                vec![(0, 0, 1), (0, 1, 2), (0, 2, 4)],
                vec![(0, 0, 1), (0, 1, 2), (0, 2, 4)],
            ),
            // Without a last word.
            (
                vec![b, i, 0, b, b, e],
                vec![(0, 0, 2), (0, 3, 4), (0, 4, 6)],
                vec![(0, 4, 6)],
            ),
            // After a last or single word, the next tag starts an entity.
            (
                vec![e, i, s, e],
                vec![(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 4)],
                vec![(0, 2, 3)],
            ),
            // Another type.
            (
                vec![b, other_i, e],
                vec![(0, 0, 1), (1, 1, 2), (0, 2, 3)],
                vec![],
            ),
        ] {
            let found = |combiner| {
                let all = combine(&tags, TagSet::Bioes, combiner).into_iter();
                all.map(|(label, span)| (label, span.start, span.end))
                    .collect::<Vec<_>>()
            };
            assert_eq!(found(Combiner::Lenient), lenient, "{tags:?}");
            assert_eq!(found(Combiner::Strict), strict, "{tags:?}");
        }
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
            for (set, combiner) in [
                (TagSet::Bio, Combiner::Lenient),
                (TagSet::Bio, Combiner::Strict),
                (TagSet::Bioes, Combiner::Lenient),
                (TagSet::Bioes, Combiner::Strict),
            ] {
                let tags = tags(&entities, word + 1, set, &labels);
                let tags: Vec<usize> = tags.into_iter().map(|tag| tag as usize).collect();
                let found: Vec<Entity> = combine(&tags, set, combiner)
                    .into_iter()
                    .map(|(label, span)| Entity { span, label: labels.name(label).into() })
                    .collect();
                prop_assert_eq!(&found, &entities);
            }
        }
    }
}
