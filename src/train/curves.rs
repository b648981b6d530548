//! The learning curves of a run: kept as JSON for tools and drawn as SVG for eyes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};

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
        serde_json::from_str(&json).map_err(|error| Error::bundle(&path, error.to_string()))
    }

    /// Writes `curves.json` and `curves.svg` into a folder. Each file is replaced whole: a reader, or a crash, meets
    /// the old one or the new one.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Error::bundle(folder.join(JSON_FILE), error.to_string()))?;
        replace(folder, JSON_FILE, &(json + "\n"))?;
        let title = match folder.file_name() {
            Some(name) => format!("Training curves: {}", name.to_string_lossy()),
            None => "Training curves".to_owned(),
        };
        replace(folder, SVG_FILE, &self.to_svg(&title))
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

/// Values beyond this would overflow when an axis is fitted to them.
const LARGEST: f64 = 1e300;
/// The plot areas, in the picture's units.
const TOP: f64 = 96.0;
const BOTTOM: f64 = 370.0;
const WIDTH: f64 = 380.0;
/// With more points than this their marks would hide the line.
const MOST_MARKS: usize = 40;
/// Characters of the title that have room.
const LONGEST_TITLE: usize = 80;

/// How a curve looks. Colour, dashes and marks all differ, for the colour-blind and for black-and-white paper.
#[derive(Clone, Copy)]
struct Look {
    colour: &'static str,
    dashes: &'static str,
    /// Corners of the mark around its middle.
    mark: &'static [(f64, f64)],
}

impl Look {
    const TRAIN: Self = Self {
        colour: "#0072b2",
        dashes: "none",
        mark: &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
    };
    const DEV: Self = Self {
        colour: "#d55e00",
        dashes: "8 4",
        mark: &[(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)],
    };
    const F1: Self = Self {
        colour: "#00805a",
        dashes: "10 3 2 3",
        mark: &[(0.0, -4.5), (4.5, 0.0), (0.0, 4.5), (-4.5, 0.0)],
    };

    fn draw_mark(&self, x: f64, y: f64) -> String {
        let corners = self.mark.iter().map(|(right, down)| (x + right, y + down));
        format!(
            "<polygon points=\"{}\" fill=\"{}\"/>\n",
            coordinates(corners),
            self.colour
        )
    }

    fn draw_line(&self, points: impl Iterator<Item = (f64, f64)>, class: &str) -> String {
        format!(
            "<polyline class=\"{class}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\" stroke-dasharray=\"{}\"/>\n",
            coordinates(points),
            self.colour,
            self.dashes
        )
    }
}

/// A curve with its values.
struct Series {
    name: String,
    look: Look,
    values: Vec<(f64, f64)>,
}

/// One of the two plots.
struct Panel<'a> {
    title: &'a str,
    left: f64,
    /// The axis does not reach higher than this without need.
    ceiling: f64,
    series: Vec<Series>,
    /// A value to draw a ring around.
    ring: Option<(f64, f64)>,
}

impl Panel<'_> {
    fn draw(&self, x_axis: &Axis, x_name: &str) -> String {
        let shown = || {
            self.series
                .iter()
                .filter(|series| !series.values.is_empty())
        };
        let heights = shown().flat_map(|series| series.values.iter().map(|&(_, y)| y));
        let y_axis = Axis::of(heights, 0.0, self.ceiling);
        let place = |&(x, y): &(f64, f64)| {
            let x = x_axis.place(x, self.left, self.left + WIDTH);
            (x, y_axis.place(y, BOTTOM, TOP))
        };
        let mut svg = self.frame(x_axis, x_name);
        if shown().next().is_none() {
            let (x, y) = (self.left + WIDTH / 2.0, (TOP + BOTTOM) / 2.0);
            svg += &text(x, y, "middle", "no values");
            return svg;
        }
        svg += &self.heights(&y_axis);
        let mut legend = self.left;
        for Series { name, look, values } in shown() {
            let sample = [0.0, 21.0, 42.0].map(|right| (legend + right, TOP - 24.0));
            svg += &look.draw_line(values.iter().map(place), "curve");
            svg += &look.draw_line(sample.into_iter(), "legend");
            if values.len() <= MOST_MARKS {
                let marked = values.iter().map(place).chain([sample[1]]);
                svg.extend(marked.map(|(x, y)| look.draw_mark(x, y)));
            }
            svg += &text(legend + 50.0, TOP - 19.5, "start", name);
            legend += 120.0;
        }
        if let Some((x, y)) = self.ring.as_ref().map(place) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"8\" fill=\"none\" stroke=\"#222222\" stroke-width=\"1.5\"/>"
            );
        }
        svg
    }

    /// Title, borders and the horizontal axis.
    fn frame(&self, x_axis: &Axis, x_name: &str) -> String {
        let left = self.left;
        let mut svg = format!(
            "<text x=\"{left}\" y=\"58\" font-weight=\"bold\">{}</text>\n\
             <path d=\"M{left} {TOP}V{BOTTOM}H{}\" fill=\"none\" stroke=\"#444444\"/>\n",
            escape(self.title),
            left + WIDTH,
        );
        for tick in x_axis.ticks() {
            let x = x_axis.place(tick, left, left + WIDTH);
            let _ = writeln!(svg, "<path d=\"M{x:.2} {BOTTOM}v5\" stroke=\"#444444\"/>");
            svg += &text(x, BOTTOM + 19.0, "middle", &x_axis.label(tick));
        }
        svg + &text(left + WIDTH / 2.0, BOTTOM + 39.0, "middle", x_name)
    }

    /// The vertical axis: labels and lines across the plot.
    fn heights(&self, y_axis: &Axis) -> String {
        let mut svg = String::new();
        for tick in y_axis.ticks() {
            let y = y_axis.place(tick, BOTTOM, TOP);
            if y < BOTTOM - 1.0 {
                let _ = writeln!(
                    svg,
                    "<path d=\"M{} {y:.2}h{WIDTH}\" stroke=\"#dddddd\"/>",
                    self.left
                );
            }
            svg += &text(self.left - 8.0, y + 4.5, "end", &y_axis.label(tick));
        }
        svg
    }
}

