//! The reliability diagram: the share of correct mentions over their score.

use std::fmt::Write as _;

use super::{
    Axis, BOTTOM, LEFT, LineStyle, PANEL_DISTANCE, TOP, WIDTH, document, draw_frame, draw_y_axis,
    text,
};
use crate::eval::reliability::{BINS, Bin, Reliability};

/// The SVG of a reliability diagram: on the left the share of correct mentions in each bin of scores, with its 95 %
/// interval and the diagonal of perfect calibration, on the right the number of mentions in each bin.
pub fn reliability_diagram(title: &str, reliability: &Reliability) -> String {
    let axis = Axis::fit([0.0, 1.0].into_iter(), 0.0, 1.0);
    let right = LEFT + PANEL_DISTANCE;
    let share_title = "Share of correct mentions, 95 % interval";
    let mut svg = draw_frame(share_title, LEFT, &axis, "score");
    svg += &draw_y_axis(LEFT, &axis);
    svg += &draw_frame("Number of mentions", right, &axis, "score");
    let counts = reliability.bins.iter().map(|bin| bin.count as f64);
    let count_axis = Axis::of_counts(counts.chain([0.0]));
    svg += &draw_y_axis(right, &count_axis);
    for (index, bin) in (reliability.bins.iter().enumerate()).filter(|(_, bin)| bin.count > 0) {
        let height = axis.position(bin.share_correct(), 0.0, BOTTOM - TOP);
        svg += &draw_bar(LEFT, index, height);
        let height = count_axis.position(bin.count as f64, 0.0, BOTTOM - TOP);
        svg += &draw_bar(right, index, height);
        let centre = right + (index as f64 + 0.5) / BINS as f64 * WIDTH;
        let _ = writeln!(
            svg,
            "<text x=\"{centre:.2}\" y=\"{:.2}\" text-anchor=\"middle\" font-size=\"9\">{}</text>",
            BOTTOM - height - 4.0,
            bin.count
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"diagonal\" d=\"M{LEFT} {BOTTOM}L{} {TOP}\" stroke=\"#666666\" stroke-dasharray=\"5 4\"/>",
        LEFT + WIDTH
    );
    // Above the bars and the diagonal.
    let bins = reliability.bins.iter().filter(|bin| bin.count > 0);
    svg.extend(bins.map(|bin| draw_point(bin, &axis)));
    let Some(error) = reliability.calibration_error() else {
        for left in [LEFT, right] {
            let (x, y) = (left + WIDTH / 2.0, (TOP + BOTTOM) / 2.0);
            svg += &text(x, y, "middle", "no mentions");
        }
        return document(title, &svg);
    };
    let error = 100.0 * error;
    document(
        &format!("{title}: expected calibration error {error:.2} %"),
        &svg,
    )
}

/// The bar of a bin with this height.
fn draw_bar(left: f64, index: usize, height: f64) -> String {
    let width = WIDTH / BINS as f64;
    format!(
        "<rect class=\"bin\" x=\"{:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"#cfe3f1\" \
         stroke=\"#0072b2\"/>\n",
        left + index as f64 * width,
        BOTTOM - height,
    )
}

/// The share of correct mentions at the bin's mean score, with its interval.
fn draw_point(bin: &Bin, axis: &Axis) -> String {
    let x = axis.position(bin.mean_score(), LEFT, LEFT + WIDTH);
    let y = |share: f64| axis.position(share, BOTTOM, TOP);
    let (low, high) = bin.interval();
    let (low, high) = (y(low), y(high));
    let marker = LineStyle::ORANGE.draw_marker((x, y(bin.share_correct())));
    format!(
        "<path class=\"interval\" d=\"M{x:.2} {low:.2}V{high:.2}\" stroke=\"#d55e00\"/>\n{marker}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::reliability::ScoredMention;

    fn diagram(scores: &[(f32, bool)]) -> String {
        let mention = |&(score, correct): &(f32, bool)| ScoredMention {
            sentence: 0,
            score,
            correct,
        };
        let scored: Vec<ScoredMention> = scores.iter().map(mention).collect();
        reliability_diagram("a < b", &Reliability::of(&scored))
    }

    fn count(svg: &str, part: &str) -> usize {
        svg.matches(part).count()
    }

    #[test]
    fn bins_with_mentions_are_drawn() {
        let svg = diagram(&[(0.95, true), (0.96, true), (0.98, false), (0.3, false)]);
        // Two bins in two panels.
        assert_eq!(count(&svg, "class=\"bin\""), 4);
        assert_eq!(count(&svg, "class=\"interval\""), 2);
        assert_eq!(count(&svg, "class=\"diagonal\""), 1);
        // Two of three are correct: a bar of two thirds of the height from 96 to 370, in the last of 15 bins.
        let bar = "x=\"424.67\" y=\"187.33\" width=\"25.33\" height=\"182.67\"";
        assert_eq!(count(&svg, bar), 1, "{svg}");
        assert!(svg.contains(">3</text>"));
        // |2.89 - 2| + 0.3, over 4 mentions.
        assert!(svg.contains("a &lt; b: expected calibration error 29.75 %"));
    }

    #[test]
    fn few_mentions_can_be_drawn() {
        for scores in [&[][..], &[(1.0, true)], &[(0.0, false)], &[(0.5, false); 3]] {
            let svg = diagram(scores);
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            let texts = if scores.is_empty() { 2 } else { 0 };
            assert_eq!(count(&svg, "no mentions"), texts);
        }
    }
}
