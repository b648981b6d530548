//! `nerzoo data`: check, stats, convert, split, make.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use super::format::FormatArgs;
use super::print_json;
use crate::data::{
    self, Format, ReadOptions, TagScheme, check, datasets, split, stats, synthetic, write,
};
use crate::error::Error;
use crate::registry;

/// Arguments of `data`.
#[derive(Debug, Args)]
pub struct Data {
    #[command(subcommand)]
    verb: DataCommand,
}

#[derive(Debug, Subcommand)]
enum DataCommand {
    /// List problems and likely mistakes with their lines, and the share of the entities that each head can find.
    Check(Check),
    /// Count sentences, words, entities, types and nesting.
    Stats(Stats),
    /// Write a corpus in another format.
    Convert(Convert),
    /// Split a corpus by document, reproducibly for a given seed.
    Split(Split),
    /// Generate the synthetic nested corpus.
    Make(Make),
}

#[derive(Debug, Args)]
struct Check {
    /// Corpus files, those of all splits together, or a named corpus as NAME or NAME:SPLIT. Sentences that occur in two of them
    /// are reported.
    #[arg(required_unless_present = "expect")]
    files: Vec<PathBuf>,
    /// Compare a dataset, given by name, with the counts and hashes recorded in its dataset.toml.
    #[arg(long, value_name = "NAME")]
    expect: Option<String>,
    /// Folder of datasets by name; searched before NERZOO_DATA and ./datasets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write a mended copy: a file, or for several files a folder. Every change is listed in OUT.changes.jsonl.
    #[arg(long, value_name = "OUT", requires = "files")]
    fix: Option<PathBuf>,
    /// With --fix: remove sentences that occur in several files from all but the smallest of them, which is rarely the
    /// training file.
    #[arg(long, requires = "fix")]
    fix_leaks: bool,
    /// With --fix: overwrite existing files.
    #[arg(long, requires = "fix")]
    force: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
struct Stats {
    /// Corpus files, counted together.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
struct Convert {
    /// The corpus file.
    from: PathBuf,
    /// The file to write.
    to: PathBuf,
    /// The format to write: tokens_jsonl, text_jsonl, columns, spert, w2ner or text.
    #[arg(long, default_value = "tokens_jsonl", value_name = "FORMAT")]
    into: Format,
    /// The tagging scheme of a column file to write: iob1, iob2, bioes or bmes.
    #[arg(long, default_value = "iob2", value_name = "SCHEME")]
    into_scheme: TagScheme,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
struct Split {
    /// The corpus file.
    file: PathBuf,
    /// The folder for the parts, which are written as <NAME>.jsonl.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Names of the parts and their shares of the sentences.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "train=0.8,dev=0.1,test=0.1",
        value_name = "NAME=SHARE"
    )]
    parts: Vec<String>,
    /// Random seed; the same seed gives the same split.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Debug, Args)]
struct Make {
    /// The folder for train.jsonl, dev.jsonl and test.jsonl.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of training sentences.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().train)]
    train: usize,
    /// Number of dev sentences.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().dev)]
    dev: usize,
    /// Number of test sentences.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().test)]
    test: usize,
    /// Random seed; the same seed gives the same corpus.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().seed)]
    seed: u64,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
}

impl Data {
    /// Runs the subcommand.
    pub fn run(self) -> Result<ExitCode> {
        match self.verb {
            DataCommand::Check(verb) => verb.run(),
            DataCommand::Stats(verb) => verb.run(),
            DataCommand::Convert(verb) => verb.run(),
            DataCommand::Split(verb) => verb.run(),
            DataCommand::Make(verb) => verb.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<ExitCode> {
        let mut valid = true;
        if let Some(name) = &self.expect {
            let dataset = datasets::find(name, &datasets::roots(self.data.as_deref()))?;
            let verification = datasets::verify(&dataset)?;
            if self.json {
                print_json(&serde_json::to_value(&verification)?)?
            } else {
                println!("{verification}")
            }
            valid = verification.ok();
        }
        if !self.files.is_empty() {
            valid &= self.check_files()?;
        }
        Ok(if valid {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Check {
    /// Checks the files, and mends them if asked to. True when they, or the mended copies, are valid.
    fn check_files(&self) -> Result<bool> {
        let (files, options) = self.sources()?;
        let bar = progress_bar(&files);
        let mut report =
            check::check_with_progress(&files, &options, &mut |bytes| bar.set_position(bytes));
        bar.finish_and_clear();
        if report.entities > 0 {
            match registry::reach(&report.counts.stats()) {
                Ok(heads) => {
                    for (head, reach) in heads {
                        report.add_head(head, reach);
                    }
                }
                Err(problem) => tracing::warn!("what each head can reach is not known: {problem}"),
            }
        }
        let fixed = match &self.fix {
            Some(out) => Some(check::fix::fix(
                &files,
                &options,
                &check::fix::FixOptions {
                    out: out.clone(),
                    leaks: self.fix_leaks,
                    force: self.force,
                },
            )),
            None => None,
        };
        if self.json {
            let mut all = serde_json::to_value(&report)?;
            if let Some(Ok(fixed)) = &fixed {
                all["fix"] = serde_json::to_value(fixed)?;
            }
            print_json(&all)?;
        } else {
            println!("{report}");
        }
        let Some(fixed) = fixed.transpose()? else {
            return Ok(report.is_valid());
        };
        if !self.json {
            println!("{fixed}");
        }
        Ok(fixed.remaining.is_valid())
    }

    /// The files, with those of a named corpus in place of its name, and how to read them.
    fn sources(&self) -> Result<(Vec<PathBuf>, ReadOptions)> {
        let mut options = self.format.options();
        let mut files = Vec::new();
        for file in &self.files {
            let name = file.to_string_lossy();
            let (corpus, split) = name
                .split_once(':')
                .map_or((&*name, None), |(corpus, split)| (corpus, Some(split)));
            let is_name = !file.exists() && !corpus.contains(['/', '.', std::path::MAIN_SEPARATOR]);
            let roots = datasets::roots(self.data.as_deref());
            let Some(dataset) = is_name
                .then(|| datasets::find(corpus, &roots))
                .transpose()?
            else {
                files.push(file.clone());
                continue;
            };
            let mut splits: Vec<&str> =
                split.map_or_else(|| dataset.splits().collect(), |split| vec![split]);
            // The types of the others are compared with those of the first.
            splits.sort_by_key(|split| *split != "train");
            for split in splits {
                let new = dataset
                    .files(split)?
                    .into_iter()
                    .filter(|path| !files.contains(path));
                let new: Vec<PathBuf> = new.collect();
                files.extend(new);
            }
            if options.are_of_any_file() {
                let skip_bad = options.skip_bad;
                options = dataset.options();
                options.skip_bad = skip_bad;
            }
        }
        Ok((files, options))
    }
}

/// A progress bar on standard error for large files.
fn progress_bar(files: &[PathBuf]) -> ProgressBar {
    const LARGE: u64 = 20_000_000;
    let bytes = files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len());
    let total = bytes.sum();
    if total < LARGE || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{spinner} {bar:40} {bytes}/{total_bytes} read  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

impl Stats {
    fn run(self) -> Result<ExitCode> {
        let sentences = data::read_many(&self.files, &self.format.options())?;
        let stats = stats::Stats::of(&sentences);
        if self.json {
            print_json(&serde_json::to_value(&stats)?)?
        } else {
            println!("{stats}")
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Convert {
    fn run(self) -> Result<ExitCode> {
        if self.to.exists() && !self.force {
            bail!(
                "{} exists; choose another name, or overwrite it with --force",
                self.to.display()
            );
        }
        let sentences = data::read(&self.from, &self.format.options())?;
        let summary = write::to_file(&self.to, &sentences, self.into, self.into_scheme)?;
        println!(
            "{}: {} sentences, {} entities as {}",
            self.to.display(),
            summary.sentences,
            summary.entities,
            self.into
        );
        if summary.left_out > 0 {
            println!(
                "{} entities were lost, because this format cannot represent them; tokens_jsonl keeps everything",
                summary.left_out
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Split {
    fn run(self) -> Result<ExitCode> {
        let mut names = Vec::new();
        let mut shares = Vec::new();
        for part in &self.parts {
            match part
                .split_once('=')
                .map(|(name, share)| (name, share.parse::<f64>()))
            {
                Some((name, Ok(share))) if is_file_name(name) => {
                    names.push(name);
                    shares.push(share);
                }
                _ => bail!("--parts {part}: expected a name and a share, such as train=0.8"),
            }
        }
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                bail!("--parts has {name} twice; give every part another name");
            }
            let path = self.out.join(format!("{name}.jsonl"));
            if path.exists() && !self.force {
                bail!(
                    "{} exists; choose another --out, or overwrite it with --force",
                    path.display()
                );
            }
        }
        let sentences = data::read(&self.file, &self.format.options())?;
        let parts = split::split(sentences, &shares, self.seed)?;
        std::fs::create_dir_all(&self.out).map_err(|source| Error::io(&self.out, source))?;
        for (name, part) in names.iter().zip(parts) {
            let path = self.out.join(format!("{name}.jsonl"));
            write::to_file(&path, &part, Format::TokensJsonl, TagScheme::Iob2)?;
            println!("{}: {} sentences", path.display(), part.len());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// True for a name without folders: a part's name becomes a file name in the output folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && Path::new(name).file_name().is_some_and(|file| file == name)
}

impl Make {
    fn run(self) -> Result<ExitCode> {
        let config = synthetic::SyntheticConfig {
            train: self.train,
            dev: self.dev,
            test: self.test,
            seed: self.seed,
        };
        let existing = synthetic::FILES
            .iter()
            .map(|name| self.out.join(name))
            .find(|path| path.exists());
        if let Some(path) = existing
            && !self.force
        {
            bail!(
                "{} exists; choose another --out, or overwrite it with --force",
                path.display()
            );
        }
        synthetic::write(&self.out, config)?;
        println!(
            "{} + {} + {} sentences written to {}",
            self.train,
            self.dev,
            self.test,
            self.out.display()
        );
        Ok(ExitCode::SUCCESS)
    }
}
