//! The assignment problem: as many pairs of rows and columns as there can be, at the lowest total cost.

use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// Costs are counted in these parts of 1: the solver wants whole numbers, and probabilities are no finer.
const PARTS: f64 = 1e12;

/// Pairs (row, column) in order of the rows, each row and column at most once, as many as the shorter side has.
/// `costs` are listed row by row and between -1000 and 1000.
pub fn assign(costs: &[f64], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    assert_eq!(costs.len(), rows * columns, "one cost a pair");
    if costs.is_empty() {
        return Vec::new();
    }
    let cost = |row: usize, column: usize| (costs[row * columns + column] * PARTS) as i64;
    let is_wide = rows <= columns;
    let matrix = if is_wide {
        Matrix::from_fn(rows, columns, |(row, column)| cost(row, column))
    } else {
        Matrix::from_fn(columns, rows, |(column, row)| cost(row, column))
    };
    let (_, chosen) = kuhn_munkres_min(&matrix);
    let mut pairs: Vec<(usize, usize)> = chosen.into_iter().enumerate().collect();
    if !is_wide {
        pairs = pairs
            .into_iter()
            .map(|(column, row)| (row, column))
            .collect();
        pairs.sort_unstable();
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lowest total by trying everything.
    fn lowest(costs: &[f64], columns: usize, row: usize, rows: usize, used: &mut [bool]) -> f64 {
        if row == rows {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        let free = used.iter().filter(|used| !**used).count();
        // With more rows than columns some rows go without.
        if rows - row > free {
            best = lowest(costs, columns, row + 1, rows, used);
        }
        for column in 0..columns {
            if !used[column] {
                used[column] = true;
                let rest = lowest(costs, columns, row + 1, rows, used);
                best = best.min(costs[row * columns + column] + rest);
                used[column] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn nothing_is_cheaper(
            rows in 0usize..6,
            columns in 1usize..6,
            costs in prop::collection::vec(prop_oneof![-3.0f64..0.0, Just(-1.0)], 36),
        ) {
            let costs = &costs[..rows * columns];
            let pairs = assign(costs, rows, columns);
            prop_assert_eq!(pairs.len(), rows.min(columns));
            for index in 1..pairs.len() {
                prop_assert!(pairs[index - 1].0 < pairs[index].0);
                prop_assert!(pairs[..index].iter().all(|pair| pair.1 != pairs[index].1));
            }
            let total: f64 = pairs.iter().map(|(row, column)| costs[row * columns + column]).sum();
            let expected = lowest(costs, columns, 0, rows, &mut vec![false; columns]);
            prop_assert!((total - expected).abs() < 1e-9, "{} {}", total, expected);
        }
    }

    #[test]
    fn many_copies_are_quick() {
        let side = 150;
        let costs: Vec<f64> = (0..side * side)
            .map(|place| -(((place / side * 31 + place % side % 7 * 17) % 101) as f64))
            .collect();
        let start = std::time::Instant::now();
        assert_eq!(assign(&costs, side, side).len(), side);
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    }
}
