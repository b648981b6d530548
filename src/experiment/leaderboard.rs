//! The result of a comparison: a table of all candidates, best first.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::candidates::Candidate;
use super::percent;
use crate::eval::analysis::Analysis;
use crate::table::Table;
use crate::train::progress::clock;

/// The scores of a candidate after a rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The candidate's name.
    pub name: String,
    /// Epochs trained.
    pub epochs: usize,
    /// Best dev F1 so far, over all entities, in 0..=1.
    pub f1: f64,
    /// Seconds of training so far.
    pub seconds: f64,
    /// Speed of training in the last epoch.
    pub sentences_per_second: f64,
    /// Why it cannot continue, if so.
    pub failed: Option<String>,
}

impl Standing {
    /// The standing of a candidate before its first epoch.
    pub fn untrained(name: &str) -> Self {
        Self {
            name: name.into(),
            epochs: 0,
            f1: 0.0,
            seconds: 0.0,
            sentences_per_second: 0.0,
            failed: None,
        }
    }
}

/// The standings, best first: by F1, then by name; those that failed come last.
pub fn ranked(standings: &[Standing]) -> Vec<&Standing> {
    let mut ranked: Vec<&Standing> = standings.iter().collect();
    ranked.sort_by(|a, b| {
        let failed = a.failed.is_some().cmp(&b.failed.is_some());
        failed.then(b.f1.total_cmp(&a.f1)).then(a.name.cmp(&b.name))
    });
    ranked
}

/// The table of a comparison that is not finished: `standings` has the newest standing of each candidate that was trained.
pub fn live_table(
    candidates: &[Candidate],
    standings: &[Standing],
    seconds_left: Option<f64>,
) -> String {
    let mut table = Table::new(["head", "settings", "epochs", "dev F1", "sentences/s"]).left([1]);
    let find = |name: &str| candidates.iter().find(|candidate| candidate.name == name);
    for standing in ranked(standings) {
        let Some(candidate) = find(&standing.name) else {
            continue;
        };
        let (f1, speed) = if standing.epochs == 0 {
            ("failed".to_string(), String::new())
        } else {
            let speed = format!("{:.1}", standing.sentences_per_second);
            (percent(standing.f1), speed)
        };
        let epochs = standing.epochs.to_string();
        table.row([
            candidate.head.clone(),
            candidate.settings(),
            epochs,
            f1,
            speed,
        ]);
    }
    let waiting = candidates.len() - standings.len().min(candidates.len());
    let waiting = match waiting {
        0 => String::new(),
        count => format!("{count} not trained yet; "),
    };
    let left = seconds_left.map_or("unknown".into(), |seconds| {
        format!("about {}", clock(seconds))
    });
    format!("{table}\n{waiting}time left: {left}")
}

/// The difference in F1 to the best candidate, with a paired bootstrap over sentences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// F1 minus that of the best, in -1..=1.
    pub value: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// A candidate of the finished comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The candidate's name.
    pub name: String,
    /// The head.
    pub head: String,
    /// Its settings.
    pub settings: String,
    /// Epochs trained.
    pub epochs: usize,
    /// Dev F1, in 0..=1.
    pub dev_f1: f64,
    /// Test F1 of a finished model, if there are test sentences.
    pub test_f1: Option<f64>,
    /// The difference to the best, of another finished model.
    pub difference: Option<Difference>,
    /// Speed of training.
    pub sentences_per_second: f64,
    /// The model folder of a finished model, relative to the folder of the comparison.
    pub folder: Option<String>,
    /// Why it could not continue, if so.
    pub failed: Option<String>,
}

/// All candidates of a comparison, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaderboard {
    /// The name of the best candidate.
    pub best: String,
    /// The sentences on which the models' differences are measured: `test`, or `dev` where there are none.
    pub compared_on: String,
    /// Finished models by dev F1, then the candidates that dropped out.
    pub rows: Vec<Row>,
    /// Candidates that were not started, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Seconds of the whole comparison.
    pub seconds: f64,
    /// The command that repeats it.
    pub command: String,
}

impl Leaderboard {
    /// Adds the differences to the best that an analysis found.
    pub fn add_differences(&mut self, analysis: &Analysis) {
        for model in &analysis.models {
            let Some(row) = self.rows.iter_mut().find(|row| row.name == model.name) else {
                continue;
            };
            row.difference = model.significance.difference.map(|difference| Difference {
                value: difference.value,
                low: difference.interval.low,
                high: difference.interval.high,
                p: difference.p,
            });
        }
    }

    const HEADER: [&str; 7] = [
        "head",
        "settings",
        "epochs",
        "dev F1",
        "test F1",
        "difference [95 %]",
        "p",
    ];

