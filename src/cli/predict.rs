//! stub
use std::process::ExitCode;
/// stub
#[derive(Debug, clap::Args)]
pub struct Predict {}
impl Predict {
    /// stub
    pub fn run(self) -> anyhow::Result<ExitCode> { Ok(ExitCode::SUCCESS) }
}
