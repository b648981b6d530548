//! `nerzoo zoo`: list, show, check, publish, fetch, push, import and export models.

mod export;
mod import;
mod index;
mod list;
mod publish;
mod pull;
mod push;
mod quantize;
mod results;
mod show;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Arguments of `zoo`.
#[derive(Debug, Args)]
pub struct ZooArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the models on this machine, or those of a hub repository.
    List(list::List),
    /// Show the card, scores and settings of a model.
    Show(show::Show),
    /// Fetch a model from the hub, an http(s) server or a folder.
    Pull(pull::Pull),
    /// Push a model to the hub, as one commit.
    Push(push::Push),
    /// Make a published model of a run: a folder of the zoo with a model card.
    Publish(publish::Publish),
    /// Store a model's weights in eight bits, if its F1 stays: a quarter of the size, faster on the CPU.
    Quantize(quantize::Quantize),
    /// Make a model folder of a model of another program.
    Import(import::Import),
    /// Write a model for another program.
    Export(export::Export),
    /// Check the hashes of a model's files, and on request its score.
    Verify(verify::Verify),
    /// Write the tables of RESULTS.md from files of scores, or check them.
    Results(results::Results),
    /// Write index.json from the published models, or check it.
    Index(index::WriteIndex),
}

impl ZooArgs {
    /// Runs the verb.
    pub fn run(self) -> Result<ExitCode> {
        match self.verb {
            Verb::List(verb) => verb.run(),
            Verb::Show(verb) => verb.run(),
            Verb::Pull(verb) => verb.run(),
            Verb::Push(verb) => verb.run(),
            Verb::Publish(verb) => verb.run(),
            Verb::Quantize(verb) => verb.run(),
            Verb::Import(verb) => verb.run(),
            Verb::Export(verb) => verb.run(),
            Verb::Verify(verb) => verb.run(),
            Verb::Results(verb) => verb.run(),
            Verb::Index(verb) => verb.run(),
        }
    }
}

/// A number of bytes for a table.
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// An amount on the command line: a number that is not negative.
fn amount(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(amount) if (0.0..1e9).contains(&amount) => Ok(amount),
        _ => Err("expected a number that is at least 0 and below 1000000000".into()),
    }
}
