//! Proposals that compete for the same words.

use std::collections::HashMap;

use super::config::{Config, Crossing, Duplicates, SoftNms};
use super::seeds::iou;
use crate::text::Span;

/// A classified proposal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// 1 + the type's number.
    pub class: usize,
    /// Which words.
    pub span: Span,
    /// How sure the classifier is.
    pub score: f64,
}

/// The proposals of a sentence, given in the order of their seeds, that are mentions: in order of their scores.
pub fn suppress(config: &Config, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut all = match config.duplicates {
        Duplicates::Merge => merge(candidates),
        Duplicates::Multiply => multiply(candidates),
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
    all.retain(|candidate| candidate.score > config.threshold);
    all
}

/// The higher score first; equal ones stay in order when the sort is stable.
fn by_score(one: &Candidate, other: &Candidate) -> std::cmp::Ordering {
    other.score.total_cmp(&one.score)
}

/// Each span and type once, with the best score.
fn merge(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut places: HashMap<(Span, usize), usize> = HashMap::new();
    let mut all: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let place = *places
            .entry((candidate.span, candidate.class))
            .or_insert(all.len());
        match all.get_mut(place) {
            Some(known) => known.score = known.score.max(candidate.score),
            None => all.push(candidate),
        }
    }
    all
}

/// Each span once, with the type and score of the first; every other of this type adds that score again.
fn multiply(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut places: HashMap<Span, usize> = HashMap::new();
    let mut all: Vec<Candidate> = Vec::new();
    let mut first_scores = Vec::new();
    for candidate in candidates {
        let place = *places.entry(candidate.span).or_insert(all.len());
        match all.get_mut(place) {
            Some(known) if known.class == candidate.class => known.score += first_scores[place],
            Some(_) => {}
            None => {
                first_scores.push(candidate.score);
                all.push(candidate);
            }
        }
    }
    all
}

/// Those that cross no other.
fn without_crossing(all: Vec<Candidate>) -> Vec<Candidate> {
    let crosses = |one: &Span, other: &Span| {
        one.overlaps(other) && !one.contains(other) && !other.contains(one)
    };
    all.iter()
        .filter(|one| !all.iter().any(|other| crosses(&one.span, &other.span)))
        .copied()
        .collect()
}

/// Algorithm 1: the best of those not yet visited lowers the scores of the others it overlaps, equation (18).
fn decay_in_order(config: &Config, all: &mut [Candidate]) {
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

/// The authors' list: a lowered candidate goes before the first later one whose score is below its *old* score, or to
/// the end. So it mostly stays where it is; when it moves, what slides into its place is not looked at in this round.
fn decay_in_place(config: &Config, all: &mut Vec<Candidate>) {
    let count = all.len();
    for index in 0..count {
        for place in index + 1..count {
            if iou(all[index].span, all[place].span) <= config.suppression_iou {
                continue;
            }
            let old = all[place];
            let lowered = Candidate {
                score: old.score * config.decay,
                ..old
            };
            let later = (place + 1..count).find(|later| all[*later].score < old.score);
            all.insert(later.unwrap_or(count), lowered);
            all.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};

    fn candidate(class: usize, start: usize, end: usize, score: f64) -> Candidate {
        Candidate {
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
                candidate(1, 0, 4, 0.7),
                candidate(1, 0, 5, 0.9),
                candidate(2, 7, 8, 0.5),
                candidate(1, 0, 4, 0.8),  // again, and better
                candidate(2, 0, 5, 0.31), // another type on the best span
                candidate(3, 4, 6, 0.6),  // crosses, but shares little
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
            vec![candidate(1, 0, 4, 0.7), candidate(1, 0, 5, 0.9)],
        );
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn the_released_rules_drop_both_that_cross() {
        let config = Config::of(Preset::Released);
        let found = suppress(
            &config,
            vec![
                candidate(1, 0, 3, 0.9),
                candidate(1, 2, 5, 0.8),
                candidate(2, 6, 7, 0.4),
                candidate(2, 6, 7, 0.9),
                candidate(1, 6, 7, 0.9),
            ],
        );
        assert_eq!(found, [candidate(2, 6, 7, 0.8)]);
    }
}
