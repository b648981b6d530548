//! The tables of the report before they are rendered as text or HTML.

use super::Interval;

/// A table with a header and rows in groups.
pub(super) struct ReportTable {
    /// The title.
    pub title: String,
    /// Explains how to read the table; may be empty.
    pub caption: String,
    /// Column headings. If groups have names, the first heading is for them.
    pub header: Vec<String>,
    /// The rows.
    pub groups: Vec<RowGroup>,
}

impl ReportTable {
    /// True when groups have names, which are shown in the first column.
    pub fn has_group_names(&self) -> bool {
        self.groups.iter().any(|group| group.name.is_some())
    }

    /// True when a column holds names, false when it holds values.
    pub fn is_name_column(&self, column: usize) -> bool {
        let first = self.groups.first().and_then(|group| group.rows.first());
        match (
            column.checked_sub(usize::from(self.has_group_names())),
            first,
        ) {
            (Some(column), Some(row)) => row
                .get(column)
                .is_some_and(|cell| cell.kind == CellKind::Name),
            _ => true,
        }
    }
}

/// Consecutive rows with a common name.
pub(super) struct RowGroup {
    /// The name, shown in the first column.
    pub name: Option<String>,
    /// The cells of each row, without that column.
    pub rows: Vec<Vec<TableCell>>,
}

/// A cell of a [`ReportTable`].
pub(super) struct TableCell {
    /// The text.
    pub text: String,
    /// Shown before the text in a smaller font.
    pub detail: Option<String>,
    /// Decides alignment and colour.
    pub kind: CellKind,
}

/// The role of a cell, which decides its alignment and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// The name of a row.
    Name,
    /// A value.
    Number,
    /// A remark.
    Remark,
    /// An element on the diagonal of a confusion matrix.
    Diagonal,
    /// A difference for the better, from 1 (small) to 4.
    Better(u8),
    /// A difference for the worse, from 1 (small) to 4.
    Worse(u8),
}

/// Shown for an undefined value.
pub(super) const UNDEFINED: &str = "–";

/// Differences of at least this many points are shown in the second, third and fourth colour.
const COLOUR_LIMITS: [f64; 3] = [1.0, 2.5, 5.0];

impl TableCell {
    /// A cell with this text.
    pub fn new(text: impl Into<String>, kind: CellKind) -> Self {
        Self {
            text: text.into(),
            detail: None,
            kind,
        }
    }

    /// The name of a row.
    pub fn name(text: &str) -> Self {
        Self::new(text, CellKind::Name)
    }

    /// A count.
    pub fn count(count: u64) -> Self {
        Self::new(count.to_string(), CellKind::Number)
    }

    /// A fraction in percent.
    pub fn percent(value: Option<f64>) -> Self {
        let text = value.map_or(UNDEFINED.to_owned(), |value| {
            format!("{:.2}", 100.0 * value)
        });
        Self::new(text, CellKind::Number)
    }

    /// A signed difference in points, with an arrow up or down.
    pub fn difference(value: Option<f64>, higher_is_better: bool) -> Self {
        let Some(value) = value else {
            return Self::new(UNDEFINED, CellKind::Number);
        };
        let points = 100.0 * value;
        if points.abs() < 0.005 {
            return Self::new("0.00 =", CellKind::Number);
        }
        let arrow = if points > 0.0 { "▲" } else { "▼" };
        let reached = COLOUR_LIMITS.iter().filter(|limit| points.abs() >= **limit);
        let strength = reached.count() as u8 + 1;
        let kind = if (points > 0.0) == higher_is_better {
            CellKind::Better(strength)
        } else {
            CellKind::Worse(strength)
        };
        Self::new(format!("{} {arrow}", signed(points)), kind)
    }

    /// A difference where less is better, with a word because the arrow alone would mislead.
    pub fn lower_is_better(value: Option<f64>) -> Self {
        let mut cell = Self::difference(value, false);
        match cell.kind {
            CellKind::Better(_) => cell.text.push_str(" less"),
            CellKind::Worse(_) => cell.text.push_str(" more"),
            _ => {}
        }
        cell
    }

    /// An interval in percent, with signs if it is one of differences.
    pub fn interval(interval: Interval, sign: bool) -> Self {
        let (low, high) = (100.0 * interval.low, 100.0 * interval.high);
        let text = if sign {
            format!("{} to {}", signed(low), signed(high))
        } else {
            format!("{low:.2} to {high:.2}")
        };
        Self::new(text, CellKind::Number)
    }

    /// The text with its detail.
    pub fn full_text(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{detail}  {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// The value with two decimals and a sign; the minus sign is as wide as the plus sign.
fn signed(value: f64) -> String {
    // Adding zero turns a negative zero into a plain one.
    format!("{:+.2}", (value * 100.0).round() / 100.0 + 0.0).replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_show_their_direction_without_colour() {
        let cells: Vec<(String, CellKind)> = [0.004, 0.01, -0.03, 0.2, 0.00001, -0.00001]
            .iter()
            .map(|value| TableCell::difference(Some(*value), true))
            .map(|cell| (cell.text, cell.kind))
            .collect();
        let expected = [
            ("+0.40 ▲", CellKind::Better(1)),
            ("+1.00 ▲", CellKind::Better(2)),
            ("−3.00 ▼", CellKind::Worse(3)),
            ("+20.00 ▲", CellKind::Better(4)),
            ("0.00 =", CellKind::Number),
            ("0.00 =", CellKind::Number),
        ];
        let expected = expected.map(|(text, kind)| (text.to_owned(), kind));
        assert_eq!(cells, expected);
        assert_eq!(TableCell::lower_is_better(Some(-0.03)).text, "−3.00 ▼ less");
        assert_eq!(TableCell::lower_is_better(Some(0.03)).text, "+3.00 ▲ more");
        assert_eq!(TableCell::difference(None, true).text, UNDEFINED);
        assert_eq!(TableCell::percent(None).text, UNDEFINED);
    }

    #[test]
    fn intervals_have_no_negative_zero() {
        let interval = Interval {
            low: -0.00001,
            high: 0.02,
        };
        assert_eq!(TableCell::interval(interval, true).text, "+0.00 to +2.00");
    }
}
