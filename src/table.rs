//! Text tables with aligned columns, for terminal output and log files.

use std::fmt;

use unicode_width::UnicodeWidthStr;

use crate::text::visible;

/// Spaces between two columns.
const GAP: &str = "  ";

/// A text table. The first column is aligned left and all others right; [`Table::left`] and [`Table::right`] change
/// this.
///
/// Widths are counted in terminal cells, so labels in Chinese or with emoji stay aligned.
///
/// ```
/// use nerzoo::table::Table;
///
/// let mut table = Table::new(["setting", "P", "R", "F1"]);
/// table.row(["alpha=0.1", "90.00", "80.00", "84.71"]);
/// assert_eq!(
///     table.to_string(),
///     "setting        P      R     F1\n\
///      alpha=0.1  90.00  80.00  84.71"
/// );
/// ```
#[derive(Debug, Clone, Default)]
pub struct Table {
    header: Option<Vec<String>>,
    left: Vec<usize>,
    min_widths: Vec<usize>,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
enum Line {
    Row(Vec<String>),
    Rule,
}

impl Table {
    /// A table with one column for each of these headings.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self {
            header: Some(strings(header)),
            ..Self::headless()
        }
    }

    /// A table without headings; it has as many columns as its longest row.
    pub fn headless() -> Self {
        Self {
            left: vec![0],
            ..Self::default()
        }
    }

    /// Aligns the columns with these indices left.
    pub fn left(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.left.extend(columns);
        self
    }

    /// Aligns the column with this index right.
    pub fn right(mut self, column: usize) -> Self {
        self.left.retain(|left| *left != column);
        self
    }

    /// Makes columns at least this wide, in order. Needed where rows are printed one at a time, before the widest
    /// cell is known.
    pub fn min_widths(mut self, widths: impl IntoIterator<Item = usize>) -> Self {
        self.min_widths = widths.into_iter().collect();
        self
    }

    /// Adds a row. Cells that are missing at its end stay empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        self.lines.push(Line::Row(strings(cells)));
        self
    }

    /// Adds a horizontal line across the whole table.
    pub fn rule(&mut self) -> &mut Self {
        self.lines.push(Line::Rule);
        self
    }

    /// A row formatted for the present widths but not added: for output that appears as values are measured.
    pub fn format_row<S: Into<String>>(&self, cells: impl IntoIterator<Item = S>) -> String {
        self.format(&strings(cells), &self.widths())
    }

    /// Width of every column in terminal cells.
    fn widths(&self) -> Vec<usize> {
        let rows = self.lines.iter().filter_map(|line| match line {
            Line::Row(cells) => Some(cells),
            Line::Rule => None,
        });
        let mut widths = self.min_widths.clone();
        for cells in self.header.iter().chain(rows) {
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    fn format(&self, cells: &[String], widths: &[usize]) -> String {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| {
                let width = widths.get(column).copied().unwrap_or(0);
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                if self.left.contains(&column) {
                    format!("{cell}{padding}")
                } else {
                    format!("{padding}{cell}")
                }
            })
            .collect();
        padded.join(GAP).trim_end().to_owned()
    }
}

/// The whole table, without a line break at its end.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        let header = self.header.iter().map(|cells| self.format(cells, &widths));
        let lines = self.lines.iter().map(|line| match line {
            Line::Row(cells) => self.format(cells, &widths),
            Line::Rule => "-".repeat(total),
        });
        let lines: Vec<String> = header.chain(lines).collect();
        f.write_str(&lines.join("\n"))
    }
}

fn strings<S: Into<String>>(cells: impl IntoIterator<Item = S>) -> Vec<String> {
    let visible = |cell: S| {
        let cell: String = cell.into();
        visible(&cell).replace(['\n', '\t'], " ")
    };
    cells.into_iter().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_trailing_spaces_removed() {
        let mut table = Table::new(["type", "F1", "note"]).left([2]);
        table
            .rule()
            .row(["LOC", "100.00", "all found"])
            .row(["PERSON", "7.50"]);
        let expected = "\
type        F1  note
-------------------------
LOC     100.00  all found
PERSON    7.50";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn wide_characters_count_as_two_cells() {
        let mut table = Table::headless();
        table.row(["地点", "1"]).row(["Größe", "23"]);
        assert_eq!(table.to_string(), "地点    1\nGröße  23");
    }

    #[test]
    fn rows_printed_one_at_a_time_use_the_given_widths() {
        let table = Table::new(["words", "speed"]).min_widths([0, 8]);
        assert_eq!(table.to_string(), "words     speed");
        assert_eq!(table.format_row(["16", "1.5"]), "16          1.5");
    }

    #[test]
    fn empty_tables_are_empty_text() {
        assert_eq!(Table::headless().to_string(), "");
        assert_eq!(Table::new(["a", "b"]).to_string(), "a  b");
    }
}
