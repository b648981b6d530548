//! `nerzoo evaluate --sweep`: the scores of a model with other values of its settings.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use serde_json::{Map, Value, json};

use super::print_json;
use crate::data;
use crate::eval::{Counts, evaluate, threshold};
use crate::files::write_atomic;
use crate::heads::settings::Setting;
use crate::model::folder::{self, ModelConfig};
use crate::plot::{Axis, LineStyle, Panel, Series, page};
use crate::recipe::set::{Assignment, key_and_values, parse_value};
use crate::registry;
use crate::table::Table;
use crate::text::{Entity, Sentence, outermost};

/// The key of the score threshold that every model has: `predict --threshold`.
const SCORE: &str = "threshold";

/// Sentences tagged before the clock starts.
const WARM_UP: usize = 16;

/// A model to evaluate with several settings.
pub struct Sweep<'a> {
    /// Its folder.
    pub model: &'a Path,
    /// The device.
    pub device: &'a Device,
    /// Settings that are the same in all evaluations.
    pub overrides: &'a [Assignment],
    /// Print JSON instead of a table.
    pub json: bool,
    /// The file of the plot.
    pub out: Option<&'a Path>,
}

/// One combination of values and its scores.
#[derive(Debug)]
struct Row {
    values: Vec<toml::Value>,
    counts: Counts,
    sentences_per_second: f64,
}

