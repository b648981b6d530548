//! The learning curves of a run: kept as JSON for tools and drawn as SVG for eyes.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use crate::plot::*;

use crate::error::{Error, Result};
use crate::files::write_atomic;

/// The file of the curves' values in a run's folder.
pub const JSON_FILE: &str = "curves.json";
/// The file of the curves' picture in a run's folder.
pub const SVG_FILE: &str = "curves.svg";

/// What was measured at one moment of training, as a rule at the end of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Epochs done.
    pub epoch: usize,
    /// Optimiser steps done.
    pub step: usize,
    /// Mean training loss since the point before.
    #[serde(deserialize_with = "null_is_nan")]
    pub train_loss: f64,
    /// Loss on the development data, when measured.
    pub dev_loss: Option<f64>,
    /// Strict precision on the development data, in 0..=1.
    pub dev_precision: Option<f64>,
    /// Strict recall on the development data, in 0..=1.
    pub dev_recall: Option<f64>,
    /// Strict F1 on the development data, in 0..=1.
    pub dev_f1: Option<f64>,
    /// The same of a bundle's other head.
    #[serde(default)]
    pub other_f1: Option<f64>,
    /// The learning rate of the last step.
    #[serde(deserialize_with = "null_is_nan")]
    pub learning_rate: f64,
    /// Seconds since training began.
    #[serde(deserialize_with = "null_is_nan")]
    pub seconds: f64,
    /// Training speed since the point before.
    #[serde(deserialize_with = "null_is_nan")]
    pub sentences_per_second: f64,
}

/// JSON has no NaN and writes `null` for it; a run whose loss left the numbers must stay readable.
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

    /// The point with the highest F1 on the development data, the earliest of equal ones.
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

    /// Reads the curves that [`Curves::write`] left in a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(JSON_FILE);
        let json = fs::read_to_string(&path).map_err(|source| Error::io(&path, source))?;
        serde_json::from_str(&json).map_err(|error| Error::model_folder(&path, error.to_string()))
    }

    /// Writes `curves.json` and `curves.svg` into a folder. Each file is replaced whole: a reader, or a crash, meets
    /// the old one or the new one.
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

    /// The picture: losses on the left, F1 on the right. Values that are not finite are left out.
    pub fn to_svg(&self, title: &str) -> String {
        // Several points in an epoch would stand on top of each other.
        let by_epoch = self.points.is_sorted_by(|one, next| one.epoch < next.epoch);
        let x_name = if by_epoch { "epoch" } else { "step" };
        let x_of = |point: &Point| if by_epoch { point.epoch } else { point.step } as f64;
        let value = |point: &Point, y_of: fn(&Point) -> Option<f64>| {
            let y = y_of(point).filter(|y| y.abs() < LARGEST)?;
            Some((x_of(point), y))
        };
        let series = |name: &str, look: Look, y_of: fn(&Point) -> Option<f64>| {
            let values = self.points.iter().filter_map(|point| value(point, y_of));
            Series {
                name: name.to_owned(),
                look,
                values: values.collect(),
            }
        };
        let f1_of = |point: &Point| point.dev_f1.map(|f1| 100.0 * f1);
        let best = self.best().and_then(|point| value(point, f1_of));
        let f1_name = best.map_or("dev".to_owned(), |(x, f1)| {
            format!("dev (best {} at {x_name} {})", short(f1, 2), short(x, 0))
        });
        let loss = Panel {
            title: "Loss",
            left: 70.0,
            ceiling: f64::INFINITY,
            series: vec![
                series("train", Look::TRAIN, |point| Some(point.train_loss)),
                series("dev", Look::DEV, |point| point.dev_loss),
            ],
            ring: None,
        };
        let f1 = Panel {
            title: "F1 (%)",
            left: 550.0,
            ceiling: 100.0,
            series: vec![series(&f1_name, Look::F1, f1_of)],
            ring: best,
        };
        let x_axis = Axis::of(self.points.iter().map(&x_of), 1.0, f64::INFINITY);
        page(
            title,
            &(loss.draw(&x_axis, x_name) + &f1.draw(&x_axis, x_name)),
        )
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

    /// Numbers of points of the curves, the legend's lines aside.
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

    /// Panics unless every tag is closed in order and nothing but tags uses angle brackets.
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
    fn best_is_the_earliest_of_the_highest() {
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
    fn a_point_is_drawn_for_every_value() {
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
    fn few_values_draw_too() {
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
    fn points_within_an_epoch_are_told_apart_by_step() {
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
    fn ticks_are_round() {
        let labels =
            |axis: Axis| -> Vec<String> { axis.ticks().map(|tick| axis.label(tick)).collect() };
        let loss = Axis::of([0.13, 0.92].into_iter(), 0.0, f64::INFINITY);
        assert_eq!(labels(loss), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let epochs = Axis::of([1.0, 2.0, 3.0].into_iter(), 1.0, f64::INFINITY);
        assert_eq!(labels(epochs), ["1", "2", "3"]);
        let negative = Axis::of([-1.0, 1.0].into_iter(), 0.0, f64::INFINITY);
        assert_eq!(labels(negative), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
    }

    #[test]
    fn files_are_replaced_and_read_back() {
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
    fn a_diverged_run_stays_readable() {
        let folder = tempfile::tempdir().expect("a folder");
        let curves = curves([point(1, f64::NAN, Some(f64::INFINITY), Some(0.5))]);
        curves.write(folder.path()).expect("written");
        let back = Curves::read(folder.path()).expect("readable");
        assert!(back.points[0].train_loss.is_nan());
        assert_eq!(back.points[0].dev_loss, None);
    }

    proptest! {
        #[test]
        fn any_values_draw(
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
