//! `nerzoo zoo quantize`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::megabytes;
use crate::cli::CorpusArgs;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::data::ReadOptions;
use crate::zoo::Zoo;
use crate::zoo::quantize::{Check, QuantizeOptions, TOLERANCE, quantize};

/// Arguments of `zoo quantize`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo quantize runs/quickstart --out runs/quickstart-int8\n  nerzoo zoo quantize gum-nested \
                  --out model-zoo/models/gum-nested-int8 --check gum-open:test --tolerance 0.3"
)]
pub struct Quantize {
    /// A finished run, or a model by name or folder.
    #[arg(value_name = "RUN|MODEL")]
    model: String,
    /// The new folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The sentences to compare F1 on: a file, CORPUS or CORPUS:SPLIT [default: the corpus of the model's recipe].
    #[arg(long, value_name = "CORPUS|FILE")]
    check: Option<String>,
    /// Do not compare F1: the card has no scores.
    #[arg(long, conflicts_with_all = ["check", "tolerance"])]
    no_check: bool,
    /// Largest loss of F1, in points of percent.
    #[arg(long, default_value_t = TOLERANCE, value_name = "POINTS")]
    tolerance: f64,
    /// Replace the folder if there is one.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    download: HubArgs,
}

impl Quantize {
    /// Quantises the model; fails if its F1 falls by more than the tolerance.
    pub fn run(self) -> Result<ExitCode> {
        let source = Zoo::with_hub(self.download.hub(None)).find(&self.model)?;
        let check = match self.check {
            None if self.no_check => Check::None,
            None => Check::OwnCorpus,
            Some(given) => {
                let options = ReadOptions::default();
                let gold = self.corpora.sentences(&given, Some("test"), &options)?;
                Check::Sentences(given, gold)
            }
        };
        let options = QuantizeOptions {
            out: self.out,
            check,
            tolerance: self.tolerance,
            roots: self.corpora.roots(),
            force: self.force,
        };
        let spinner = Spinner::start("quantising");
        let quantized = quantize(&source, &options, &|step| spinner.set(step))?;
        spinner.stop();
        for note in &quantized.notes {
            tracing::warn!("{note}");
        }
        let [before, after] = quantized.bytes.map(megabytes);
        println!("weights: {before} before, {after} after");
        if let Some((what, [before, after])) = &quantized.scores {
            let (before, after) = (100.0 * before, 100.0 * after);
            println!("F1 on {what}: {before:.2} before, {after:.2} after");
        }
        println!("quantised: {}", quantized.folder.display());
        Ok(ExitCode::SUCCESS)
    }
}
