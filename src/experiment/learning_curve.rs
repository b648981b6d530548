//! Learning curve: F1 over the amount of training data, and what twice the data would give.

use std::fmt;

use serde::Serialize;

use super::power_law::{Forecast, PowerLaw};
use super::{RunOptions, percent, write_json};
use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::plot::{Axis, LineStyle, Panel, Series, page};
use crate::recipe::Recipe;
use crate::registry;
use crate::table::Table;
use crate::train::Corpus;

/// With a larger deviation from the fitted curve, the forecast means little.
const POOR_FIT: f64 = 0.02;
/// Below this F1 with all data, the curve says nothing about the data.
const UNTRAINED: f64 = 0.1;
/// Points of the fitted line in the chart: more than get markers.
const LINE_POINTS: usize = 60;

/// Scores with a share of the training sentences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The share, in 0..=1.
    pub share: f64,
    /// Number of training sentences.
    pub sentences: usize,
    /// Dev F1, in 0..=1.
    pub dev_f1: Option<f64>,
    /// Test F1, in 0..=1.
    pub test_f1: Option<f64>,
}

/// F1 over the amount of data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearningCurve {
    /// The points, by number of sentences.
    pub points: Vec<CurvePoint>,
    /// The sentences whose F1 the curve is fitted to: `test`, or `dev` where there are none.
    pub fitted_to: String,
    /// The fitted curve, if there are enough points.
    pub fit: Option<PowerLaw>,
    /// F1 with twice the data.
    pub twice: Option<Forecast>,
    /// What the curve says, in a sentence.
    pub conclusion: String,
}

/// Trains a recipe on each share of its training sentences, and writes `curve.json` and `curve.svg`. `log` gets what there
/// is to tell on the way.
pub fn learning_curve(
    recipe: &Recipe,
    shares: &[f64],
    runs: &RunOptions,
    log: &mut dyn FnMut(&str),
) -> Result<LearningCurve> {
    let shares = sorted(shares)?;
    let (recipe, entry) = registry::resolve(recipe.clone())?;
    let _lock = runs.enter()?;
    let mut points = Vec::new();
    for share in shares {
        runs.check_interrupted()?;
        let mut recipe = recipe.clone();
        recipe.data.share = (share < 1.0).then_some(share);
        let sentences = Corpus::load(&recipe, &runs.roots)?.train.len();
        let folder = runs.out.join(format!("share-{share}"));
        log(&format!(
            "\nshare {share}, {sentences} sentences: {}",
            folder.display()
        ));
        let command = match recipe.data.share {
            Some(share) => format!("{} --set data.share={share}", runs.command),
            None => runs.command.clone(),
        };
        let options = runs.run(recipe, &folder, command);
        let finished = (entry.train)(&options).map_err(|problem| runs.explain(problem))?;
        points.push(CurvePoint {
            share,
            sentences,
            dev_f1: finished.dev.map(|dev| dev.overall.f1()),
            test_f1: finished.test.map(|test| test.overall.f1()),
        });
    }
    let curve = LearningCurve::new(points);
    write_json(&runs.out.join("curve.json"), &curve)?;
    write_atomic(&runs.out.join("curve.svg"), curve.to_svg().as_bytes())?;
    Ok(curve)
}

/// The shares in increasing order, each once.
fn sorted(shares: &[f64]) -> Result<Vec<f64>> {
    if let Some(wrong) = shares
        .iter()
        .find(|share| !(**share > 0.0 && **share <= 1.0))
    {
        return Err(Error::Config(format!(
            "{wrong} is not a share of the data; give numbers above 0 and up to 1, such as 0.1,0.25,0.5,1"
        )));
    }
    let mut shares = shares.to_vec();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    if shares.len() < 2 {
        return Err(Error::Config(
            "a learning curve needs at least two shares, such as 0.1,0.25,0.5,1".into(),
        ));
    }
    Ok(shares)
}

impl LearningCurve {
    /// Fits a curve to the points.
    pub fn new(points: Vec<CurvePoint>) -> Self {
        let on_test = points.iter().all(|point| point.test_f1.is_some());
        let mut curve = Self {
            points,
            fitted_to: if on_test { "test" } else { "dev" }.into(),
            fit: None,
            twice: None,
            conclusion: String::new(),
        };
        let values = curve.values(on_test);
        let most = curve
            .points
            .iter()
            .map(|point| point.sentences)
            .max()
            .unwrap_or(0);
        curve.fit = PowerLaw::fit(&values);
        curve.twice = PowerLaw::forecast(&values, 2.0 * most as f64);
        curve.conclusion = curve.conclude(values.last().map_or(0.0, |(_, f1)| *f1));
        curve
    }

    /// Sentences and F1 of the points that have one.
    fn values(&self, on_test: bool) -> Vec<(f64, f64)> {
        let f1 = |point: &CurvePoint| if on_test { point.test_f1 } else { point.dev_f1 };
        let value = |point: &CurvePoint| Some((point.sentences as f64, f1(point)?));
        self.points.iter().filter_map(value).collect()
    }

