//! The analysis on a terminal: every table of the report.

use std::fmt;

use super::Analysis;
use super::cells::Table;

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.facts())?;
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
            write!(f, "\n{}\n{}\n", table.title, lines(&table).join("\n"))?;
        }
        Ok(())
    }
}

impl Analysis {
    /// What was compared on what, in a sentence or two.
    pub(super) fn facts(&self) -> String {
        let overall = &self.standard().report.overall;
        let mut facts = format!(
            "{} gold sentences with {} words and {} entities; {} sentences to train on. {:.2} % of the gold words occur in none of these.",
            self.sentences,
            self.words,
            overall.gold,
            self.training_sentences,
            100.0 * self.out_of_vocabulary(),
        );
        match self.standard().report.unreachable {
            0 => {}
            1 => facts.push_str(" 1 gold entity is no span of words and counts as missed."),
            count => facts.push_str(&format!(
                " {count} gold entities are no spans of words and count as missed."
            )),
        }
        facts
    }
}

/// The table in aligned columns: names to the left, everything else to the right.
fn lines(table: &Table) -> Vec<String> {
    let named = table.groups.iter().any(|group| group.name.is_some());
    let mut rows: Vec<(bool, Vec<String>)> = Vec::new(); // and whether a rule goes before it
    for group in &table.groups {
        for (index, row) in group.rows.iter().enumerate() {
            let mut cells: Vec<String> = row.iter().map(|cell| cell.whole()).collect();
            if named {
                let name = group.name.clone().filter(|_| index == 0);
                cells.insert(0, name.unwrap_or_default());
            }
            rows.push((index == 0, cells));
        }
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|(_, cells)| &cells[column]);
        let widths = cells
            .chain([&table.head[column]])
            .map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let line = |cells: &[String]| -> String {
        let padded = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if table.is_name(column) {
                    format!("{cell:width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rule = "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1));
    let mut lines = vec![line(&table.head)];
    for (ruled, cells) in &rows {
        if *ruled {
            lines.push(rule.clone());
        }
        lines.push(line(cells));
    }
    lines
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
boundary  good       0        1    0.00        standard
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
        assert!(text.starts_with(
            "3 gold sentences with 48 words and 4 entities; 2 sentences to train on. 10.42 % of"
        ));
        assert!(text.contains("\ngood   80.00  100.00  88.89 "), "{text}");
    }
}
