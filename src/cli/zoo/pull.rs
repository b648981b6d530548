//! `nerzoo zoo pull`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::zoo::Zoo;
use crate::zoo::limits::LARGEST_MODEL;
use crate::zoo::pull::PullOptions;
use crate::zoo::source::Source;

/// Arguments of `zoo pull`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo pull hf:owner/gum-nested\n  nerzoo zoo pull https://example.org/models/mine.tar.gz \
                  --name mine"
)]
pub struct Pull {
    /// hf:OWNER/NAME[@REVISION], the http(s) address of a model folder or of a .tar.gz or .tar.zst archive, or a folder.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The name of the model here [default: the last part of the source].
    #[arg(long)]
    name: Option<String>,
    /// The folder that gets a folder of this name [default: models in the cache].
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Replace a model of this name that comes from elsewhere.
    #[arg(long)]
    force: bool,
    /// Largest model that is fetched, in gigabytes.
    #[arg(long, default_value_t = LARGEST_MODEL as f64 / 1e9, value_name = "GB", value_parser = super::amount)]
    max_size: f64,
    #[command(flatten)]
    download: HubArgs,
}

impl Pull {
    /// Fetches the model.
    pub fn run(self) -> Result<ExitCode> {
        let zoo = Zoo::with_hub(self.download.hub(None));
        let source = Source::parse(&self.source)?;
        let options = PullOptions {
            name: self.name,
            to: self.to,
            force: self.force,
            largest: (self.max_size * 1e9) as u64,
        };
        let pulled = zoo.pull(&source, &options)?;
        println!(
            "fetched: {} ({}, hashes checked) into {}\ntry it: echo 'some text' | nerzoo predict --model {} -",
            pulled.name,
            megabytes(pulled.verified.bytes),
            pulled.folder.display(),
            if options.to.is_some() {
                pulled.folder.display().to_string()
            } else {
                pulled.name.clone()
            }
        );
        Ok(ExitCode::SUCCESS)
    }
}