    fn conclude(&self, now: f64) -> String {
        let (Some(fit), Some(twice)) = (self.fit, self.twice) else {
            return "too few points for a forecast: a curve needs at least three different amounts of data with dev or test \
                    sentences"
                .into();
        };
        if now < UNTRAINED {
            return format!(
                "the models have hardly learned anything ({} F1 {}), so there is no forecast; give the recipe more epochs",
                self.fitted_to,
                percent(now)
            );
        }
        if fit.deviation > POOR_FIT {
            return format!(
                "the points are {} points of F1 from any smooth curve, so there is no forecast; train longer, or look at \
                 several seeds",
                percent(fit.deviation)
            );
        }
        if fit.b == 0.0 {
            return "F1 does not grow with the amount of data here, so more of the same data will hardly help".into();
        }
        let gain = twice.f1 - now;
        let verdict = match gain {
            gain if gain < 0.005 => "more data will hardly help",
            gain if gain < 0.02 => "more data will help a little",
            _ => "more data will help",
        };
        format!(
            "with twice the data ({:.0} sentences): {} F1 about {} ({} to {}), now {}; {verdict}",
            twice.sentences,
            self.fitted_to,
            percent(twice.f1),
            percent(twice.low),
            percent(twice.high),
            percent(now)
        )
    }

    /// The chart: measured scores and the fitted curve up to twice the data.
    pub fn to_svg(&self) -> String {
        let in_percent = |values: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            values.into_iter().map(|(n, f1)| (n, 100.0 * f1)).collect()
        };
        let series = |name: &str, style: LineStyle, values: Vec<(f64, f64)>| Series {
            name: name.to_owned(),
            style,
            values: in_percent(values),
        };
        let most = self
            .points
            .iter()
            .map(|point| point.sentences)
            .max()
            .unwrap_or(0) as f64;
        let least = self
            .points
            .iter()
            .map(|point| point.sentences)
            .min()
            .unwrap_or(0) as f64;
        let line = self.fit.map_or(Vec::new(), |fit| {
            let at = |step: usize| least + (2.0 * most - least) * step as f64 / LINE_POINTS as f64;
            (0..=LINE_POINTS)
                .map(|step| (at(step), fit.at(at(step))))
                .collect()
        });
        let panel = Panel {
            title: "F1 (%)".to_owned(),
            y_limit: 100.0,
            from_zero: false,
            series: vec![
                series("dev", LineStyle::GREEN, self.values(false)),
                series("test", LineStyle::BLUE, self.values(true)),
                series(
                    &format!("fit to {}", self.fitted_to),
                    LineStyle::ORANGE,
                    line,
                ),
            ],
            highlight: None,
        };
        let sizes = self.points.iter().map(|point| point.sentences as f64);
        let x_axis = Axis::of_counts(sizes.chain([0.0, 2.0 * most]));
        page(
            "F1 by amount of training data",
            "training sentences",
            &x_axis,
            &[panel],
        )
    }
}

impl fmt::Display for LearningCurve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["share", "sentences", "dev F1", "test F1"]);
        let cell = |f1: Option<f64>| f1.map_or("–".to_string(), percent);
        for point in &self.points {
            table.row([
                point.share.to_string(),
                point.sentences.to_string(),
                cell(point.dev_f1),
                cell(point.test_f1),
            ]);
        }
        write!(f, "{table}\n\n{}", self.conclusion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(f1: &[(usize, f64)]) -> Vec<CurvePoint> {
        let most = f1.last().unwrap().0 as f64;
        let point = |(sentences, f1): &(usize, f64)| CurvePoint {
            share: *sentences as f64 / most,
            sentences: *sentences,
            dev_f1: Some(*f1),
            test_f1: None,
        };
        f1.iter().map(point).collect()
    }

    #[test]
    fn a_growing_curve_gives_a_forecast() {
        let law = |n: usize| (n, 0.8 - 3.0 * (n as f64).powf(-0.5));
        let curve = LearningCurve::new(points(&[100, 400, 1600].map(law)));
        assert_eq!(curve.fitted_to, "dev");
        // 80 - 300 / sqrt(3200) = 74.70; now 80 - 300 / 40 = 72.50.
        let text = curve.to_string();
        assert!(
            text.contains("with twice the data (3200 sentences): dev F1 about 74.70 ("),
            "{text}"
        );
        assert!(text.contains("now 72.50; more data will help"), "{text}");
        assert!(
            text.contains("0.25          400   65.00        –"),
            "{text}"
        );
        let svg = curve.to_svg();
        assert_eq!(svg.matches("<polyline class=\"curve\"").count(), 2);
        assert!(svg.contains("fit to dev"));
    }

    #[test]
    fn missing_and_noisy_points_are_reported() {
        let conclusion = |f1: &[(usize, f64)]| LearningCurve::new(points(f1)).conclusion;
        assert!(conclusion(&[(100, 0.5), (200, 0.6)]).starts_with("too few points"));
        let noisy = conclusion(&[(100, 0.5), (200, 0.3), (400, 0.7), (800, 0.4)]);
        assert!(noisy.contains("no forecast"), "{noisy}");
        let untrained = conclusion(&[(100, 0.0), (200, 0.0), (400, 0.03)]);
        assert!(untrained.contains("more epochs"), "{untrained}");
        let flat = conclusion(&[(100, 0.5), (200, 0.495), (400, 0.49)]);
        assert!(flat.contains("does not grow"), "{flat}");
    }

    #[test]
    fn shares_are_checked_and_sorted() {
        assert_eq!(sorted(&[1.0, 0.1, 0.5, 0.1]).unwrap(), [0.1, 0.5, 1.0]);
        for wrong in [&[0.0, 1.0][..], &[2.0, 1.0], &[1.0], &[f64::NAN, 1.0]] {
            assert!(sorted(wrong).is_err(), "{wrong:?}");
        }
    }
}
