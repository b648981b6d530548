//! The nerzoo command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    nerzoo::process::leave_gpus_alone();
    nerzoo::process::keep_pages();
    nerzoo::process::end_with_pipe();
    nerzoo::process::remember_terminal();
    nerzoo::cli::run(nerzoo::cli::Cli::parse())
}
