//! `nerzoo zoo import`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::progress::Spinner;
use crate::zoo::import::{ReleasedOptions, import_released, import_transformers};
use crate::zoo::summary::ModelSummary;

/// Arguments of `zoo import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo import --from transformers hf:dslim/bert-base-NER --out models/bert-ner\n  \
                  nerzoo zoo import --from released --head NAME data/genia/final_model --config genia.conf \
                  --types genia_types.json --out models/genia\n\nSpanMarker and GLiNER models are not supported."
)]
pub struct Import {
    /// The program that the model was made for.
    #[arg(long, value_enum)]
    from: Program,
    /// A folder, or hf:OWNER/NAME[@REVISION]; with --from released a file of PyTorch or safetensors, or a folder with one.
    #[arg(value_name = "MODEL")]
    model: String,
    /// With --from released: the head; `nerzoo heads` lists them.
    #[arg(long, required_if_eq("from", "released"))]
    head: Option<String>,
    /// With --from released: the settings of the authors' program, as JSON or as lines `key = value`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// With --from released: the entity types in the order of their numbers, as a JSON list or as the file that the authors'
    /// program reads or writes.
    #[arg(long, value_name = "FILE")]
    types: Option<PathBuf>,
    /// With --from released: the encoder's folder or name, for its sizes and tokenizer [default: what the settings name].
    #[arg(long, value_name = "DIR|NAME")]
    encoder: Option<String>,
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
    /// The program of a paper's authors.
    Released,
}

impl Import {
    /// Imports the model.
    pub fn run(self) -> Result<ExitCode> {
        let hub = self.download.hub(None);
        let spinner = Spinner::start("importing");
        let facts = match self.from {
            Program::Transformers => {
                let others = [
                    ("--head", self.head.is_some()),
                    ("--config", self.config.is_some()),
                    ("--types", self.types.is_some()),
                    ("--encoder", self.encoder.is_some()),
                ];
                if let Some((name, _)) = others.iter().find(|(_, is_given)| *is_given) {
                    anyhow::bail!("{name} is for --from released; leave it out");
                }
                import_transformers(&self.model, &hub, &self.out, self.force)?
            }
            Program::Released => {
                let options = ReleasedOptions {
                    head: self.head.unwrap_or_default(),
                    checkpoint: self.model.into(),
                    config: self.config,
                    types: self.types,
                    encoder: self.encoder,
                };
                import_released(&options, &hub, &self.out, self.force)?
            }
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
