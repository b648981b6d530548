//! The score threshold with the best F1: mentions with a lower score are dropped.

use super::Counts;
use crate::text::{Entity, Mention};

/// A score threshold with the counts it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Mentions with a lower score are dropped.
    pub score: f32,
    /// Counts of the remaining mentions.
    pub counts: Counts,
}

/// Counts at every threshold that changes them, in ascending order. The first keeps all mentions.
///
/// `unreachable` is the number of gold entities that no span of words equals; they count as missed.
pub fn sweep<'a>(
    pairs: impl IntoIterator<Item = (&'a [Entity], &'a [Mention])>,
    unreachable: u64,
) -> Vec<Threshold> {
    let mut gold = unreachable;
    let mut scored: Vec<(f32, bool)> = Vec::new(); // score, and whether the mention is correct
    for (entities, mentions) in pairs {
        gold += Counts::of(entities, &[]).gold;
        scored.extend(
            mentions
                .iter()
                .map(|mention| (mention.score, entities.contains(&mention.entity))),
        );
    }
    scored.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut counts = Counts {
        correct: scored.iter().filter(|(_, correct)| *correct).count() as u64,
        predicted: scored.len() as u64,
        gold,
    };
    let mut thresholds = vec![Threshold { score: 0.0, counts }];
    let mut index = 0;
    while index < scored.len() {
        let score = scored[index].0;
        while index < scored.len() && scored[index].0 == score {
            counts.predicted -= 1;
            counts.correct -= u64::from(scored[index].1);
            index += 1;
        }
        if let Some((next, _)) = scored.get(index) {
            thresholds.push(Threshold {
                score: *next,
                counts,
            });
        }
    }
    thresholds
}

/// The threshold with the highest F1; on a tie the lowest threshold.
pub fn best(thresholds: &[Threshold]) -> Option<Threshold> {
    thresholds.iter().copied().reduce(|best, next| {
        if next.counts.f1() > best.counts.f1() {
            next
        } else {
            best
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_threshold_has_the_highest_f1() {
        let mention = |start, score| Mention {
            entity: Entity::new(start, start + 1, "X"),
            score,
        };
        let gold = [
            Entity::new(0, 1, "X"),
            Entity::new(1, 2, "X"),
            Entity::new(9, 10, "X"),
        ];
        let found = [
            mention(0, 0.9),
            mention(1, 0.6),
            mention(2, 0.5),
            mention(3, 0.5),
            mention(4, 0.7),
        ];
        let all = sweep([(&gold[..], &found[..])], 0);
        let scores: Vec<f32> = all.iter().map(|threshold| threshold.score).collect();
        assert_eq!(scores, [0.0, 0.6, 0.7, 0.9]);
        // All: 2 of 5 correct; from 0.6: 2 of 3; from 0.7: 1 of 2; from 0.9: 1 of 1. Of 3 gold.
        let best = best(&all).unwrap();
        assert_eq!(best.score, 0.6);
        assert!((best.counts.f1() - 2.0 / 3.0).abs() < 1e-12);
    }
}
