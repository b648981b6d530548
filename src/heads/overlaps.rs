//! Which mentions of a sentence may overlap: declared by a setting, or taken from the training data.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Entity, Mention, Sentence, Span, outermost};

/// Share of overlapping entities up to which a corpus counts as free of them: a few annotation errors in thousands of
/// entities are not a reason to predict overlaps.
const TOLERATED: f64 = 0.005;

/// Which mentions of a sentence may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Overlaps {
    /// As in the training data.
    Auto,
    /// None: of overlapping mentions only the one with the highest score is kept.
    Flat,
    /// A mention may contain others, but mentions that cross a better one are dropped.
    Nested,
    /// All mentions are kept.
    Any,
}

impl Overlaps {
    /// What occurs in a corpus: `Flat`, `Nested` or `Any`. Overlaps of fewer than 1 in 200 entities do not count.
    pub fn of_corpus(sentences: &[Sentence]) -> Self {
        let (mut entities, mut overlapping, mut crossing) = (0, 0, 0);
        for sentence in sentences {
            let mut list: Vec<&Entity> = sentence.entities.iter().collect();
            list.sort();
            list.dedup();
            entities += list.len();
            for (index, entity) in list.iter().enumerate() {
                let others = (list.iter().enumerate())
                    .filter(|(other, _)| *other != index)
                    .map(|(_, other)| other.span);
                overlapping +=
                    usize::from(others.clone().any(|other| other.overlaps(&entity.span)));
                crossing += usize::from(others.clone().any(|other| crosses(entity.span, other)));
            }
        }
        let most = (TOLERATED * entities as f64) as usize;
        if overlapping <= most {
            Self::Flat
        } else if crossing <= most {
            Self::Nested
        } else {
            Self::Any
        }
    }

    /// The value itself, or `found` in place of `Auto`.
    pub fn or(self, found: Self) -> Self {
        if self == Self::Auto { found } else { self }
    }

    /// The entities to learn: the outermost ones when mentions may not overlap, otherwise all.
    pub fn entities(self, sentence: &Sentence) -> Cow<'_, [Entity]> {
        if self == Self::Flat {
            Cow::Owned(outermost(&sentence.entities))
        } else {
            Cow::Borrowed(&sentence.entities)
        }
    }

    /// Keeps the mentions that may stand together, the ones with the highest scores first; of equal scores, the first in
    /// the list. The result is in the order of spans and types.
    pub fn keep_best(self, mut mentions: Vec<Mention>) -> Vec<Mention> {
        let clash: fn(Span, Span) -> bool = match self {
            Self::Flat => |one, other| one.overlaps(&other),
            Self::Nested => crosses,
            Self::Auto | Self::Any => |_, _| false,
        };
        mentions.sort_by(|one, other| other.score.total_cmp(&one.score));
        let mut kept: Vec<Mention> = Vec::with_capacity(mentions.len());
        for mention in mentions {
            let span = mention.entity.span;
            if !(kept.iter()).any(|other| clash(span, other.entity.span)) {
                kept.push(mention);
            }
        }
        kept.sort_by(|one, other| one.entity.cmp(&other.entity));
        kept
    }
}

/// True when the spans overlap and neither contains the other.
pub(super) fn crosses(one: Span, other: Span) -> bool {
    one.overlaps(&other) && !one.contains(&other) && !other.contains(&one)
}

/// For each span the mention with the highest score; of equal scores, the first in the list.
pub fn one_type_per_span(mut mentions: Vec<Mention>) -> Vec<Mention> {
    // The sort is stable.
    mentions.sort_by(|one, other| {
        let by_span = one.entity.span.cmp(&other.entity.span);
        by_span.then(other.score.total_cmp(&one.score))
    });
    mentions.dedup_by_key(|mention| mention.entity.span);
    mentions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(entities: &[(usize, usize, &str)]) -> Sentence {
        let mut sentence = Sentence::from_words((0..9).map(|word| word.to_string()));
        let entity = |(start, end, label): &(usize, usize, &str)| Entity::new(*start, *end, *label);
        sentence.entities = entities.iter().map(entity).collect();
        sentence
    }

    #[test]
    fn a_corpus_is_flat_nested_or_neither() {
        let flat = sentence(&[(0, 2, "X"), (2, 4, "X"), (2, 4, "X")]);
        let nested = sentence(&[(0, 4, "X"), (1, 2, "Y")]);
        let crossing = sentence(&[(0, 3, "X"), (2, 5, "Y")]);
        let twice = sentence(&[(0, 3, "X"), (0, 3, "Y")]);
        assert_eq!(Overlaps::of_corpus(&[]), Overlaps::Flat);
        assert_eq!(
            Overlaps::of_corpus(std::slice::from_ref(&flat)),
            Overlaps::Flat
        );
        assert_eq!(
            Overlaps::of_corpus(&[flat.clone(), nested]),
            Overlaps::Nested
        );
        assert_eq!(
            Overlaps::of_corpus(&[flat.clone(), crossing]),
            Overlaps::Any
        );
        let mut many = vec![flat; 200];
        many.push(twice.clone());
        assert_eq!(
            Overlaps::of_corpus(&many),
            Overlaps::Flat,
            "2 of 402 entities"
        );
        many.truncate(20);
        many.push(twice);
        assert_eq!(Overlaps::of_corpus(&many), Overlaps::Nested);
    }

    #[test]
    fn better_mentions_displace_what_may_not_stand_beside_them() {
        let mention = |start, end, label: &str, score| Mention {
            entity: Entity::new(start, end, label),
            score,
        };
        let all = vec![
            mention(0, 2, "X", 0.6),
            mention(1, 3, "X", 0.9),
            mention(1, 3, "Y", 0.8),
            mention(2, 3, "X", 0.7),
            mention(3, 4, "X", 0.2),
        ];
        let spans = |overlaps: Overlaps| -> Vec<(usize, usize, String)> {
            (overlaps.keep_best(all.clone()).into_iter())
                .map(|m| (m.entity.span.start, m.entity.span.end, m.entity.label))
                .collect()
        };
        let x = |start, end| (start, end, "X".to_string());
        assert_eq!(spans(Overlaps::Flat), [x(1, 3), x(3, 4)]);
        let nested = [x(1, 3), (1, 3, "Y".to_string()), x(2, 3), x(3, 4)];
        assert_eq!(spans(Overlaps::Nested), nested);
        let once = one_type_per_span(all.clone());
        assert_eq!(once.len(), 4);
        assert!(once.iter().all(|mention| mention.entity.label == "X"));
        assert_eq!(spans(Overlaps::Any).len(), 5);
        assert_eq!(spans(Overlaps::Auto).len(), 5);
    }

    #[test]
    fn a_flat_head_learns_the_outermost_entities() {
        let nested = sentence(&[(0, 4, "X"), (1, 2, "Y")]);
        assert_eq!(Overlaps::Flat.entities(&nested).len(), 1);
        assert_eq!(Overlaps::Nested.entities(&nested).len(), 2);
    }
}
