//! What tables are made of, before they become text or HTML.

use super::Interval;
use crate::eval::{Counts, Split};

/// A table: a head, and rows in groups.
pub(super) struct Table {
    /// What it shows.
    pub title: String,
    /// How to read it; may be empty.
    pub caption: String,
    /// The columns; where groups have names, the first is theirs.
    pub head: Vec<String>,
    /// The rows.
    pub groups: Vec<Group>,
}

impl Table {
    /// True when a column has names and no numbers.
    pub fn is_name(&self, column: usize) -> bool {
        let named = self.groups.iter().any(|group| group.name.is_some());
        let first = self.groups.first().and_then(|group| group.rows.first());
        match (column.checked_sub(usize::from(named)), first) {
            (Some(column), Some(row)) => {
                row.get(column).is_some_and(|cell| cell.kind == Kind::Name)
            }
            _ => true,
        }
    }
}

/// Rows that belong together.
pub(super) struct Group {
    /// What they have in common, in the first column.
    pub name: Option<String>,
    /// Each row, without that column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
pub(super) struct Cell {
    /// What it says.
    pub text: String,
    /// Goes before the text, less prominent.
    pub detail: Option<String>,
    /// What it is.
    pub kind: Kind,
}

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Heads a row.
    Name,
    /// A number.
    Number,
    /// A remark.
    Remark,
    /// The same label on both sides.
    Diagonal,
    /// Better than the standard, from 1 (a little) to 4.
    Better(u8),
    /// Worse than the standard, from 1 (a little) to 4.
    Worse(u8),
}

/// Stands where there is nothing to show.
pub(super) const NOTHING: &str = "–";

/// From how many points on a difference is of the second, third and fourth strength.
const STRENGTHS: [f64; 3] = [1.0, 2.5, 5.0];

impl Cell {
    /// A cell that says this.
    pub fn new(text: impl Into<String>, kind: Kind) -> Self {
        Self {
            text: text.into(),
            detail: None,
            kind,
        }
    }

    /// The head of a row.
    pub fn name(text: &str) -> Self {
        Self::new(text, Kind::Name)
    }

    /// A number of things.
    pub fn count(count: u64) -> Self {
        Self::new(count.to_string(), Kind::Number)
    }

    /// A fraction in percent.
    pub fn percent(value: Option<f64>) -> Self {
        let text = value.map_or(NOTHING.to_owned(), |value| format!("{:.2}", 100.0 * value));
        Self::new(text, Kind::Number)
    }

    /// A signed difference in points, with an arrow that points where the number does.
    pub fn difference(value: Option<f64>, higher_is_better: bool) -> Self {
        let Some(value) = value else {
            return Self::new(NOTHING, Kind::Number);
        };
        let points = 100.0 * value;
        if points.abs() < 0.005 {
            return Self::new("0.00 =", Kind::Number);
        }
        let arrow = if points > 0.0 { "▲" } else { "▼" };
        let above = STRENGTHS.iter().filter(|border| points.abs() >= **border);
        let strength = above.count() as u8 + 1;
        let kind = if (points > 0.0) == higher_is_better {
            Kind::Better(strength)
        } else {
            Kind::Worse(strength)
        };
        Self::new(format!("{} {arrow}", signed(points)), kind)
    }

    /// A difference of shares where less is better, so that the arrow alone would mislead.
    pub fn fewer_is_better(value: Option<f64>) -> Self {
        let mut cell = Self::difference(value, false);
        match cell.kind {
            Kind::Better(_) => cell.text.push_str(" less"),
            Kind::Worse(_) => cell.text.push_str(" more"),
            _ => {}
        }
        cell
    }

    /// From and to, in percent.
    pub fn interval(interval: Interval, sign: bool) -> Self {
        let (low, high) = (100.0 * interval.low, 100.0 * interval.high);
        let text = if sign {
            format!("{} to {}", signed(low), signed(high))
        } else {
            format!("{low:.2} to {high:.2}")
        };
        Self::new(text, Kind::Number)
    }

    /// The whole text of the cell.
    pub fn whole(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{detail}  {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// With a sign, and a minus as wide as the plus.
fn signed(value: f64) -> String {
    // Adding zero turns a negative zero into a plain one.
    format!("{:+.2}", (value * 100.0).round() / 100.0 + 0.0).replace('-', "−")
}

/// Precision, recall, F1 and support, however they were counted; nothing where there is nothing to divide by.
#[derive(Clone, Copy)]
pub(super) struct Scores {
    /// Nothing when nothing was predicted.
    pub precision: Option<f64>,
    /// Nothing without gold.
    pub recall: Option<f64>,
    /// Nothing without gold.
    pub f1: Option<f64>,
    /// Gold entities.
    pub support: u64,
}

impl From<&Counts> for Scores {
    fn from(counts: &Counts) -> Self {
        Self {
            precision: (counts.predicted > 0).then(|| counts.precision()),
            recall: (counts.gold > 0).then(|| counts.recall()),
            f1: (counts.gold > 0).then(|| counts.f1()),
            support: counts.gold,
        }
    }
}

impl From<&Split> for Scores {
    fn from(split: &Split) -> Self {
        Self {
            precision: (split.predicted > 0).then(|| split.precision()),
            recall: (split.gold > 0).then(|| split.recall()),
            f1: (split.gold > 0).then(|| split.f1()),
            support: split.gold,
        }
    }
}

impl Scores {
    /// F1 minus that of the standard, where both have one.
    pub fn minus(&self, standard: &Scores) -> Option<f64> {
        Some(self.f1? - standard.f1?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_say_their_direction_without_colour() {
        let cells: Vec<(String, Kind)> = [0.004, 0.01, -0.03, 0.2, 0.00001, -0.00001]
            .iter()
            .map(|value| Cell::difference(Some(*value), true))
            .map(|cell| (cell.text, cell.kind))
            .collect();
        let expected = [
            ("+0.40 ▲", Kind::Better(1)),
            ("+1.00 ▲", Kind::Better(2)),
            ("−3.00 ▼", Kind::Worse(3)),
            ("+20.00 ▲", Kind::Better(4)),
            ("0.00 =", Kind::Number),
            ("0.00 =", Kind::Number),
        ];
        let expected = expected.map(|(text, kind)| (text.to_owned(), kind));
        assert_eq!(cells, expected);
        assert_eq!(Cell::fewer_is_better(Some(-0.03)).text, "−3.00 ▼ less");
        assert_eq!(Cell::fewer_is_better(Some(0.03)).text, "+3.00 ▲ more");
        assert_eq!(Cell::difference(None, true).text, NOTHING);
    }

    #[test]
    fn nothing_is_not_zero() {
        let scores = Scores::from(&Counts {
            correct: 0,
            predicted: 3,
            gold: 0,
        });
        assert_eq!(
            (scores.precision, scores.recall, scores.f1),
            (Some(0.0), None, None)
        );
        let other = Scores::from(&Split::default());
        assert_eq!(scores.minus(&other), None);
        assert_eq!(Cell::percent(scores.f1).text, NOTHING);
    }

    #[test]
    fn intervals_have_no_negative_zero() {
        let interval = Interval {
            low: -0.00001,
            high: 0.02,
        };
        assert_eq!(Cell::interval(interval, true).text, "+0.00 to +2.00");
    }
}
