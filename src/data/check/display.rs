//! The text of a report.

use std::fmt;

use super::CheckReport;
use super::surfaces::Inconsistency;
use crate::data::stats::share;
use crate::table::Table;

/// A number with its unit.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_problems(f)?;
        for file in &self.files {
            writeln!(
                f,
                "{} ({}): {}, {}, {}",
                file.file.display(),
                file.format,
                counted(file.sentences, "sentence", "sentences"),
                counted(file.words, "word", "words"),
                counted(file.entities, "entity", "entities")
            )?;
        }
        writeln!(
            f,
            "{}, {}, {}",
            counted(self.errors, "error", "errors"),
            counted(self.warnings, "warning", "warnings"),
            counted(
                self.findings.len(),
                "kind of likely mistakes",
                "kinds of likely mistakes"
            )
        )?;
        if self.errors > 0 && !self.files.is_empty() {
            writeln!(
                f,
                "records with an error cannot be used: correct them, leave them out of a copy with --fix OUT, or skip them with --skip-bad"
            )?;
        }
        writeln!(f)?;
        writeln!(f, "{}", self.entity_table())
    }
}

impl CheckReport {
    /// Writes the problems and findings, a few lines for each kind.
    pub(super) fn write_problems(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for group in &self.groups {
            writeln!(f, "{group}")?;
        }
        if !self.groups.is_empty() {
            writeln!(f)?;
        }
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if !self.findings.is_empty() {
            writeln!(f)?;
        }
        let worst = &self.inconsistent.worst;
        if !worst.is_empty() {
            writeln!(
                f,
                "the same words with different annotations: {} of {}, the most one-sided first",
                worst.len(),
                self.inconsistent.surfaces
            )?;
            for surface in worst.iter().map(Inconsistency::text) {
                writeln!(f, "    {surface}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn entity_table(&self) -> Table {
        let mut table = Table::headless();
        let mut row = |name: &str, count: usize| {
            let percent = 100.0 * share(count, self.entities);
            table.row([
                name.to_owned(),
                count.to_string(),
                format!("{percent:.2} %"),
            ]);
        };
        row("entities", self.entities);
        row("  overlapping another", self.overlapping);
        row("  nested", self.nested);
        row("  two types on one span", self.same_span);
        row("  crossing another", self.crossing);
        row("  not at word boundaries", self.misaligned);
        if self.discontinuous > 0 {
            row("  discontinuous", self.discontinuous);
        }
        for bound in &self.recall_bounds {
            row(
                &format!("recall bound of a {}", bound.model),
                bound.entities,
            );
        }
        for limit in &self.span_limits {
            row(
                &format!("  spans of up to {} words", limit.words),
                limit.entities,
            );
        }
        for bound in &self.heads {
            let mut name = format!("within reach of {}", bound.head);
            if let Some(longest) = bound.reach.longest {
                name += &format!(", up to {longest} words");
            }
            if let Some(most) = bound.reach.most {
                name += &format!(", up to {most} in a sentence");
            }
            row(&name, bound.entities);
        }
        table
    }
}
