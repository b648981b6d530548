//! `nerzoo zoo verify`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::cli::{CorpusArgs, DeviceArgs};
use crate::data::ReadOptions;
use crate::zoo::Zoo;
use crate::zoo::score;
use crate::zoo::verify::verify;

/// Arguments of `zoo verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo verify gum-nested\n  nerzoo zoo verify --all --score"
)]
pub struct Verify {
    /// Models by name, folder or address.
    #[arg(required_unless_present = "all", value_name = "MODEL")]
    models: Vec<String>,
    /// All models that `zoo list` shows.
    #[arg(long, conflicts_with = "models")]
    all: bool,
    /// Also tag the corpus again and compare F1 with that of the card.
    #[arg(long)]
    score: bool,
    /// Largest difference of F1, in points of percent.
    #[arg(long, default_value_t = 0.1, value_name = "POINTS", requires = "score", value_parser = super::amount)]
    tolerance: f64,
    /// The sentences to score instead of those of the model's recipe: a file, or CORPUS:SPLIT.
    #[arg(long, value_name = "FILE", requires = "score", conflicts_with = "all")]
    gold: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    download: HubArgs,
}

impl Verify {
    /// Checks the models; fails if one of them is not as it was published.
    pub fn run(self) -> Result<ExitCode> {
        let zoo = Zoo::with_hub(self.download.hub(None));
        let mut folders: Vec<(String, PathBuf)> = Vec::new();
        if self.all {
            folders.extend(
                zoo.models()
                    .into_iter()
                    .map(|model| (model.name, model.folder)),
            );
        }
        for name in &self.models {
            folders.push((name.clone(), zoo.find(name)?));
        }
        if folders.is_empty() {
            println!("no models on this machine");
        }
        let mut bad = 0;
        for (name, folder) in &folders {
            if let Err(problem) = self.one(name, folder) {
                eprintln!("{name}: FAILED: {problem:#}");
                bad += 1;
            }
        }
        if bad > 0 {
            bail!("{bad} of {} models failed", folders.len());
        }
        Ok(ExitCode::SUCCESS)
    }

    fn one(&self, name: &str, folder: &Path) -> Result<()> {
        let spinner = Spinner::start(&format!("{name}: hashing"));
        let verified = verify(folder)?;
        spinner.stop();
        if verified.card_is_edited {
            bail!(
                "its README.md differs from the manifest's: the card was edited since the model was published"
            );
        }
        println!(
            "{name}: {} files, {} as in the manifest; {} values in {} tensors, {}",
            verified.manifest.files().count(),
            megabytes(verified.bytes),
            verified.weights.values,
            verified.weights.tensors,
            verified.weights.precision
        );
        if !self.score {
            return Ok(());
        }
        let spinner = Spinner::start(&format!("{name}: scoring"));
        let gold = match &self.gold {
            Some(gold) => Some(
                self.corpora
                    .sentences(gold, None, &ReadOptions::default())?,
            ),
            None => None,
        };
        let scored = score::rescore(folder, &self.device.device()?, &self.corpora.roots(), gold)?;
        spinner.stop();
        scored.compare(self.tolerance / 100.0)?;
        println!("{name}: {scored}");
        Ok(())
    }
}
