//! `nerzoo train`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use burn::train::Interrupter;
use clap::Args;

use super::format::SkipBadArgs;
use super::hub::HubArgs;
use super::{CorpusArgs, DeviceArgs, grid};
use crate::data::words;
use crate::data::write::bracketed;
use crate::error::Error;
use crate::experiment::folds::FINAL;
use crate::experiment::{RunOptions, cross_validate, learning_curve};
use crate::process;
use crate::recipe::Recipe;
use crate::registry;
use crate::train::progress::clock;
use crate::train::{Finished, ProgressOutput, TrainOptions};

/// Arguments of `train`.
#[derive(Debug, Args)]
pub struct Train {
    /// The recipe, a TOML file.
    pub(super) recipe: PathBuf,
    /// Change a value of the recipe, such as train.batch=16; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) sets: Vec<String>,
    /// The run folder [default: runs/<recipe>, or runs/<recipe>-2 and so on when that exists].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Train every combination of values, such as head.alpha=0.1,0.5; may be repeated. One folder per run.
    #[arg(long, value_name = "KEY=VALUE,VALUE")]
    pub(super) grid: Vec<String>,
    /// Train with each of these seeds; scores are shown as mean and standard deviation.
    #[arg(long, value_delimiter = ',', value_name = "SEED,SEED")]
    pub(super) seeds: Vec<u64>,
    /// Cross-validate: test on each of so many parts of the training and dev sentences, by document, and train a final
    /// model on all of them. One folder per run.
    #[arg(long, value_name = "N", conflicts_with_all = ["grid", "seeds", "curve"])]
    folds: Option<usize>,
    /// Train on shares of the training sentences, such as 0.1,0.25,0.5,1, and show what more data would give. One folder
    /// per run.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,SHARE", conflicts_with_all = ["grid", "seeds"])]
    curve: Vec<f64>,
    /// Continue the run in the folder from its newest intact checkpoint.
    #[arg(long)]
    pub(super) resume: bool,
    /// Progress as plain lines even on a terminal.
    #[arg(long)]
    plain: bool,
    /// Train even if the device seems to have too little memory.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    skip_bad: SkipBadArgs,
    /// Write the final weights in half precision; the same as --set train.half=true.
    #[arg(long)]
    half: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    hub: HubArgs,
}

impl Train {
    /// Trains, prints the scores and tags the recipe's sample.
    pub fn run(mut self) -> Result<ExitCode> {
        self.sets.extend(self.skip_bad.assignment());
        let interrupter = Interrupter::new();
        stop_on_signals(&interrupter)?;
        let out = self.folder();
        if !self.grid.is_empty() || !self.seeds.is_empty() {
            return grid::run(&self, &out, &interrupter);
        }
        if self.folds.is_some() || !self.curve.is_empty() {
            return self.experiment(&out, &interrupter);
        }
        let recipe = Recipe::read(&self.recipe, &self.sets)?;
        let sample = recipe.sample.clone();
        let reported = recipe.paper.as_ref().and_then(|paper| paper.f1);
        let finished = self.train(&self.sets, &out, self.resume, &interrupter)?;
        print_scores(&finished);
        if let Some(f1) = reported {
            println!("the paper reports F1 {f1:.2}");
        }
        if let Some(text) = sample {
            let sentence = words::sentence(&text, finished.tagger.segmentation());
            let mentions = finished.tagger.tag(std::slice::from_ref(&sentence))?;
            println!("\n{}", bracketed(&sentence, &mentions[0]));
        }
        let program = std::env::args().next().unwrap_or_else(|| "nerzoo".into());
        println!(
            "\nmodel, scores and curves are in {}\ntry it: echo 'some text' | {program} predict --model {} -",
            out.display(),
            out.display()
        );
        Ok(ExitCode::SUCCESS)
    }

