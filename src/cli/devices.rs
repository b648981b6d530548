//! `nerzoo devices`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::print_json;
use crate::device::{self, Present, self_test};

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Only list them; calculate nothing.
    #[arg(long)]
    no_test: bool,
}

type Tested = (Present, Option<Result<self_test::Verdict, String>>);

impl Devices {
    /// Lists and tests them; fails when one does not calculate right.
    pub fn run(self) -> Result<ExitCode> {
        let devices: Vec<Tested> = device::all()
            .into_iter()
            .map(|found| {
                let verdict = (!self.no_test).then(|| self_test::run(&found.device));
                (found, verdict)
            })
            .collect();
        if self.json {
            let devices: Vec<_> = devices.iter().map(as_json).collect();
            print_json(&json!({"devices": devices}))?;
        } else {
            table(&devices)
        }
        let failed = devices
            .iter()
            .any(|(_, verdict)| matches!(verdict, Some(Err(_))));
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn table(devices: &[Tested]) {
    let mut rows = vec![
        [
            "name",
            "backend",
            "what it is",
            "memory",
            "numbers",
            "self-test",
        ]
        .map(String::from),
    ];
    for (found, verdict) in devices {
        let note = if found.is_software { " (software)" } else { "" };
        rows.push([
            found.name.clone(),
            found.backend.to_string(),
            format!("{}{note}", found.title),
            found
                .memory
                .map_or("-".into(), |bytes| format!("{:.1} GB", bytes as f64 / 1e9)),
            found.precisions.join(" "),
            match verdict {
                None => "-".into(),
                Some(Ok(verdict)) => format!(
                    "passed in {:.2} s, worst difference {:.0e}",
                    verdict.seconds,
                    verdict.worst()
                ),
                Some(Err(reason)) => format!("FAILED: {reason}"),
            },
        ]);
    }
    let widths: [usize; 6] = std::array::from_fn(|column| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
}

fn as_json((found, verdict): &Tested) -> serde_json::Value {
    let verdict = verdict.as_ref().map(|verdict| match verdict {
        Ok(verdict) => json!({
            "passed": true,
            "seconds": verdict.seconds,
            "differences": verdict.differences.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        }),
        Err(reason) => json!({"passed": false, "reason": reason}),
    });
    json!({
        "name": found.name,
        "backend": found.backend,
        "title": found.title,
        "memory_bytes": found.memory,
        "numbers": found.precisions,
        "software": found.is_software,
        "self_test": verdict,
    })
}
