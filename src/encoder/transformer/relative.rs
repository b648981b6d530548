//! Relative positions: the rows of a table for the distances between pieces, and their terms of the attention scores.

use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::Tensor;

use super::layout::{DebertaLayout, Layout};
use crate::nn::fused::transformer::DistanceRows;
use crate::nn::precision::Precision;
use crate::nn::rows::select_rows;

/// Number of buckets of MPNet's distances, half of them in each direction.
pub(in crate::encoder) const MPNET_BUCKETS: usize = 32;
/// MPNet's distances from here on share one bucket.
const MPNET_LONGEST: f32 = 128.0;

impl Layout {
    /// Row of the table of relative positions for the distance `j - i` from piece `i` to piece `j`.
    fn relative_row(&self, distance: i64) -> usize {
        match self {
            Layout::Mpnet(layout) => mpnet_bucket(distance).min(layout.buckets.saturating_sub(1)),
            Layout::Deberta(layout) => layout.relative_row(-distance),
            Layout::Bert | Layout::Albert(_) | Layout::Modernbert(_) => 0,
        }
    }
}

impl DebertaLayout {
    /// Number of distances in each direction that have a row of their own in the table of relative positions.
    pub(super) fn span(&self) -> usize {
        let span = match self.buckets {
            0 => self.longest,
            buckets => buckets,
        };
        span.max(1)
    }

    /// Number of terms by which the attention scores are scaled. It does not depend on whether relative positions are used.
    pub(super) fn score_terms(&self) -> usize {
        1 + usize::from(self.content_to_position) + usize::from(self.position_to_content)
    }

    /// Row of the table for the distance `i - j`.
    fn relative_row(&self, distance: i64) -> usize {
        let span = self.span() as i64;
        let bucket = match self.buckets {
            0 => distance,
            buckets => log_bucket(distance, buckets, self.longest),
        };
        // The sum is not negative after this.
        bucket.saturating_add(span).clamp(0, 2 * span - 1) as usize
    }
}

/// DeBERTa's bucket of a distance: up to half the number of buckets the distance itself, from there to `longest` by its
/// logarithm. In single precision, as in the reference implementation.
fn log_bucket(distance: i64, buckets: usize, longest: usize) -> i64 {
    let middle = (buckets / 2).max(1) as i64;
    let size = distance.abs();
    if size <= middle {
        return distance;
    }
    let ratio = |size: i64| (size as f32 / middle as f32).ln();
    let share = ratio(size) / ratio(longest as i64 - 1);
    let steps = (share * (middle - 1) as f32).ceil();
    (steps as i64).saturating_add(middle) * distance.signum()
}

/// MPNet's bucket of the distance `j - i`: the distance itself up to a quarter of the buckets, larger ones by their
/// logarithm; the second half of the buckets for `j > i`.
fn mpnet_bucket(distance: i64) -> usize {
    let half = MPNET_BUCKETS / 2;
    let exact = half / 2;
    let size = distance.unsigned_abs() as usize;
    let bucket = if size < exact {
        size
    } else {
        let share = (size as f32 / exact as f32).ln() / (MPNET_LONGEST / exact as f32).ln();
        (exact + (share * (half - exact) as f32) as usize).min(half - 1)
    };
    bucket + if distance > 0 { half } else { 0 }
}

/// The rows of a table of relative positions that occur in a batch.
#[derive(Debug, Clone)]
pub(super) struct RelativePositions {
    /// The rows, in the order of the distances: `[position rows, columns]`.
    pub(super) table: Tensor<2>,
    /// Row of `table` for each distance.
    pub(super) rows: DistanceRows,
}

impl RelativePositions {
    /// Selects the rows of a table for all distances between the pieces of rows of up to `longest` pieces.
    pub(super) fn new(table: Tensor<2>, layout: &Layout, longest: usize) -> Self {
        let farthest = longest.max(1) as i64 - 1;
        let mut selected: Vec<usize> = Vec::new();
        let rows = (-farthest..=farthest).map(|distance| {
            let row = layout.relative_row(distance);
            if selected.last() != Some(&row) {
                selected.push(row);
            }
            selected.len() - 1
        });
        let rows = DistanceRows::new(rows.collect());
        Self {
            table: select_rows(table, selected),
            rows,
        }
    }

