//! Fits `F1(n) = a − b · n^(−c)` to scores measured with different amounts of data.

use serde::Serialize;

/// Curves whose deviation is at most this much larger than that of the best fit are as plausible: half a point of F1, about
/// what another seed changes.
const TOLERANCE: f64 = 0.005;

/// A curve that grows more and more slowly towards `a`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PowerLaw {
    /// The limit for infinitely many sentences, at most 1.
    pub a: f64,
    /// What is missing to the limit, at least 0.
    pub b: f64,
    /// How fast the rest gets smaller.
    pub c: f64,
    /// Root mean square deviation of the points.
    pub deviation: f64,
}

/// A predicted score and the range of all plausible curves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Forecast {
    /// The number of sentences.
    pub sentences: f64,
    /// F1 of the best fit.
    pub f1: f64,
    /// The lowest F1 of a plausible curve.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl PowerLaw {
    /// The least-squares fit to (sentences, F1); `None` for fewer than three different numbers of sentences.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let fits = fits(points)?.into_iter();
        fits.min_by(|a, b| a.deviation.total_cmp(&b.deviation))
    }

    /// F1 with so many sentences.
    pub fn at(&self, sentences: f64) -> f64 {
        self.a - self.b * sentences.powf(-self.c)
    }

    /// The forecast of [`PowerLaw::fit`] for so many sentences.
    pub fn forecast(points: &[(f64, f64)], sentences: f64) -> Option<Forecast> {
        let best = Self::fit(points)?;
        let is_plausible = |fit: &Self| fit.deviation <= best.deviation + TOLERANCE;
        let all = fits(points)?.into_iter().filter(is_plausible);
        let values: Vec<f64> = all.map(|fit| fit.at(sentences).clamp(0.0, 1.0)).collect();
        Some(Forecast {
            sentences,
            f1: best.at(sentences).clamp(0.0, 1.0),
            low: values.iter().copied().fold(1.0, f64::min),
            high: values.iter().copied().fold(0.0, f64::max),
        })
    }
}

/// The best fit for each exponent from 0.1 to 2.
fn fits(points: &[(f64, f64)]) -> Option<Vec<PowerLaw>> {
    let mut sizes: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < 3 || sizes[0] <= 0.0 {
        return None;
    }
    let exponents = (2..=40).map(|step| 0.05 * step as f64);
    Some(exponents.map(|c| fit_exponent(points, c)).collect())
}

/// The least-squares fit with a given exponent: a straight line over `n^(−c)`, with `a` at most 1 and `b` at least 0.
fn fit_exponent(points: &[(f64, f64)], c: f64) -> PowerLaw {
    // Relative to the largest number, so that the powers are of a sensible size.
    let scale = points.iter().map(|(n, _)| *n).fold(1.0, f64::max);
    let values: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, y)| ((n / scale).powf(-c), *y))
        .collect();
    let count = values.len() as f64;
    let sum = |term: fn(&(f64, f64)) -> f64| values.iter().map(term).sum::<f64>();
    let (mean_x, mean_y) = (sum(|(x, _)| *x) / count, sum(|(_, y)| *y) / count);
    let covariance = sum(|(x, y)| x * y) - count * mean_x * mean_y;
    let variance = sum(|(x, _)| x * x) - count * mean_x * mean_x;
    let mut b = (-covariance / variance.max(f64::MIN_POSITIVE)).max(0.0);
    let mut a = mean_y + b * mean_x;
    if a > 1.0 {
        a = 1.0;
        b = sum(|(x, y)| x * (1.0 - y)) / sum(|(x, _)| x * x);
    }
    let squares: f64 = values.iter().map(|(x, y)| (a - b * x - y).powi(2)).sum();
    PowerLaw {
        a,
        b: b * scale.powf(c),
        c,
        deviation: (squares / count).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_data_gives_its_own_curve() {
        let sizes = [100.0, 250.0, 500.0, 1000.0];
        let points = sizes.map(|n: f64| (n, 0.8 - 3.0 * n.powf(-0.5)));
        let fit = PowerLaw::fit(&points).unwrap();
        assert!((fit.a - 0.8).abs() < 1e-6, "{fit:?}");
        assert!((fit.b - 3.0).abs() < 1e-4, "{fit:?}");
        assert!(
            (fit.c - 0.5).abs() < 1e-9 && fit.deviation < 1e-9,
            "{fit:?}"
        );
        let forecast = PowerLaw::forecast(&points, 2000.0).unwrap();
        let expected = 0.8 - 3.0 * 2000f64.powf(-0.5);
        assert!((forecast.f1 - expected).abs() < 1e-6, "{forecast:?}");
        assert!(forecast.low < expected && expected < forecast.high);
        assert!(forecast.high - forecast.low < 0.05, "{forecast:?}");
    }

    #[test]
    fn few_points_give_no_curve() {
        assert_eq!(PowerLaw::fit(&[(100.0, 0.5), (200.0, 0.6)]), None);
        assert_eq!(
            PowerLaw::fit(&[(100.0, 0.5), (200.0, 0.6), (200.0, 0.61)]),
            None
        );
    }

    #[test]
    fn curves_never_fall_and_never_exceed_one() {
        let falling = PowerLaw::fit(&[(100.0, 0.6), (200.0, 0.5), (400.0, 0.4)]).unwrap();
        assert!(falling.b == 0.0 && (falling.a - 0.5).abs() < 1e-12);
        let steep = PowerLaw::fit(&[(100.0, 0.1), (200.0, 0.5), (400.0, 0.9)]).unwrap();
        assert!(steep.a <= 1.0 && steep.at(1e9) <= 1.0);
    }
}
