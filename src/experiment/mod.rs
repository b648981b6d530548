//! Experiments of several runs: [`compare()`] finds the best head for a corpus, [`cross_validate`] cross-validates a recipe, and
//! [`learning_curve()`] measures how F1 grows with the amount of data.
//!
//! Every run is an ordinary run with a folder of its own, so an experiment can be stopped and resumed at any moment.

pub mod candidates;
pub mod compare;
mod finals;
pub mod folds;
pub mod leaderboard;
pub mod learning_curve;
pub mod plan;
pub mod plan_file;
pub mod power_law;
mod speed;

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use burn::train::Interrupter;
use serde::Serialize;

pub use compare::compare;
pub use folds::cross_validate;
pub use learning_curve::learning_curve;

use crate::device;
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::hub::Hub;
use crate::recipe::Recipe;
use crate::train::checkpoints::Lock;
use crate::train::{ProgressOutput, TrainOptions};

/// Where and how the runs of an experiment are trained.
pub struct RunOptions {
    /// The folder of the experiment; its runs have folders in it.
    pub out: PathBuf,
    /// Continue the experiment in the folder.
    pub resume: bool,
    /// The devices of every run.
    pub devices: Vec<Device>,
    /// Folders in which named corpora are searched.
    pub roots: Vec<PathBuf>,
    /// Where pretrained encoders are found by name.
    pub hub: Hub,
    /// How the progress of each run is shown.
    pub output: ProgressOutput,
    /// Write a checkpoint before the first step of each run too, for devices that may be lost at any time.
    pub checkpoint_first: bool,
    /// Train even if a device seems to have too little memory.
    pub force: bool,
    /// The command line of the experiment.
    pub command: String,
    /// Stops the experiment when asked.
    pub interrupter: Interrupter,
}

impl RunOptions {
    /// Runs on the CPU, without output.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            resume: false,
            devices: vec![device::cpu()],
            roots: vec!["datasets".into()],
            hub: Hub::from_env(),
            output: ProgressOutput::Silent,
            checkpoint_first: false,
            force: false,
            command: String::new(),
            interrupter: Interrupter::new(),
        }
    }

    /// Takes the folder of the experiment. Fails when it is used already and the experiment is not being resumed.
    fn enter(&self) -> Result<Lock> {
        let out = &self.out;
        fs::create_dir_all(out).map_err(|source| Error::io(out, source))?;
        let lock = Lock::take(out)?;
        let entries = fs::read_dir(out).map_err(|source| Error::io(out, source))?;
        let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
        if !self.resume && names.any(|name| !name.to_string_lossy().starts_with('.')) {
            return Err(Error::model_folder(
                out,
                "this folder is not empty; add --resume to continue what was started in it, or give another --out",
            ));
        }
        Ok(lock)
    }

    /// The options of a run in a folder of the experiment; a run that was started before is continued.
    fn run(&self, recipe: Recipe, folder: &Path, command: String) -> TrainOptions {
        TrainOptions {
            resume: folder.join("recipe.toml").is_file(),
            checkpoint_first: self.checkpoint_first,
            force: self.force,
            devices: self.devices.clone(),
            roots: self.roots.clone(),
            hub: self.hub.clone(),
            output: self.output,
            command,
            interrupter: self.interrupter.clone(),
            ..TrainOptions::new(recipe, folder)
        }
    }

    /// The same error, with the remedy for an experiment where a run was interrupted.
    fn explain(&self, problem: Error) -> Error {
        match problem {
            Error::Interrupted(_) => self.interrupted(),
            other => other,
        }
    }

    fn interrupted(&self) -> Error {
        Error::Interrupted(format!(
            "stopped; everything up to here is saved, continue with the same command and --resume --out {}",
            self.out.display()
        ))
    }

    /// Fails when the user has asked to stop.
    fn check_interrupted(&self) -> Result<()> {
        if self.interrupter.should_stop() {
            Err(self.interrupted())
        } else {
            Ok(())
        }
    }
}

/// Writes a value as indented JSON, atomically.
fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|problem| Error::model_folder(path, problem.to_string()))?;
    write_atomic(path, (json + "\n").as_bytes())
}

/// A score in percent.
fn percent(score: f64) -> String {
    format!("{:.2}", 100.0 * score)
}

/// Mean and sample standard deviation; the deviation of a single value is 0.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(mean_and_deviation(&[0.5]), (0.5, 0.0));
        let (mean, deviation) = mean_and_deviation(&[1.0, 2.0, 3.0]);
        assert_eq!((mean, deviation), (2.0, 1.0));
    }

    #[test]
    fn a_used_folder_is_refused_unless_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = RunOptions::new(folder.path());
        drop(runs.enter().unwrap());
        drop(runs.enter().unwrap()); // a lock file does not count
        std::fs::write(folder.path().join("plan.json"), "{}").unwrap();
        let problem = runs.enter().unwrap_err().to_string();
        assert!(problem.contains("--resume"), "{problem}");
        runs.resume = true;
        runs.enter().unwrap();
    }
}