impl Sweep<'_> {
    /// Evaluates every combination, prints the scores and draws the plot.
    pub fn run(&self, sweeps: &[String], sentences: &mut [Sentence]) -> Result<()> {
        let mut axes: Vec<(&str, Vec<&str>)> = Vec::new();
        for text in sweeps {
            match key_and_values(text) {
                Some(axis) if axis.0 == SCORE => bail!(
                    "--sweep {text}: the score threshold is swept over all its values at once; write --sweep {SCORE}"
                ),
                Some((key, _)) if axes.iter().any(|(other, _)| *other == key) => {
                    bail!("--sweep {key} is given twice; list all its values in one")
                }
                Some(axis) => axes.push(axis),
                None if sweeps.len() > 1 => bail!(
                    "--sweep {text} has no values and cannot be combined with others; write {text}=VALUE,VALUE"
                ),
                None => return self.thresholds(text, sentences),
            }
        }
        self.product(&axes, sentences)
    }

    /// Every threshold that makes a difference, from one run with the lowest.
    fn thresholds(&self, key: &str, sentences: &mut [Sentence]) -> Result<()> {
        if self.out.is_some() {
            bail!("--out plots a sweep over given values, such as --sweep {key}=0.3,0.5,0.7");
        }
        let scale = self.score_scale(key)?;
        let mut overrides = self.overrides.to_vec();
        if key != SCORE {
            overrides.extend(self.selected_part(key)?);
            overrides.push(assignment(key, toml::Value::Float(0.0)));
        }
        let mut tagger = registry::load(self.model, self.device, &overrides)?;
        if key != SCORE {
            // The head compares its own scores with its threshold.
            tagger.remove_calibration();
        }
        data::link_context(sentences, tagger.context());
        let mentions = tagger.tag(sentences)?;
        let gold: Vec<Vec<Entity>> = sentences
            .iter()
            .map(|sentence| {
                if tagger.nested() {
                    sentence.entities.clone()
                } else {
                    outermost(&sentence.entities)
                }
            })
            .collect();
        let pairs = (gold.iter().map(Vec::as_slice)).zip(mentions.iter().map(Vec::as_slice));
        let unreachable = sentences
            .iter()
            .map(|sentence| sentence.unreachable_labels().count() as u64);
        let all = threshold::sweep(pairs, unreachable.sum());
        let best = threshold::best(&all).context("there is nothing to sweep over")?;
        // A mention must exceed the head's own threshold: a value slightly below keeps the one with exactly this score,
        // even after rounding.
        let value = |at: &threshold::Threshold| {
            let below = at.score.next_down().next_down().max(0.0);
            f64::from(if key == SCORE { at.score } else { below }) * scale
        };
        if self.json {
            let row = |at: &threshold::Threshold| {
                let mut row = scores(&at.counts);
                row.insert("threshold".into(), json!(value(at)));
                row
            };
            return print_json(&json!({"best": row(&best), "lowest": row(&all[0])}));
        }
        if !tagger.nested() {
            println!("this model is flat: scored on the outermost entities");
        }
        let mut table = Table::new([key, "P", "R", "F1", ""]).left([4]);
        // A dozen rows show the curve; the best one is always among them.
        let step = (all.len() / 12).max(1);
        for (index, at) in all.iter().enumerate() {
            if index % step == 0 || *at == best {
                let mark = if *at == best { "best" } else { "" };
                let mut cells = vec![format!("{:.4}", value(at))];
                cells.extend(percents(&at.counts));
                cells.push(mark.into());
                table.row(cells);
            }
        }
        println!("{table}");
        let option = if key == SCORE {
            "--threshold ".into()
        } else {
            format!("--set {key}=")
        };
        println!("use it: nerzoo predict {option}{} ...", value(&best));
        Ok(())
    }

    /// The value of a threshold setting for a mention score of 1.
    fn score_scale(&self, key: &str) -> Result<f64> {
        if key == SCORE {
            return Ok(1.0);
        }
        let (head, settings) = self.settings()?;
        let setting = key.strip_prefix("head.").and_then(|name| {
            let mut all = settings.iter();
            all.find(|setting| setting.name == name)
        });
        match setting {
            Some(Setting {
                score_scale: Some(scale),
                ..
            }) => Ok(*scale),
            Some(_) => bail!("--sweep {key}: give the values to try, such as {key}=1,2,5"),
            None => bail!(
                "--sweep {key}: {head} has no such setting (`nerzoo heads {head}` lists them); `--sweep {SCORE}` finds \
                 the best value for predict --threshold"
            ),
        }
    }

    /// For a setting of a bundle's part: selects the mentions of that part.
    fn selected_part(&self, key: &str) -> Result<Option<Assignment>> {
        let (_, settings) = self.settings()?;
        let part = key.split('.').nth(1).unwrap_or_default();
        let output = settings.iter().find(|setting| setting.name == "output");
        let is_part =
            output.is_some_and(|output| output.kind.split(" | ").any(|name| name == part));
        Ok(is_part.then(|| assignment("head.output", toml::Value::String(part.into()))))
    }

    fn settings(&self) -> Result<(String, Vec<Setting>)> {
        let head = ModelConfig::read(&folder::folder_of(self.model))?.head;
        let settings = (registry::find(&head)?.settings)();
        Ok((head, settings))
    }

    fn product(&self, axes: &[(&str, Vec<&str>)], sentences: &mut [Sentence]) -> Result<()> {
        let combinations = combinations(axes);
        self.check(axes, &combinations)?;
        let x_axis = match self.out {
            Some(_) => Some(x_axis(axes)?),
            None => None,
        };
        let keys = axes.iter().map(|(key, _)| *key);
        let header = keys.chain(["P", "R", "F1", "sentences/s"]);
        // Rows are printed as they are measured, so widths are fixed beforehand.
        let widths = (axes.iter()).map(|(key, values)| {
            let values = values.iter().map(|value| value.chars().count());
            values.chain([key.chars().count()]).max().unwrap_or(0)
        });
        let widths: Vec<usize> = widths.chain([6, 6, 6, 11]).collect();
        let header: Vec<&str> = header.collect();
        let table = Table::new(header.clone()).min_widths(widths);
        if !self.json {
            println!("{}", table.format_row(header));
        }
        let mut rows = Vec::new();
        for values in combinations {
            let row = self.measure(axes, values, sentences)?;
            if !self.json {
                let mut cells: Vec<String> = row.values.iter().map(plain).collect();
                cells.extend(percents(&row.counts));
                cells.push(format!("{:.1}", row.sentences_per_second));
                println!("{}", table.format_row(cells));
            }
            rows.push(row);
        }
        if self.json {
            let rows = rows.iter().map(|row| row.to_json(axes));
            print_json(&rows.collect())?;
        }
        if let (Some(path), Some(x)) = (self.out, x_axis) {
            write_atomic(path, plot(&rows, axes, x).as_bytes())?;
            if !self.json {
                println!("written: {}", path.display());
            }
        }
        Ok(())
    }

    /// The settings of one combination.
    fn with_values(&self, axes: &[(&str, Vec<&str>)], values: &[toml::Value]) -> Vec<Assignment> {
        let own = axes.iter().zip(values);
        let own = own.map(|((key, _), value)| assignment(key, value.clone()));
        self.overrides.iter().cloned().chain(own).collect()
    }

    /// Fails before the first evaluation if a combination is not valid for the model.
    fn check(&self, axes: &[(&str, Vec<&str>)], combinations: &[Vec<toml::Value>]) -> Result<()> {
        let folder = folder::folder_of(self.model);
        let entry = registry::find(&ModelConfig::read(&folder)?.head)?;
        for values in combinations {
            (entry.check_overrides)(&folder, &self.with_values(axes, values))?;
        }
        Ok(())
    }

    fn measure(
        &self,
        axes: &[(&str, Vec<&str>)],
        values: Vec<toml::Value>,
        sentences: &mut [Sentence],
    ) -> Result<Row> {
        let overrides = self.with_values(axes, &values);
        let tagger = registry::load(self.model, self.device, &overrides)?;
        data::link_context(sentences, tagger.context());
        tagger.tag(&sentences[..sentences.len().min(WARM_UP)])?;
        let start = Instant::now();
        let report = evaluate(tagger.as_ref(), sentences)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Row {
            values,
            counts: if tagger.nested() {
                report.overall
            } else {
                report.flat_view
            },
            sentences_per_second: sentences.len() as f64 / seconds.max(1e-9),
        })
    }
}

