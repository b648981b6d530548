//! From denoised spans to mentions.

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};

use super::config::Config;
use super::network::DiffusionNer;
use super::sample::{SeededNoise, Trajectory, sample};
use crate::encoder::WordStates;
use crate::heads::overlaps::crosses;
use crate::heads::{Count, Diagnosis, Overlaps, none_bias};
use crate::nn::host::{argmax, floats};
use crate::text::{Entity, Mention, Span};

/// A denoised span with its most probable type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanCandidate {
    /// First word.
    pub left: usize,
    /// Last word.
    pub right: usize,
    /// 1 + the index of its type.
    pub class: usize,
    /// Probability of the type.
    pub type_probability: f32,
    /// Probability of the class none.
    pub none_probability: f32,
    /// Sum of the probabilities of the two boundaries.
    pub boundaries: f32,
}

impl SpanCandidate {
    /// Sum of the three probabilities: left, right and type.
    pub fn sum(&self) -> f32 {
        self.boundaries + self.type_probability
    }

    fn span(&self) -> Span {
        Span::new(self.left, self.right + 1)
    }
}

/// The denoised spans of each sentence.
pub fn denoised(head: &DiffusionNer, states: &WordStates) -> Vec<Vec<SpanCandidate>> {
    let encoded = head.encode(states);
    let mut noise = SeededNoise::new(head.config.seed, &encoded.lengths);
    let trajectory = sample(head, &encoded, &mut noise);
    let mut all = candidates(&trajectory);
    for (spans, length) in all.iter_mut().zip(&encoded.lengths) {
        spans.retain(|span| span.right < *length);
    }
    if let Some(rescorer) = &head.rescorer {
        rescorer.rescore(states, &mut all);
    }
    all
}

/// The mentions of each sentence, and how many of the denoised spans became candidates.
pub fn diagnose(head: &DiffusionNer, all: &[Vec<SpanCandidate>]) -> Diagnosis {
    let config = &head.config;
    let (mut typed, mut passed) = (0, 0);
    for candidates in all {
        let candidates = with_type(config, candidates);
        typed += candidates.len() as u64;
        passed += (candidates.iter())
            .filter(|candidate| candidate.sum() > config.threshold as f32)
            .count() as u64;
    }
    let sentences = all.iter().filter(|spans| !spans.is_empty()).count();
    let count = |name: &str, count, of| Count {
        name: name.to_string(),
        count,
        of,
    };
    Diagnosis {
        mentions: (all.iter())
            .map(|candidates| mentions(head, config, candidates))
            .collect(),
        evidence: Vec::new(),
        counts: vec![
            count(
                "denoised spans with a type",
                typed,
                (sentences * config.spans) as u64,
            ),
            count("typed spans above the threshold", passed, typed),
        ],
    }
}

/// The spans of each sentence whose boundaries are in order, each with its most probable type.
pub fn candidates(trajectory: &Trajectory) -> Vec<Vec<SpanCandidate>> {
    let last = &trajectory.last;
    let [_, spans, classes] = last.types.dims();
    let best = |scores: &Tensor<3>| sigmoid(scores.clone().max_dim(2));
    let probabilities = floats(Tensor::cat(
        vec![
            best(&last.left),
            best(&last.right),
            softmax(last.types.clone(), 2),
        ],
        2,
    ));
    probabilities
        .chunks_exact(spans * (2 + classes))
        .zip(&trajectory.words)
        .map(|(rows, words)| {
            rows.chunks_exact(2 + classes)
                .zip(words)
                .filter(|(_, [left, right])| left <= right)
                .map(|(row, [left, right])| {
                    let class = 1 + argmax(&row[3..]);
                    SpanCandidate {
                        left: *left,
                        right: *right,
                        class,
                        type_probability: row[2 + class],
                        none_probability: row[2],
                        boundaries: row[0] + row[1],
                    }
                })
                .collect()
        })
        .collect()
}

