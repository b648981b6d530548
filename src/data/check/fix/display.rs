//! The report about mended copies as text.

use std::fmt;

use super::FixReport;
use crate::table::Table;

impl fmt::Display for FixReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(
                f,
                "{} ({}): {} sentences, {} entities",
                file.to.display(),
                file.format,
                file.sentences,
                file.entities
            )?;
            if file.left_out > 0 {
                writeln!(
                    f,
                    "  {} entities are lost, because this format cannot represent them",
                    file.left_out
                )?;
            }
        }
        let total: usize = self.changes.values().sum();
        writeln!(
            f,
            "{total} changes, all of them listed in {}",
            self.log.display()
        )?;
        let mut table = Table::headless();
        for (kind, count) in &self.changes {
            table.row([format!("  {}", kind.description()), count.to_string()]);
        }
        if total > 0 {
            writeln!(f, "{table}")?;
        }
        if self.remaining.groups.is_empty() && self.remaining.findings.is_empty() {
            return writeln!(f, "\nnothing remains to be mended");
        }
        writeln!(f, "\nnot mended:")?;
        self.remaining.write_problems(f)
    }
}
