//! `nerzoo evaluate --sweep-steps --sweep-spans`: what more denoising steps and more random spans bring, and cost.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use burn::tensor::Device;
use serde_json::{Value, json};

use super::print_json;
use crate::eval::{Counts, evaluate};
use crate::files::write_atomic;
use crate::model::folder::{self, Knobs};
use crate::plot::{Axis, LineStyle, Panel, Series, page};
use crate::registry;
use crate::text::Sentence;

/// A model asked in many ways.
pub struct Sweep<'a> {
    /// Its folder.
    pub model: &'a Path,
    /// Where it runs.
    pub device: &'a Device,
    /// What is the same in all ways.
    pub knobs: &'a Knobs,
    /// Numbers of steps; none for its own.
    pub steps: &'a [usize],
    /// Numbers of spans; none for its own.
    pub spans: &'a [usize],
}

/// One way, and what came of it.
#[derive(Debug)]
struct Row {
    spans: usize,
    steps: usize,
    counts: Counts,
    sentences_per_second: f64,
}

impl Sweep<'_> {
    /// Measures every combination, prints the table and draws the picture.
    pub fn run(&self, sentences: &[Sentence], json: bool, out: Option<&Path>) -> Result<()> {
        let spans = self.values(self.spans, "spans")?;
        let steps = self.values(self.steps, "steps")?;
        if out.is_some() && steps.len() > 1 && spans.len() > LineStyle::ALL.len() {
            let most = LineStyle::ALL.len();
            bail!("a picture has room for {most} numbers of spans; name fewer, or leave out --out");
        }
        if !json {
            println!("spans  steps        P        R       F1  sentences/s");
        }
        let mut rows = Vec::new();
        for spans in &spans {
            for steps in &steps {
                let row = self.measure(sentences, *spans, *steps)?;
                if !json {
                    println!(
                        "{spans:5}  {steps:5} {:8.2} {:8.2} {:8.2} {:12.1}",
                        100.0 * row.counts.precision(),
                        100.0 * row.counts.recall(),
                        100.0 * row.counts.f1(),
                        row.sentences_per_second
                    );
                }
                rows.push(row);
            }
        }
        if json {
            print_json(&json!(rows.iter().map(Row::to_json).collect::<Vec<_>>()))?;
        }
        if let Some(path) = out {
            write_atomic(path, picture(&rows, steps.len() > 1).as_bytes())?;
            if !json {
                println!("written: {}", path.display());
            }
        }
        Ok(())
    }

    /// The numbers to try of a knob: those given, or the model's own.
    fn values(&self, given: &[usize], name: &str) -> Result<Vec<usize>> {
        if !given.is_empty() {
            return Ok(given.to_vec());
        }
        let own = match self.knobs.get(name) {
            Some(value) => Some(value.clone()),
            None => folder::knob_of(self.model, name)?,
        };
        match own.as_ref().and_then(Value::as_u64) {
            Some(own) => Ok(vec![own as usize]),
            None => bail!(
                "{} has no {name} to sweep over: that is for models with the head diffusion_ner",
                self.model.display()
            ),
        }
    }

    fn measure(&self, sentences: &[Sentence], spans: usize, steps: usize) -> Result<Row> {
        let mut knobs = self.knobs.clone();
        knobs.insert("spans".into(), spans.into());
        knobs.insert("steps".into(), steps.into());
        let tagger = registry::load(self.model, self.device, &knobs)?;
        // The first batch is slower than the others.
        tagger.tag(&sentences[..sentences.len().min(16)])?;
        let start = Instant::now();
        let report = evaluate(tagger.as_ref(), sentences)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Row {
            spans,
            steps,
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
    fn to_json(&self) -> Value {
        json!({
            "spans": self.spans,
            "steps": self.steps,
            "precision": self.counts.precision(),
            "recall": self.counts.recall(),
            "f1": self.counts.f1(),
            "sentences_per_second": self.sentences_per_second,
        })
    }
}

/// F1 on the left, speed on the right: over steps with a curve for each number of spans, or over spans alone.
fn picture(rows: &[Row], over_steps: bool) -> String {
    let x_of = |row: &Row| if over_steps { row.steps } else { row.spans } as f64;
    let x_name = if over_steps { "steps" } else { "spans" };
    let mut curves: Vec<usize> = Vec::new();
    for row in rows {
        if !curves.contains(&row.spans) {
            curves.push(row.spans);
        }
    }
    let series = |y_of: fn(&Row) -> f64| -> Vec<Series> {
        let points = |chosen: &dyn Fn(&Row) -> bool| {
            let mut values: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| chosen(row))
                .map(|row| (x_of(row), y_of(row)))
                .collect();
            values.sort_by(|one, other| one.0.total_cmp(&other.0));
            values
        };
        if !over_steps {
            return vec![Series {
                name: format!("{} steps", rows[0].steps),
                style: LineStyle::BLUE,
                values: points(&|_| true),
            }];
        }
        let of_spans = |(spans, style): (&usize, &LineStyle)| Series {
            name: format!("K = {spans}"),
            style: *style,
            values: points(&|row| row.spans == *spans),
        };
        curves.iter().zip(&LineStyle::ALL).map(of_spans).collect()
    };
    let panel = |title: &str, y_limit, y_of| Panel {
        title: title.to_owned(),
        y_limit,
        series: series(y_of),
        highlight: None,
    };
    let f1 = panel("F1 (%)", 100.0, |row: &Row| 100.0 * row.counts.f1());
    let speed = panel("Sentences a second", f64::INFINITY, |row: &Row| {
        row.sentences_per_second
    });
    let x_axis = Axis::of_counts(rows.iter().map(x_of));
    page(
        "Denoising steps and random spans",
        x_name,
        &x_axis,
        &[f1, speed],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(spans: &[usize], steps: &[usize]) -> Vec<Row> {
        let row = |spans: usize, steps: usize| Row {
            spans,
            steps,
            counts: Counts {
                correct: (spans + steps) as u64,
                predicted: 200,
                gold: 200,
            },
            sentences_per_second: 1000.0 / (spans * steps) as f64,
        };
        spans
            .iter()
            .flat_map(|spans| steps.iter().map(move |steps| row(*spans, *steps)))
            .collect()
    }

    #[test]
    fn there_is_a_curve_for_each_number_of_spans_or_one_over_them() {
        let drawn = |svg: &str| svg.matches("<polyline class=\"curve\"").count();
        let both = picture(&rows(&[20, 60, 120], &[1, 2, 5]), true);
        assert_eq!(drawn(&both), 2 * 3);
        assert!(both.contains("K = 120") && both.contains(">steps<"));
        let spans = picture(&rows(&[20, 60, 120], &[5]), false);
        assert_eq!(drawn(&spans), 2);
        assert!(spans.contains("5 steps") && spans.contains(">spans<"));
    }
}
