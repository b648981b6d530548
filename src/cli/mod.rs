//! The command line: one file per verb.

mod analyse;
mod bench;
mod data;
mod devices;
mod evaluate;
mod grid;
mod init;
mod predict;
mod reading;
mod sweep;
mod train;
mod worker;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use burn::tensor::Device;
use clap::{Args, Parser, Subcommand};

use crate::device;
use crate::error::Error;
use crate::model::folder::Knobs;

/// A zoo of trainable named-entity-recognition models, flat and nested, on any device.
#[derive(Debug, Parser)]
#[command(name = "nerzoo", version, about, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Say more about what happens (twice: even more); RUST_LOG sets it in detail.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Train a recipe and write the model, its scores and its card into a folder.
    Train(train::Train),
    /// Write a recipe for your own files.
    Init(init::Init),
    /// Score a model on a corpus with gold entities.
    Evaluate(evaluate::Evaluate),
    /// Explain why one model beats another: buckets, kinds of errors, confidence, worst sentences.
    Analyse(analyse::Analyse),
    /// Find the entities in texts.
    Predict(predict::Predict),
    /// Look at, check, convert, split and make corpora.
    Data(data::Data),
    /// List the devices this machine and build have, and test them.
    Devices(devices::Devices),
    /// Measure the speed of training or prediction.
    Bench(bench::Bench),
    /// Lend this machine's devices to training on another one.
    Worker(worker::Worker),
}

/// Where things run.
#[derive(Debug, Args)]
struct On {
    /// auto, cpu, ndarray, and in builds with the feature: vulkan[:n], wgpu[:n], cuda[:n], remote:HOST:PORT[/n].
    /// Training takes several with commas between them. `nerzoo devices` lists what is there.
    #[arg(
        long,
        env = "NERZOO_DEVICE",
        default_value = "auto",
        value_name = "DEVICE"
    )]
    device: String,
    /// A file with the token of remote devices in its first line.
    #[arg(long, env = "NERZOO_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl On {
    /// The one device.
    fn device(&self) -> crate::error::Result<Device> {
        if self.device.contains(',') {
            return Err(Error::Device(format!(
                "--device {}: only training takes several devices; give one",
                self.device
            )));
        }
        device::find(&self.device, self.token()?.as_deref())
    }

    /// One or several devices.
    fn devices(&self) -> crate::error::Result<Vec<Device>> {
        device::find_all(&self.device, self.token()?.as_deref())
    }

    fn token(&self) -> crate::error::Result<Option<String>> {
        self.token_file
            .as_deref()
            .map(device::remote::token)
            .transpose()
    }
}

/// Where things run and where corpora are.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    on: On,
    /// A folder with corpora by name; looked in before NERZOO_DATA and ./datasets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// How a trained model answers.
#[derive(Debug, Args)]
struct Answer {
    /// Which head of a bundle answers: seq or span [default: the one it was trained to].
    #[arg(long, value_name = "HEAD", value_parser = ["seq", "span"])]
    head: Option<String>,
    /// How BOPN reads its grid: centre, rules, votes or all [default: as it was trained].
    #[arg(long, value_name = "HOW", value_parser = ["centre", "rules", "votes", "all"])]
    decode: Option<String>,
    /// How many random spans DiffusionNER starts from [default: as it was trained].
    #[arg(long, value_name = "K")]
    spans: Option<usize>,
    /// In how many steps DiffusionNER denoises them [default: as it was trained].
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// The head's own threshold: the sum of three probabilities that a mention of DiffusionNER has to exceed, 0 to 3; the
    /// score of one of Locate and Label, 0 to 1 [default: as it was trained].
    #[arg(long, value_name = "SUM")]
    phi: Option<f64>,
}

impl Answer {
    fn knobs(&self) -> Knobs {
        let given = [("output", &self.head), ("decode", &self.decode)];
        let mut knobs: Knobs = given
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.clone()?.into())))
            .collect();
        let numbers = [
            ("spans", self.spans.map(Into::into)),
            ("steps", self.steps.map(Into::into)),
            ("threshold", self.phi.map(Into::into)),
        ];
        for (name, value) in numbers {
            knobs.extend(value.map(|value| (name.to_string(), value)));
        }
        knobs
    }
}

/// Runs the command and tells the shell how it went.
pub fn run(cli: Cli) -> ExitCode {
    log_to_stderr(cli.verbose);
    let result = match cli.verb {
        Verb::Train(verb) => verb.run(),
        Verb::Init(verb) => verb.run(),
        Verb::Evaluate(verb) => verb.run(),
        Verb::Analyse(verb) => verb.run(),
        Verb::Predict(verb) => verb.run(),
        Verb::Data(verb) => verb.run(),
        Verb::Devices(verb) => verb.run(),
        Verb::Bench(verb) => verb.run(),
        Verb::Worker(verb) => verb.run(),
    };
    match result {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {problem:#}");
            match problem.downcast_ref::<Error>() {
                Some(Error::Interrupted(_)) => ExitCode::from(130),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn log_to_stderr(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let level = match verbose {
        // A worker that is gone is said once, by us.
        0 => "warn,nerzoo=info,burn_remote=error,burn_communication=error",
        1 => "info,nerzoo=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
}

/// Prints a value as one JSON object.
fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{value:#}")?;
    Ok(())
}
