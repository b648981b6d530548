//! `nerzoo devices`: lists and tests the devices of this machine.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::print_json;
use crate::device::self_test::{SelfTestError, SelfTestReport};
use crate::device::{self, DeviceInfo, self_test};
use crate::table::Table;

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// List the devices without testing them.
    #[arg(long)]
    no_test: bool,
}

/// A device and the result of its self-test, if it was run.
type TestedDevice = (DeviceInfo, Option<Result<SelfTestReport, SelfTestError>>);

impl Devices {
    /// Lists and tests the devices; fails when one does not pass.
    pub fn run(self) -> Result<ExitCode> {
        let devices: Vec<TestedDevice> = device::detect_all()
            .into_iter()
            .map(|found| {
                let result = (!self.no_test).then(|| self_test::run(&found.device));
                (found, result)
            })
            .collect();
        if self.json {
            let devices: Vec<_> = devices.iter().map(as_json).collect();
            print_json(&json!({"devices": devices}))?;
        } else {
            print_table(&devices)
        }
        let failed = devices
            .iter()
            .any(|(_, result)| matches!(result, Some(Err(_))));
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn print_table(devices: &[TestedDevice]) {
    let header = [
        "name",
        "backend",
        "hardware",
        "memory",
        "precisions",
        "self-test",
    ];
    let mut table = Table::new(header).left(0..header.len());
    for (found, result) in devices {
        let note = if found.is_software { " (software)" } else { "" };
        table.row([
            found.name.clone(),
            found.backend.to_string(),
            format!("{}{note}", found.title),
            found
                .memory
                .map_or("-".into(), |bytes| format!("{:.1} GB", bytes as f64 / 1e9)),
            found.precisions.join(" "),
            match result {
                None => "-".into(),
                Some(Ok(report)) => format!(
                    "passed in {:.2} s, largest difference {:.0e}",
                    report.seconds,
                    report.worst()
                ),
                Some(Err(error)) => format!("FAILED: {error}"),
            },
        ]);
    }
    println!("{table}");
}

fn as_json((found, result): &TestedDevice) -> serde_json::Value {
    let result = result.as_ref().map(|result| match result {
        Ok(report) => json!({
            "passed": true,
            "seconds": report.seconds,
            "differences": report.differences.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        }),
        Err(error) => json!({"passed": false, "reason": error.to_string()}),
    });
    json!({
        "name": found.name,
        "backend": found.backend,
        "title": found.title,
        "memory_bytes": found.memory,
        "precisions": found.precisions,
        "software": found.is_software,
        "self_test": result,
    })
}
