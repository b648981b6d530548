//! Checks of a recipe: values out of range and values that contradict each other.

use super::Recipe;
use crate::data;
use crate::error::{Error, Result};

impl Recipe {
    /// Returns the recipe if its values are valid; `origin` names it in error messages.
    pub(super) fn checked(self, origin: &str) -> Result<Self> {
        let fail = |problem: &str| Err(Error::Config(format!("{origin}: {problem}")));
        let train = &self.train;
        if self.head_name().is_empty() {
            return fail("[head] needs a name; `nerzoo heads` lists all heads");
        }
        match (&self.data.corpus, self.data.train.is_empty()) {
            (None, true) => {
                return fail("[data] needs a corpus (a name) or train (files to train on)");
            }
            (Some(_), false) => {
                return fail("[data] has both a corpus and train files; keep one");
            }
            _ => {}
        }
        let files = !self.data.dev.is_empty() || !self.data.test.is_empty();
        if self.data.corpus.is_some() && (files || self.data.options != data::Options::default()) {
            return fail(
                "a named corpus brings its own dev and test files and reading options; to use others, name the \
                 training files in data.train instead of data.corpus",
            );
        }
        if self.encoder.pretrained.is_none() && self.encoder.dropout.is_some() {
            return fail(
                "encoder.dropout is for pretrained encoders; a fresh one has encoder.scratch.dropout",
            );
        }
        if self.encoder.pretrained.is_some() && self.encoder.scratch.is_some() {
            return fail("[encoder] has both pretrained and scratch; keep one");
        }
        if train.batch == 0 || train.accumulate == 0 || train.epochs == 0 {
            return fail("train.batch, train.accumulate and train.epochs must be at least 1");
        }
        if !(0.0..=1.0).contains(&train.warm_up) {
            return fail("train.warm_up is a share of the steps, between 0 and 1");
        }
        if train
            .freeze_rate
            .is_some_and(|rate| !(0.0..=100.0).contains(&rate))
        {
            return fail(
                "train.freeze_rate multiplies the learning rate; it lies between 0 and 100",
            );
        }
        if train.freeze_rate.is_some() && train.freeze_encoder == 0 {
            return fail("train.freeze_rate is for the epochs of train.freeze_encoder, which is 0");
        }
        let amounts = [
            train.weight_decay,
            train.epsilon,
            train.clip,
            train.checkpoint_minutes,
            train.report_seconds,
        ];
        if amounts.iter().any(|amount| !(0.0..1e9).contains(amount)) {
            return fail(
                "train.weight_decay, epsilon, clip, checkpoint_minutes and report_seconds are numbers from 0 up",
            );
        }
        let dropouts = [
            self.encoder.dropout,
            self.encoder.scratch.as_ref().map(|s| s.dropout),
        ];
        if dropouts
            .into_iter()
            .flatten()
            .any(|dropout| !(0.0..1.0).contains(&dropout))
        {
            return fail("the encoder's dropout lies from 0 to below 1");
        }
        if let Err(problem) = self.encoder.features.check() {
            return fail(&problem.to_string());
        }
        let rates = [Some(train.learning_rate), train.head_learning_rate];
        if rates
            .into_iter()
            .flatten()
            .any(|rate| !(0.0..=1.0).contains(&rate))
        {
            return fail("learning rates lie between 0 and 1");
        }
        Ok(self)
    }
}
