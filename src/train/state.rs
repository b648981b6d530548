//! The state of a run besides its weights: how far it has come and what it has measured.

use serde::{Deserialize, Serialize};

use super::curves::{Curves, Point};
use super::loss_scale::LossScale;
use crate::eval::Counts;
use crate::nn::precision::Precision;

/// The state of a run, saved with every checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// Hash of the training and dev sentences.
    pub data: String,
    /// The current epoch, from 1.
    pub epoch: usize,
    /// Batches of the current epoch that are done.
    pub batch: usize,
    /// Optimizer steps so far.
    pub step: usize,
    /// Loss of the current epoch so far, summed over sentences.
    pub loss_sum: f64,
    /// Sentences in that sum.
    pub loss_sentences: usize,
    /// Seconds of training so far.
    pub seconds: f64,
    /// CPU seconds of all threads so far, 0 where the system does not report them.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// The step of the checkpoint with the best dev F1 (without a dev set: of the last one).
    pub best_step: usize,
    /// That F1, between 0 and 1.
    pub best_f1: f64,
    /// Name and dev F1 of a bundle's other head after the last epoch.
    pub other: Option<(String, f64)>,
    /// Epochs since the best one.
    pub stale: usize,
    /// True when no epoch is left.
    pub finished: bool,
    /// Loss scaling of f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScale>,
    /// Losses and scores of the epochs so far.
    pub curves: Curves,
}

/// Loss and scores on the dev sentences.
#[derive(Debug, Clone, Copy)]
pub struct DevScore {
    /// Mean loss over sentences.
    pub loss: f64,
    /// Strict counts, with decoding settings chosen on the dev sentences if the recipe says so.
    pub counts: Counts,
    /// Strict counts with the decoding settings of the recipe.
    pub as_trained: Counts,
}

/// When training stops.
#[derive(Debug, Clone, Copy)]
pub struct StopRule {
    /// Epochs of the run.
    pub epochs: usize,
    /// Epochs without a better dev F1 after which the run stops; 0 for never.
    pub patience: usize,
}

impl RunState {
    /// The state before the first step; `data` is the hash of the sentences.
    pub fn new(data: String, precision: Precision) -> Self {
        Self {
            epoch: 1,
            data,
            loss_scale: LossScale::of(precision),
            ..Self::default()
        }
    }

    /// Mean loss of the current epoch so far.
    pub fn mean_loss(&self) -> f64 {
        self.loss_sum / self.loss_sentences.max(1) as f64
    }

    /// Adds a trained batch.
    pub fn add_batch(&mut self, loss: f64, sentences: usize) {
        self.batch += 1;
        self.loss_sum += loss * sentences as f64;
        self.loss_sentences += sentences;
    }

    /// Ends the current epoch: adds a point to the curves, notes whether it is the best so far and whether it is the last.
    pub fn end_epoch(&mut self, dev: Option<DevScore>, learning_rate: f64, rule: StopRule) {
        let f1 = dev.map(|dev| dev.counts.f1());
        let before = self.curves.points.last().map_or(0.0, |point| point.seconds);
        self.curves.push(Point {
            epoch: self.epoch,
            step: self.step,
            train_loss: self.mean_loss(),
            dev_loss: dev.map(|dev| dev.loss),
            dev_precision: dev.map(|dev| dev.counts.precision()),
            dev_recall: dev.map(|dev| dev.counts.recall()),
            dev_f1: f1,
            dev_f1_as_trained: dev.map(|dev| dev.as_trained.f1()),
            other_f1: self.other.as_ref().map(|(_, f1)| *f1),
            learning_rate,
            seconds: self.seconds,
            sentences_per_second: self.loss_sentences as f64 / (self.seconds - before).max(1e-9),
        });
        // Without a dev set the newest checkpoint is the one to keep.
        if f1.is_none_or(|f1| f1 > self.best_f1 || self.best_step == 0) {
            self.best_f1 = f1.unwrap_or(0.0);
            self.best_step = self.step;
            self.stale = 0;
        } else {
            self.stale += 1;
        }
        let out_of_patience = rule.patience > 0 && self.stale >= rule.patience;
        self.finished = self.epoch == rule.epochs || out_of_patience;
        self.epoch += 1;
        self.batch = 0;
        self.loss_sum = 0.0;
        self.loss_sentences = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(correct: u64) -> Option<DevScore> {
        let counts = Counts {
            correct,
            predicted: 10,
            gold: 10,
        };
        Some(DevScore {
            loss: 1.0,
            counts,
            as_trained: counts,
        })
    }

    #[test]
    fn the_best_epoch_is_kept_and_patience_ends_the_run() {
        let rule = StopRule {
            epochs: 9,
            patience: 2,
        };
        let mut state = RunState::new("hash".into(), Precision::F32);
        for (step, correct) in [(10, 5), (20, 7), (30, 7), (40, 6)] {
            assert!(!state.finished);
            state.step = step;
            state.add_batch(2.0, 4);
            assert_eq!(state.mean_loss(), 2.0);
            state.end_epoch(dev(correct), 1e-3, rule);
        }
        assert_eq!((state.best_step, state.best_f1), (20, 0.7));
        assert!(state.finished, "two epochs without a better F1");
        assert_eq!((state.epoch, state.batch), (5, 0));
        assert_eq!(state.curves.points.len(), 4);
    }

    #[test]
    fn without_dev_sentences_the_last_epoch_is_kept() {
        let rule = StopRule {
            epochs: 2,
            patience: 1,
        };
        let mut state = RunState::new("hash".into(), Precision::F32);
        for step in [1, 2] {
            state.step = step;
            state.end_epoch(None, 1e-3, rule);
            assert_eq!(state.best_step, step);
        }
        assert!(state.finished);
    }
}