/// The candidates whose type is more probable than none, with the probability it has after the bias.
fn with_type(config: &Config, candidates: &[SpanCandidate]) -> Vec<SpanCandidate> {
    let typed = |candidate: &SpanCandidate| {
        let (of_type, of_none) = (candidate.type_probability, candidate.none_probability);
        let type_probability = none_bias::biased(of_type, of_none, config.none_bias)?;
        Some(SpanCandidate {
            type_probability,
            ..*candidate
        })
    };
    candidates.iter().filter_map(typed).collect()
}

/// Post-processing: the class none, one type per span if so set, then the threshold, then removal of disallowed overlaps.
/// The result is in the order of probability.
pub fn choose(config: &Config, candidates: &[SpanCandidate]) -> Vec<SpanCandidate> {
    let mut candidates = with_type(config, candidates);
    if config.one_type {
        candidates = most_probable_types(candidates);
    }
    candidates.retain(|candidate| candidate.sum() > config.threshold as f32);
    candidates.sort_by(|one, other| other.sum().total_cmp(&one.sum()));
    let mut kept: Vec<SpanCandidate> = Vec::new();
    for candidate in candidates {
        let clashes = |other: &SpanCandidate| match config.overlaps {
            Overlaps::Auto | Overlaps::Any => false,
            Overlaps::Flat => candidate.span().overlaps(&other.span()),
            Overlaps::Nested => crosses(candidate.span(), other.span()),
        };
        if !kept.iter().any(clashes) {
            kept.push(candidate);
        }
    }
    kept
}

/// For each pair of boundaries, the candidate with the most probable type; of equally probable ones, the first.
fn most_probable_types(candidates: Vec<SpanCandidate>) -> Vec<SpanCandidate> {
    let mut kept: Vec<SpanCandidate> = Vec::new();
    for candidate in candidates {
        let same = |other: &&mut SpanCandidate| {
            (other.left, other.right) == (candidate.left, candidate.right)
        };
        match kept.iter_mut().find(same) {
            Some(other) if candidate.type_probability > other.type_probability => {
                *other = candidate;
            }
            Some(_) => {}
            None => kept.push(candidate),
        }
    }
    kept
}

/// The mentions of a sentence in the order of their spans, each entity once. The score is a third of the sum, so that it is
/// within 0..=1.
pub fn mentions(
    head: &DiffusionNer,
    config: &Config,
    candidates: &[SpanCandidate],
) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = choose(config, candidates)
        .into_iter()
        .map(|candidate| Mention {
            entity: Entity {
                span: Span::new(candidate.left, candidate.right + 1),
                label: head.labels.name(candidate.class - 1).to_string(),
            },
            score: candidate.sum() / 3.0,
        })
        .collect();
    // The sort is stable: of equal entities, the most probable stays first.
    mentions.sort_by(|one, other| one.entity.cmp(&other.entity));
    mentions.dedup_by(|next, kept| next.entity == kept.entity);
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};

    fn candidate(left: usize, right: usize, class: usize, sum: f32) -> SpanCandidate {
        SpanCandidate {
            left,
            right,
            class,
            type_probability: sum - 2.0,
            none_probability: 0.0,
            boundaries: 2.0,
        }
    }

    #[test]
    fn overlaps_are_removed_as_set() {
        let found = vec![
            candidate(0, 3, 1, 2.8),
            candidate(1, 2, 2, 2.9),
            candidate(2, 4, 1, 2.7),
            candidate(1, 2, 1, 2.6),
            candidate(5, 5, 1, 2.4),
        ];
        let spans = |config: &Config| -> Vec<(usize, usize, usize)> {
            choose(config, &found)
                .iter()
                .map(|c| (c.left, c.right, c.class))
                .collect()
        };
        let paper = Config::of(Preset::Paper);
        assert_eq!(spans(&paper), [(1, 2, 2), (0, 3, 1), (2, 4, 1)]);
        let released = Config::of(Preset::Released);
        assert_eq!(spans(&released), [(1, 2, 2), (0, 3, 1), (1, 2, 1)]);
        let flat = Config {
            overlaps: Overlaps::Flat,
            threshold: 0.0,
            ..released
        };
        assert_eq!(spans(&flat), [(1, 2, 2), (5, 5, 1)]);
    }
}
