//! `nerzoo devices`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::print_json;
use crate::device;

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct Devices {
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Devices {
    /// Lists them.
    pub fn run(self) -> Result<ExitCode> {
        let kinds = device::kinds();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.json {
            let devices: Vec<_> = kinds
                .iter()
                .map(|kind| json!({"name": kind.name, "about": kind.about}))
                .collect();
            print_json(&json!({"auto": device::best(), "cores": cores, "devices": devices}))?;
            return Ok(ExitCode::SUCCESS);
        }
        for kind in kinds {
            println!("{:<12} {}", kind.name, kind.about);
        }
        println!(
            "auto stands for {}; this machine has {cores} cores",
            device::best()
        );
        Ok(ExitCode::SUCCESS)
    }
}
