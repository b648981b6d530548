//! `nerzoo bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{CorpusArgs, DeviceArgs, print_json};
use crate::bench::{self, Measured};
use crate::device;
use crate::files::write_atomic;
use crate::plot::{Axis, LineStyle, Panel, Series, page};
use crate::recipe::Recipe;
use crate::registry;
use crate::table::Table;
use crate::train::memory::{MemoryEstimate, megabytes};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure.
    what: What,
    /// The recipe whose data, encoder and head are used.
    recipe: PathBuf,
    /// Batches to measure, after a few to warm up.
    #[arg(long, default_value_t = 30, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    steps: usize,
    /// Change a value of the recipe, such as train.batch=8; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Measure with sentences of each of these lengths in words, made from sentences of the corpus.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    lengths: Vec<usize>,
    /// Plot the speeds over those lengths into this SVG file.
    #[arg(long, value_name = "FILE", requires = "lengths")]
    out: Option<PathBuf>,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    corpora: CorpusArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Training steps.
    Train,
    /// Tagging, with untrained weights.
    Predict,
    /// Memory that training takes, estimated without training.
    Memory,
}

/// The time of steps in which kernels may have been compiled, and of the others.
fn first_steps(measured: &Measured, first: &bench::FirstSteps) -> String {
    let known = measured.steps - first.new_steps;
    let mut text = format!(
        "{} different shapes; the steps before the measurement took {:.1} s",
        first.shapes, first.warm_up_seconds
    );
    if first.new_steps > 0 {
        text += &format!(
            ", {} measured steps with new shapes {:.1} s (with the compilation of kernels)",
            first.new_steps, first.new_seconds
        );
    }
    if known > 0 {
        let each = first.other_seconds / known as f64;
        text += &format!(", the other {known} steps {:.1} ms each", 1e3 * each);
    }
    text
}

