//! `nerzoo zoo import`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::zoo::import::import_transformers;
use crate::zoo::summary::ModelSummary;

/// Arguments of `zoo import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo import --from transformers hf:dslim/bert-base-NER --out models/bert-ner\n\n\
                  SpanMarker and GLiNER models are not supported."
)]
pub struct Import {
    /// The program that the model was made for.
    #[arg(long, value_enum)]
    from: Program,
    /// A folder, or hf:OWNER/NAME[@REVISION].
    #[arg(value_name = "MODEL")]
    model: String,
    /// The model folder to write.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace a model that is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    download: HubArgs,
}

/// A program whose models can be imported.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Program {
    /// The transformers library: ...ForTokenClassification of BERT, RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA, DistilBERT,
    /// ALBERT, DeBERTa (2 and 3), MPNet and ModernBERT.
    Transformers,
}

impl Import {
    /// Imports the model.
    pub fn run(self) -> Result<ExitCode> {
        let hub = self.download.hub(None);
        let spinner = Spinner::start("importing");
        let facts = match self.from {
            Program::Transformers => import_transformers(&self.model, &hub, &self.out, self.force)?,
        };
        spinner.stop();
        let summary = ModelSummary::read(&self.out, &facts.name)?;
        let licence = facts.licence.as_deref().unwrap_or("not known");
        println!(
            "imported: {} ({}, {} types, licence: {licence}) into {}\ntry it: echo 'some text' | nerzoo predict --model {} -",
            crate::text::visible(&facts.name),
            megabytes(summary.size),
            summary.types.len(),
            self.out.display(),
            self.out.display()
        );
        Ok(ExitCode::SUCCESS)
    }
}
