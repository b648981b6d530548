//! The command line: one file per command.

mod analyse;
mod bench;
mod compare;
mod data;
mod devices;
mod evaluate;
mod examples;
mod format;
mod grid;
mod heads;
mod hub;
mod init;
mod predict;
mod predict_input;
mod predict_output;
mod progress;
pub mod reference;
mod serve;
mod sweep;
mod train;
mod worker;
mod zoo;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn::tensor::Device;
use clap::{Args, Parser, Subcommand};

use crate::data::{ReadOptions, datasets};
use crate::device;
use crate::error::{Error, nearest};
use crate::eval;
use crate::recipe::set::Assignment;
use crate::text::{Labels, Sentence, visible};

/// A zoo of trainable named-entity-recognition models, flat and nested, on any device.
#[derive(Debug, Parser)]
#[command(name = "nerzoo", version, about, max_term_width = 110, after_help = examples::ALL)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log more; repeat for debug output. RUST_LOG gives finer control.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a recipe and write the model, its scores and its card into a folder.
    #[command(after_help = examples::TRAIN)]
    Train(train::Train),
    /// Write a recipe for your own files.
    #[command(after_help = examples::init())]
    Init(init::Init),
    /// Find the best head for a corpus within a time limit.
    #[command(after_help = examples::compare())]
    Compare(compare::Compare),
    /// Score a model on a corpus with gold entities.
    #[command(after_help = examples::EVALUATE)]
    Evaluate(evaluate::Evaluate),
    /// Explain why one model beats another: buckets, kinds of errors, confidence, worst sentences.
    #[command(after_help = examples::ANALYSE)]
    Analyse(analyse::Analyse),
    /// Find the entities in texts.
    #[command(after_help = examples::PREDICT)]
    Predict(predict::Predict),
    /// List, show, check, publish, fetch, push, import and export models.
    Zoo(zoo::ZooArgs),
    /// Serve models over HTTP, with a page to try them.
    #[command(after_help = examples::SERVE)]
    Serve(serve::Serve),
    /// List the heads, or the settings of one.
    #[command(after_help = examples::heads())]
    Heads(heads::Heads),
    /// Show, check, convert, split and make corpora.
    Data(data::Data),
    /// List the devices this machine and build have, and test them.
    #[command(after_help = examples::DEVICES)]
    Devices(devices::Devices),
    /// Measure the speed of training or prediction.
    #[command(after_help = examples::BENCH)]
    Bench(bench::Bench),
    /// Offer this machine's devices to training on another machine.
    #[command(after_help = examples::WORKER)]
    Worker(worker::Worker),
    /// Print a chapter of the book that is made from the code.
    #[command(hide = true)]
    Reference(reference::Reference),
}

/// The device to run on.
#[derive(Debug, Args)]
struct DeviceArgs {
    /// auto, cpu, and in builds with the feature: ndarray, vulkan[:n], wgpu[:n], cuda[:n], remote:HOST:PORT[/n].
    /// Training takes several, separated by commas. `nerzoo devices` lists what is available.
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

impl DeviceArgs {
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

/// The folder of named corpora.
#[derive(Debug, Args)]
struct CorpusArgs {
    /// A folder with corpora by name; searched before NERZOO_DATA and ./datasets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl CorpusArgs {
    /// The folders in which named corpora are searched.
    fn roots(&self) -> Vec<PathBuf> {
        datasets::roots(self.data.as_deref())
    }

    /// The sentences of a file or, as `CORPUS` or `CORPUS:SPLIT`, of a named corpus.
    fn sentences(
        &self,
        source: &str,
        split: Option<&str>,
        options: &ReadOptions,
    ) -> anyhow::Result<Vec<Sentence>> {
        let path = Path::new(source);
        if path.exists() || source == "-" {
            return Ok(crate::data::read(path, options)?);
        }
        let (corpus, split) = match (source.split_once(':'), split) {
            (Some((corpus, split)), _) => (corpus, split),
            (None, Some(split)) if !source.contains(['/', '.']) => (source, split),
            _ => anyhow::bail!(
                "{source}: no such file; a named corpus is written CORPUS:SPLIT, such as wnut17:test"
            ),
        };
        let mut dataset = datasets::find(corpus, &self.roots())?;
        dataset.add_general_options(options);
        Ok(dataset.load(split)?)
    }
}

/// Settings of a trained model.
#[derive(Debug, Args)]
struct ModelArgs {
    /// Use another value for a setting of the model's head, such as head.threshold=0.6; may be repeated. `nerzoo heads
    /// NAME` lists the settings that can change after training.
    #[arg(long = "set", value_name = "head.KEY=VALUE")]
    sets: Vec<String>,
}

impl ModelArgs {
    fn overrides(&self) -> crate::error::Result<Vec<Assignment>> {
        self.sets.iter().map(|set| Assignment::parse(set)).collect()
    }
}

/// The arguments of the program, with `--skip-bad N` written as `--skip-bad=N`: its number is optional, and must not be
/// taken for a file.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    for argument in given {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match arguments.last_mut() {
            Some(last) if last == "--skip-bad" && argument.to_str().is_some_and(is_number) => {
                last.push("=");
                last.push(argument);
            }
            _ => arguments.push(argument),
        }
    }
    arguments
}

/// Runs the command and returns the exit code.
pub fn run(cli: Cli) -> ExitCode {
    log_to_stderr(cli.verbose);
    let result = match cli.command {
        Command::Train(verb) => verb.run(),
        Command::Init(verb) => verb.run(),
        Command::Compare(verb) => verb.run(),
        Command::Evaluate(verb) => verb.run(),
        Command::Analyse(verb) => verb.run(),
        Command::Predict(verb) => verb.run(),
        Command::Zoo(verb) => verb.run(),
        Command::Serve(verb) => verb.run(),
        Command::Heads(verb) => verb.run(),
        Command::Data(verb) => verb.run(),
        Command::Devices(verb) => verb.run(),
        Command::Bench(verb) => verb.run(),
        Command::Worker(verb) => verb.run(),
        Command::Reference(verb) => verb.run(),
    };
    match result {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {}", visible(&format!("{problem:#}")));
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
        // A lost worker is reported once, by us.
        0 => "warn,nerzoo=info,burn_remote=error,burn_communication=error",
        1 => "info,nerzoo=debug",
        // Without the requests of downloads, whose addresses contain signatures.
        _ => "debug,ureq=info,ureq_proto=info",
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

/// Warns about gold types that a model does not know.
fn warn_about_unknown_types(model: &Path, known: &Labels, sentences: &[Sentence]) {
    let unknown = eval::unknown_labels(known, sentences);
    if unknown.is_empty() {
        return;
    }
    let names = known.names();
    let similar = |label: &str| nearest(&label.to_lowercase(), names.iter().map(String::as_str));
    let each = unknown.iter().map(|(label, count)| {
        let same = names
            .iter()
            .find(|name| name.eq_ignore_ascii_case(label))
            .map(String::as_str);
        let hint = same
            .or_else(|| similar(label))
            .map(|name| format!(", perhaps `{name}`"));
        format!("{label} ({count}{})", hint.unwrap_or_default())
    });
    tracing::warn!(
        "{} gold entities have types that {} does not know, and count as missed: {}; it knows {}",
        unknown.values().sum::<usize>(),
        model.display(),
        each.collect::<Vec<_>>().join(", "),
        names.join(", ")
    );
}

/// Prints a value as one JSON object.
fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout().lock(), "{value:#}")?;
    Ok(())
}
