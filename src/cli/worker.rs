//! `nerzoo worker`: serves this machine's devices to training on another machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::device::{self, remote};

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct Worker {
    /// Address to listen on, HOST:PORT; 127.0.0.1 for this machine only, 0.0.0.0 for all its networks.
    #[arg(long, value_name = "ADDRESS")]
    listen: String,
    /// File with the token in its first line, which clients have to present. It is sent unencrypted: use trusted networks.
    #[arg(long, env = "NERZOO_TOKEN_FILE", value_name = "FILE")]
    token_file: PathBuf,
    /// Device to serve, or several of one kind separated by commas.
    #[arg(
        long,
        env = "NERZOO_DEVICE",
        default_value = "auto",
        value_name = "DEVICE,DEVICE"
    )]
    device: String,
}

impl Worker {
    /// Serves until the program is stopped.
    pub fn run(self) -> Result<ExitCode> {
        let token = remote::token(&self.token_file)?;
        let devices = device::find_all(&self.device, None)?;
        remote::serve(&self.listen, devices, &token)?;
        Ok(ExitCode::SUCCESS)
    }
}
