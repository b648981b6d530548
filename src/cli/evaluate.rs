//! `nerzoo evaluate`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use super::reading::Reading;
use super::sweep::Sweep;
use super::{Answer, Place, print_json};
use crate::data::{self, datasets};
use crate::eval::{Counts, readings, threshold};
use crate::model::folder;
use crate::model::tagger::Tagger;
use crate::registry;
use crate::text::{Entity, Sentence, outermost};
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
    #[command(flatten)]
    reading: Reading,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Find the score threshold with the best F1 (use it on dev, then give it to `predict --threshold`).
    #[arg(long)]
    sweep_threshold: bool,
    /// Score each kind of evidence by itself: for BOPN every offset label, all together, and what its rules leave.
    #[arg(long, conflicts_with = "sweep_threshold")]
    offsets: bool,
    /// Score DiffusionNER with each of these numbers of steps, and time it.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    sweep_steps: Vec<usize>,
    /// The same with each of these numbers of spans; both together give the product.
    #[arg(long, value_name = "K,K,...", value_delimiter = ',')]
    sweep_spans: Vec<usize>,
    /// A picture of that sweep, as SVG.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    answer: Answer,
    #[command(flatten)]
    place: Place,
}

impl Evaluate {
    /// Prints the scores.
    pub fn run(self) -> Result<ExitCode> {
        let device = self.place.on.device()?;
        let mut sentences = self.sentences()?;
        let mut knobs = self.answer.knobs();
        if !self.sweep_steps.is_empty() || !self.sweep_spans.is_empty() {
            let sweep = Sweep {
                model: &self.model,
                device: &device,
                knobs: &knobs,
                steps: &self.sweep_steps,
                spans: &self.sweep_spans,
            };
            sweep.run(&sentences, self.json, self.out.as_deref())?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.out.is_some() {
            bail!("--out is for the picture of --sweep-steps and --sweep-spans");
        }
        // A head that leaves out mentions by itself is asked for all of them first.
        let own_threshold = folder::knob_of(&self.model, "threshold")?.is_some();
        if self.sweep_threshold && own_threshold && self.answer.phi.is_none() {
            knobs.insert("threshold".into(), 0.0.into());
        }
        let tagger = registry::load(&self.model, &device, &knobs)?;
        data::link_context(&mut sentences, tagger.context());
        if self.sweep_threshold {
            return self.sweep(tagger.as_ref(), &sentences, own_threshold);
        }
        if self.offsets {
            return self.evidence(tagger.as_ref(), &sentences);
        }
        let report = evaluate(tagger.as_ref(), &sentences)?;
        if self.json {
            print_json(&report.to_json())?
        } else {
            println!("{report}")
        }
        Ok(ExitCode::SUCCESS)
    }

    fn sweep(
        &self,
        tagger: &dyn Tagger,
        sentences: &[Sentence],
        own_threshold: bool,
    ) -> Result<ExitCode> {
        let mentions = tagger.tag(sentences)?;
        let gold: Vec<Vec<Entity>> = sentences
            .iter()
            .map(|sentence| {
                if tagger.nested() {
                    sentence.entities.clone()
                } else {
                    outermost(&sentence.entities)
                }
            })
            .collect();
        let pairs = gold
            .iter()
            .map(Vec::as_slice)
            .zip(mentions.iter().map(Vec::as_slice));
        let unreachable = sentences
            .iter()
            .map(|sentence| sentence.misaligned.len() as u64)
            .sum();
        let all = threshold::sweep(pairs, unreachable);
        let best = threshold::best(&all).context("nothing to sweep over")?;
        let row = |at: &threshold::Threshold| {
            json!({
                "threshold": at.score,
                "precision": at.counts.precision(),
                "recall": at.counts.recall(),
                "f1": at.counts.f1(),
            })
        };
        if self.json {
            print_json(&json!({"best": row(&best), "without": row(&all[0])}))?;
            return Ok(ExitCode::SUCCESS);
        }
        if !tagger.nested() {
            println!("this model is flat: measured by the outermost entities");
        }
        println!("threshold        P        R       F1");
        // A dozen rows tell the shape; the best one is always among them.
        let step = (all.len() / 12).max(1);
        let shown = all
            .iter()
            .enumerate()
            .filter(|(index, at)| index % step == 0 || **at == best);
        for (_, at) in shown {
            println!(
                "{:9.4} {:8.2} {:8.2} {:8.2}{}",
                at.score,
                100.0 * at.counts.precision(),
                100.0 * at.counts.recall(),
                100.0 * at.counts.f1(),
                if *at == best { "  <- best" } else { "" }
            );
        }
        let phi = if own_threshold { "--phi 0 " } else { "" };
        println!("use it: nerzoo predict {phi}--threshold {} ...", best.score);
        Ok(ExitCode::SUCCESS)
    }

    /// BOPN's table 5. An entity counts for a label only where the sentence has room for a span that says it.
    fn evidence(&self, tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<ExitCode> {
        let found = tagger.readings(sentences)?;
        if found.is_empty() {
            bail!(
                "{} has one kind of evidence only; --offsets is for BOPN",
                self.model.display()
            );
        }
        let scored: Vec<(&str, Counts)> = found
            .iter()
            .map(|reading| (reading.name.as_str(), readings::counts(reading, sentences)))
            .collect();
        if self.json {
            let rows: Vec<serde_json::Value> = scored
                .iter()
                .map(|(name, counts)| {
                    json!({
                        "label": name,
                        "precision": counts.precision(),
                        "recall": counts.recall(),
                        "f1": counts.f1(),
                        "support": counts.gold,
                    })
                })
                .collect();
            print_json(&json!(rows))?;
            return Ok(ExitCode::SUCCESS);
        }
        println!("label        P        R       F1   support");
        for (name, counts) in scored {
            println!(
                "{name:<6} {:8.2} {:8.2} {:8.2} {:9}",
                100.0 * counts.precision(),
                100.0 * counts.recall(),
                100.0 * counts.f1(),
                counts.gold
            );
        }
        Ok(ExitCode::SUCCESS)
    }

    fn sentences(&self) -> Result<Vec<Sentence>> {
        let path = PathBuf::from(&self.corpus);
        if path.exists() {
            let options = self.reading.options();
            return Ok(data::read(&path, &options)?);
        }
        if self.corpus.contains(['/', '.']) {
            bail!("{}: no such file", path.display());
        }
        let roots = datasets::roots(self.place.data.as_deref());
        Ok(datasets::find(&self.corpus, &roots)?.load(&self.split)?)
    }
}
