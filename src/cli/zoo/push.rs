//! `nerzoo zoo push`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::hub::RepoId;
use crate::zoo::Zoo;
use crate::zoo::push::plan;

/// Arguments of `zoo push`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo push gum-nested hf:owner/gum-nested --dry-run\n  nerzoo zoo push gum-nested \
                  hf:owner/gum-nested --private --message 'First version'"
)]
pub struct Push {
    /// A model by name or folder.
    #[arg(value_name = "MODEL")]
    model: String,
    /// The repository, which is made if it does not exist; @BRANCH for another branch than main.
    #[arg(value_name = "hf:OWNER/NAME")]
    to: String,
    /// Make the repository private. One that exists stays as it is.
    #[arg(long)]
    private: bool,
    /// Print the files of the commit and send nothing.
    #[arg(long)]
    dry_run: bool,
    /// The message of the commit [default: the model's name].
    #[arg(long, short = 'M', value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    download: HubArgs,
}

impl Push {
    /// Pushes the model.
    pub fn run(self) -> Result<ExitCode> {
        let Some(name) = self.to.strip_prefix("hf:") else {
            bail!("{}: the repository is written hf:OWNER/NAME", self.to);
        };
        let id: RepoId =
            (name.parse()).map_err(|problem| anyhow::anyhow!("{}: {problem}", self.to))?;
        if !id.name().contains('/') {
            bail!(
                "{}: a repository to push to has an owner, hf:OWNER/NAME",
                self.to
            );
        }
        let zoo = Zoo::with_hub(self.download.uploading_hub());
        let folder = zoo.find(&self.model)?;
        let spinner = Spinner::start("checking the model");
        let plan = plan(&folder)?;
        spinner.stop();
        for note in &plan.notes {
            tracing::warn!("{note}");
        }
        if self.dry_run {
            println!("would commit to hf:{id}:");
            for file in &plan.files {
                println!(
                    "  {:<20} {:>12} bytes  {}",
                    file.name, file.size, file.sha256
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
        let model = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let message =
            (self.message).unwrap_or_else(|| format!("Add {}", model.unwrap_or_default()));
        let pushed = zoo.push(&plan, &id, &message, self.private)?;
        let bytes = plan.files.iter().map(|file| file.size).sum();
        println!(
            "pushed: {} files, {} to {} (commit {})\nfetch it with: nerzoo zoo pull hf:{id}",
            plan.files.len(),
            megabytes(bytes),
            pushed.page,
            pushed.commit
        );
        if !pushed.is_new && self.private {
            tracing::warn!("the repository existed already, so --private changed nothing");
        }
        Ok(ExitCode::SUCCESS)
    }
}
