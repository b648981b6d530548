//! `nerzoo evaluate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::{Answer, Place, print_json};
use crate::data::{self, Format, Options, registry};
use crate::device;
use crate::heads::zoo;
use crate::text::Sentence;
use crate::train::launch::evaluate;

/// Arguments of `evaluate`.
#[derive(Debug, Args)]
pub struct Evaluate {
    /// A model's folder, or a run's (its best checkpoint).
    model: PathBuf,
    /// A file with gold entities, or the name of a corpus.
    corpus: String,
    /// The part of a named corpus.
    #[arg(long, default_value = "test")]
    split: String,
    /// The file's format, when it is not recognised.
    #[arg(long)]
    format: Option<Format>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    answer: Answer,
    #[command(flatten)]
    place: Place,
}

impl Evaluate {
    /// Prints the scores.
    pub fn run(self) -> Result<ExitCode> {
        let device = device::parse(&self.place.device)?;
        let sentences = self.sentences()?;
        let tagger = zoo::load(&self.model, &device, &self.answer.knobs())?;
        let report = evaluate(tagger.as_ref(), &sentences)?;
        match self.json {
            true => print_json(&report.to_json())?,
            false => println!("{report}"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn sentences(&self) -> Result<Vec<Sentence>> {
        let path = PathBuf::from(&self.corpus);
        if path.exists() {
            let options = Options {
                format: self.format,
                ..Options::default()
            };
            return Ok(data::read(&path, &options)?);
        }
        let roots = registry::roots(self.place.data.as_deref());
        Ok(registry::find(&self.corpus, &roots)?.load(&self.split)?)
    }
}
