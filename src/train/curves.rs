//! Learning curves of a run, written as JSON and as an SVG chart.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::plot::{Axis, LineStyle, MAX_MAGNITUDE, Panel, Series, format_value, page};

/// Name of the file with the values, in the run folder.
pub const JSON_FILE: &str = "curves.json";
/// Name of the file with the chart, in the run folder.
pub const SVG_FILE: &str = "curves.svg";

/// Measurements at one moment of training, usually the end of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Epochs completed.
    pub epoch: usize,
    /// Optimizer steps completed.
    pub step: usize,
    /// Mean training loss since the previous point.
    #[serde(deserialize_with = "null_is_nan")]
    pub train_loss: f64,
    /// Loss on the development data, if measured.
    pub dev_loss: Option<f64>,
    /// Strict precision on the development data, in 0..=1.
    pub dev_precision: Option<f64>,
    /// Strict recall on the development data, in 0..=1.
    pub dev_recall: Option<f64>,
    /// Strict F1 on the development data, in 0..=1; with decoding settings chosen on them if the recipe says so.
    pub dev_f1: Option<f64>,
    /// The same with the decoding settings of the recipe.
    #[serde(default)]
    pub dev_f1_as_trained: Option<f64>,
    /// Strict F1 of a bundle's other head on the development data, in 0..=1.
    #[serde(default)]
    pub other_f1: Option<f64>,
    /// The learning rate of the last step.
    #[serde(deserialize_with = "null_is_nan")]
    pub learning_rate: f64,
    /// Seconds since training began.
    #[serde(deserialize_with = "null_is_nan")]
    pub seconds: f64,
    /// Training speed since the previous point.
    #[serde(deserialize_with = "null_is_nan")]
    pub sentences_per_second: f64,
}

/// Reads `null` as NaN: JSON has no NaN, and the curves of a diverged run must stay readable.
fn null_is_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// All points of a run, in the order they were measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curves {
    /// The points.
    pub points: Vec<Point>,
}

impl Curves {
    /// Adds a point at the end.
    pub fn push(&mut self, point: Point) {
        self.points.push(point);
    }

    /// The point with the highest F1 on the development data; on a tie the earliest.
    pub fn best(&self) -> Option<&Point> {
        let mut best: Option<(&Point, f64)> = None;
        for point in &self.points {
            let Some(f1) = point.dev_f1.filter(|f1| f1.is_finite()) else {
                continue;
            };
            if best.is_none_or(|(_, highest)| f1 > highest) {
                best = Some((point, f1));
            }
        }
        best.map(|(point, _)| point)
    }

