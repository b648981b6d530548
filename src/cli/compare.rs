//! `nerzoo compare`: the best head for a corpus.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use burn::train::Interrupter;
use clap::Args;

use super::format::FormatArgs;
use super::hub::HubArgs;
use super::train::{numbered_folder, stop_on_signals};
use super::{CorpusArgs, DeviceArgs};
use crate::encoder::load;
use crate::experiment::RunOptions;
use crate::experiment::compare::{CompareConfig, compare};
use crate::experiment::plan_file::{PLAN_FILE, Plan};
use crate::recipe::DataConfig;
use crate::train::ProgressOutput;

/// Time limit in minutes if neither it nor a number of epochs is given.
const MINUTES: f64 = 60.0;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Files to train on.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    train: Vec<PathBuf>,
    /// Files to choose the best with; without any, a tenth of the training sentences is held out.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    dev: Vec<PathBuf>,
    /// Files for the final scores.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    test: Vec<PathBuf>,
    /// A corpus by name instead of files.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["train", "dev", "test"])]
    corpus: Option<String>,
    /// Use only this many training sentences, the first ones.
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// A pretrained encoder's folder or name; without it one is trained from scratch.
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<String>,
    /// Heads to compare, or single candidates such as HEAD.default; by default all heads that are not bundles by name.
    #[arg(long, value_name = "HEAD,HEAD", value_delimiter = ',')]
    heads: Vec<String>,
    /// Time limit in minutes [default: 60; none if --epochs is given].
    #[arg(long)]
    minutes: Option<f64>,
    /// Epochs of a model that is trained to its end [default: as many as there is time for].
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// How often candidates are compared; each time the worse half drops out [default: until two are left].
    #[arg(long, value_name = "N")]
    rungs: Option<usize>,
    /// Random seed of all runs [default: 1].
    #[arg(long)]
    seed: Option<u64>,
    /// Change a value of every candidate's recipe, such as train.batch=8; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The folder of the comparison [default: runs/compare, or runs/compare-2 and so on when that exists].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the comparison in the folder; other options may be left out.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    hub: HubArgs,
}

impl Compare {
    /// Compares and prints the leaderboard.
    pub fn run(self) -> Result<ExitCode> {
        let interrupter = Interrupter::new();
        stop_on_signals(&interrupter)?;
        let out = match &self.out {
            Some(out) => out.clone(),
            None => numbered_folder("compare", self.resume),
        };
        let config = self.config(&out)?;
        let hub = self.hub.hub(Some(&interrupter));
        if let Some(encoder) = &config.encoder {
            load::config(&load::find(encoder, &hub)?.folder)?;
        }
        let runs = RunOptions {
            resume: self.resume,
            devices: self.device.devices()?,
            roots: self.corpora.roots(),
            hub,
            output: ProgressOutput::Lines,
            checkpoint_first: self.device.device.contains("remote:"),
            command: self.command(),
            interrupter,
            ..RunOptions::new(&out)
        };
        let leaderboard = compare(&config, &runs, &mut |text| println!("{text}"))?;
        println!("\n{leaderboard}\n");
        println!(
            "the best is {}, in {}",
            leaderboard.best,
            out.join("best").display()
        );
        println!(
            "all finished models side by side: {}",
            out.join("report.html").display()
        );
        println!(
            "the same again, without a time limit: {}",
            leaderboard.command
        );
        Ok(ExitCode::SUCCESS)
    }

    /// The options, or those that the comparison was started with where it is resumed without.
    fn config(&self, out: &Path) -> Result<CompareConfig> {
        if self.train.is_empty() && self.corpus.is_none() {
            if self.resume && out.join(PLAN_FILE).is_file() {
                return Ok(Plan::read(out)?.config);
            }
            bail!("give files to train on with --train, or the name of a corpus with --corpus");
        }
        let minutes = match (self.minutes, self.epochs) {
            (Some(minutes), _) if !(minutes > 0.0 && minutes.is_finite()) => {
                bail!("--minutes {minutes}: give a number above 0")
            }
            (Some(minutes), _) => Some(minutes),
            (None, Some(_)) => None,
            (None, None) => Some(MINUTES),
        };
        for (option, value) in [("--epochs", self.epochs), ("--rungs", self.rungs)] {
            if value == Some(0) {
                bail!("{option} 0: give a number of at least 1");
            }
        }
        Ok(CompareConfig {
            data: DataConfig {
                corpus: self.corpus.clone(),
                train: self.train.clone(),
                dev: self.dev.clone(),
                test: self.test.clone(),
                limit: self.limit,
                options: self.format.options(),
                ..DataConfig::default()
            },
            encoder: self.encoder.clone(),
            heads: self.heads.clone(),
            minutes,
            epochs: self.epochs,
            rungs: self.rungs,
            seed: self.seed.unwrap_or(1),
            sets: self.sets.clone(),
        })
    }

    /// The command without the options that the plan decides: heads, time, epochs and rungs.
    fn command(&self) -> String {
        let decided = ["--heads", "--minutes", "--epochs", "--rungs", "--out"];
        let mut words = vec!["nerzoo".to_string()];
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
            if decided.contains(&name) {
                if value.is_empty() {
                    arguments.next();
                }
            } else if argument != "--resume" {
                words.push(quoted(&argument));
            }
        }
        words.join(" ")
    }
}

/// A word of a command line, in quotes where a shell needs them.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("--train=a/b-1.jsonl"), "--train=a/b-1.jsonl");
        assert_eq!(quoted("it's here"), "'it'\\''s here'");
        assert_eq!(quoted(""), "''");
    }
}