    /// Number of pieces in the longest row.
    fn longest(&self) -> usize {
        self.rows.all().len().div_ceil(2)
    }

    /// One bias per head and pair of pieces, from a table with one column per head.
    ///
    /// # Shapes
    /// - output: `[1, heads, pieces, pieces]`
    pub(super) fn bias(&self) -> Tensor<4> {
        let heads = self.table.dims()[1];
        let distances = self.rows.all().len();
        let by_distance = select_rows(self.table.clone(), self.rows.all().to_vec());
        let by_distance = by_distance.transpose().reshape([1, heads, 1, distances]);
        shift(by_distance.expand([1, heads, self.longest(), distances]))
    }

    /// Splits projected position rows into heads, one row per distance, for a product with content.
    ///
    /// # Shapes
    /// - projected: `[position rows, width]`
    /// - output: `[1, heads, width / heads, distances]`
    fn by_distance(&self, projected: Tensor<2>, heads: usize, is_reversed: bool) -> Tensor<4> {
        let width = projected.dims()[1];
        let mut rows = self.rows.all().to_vec();
        if is_reversed {
            rows.reverse();
        }
        let distances = rows.len();
        select_rows(projected, rows)
            .reshape([1, distances, heads, width / heads])
            .permute([0, 2, 3, 1])
    }
}

/// From one score per piece and distance to one per pair of pieces: `output[i][j] = scores[i][j - i + n - 1]`.
///
/// # Shapes
/// - scores: `[rows, heads, n, 2n - 1]`
/// - output: `[rows, heads, n, n]`
fn shift(scores: Tensor<4>) -> Tensor<4> {
    let [rows, heads, pieces, distances] = scores.dims();
    if pieces == 1 {
        return scores;
    }
    // The element [i][j] stands at i (2n - 2) + j + n - 1: without the first n - 1 values, rows are 2n - 2 apart.
    scores
        .reshape([rows, heads, pieces * distances])
        .narrow(2, pieces - 1, pieces * (distances - 1))
        .reshape([rows, heads, pieces, distances - 1])
        .narrow(3, 0, pieces)
}

/// The terms of DeBERTa's disentangled attention: scores between content and relative positions.
#[derive(Module, Debug)]
pub(super) struct DisentangledAttention {
    /// Projection of positions to keys; the content's without one.
    pub(super) key: Option<Linear>,
    /// Projection of positions to queries; the content's without one.
    pub(super) query: Option<Linear>,
    #[module(skip)]
    pub(super) content_to_position: bool,
    #[module(skip)]
    pub(super) position_to_content: bool,
}

/// Projected relative positions, for the terms that a layer has.
///
/// # Shapes
/// - keys, queries: `[position rows, width]`
pub(super) struct PositionProjections {
    pub(super) keys: Option<Tensor<2>>,
    pub(super) queries: Option<Tensor<2>>,
}

impl DisentangledAttention {
    /// Projects relative positions, with dropout in training. `key` and `query` are the projections of the content.
    /// The projected positions are in the given format.
    pub(super) fn project(
        &self,
        positions: &RelativePositions,
        [query, key]: [&Linear; 2],
        dropout: &Dropout,
        precision: Precision,
    ) -> PositionProjections {
        let rows = dropout.forward(precision.lower(positions.table.clone()));
        let project = |has: bool, own: &Option<Linear>, content: &Linear| {
            has.then(|| precision.linear(own.as_ref().unwrap_or(content), rows.clone()))
        };
        PositionProjections {
            keys: project(self.content_to_position, &self.key, key),
            queries: project(self.position_to_content, &self.query, query),
        }
    }
}

