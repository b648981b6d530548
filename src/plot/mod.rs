//! How the curves are drawn: panels, axes, lines and marks as SVG.

use std::fmt::Write as _;

/// Values beyond this would overflow when an axis is fitted to them.
pub(crate) const LARGEST: f64 = 1e300;
/// The plot areas, in the picture's units.
pub(crate) const TOP: f64 = 96.0;
pub(crate) const BOTTOM: f64 = 370.0;
pub(crate) const WIDTH: f64 = 380.0;
/// With more points than this their marks would hide the line.
pub(crate) const MOST_MARKS: usize = 40;
/// Characters of the title that have room.
pub(crate) const LONGEST_TITLE: usize = 80;

/// How a curve looks. Colour, dashes and marks all differ, for the colour-blind and for black-and-white paper.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) colour: &'static str,
    pub(crate) dashes: &'static str,
    /// Corners of the mark around its middle.
    pub(crate) mark: &'static [(f64, f64)],
}

impl Look {
    pub(crate) const TRAIN: Self = Self {
        colour: "#0072b2",
        dashes: "none",
        mark: &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
    };
    pub(crate) const DEV: Self = Self {
        colour: "#d55e00",
        dashes: "8 4",
        mark: &[(0.0, -4.5), (4.5, 3.5), (-4.5, 3.5)],
    };
    pub(crate) const F1: Self = Self {
        colour: "#00805a",
        dashes: "10 3 2 3",
        mark: &[(0.0, -4.5), (4.5, 0.0), (0.0, 4.5), (-4.5, 0.0)],
    };

    pub(crate) fn draw_mark(&self, x: f64, y: f64) -> String {
        let corners = self.mark.iter().map(|(right, down)| (x + right, y + down));
        format!(
            "<polygon points=\"{}\" fill=\"{}\"/>\n",
            coordinates(corners),
            self.colour
        )
    }

    pub(crate) fn draw_line(
        &self,
        points: impl Iterator<Item = (f64, f64)>,
        class: &str,
    ) -> String {
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
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) look: Look,
    pub(crate) values: Vec<(f64, f64)>,
}

/// One of the two plots.
pub(crate) struct Panel<'a> {
    pub(crate) title: &'a str,
    pub(crate) left: f64,
    /// The axis does not reach higher than this without need.
    pub(crate) ceiling: f64,
    pub(crate) series: Vec<Series>,
    /// A value to draw a ring around.
    pub(crate) ring: Option<(f64, f64)>,
}

impl Panel<'_> {
    pub(crate) fn draw(&self, x_axis: &Axis, x_name: &str) -> String {
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
        let room = (WIDTH / shown().count() as f64).min(120.0);
        for Series { name, look, values } in shown() {
            let sample = [0.0, 21.0, 42.0].map(|right| (legend + right, TOP - 24.0));
            svg += &look.draw_line(values.iter().map(place), "curve");
            svg += &look.draw_line(sample.into_iter(), "legend");
            if values.len() <= MOST_MARKS {
                let marked = values.iter().map(place).chain([sample[1]]);
                svg.extend(marked.map(|(x, y)| look.draw_mark(x, y)));
            }
            svg += &text(legend + 50.0, TOP - 19.5, "start", name);
            legend += room;
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
    pub(crate) fn frame(&self, x_axis: &Axis, x_name: &str) -> String {
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
    pub(crate) fn heights(&self, y_axis: &Axis) -> String {
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
pub(crate) struct Axis {
    /// The first tick, in steps.
    pub(crate) first: f64,
    /// How many steps there are.
    pub(crate) count: f64,
    pub(crate) step: f64,
}

impl Axis {
    /// An axis for the finite values, with steps of at least `least`.
    pub(crate) fn of(values: impl Iterator<Item = f64>, least: f64, ceiling: f64) -> Self {
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
    pub(crate) fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        from + (value / self.step - self.first) / self.count * (to - from)
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> {
        (0..=self.count as usize).map(|index| (self.first + index as f64) * self.step)
    }

    pub(crate) fn label(&self, tick: f64) -> String {
        let decimals = (-self.step.log10() - 1e-9).ceil().max(0.0) as usize;
        short(tick, decimals)
    }
}

/// A number with so many decimals, or in powers of ten where that would be long.
pub(crate) fn short(value: f64, decimals: usize) -> String {
    if decimals > 5 || value.abs() >= 1e7 {
        format!("{value:.2e}")
    } else {
        format!("{value:.decimals$}")
    }
}

/// The whole picture around its panels; the white ground keeps it readable on dark pages.
pub(crate) fn page(title: &str, panels: &str) -> String {
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

pub(crate) fn coordinates(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.2},{y:.2}")).collect();
    points.join(" ")
}

pub(crate) fn text(x: f64, y: f64, anchor: &str, content: &str) -> String {
    let content = escape(content);
    format!("<text x=\"{x:.2}\" y=\"{y:.2}\" text-anchor=\"{anchor}\">{content}</text>\n")
}

/// Text as XML content; characters that XML cannot carry become a replacement character.
pub(crate) fn escape(text: &str) -> String {
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
