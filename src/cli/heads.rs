//! `nerzoo heads`: the zoo, and the settings of each head.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::print_json;
use crate::heads::settings::{Preset, Setting};
use crate::registry::{self, Entry};
use crate::table::Table;

/// Arguments of `heads`.
#[derive(Debug, Args)]
pub struct Heads {
    /// A head, to list its settings: meaning, type, default, and whether it can change after training.
    name: Option<String>,
    /// JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Heads {
    /// Prints the list.
    pub fn run(self) -> Result<ExitCode> {
        match &self.name {
            Some(name) => self.settings(registry::find(name)?)?,
            None => self.list()?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self) -> Result<()> {
        let heads = registry::heads();
        if self.json {
            let rows = heads.iter().map(|entry| {
                json!({
                    "name": entry.name,
                    "id": (entry.id)(),
                    "nested": entry.nested,
                    "paper": entry.paper,
                })
            });
            return print_json(&rows.collect());
        }
        let mut table = Table::new(["head", "entities", "paper"]).left([1, 2]);
        for entry in heads {
            let kind = if entry.nested { "nested" } else { "flat" };
            table.row([entry.name, kind, entry.paper]);
        }
        println!("{table}\n\n`nerzoo heads NAME` lists the settings of a head.");
        Ok(())
    }

    fn settings(&self, entry: &Entry) -> Result<()> {
        let settings = (entry.settings)();
        if self.json {
            return print_json(&settings.iter().map(to_json).collect());
        }
        println!("{}: {}\n", entry.name, entry.paper);
        println!(
            "Settings under [head] of a recipe; * can change after training (--set head.NAME=VALUE); values after \"chosen on \
             dev\" are tried at the end of training, unless train.tune = false.\n"
        );
        for setting in &settings {
            let mark = if setting.at_inference { " *" } else { "" };
            println!("{}{mark}: {}", setting.name, setting.kind);
            println!(
                "    default {}{}",
                default_of(setting),
                chosen_on_dev(setting)
            );
            println!("    {}\n", setting.doc);
        }
        Ok(())
    }
}

/// The values that are tried after training.
pub(super) fn chosen_on_dev(setting: &Setting) -> String {
    let values: Vec<String> = setting.tuned_over.iter().map(shown).collect();
    match &values[..] {
        [] => String::new(),
        [first, second, .., last] if setting.tuned_over[0].is_number() => {
            format!("; chosen on dev: {first}, {second} ... {last}")
        }
        values => format!("; chosen on dev: {}", values.join(", ")),
    }
}

/// The default, or that of each preset where they differ.
pub(super) fn default_of(setting: &Setting) -> String {
    let shown: Vec<(Preset, String)> = (setting.defaults.iter())
        .map(|(preset, value)| (*preset, shown(value)))
        .collect();
    match shown.split_first() {
        Some(((_, first), rest)) if rest.iter().all(|(_, other)| other == first) => first.clone(),
        _ => {
            let each = shown
                .iter()
                .map(|(preset, value)| format!("{value} ({preset})"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A value as a recipe has it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".into(),
        value => value.to_string(),
    }
}

fn to_json(setting: &Setting) -> Value {
    let defaults =
        (setting.defaults.iter()).map(|(preset, value)| (preset.to_string(), value.clone()));
    json!({
        "name": setting.name,
        "doc": setting.doc,
        "type": setting.kind,
        "defaults": defaults.collect::<serde_json::Map<String, Value>>(),
        "at_inference": setting.at_inference,
        "tuned_over": setting.tuned_over,
    })
}
