//! Evaluation of predicted entities against gold: strict scores, thresholds and calibration of scores, and the comparison of
//! models.
//!
//! Strict means that a predicted entity is correct only when both its span and its type equal those of a gold entity.
//! Scores are micro-averaged: entities are counted over the whole corpus before dividing.

pub mod analysis;
pub mod calibration;
mod counts;
pub mod evidence;
pub mod predictions;
pub mod reliability;
mod report;
pub mod threshold;

pub use counts::{Counts, GroupCounts};
pub use report::{LENGTHS, Report};

use std::collections::BTreeMap;

use self::reliability::{ScoredMention, scored_mentions};
use crate::error::Result;
use crate::model::tagger::Tagger;
use crate::text::{Labels, Mention, Sentence};

/// Tags the sentences and scores the mentions against the sentences' gold entities.
///
/// Misaligned and discontinuous gold entities, which no span of words can equal, count as missed.
///
/// ```no_run
/// use std::path::Path;
///
/// use nerzoo::data::{self, ReadOptions};
/// use nerzoo::eval::evaluate;
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let tagger = nerzoo::load("runs/quickstart")?;
/// let sentences = data::read(Path::new("datasets/quickstart/test.jsonl"), &ReadOptions::default())?;
/// println!("{}", evaluate(&*tagger, &sentences)?);
/// # Ok(())
/// # }
/// ```
pub fn evaluate(tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<Report> {
    Ok(evaluate_scores(tagger, sentences)?.report)
}

/// The report on a model's mentions, and their scores.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Strict precision, recall and F1.
    pub report: Report,
    /// The score of each mention, and whether it is correct.
    pub scored: Vec<ScoredMention>,
}

/// Like [`evaluate`], and also returns the score of each mention. Mentions of a flat model are compared with the outermost
/// gold entities for this.
pub fn evaluate_scores(tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<Evaluation> {
    let mentions = tagger.tag(sentences)?;
    Ok(Evaluation {
        scored: scored_mentions(sentences, &mentions, tagger.nested()),
        report: score(sentences, &mentions),
    })
}

/// Scores the mentions of sentences against their gold entities.
pub fn score(sentences: &[Sentence], mentions: &[Vec<Mention>]) -> Report {
    let mut report = Report::of(
        sentences
            .iter()
            .map(|sentence| sentence.entities.as_slice())
            .zip(mentions.iter().map(Vec::as_slice)),
    );
    for label in sentences.iter().flat_map(Sentence::unreachable_labels) {
        report.add_unreachable(label, 1);
    }
    report
}

/// The gold types that a model does not know, with their numbers of entities, which it cannot find.
pub fn unknown_labels(known: &Labels, sentences: &[Sentence]) -> BTreeMap<String, usize> {
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    for sentence in sentences {
        let labels = sentence.entities.iter().map(|entity| entity.label.as_str());
        for label in labels.chain(sentence.unreachable_labels()) {
            if known.index(label).is_none() {
                *unknown.entry(label.to_string()).or_default() += 1;
            }
        }
    }
    unknown
}

/// Entities for the tests of this module and those below it.
#[cfg(test)]
pub(crate) mod test_data {
    use proptest::prelude::*;

    use crate::text::{Entity, Mention};

    /// Mentions of these entities, all with the same score.
    pub(crate) fn mentions(entities: &[Entity]) -> Vec<Mention> {
        let mention = |entity: &Entity| Mention {
            entity: entity.clone(),
            score: 0.5,
        };
        entities.iter().map(mention).collect()
    }

    /// A few entities of a short sentence; they may nest, cross and repeat.
    pub(crate) fn any_entities() -> impl Strategy<Value = Vec<Entity>> {
        let entity = (0usize..11, 1usize..6, "[ABC]")
            .prop_map(|(start, length, label)| Entity::new(start, start + length, label));
        prop::collection::vec(entity, 0..12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Discontinuous, Entity, Misaligned};

    #[test]
    fn gold_that_no_span_equals_is_missed_and_unknown_types_are_counted() {
        let mut sentence = Sentence::from_words(["a", "b", "c"]);
        sentence.entities = vec![Entity::new(0, 1, "A"), Entity::new(1, 2, "B")];
        sentence.misaligned = vec![Misaligned {
            start: 0,
            end: 2,
            label: "B".to_string(),
        }];
        sentence.discontinuous = vec![Discontinuous {
            parts: vec![(0, 1), (4, 5)],
            label: "C".to_string(),
        }];
        let mentions = test_data::mentions(&sentence.entities);
        let report = score(std::slice::from_ref(&sentence), &[mentions]);
        assert_eq!((report.overall.correct, report.overall.gold), (2, 4));
        let unknown = unknown_labels(&Labels::new(["A"]), &[sentence]);
        assert_eq!(
            unknown,
            BTreeMap::from([("B".to_string(), 2), ("C".to_string(), 1)])
        );
    }
}
