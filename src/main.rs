//! The nerzoo command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    nerzoo::memory::keep_pages();
    nerzoo::cli::run(nerzoo::cli::Cli::parse())
}
