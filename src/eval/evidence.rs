//! Strict counts of one source of a model's evidence by itself, as in table 5 of BOPN's paper.

use super::Counts;
use crate::heads::Evidence;
use crate::text::{Entity, Sentence, outermost};

/// Counts over the entities for which the evidence can exist; only the outermost ones if its mentions cannot nest.
pub fn counts(evidence: &Evidence, sentences: &[Sentence]) -> Counts {
    sentences
        .iter()
        .zip(&evidence.mentions)
        .map(|(sentence, found)| {
            let mut reachable = if evidence.nested {
                sentence.entities.clone()
            } else {
                outermost(&sentence.entities)
            };
            reachable.retain(|entity| evidence.can_exist_for(entity.span, sentence.len()));
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
        let of = |offset| {
            let mention = Mention {
                entity: Entity::new(1, 3, "A"),
                score: 1.0,
            };
            let evidence = Evidence {
                name: String::new(),
                nested: true,
                offset,
                mentions: vec![vec![mention]],
            };
            counts(&evidence, std::slice::from_ref(&sentence))
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
