//! `nerzoo evaluate`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::format::FormatArgs;
use super::hub::HubArgs;
use super::sweep::Sweep;
use super::{CorpusArgs, DeviceArgs, ModelArgs, print_json, warn_about_unknown_types};
use crate::data;
use crate::eval::reliability::Reliability;
use crate::eval::{Counts, Evaluation, evaluate_scores, evidence};
use crate::files::write_atomic;
use crate::model::tagger::Tagger;
use crate::plot::reliability_diagram;
use crate::registry;
use crate::table::Table;
use crate::text::Sentence;
use crate::zoo::Zoo;

/// Arguments of `evaluate`.
#[derive(Debug, Args)]
pub struct Evaluate {
    /// A model: a folder, the folder of an unfinished run (its best checkpoint), a name that `nerzoo zoo list` shows,
    /// hf:OWNER/NAME, or an http(s) address.
    model: String,
    /// A file with gold entities, or the name of a corpus.
    corpus: String,
    /// The split of a named corpus [default: test].
    #[arg(long)]
    split: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
    /// JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Score the model with each of these values of a setting, such as head.steps=1,2,5; may be repeated, which gives
    /// all combinations. Without values, `head.threshold` tries every threshold, and `threshold` every value of
    /// `predict --threshold`. Choose settings on dev, not on test.
    #[arg(long = "sweep", value_name = "KEY[=VALUE,VALUE,...]")]
    sweeps: Vec<String>,
    /// Plot the sweep into this SVG file.
    #[arg(long, value_name = "FILE", requires = "sweeps")]
    out: Option<PathBuf>,
    /// Report what the head knows beyond its mentions: the scores of each source of evidence alone, and counts.
    #[arg(long, conflicts_with = "sweeps")]
    diagnose: bool,
    /// Draw the reliability diagram into this SVG file: the share of correct mentions over their score.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweeps", "diagnose"])]
    reliability: Option<PathBuf>,
    #[command(flatten)]
    settings: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
    #[command(flatten)]
    hub: HubArgs,
}

impl Evaluate {
    /// Prints the scores.
    pub fn run(self) -> Result<ExitCode> {
        let device = self.device.device()?;
        let model = Zoo::with_hub(self.hub.hub(None)).find(&self.model)?;
        let overrides = self.settings.overrides()?;
        let options = self.format.options_as_trained(&model)?;
        if let Some(split) = &self.split
            && (self.corpus == "-" || Path::new(&self.corpus).exists())
        {
            bail!(
                "--split {split} is for named corpora, and {} is a file; leave it out",
                self.corpus
            );
        }
        let split = self.split.as_deref().unwrap_or("test");
        let mut sentences = (self.corpora).sentences(&self.corpus, Some(split), &options)?;
        if sentences
            .iter()
            .all(|sentence| sentence.entity_count() == 0)
        {
            tracing::warn!(
                "{} has no gold entities, so precision, recall and F1 are 0; `nerzoo data stats {}` shows what was read",
                self.corpus,
                self.corpus
            );
        }
        if !self.sweeps.is_empty() {
            let sweep = Sweep {
                model: &model,
                device: &device,
                overrides: &overrides,
                json: self.json,
                out: self.out.as_deref(),
            };
            sweep.run(&self.sweeps, &mut sentences)?;
            return Ok(ExitCode::SUCCESS);
        }
        let tagger = registry::load(&model, &device, &overrides)?;
        warn_about_unknown_types(&model, tagger.labels(), &sentences);
        data::link_context(&mut sentences, tagger.context());
        if self.diagnose {
            self.diagnosis(tagger.as_ref(), &sentences)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.scores(tagger.as_ref(), &sentences)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The table of scores, and how well the scores of mentions are calibrated.
    fn scores(&self, tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<()> {
        let Evaluation { report, scored } = evaluate_scores(tagger, sentences)?;
        let reliability = Reliability::of(&scored);
        let calibrated = tagger.is_calibrated();
        if self.json {
            let mut all = report.to_json();
            all["calibration"] = reliability.to_json();
            all["calibration"]["calibrated"] = json!(calibrated);
            print_json(&all)?;
        } else {
            let kind = if calibrated {
                "calibrated"
            } else {
                "the head's own"
            };
            println!("{report}\n\n{reliability}; scores are {kind}");
        }
        if let Some(path) = &self.reliability {
            let names = [&self.model, &self.corpus].map(Path::new);
            let names = names.map(|path| path.file_name().unwrap_or(path.as_os_str()).display());
            let title = format!("{} on {}", names[0], names[1]);
            write_atomic(path, reliability_diagram(&title, &reliability).as_bytes())?;
            if !self.json {
                println!("written: {}", path.display());
            }
        }
        Ok(())
    }

    /// Scores of each source of evidence alone, and the head's counts.
    fn diagnosis(&self, tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<()> {
        let found = tagger.diagnose(sentences)?;
        if found.evidence.is_empty() && found.counts.is_empty() {
            bail!(
                "{}: this head has nothing to report beyond its mentions",
                self.model
            );
        }
        let scored: Vec<(&str, Counts)> = (found.evidence.iter())
            .map(|source| (source.name.as_str(), evidence::counts(source, sentences)))
            .collect();
        if self.json {
            let evidence = scored.iter().map(|(name, counts)| {
                json!({
                    "name": name,
                    "precision": counts.precision(),
                    "recall": counts.recall(),
                    "f1": counts.f1(),
                    "support": counts.gold,
                })
            });
            let counts = (found.counts.iter())
                .map(|count| json!({"name": count.name, "count": count.count, "of": count.of}));
            return print_json(&json!({
                "evidence": evidence.collect::<Vec<_>>(),
                "counts": counts.collect::<Vec<_>>(),
            }));
        }
        if !scored.is_empty() {
            let mut table = Table::new(["evidence", "P", "R", "F1", "support"]);
            for (name, counts) in scored {
                let percent = |share: f64| format!("{:.2}", 100.0 * share);
                table.row([
                    name.to_string(),
                    percent(counts.precision()),
                    percent(counts.recall()),
                    percent(counts.f1()),
                    counts.gold.to_string(),
                ]);
            }
            println!("{table}");
        }
        for count in &found.counts {
            println!("{count}");
        }
        Ok(())
    }
}