/// A range of numbers with round ends, cut by round steps.
struct Axis {
    /// The first tick, in steps.
    first: f64,
    /// How many steps there are.
    count: f64,
    step: f64,
}

impl Axis {
    /// An axis for the finite values, with steps of at least `least`.
    fn of(values: impl Iterator<Item = f64>, least: f64, ceiling: f64) -> Self {
        let (mut low, mut high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (0.0, 1.0); // no values
        }
        let size = low.abs().max(high.abs());
        if high - low <= 1e-6 * size || size < 1e-300 {
            // A point or a level line stands in the middle, but needs no room below 0 or above the ceiling.
            let room = if size < 1e-300 { 1.0 } else { 0.1 * size }.max(least);
            low = (low - room).max(low.min(0.0));
            high = (high + room).min(high.max(ceiling));
        }
        let rough = (high - low) / 5.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors
            .into_iter()
            .find(|factor| factor * magnitude >= rough);
        let step = (factor.unwrap_or(10.0) * magnitude).max(least);
        // A hair of tolerance keeps rounding errors from adding an empty step.
        let first = (low / step + 1e-6).floor();
        let last = (high / step - 1e-6).ceil();
        Self {
            first,
            count: (last - first).max(1.0),
            step,
        }
    }

    /// Where a value stands between `from` and `to`.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value / self.step - self.first) / self.count * (to - from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (0..=self.count as usize).map(|index| (self.first + index as f64) * self.step)
    }

    fn label(&self, tick: f64) -> String {
        let decimals = (-self.step.log10() - 1e-9).ceil().max(0.0) as usize;
        short(tick, decimals)
    }
}

/// A number with so many decimals, or in powers of ten where that would be long.
fn short(value: f64, decimals: usize) -> String {
    if decimals > 5 || value.abs() >= 1e7 {
        format!("{value:.2e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// The whole picture around its panels; the white ground keeps it readable on dark pages.
fn page(title: &str, panels: &str) -> String {
    let mut heading: String = title.chars().take(LONGEST_TITLE).collect();
    if heading.len() < title.len() {
        heading.push('…');
    }
    let (title, heading) = (escape(title), escape(&heading));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 420\" width=\"960\" height=\"420\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222222\">\n\
         <title>{title}</title>\n\
         <rect width=\"960\" height=\"420\" fill=\"#ffffff\"/>\n\
         <text x=\"480\" y=\"28\" text-anchor=\"middle\" font-size=\"17\">{heading}</text>\n\
         {panels}</svg>\n"
    )
}

fn coordinates(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    points.join(" ")
}

fn text(x: f64, y: f64, anchor: &str, content: &str) -> String {
    let content = escape(content);
    format!("<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{content}</text>\n")
}

/// Text as XML content; characters that XML cannot carry become a replacement character.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\t' | '\n' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_ascii_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Replaces a file of a folder in one go: by a temporary file beside it that takes its name.
fn replace(folder: &Path, name: &str, content: &str) -> Result<()> {
    let path = folder.join(name);
    let partial = folder.join(format!(".{name}.{}.partial", std::process::id()));
    let written = File::create(&partial)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&partial, &path));
    written.map_err(|source| {
        // The first error is the one to report; the partial file may not even exist.
        let _ = fs::remove_file(&partial);
        Error::io(&path, source)
    })
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
