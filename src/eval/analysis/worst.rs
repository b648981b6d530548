//! The sentences with the most mistakes.

use std::cmp::Reverse;

use super::errors::SentenceOutcomes;
use crate::text::{Entity, Mention, Sentence};

/// A sentence with many mistakes and the outcomes of all models on it.
#[derive(Debug, Clone)]
pub struct WorstSentence {
    /// Index among the gold sentences, from 0.
    pub index: usize,
    /// The sentence.
    pub sentence: Sentence,
    /// Number of wrong predictions and gold entities not found, summed over all models.
    pub mistakes: u64,
    /// Outcomes of each model, in the order of [`super::Analysis::models`].
    pub outcomes: Vec<SentenceOutcomes>,
}

impl WorstSentence {
    /// The gold entities in order, without duplicates.
    pub(super) fn gold(&self) -> impl Iterator<Item = &Entity> {
        let first = self.outcomes.first();
        let gold = first.map_or(&[][..], |outcomes| &outcomes.gold);
        gold.iter().map(|(entity, _)| entity)
    }
}

/// At most `limit` sentences with the most mistakes, worst first; on a tie the earlier sentence comes first. Sentences
/// without mistakes are left out.
pub(super) fn worst_sentences(
    gold: &[Sentence],
    models: &[(String, Vec<Vec<Mention>>)],
    limit: usize,
) -> Vec<WorstSentence> {
    let outcomes = |index: usize| -> Vec<SentenceOutcomes> {
        let compare = |(_, predictions): &(String, Vec<Vec<Mention>>)| {
            SentenceOutcomes::of(&gold[index].entities, &predictions[index])
        };
        models.iter().map(compare).collect()
    };
    let mistakes = |index: usize| -> u64 {
        let outcomes = outcomes(index);
        outcomes.iter().map(SentenceOutcomes::mistakes).sum()
    };
    let mut ranked: Vec<(u64, usize)> = (0..gold.len())
        .map(|index| (mistakes(index), index))
        .filter(|(mistakes, _)| *mistakes > 0)
        .collect();
    ranked.sort_by_key(|(mistakes, index)| (Reverse(*mistakes), *index));
    ranked
        .into_iter()
        .take(limit)
        .map(|(mistakes, index)| WorstSentence {
            index,
            sentence: gold[index].clone(),
            mistakes,
            outcomes: outcomes(index),
        })
        .collect()
}
