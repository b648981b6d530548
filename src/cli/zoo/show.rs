//! `nerzoo zoo show`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::megabytes;
use crate::cli::hub::HubArgs;
use crate::cli::print_json;
use crate::files::{inside, read_text};
use crate::model::card::PUBLICATION;
use crate::model::folder::ModelConfig;
use crate::text::visible;
use crate::zoo::Zoo;
use crate::zoo::summary::{self, ModelSummary};

/// Longest card that is shown, in bytes.
const LONGEST_CARD: u64 = 1 << 20;

/// Arguments of `zoo show`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo show gum-nested\n  nerzoo zoo show runs/quickstart --json"
)]
pub struct Show {
    /// A model by name, folder or address.
    #[arg(value_name = "MODEL")]
    model: String,
    /// JSON instead of text: summary, scores, settings and what was published.
    #[arg(long, conflicts_with = "card")]
    json: bool,
    /// Only the model card, as it is.
    #[arg(long)]
    card: bool,
    #[command(flatten)]
    download: HubArgs,
}

impl Show {
    /// Prints the model.
    pub fn run(self) -> Result<ExitCode> {
        let folder = Zoo::with_hub(self.download.hub(None)).find(&self.model)?;
        let card = || read_text(&inside(&folder, "README.md")?, LONGEST_CARD);
        if self.card {
            print!("{}", visible(&card()?));
            return Ok(ExitCode::SUCCESS);
        }
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let summary = ModelSummary::read(&folder, &name.unwrap_or_default())?;
        let config = ModelConfig::read(&folder)?;
        let metrics = summary::metrics(&folder)?;
        if self.json {
            let mut all = json!({
                "summary": summary,
                "folder": folder,
                "settings": config.head_config,
                "encoder_origin": config.encoder_origin,
                "calibration": config.calibration,
            });
            for key in ["dev", "test", "tuning", "seconds", PUBLICATION] {
                all[key] = metrics[key].clone();
            }
            print_json(&all)?;
            return Ok(ExitCode::SUCCESS);
        }
        print!("{}", text(&folder, &summary, &config, &metrics));
        if let Ok(card) = card() {
            let body = card
                .strip_prefix("---\n")
                .and_then(|rest| rest.split_once("\n---\n"));
            println!(
                "\n{}",
                visible(body.map_or(card.as_str(), |(_, body)| body)).trim()
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The facts before the card.
fn text(folder: &Path, summary: &ModelSummary, config: &ModelConfig, metrics: &Value) -> String {
    let mut lines = vec![
        ("name", summary.name.clone()),
        ("folder", folder.display().to_string()),
        ("head", summary.head.clone()),
        (
            "encoder",
            summary
                .encoder
                .clone()
                .unwrap_or_else(|| "from scratch".into()),
        ),
        (
            "corpus",
            summary
                .corpus
                .clone()
                .unwrap_or_else(|| "files of its author".into()),
        ),
        ("types", summary.types.join(", ")),
        (
            "entities",
            if summary.nested {
                "flat and nested"
            } else {
                "flat"
            }
            .into(),
        ),
    ];
    for split in ["dev", "test"] {
        if let Some(f1) = metrics[split]["f1"].as_f64() {
            let percent = |key: &str| 100.0 * metrics[split][key].as_f64().unwrap_or_default();
            let interval = match summary.f1_interval {
                Some([low, high]) if summary.split.as_deref() == Some(split) => {
                    format!(" (95 % interval {:.2} to {:.2})", 100.0 * low, 100.0 * high)
                }
                _ => String::new(),
            };
            lines.push((
                split,
                format!(
                    "F1 {:.2}{interval}, P {:.2}, R {:.2}",
                    100.0 * f1,
                    percent("precision"),
                    percent("recall")
                ),
            ));
        }
    }
    lines.push((
        "size",
        format!("{} ({})", megabytes(summary.size), summary.precision),
    ));
    lines.push((
        "licence",
        summary
            .licence
            .clone()
            .unwrap_or_else(|| "not known".into()),
    ));
    lines.push(("settings", config.head_config.to_string()));
    let line =
        |(key, value): (&str, String)| format!("{key:<9} {}\n", visible(&value).replace('\n', " "));
    lines.into_iter().map(line).collect()
}
