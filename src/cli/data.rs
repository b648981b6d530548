//! stub
use std::process::ExitCode;
/// stub
#[derive(Debug, clap::Args)]
pub struct Data {}
impl Data {
    /// stub
    pub fn run(self) -> anyhow::Result<ExitCode> { Ok(ExitCode::SUCCESS) }
}
