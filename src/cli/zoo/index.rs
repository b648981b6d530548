//! `nerzoo zoo index`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::zoo::index::{FILE, Index};

/// Arguments of `zoo index`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo index --default gum-nested\n  nerzoo zoo index --check"
)]
pub struct WriteIndex {
    /// The zoo's folder, with a folder `models` in it.
    #[arg(long, default_value = "model-zoo", value_name = "DIR")]
    zoo: PathBuf,
    /// The model that `nerzoo predict` uses without --model [default: as before].
    #[arg(long, value_name = "NAME")]
    default: Option<String>,
    /// Write nothing; fail if the index differs from the folders.
    #[arg(long)]
    check: bool,
}

impl WriteIndex {
    /// Writes or checks the index.
    pub fn run(self) -> Result<ExitCode> {
        let before = Index::read(&self.zoo);
        let default = match (&self.default, &before) {
            (Some(name), _) => Some(name.clone()),
            (None, Ok(before)) => before.default.clone(),
            (None, Err(_)) => None,
        };
        let index = Index::of_folders(&self.zoo, default)?;
        let path = self.zoo.join(FILE);
        if self.check {
            if before? != index {
                bail!(
                    "{}: it differs from the models in the folder; write it again with `nerzoo zoo index`",
                    path.display()
                );
            }
            println!(
                "{}: {} models, as in the folder",
                path.display(),
                index.models.len()
            );
            return Ok(ExitCode::SUCCESS);
        }
        if !self.zoo.is_dir() {
            bail!(
                "{}: no such folder; name the zoo's folder with --zoo",
                self.zoo.display()
            );
        }
        index.write(&self.zoo)?;
        println!(
            "written: {} ({} models)",
            path.display(),
            index.models.len()
        );
        Ok(ExitCode::SUCCESS)
    }
}
