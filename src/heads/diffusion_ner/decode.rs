//! From denoised spans to mentions.

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};

use super::config::{AllowedOverlap, Config};
use super::network::DiffusionNer;
use super::sample::{SeededNoise, Trajectory, sample};
use crate::encoder::WordStates;
use crate::heads::{Count, Diagnosis};
use crate::nn::host::{argmax, floats};
use crate::text::{Entity, Mention, Span};

/// A denoised span whose most probable class is a type.
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
    /// Sum of the three probabilities: left, right and type.
    pub sum: f32,
}

/// The mentions of each sentence, and how many of the denoised spans became candidates.
pub fn diagnose(head: &DiffusionNer, states: &WordStates) -> Diagnosis {
    let encoded = head.encode(states);
    let mut noise = SeededNoise::new(head.config.seed, &encoded.lengths);
    let trajectory = sample(head, &encoded, &mut noise);
    let threshold = head.config.threshold as f32;
    let (mut spans, mut typed, mut passed) = (0, 0, 0);
    let mut all = Vec::with_capacity(encoded.lengths.len());
    for (candidates, length) in candidates(&trajectory).into_iter().zip(&encoded.lengths) {
        if *length == 0 {
            all.push(Vec::new());
            continue;
        }
        spans += head.config.spans as u64;
        typed += candidates.len() as u64;
        passed += candidates.iter().filter(|c| c.sum > threshold).count() as u64;
        all.push(mentions(head, choose(&head.config, candidates)));
    }
    let count = |name: &str, count, of| Count {
        name: name.to_string(),
        count,
        of,
    };
    Diagnosis {
        mentions: all,
        evidence: Vec::new(),
        counts: vec![
            count("denoised spans with a type", typed, spans),
            count("typed spans above the threshold", passed, typed),
        ],
    }
}

/// The spans of each sentence whose class is a type and whose boundaries are in order.
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
                .filter_map(|(row, [left, right])| {
                    let types = &row[2..];
                    // The first of equal maxima, so that class none wins a tie.
                    let class = argmax(types);
                    (class > 0 && left <= right).then(|| SpanCandidate {
                        left: *left,
                        right: *right,
                        class,
                        type_probability: types[class],
                        sum: row[0] + row[1] + types[class],
                    })
                })
                .collect()
        })
        .collect()
}

/// Post-processing: one type per span if so set, then the threshold, then removal of disallowed overlaps. The result is
/// in the order of probability.
pub fn choose(config: &Config, mut candidates: Vec<SpanCandidate>) -> Vec<SpanCandidate> {
    if config.one_type {
        candidates = most_probable_types(candidates);
    }
    candidates.retain(|candidate| candidate.sum > config.threshold as f32);
    candidates.sort_by(|one, other| other.sum.total_cmp(&one.sum));
    let mut kept: Vec<SpanCandidate> = Vec::new();
    for candidate in candidates {
        let clashes = |other: &SpanCandidate| match config.output {
            AllowedOverlap::All => false,
            AllowedOverlap::Flat => candidate.left <= other.right && other.left <= candidate.right,
            AllowedOverlap::Nested => crosses(&candidate, other),
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

/// True if two spans overlap and neither contains the other.
fn crosses(one: &SpanCandidate, other: &SpanCandidate) -> bool {
    let (first, second) = if (one.left, other.right) < (other.left, one.right) {
        (one, other)
    } else {
        (other, one)
    };
    first.left < second.left && second.left <= first.right && first.right < second.right
}

/// Candidates as mentions in the order of their spans, each entity once. The score is a third of the sum, so that it is
/// within 0..=1.
fn mentions(head: &DiffusionNer, candidates: Vec<SpanCandidate>) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = candidates
        .into_iter()
        .map(|candidate| Mention {
            entity: Entity {
                span: Span::new(candidate.left, candidate.right + 1),
                label: head.labels.name(candidate.class - 1).to_string(),
            },
            score: candidate.sum / 3.0,
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
            sum,
        }
    }

    #[test]
    fn crossing_is_symmetric_and_strict() {
        let span = |left, right| candidate(left, right, 1, 2.9);
        for (one, other, expected) in [
            ((0, 2), (1, 3), true),
            ((0, 2), (2, 3), true),
            ((0, 2), (3, 4), false),
            ((0, 3), (1, 3), false),
            ((0, 3), (0, 1), false),
            ((1, 2), (1, 2), false),
        ] {
            let (one, other) = (span(one.0, one.1), span(other.0, other.1));
            assert_eq!(crosses(&one, &other), expected, "{one:?} {other:?}");
            assert_eq!(crosses(&other, &one), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_setting_output_removes_overlaps() {
        let found = vec![
            candidate(0, 3, 1, 2.8),
            candidate(1, 2, 2, 2.9),
            candidate(2, 4, 1, 2.7),
            candidate(1, 2, 1, 2.6),
            candidate(5, 5, 1, 2.4),
        ];
        let spans = |config: &Config| -> Vec<(usize, usize, usize)> {
            choose(config, found.clone())
                .iter()
                .map(|c| (c.left, c.right, c.class))
                .collect()
        };
        let paper = Config::of(Preset::Paper);
        assert_eq!(spans(&paper), [(1, 2, 2), (0, 3, 1), (2, 4, 1)]);
        let released = Config::of(Preset::Released);
        assert_eq!(spans(&released), [(1, 2, 2), (0, 3, 1), (1, 2, 1)]);
        let flat = Config {
            output: AllowedOverlap::Flat,
            threshold: 0.0,
            ..released
        };
        assert_eq!(spans(&flat), [(1, 2, 2), (5, 5, 1)]);
    }
}