    /// One run with these overrides.
    pub(super) fn train(
        &self,
        sets: &[String],
        out: &Path,
        resume: bool,
        interrupter: &Interrupter,
    ) -> Result<Finished> {
        let mut recipe = Recipe::read(&self.recipe, sets)?;
        recipe.train.half |= self.half;
        let (recipe, entry) = registry::resolve(recipe)?;
        let plain = self.plain || !std::io::stdout().is_terminal();
        let options = TrainOptions {
            resume,
            checkpoint_first: self.device.device.contains("remote:"),
            force: self.force,
            devices: self.device.devices()?,
            roots: self.corpora.roots(),
            hub: self.hub.hub(Some(interrupter)),
            output: if plain {
                ProgressOutput::Lines
            } else {
                ProgressOutput::Terminal
            },
            command: self.command(sets),
            interrupter: interrupter.clone(),
            ..TrainOptions::new(recipe, out)
        };
        Ok((entry.train)(&options)?)
    }

    /// Cross-validation or a learning curve.
    fn experiment(&self, out: &Path, interrupter: &Interrupter) -> Result<ExitCode> {
        let mut recipe = Recipe::read(&self.recipe, &self.sets)?;
        recipe.train.half |= self.half;
        let runs = RunOptions {
            resume: self.resume,
            devices: self.device.devices()?,
            roots: self.corpora.roots(),
            hub: self.hub.hub(Some(interrupter)),
            output: ProgressOutput::Lines,
            checkpoint_first: self.device.device.contains("remote:"),
            force: self.force,
            command: self.command(&self.sets),
            interrupter: interrupter.clone(),
            ..RunOptions::new(out)
        };
        let mut log = |text: &str| println!("{text}");
        let out = out.display();
        match self.folds {
            Some(count) => {
                cross_validate(&recipe, count, &runs, &mut log)?;
                println!("\nfinal model: {out}/{FINAL}");
                println!(
                    "errors of all folds: nerzoo analyse --train {out}/gold.jsonl --gold {out}/gold.jsonl \
                     folds={out}/predictions.jsonl"
                );
            }
            None => {
                let curve = learning_curve(&recipe, &self.curve, &runs, &mut log)?;
                println!("\n{curve}\n\nchart: {out}/curve.svg");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The folder given, or the first unused (with `--resume`: the last used) of runs/<recipe>, runs/<recipe>-2...
    fn folder(&self) -> PathBuf {
        if let Some(out) = &self.out {
            return out.clone();
        }
        let stem = self.recipe.file_stem().unwrap_or_default();
        numbered_folder(&stem.to_string_lossy(), self.resume)
    }

    /// The command as a person would type it, without the paths of this machine.
    fn command(&self, sets: &[String]) -> String {
        let recipe = if self.recipe.is_relative() {
            self.recipe.as_os_str()
        } else {
            self.recipe.file_name().unwrap_or_default()
        };
        let mut command = format!("nerzoo train {}", recipe.display());
        for set in sets {
            command += &format!(" --set '{set}'");
        }
        command
    }
}

/// The first unused (to resume: the last used) of runs/NAME, runs/NAME-2...
pub(super) fn numbered_folder(stem: &str, resume: bool) -> PathBuf {
    let name = |number: usize| match number {
        1 => Path::new("runs").join(stem),
        _ => Path::new("runs").join(format!("{stem}-{number}")),
    };
    let used = (1..).take_while(|number| name(*number).exists()).count();
    if resume {
        name(used.max(1))
    } else {
        name(used + 1)
    }
}

/// Ctrl-C and SIGTERM end the run after the current step, with a checkpoint; a second one ends it at once. Some
/// programs signal both the process and its group, so a second signal within a second is ignored.
pub(super) fn stop_on_signals(interrupter: &Interrupter) -> Result<()> {
    let interrupter = interrupter.clone();
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || {
        match first {
            Some(first) if first.elapsed() < Duration::from_secs(1) => return,
            Some(_) => process::exit_now(130),
            None => first = Some(Instant::now()),
        }
        eprintln!("stopping after this step (again to stop at once) ...");
        interrupter.stop(Some("asked to stop"));
    })
    .map_err(|problem| Error::Training(format!("cannot watch for signals: {problem}")))?;
    Ok(())
}

fn print_scores(finished: &Finished) {
    println!("\ntrained in {}", clock(finished.state.seconds));
    for (name, report) in [("dev", &finished.dev), ("test", &finished.test)] {
        if let Some(report) = report {
            println!("\n{name}\n{report}");
        }
    }
    if let Some(tuning) = &finished.tuning {
        println!("\n{tuning}");
    }
}
