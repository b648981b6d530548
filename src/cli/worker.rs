//! `nerzoo worker`: this machine's devices for training elsewhere.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::device::{self, remote};

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct Worker {
    /// Where to listen, HOST:PORT; 127.0.0.1 for this machine only, 0.0.0.0 for every network it is in.
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// A file whose first line clients have to know. It travels unencrypted: for networks you trust.
    #[arg(long, env = "NERZOO_TOKEN_FILE", value_name = "FILE")]
    token_file: PathBuf,
    /// What to serve: one device, or several of one kind with commas between them.
    #[arg(
        long,
        env = "NERZOO_DEVICE",
        default_value = "auto",
        value_name = "DEVICE,DEVICE"
    )]
    device: String,
}

impl Worker {
    /// Serves until it is stopped.
    pub fn run(self) -> Result<ExitCode> {
        let token = remote::token(&self.token_file)?;
        let devices = device::find_all(&self.device, None)?;
        remote::serve(&self.listen, devices, &token)?;
        Ok(ExitCode::SUCCESS)
    }
}
