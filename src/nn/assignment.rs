//! The assignment problem: as many pairs of rows and columns as there can be, at the lowest total cost.
//!
//! The Hungarian method by shortest augmenting paths: O(short² · long) for a matrix of these two sides, on plain
//! numbers with a fraction, so that no cost is rounded.

/// Pairs (row, column) in order of the rows, each row and column at most once, as many as the shorter side has.
/// `costs` are listed row by row and finite.
pub fn assign(costs: &[f64], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    assert_eq!(costs.len(), rows * columns, "one cost a pair");
    if rows <= columns {
        return shortest_paths(rows, columns, |row, column| costs[row * columns + column]);
    }
    let mut pairs: Vec<(usize, usize)> =
        shortest_paths(columns, rows, |column, row| costs[row * columns + column])
            .into_iter()
            .map(|(column, row)| (row, column))
            .collect();
    pairs.sort_unstable();
    pairs
}

/// No column, and no column yet.
const NONE: usize = usize::MAX;

/// For at most as many rows as columns. Prices of rows and columns keep every reduced cost at or above 0; each row is
/// added along the path that is cheapest under them.
fn shortest_paths(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<(usize, usize)> {
    let mut row_price = vec![0.0; rows];
    let mut column_price = vec![0.0; columns];
    let mut row_of = vec![NONE; columns];
    for added in 0..rows {
        let mut distance = vec![f64::INFINITY; columns];
        let mut before = vec![NONE; columns]; // the column a path comes from
        let mut settled: Vec<usize> = Vec::new();
        let mut is_settled = vec![false; columns];
        let (mut row, mut reached, mut last) = (added, 0.0, NONE);
        let end = loop {
            let mut nearest = NONE;
            for column in (0..columns).filter(|column| !is_settled[*column]) {
                let reduced = cost(row, column) - row_price[row] - column_price[column];
                if reached + reduced < distance[column] {
                    distance[column] = reached + reduced;
                    before[column] = last;
                }
                if nearest == NONE || distance[column] < distance[nearest] {
                    nearest = column;
                }
            }
            reached = distance[nearest];
            if row_of[nearest] == NONE {
                break nearest;
            }
            is_settled[nearest] = true;
            settled.push(nearest);
            last = nearest;
            row = row_of[nearest];
        };
        row_price[added] += reached;
        for column in settled {
            row_price[row_of[column]] += reached - distance[column];
            column_price[column] -= reached - distance[column];
        }
        let mut column = end;
        while before[column] != NONE {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
        row_of[column] = added;
    }
    let mut pairs: Vec<(usize, usize)> = (0..columns)
        .filter(|column| row_of[*column] != NONE)
        .map(|column| (row_of[column], column))
        .collect();
    pairs.sort_unstable();
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
