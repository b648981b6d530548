//! `nerzoo analyse`: why one model beats another.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::format::FormatArgs;
use super::hub::HubArgs;
use super::{CorpusArgs, DeviceArgs, warn_about_unknown_types};
use crate::data;
use crate::eval::analysis::{self, Analysis};
use crate::eval::predictions;
use crate::files::write_atomic;
use crate::recipe::set::Assignment;
use crate::registry;
use crate::text::{Mention, Sentence};
use crate::zoo::Zoo;

/// Arguments of `analyse`.
#[derive(Debug, Args)]
pub struct Analyse {
    /// Training sentences: a file, or CORPUS:SPLIT such as wnut17:train.
    #[arg(long, value_name = "FILE")]
    train: String,
    /// Gold sentences: a file, or CORPUS:SPLIT such as wnut17:test.
    #[arg(long, value_name = "FILE")]
    gold: String,
    /// A name for the report, and a model (a folder, a name of the zoo, hf:OWNER/NAME or an http(s) address) or a file that
    /// `predict` wrote for the gold sentences.
    #[arg(required = true, value_name = "NAME=MODEL_OR_PREDICTIONS")]
    models: Vec<String>,
    /// The model the others are compared with [default: the first].
    #[arg(long, alias = "standard", value_name = "NAME")]
    baseline: Option<String>,
    /// The HTML report; the same as JSON is written beside it.
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    out: PathBuf,
    /// Overwrite existing reports.
    #[arg(long)]
    force: bool,
    /// Bootstrap resamples for the confidence intervals of differences.
    #[arg(long, default_value_t = 1000)]
    resamples: usize,
    /// Random seed of the bootstrap.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sentences with the most errors to show; 0 for a report without any text of the corpus.
    #[arg(long, default_value_t = 20)]
    worst: usize,
    #[command(flatten)]
    format: FormatArgs,
    /// Use another value for a setting of a model's head: NAME:head.KEY=VALUE for one model, such as
    /// other:head.output=seq, or head.KEY=VALUE for all; may be repeated.
    #[arg(long = "set", value_name = "[NAME:]head.KEY=VALUE")]
    sets: Vec<String>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    hub: HubArgs,
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
        if let Some(path) = [&self.out, &json]
            .into_iter()
            .find(|path| path.exists() && !self.force)
        {
            bail!(
                "{} exists; choose another --out, or overwrite it with --force",
                path.display()
            );
        }
        let train = self.sentences(&self.train)?;
        let gold = self.sentences(&self.gold)?;
        let mut named: Vec<(&str, &Path)> = Vec::new();
        for model in &self.models {
            let Some((name, path)) = model.split_once('=') else {
                bail!("{model}: write a name and a model, such as base=runs/base");
            };
            named.push((name, Path::new(path)));
        }
        self.check_names(&named.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let mut models = Vec::new();
        for (name, path) in named {
            let found = self
                .mentions(name, path, &gold)
                .with_context(|| format!("model {name}"))?;
            models.push((name.to_string(), found));
        }
        let options = analysis::AnalysisOptions {
            resamples: self.resamples,
            seed: self.seed,
            worst: self.worst,
        };
        let analysis = Analysis::new(&train, &gold, models, self.baseline.as_deref(), options)?;
        println!("{analysis}");
        put(&self.out, &analysis.to_html())?;
        put(&json, &format!("{:#}\n", analysis.to_json()))?;
        println!("\nwritten: {} and {}", self.out.display(), json.display());
        Ok(ExitCode::SUCCESS)
    }

    fn sentences(&self, source: &str) -> Result<Vec<Sentence>> {
        self.corpora.sentences(source, None, &self.format.options())
    }

    /// The predictions of a model, or those in a file.
    fn mentions(&self, name: &str, path: &Path, gold: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
        let overrides = self.overrides(name)?;
        if path.is_file() {
            if !overrides.is_empty() {
                bail!(
                    "--set needs a model folder; {} holds predictions",
                    path.display()
                );
            }
            return Ok(predictions::read(path, gold)?);
        }
        let device = self.device.device()?;
        let model = Zoo::with_hub(self.hub.hub(None)).find(&path.to_string_lossy())?;
        let tagger = registry::load(&model, &device, &overrides)?;
        warn_about_unknown_types(&model, tagger.labels(), gold);
        let mut gold = gold.to_vec();
        data::link_context(&mut gold, tagger.context());
        Ok(tagger.tag(&gold)?)
    }

    /// The settings of one model.
    fn overrides(&self, name: &str) -> Result<Vec<Assignment>> {
        let own = self.sets.iter().filter_map(|set| match prefix(set) {
            Some((model, set)) => (model == name).then_some(set),
            None => Some(set.as_str()),
        });
        own.map(|set| Ok(Assignment::parse(set)?)).collect()
    }

    /// Fails when `--set` names a model that is not given.
    fn check_names(&self, names: &[&str]) -> Result<()> {
        for (name, _) in self.sets.iter().filter_map(|set| prefix(set)) {
            if !names.contains(&name) {
                bail!(
                    "--set {name}:...: there is no model {name}; given are {}",
                    names.join(", ")
                );
            }
        }
        Ok(())
    }
}

/// Splits `NAME:head.KEY=VALUE` into the model's name and the rest.
fn prefix(set: &str) -> Option<(&str, &str)> {
    let (key, _) = set.split_once('=').unwrap_or((set, ""));
    let (name, _) = key.split_once(':')?;
    Some((name, &set[name.len() + 1..]))
}

fn put(path: &Path, text: &str) -> Result<()> {
    Ok(write_atomic(path, text.as_bytes())?)
}
