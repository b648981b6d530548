//! Charts as SVG: lines in panels side by side over one horizontal axis, and reliability diagrams.
//!
//! Written by hand because the charts are few and alike: a charting crate would be a large dependency for them, and
//! could not give each line its own colour, dashes and markers in so few lines.

mod reliability;

pub use reliability::reliability_diagram;

use std::fmt::Write as _;

/// Values with a larger magnitude would overflow when an axis is fitted to them; leave them out of a [`Series`].
pub const MAX_MAGNITUDE: f64 = 1e300;

/// Maximum number of panels on a [`page`].
pub const MAX_PANELS: usize = 2;

/// The plot areas, in units of the SVG.
const TOP: f64 = 96.0;
const BOTTOM: f64 = 370.0;
const WIDTH: f64 = 380.0;
/// Left edge of the first plot area, and the distance from one panel to the next.
const LEFT: f64 = 70.0;
const PANEL_DISTANCE: f64 = 480.0;
/// With more points than this, markers would hide the line.
const MAX_MARKERS: usize = 40;
/// Longer titles are cut to this number of characters.
const MAX_TITLE: usize = 80;

/// Colour, dashes and markers of a line. All three differ between lines, for colour-blind readers and for
/// black-and-white print.
#[derive(Debug, Clone, Copy)]
pub struct LineStyle {
    colour: &'static str,
    dashes: &'static str,
    /// Corners of the marker relative to its centre.
    marker: &'static [(f64, f64)],
}

impl LineStyle {
    /// A solid blue line with squares.
    pub const BLUE: Self = Self {
        colour: "#0072b2",
        dashes: "none",
        marker: &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
    };
    /// A dashed orange line with triangles.
    pub const ORANGE: Self = Self {
        colour: "#d55e00",
        dashes: "8 4",
        marker: &[(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)],
    };
    /// A green line of dashes and dots with diamonds.
    pub const GREEN: Self = Self {
        colour: "#00805a",
        dashes: "10 3 2 3",
        marker: &[(0.0, -4.5), (4.5, 0.0), (0.0, 4.5), (-4.5, 0.0)],
    };
    /// A dotted purple line with pentagons.
    pub const PURPLE: Self = Self {
        colour: "#7a3e9d",
        dashes: "2 3",
        marker: &[
            (-3.5, 0.0),
            (0.0, -3.5),
            (3.5, 0.0),
            (2.0, 3.5),
            (-2.0, 3.5),
        ],
    };
    /// All styles: as many lines as one panel can show.
    pub const ALL: [Self; 4] = [Self::BLUE, Self::ORANGE, Self::GREEN, Self::PURPLE];

    fn draw_marker(&self, (x, y): (f64, f64)) -> String {
        let corners = self
            .marker
            .iter()
            .map(|(right, down)| (x + right, y + down));
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

/// A line of a panel.
#[derive(Debug, Clone)]
pub struct Series {
    /// The name in the legend; may be empty.
    pub name: String,
    /// Colour, dashes and markers.
    pub style: LineStyle,
    /// The points, as x and y. Values must be finite and below [`MAX_MAGNITUDE`].
    pub values: Vec<(f64, f64)>,
}

/// One plot with its own vertical axis.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The title above the plot.
    pub title: String,
    /// The vertical axis does not go beyond this value unless a point does; infinity for no limit.
    pub y_limit: f64,
    /// The vertical axis starts at 0, for quantities of which ratios matter, such as speeds.
    pub from_zero: bool,
    /// The lines. Series without values are not drawn.
    pub series: Vec<Series>,
    /// A point to draw a circle around, such as the best one.
    pub highlight: Option<(f64, f64)>,
}

impl Panel {
    fn draw(&self, left: f64, x_axis: &Axis, x_name: &str) -> String {
        let mut svg = draw_frame(&self.title, left, x_axis, x_name);
        let series = self.series.iter();
        let series: Vec<&Series> = series.filter(|series| !series.values.is_empty()).collect();
        if series.is_empty() {
            let (x, y) = (left + WIDTH / 2.0, (TOP + BOTTOM) / 2.0);
            return svg + &text(x, y, "middle", "no values");
        }
        let values = series
            .iter()
            .flat_map(|series| &series.values)
            .map(|&(_, y)| y);
        let y_axis = Axis::fit(
            values.chain(self.from_zero.then_some(0.0)),
            0.0,
            self.y_limit,
        );
        let position = |&(x, y): &(f64, f64)| {
            let x = x_axis.position(x, left, left + WIDTH);
            (x, y_axis.position(y, BOTTOM, TOP))
        };
        svg += &draw_y_axis(left, &y_axis);
        let legend_width = (WIDTH / series.len() as f64).min(120.0);
        for (
            index,
            Series {
                name,
                style,
                values,
            },
        ) in series.into_iter().enumerate()
        {
            let legend = left + index as f64 * legend_width;
            let sample = [0.0, 21.0, 42.0].map(|right| (legend + right, TOP - 24.0));
            svg += &style.draw_line(values.iter().map(position), "curve");
            let mut marked: Vec<(f64, f64)> = values.iter().map(position).collect();
            if !name.is_empty() {
                svg += &style.draw_line(sample.into_iter(), "legend");
                svg += &text(legend + 50.0, TOP - 19.5, "start", name);
                marked.push(sample[1]);
            }
            if values.len() <= MAX_MARKERS {
                svg.extend(marked.into_iter().map(|point| style.draw_marker(point)));
            }
        }
        if let Some((x, y)) = self.highlight.as_ref().map(position) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"8\" fill=\"none\" stroke=\"#222222\" stroke-width=\"1.5\"/>"
            );
        }
        svg
    }
}

