//! All counts of one model, made in one pass over the sentences.

use super::attributes::{Attribute, TrainingData, length_group};
use super::errors::{
    ConfusionMatrix, ErrorCounts, GoldOutcome, PredictionOutcome, SentenceOutcomes,
};
use super::{ModelResults, Significance};
use crate::eval::{Counts, GroupCounts, Report};
use crate::text::{Mention, Sentence};

/// Everything that is counted for a model; the fields are described in [`ModelResults`].
#[derive(Default)]
pub(super) struct ModelCounts {
    report: Report,
    lengths: [Counts; 11],
    buckets: [[GroupCounts; 4]; 4],
    errors: ErrorCounts,
    confusion: ConfusionMatrix,
}

impl ModelCounts {
    /// Counts over all sentences, and the strict counts of each sentence for the bootstrap.
    pub(super) fn count(
        gold: &[Sentence],
        predictions: &[Vec<Mention>],
        training: &TrainingData,
    ) -> (Self, Vec<Counts>) {
        let mut counts = Self::default();
        let per_sentence = gold
            .iter()
            .zip(predictions)
            .map(|(sentence, mentions)| counts.add(sentence, mentions, training))
            .collect();
        (counts, per_sentence)
    }

    /// Adds a sentence and returns its strict counts.
    fn add(
        &mut self,
        sentence: &Sentence,
        mentions: &[Mention],
        training: &TrainingData,
    ) -> Counts {
        let outcomes = SentenceOutcomes::of(&sentence.entities, mentions);
        self.report.add(&sentence.entities, mentions);
        self.errors += ErrorCounts::of(&outcomes);
        self.confusion.add(&outcomes);
        let mut unreachable = 0;
        for label in sentence.unreachable_labels() {
            self.report.add_unreachable(label, 1);
            self.errors.add_unreachable(1);
            self.confusion.add_pair(Some(&label.to_string()), None);
            unreachable += 1;
        }
        let counts = Counts {
            correct: outcomes.found(),
            predicted: outcomes.predicted.len() as u64,
            gold: outcomes.gold.len() as u64 + unreachable,
        };
        for (entity, outcome) in &outcomes.gold {
            let found = *outcome == GoldOutcome::Found;
            let group = &mut self.lengths[length_group(entity.span.len())];
            group.gold += 1;
            group.correct += u64::from(found);
            for (attribute, buckets) in Attribute::ALL.into_iter().zip(&mut self.buckets) {
                let value = attribute.value(entity, sentence, counts.gold, training);
                buckets[attribute.bucket(value)].add_gold(found);
            }
        }
        for (entity, outcome) in &outcomes.predicted {
            self.lengths[length_group(entity.span.len())].predicted += 1;
            for (attribute, buckets) in Attribute::ALL.into_iter().zip(&mut self.buckets) {
                let value = attribute.value(entity, sentence, counts.predicted, training);
                buckets[attribute.bucket(value)]
                    .add_predicted(*outcome == PredictionOutcome::Correct);
            }
        }
        counts
    }

    /// The results of a model with these counts.
    pub(super) fn into_results(self, name: String, significance: Significance) -> ModelResults {
        ModelResults {
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
