//! Checks of a recipe: values out of range and values that contradict each other.

use std::fmt;

use super::Recipe;
use crate::encoder::transformer::LIMITS;
use crate::encoder::{MOST_CONTEXT, MOST_OVERLAP};
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
        if self.data.corpus.is_some() && (files || !self.data.options.are_of_any_file()) {
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
        if train.freeze_rate.is_some() && train.freeze_encoder == 0 {
            return fail("train.freeze_rate is for the epochs of train.freeze_encoder, which is 0");
        }
        if let Err(problem) = self.encoder.features.check() {
            return fail(&problem.to_string());
        }
        let out_of_range = self.ranges().into_iter().find(|range| !range.is_within);
        match out_of_range {
            Some(range) => fail(&range.to_string()),
            None => Ok(self),
        }
    }

    /// Every number of `[train]` and `[encoder]` that has a range.
    fn ranges(&self) -> Vec<Range> {
        let (train, encoder) = (&self.train, &self.encoder);
        let mut ranges = vec![
            Range::between("train.batch", train.batch, 1, 100_000),
            Range::between("train.accumulate", train.accumulate, 1, 100_000),
            Range::between("train.epochs", train.epochs, 1, 1_000_000),
            Range::between("train.average", train.average, 0, 1_000),
            Range::between("encoder.context", encoder.context, 0, MOST_CONTEXT),
            Range::between("encoder.overlap", encoder.overlap, 0, MOST_OVERLAP),
            Range::share("train.learning_rate", train.learning_rate),
            Range::share("train.warm_up", train.warm_up),
            Range::amount("train.weight_decay", train.weight_decay),
            Range::amount("train.epsilon", train.epsilon),
            Range::amount("train.clip", train.clip),
            Range::amount("train.checkpoint_minutes", train.checkpoint_minutes),
            Range::amount("train.report_seconds", train.report_seconds),
        ];
        let (decay, average) = (train.layer_decay, train.average);
        let is_within = decay > 0.0 && decay <= 1.0;
        let above_zero = "above 0 and at most 1";
        ranges.push(Range::new(
            "train.layer_decay",
            decay,
            is_within,
            above_zero,
        ));
        // The average of one epoch end is no average.
        let off_or_several = "0 (no average) or at least 2";
        ranges.push(Range::new(
            "train.average",
            average as f64,
            average != 1,
            off_or_several,
        ));
        let rate = train.head_learning_rate;
        ranges.extend(rate.map(|rate| Range::share("train.head_learning_rate", rate)));
        ranges.extend(self.data.share.map(|share| {
            let is_within = share > 0.0 && share <= 1.0;
            Range::new("data.share", share, is_within, "above 0 and at most 1")
        }));
        ranges.extend(train.freeze_rate.map(|rate| {
            let is_within = (0.0..=100.0).contains(&rate);
            Range::new("train.freeze_rate", rate, is_within, "between 0 and 100")
        }));
        let limit = self.data.limit;
        ranges.extend(limit.map(|limit| Range::count("data.limit", limit, 1)));
        let longest = self.predict.longest;
        ranges.extend(longest.map(|longest| Range::count("predict.longest", longest, 1)));
        let dropout = encoder.dropout;
        ranges.extend(dropout.map(|dropout| Range::dropout("encoder.dropout", dropout)));
        if let Some(scratch) = &encoder.scratch {
            let size = |name, value, least| {
                let mut limits = LIMITS.iter();
                let limit = limits.find(|limit| format!("encoder.scratch.{}", limit.name) == name);
                Range::between(
                    name,
                    value,
                    least,
                    limit.map_or(usize::MAX, |limit| limit.most),
                )
            };
            ranges.extend([
                size("encoder.scratch.vocabulary", scratch.vocabulary, 0),
                size("encoder.scratch.layers", scratch.layers, 1),
                size("encoder.scratch.width", scratch.width, 1),
                size("encoder.scratch.heads", scratch.heads, 1),
                size("encoder.scratch.feed_forward", scratch.feed_forward, 1),
                // The first and the last piece, and one of a word between them.
                size("encoder.scratch.positions", scratch.positions, 3),
                Range::dropout("encoder.scratch.dropout", scratch.dropout),
            ]);
        }
        ranges
    }
}

/// A value and the range it has to be in.
struct Range {
    name: &'static str,
    value: f64,
    is_within: bool,
    range: String,
}

impl Range {
    fn new(name: &'static str, value: f64, is_within: bool, range: &str) -> Self {
        Self {
            name,
            value,
            is_within,
            range: range.into(),
        }
    }

    fn count(name: &'static str, value: usize, least: usize) -> Self {
        let range = format!("at least {least}");
        Self::new(name, value as f64, value >= least, &range)
    }

    fn between(name: &'static str, value: usize, least: usize, most: usize) -> Self {
        let range = format!("between {least} and {most}");
        Self::new(name, value as f64, (least..=most).contains(&value), &range)
    }

    fn share(name: &'static str, value: f64) -> Self {
        let is_within = (0.0..=1.0).contains(&value);
        Self::new(name, value, is_within, "between 0 and 1")
    }

    fn dropout(name: &'static str, value: f64) -> Self {
        let is_within = (0.0..1.0).contains(&value);
        Self::new(name, value, is_within, "at least 0 and below 1")
    }

    fn amount(name: &'static str, value: f64) -> Self {
        let is_within = (0.0..1e9).contains(&value);
        Self::new(name, value, is_within, "at least 0 and below 1000000000")
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} must be {}", self.name, self.value, self.range)
    }
}
