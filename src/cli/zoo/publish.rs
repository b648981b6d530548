//! `nerzoo zoo publish`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::cli::{CorpusArgs, DeviceArgs};
use crate::zoo::Zoo;
use crate::zoo::publish::{PublishOptions, WeightsFormat, publish};
use crate::zoo::quantize::TOLERANCE;

/// Arguments of `zoo publish`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo publish runs/quickstart --name quickstart --half\n  nerzoo zoo publish runs/gum \
                  --name gum-nested --base-model sentence-transformers/all-MiniLM-L6-v2 --encoder-licence Apache-2.0"
)]
pub struct Publish {
    /// A finished run, or a model by name or folder.
    #[arg(value_name = "RUN|MODEL")]
    model: String,
    /// The name of the published model.
    #[arg(long)]
    name: String,
    /// The folder that gets a folder of this name; its parent's index.json is written if it is called `models`.
    #[arg(long, default_value = "model-zoo/models", value_name = "DIR")]
    to: PathBuf,
    /// Store the weights as 16-bit floats.
    #[arg(long)]
    half: bool,
    /// Store the encoder's weights in eight bits, if F1 stays; as `zoo quantize` does.
    #[arg(long, conflicts_with = "half")]
    int8: bool,
    /// Largest loss of F1 by weights in eight bits, in points of percent.
    #[arg(long, default_value_t = TOLERANCE, value_name = "POINTS", requires = "int8")]
    tolerance: f64,
    /// The encoder's name on the hub, if the run does not know it.
    #[arg(long, value_name = "OWNER/NAME")]
    base_model: Option<String>,
    /// The encoder's licence, if the recipe does not give it.
    #[arg(long, alias = "encoder-license", value_name = "TEXT")]
    encoder_licence: Option<String>,
    /// The licence identifier in the card's metadata, such as cc-by-4.0 [default: other].
    #[arg(long, alias = "license", value_name = "ID")]
    licence: Option<String>,
    /// Do not tag the corpus again: the card has the run's scores, without interval and kinds of errors.
    #[arg(long)]
    no_score: bool,
    /// Bootstrap resamples for the interval of F1.
    #[arg(long, default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    resamples: usize,
    /// Replace a published model of this name.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    download: HubArgs,
}

impl Publish {
    /// Publishes the model.
    pub fn run(self) -> Result<ExitCode> {
        let source = Zoo::with_hub(self.download.hub(None)).find(&self.model)?;
        let options = PublishOptions {
            name: self.name,
            to: self.to,
            weights: match (self.half, self.int8) {
                (true, _) => WeightsFormat::Half,
                (false, true) => WeightsFormat::Int8,
                (false, false) => WeightsFormat::AsTrained,
            },
            tolerance: self.tolerance,
            base_model: self.base_model,
            encoder_licence: self.encoder_licence,
            licence: self.licence,
            score: !self.no_score,
            resamples: self.resamples,
            roots: self.corpora.roots(),
            device: self.device.device()?,
            force: self.force,
        };
        let spinner = Spinner::start("publishing");
        let published = publish(&source, &options, &|step| spinner.set(step))?;
        spinner.stop();
        for note in &published.notes {
            tracing::warn!("{note}");
        }
        let summary = &published.summary;
        let f1 = summary.f1.map_or(String::new(), |f1| {
            let split = summary.split.as_deref().unwrap_or_default();
            format!(", F1 {:.2} on {split}", 100.0 * f1)
        });
        println!(
            "published: {} ({}, {}{f1})\ntry it: echo 'some text' | nerzoo predict --model {} -",
            published.folder.display(),
            megabytes(summary.size),
            summary.precision,
            published.folder.display(),
        );
        Ok(ExitCode::SUCCESS)
    }
}
