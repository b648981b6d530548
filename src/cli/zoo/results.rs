//! `nerzoo zoo results`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::files::{read_text, write_atomic};
use crate::zoo::results::{FOLDER, PAGE, ResultSet, page, sets};

/// Arguments of `zoo results`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nerzoo zoo results\n  nerzoo zoo results --add runs/mine --file wnut17-minilm \
                  --model Mine"
)]
pub struct Results {
    /// The zoo's folder, with RESULTS.md and results/*.json.
    #[arg(long, default_value = "model-zoo", value_name = "DIR")]
    zoo: PathBuf,
    /// Write nothing; fail if RESULTS.md differs from the score files.
    #[arg(long, conflicts_with = "add")]
    check: bool,
    /// Add the test scores of a finished run to a score file first.
    #[arg(long, value_name = "RUN", requires_all = ["file", "model"])]
    add: Option<PathBuf>,
    /// The score file that gets them: the name of an existing file in results/, without `.json`.
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// The row that gets them, which is added if it is not there.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
}

impl Results {
    /// Writes or checks the results page.
    pub fn run(self) -> Result<ExitCode> {
        if let (Some(run), Some(file), Some(model)) = (&self.add, &self.file, &self.model) {
            let path = self.zoo.join(FOLDER).join(format!("{file}.json"));
            if !path.is_file() {
                bail!(
                    "{}: no such file; write one with title, corpus, encoder, budget and rows = []",
                    path.display()
                );
            }
            let mut set = ResultSet::read(&path)?;
            set.add(model, run)?;
            set.write(&path)?;
            println!("written: {}", path.display());
        }
        let path = self.zoo.join(PAGE);
        let text = page(&self.zoo)?;
        if self.check {
            if read_text(&path, u64::MAX / 2)? != text {
                bail!(
                    "{}: its tables differ from results/*.json; write them again with `nerzoo zoo results`",
                    path.display()
                );
            }
            println!(
                "{}: as in {} score files",
                path.display(),
                sets(&self.zoo)?.len()
            );
            return Ok(ExitCode::SUCCESS);
        }
        write_atomic(&path, text.as_bytes())?;
        println!(
            "written: {} (from {} score files)",
            path.display(),
            sets(&self.zoo)?.len()
        );
        Ok(ExitCode::SUCCESS)
    }
}
