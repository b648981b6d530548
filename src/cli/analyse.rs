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
    #[arg(long, default_value_t = 1000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
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

/// Where the mentions of a model come from.
enum Source {
    /// A file that `predict` wrote.
    Predictions(PathBuf),
    /// A model folder.
    Model(PathBuf),
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
        let mut named: Vec<(&str, &str)> = Vec::new();
        for model in &self.models {
            let Some(pair) = model.split_once('=') else {
                bail!("{model}: write a name and a model, such as base=runs/base");
            };
            named.push(pair);
        }
        self.check_names(&named.iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
        let mut sources = Vec::new();
        for (name, given) in named {
            let source = self
                .source(given)
                .with_context(|| format!("model {name}"))?;
            sources.push((name, source));
        }
        let model = sources.iter().find_map(|(name, source)| match source {
            Source::Model(folder) => Some((name, folder)),
            Source::Predictions(_) => None,
        });
        let options = match model {
            Some((name, folder)) => {
                (self.format.options_as_trained(folder)).with_context(|| format!("model {name}"))?
            }
            None => self.format.options(),
        };
        let train = self.corpora.sentences(&self.train, None, &options)?;
        let gold = self.corpora.sentences(&self.gold, None, &options)?;
        let mut models = Vec::new();
        for (name, source) in sources {
            let found = self
                .mentions(name, &source, &gold)
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

    /// A file of predictions, or the folder of a model that is given by its path, name or address.
    fn source(&self, given: &str) -> Result<Source> {
        let path = Path::new(given);
        if path.is_file() {
            return Ok(Source::Predictions(path.to_path_buf()));
        }
        let zoo = Zoo::with_hub(self.hub.hub(None));
        Ok(Source::Model(zoo.find(given)?))
    }

    /// The predictions of a model, or those in a file.
    fn mentions(
        &self,
        name: &str,
        source: &Source,
        gold: &[Sentence],
    ) -> Result<Vec<Vec<Mention>>> {
        let overrides = self.overrides(name)?;
        let model = match source {
            Source::Predictions(path) if !overrides.is_empty() => {
                bail!(
                    "--set needs a model folder; {} holds predictions",
                    path.display()
                )
            }
            Source::Predictions(path) => return Ok(predictions::read(path, gold)?),
            Source::Model(folder) => folder,
        };
        let device = self.device.device()?;
        let tagger = registry::load(model, &device, &overrides)?;
        warn_about_unknown_types(model, tagger.labels(), gold);
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