impl PositionProjections {
    /// Adds the terms to attention scores. `scale` is what products are divided by; the queries are already.
    ///
    /// # Shapes
    /// - scores: `[rows, heads, pieces, pieces]`
    /// - query, key: `[rows, heads, pieces, width / heads]`
    pub(super) fn add_scores(
        self,
        mut scores: Tensor<4>,
        positions: &RelativePositions,
        [query, key]: [Tensor<4>; 2],
        scale: f32,
    ) -> Tensor<4> {
        let heads = scores.dims()[1];
        if let Some(keys) = self.keys {
            scores = scores + shift(query.matmul(positions.by_distance(keys, heads, false)));
        }
        if let Some(queries) = self.queries {
            // Seen from the key, distances have the opposite sign.
            let queries = positions.by_distance(queries / scale, heads, true);
            scores = scores + shift(key.matmul(queries)).transpose();
        }
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::transformer::MpnetLayout;
    use crate::nn::host::floats;
    use burn::tensor::{Device, Int};

    /// Sums over distances from 0 to 511 in the reference implementation: of the buckets, and of distances times buckets.
    #[test]
    fn buckets_of_deberta_are_those_of_the_reference() {
        let expected = [
            (256, 512, 87_297, 27_457_213),
            (8, 64, 4450, 1_215_131),
            (8, 24, 5685, 1_569_800),
            (2, 10, 511, 130_816),
            (3, 20, 511, 130_816),
            (32, 128, 17_544, 4_964_794),
            (9, 30, 5292, 1_456_946),
            (7, 512, 2510, 653_290),
            (50, 300, 22_946, 6_520_713),
            (320, 512, 102_484, 33_044_582),
        ];
        for (buckets, longest, sum, weighted) in expected {
            let bucket = |distance| log_bucket(distance, buckets, longest);
            let what = format!("{buckets} buckets up to {longest}");
            assert_eq!((0..512).map(bucket).sum::<i64>(), sum, "{what}");
            let found: i64 = (0..512).map(|distance| distance * bucket(distance)).sum();
            assert_eq!(found, weighted, "{what}");
            assert!((0..512).all(|distance| bucket(-distance) == -bucket(distance)));
        }
        let found = [100, 129, 200, 300, 511].map(|distance| log_bucket(distance, 256, 512));
        assert_eq!(found, [100, 129, 169, 207, 255]);
    }

    #[test]
    fn buckets_of_mpnet_are_those_of_the_reference() {
        // The first distance of each bucket.
        let first = [
            (0, 0),
            (1, 17),
            (7, 23),
            (8, 24),
            (12, 25),
            (16, 26),
            (23, 27),
            (32, 28),
            (46, 29),
            (64, 30),
            (91, 31),
        ];
        for (distance, bucket) in first {
            assert_eq!(mpnet_bucket(distance), bucket, "{distance}");
            if distance > 0 {
                assert_eq!(mpnet_bucket(-distance), bucket - 16, "{distance}");
            }
            if distance > 7 {
                assert_eq!(mpnet_bucket(distance - 1), bucket - 1, "{distance}");
            }
        }
        assert_eq!((mpnet_bucket(600), mpnet_bucket(-600)), (31, 15));
    }

    /// No settings from a file lead to a row outside the table.
    #[test]
    fn rows_lie_in_the_table() {
        for buckets in [0, 1, 2, 3, 8, 600] {
            for longest in [0, 1, 2, 5, 9, 512] {
                let layout = DebertaLayout {
                    relative: true,
                    content_to_position: true,
                    position_to_content: true,
                    buckets,
                    longest,
                    shared_key: true,
                    normalised: false,
                    position_input: false,
                    convolution: None,
                };
                for distance in -700..=700 {
                    assert!(layout.relative_row(distance) < 2 * layout.span());
                }
            }
        }
        for buckets in [0, 1, 20, 32, 99] {
            let layout = Layout::Mpnet(MpnetLayout { buckets });
            for distance in -700..=700 {
                assert!(layout.relative_row(distance) < buckets.max(1));
            }
        }
    }

    #[test]
    fn biases_stand_where_their_distance_is() {
        let device = Device::flex();
        let layout = Layout::Mpnet(MpnetLayout { buckets: 32 });
        let table = Tensor::<1, Int>::arange(0..64, &device)
            .float()
            .reshape([32, 2]);
        for length in [1usize, 2, 3, 13] {
            let positions = RelativePositions::new(table.clone(), &layout, length);
            let bias = positions.bias();
            assert_eq!(bias.dims(), [1, 2, length, length]);
            let bias = floats(bias);
            for head in 0..2 {
                for i in 0..length {
                    for j in 0..length {
                        let bucket = mpnet_bucket(j as i64 - i as i64);
                        let found = bias[(head * length + i) * length + j];
                        assert_eq!(found, (2 * bucket + head) as f32, "{head} {i} {j}");
                    }
                }
            }
        }
    }
}
