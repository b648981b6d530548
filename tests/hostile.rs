//! Hostile models, settings, files and streams: every case has to end with the expected exit code and message, in time, in
//! little memory, without a panic and without a signal.
//!
//! `NERZOO_PROGRAM` names another build of the program to test, and `NERZOO_HOSTILE_TABLE` a file that gets the table of the
//! cases as Markdown.

use libtest_mimic::Arguments;

#[cfg(unix)]
mod hostile {
    pub mod case;
    pub mod inputs;
    pub mod models;
    pub mod pickle;
    pub mod report;
    pub mod run;
    pub mod runs;
    pub mod settings;
}

#[cfg(unix)]
fn main() {
    let arguments = Arguments::from_args();
    hostile::report::run(&arguments);
}

#[cfg(not(unix))]
fn main() {
    let _ = Arguments::from_args();
    println!("SKIPPED: the limits of these cases need a Unix system");
}