impl Bench {
    /// Measures and prints.
    pub fn run(self) -> Result<ExitCode> {
        let (recipe, _) = registry::resolve(Recipe::read(&self.recipe, &self.sets)?)?;
        let mut bench = bench::Benchmark {
            recipe,
            roots: self.corpora.roots(),
            device: self.device.device()?,
            steps: self.steps,
            words: None,
        };
        let measure = match self.what {
            What::Train => bench::Benchmark::train,
            What::Predict => bench::Benchmark::predict,
            What::Memory => return self.memory(bench),
        };
        if !self.lengths.is_empty() {
            return self.over_lengths(|words| {
                bench.words = Some(words);
                measure(&bench)
            });
        }
        let measured = measure(&bench)?;
        if self.json {
            print_json(&measured.to_json())?;
            return Ok(ExitCode::SUCCESS);
        }
        let count = measured.sentences as f64;
        println!(
            "{:.1} sentences/s over {} sentences",
            count / measured.seconds,
            measured.sentences
        );
        if let Some(seconds) = measured.cpu_seconds {
            println!("{:.1} sentences per CPU second", count / seconds);
        }
        if let Some(bytes) = measured.peak_memory {
            println!("{:.0} MB at the most", bytes as f64 / 1e6);
        }
        let compiles = device::compiles_kernels(&bench.device);
        if let Some(first) = measured.first_steps.as_ref().filter(|_| compiles) {
            println!("{}", first_steps(&measured, first));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Estimates memory, at the lengths of the corpus or at each given length.
    fn memory(&self, mut bench: bench::Benchmark) -> Result<ExitCode> {
        if self.out.is_some() {
            anyhow::bail!("--out is for the speeds of `bench train` and `bench predict`");
        }
        let lengths: Vec<Option<usize>> = if self.lengths.is_empty() {
            vec![None]
        } else {
            self.lengths.iter().copied().map(Some).collect()
        };
        let memory = device::memory(&bench.device);
        let mut all = Vec::new();
        for words in lengths {
            bench.words = words;
            let estimates = bench.memory()?;
            if !self.json {
                print_memory(&bench, memory, &estimates);
            }
            all.extend(estimates.iter().map(|estimate| {
                let mut row = estimate.to_json();
                row["words"] = json!(words);
                row["device_bytes"] = json!(memory);
                row
            }));
        }
        if self.json {
            print_json(&all.into_iter().collect())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Measures each length, prints a row for it, and writes the chart.
    fn over_lengths(
        &self,
        mut measure: impl FnMut(usize) -> crate::error::Result<Measured>,
    ) -> Result<ExitCode> {
        let mut rows = Vec::new();
        // Each row is printed as soon as it is measured.
        let table = Table::new(["words", "sentences/s", "words/s"]).min_widths([5, 12, 10]);
        if !self.json {
            println!("{table}");
        }
        for words in self.lengths.iter().copied() {
            let measured = measure(words)?;
            let speed = measured.sentences as f64 / measured.seconds;
            if !self.json {
                println!(
                    "{}",
                    table.format_row([
                        words.to_string(),
                        format!("{speed:.2}"),
                        format!("{:.0}", speed * words as f64),
                    ])
                );
            }
            rows.push((words, speed, measured));
        }
        if self.json {
            let rows = rows.iter().map(|(words, _, measured)| {
                let mut row = measured.to_json();
                row["words"] = json!(words);
                row
            });
            print_json(&rows.collect())?;
        }
        if let Some(path) = &self.out {
            let speeds: Vec<(usize, f64)> = rows.iter().map(|row| (row.0, row.1)).collect();
            write_atomic(path, chart(&speeds, self.what).as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints the estimates for one corpus, those that do not fit marked.
fn print_memory(bench: &bench::Benchmark, memory: Option<u64>, estimates: &[MemoryEstimate]) {
    let Some(first) = estimates.first() else {
        return;
    };
    let device = device::name_of(&bench.device);
    let has = memory.map_or("memory that is not known".into(), megabytes);
    let longest = first.longest_row().map_or(String::new(), |pieces| {
        format!(", up to {pieces} pieces per sentence")
    });
    println!(
        "{} parameters, batches of {} sentences{longest}; the device {device} has {has}",
        first.parameters, first.batch
    );
    let header = [
        "precision",
        "recompute",
        "weights",
        "gradients",
        "optimizer",
        "activations",
        "in all",
        "largest batch",
    ];
    let mut table = Table::new(header).left([0, 1]);
    for estimate in estimates {
        let largest = memory.map(|memory| estimate.largest_batch(memory));
        table.row([
            estimate.precision.to_string(),
            if estimate.recompute { "yes" } else { "no" }.into(),
            megabytes(estimate.weights()),
            megabytes(estimate.gradients()),
            megabytes(estimate.optimizer()),
            estimate.activations().map_or("?".into(), megabytes),
            megabytes(estimate.total()),
            match largest {
                None => "?".into(),
                Some(None) => "none".into(),
                Some(Some(batch)) => batch.to_string(),
            },
        ]);
    }
    println!("{table}");
}

/// The chart: words per second on the left, where a sudden drop is visible, and sentences per second on the right.
fn chart(speeds: &[(usize, f64)], what: What) -> String {
    let panel = |title: &str, y_of: fn(usize, f64) -> f64| Panel {
        title: title.to_owned(),
        y_limit: f64::INFINITY,
        from_zero: true,
        series: vec![Series {
            name: String::new(),
            style: LineStyle::BLUE,
            values: speeds
                .iter()
                .map(|(words, speed)| (*words as f64, y_of(*words, *speed)))
                .collect(),
        }],
        highlight: None,
    };
    let words = panel("Words per second", |words, speed| words as f64 * speed);
    let sentences = panel("Sentences per second", |_, speed| speed);
    let x_axis = Axis::of_counts(speeds.iter().map(|(words, _)| *words as f64));
    let title = match what {
        What::Train => "Training speed by sentence length",
        What::Predict | What::Memory => "Prediction speed by sentence length",
    };
    page(title, "words per sentence", &x_axis, &[words, sentences])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_speeds_are_drawn() {
        let svg = chart(&[(16, 100.0), (32, 50.0), (64, 20.0)], What::Predict);
        assert_eq!(svg.matches("<polyline class=\"curve\"").count(), 2);
        assert!(svg.contains("words per sentence"));
    }
}