impl Row {
    fn to_json(&self, axes: &[(&str, Vec<&str>)]) -> Value {
        let mut row = scores(&self.counts);
        for ((key, _), value) in axes.iter().zip(&self.values) {
            row.insert(key.to_string(), json!(value));
        }
        row.insert(
            "sentences_per_second".into(),
            json!(self.sentences_per_second),
        );
        Value::Object(row)
    }
}

fn scores(counts: &Counts) -> Map<String, Value> {
    Map::from_iter([
        ("precision".to_string(), json!(counts.precision())),
        ("recall".to_string(), json!(counts.recall())),
        ("f1".to_string(), json!(counts.f1())),
    ])
}

fn percents(counts: &Counts) -> [String; 3] {
    [counts.precision(), counts.recall(), counts.f1()].map(|share| format!("{:.2}", 100.0 * share))
}

fn assignment(key: &str, value: toml::Value) -> Assignment {
    Assignment {
        key: key.to_string(),
        value,
    }
}

/// A value as it is written on the command line.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// All combinations of the axes' values, the last axis changing fastest.
fn combinations(axes: &[(&str, Vec<&str>)]) -> Vec<Vec<toml::Value>> {
    axes.iter()
        .fold(vec![Vec::new()], |combinations, (_, values)| {
            let extend = |combination: &Vec<toml::Value>| {
                let combination = combination.clone();
                (values.iter()).map(move |value| [&combination[..], &[parse_value(value)]].concat())
            };
            combinations.iter().flat_map(extend).collect()
        })
}

/// The axis that becomes the x axis of the plot: the last one with several values, all numbers.
fn x_axis(axes: &[(&str, Vec<&str>)]) -> Result<usize> {
    let several = |(_, (_, values)): &(usize, &(&str, Vec<&str>))| values.len() > 1;
    let Some((x, (key, values))) = axes.iter().enumerate().rev().find(several) else {
        bail!("--out: a plot needs a setting with several values");
    };
    if values
        .iter()
        .any(|value| number(&parse_value(value)).is_none())
    {
        bail!("--out: {key} has values that are not numbers; put a setting with numbers last");
    }
    let curves: usize = axes
        .iter()
        .map(|(_, values)| values.len())
        .product::<usize>()
        / values.len();
    let most = LineStyle::ALL.len();
    if curves > most {
        bail!("--out: this would be {curves} curves, a plot holds {most}; sweep over fewer values");
    }
    Ok(x)
}

