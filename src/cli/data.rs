//! `nerzoo data`: check, stats, convert, split, make.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::print_json;
use super::reading::Reading;
use crate::data::{self, Format, Scheme, check, datasets, make, split, stats, write};
use crate::error::Error;

/// Arguments of `data`.
#[derive(Debug, Args)]
pub struct Data {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Name every problem with its line, and what share of the entities each kind of model can reach.
    Check(Check),
    /// Count sentences, words, entities, types and nesting.
    Stats(Stats),
    /// Write a corpus in another format.
    Convert(Convert),
    /// Split a corpus by document, the same way for the same seed.
    Split(Split),
    /// Write the synthetic nested corpus.
    Make(Make),
}

#[derive(Debug, Args)]
struct Check {
    /// Corpus files; sentences that stand in two of them are named.
    #[arg(required_unless_present = "expect")]
    files: Vec<PathBuf>,
    /// Compare a corpus, by its name, with the counts and hashes its dataset.toml expects.
    #[arg(long, value_name = "NAME")]
    expect: Option<String>,
    /// A folder with corpora by name; looked in before NERZOO_DATA and ./datasets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Args)]
struct Stats {
    /// Corpus files, counted together.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
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
    /// The scheme of a column file to write.
    #[arg(long, default_value = "iob2", value_name = "SCHEME")]
    into_scheme: Scheme,
    /// Write over an existing file.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Args)]
struct Split {
    /// The corpus file.
    file: PathBuf,
    /// The folder to write the parts into, as <name>.jsonl.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Names and shares of the parts.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "train=0.8,dev=0.1,test=0.1",
        value_name = "NAME=SHARE"
    )]
    parts: Vec<String>,
    /// The same seed splits the same way.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write over existing files.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Args)]
struct Make {
    /// The folder to write train.jsonl, dev.jsonl and test.jsonl into.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Training sentences.
    #[arg(long, default_value_t = make::Plan::default().train)]
    train: usize,
    /// Dev sentences.
    #[arg(long, default_value_t = make::Plan::default().dev)]
    dev: usize,
    /// Test sentences.
    #[arg(long, default_value_t = make::Plan::default().test)]
    test: usize,
    /// The same seed makes the same corpus.
    #[arg(long, default_value_t = make::Plan::default().seed)]
    seed: u64,
    /// Write over existing files.
    #[arg(long)]
    force: bool,
}

impl Data {
    /// Does what is asked.
    pub fn run(self) -> Result<ExitCode> {
        match self.verb {
            Verb::Check(verb) => verb.run(),
            Verb::Stats(verb) => verb.run(),
            Verb::Convert(verb) => verb.run(),
            Verb::Split(verb) => verb.run(),
            Verb::Make(verb) => verb.run(),
        }
    }
}

impl Check {
    fn run(self) -> Result<ExitCode> {
        let mut sound = true;
        if let Some(name) = &self.expect {
            let dataset = datasets::find(name, &datasets::roots(self.data.as_deref()))?;
            let verification = datasets::verify(&dataset)?;
            if self.json {
                print_json(&serde_json::to_value(&verification)?)?
            } else {
                println!("{verification}")
            }
            sound = verification.ok();
        }
        if !self.files.is_empty() {
            let report = check::check(&self.files, &self.reading.options());
            if self.json {
                print_json(&serde_json::to_value(&report)?)?
            } else {
                println!("{report}")
            }
            sound &= report.is_sound();
        }
        Ok(if sound {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

impl Stats {
    fn run(self) -> Result<ExitCode> {
        let sentences = data::read_many(&self.files, &self.reading.options())?;
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
                "{} exists; give another name, or --force to write over it",
                self.to.display()
            );
        }
        let sentences = data::read(&self.from, &self.reading.options())?;
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
                "{} entities cannot be said in this format and are left out; tokens_jsonl keeps everything",
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
                Some((name, Ok(share))) if is_plain(name) => {
                    names.push(name);
                    shares.push(share);
                }
                _ => bail!("--parts {part}: write a name and a share, such as train=0.8"),
            }
        }
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                bail!("--parts names {name} twice");
            }
            let path = self.out.join(format!("{name}.jsonl"));
            if path.exists() && !self.force {
                bail!(
                    "{} exists; give another --out, or --force to write over it",
                    path.display()
                );
            }
        }
        let sentences = data::read(&self.file, &self.reading.options())?;
        let parts = split::split(sentences, &shares, self.seed)?;
        std::fs::create_dir_all(&self.out).map_err(|source| Error::io(&self.out, source))?;
        for (name, part) in names.iter().zip(parts) {
            let path = self.out.join(format!("{name}.jsonl"));
            write::to_file(&path, &part, Format::TokensJsonl, Scheme::Iob2)?;
            println!("{}: {} sentences", path.display(), part.len());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A part's name becomes a file's name, so it may not wander off.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && Path::new(name).file_name().is_some_and(|file| file == name)
}

impl Make {
    fn run(self) -> Result<ExitCode> {
        let plan = make::Plan {
            train: self.train,
            dev: self.dev,
            test: self.test,
            seed: self.seed,
        };
        let taken = make::FILES
            .iter()
            .map(|name| self.out.join(name))
            .find(|path| path.exists());
        if let (Some(path), false) = (taken, self.force) {
            bail!(
                "{} exists; give another --out, or --force to write over it",
                path.display()
            );
        }
        make::write(&self.out, plan)?;
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
