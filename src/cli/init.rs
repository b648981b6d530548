//! `nerzoo init`: a commented recipe for the user's own files.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::format::FormatArgs;
use crate::data::{self, stats::Stats};
use crate::encoder::load;
use crate::files::write_atomic;
use crate::recipe::Recipe;
use crate::registry::{self, Entry};
use crate::text::{Labels, Sentence};

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The head; `nerzoo heads` lists them.
    #[arg(long)]
    head: String,
    /// Files to train on.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    train: Vec<PathBuf>,
    /// Files to choose the best checkpoint with; without any, a tenth of the training sentences is held out.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    dev: Vec<PathBuf>,
    /// Files for the final scores.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    test: Vec<PathBuf>,
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
}

impl Init {
    /// Reads the files and writes the recipe.
    pub fn run(self) -> Result<ExitCode> {
        let entry = registry::find(&self.head)?;
        if let Some(encoder) = &self.encoder {
            load::config(&load::find(encoder)?)?;
        }
        let options = self.format.options();
        let train = data::read_many(&self.train, &options)?;
        for path in self.dev.iter().chain(&self.test) {
            data::read(path, &options)?;
        }
        if Labels::of(&train).is_empty() {
            bail!(
                "the training files have no entities; `nerzoo data check` shows what was read from them"
            );
        }
        let recipe = self.recipe(&train, entry)?;
        registry::resolve(Recipe::parse(&recipe, "the new recipe", &[])?)?;
        if self.out == Path::new("-") {
            print!("{recipe}");
            return Ok(ExitCode::SUCCESS);
        }
        if self.out.exists() && !self.force {
            bail!(
                "{} exists; give another --out, or --force to write over it",
                self.out.display()
            );
        }
        write_atomic(&self.out, recipe.as_bytes())?;
        println!(
            "{} written; look through it, then: nerzoo train {}",
            self.out.display(),
            self.out.display()
        );
        Ok(ExitCode::SUCCESS)
    }

    fn recipe(&self, train: &[Sentence], entry: &Entry) -> Result<String> {
        let stats = Stats::of(train);
        let labels = Labels::of(train);
        let mut text = String::new();
        writeln!(
            text,
            "# A recipe describes a training run. Edit it, or override values with --set key=value."
        )?;
        writeln!(
            text,
            "# Training files: {} sentences, {} words, {} entities of {} types: {}.",
            stats.sentences,
            stats.words,
            stats.entities,
            labels.len(),
            labels.names().join(", ").replace(['\n', '\r'], " ")
        )?;
        if stats.misaligned > 0 {
            writeln!(
                text,
                "# {} of them do not start and end at word boundaries; no model can find these.",
                stats.misaligned
            )?;
        }
        if stats.nested > 0 && !entry.nested {
            writeln!(
                text,
                "# {} entities are nested. {} is flat: it learns the outermost ones only.",
                stats.nested, self.head
            )?;
        }
        writeln!(
            text,
            "\n[data]\n# Paths are relative to the folder in which nerzoo is started."
        )?;
        writeln!(text, "train = {}", paths(&self.train))?;
        if self.dev.is_empty() {
            writeln!(
                text,
                "# No dev files: a tenth of the training sentences, by document, is held out."
            )?
        } else {
            writeln!(text, "dev = {}", paths(&self.dev))?
        }
        if !self.test.is_empty() {
            writeln!(text, "test = {}", paths(&self.test))?;
        }
        let options = toml::to_string(&self.format.options())?;
        if !options.is_empty() {
            let options: Vec<&str> = options.lines().collect();
            writeln!(text, "options = {{ {} }}", options.join(", "))?;
        }
        self.encoder_part(&mut text, &stats)?;
        self.head_part(&mut text, entry, &stats)?;
        self.train_part(&mut text, &stats)?;
        Ok(text)
    }

    /// Suggestions of the head, those of a bundle's parts in tables of their own.
    fn head_part(&self, text: &mut String, entry: &Entry, stats: &Stats) -> Result<()> {
        writeln!(text, "\n[head]\nname = \"{}\"", self.head)?;
        let mut suggestions = (entry.suggest)(stats);
        // A key without a dot belongs to [head] itself and must come before the tables of the parts.
        suggestions.sort_by_key(|suggestion| suggestion.setting.contains('.'));
        let mut table = "";
        for suggestion in &suggestions {
            let (part, key) = suggestion
                .setting
                .rsplit_once('.')
                .unwrap_or(("", &suggestion.setting));
            if part != table {
                writeln!(text, "\n[head.{part}]")?;
                table = part;
            }
            writeln!(
                text,
                "# {}\n{key} = {}",
                suggestion.reason, suggestion.value
            )?;
        }
        Ok(())
    }

    fn encoder_part(&self, text: &mut String, stats: &Stats) -> Result<()> {
        if let Some(encoder) = &self.encoder {
            let name = toml::Value::String(encoder.clone());
            writeln!(text, "\n[encoder]\npretrained = {name}")?;
            writeln!(
                text,
                "# pooling = \"max\"   # or first, mean: how a word's pieces become its state"
            )?;
            return Ok(());
        }
        // Few words fill few pieces; a vocabulary much larger than the corpus learns nothing.
        let vocabulary = (stats.words / 20).clamp(500, 8000) / 100 * 100;
        writeln!(
            text,
            "\n# No pretrained encoder was given, so a small one is trained on these sentences alone."
        )?;
        writeln!(
            text,
            "# With --encoder FOLDER results are usually much better."
        )?;
        writeln!(
            text,
            "[encoder.scratch]\nvocabulary = {vocabulary}\nlayers = 2\nwidth = 128"
        )?;
        Ok(())
    }

    fn train_part(&self, text: &mut String, stats: &Stats) -> Result<()> {
        let mean = stats.words as f64 / stats.sentences.max(1) as f64;
        let batch = match mean {
            mean if mean < 15.0 => 32,
            mean if mean < 60.0 => 16,
            _ => 8,
        };
        // Enough steps to learn from small corpora, not more than needed for large ones.
        let epochs = (40_000 / stats.sentences.max(1)).clamp(3, 20);
        writeln!(text, "\n[train]")?;
        writeln!(text, "epochs = {epochs}")?;
        writeln!(
            text,
            "batch = {batch}   # sentences; they have {mean:.1} words on average"
        )?;
        let rate = if self.encoder.is_some() {
            "5e-5"
        } else {
            "1e-3"
        };
        writeln!(text, "learning_rate = {rate}")?;
        writeln!(
            text,
            "patience = 5   # epochs without a better dev F1 before it stops"
        )?;
        Ok(())
    }
}

fn paths(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths
        .iter()
        .map(|path| toml::Value::String(path.display().to_string()).to_string())
        .collect();
    format!("[{}]", quoted.join(", "))
}
