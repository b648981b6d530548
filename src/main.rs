//! The nerzoo command.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: nerzoo::process::allocations::CountingAllocator =
    nerzoo::process::allocations::CountingAllocator;

fn main() -> ExitCode {
    nerzoo::process::set_default_device();
    nerzoo::process::keep_freed_pages();
    nerzoo::process::end_on_closed_pipe();
    nerzoo::process::report_failed_output();
    nerzoo::process::remember_terminal();
    let arguments = nerzoo::cli::arguments(std::env::args_os());
    nerzoo::cli::run(nerzoo::cli::Cli::parse_from(arguments))
}
