//! stub
use std::process::ExitCode;
/// stub
#[derive(Debug, clap::Args)]
pub struct Init {}
impl Init {
    /// stub
    pub fn run(self) -> anyhow::Result<ExitCode> { Ok(ExitCode::SUCCESS) }
}