    /// Reads the curves that [`Curves::write`] wrote into a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(JSON_FILE);
        let json = fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
        serde_json::from_str(&json).map_err(|error| Error::model_folder(&path, error.to_string()))
    }

    /// Writes `curves.json` and `curves.svg` into a folder. Each file is replaced atomically: a reader, also after a
    /// crash, sees the old file or the new one.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Error::model_folder(folder.join(JSON_FILE), error.to_string()))?;
        write_atomic(&folder.join(JSON_FILE), (json + "\n").as_bytes())?;
        let title = match folder.file_name() {
            Some(name) => format!("Training curves: {}", name.to_string_lossy()),
            None => "Training curves".to_owned(),
        };
        write_atomic(&folder.join(SVG_FILE), self.to_svg(&title).as_bytes())
    }

    /// The chart as SVG: losses on the left, F1 on the right. Values that are not finite are left out.
    pub fn to_svg(&self, title: &str) -> String {
        // Several points of one epoch would be drawn above each other.
        let by_epoch = self.points.is_sorted_by(|one, next| one.epoch < next.epoch);
        let x_name = if by_epoch { "epoch" } else { "step" };
        let x_of = |point: &Point| if by_epoch { point.epoch } else { point.step } as f64;
        let value = |point: &Point, y_of: fn(&Point) -> Option<f64>| {
            let y = y_of(point).filter(|y| y.abs() < MAX_MAGNITUDE)?;
            Some((x_of(point), y))
        };
        let series = |name: &str, style: LineStyle, y_of: fn(&Point) -> Option<f64>| {
            let values = self.points.iter().filter_map(|point| value(point, y_of));
            Series {
                name: name.to_owned(),
                style,
                values: values.collect(),
            }
        };
        let f1_of = |point: &Point| point.dev_f1.map(|f1| 100.0 * f1);
        let best = self.best().and_then(|point| value(point, f1_of));
        let f1_name = best.map_or("dev".to_owned(), |(x, f1)| {
            let (x, f1) = (format_value(x, 0), format_value(f1, 2));
            format!("dev (best {f1} at {x_name} {x})")
        });
        let loss = Panel {
            title: "Loss".to_owned(),
            y_limit: f64::INFINITY,
            from_zero: false,
            series: vec![
                series("train", LineStyle::BLUE, |point| Some(point.train_loss)),
                series("dev", LineStyle::ORANGE, |point| point.dev_loss),
            ],
            highlight: None,
        };
        let f1 = Panel {
            title: "F1 (%)".to_owned(),
            y_limit: 100.0,
            from_zero: false,
            series: vec![series(&f1_name, LineStyle::GREEN, f1_of)],
            highlight: best,
        };
        let x_axis = Axis::of_counts(self.points.iter().map(&x_of));
        page(title, x_name, &x_axis, &[loss, f1])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(epoch: usize, train_loss: f64, dev_loss: Option<f64>, dev_f1: Option<f64>) -> Point {
        Point {
            epoch,
            step: 10 * epoch,
            train_loss,
            dev_loss,
            dev_precision: dev_f1,
            dev_recall: dev_f1,
            dev_f1,
            dev_f1_as_trained: None,
            other_f1: None,
            learning_rate: 3e-5,
            seconds: 12.5 * epoch as f64,
            sentences_per_second: 80.0,
        }
    }

    fn curves(points: impl IntoIterator<Item = Point>) -> Curves {
        let mut curves = Curves::default();
        points.into_iter().for_each(|point| curves.push(point));
        curves
    }

    /// Number of points of each curve, without the lines of the legend.
    fn drawn(svg: &str) -> Vec<usize> {
        svg.split("<polyline class=\"curve\" points=\"")
            .skip(1)
            .map(|rest| {
                rest[..rest.find('"').expect("a closing quote")]
                    .split(' ')
                    .count()
            })
            .collect()
    }

    /// Panics unless every tag is closed in order and angle brackets occur only in tags.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        for piece in svg.split('<').skip(1) {
            let (tag, content) = piece.split_once('>').expect("a closing bracket");
            assert!(!content.contains('>'), "stray bracket in {content:?}");
            assert_eq!(tag.matches('"').count() % 2, 0, "open quote in {tag:?}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().expect("a name"));
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn best_is_the_earliest_point_with_the_highest_f1() {
        assert_eq!(curves([]).best(), None);
        let curves = curves([
            point(1, 1.0, None, Some(f64::NAN)),
            point(2, 1.0, None, Some(0.8)),
            point(3, 1.0, None, Some(0.9)),
            point(4, 1.0, None, None),
            point(5, 1.0, None, Some(0.9)),
        ]);
        assert_eq!(curves.best().map(|best| best.epoch), Some(3));
    }

    #[test]
    fn every_value_is_drawn() {
        let svg = curves([
            point(1, 3.0, None, None),
            point(2, 2.0, Some(2.5), Some(0.5)),
            point(3, 1.0, None, Some(0.6)),
            point(4, 0.5, Some(1.5), Some(0.55)),
        ])
        .to_svg("run");
        assert_well_formed(&svg);
        assert_eq!(drawn(&svg), [4, 2, 3]);
        assert!(svg.contains("dev (best 60.00 at epoch 3)"), "{svg}");
    }

    #[test]
    fn few_values_are_drawn() {
        let none = curves([]).to_svg("nothing");
        assert_well_formed(&none);
        assert!(drawn(&none).is_empty());
        assert_eq!(none.matches("no values").count(), 2);
        let one = curves([point(1, 0.7, None, None)]).to_svg("one");
        assert_well_formed(&one);
        assert_eq!(drawn(&one), [1]);
        let perfect = curves([point(1, 0.0, Some(0.0), Some(1.0))]).to_svg("perfect");
        assert_well_formed(&perfect);
        assert_eq!(drawn(&perfect), [1, 1, 1]);
        assert!(!perfect.contains(">110<"), "no score is above 100 %");
    }

    #[test]
    fn several_points_in_an_epoch_are_drawn_over_steps() {
        let mut second = point(1, 1.0, None, None);
        second.step = 20;
        let svg = curves([point(1, 2.0, None, None), second]).to_svg("steps");
        assert!(svg.contains(">step</text>") && !svg.contains(">epoch</text>"));
    }

    #[test]
    fn titles_are_escaped() {
        let svg = curves([]).to_svg("a <b> & \"c\"\u{1}");
        assert_well_formed(&svg);
        assert!(svg.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;\u{fffd}</title>"));
    }

    #[test]
    fn files_are_replaced_and_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut curves = curves([point(1, 2.0, Some(1.5), Some(0.25))]);
        curves.write(folder.path()).expect("written");
        curves.push(point(2, 1.0, None, None));
        curves.write(folder.path()).expect("written again");
        assert_eq!(Curves::read(folder.path()).expect("readable"), curves);
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, [JSON_FILE, SVG_FILE]);
        let error = curves.write(&folder.path().join("missing")).unwrap_err();
        assert!(error.to_string().contains(JSON_FILE), "{error}");
    }

    #[test]
    fn curves_of_a_diverged_run_are_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let curves = curves([point(1, f64::NAN, Some(f64::INFINITY), Some(0.5))]);
        curves.write(folder.path()).expect("written");
        let back = Curves::read(folder.path()).expect("readable");
        assert!(back.points[0].train_loss.is_nan());
        assert_eq!(back.points[0].dev_loss, None);
    }

    proptest! {
        #[test]
        fn any_values_can_be_drawn(
            values in prop::collection::vec(
                (any::<usize>(), any::<f64>(), any::<Option<f64>>(), any::<Option<f64>>()),
                0..5,
            ),
            title in any::<String>(),
        ) {
            let svg = curves(values.into_iter().map(|(epoch, train_loss, dev_loss, dev_f1)| Point {
                step: epoch,
                ..point(epoch % 1000, train_loss, dev_loss, dev_f1)
            }))
            .to_svg(&title.replace("inf", "").replace("NaN", ""));
            assert_well_formed(&svg);
            prop_assert!(svg.len() < 50_000);
        }
    }
}
