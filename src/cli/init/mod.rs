//! `nerzoo init`: a commented recipe for the user's own files, with settings from measured results.

mod recipe_text;
mod timing;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::format::FormatArgs;
use super::hub::HubArgs;
use super::{CorpusArgs, DeviceArgs};
use crate::data::{self, datasets, stats::Stats};
use crate::encoder::load;
use crate::files::write_atomic;
use crate::recipe::Recipe;
use crate::recipe::defaults::EncoderSize;
use crate::registry;
use crate::text::{Labels, Sentence};
use recipe_text::RecipeText;

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The head; `nerzoo heads` lists them.
    #[arg(long)]
    head: String,
    /// Files to train on.
    #[arg(long, required_unless_present = "corpus", num_args = 1.., value_name = "FILE")]
    train: Vec<PathBuf>,
    /// Files to choose the best checkpoint with; without any, a tenth of the training sentences is held out.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    dev: Vec<PathBuf>,
    /// Files for the final scores.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    test: Vec<PathBuf>,
    /// A corpus by name, instead of files.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["train", "dev", "test"])]
    corpus: Option<String>,
    /// Train on the first N sentences only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// A pretrained encoder's folder or name; without it one is trained from scratch.
    #[arg(long, value_name = "ENCODER")]
    encoder: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// Where to write the recipe; `-` is standard output.
    #[arg(long, default_value = "recipe.toml", value_name = "FILE")]
    out: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Do not measure how long training will take; this needs about 10 seconds.
    #[arg(long)]
    no_timing: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    hub: HubArgs,
}

/// The sentences of the new recipe.
struct Parts {
    train: Vec<Sentence>,
    dev: Vec<Sentence>,
    test: Vec<Sentence>,
}

impl Init {
    /// Reads the files, measures the speed and writes the recipe.
    pub fn run(self) -> Result<ExitCode> {
        let entry = registry::find(&self.head)?;
        if self.out.exists() && !self.force {
            bail!(
                "{} exists; give another --out, or --force to write over it",
                self.out.display()
            );
        }
        let has_encoder = self.check_encoder()?;
        let parts = self.read()?;
        let stats = Stats::of(&parts.train);
        let size = EncoderSize::of(self.encoder.as_deref());
        let mut text = RecipeText {
            init: &self,
            entry,
            parts: &parts,
            defaults: entry.defaults(&stats, size),
            stats,
            time: None,
        };
        let (recipe, _) = registry::resolve(Recipe::parse(&text.write()?, "the new recipe", &[])?)?;
        for note in text.notes() {
            tracing::warn!("{note}");
        }
        if has_encoder && !self.no_timing {
            text.time = timing::describe(&self.device, entry, &recipe, &parts)?;
        }
        self.finish(&text.write()?, text.time.as_deref())
    }

    /// Writes or prints the recipe.
    fn finish(&self, recipe: &str, time: Option<&str>) -> Result<ExitCode> {
        if self.out == Path::new("-") {
            print!("{recipe}");
            return Ok(ExitCode::SUCCESS);
        }
        write_atomic(&self.out, recipe.as_bytes())?;
        let out = self.out.display();
        if let Some(time) = time {
            println!("training takes {time}");
        }
        println!("{out} written; look through it, then: nerzoo train {out}");
        Ok(ExitCode::SUCCESS)
    }

    /// False, with a warning, if a pretrained encoder is neither on this machine nor on the hub. Fails if it is, but cannot
    /// be used.
    fn check_encoder(&self) -> Result<bool> {
        let Some(encoder) = &self.encoder else {
            return Ok(true);
        };
        match load::find(encoder, &self.hub.hub(None)) {
            Ok(found) => {
                load::config(&found.folder)?;
                Ok(true)
            }
            Err(problem) => {
                tracing::warn!(
                    "{problem}. The recipe is written all the same, for an encoder of the usual size; how long training \
                     takes is not measured"
                );
                Ok(false)
            }
        }
    }

    /// Reads all sentences.
    fn read(&self) -> Result<Parts> {
        let mut parts = match &self.corpus {
            Some(name) => self.read_corpus(name)?,
            None => {
                let options = self.format.options();
                Parts {
                    train: data::read_many(&self.train, &options)?,
                    dev: data::read_many(&self.dev, &options)?,
                    test: data::read_many(&self.test, &options)?,
                }
            }
        };
        if let Some(limit) = self.limit {
            parts.train.truncate(usize::try_from(limit)?);
        }
        let (source, check) = self.training_source();
        if parts.train.is_empty() {
            bail!("{source}: no sentences; `{check}` shows what is read from it");
        }
        if Labels::of(&parts.train).is_empty() {
            bail!(
                "{source}: {} sentences, but no entities; `{check}` shows what is read from it, and --format and \
                 --tag-column change how it is read",
                parts.train.len()
            );
        }
        Ok(parts)
    }

    fn read_corpus(&self, name: &str) -> Result<Parts> {
        let options = self.format.options();
        if !options.are_of_any_file() {
            bail!(
                "--corpus {name} brings its own reading options; leave out --format and the options of columns, or name \
                 files with --train"
            );
        }
        let mut dataset = datasets::find(name, &self.corpora.roots())?;
        dataset.add_general_options(&options);
        let part = |split: &str| {
            if dataset.splits().any(|known| known == split) {
                dataset.load(split)
            } else {
                Ok(Vec::new())
            }
        };
        Ok(Parts {
            train: part("train")?,
            dev: part("dev")?,
            test: part("test")?,
        })
    }

    /// The training files or the corpus as named in messages, and the command that checks them.
    fn training_source(&self) -> (String, String) {
        let files: Vec<String> = (self.train.iter())
            .map(|path| path.display().to_string())
            .collect();
        match (&self.corpus, files.first()) {
            (None, Some(first)) => (files.join(", "), format!("nerzoo data check {first}")),
            (Some(name), _) => (
                format!("corpus {name}"),
                format!("nerzoo data check {name}:train"),
            ),
            (None, None) => (String::new(), "nerzoo data check".into()),
        }
    }
}

impl Parts {
    /// The number of training sentences that training holds out as dev sentences.
    fn held_out(&self) -> usize {
        if self.dev.is_empty() && self.train.len() >= 10 {
            self.train.len() / 10
        } else {
            0
        }
    }
}
