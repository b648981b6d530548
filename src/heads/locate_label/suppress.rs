//! Suppression of overlapping proposals.

use std::collections::HashMap;

use super::config::{Config, Crossing, Duplicates, SoftNms};
use super::seeds::iou;
use crate::heads::overlaps::crosses;
use crate::text::Span;

/// A classified proposal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proposal {
    /// 1 + the index of its type.
    pub class: usize,
    /// Its words.
    pub span: Span,
    /// The probability of the class, before or after suppression.
    pub score: f64,
}

/// The proposals of a sentence that are mentions, in the order of their scores. They are given in the order of their
/// seeds.
pub fn suppress(config: &Config, proposals: Vec<Proposal>) -> Vec<Proposal> {
    let mut all = match config.duplicates {
        Duplicates::Merge => merge(proposals),
        Duplicates::Multiply => multiply(proposals),
    };
    all.sort_by(by_score);
    if config.crossing == Crossing::Drop {
        all = without_crossing(all);
    }
    match config.soft_nms {
        SoftNms::Paper => decay_in_order(config, &mut all),
        SoftNms::Released => decay_in_place(config, &mut all),
        SoftNms::Off => {}
    }
    all.retain(|proposal| proposal.score > config.threshold);
    all
}

/// Higher scores first; with a stable sort equal ones stay in order.
fn by_score(one: &Proposal, other: &Proposal) -> std::cmp::Ordering {
    other.score.total_cmp(&one.score)
}

/// Each span and type once, with the best score.
fn merge(proposals: Vec<Proposal>) -> Vec<Proposal> {
    let mut indices: HashMap<(Span, usize), usize> = HashMap::new();
    let mut all: Vec<Proposal> = Vec::new();
    for proposal in proposals {
        let index = *indices
            .entry((proposal.span, proposal.class))
            .or_insert(all.len());
        match all.get_mut(index) {
            Some(known) => known.score = known.score.max(proposal.score),
            None => all.push(proposal),
        }
    }
    all
}

/// Each span once, with the type and score of the first proposal; every other one of this type adds that score again.
fn multiply(proposals: Vec<Proposal>) -> Vec<Proposal> {
    let mut indices: HashMap<Span, usize> = HashMap::new();
    let mut all: Vec<Proposal> = Vec::new();
    let mut first_scores = Vec::new();
    for proposal in proposals {
        let index = *indices.entry(proposal.span).or_insert(all.len());
        match all.get_mut(index) {
            Some(known) if known.class == proposal.class => known.score += first_scores[index],
            Some(_) => {}
            None => {
                first_scores.push(proposal.score);
                all.push(proposal);
            }
        }
    }
    all
}

/// The proposals that cross no other.
fn without_crossing(all: Vec<Proposal>) -> Vec<Proposal> {
    all.iter()
        .filter(|one| !all.iter().any(|other| crosses(one.span, other.span)))
        .copied()
        .collect()
}

/// Algorithm 1: the best proposal not yet visited lowers the scores of the others it overlaps, equation (18).
fn decay_in_order(config: &Config, all: &mut [Proposal]) {
    for index in 0..all.len() {
        let (visited, rest) = all.split_at_mut(index + 1);
        let mut changed = false;
        for other in &mut *rest {
            if iou(visited[index].span, other.span) >= config.suppression_iou {
                other.score *= config.decay;
                changed = true;
            }
        }
        if changed {
            rest.sort_by(by_score);
        }
    }
}

/// The authors' algorithm: a proposal with a lowered score is moved before the first later one whose score is below its
/// *old* score, or to the end. So it mostly stays at its index; if it moves, the proposal that takes its index is skipped
/// in this round.
fn decay_in_place(config: &Config, all: &mut Vec<Proposal>) {
    let count = all.len();
    for index in 0..count {
        for other in index + 1..count {
            if iou(all[index].span, all[other].span) <= config.suppression_iou {
                continue;
            }
            let old = all[other];
            let lowered = Proposal {
                score: old.score * config.decay,
                ..old
            };
            let later = (other + 1..count).find(|later| all[*later].score < old.score);
            all.insert(later.unwrap_or(count), lowered);
            all.remove(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};

    fn proposal(class: usize, start: usize, end: usize, score: f64) -> Proposal {
        Proposal {
            class,
            span: Span::new(start, end),
            score,
        }
    }

    #[test]
    fn the_best_lowers_what_it_overlaps_and_the_rest_is_sorted_anew() {
        let config = Config {
            suppression_iou: 0.6,
            decay: 0.5,
            threshold: 0.3,
            ..Config::of(Preset::Paper)
        };
        let found = suppress(
            &config,
            vec![
                proposal(1, 0, 4, 0.7),
                proposal(1, 0, 5, 0.9),
                proposal(2, 7, 8, 0.5),
                proposal(1, 0, 4, 0.8),  // again, and better
                proposal(2, 0, 5, 0.31), // another type on the best span
                proposal(3, 4, 6, 0.6),  // crosses, but shares little
            ],
        );
        let spans: Vec<(usize, usize, f64)> = found
            .iter()
            .map(|c| (c.span.start, c.span.end, c.score))
            .collect();
        assert_eq!(spans, [(0, 5, 0.9), (4, 6, 0.6), (7, 8, 0.5), (0, 4, 0.4)]);
        let all = suppress(
            &Config {
                soft_nms: SoftNms::Off,
                ..config
            },
            vec![proposal(1, 0, 4, 0.7), proposal(1, 0, 5, 0.9)],
        );
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_released_rules_drop_both_that_cross() {
        let config = Config::of(Preset::Released);
        let found = suppress(
            &config,
            vec![
                proposal(1, 0, 3, 0.9),
                proposal(1, 2, 5, 0.8),
                proposal(2, 6, 7, 0.4),
                proposal(2, 6, 7, 0.9),
                proposal(1, 6, 7, 0.9),
            ],
        );
        assert_eq!(found, [proposal(2, 6, 7, 0.8)]);
    }
}
