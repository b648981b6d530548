//! `nerzoo zoo list`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::print_json;
use crate::hub::RepoId;
use crate::table::Table;
use crate::text::visible;
use crate::zoo::summary::ModelSummary;
use crate::zoo::{Listed, Place, Zoo};

/// Characters of a licence in the table.
const SHOWN: usize = 40;

/// Arguments of `zoo list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nerzoo zoo list\n  nerzoo zoo list --hub owner/name --json")]
pub struct List {
    /// List the models of this repository on the hub instead: those of its index.json, or the one model it holds.
    #[arg(long, value_name = "OWNER/NAME[@REVISION]")]
    hub: Option<String>,
    /// JSON instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    download: HubArgs,
}

impl List {
    /// Prints the models.
    pub fn run(self) -> Result<ExitCode> {
        let zoo = Zoo::with_hub(self.download.hub(None));
        if let Some(name) = &self.hub {
            let id: RepoId =
                (name.parse()).map_err(|problem| anyhow::anyhow!("--hub {name}: {problem}"))?;
            let index = zoo.hub_index(&id)?;
            if self.json {
                print_json(&serde_json::to_value(&index)?)?;
            } else {
                let rows = index.models.iter().map(|model| (model, format!("hf:{id}")));
                print_table(rows, index.default.as_deref());
            }
            return Ok(ExitCode::SUCCESS);
        }
        let models = zoo.models();
        let default = zoo.default_model().ok();
        let default = default.as_ref().and_then(|folder| folder.file_name());
        let default = default.map(|name| name.to_string_lossy());
        if self.json {
            let models: Vec<Value> = models.iter().map(to_json).collect();
            print_json(&json!({"default": default, "models": models}))?;
            return Ok(ExitCode::SUCCESS);
        }
        if models.is_empty() {
            println!(
                "no models on this machine; fetch one with `nerzoo zoo pull hf:OWNER/NAME`, or train one with `nerzoo train` \
                 and publish it with `nerzoo zoo publish`"
            );
            return Ok(ExitCode::SUCCESS);
        }
        let readable = models.iter().filter_map(|model| {
            let place = match (model.place, &model.source) {
                (Place::Published, _) => "published".to_string(),
                (Place::Fetched, Some(record)) => record.source.clone(),
                (Place::Fetched, None) => "cache".to_string(),
            };
            Some((model.summary.as_ref().ok()?, place))
        });
        print_table(readable, default.as_deref());
        for model in &models {
            if let Err(problem) = &model.summary {
                tracing::warn!("{} cannot be used: {}", model.name, problem.chain());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn to_json(model: &Listed) -> Value {
    let mut value = match &model.summary {
        Ok(summary) => serde_json::to_value(summary).unwrap_or_default(),
        Err(problem) => json!({"name": model.name, "error": problem.chain()}),
    };
    value["folder"] = json!(model.folder);
    value["place"] = match model.place {
        Place::Published => json!("published"),
        Place::Fetched => json!("cache"),
    };
    value["source"] = json!(model.source);
    value
}

fn print_table<'a>(
    models: impl Iterator<Item = (&'a ModelSummary, String)>,
    default: Option<&str>,
) {
    let mut table = Table::new([
        "name", "head", "encoder", "corpus", "types", "nested", "F1", "size", "licence", "from",
    ])
    .left([1, 2, 3, 5, 8, 9]);
    let or_dash = |text: &Option<String>| visible(text.as_deref().unwrap_or("–")).into_owned();
    for (model, place) in models {
        let mark = if default == Some(model.name.as_str()) {
            " *"
        } else {
            ""
        };
        let f1 = model
            .f1
            .map_or("–".into(), |f1| format!("{:.2}", 100.0 * f1));
        let f1 = match model.split.as_deref() {
            Some("dev") => format!("{f1} (dev)"),
            _ => f1,
        };
        table.row([
            visible(&model.name).into_owned() + mark,
            visible(&model.head).into_owned(),
            model
                .encoder
                .as_ref()
                .map_or("from scratch".into(), |name| visible(name).into_owned()),
            or_dash(&model.corpus),
            model.types.len().to_string(),
            if model.nested { "yes" } else { "no" }.into(),
            f1,
            format!("{} {}", megabytes(model.size), visible(&model.precision)),
            shortened(&or_dash(&model.licence)),
            visible(&place).into_owned(),
        ]);
    }
    println!("{table}");
    if default.is_some() {
        println!("\n* the model of `nerzoo predict` without --model");
    }
}

/// The beginning of a long text on one line.
fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text,
    }
}
