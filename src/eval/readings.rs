//! Scores of each kind of a model's evidence by itself: BOPN's table 5.

use super::Counts;
use crate::heads::Reading;
use crate::text::{Entity, Sentence};

/// The counts of a reading over the entities that its evidence can reach.
pub fn counts(reading: &Reading, sentences: &[Sentence]) -> Counts {
    sentences
        .iter()
        .zip(&reading.mentions)
        .map(|(sentence, found)| {
            let reachable: Vec<Entity> = (sentence.entities.iter())
                .filter(|entity| reading.reaches(entity.span, sentence.len()))
                .cloned()
                .collect();
            let found: Vec<Entity> = found.iter().map(|mention| mention.entity.clone()).collect();
            Counts::of(&reachable, &found)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Mention;

    #[test]
    fn an_entity_without_room_for_the_evidence_is_not_missed() {
        let mut sentence = Sentence::from_words(["a", "b", "c", "d"]);
        sentence.entities = vec![
            Entity::new(0, 2, "A"), // starts the sentence
            Entity::new(1, 3, "A"),
            Entity::new(3, 4, "B"), // ends it
        ];
        let of = |apart| {
            let mention = Mention {
                entity: Entity::new(1, 3, "A"),
                score: 1.0,
            };
            let reading = Reading {
                name: String::new(),
                apart,
                mentions: vec![vec![mention]],
            };
            counts(&reading, std::slice::from_ref(&sentence))
        };
        assert_eq!(of([0, 0]).gold, 3);
        assert_eq!(of([-1, 0]).gold, 2); // not (0, 2)
        assert_eq!(of([1, 0]).gold, 2); // a single word has no later start
        assert_eq!(of([0, 1]).gold, 2); // not (3, 4)
        assert_eq!(of([0, -2]).gold, 0);
        let one = of([-1, 0]);
        assert_eq!((one.correct, one.predicted), (1, 1));
    }
}
