//! `nerzoo data`: check, stats, convert, split, make.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use super::format::FormatArgs;
use super::{examples, print_json};
use crate::data::write::{self, LabelStudioNames, WriteOptions, Writer};
use crate::data::{self, Format, ReadOptions, TagScheme, check, datasets, split, stats, synthetic};
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
    #[command(after_help = examples::DATA_CHECK)]
    Check(Check),
    /// Count sentences, words, entities, types and nesting.
    #[command(after_help = examples::DATA_STATS)]
    Stats(Stats),
    /// Write a corpus in another format.
    #[command(after_help = examples::DATA_CONVERT)]
    Convert(Convert),
    /// Split a corpus by document, reproducibly for a given seed.
    #[command(after_help = examples::DATA_SPLIT)]
    Split(Split),
    /// Generate the synthetic nested corpus.
    #[command(after_help = examples::DATA_MAKE)]
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
    /// Write a repaired copy: a file, or for several files a folder. Every change is listed in OUT.changes.jsonl.
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
    /// Corpus files, written as one corpus in this order.
    #[arg(required = true)]
    from: Vec<PathBuf>,
    /// The file to write; a folder for brat; `-` is standard output.
    #[arg(required = true)]
    to: PathBuf,
    /// The format to write: columns, tokens_jsonl, text_jsonl, spert, w2ner, brat, doccano, gliner, spacy, prodigy,
    /// label_studio, conllu, pubtator, csv or text. By default what the ending of TO stands for: .conll columns, .jsonl
    /// tokens_jsonl, .json spert, .conllu conllu, .csv csv, .pubtator pubtator, .txt text, a folder brat.
    #[arg(long, value_name = "FORMAT", value_parser = output_format)]
    into: Option<Format>,
    /// The tagging scheme to write: iob1, iob2, bioes or bmes.
    #[arg(long, default_value = "iob2", value_name = "SCHEME")]
    into_scheme: TagScheme,
    /// Columns and csv: write all tags of a word in one column, such as I-ORG|B-LOC, instead of layers.
    #[arg(long)]
    multi_tag: bool,
    /// Columns: write one tag per word, and leave out entities inside others.
    #[arg(long, conflicts_with = "multi_tag")]
    flat: bool,
    /// Tokens_jsonl: write ner_tags, one tag per word, as on the Hugging Face hub, instead of spans.
    #[arg(long)]
    tags: bool,
    /// Label_studio: the name of the Labels tag in the labelling configuration.
    #[arg(long, default_value = "label", value_name = "NAME")]
    from_name: String,
    /// Label_studio: the name of the Text tag in the labelling configuration.
    #[arg(long, default_value = "text", value_name = "NAME")]
    to_name: String,
    /// Write nothing if the format cannot represent an entity. By default it is left out and counted.
    #[arg(long)]
    strict: bool,
    /// Overwrite existing files.
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
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().train, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=10_000_000))]
    train: usize,
    /// Number of dev sentences.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().dev, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=10_000_000))]
    dev: usize,
    /// Number of test sentences.
    #[arg(long, default_value_t = synthetic::SyntheticConfig::default().test, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=10_000_000))]
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
    /// Checks the files, and repairs them if asked to. True when they, or the repaired copies, are valid.
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
        let fixed = self.fix.as_ref().map(|out| {
            let fix = check::fix::FixOptions {
                out: out.clone(),
                leaks: self.fix_leaks,
                force: self.force,
            };
            check::fix::fix(&files, &options, &fix)
        });
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
                options = dataset.options().with_general_options_of(&options);
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

/// A format that is to be written, by its name.
fn output_format(name: &str) -> std::result::Result<Format, Error> {
    Format::parse_output(name, &[])
}

impl Convert {
    fn run(self) -> Result<ExitCode> {
        let options = self.options()?;
        let is_stdout = self.to == Path::new("-");
        if !is_stdout && !self.force && is_occupied(&self.to) {
            bail!(
                "{} exists; choose another name, or overwrite it with --force",
                self.to.display()
            );
        }
        let sentences = data::read_many(&self.from, &self.format.options())?;
        let summary = if is_stdout {
            // Complete before the first byte is printed, so that an error leaves nothing half written.
            let mut content = Vec::new();
            let summary = write::write_with(&mut content, &sentences, &options)?;
            let mut out = std::io::stdout().lock();
            out.write_all(&content).and_then(|()| out.flush())?;
            summary
        } else {
            write::to_path(&self.to, &sentences, &options, self.force)?
        };
        let to = self.to.display();
        let documents = match summary.documents {
            0 => String::new(),
            count => format!(" in {count} documents"),
        };
        let mut lines = vec![format!(
            "{to}: {} sentences{documents}, {} entities as {}",
            summary.sentences, summary.entities, options.format
        )];
        lines.extend(summary.notes());
        if !summary.is_complete() && options.format != Format::PlainText {
            lines.push("tokens_jsonl keeps everything".to_string());
        }
        for line in lines {
            if is_stdout {
                eprintln!("{line}");
            } else {
                println!("{line}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn options(&self) -> Result<WriteOptions> {
        let Some(format) = self.into.or_else(|| write::format_of_path(&self.to)) else {
            bail!(
                "{}: the ending does not stand for a format; name one with --into: {}",
                self.to.display(),
                Format::writable_names().collect::<Vec<_>>().join(", ")
            );
        };
        let has_tags = matches!(format, Format::Columns | Format::Csv) || self.tags;
        if (self.multi_tag || self.flat) && !has_tags {
            bail!("--multi-tag and --flat are options of formats with tags; {format} has none");
        }
        if self.tags && format != Format::TokensJsonl {
            bail!("--tags is an option of tokens_jsonl; {format} is written without it");
        }
        let options = WriteOptions {
            scheme: self.into_scheme,
            multi_tag: self.multi_tag,
            flat: self.flat,
            tags: self.tags,
            strict: self.strict,
            label_studio: LabelStudioNames {
                from_name: self.from_name.clone(),
                to_name: self.to_name.clone(),
                ..LabelStudioNames::default()
            },
            ..WriteOptions::of(format)
        };
        if format != Format::Brat {
            // Fails for a format that is only read, before the corpus is read.
            Writer::begin(std::io::sink(), options.clone())?;
        }
        Ok(options)
    }
}

/// True for a file, and for a folder that is not empty.
fn is_occupied(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        convert: Convert,
    }

    #[test]
    fn only_formats_that_can_be_written_are_offered() {
        let line = Line::try_parse_from(["x", "a.conll", "b.docx"]).unwrap();
        let error = line.convert.options().unwrap_err().to_string();
        assert!(
            error.contains("--into: columns, tokens_jsonl, text_jsonl"),
            "{error}"
        );
        let line = Line::try_parse_from(["x", "a.conll", "b", "--into", "colums"]);
        let unknown = line.unwrap_err().to_string();
        assert!(unknown.contains("did you mean `columns`?"), "{unknown}");
        for error in [error, unknown] {
            assert!(
                error.contains("brat") && error.contains("label_studio, conllu"),
                "{error}"
            );
            for name in ["doc_bin", "webanno", "bioc", "parquet"] {
                assert!(!error.contains(name), "{name}: {error}");
            }
        }
    }
}
