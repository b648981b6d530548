//! `nerzoo analyse`: why one model beats another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::Place;
use super::reading::Reading;
use crate::data::{self, datasets};
use crate::error;
use crate::eval::analysis::{self, Analysis};
use crate::eval::predictions;
use crate::files::write_atomic;
use crate::registry;
use crate::text::{Mention, Sentence};

/// Arguments of `analyse`.
#[derive(Debug, Args)]
pub struct Analyse {
    /// Training sentences: a file, or CORPUS:SPLIT such as wnut17:train.
    #[arg(long, value_name = "FILE")]
    train: String,
    /// Gold sentences: a file, or CORPUS:SPLIT such as wnut17:test.
    #[arg(long, value_name = "FILE")]
    gold: String,
    /// A name and the model's folder, or a file that `predict` wrote for the gold sentences; a bundle's other head
    /// is FOLDER:seq or FOLDER:span.
    #[arg(required = true, value_name = "NAME=MODEL_OR_PREDICTIONS")]
    models: Vec<String>,
    /// The model the others are compared with [default: the first].
    #[arg(long, value_name = "NAME")]
    standard: Option<String>,
    /// The report; the same as JSON goes beside it.
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    out: PathBuf,
    /// Times the sentences are drawn anew for the confidence of differences.
    #[arg(long, default_value_t = 1000)]
    resamples: usize,
    /// The same seed draws the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sentences with the most errors to show; 0 for a report without any text of the corpus.
    #[arg(long, default_value_t = 20)]
    worst: usize,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    place: Place,
}

impl Analyse {
    /// Analyses, prints the tables and writes the report.
    pub fn run(self) -> Result<ExitCode> {
        let json = self.out.with_extension("json");
        if json == self.out {
            bail!("--out names the HTML report; its JSON gets the same name ending in .json");
        }
        let folder = self
            .out
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!(
                "{}: no such folder to write the report into",
                folder.display()
            );
        }
        let train = self.sentences(&self.train)?;
        let gold = self.sentences(&self.gold)?;
        let mut models = Vec::new();
        for model in &self.models {
            let Some((name, path)) = model.split_once('=') else {
                bail!("{model}: write a name and a model, such as base=runs/base");
            };
            let found = self
                .mentions(path, &gold)
                .with_context(|| format!("model {name}"))?;
            models.push((name.to_string(), found));
        }
        let options = analysis::Options {
            resamples: self.resamples,
            seed: self.seed,
            worst: self.worst,
        };
        let analysis = Analysis::new(&train, &gold, models, self.standard.as_deref(), options)?;
        println!("{analysis}");
        put(&self.out, &analysis.to_html())?;
        put(&json, &format!("{:#}\n", analysis.to_json()))?;
        println!("\nwritten: {} and {}", self.out.display(), json.display());
        Ok(ExitCode::SUCCESS)
    }

    fn sentences(&self, place: &str) -> Result<Vec<Sentence>> {
        let path = Path::new(place);
        if path.exists() {
            let options = self.reading.options();
            return Ok(data::read(path, &options)?);
        }
        let Some((corpus, split)) = place.split_once(':') else {
            bail!(
                "{place}: no such file; a named corpus is written CORPUS:SPLIT, such as wnut17:test"
            );
        };
        let roots = datasets::roots(self.place.data.as_deref());
        Ok(datasets::find(corpus, &roots)?.load(split)?)
    }

    /// What a model finds, or what a file says it found.
    fn mentions(&self, place: &str, gold: &[Sentence]) -> error::Result<Vec<Vec<Mention>>> {
        let (path, head) = match place.rsplit_once(':') {
            Some((path, head @ ("seq" | "span"))) => (Path::new(path), Some(head)),
            _ => (Path::new(place), None),
        };
        if path.is_file() {
            return predictions::read(path, gold);
        }
        let device = self.place.on.device()?;
        let knobs = head
            .map(|head| ("output".to_string(), head.into()))
            .into_iter()
            .collect();
        let tagger = registry::load(path, &device, &knobs)?;
        let mut gold = gold.to_vec();
        data::link_context(&mut gold, tagger.context());
        tagger.tag(&gold)
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    Ok(write_atomic(path, text.as_bytes())?)
}
