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
    match nerzoo::cli::Cli::try_parse_from(arguments) {
        Ok(cli) => nerzoo::cli::run(cli),
        // Help, the version, or an argument that is wrong.
        Err(message) => match message.print() {
            Ok(()) => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
            Err(problem) => {
                eprintln!("error: cannot write to standard output: {problem}");
                ExitCode::FAILURE
            }
        },
    }
}
