//! The linear assignment problem: a maximum matching of rows and columns with the lowest total cost.

use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// Costs are rounded to multiples of 1 / `RESOLUTION`, as the solver takes integers; probabilities are no finer.
const RESOLUTION: f64 = 1e12;

/// Pairs (row, column) with the lowest total cost, sorted by row. Each row and each column occurs at most once, and there
/// are as many pairs as the smaller side has members. `costs` is `[rows, columns]` in row-major order, each between -1000
/// and 1000.
///
/// # Panics
/// If `costs` does not have `rows · columns` values.
pub fn assign(costs: &[f64], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    assert_eq!(
        costs.len(),
        rows * columns,
        "one cost per pair of row and column"
    );
    if costs.is_empty() {
        return Vec::new();
    }
    let cost = |row: usize, column: usize| (costs[row * columns + column] * RESOLUTION) as i64;
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

    /// The lowest total cost by exhaustive search.
    fn lowest_total(
        costs: &[f64],
        columns: usize,
        row: usize,
        rows: usize,
        used: &mut [bool],
    ) -> f64 {
        if row == rows {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        let free = used.iter().filter(|used| !**used).count();
        // With more rows than columns some rows stay unmatched.
        if rows - row > free {
            best = lowest_total(costs, columns, row + 1, rows, used);
        }
        for column in 0..columns {
            if !used[column] {
                used[column] = true;
                let rest = lowest_total(costs, columns, row + 1, rows, used);
                best = best.min(costs[row * columns + column] + rest);
                used[column] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_assignment_is_cheaper(
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
            let expected = lowest_total(costs, columns, 0, rows, &mut vec![false; columns]);
            prop_assert!((total - expected).abs() < 1e-9, "{} {}", total, expected);
        }
    }

    #[test]
    fn equal_costs_do_not_slow_it_down() {
        let side = 150;
        let costs: Vec<f64> = (0..side * side)
            .map(|index| -(((index / side * 31 + index % side % 7 * 17) % 101) as f64))
            .collect();
        let start = std::time::Instant::now();
        let pairs = assign(&costs, side, side);
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
        let columns: std::collections::BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
        assert_eq!(columns.len(), side);
        // Rows and columns swapped have the same lowest total.
        let swapped: Vec<f64> = (0..side * side)
            .map(|index| costs[index % side * side + index / side])
            .collect();
        let total = |pairs: &[(usize, usize)], costs: &[f64]| -> f64 {
            pairs
                .iter()
                .map(|(row, column)| costs[row * side + column])
                .sum()
        };
        let expected = total(&assign(&swapped, side, side), &swapped);
        assert_eq!(total(&pairs, &costs), expected);
    }
}