fn number(value: &toml::Value) -> Option<f64> {
    value
        .as_float()
        .or(value.as_integer().map(|value| value as f64))
}

/// F1 and speed over the values of one axis, with a curve for each combination of the others.
fn plot(rows: &[Row], axes: &[(&str, Vec<&str>)], x: usize) -> String {
    let x_of = |row: &Row| number(&row.values[x]).unwrap_or(0.0);
    let name_of = |row: &Row| {
        let others = axes
            .iter()
            .zip(&row.values)
            .enumerate()
            .filter(|(axis, _)| *axis != x);
        let parts = others.map(|(_, ((key, _), value))| format!("{key} = {}", plain(value)));
        parts.collect::<Vec<_>>().join(", ")
    };
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(&name_of(row)) {
            names.push(name_of(row));
        }
    }
    let panel = |title: &str, y_limit: f64, y_of: fn(&Row) -> f64| Panel {
        title: title.into(),
        y_limit,
        from_zero: y_limit.is_infinite(),
        series: (names.iter().zip(LineStyle::ALL))
            .map(|(name, style)| {
                let own = rows.iter().filter(|row| name_of(row) == *name);
                let mut values: Vec<(f64, f64)> = own.map(|row| (x_of(row), y_of(row))).collect();
                values.sort_by(|one, other| one.0.total_cmp(&other.0));
                Series {
                    name: name.clone(),
                    style,
                    values,
                }
            })
            .collect(),
        highlight: None,
    };
    let panels = [
        panel("F1 (%)", 100.0, |row| 100.0 * row.counts.f1()),
        panel("Sentences per second", f64::INFINITY, |row| {
            row.sentences_per_second
        }),
    ];
    let x_range = Axis::of_counts(rows.iter().map(x_of));
    page(
        &format!("Scores over {}", axes[x].0),
        axes[x].0,
        &x_range,
        &panels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(axes: &[(&str, Vec<&str>)]) -> Vec<Row> {
        let row = |(index, values): (usize, Vec<toml::Value>)| Row {
            values,
            counts: Counts {
                correct: index as u64,
                predicted: 200,
                gold: 200,
            },
            sentences_per_second: 1000.0 / (index + 1) as f64,
        };
        combinations(axes)
            .into_iter()
            .enumerate()
            .map(row)
            .collect()
    }

    #[test]
    fn there_is_a_curve_for_each_combination_of_the_other_settings() {
        let drawn = |svg: &str| svg.matches("<polyline class=\"curve\"").count();
        let axes = [
            ("head.spans", vec!["20", "60", "120"]),
            ("head.steps", vec!["1", "2", "5"]),
        ];
        let both = plot(&rows(&axes), &axes, x_axis(&axes).unwrap());
        assert_eq!(drawn(&both), 2 * 3);
        assert!(both.contains("head.spans = 120") && both.contains(">head.steps<"));
        let axes = [
            ("head.spans", vec!["20", "60", "120"]),
            ("head.steps", vec!["5"]),
        ];
        let spans = plot(&rows(&axes), &axes, x_axis(&axes).unwrap());
        assert_eq!(drawn(&spans), 2);
        assert!(spans.contains(">head.spans<"));
    }

    #[test]
    fn plots_that_cannot_be_drawn_are_explained() {
        let problem = |axes: &[(&str, Vec<&str>)]| x_axis(axes).unwrap_err().to_string();
        assert!(problem(&[("a", vec!["1"])]).contains("several values"));
        assert!(problem(&[("a", vec!["x", "y"])]).contains("not numbers"));
        let many = [("a", vec!["1", "2", "3", "4", "5"]), ("b", vec!["1", "2"])];
        assert!(problem(&many).contains("5 curves"));
    }
}
