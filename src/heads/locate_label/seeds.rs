//! Seed spans, and the intersection over union of spans.

use super::config::Config;
use crate::text::Span;

/// The seeds from which training examples are selected.
pub fn training_seeds(config: &Config, length: usize) -> Vec<Span> {
    seeds(&config.windows, config.cut_seeds, length)
}

/// The seeds that are filtered in prediction.
pub fn prediction_seeds(config: &Config, length: usize) -> Vec<Span> {
    match (config.all_lengths, config.windows.last()) {
        (true, Some(longest)) => {
            let all: Vec<usize> = (1..=*longest).collect();
            seeds(&all, false, length)
        }
        _ => seeds(&config.windows, false, length),
    }
}

/// Seeds by window, then by start. A seed that is cut at the end of the sentence would be repeated only by larger windows,
/// so skipping the starts whose cut seeds the window before has listed leaves every seed once.
fn seeds(windows: &[usize], cut: bool, length: usize) -> Vec<Span> {
    let mut all = Vec::new();
    let mut previous = 0;
    for window in windows.iter().copied() {
        let starts = if cut {
            length.saturating_sub(previous)
        } else {
            (length + 1).saturating_sub(window)
        };
        all.extend((0..starts).map(|start| Span::new(start, length.min(start + window))));
        previous = window;
    }
    all
}

/// Lengths of seeds for entities of up to `longest` words: every length up to 7 and, as in the paper, every second one from
/// there on; beyond 15 in steps of a quarter. So an entity's length is at least 0.8 of a seed's.
pub fn windows_up_to(longest: usize) -> Vec<usize> {
    let mut windows = vec![1, 2];
    while let Some(last) = windows.last().copied().filter(|last| *last < longest) {
        windows.push(match last {
            ..7 => last + 1,
            7..15 => last + 2,
            _ => last + last / 4,
        });
    }
    windows
}

/// Intersection over union of two spans, in words. The union of overlapping spans is their hull.
pub fn iou(one: Span, other: Span) -> f64 {
    let shared = one.end.min(other.end) as f64 - one.start.max(other.start) as f64;
    if shared <= 0.0 {
        return 0.0;
    }
    let hull = one.end.max(other.end) - one.start.min(other.start);
    shared / hull as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' algorithm: every window at every start, without repetitions.
    fn exhaustive(windows: &[usize], length: usize) -> Vec<Span> {
        let mut all = Vec::new();
        for window in windows {
            for start in 0..length {
                let span = Span::new(start, length.min(start + window));
                if !all.contains(&span) {
                    all.push(span);
                }
            }
        }
        all
    }

    #[test]
    fn every_length_is_close_to_a_window() {
        assert_eq!(windows_up_to(0), [1, 2]);
        assert_eq!(windows_up_to(5), [1, 2, 3, 4, 5]);
        assert_eq!(windows_up_to(16), [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 18]);
        let windows = windows_up_to(200);
        for length in 1..=200 {
            let close = windows.iter().map(|window| {
                let (short, long) = (length.min(*window), length.max(*window));
                short as f64 / long as f64
            });
            let best = close.fold(0.0, f64::max);
            assert!(best >= 0.8, "{length}: {best}");
        }
    }

    #[test]
    fn cut_seeds_equal_the_exhaustive_search() {
        for windows in [vec![1], vec![1, 2, 3], vec![2, 5, 6, 9], vec![3, 20]] {
            for length in 0..12 {
                assert_eq!(
                    seeds(&windows, true, length),
                    exhaustive(&windows, length),
                    "{windows:?} {length}"
                );
                let whole: Vec<Span> = exhaustive(&windows, length)
                    .into_iter()
                    .filter(|span| windows.contains(&span.len()))
                    .collect();
                let found = seeds(&windows, false, length);
                assert!(found.iter().all(|span| whole.contains(span)));
                let lengths: usize = windows
                    .iter()
                    .map(|w| (length + 1).saturating_sub(*w))
                    .sum();
                assert_eq!(found.len(), lengths);
            }
        }
    }

    #[test]
    fn iou_of_spans() {
        let span = Span::new;
        assert_eq!(iou(span(0, 4), span(0, 4)), 1.0);
        assert_eq!(iou(span(0, 4), span(1, 3)), 0.5);
        assert_eq!(iou(span(0, 3), span(2, 6)), 1.0 / 6.0);
        assert_eq!(iou(span(0, 3), span(3, 6)), 0.0);
        assert_eq!(iou(span(4, 6), span(0, 2)), 0.0);
    }
}
