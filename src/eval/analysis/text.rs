//! The analysis as text for the terminal.

use std::fmt;

use super::Analysis;
use super::report_table::ReportTable;
use crate::eval::report::unreachable_note;
use crate::table::Table;

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        let mut tables = vec![
            self.overall_table(),
            self.type_table(),
            self.bucket_table(),
            self.length_table(),
            self.error_table(),
        ];
        tables.extend(self.nesting_table());
        tables.extend(self.models.iter().map(|model| self.confusion_table(model)));
        for table in tables {
            write!(f, "\n{}\n{}\n", table.title, text_table(&table))?;
        }
        Ok(())
    }
}

impl Analysis {
    /// The size of the data, in a sentence or two.
    pub(super) fn summary(&self) -> String {
        let report = &self.baseline().report;
        let mut summary = format!(
            "{} gold sentences with {} words and {} entities; {} training sentences. {:.2} % of the gold words do not occur in the training sentences.",
            self.sentences,
            self.words,
            report.overall.gold,
            self.training_sentences,
            100.0 * self.out_of_vocabulary(),
        );
        if let Some(note) = unreachable_note(report.unreachable) {
            summary += &format!(" {note}.");
        }
        summary
    }
}

/// The table as text: names aligned left, values right, and a rule before each group.
fn text_table(table: &ReportTable) -> Table {
    let columns = 0..table.header.len();
    let names = columns.filter(|column| table.is_name_column(*column));
    let mut text = Table::new(table.header.iter().cloned()).left(names);
    for group in &table.groups {
        text.rule();
        for (index, row) in group.rows.iter().enumerate() {
            let mut cells: Vec<String> = row.iter().map(|cell| cell.full_text()).collect();
            if table.has_group_names() {
                let name = group.name.clone().filter(|_| index == 0);
                cells.insert(0, name.unwrap_or_default());
            }
            text.row(cells);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;

    #[test]
    fn tables_are_aligned_and_signed() {
        let text = example().to_string();
        let expected = "\
kind      model  count  FP + FN    rate      difference
-------------------------------------------------------
boundary  good       0        1    0.00        baseline
          bad        1        5   20.00   +20.00 ▲ more
";
        assert!(text.contains(expected), "{text}");
        let expected = "\
eCon: label consistency      values                [0, 0.1]       (0.1, 0.5]       (0.5, 0.9]         (0.9, 1]
                             gold entities                1                1                0                2
                             good                     66.67           100.00                –           100.00
                             bad             0.00  −66.67 ▼  0.00  −100.00 ▼                –  66.67  −33.33 ▼
";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.starts_with(
                "3 gold sentences with 48 words and 4 entities; 2 training sentences. 10.42 % of"
            ),
            "{text}"
        );
        assert!(text.contains("\ngood   80.00  100.00  88.89 "), "{text}");
    }
}
