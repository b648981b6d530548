//! The walk over the sentences of one model, counting everything on the way; and the search for the worst of them.

use std::cmp::Reverse;

use super::attributes::{Attribute, Training, length_group};
use super::judge::{Confusion, Errors, Fate, Judgement, Verdict};
use super::{Model, Significance, Worst};
use crate::eval::{Counts, Report, Split};
use crate::text::{Mention, Sentence};

/// What is counted while walking over the sentences.
#[derive(Default)]
pub(super) struct Walk {
    report: Report,
    lengths: [Counts; 11],
    buckets: [[Split; 4]; 4],
    errors: Errors,
    confusion: Confusion,
}

impl Walk {
    /// Walks over the sentences; also gives the counts of each of them.
    pub(super) fn over(
        gold: &[Sentence],
        predictions: &[Vec<Mention>],
        training: &Training,
    ) -> (Self, Vec<Counts>) {
        let mut walk = Self::default();
        let counts = gold
            .iter()
            .zip(predictions)
            .map(|(sentence, mentions)| walk.add(sentence, mentions, training))
            .collect();
        (walk, counts)
    }

    fn add(&mut self, sentence: &Sentence, mentions: &[Mention], training: &Training) -> Counts {
        let judgement = Judgement::of(&sentence.entities, mentions);
        self.report.add(&sentence.entities, mentions);
        self.errors += Errors::of(&judgement);
        self.confusion.add(&judgement);
        for entity in &sentence.misaligned {
            self.report.add_unreachable(&entity.label, 1);
            self.errors.add_unreachable(1);
            self.confusion.note(Some(&entity.label), None);
        }
        let counts = Counts {
            correct: judgement.found(),
            predicted: judgement.predicted.len() as u64,
            gold: (judgement.gold.len() + sentence.misaligned.len()) as u64,
        };
        for (entity, fate) in &judgement.gold {
            let found = *fate == Fate::Found;
            let group = &mut self.lengths[length_group(entity.span.len())];
            group.gold += 1;
            group.correct += u64::from(found);
            for (attribute, buckets) in Attribute::ALL.into_iter().zip(&mut self.buckets) {
                let value = attribute.of(entity, sentence, counts.gold, training);
                buckets[attribute.bucket(value)].add_gold(found);
            }
        }
        for (entity, verdict) in &judgement.predicted {
            self.lengths[length_group(entity.span.len())].predicted += 1;
            for (attribute, buckets) in Attribute::ALL.into_iter().zip(&mut self.buckets) {
                let value = attribute.of(entity, sentence, counts.predicted, training);
                buckets[attribute.bucket(value)].add_predicted(*verdict == Verdict::Right);
            }
        }
        counts
    }

    /// The model these counts are of.
    pub(super) fn into_model(self, name: String, significance: Significance) -> Model {
        Model {
            name,
            report: self.report,
            lengths: self.lengths,
            buckets: self.buckets,
            errors: self.errors,
            confusion: self.confusion,
            significance,
        }
    }
}

/// The sentences with the most mistakes of all models together.
pub(super) fn worst(
    gold: &[Sentence],
    models: &[(String, Vec<Vec<Mention>>)],
    most: usize,
) -> Vec<Worst> {
    let judgements = |index: usize| -> Vec<Judgement> {
        let entities = &gold[index].entities;
        let judge = |(_, predictions): &(String, Vec<Vec<Mention>>)| {
            Judgement::of(entities, &predictions[index])
        };
        models.iter().map(judge).collect()
    };
    let mut ranked: Vec<(u64, usize)> = (0..gold.len())
        .map(|index| {
            (
                judgements(index).iter().map(Judgement::mistakes).sum(),
                index,
            )
        })
        .filter(|(mistakes, _)| *mistakes > 0)
        .collect();
    ranked.sort_by_key(|(mistakes, index)| (Reverse(*mistakes), *index));
    ranked
        .into_iter()
        .take(most)
        .map(|(mistakes, index)| Worst {
            index,
            sentence: gold[index].clone(),
            mistakes,
            judgements: judgements(index),
        })
        .collect()
}