/// Title, the two axis lines, and ticks and name of the horizontal axis.
fn draw_frame(title: &str, left: f64, x_axis: &Axis, x_name: &str) -> String {
    let mut svg = format!(
        "<text x=\"{left}\" y=\"58\" font-weight=\"bold\">{}</text>\n\
         <path d=\"M{left} {TOP}V{BOTTOM}H{}\" fill=\"none\" stroke=\"#444444\"/>\n",
        escape(title),
        left + WIDTH,
    );
    for tick in x_axis.ticks() {
        let x = x_axis.position(tick, left, left + WIDTH);
        let _ = writeln!(svg, "<path d=\"M{x:.2} {BOTTOM}v5\" stroke=\"#444444\"/>");
        svg += &text(x, BOTTOM + 19.0, "middle", &x_axis.tick_label(tick));
    }
    svg + &text(left + WIDTH / 2.0, BOTTOM + 39.0, "middle", x_name)
}

/// Labels of the vertical axis, with a grid line at each.
fn draw_y_axis(left: f64, y_axis: &Axis) -> String {
    let mut svg = String::new();
    for tick in y_axis.ticks() {
        let y = y_axis.position(tick, BOTTOM, TOP);
        if y < BOTTOM - 1.0 {
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {y:.2}h{WIDTH}\" stroke=\"#dddddd\"/>"
            );
        }
        svg += &text(left - 8.0, y + 4.5, "end", &y_axis.tick_label(tick));
    }
    svg
}

/// An axis: a range of values with ticks at round numbers.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The first tick, as a multiple of `step`.
    first: f64,
    /// Number of steps between the first and the last tick.
    count: f64,
    /// Distance between two ticks.
    step: f64,
}

impl Axis {
    /// An axis for counts such as epochs or words: fitted to the values, with ticks at whole numbers.
    pub fn of_counts(values: impl Iterator<Item = f64>) -> Self {
        Self::fit(values, 1.0, f64::INFINITY)
    }

    /// An axis fitted to finite values, with steps of at least `min_step`. It does not go beyond `limit` unless a value
    /// does.
    fn fit(values: impl Iterator<Item = f64>, min_step: f64, limit: f64) -> Self {
        let (mut low, mut high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (0.0, 1.0); // no values
        }
        let magnitude = low.abs().max(high.abs());
        if high - low <= 1e-6 * magnitude || magnitude < 1e-300 {
            // A single value goes into the middle, but needs no room below 0 or beyond the limit.
            let room = if magnitude < 1e-300 {
                1.0
            } else {
                0.1 * magnitude
            }
            .max(min_step);
            low = (low - room).max(low.min(0.0));
            high = (high + room).min(high.max(limit));
        }
        let rough_step = (high - low) / 5.0;
        let power = 10f64.powf(rough_step.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors
            .into_iter()
            .find(|factor| factor * power >= rough_step);
        let step = (factor.unwrap_or(10.0) * power).max(min_step);
        // The tolerance keeps rounding errors from adding an empty step.
        let first = (low / step + 1e-6).floor();
        let last = (high / step - 1e-6).ceil();
        Self {
            first,
            count: (last - first).max(1.0),
            step,
        }
    }

    /// The coordinate of a value on an axis that is drawn from `from` to `to`.
    fn position(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value / self.step - self.first) / self.count * (to - from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (0..=self.count as usize).map(|index| (self.first + index as f64) * self.step)
    }

    fn tick_label(&self, tick: f64) -> String {
        let decimals = (-self.step.log10() - 1e-9).ceil().max(0.0) as usize;
        format_value(tick, decimals)
    }
}

/// Formats a value with this number of decimals, or in scientific notation where that would be long.
pub fn format_value(value: f64, decimals: usize) -> String {
    if decimals > 5 || value.abs() >= 1e7 {
        format!("{value:.2e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// The SVG of a chart: a title and at most [`MAX_PANELS`] panels side by side over the same horizontal axis.
///
/// The white background keeps it readable on dark web pages.
pub fn page(title: &str, x_name: &str, x_axis: &Axis, panels: &[Panel]) -> String {
    let panels: String = panels
        .iter()
        .take(MAX_PANELS)
        .enumerate()
        .map(|(index, panel)| panel.draw(LEFT + index as f64 * PANEL_DISTANCE, x_axis, x_name))
        .collect();
    document(title, &panels)
}

/// The SVG of a title and panels that are drawn already.
fn document(title: &str, panels: &str) -> String {
    let mut heading: String = title.chars().take(MAX_TITLE).collect();
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

/// Escapes text for XML; characters that XML does not allow become a replacement character.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let labels = |axis: Axis| -> Vec<String> {
            axis.ticks().map(|tick| axis.tick_label(tick)).collect()
        };
        let loss = Axis::fit([0.13, 0.92].into_iter(), 0.0, f64::INFINITY);
        assert_eq!(labels(loss), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let epochs = Axis::of_counts([1.0, 2.0, 3.0].into_iter());
        assert_eq!(labels(epochs), ["1", "2", "3"]);
        let negative = Axis::fit([-1.0, 1.0].into_iter(), 0.0, f64::INFINITY);
        assert_eq!(labels(negative), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
    }

    #[test]
    fn names_are_drawn_and_escaped() {
        let panel = Panel {
            title: "a < b".to_owned(),
            y_limit: f64::INFINITY,
            from_zero: false,
            series: vec![Series {
                name: "x & y".to_owned(),
                style: LineStyle::BLUE,
                values: vec![(1.0, 2.0), (2.0, 3.0)],
            }],
            highlight: Some((2.0, 3.0)),
        };
        let x_axis = Axis::of_counts([1.0, 2.0].into_iter());
        let svg = page("t", "epoch", &x_axis, &[panel]);
        for part in ["a &lt; b", "x &amp; y", ">epoch<", "<circle "] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }
}