    fn cells(&self, row: &Row) -> [String; 7] {
        let difference = row.difference.map(|difference| {
            let points = |value: f64| format!("{:+.2}", 100.0 * value);
            let (value, low, high) = (difference.value, difference.low, difference.high);
            format!("{} [{}, {}]", points(value), points(low), points(high))
        });
        let dev = if row.epochs == 0 {
            "failed".to_string()
        } else {
            percent(row.dev_f1)
        };
        let difference = if row.name == self.best {
            "best".to_string()
        } else {
            difference.unwrap_or_default()
        };
        [
            row.head.clone(),
            row.settings.clone(),
            row.epochs.to_string(),
            dev,
            row.test_f1.map(percent).unwrap_or_default(),
            difference,
            row.difference
                .map(|difference| format!("{:.3}", difference.p))
                .unwrap_or_default(),
        ]
    }

    /// The explanations below the table, one per line.
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "Difference: F1 on {} minus that of the best, with 95 % confidence interval and p-value of a paired bootstrap \
             over sentences. Candidates without a difference dropped out after the epochs shown.",
            self.compared_on
        )];
        let failed = self
            .rows
            .iter()
            .filter_map(|row| Some((&row.name, row.failed.as_ref()?)));
        let left_out = self.left_out.iter().map(|(name, reason)| (name, reason));
        notes.extend(
            failed
                .chain(left_out)
                .map(|(name, reason)| format!("{name}: {reason}")),
        );
        notes
    }

    /// The table as Markdown, with the command that repeats the comparison.
    pub fn to_markdown(&self) -> String {
        let escape = |cell: String| cell.replace('|', "\\|");
        let line = |cells: [String; 7]| format!("| {} |\n", cells.map(escape).join(" | "));
        let mut text = format!("# Best: {}\n\n", self.best);
        text += &line(Self::HEADER.map(String::from));
        text += "|---|---|---|---|---|---|---|\n";
        for row in &self.rows {
            text += &line(self.cells(row));
        }
        for note in self.notes() {
            text += &format!("\n{note}\n");
        }
        text + &format!(
            "\nTook {}. The same again, without a time limit:\n\n```sh\n{}\n```\n",
            clock(self.seconds),
            self.command
        )
    }
}

impl fmt::Display for Leaderboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(Self::HEADER).left([1]);
        for row in &self.rows {
            table.row(self.cells(row));
        }
        write!(f, "{table}\n\n{}", self.notes().join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(name: &str, f1: f64) -> Standing {
        Standing {
            f1,
            epochs: 2,
            sentences_per_second: 31.25,
            ..Standing::untrained(name)
        }
    }

    #[test]
    fn ties_are_broken_by_name_and_failures_are_last() {
        let mut failed = standing("a", 0.9);
        failed.failed = Some("NaN".into());
        let all = [
            failed,
            standing("d", 0.5),
            standing("c", 0.7),
            standing("b", 0.5),
        ];
        let names: Vec<&str> = ranked(&all).iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "d", "a"]);
    }

    #[test]
    fn the_live_table_shows_who_waits() {
        let candidate = |name: &str, sets: &[&str]| Candidate {
            name: name.into(),
            head: "tagger".into(),
            variant: "default".into(),
            sets: sets.iter().map(|set| set.to_string()).collect(),
        };
        let all = [
            candidate("a", &[]),
            candidate("b", &["x=1"]),
            candidate("c", &[]),
        ];
        let standings = [standing("a", 0.5), standing("b", 0.625)];
        let expected = "\
head    settings  epochs  dev F1  sentences/s
tagger  x=1            2   62.50         31.2
tagger  default        2   50.00         31.2
1 not trained yet; time left: about 1m30s";
        assert_eq!(live_table(&all, &standings, Some(90.0)), expected);
    }

    fn row(name: &str, dev_f1: f64, difference: Option<Difference>) -> Row {
        Row {
            name: name.into(),
            head: name.into(),
            settings: "default".into(),
            epochs: 4,
            dev_f1,
            test_f1: difference.map(|_| 0.5),
            difference,
            sentences_per_second: 10.0,
            folder: None,
            failed: None,
        }
    }

    #[test]
    fn the_leaderboard_is_a_table_in_text_and_markdown() {
        let difference = Difference {
            value: -0.05,
            low: -0.08,
            high: -0.01,
            p: 0.004,
        };
        let board = Leaderboard {
            best: "one".into(),
            compared_on: "test".into(),
            rows: vec![row("one", 0.75, None), row("two", 0.7, Some(difference))],
            left_out: vec![("three".into(), "too slow".into())],
            seconds: 75.0,
            command: "nerzoo compare".into(),
        };
        let text = board.to_string();
        let expected = "\
head  settings  epochs  dev F1  test F1     difference [95 %]      p
one   default        4   75.00                           best
two   default        4   70.00    50.00  -5.00 [-8.00, -1.00]  0.004";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("three: too slow"), "{text}");
        let markdown = board.to_markdown();
        let expected = "| two | default | 4 | 70.00 | 50.00 | -5.00 [-8.00, -1.00] | 0.004 |";
        assert!(markdown.contains(expected), "{markdown}");
        assert!(markdown.contains("Took 1m15s"), "{markdown}");
    }
}
