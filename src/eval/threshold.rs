//! The score below which mentions are better left out.

use super::Counts;
use crate::text::{Entity, Mention};

/// A threshold and what it scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Mentions below it are left out.
    pub score: f32,
    /// The counts with it.
    pub counts: Counts,
}

/// Scores of every threshold that makes a difference, from the lowest (all mentions) up.
///
/// `unreachable` gold entities, which no span of words equals, count as missed.
pub fn sweep<'a>(
    pairs: impl IntoIterator<Item = (&'a [Entity], &'a [Mention])>,
    unreachable: u64,
) -> Vec<Threshold> {
    let mut gold = unreachable;
    let mut judged: Vec<(f32, bool)> = Vec::new();
    for (entities, mentions) in pairs {
        gold += Counts::of(entities, &[]).gold;
        judged.extend(
            mentions
                .iter()
                .map(|mention| (mention.score, entities.contains(&mention.entity))),
        );
    }
    judged.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut counts = Counts {
        correct: judged.iter().filter(|(_, correct)| *correct).count() as u64,
        predicted: judged.len() as u64,
        gold,
    };
    let mut thresholds = vec![Threshold { score: 0.0, counts }];
    let mut index = 0;
    while index < judged.len() {
        let score = judged[index].0;
        while index < judged.len() && judged[index].0 == score {
            counts.predicted -= 1;
            counts.correct -= u64::from(judged[index].1);
            index += 1;
        }
        if let Some((next, _)) = judged.get(index) {
            thresholds.push(Threshold {
                score: *next,
                counts,
            });
        }
    }
    thresholds
}

/// The threshold with the best F1; of equals the lowest.
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
    fn the_best_threshold_is_found() {
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
        // All: 2 of 5 right; from 0.6: 2 of 3; from 0.7: 1 of 2; from 0.9: 1 of 1. Of 3 gold.
        let best = best(&all).unwrap();
        assert_eq!(best.score, 0.6);
        assert!((best.counts.f1() - 2.0 / 3.0).abs() < 1e-12);
    }
}
