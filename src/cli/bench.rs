//! `nerzoo bench`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{Place, print_json};
use crate::data::registry;
use crate::device;
use crate::heads::zoo;
use crate::train::bench;
use crate::train::recipe::Recipe;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// What to measure.
    what: What,
    /// The recipe whose data, encoder and head are used.
    recipe: PathBuf,
    /// Batches to measure, after a few to warm up.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Change a value of the recipe, such as train.batch=8; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Training steps.
    Train,
    /// Finding entities, with weights as they are before training.
    Predict,
}

impl Bench {
    /// Measures and prints.
    pub fn run(self) -> Result<ExitCode> {
        let recipe = Recipe::read(&self.recipe, &self.sets)?;
        let entry = zoo::find(recipe.head_name())?;
        let bench = bench::Bench {
            recipe,
            roots: registry::roots(self.place.data.as_deref()),
            device: device::parse(&self.place.on.device)?,
            steps: self.steps.max(1),
        };
        let measured = match self.what {
            What::Train => (entry.bench_train)(&bench)?,
            What::Predict => (entry.bench_predict)(&bench)?,
        };
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
        Ok(ExitCode::SUCCESS)
    }
}
