//! `nerzoo zoo export`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::recipe::set::Assignment;
use crate::zoo::Zoo;
use crate::zoo::export::export_transformers;

/// Arguments of `zoo export`.
#[derive(Debug, Args)]
#[command(
    after_help = "Only taggers that choose the tag of each word by itself, from the word's first piece, can be exported \
                  (head.decoder = \"softmax\", encoder.pooling = \"first\"). Export to ONNX is not supported.\n\nExamples:\n  \
                  nerzoo zoo export runs/mine --to transformers --out exported\n  \
                  nerzoo zoo export names-en --to transformers --out exported --force"
)]
pub struct Export {
    /// A model by name or folder.
    #[arg(value_name = "MODEL")]
    model: String,
    /// The program to export for.
    #[arg(long, value_enum)]
    to: Target,
    /// The folder to write.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace a setting of the head, such as head.combiner=lenient.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Replace a model that is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    download: HubArgs,
}

/// A program that models can be exported for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    /// The transformers library: a folder for pipeline("token-classification", DIR, aggregation_strategy="first").
    Transformers,
    /// Not supported: export to transformers, and convert that folder.
    Onnx,
}

impl Export {
    /// Exports the model.
    pub fn run(self) -> Result<ExitCode> {
        let folder = Zoo::with_hub(self.download.hub(None)).find(&self.model)?;
        let sets: crate::error::Result<Vec<Assignment>> = self
            .sets
            .iter()
            .map(|text| Assignment::parse(text))
            .collect();
        let spinner = Spinner::start("exporting");
        match self.to {
            Target::Transformers => export_transformers(&folder, &sets?, &self.out, self.force)?,
            Target::Onnx => anyhow::bail!(
                "export to ONNX is not supported; export with --to transformers, and convert that folder, for example with \
                 `optimum-cli export onnx --model DIR --task token-classification OUT`"
            ),
        }
        spinner.stop();
        println!(
            "exported: {0}\ntry it in Python: pipeline(\"token-classification\", {0:?}, aggregation_strategy=\"first\")",
            self.out.display().to_string()
        );
        Ok(ExitCode::SUCCESS)
    }
}
