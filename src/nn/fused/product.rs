//! Matrix products over slices: the `gemm` crate behind a checked door.

use gemm::Parallelism;

/// Products of fewer multiplications than this are done by one thread.
const SMALL: usize = 1 << 18;

/// A matrix in a slice: where it starts, its sizes and how far apart its rows and columns lie.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Place of the first number.
    pub start: usize,
    /// Rows and columns.
    pub size: [usize; 2],
    /// Numbers between neighbours in a column, and in a row.
    pub strides: [usize; 2],
}

impl View {
    /// A whole slice of full rows.
    pub fn new(rows: usize, columns: usize) -> Self {
        Self {
            start: 0,
            size: [rows, columns],
            strides: [columns, 1],
        }
    }

    /// Rows `first..` and columns `left..` of a matrix with `width` columns.
    pub fn part(first: usize, left: usize, size: [usize; 2], width: usize) -> Self {
        Self {
            start: first * width + left,
            size,
            strides: [width, 1],
        }
    }

    /// Rows for columns.
    pub fn turned(self) -> Self {
        let ([rows, columns], [down, right]) = (self.size, self.strides);
        Self {
            start: self.start,
            size: [columns, rows],
            strides: [right, down],
        }
    }

    /// The place of the last number, or nothing for an empty matrix.
    fn last(self) -> Option<usize> {
        let [rows, columns] = self.size;
        let down = rows.checked_sub(1)? * self.strides[0];
        Some(self.start + down + columns.checked_sub(1)? * self.strides[1])
    }
}

/// `target = keep · target + scale · left · right`, large ones by all threads.
pub fn product(
    target: (&mut [f32], View),
    keep: f32,
    left: (&[f32], View),
    right: (&[f32], View),
    scale: f32,
) {
    let ([rows, columns], depth) = (target.1.size, left.1.size[1]);
    let parallelism = if rows * columns * depth < SMALL {
        Parallelism::None
    } else {
        Parallelism::Rayon(0)
    };
    multiply(target, keep, left, right, scale, parallelism);
}

/// The same by this thread alone.
pub fn product_alone(
    target: (&mut [f32], View),
    keep: f32,
    left: (&[f32], View),
    right: (&[f32], View),
    scale: f32,
) {
    multiply(target, keep, left, right, scale, Parallelism::None);
}

fn multiply(
    (target, into): (&mut [f32], View),
    keep: f32,
    (left, from): (&[f32], View),
    (right, with): (&[f32], View),
    scale: f32,
    parallelism: Parallelism,
) {
    let ([rows, columns], depth) = (into.size, from.size[1]);
    assert_eq!(from.size[0], rows);
    assert_eq!(with.size, [depth, columns]);
    let Some(end) = into.last() else {
        return;
    };
    assert!(end < target.len());
    assert!(from.last().is_none_or(|last| last < left.len()));
    assert!(with.last().is_none_or(|last| last < right.len()));
    // SAFETY: every place the views reach lies within its slice, as just checked, and `target` is borrowed alone.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            target.as_mut_ptr().add(into.start),
            into.strides[1] as isize,
            into.strides[0] as isize,
            keep != 0.0,
            left.as_ptr().add(from.start.min(left.len())),
            from.strides[1] as isize,
            from.strides[0] as isize,
            right.as_ptr().add(with.start.min(right.len())),
            with.strides[1] as isize,
            with.strides[0] as isize,
            keep,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_parts_and_turned_matrices_are_right() {
        let (rows, columns, depth) = (3, 4, 5);
        let left: Vec<f32> = (0..depth * rows).map(|i| i as f32 * 0.5 - 3.0).collect();
        let right: Vec<f32> = (0..depth * 9).map(|i| (i as f32).sin()).collect();
        let mut target = vec![1.0f32; rows * 6];
        product(
            (&mut target, View::part(0, 1, [rows, columns], 6)),
            2.0,
            (&left, View::new(depth, rows).turned()),
            (&right, View::part(0, 3, [depth, columns], 9)),
            0.5,
        );
        for row in 0..rows {
            for column in 0..6 {
                let inside = (1..1 + columns).contains(&column);
                let exact = if inside {
                    let of = |k: usize| left[k * rows + row] * right[k * 9 + 3 + column - 1];
                    2.0 + 0.5 * (0..depth).map(of).sum::<f32>()
                } else {
                    1.0
                };
                assert!((target[row * 6 + column] - exact).abs() < 1e-5);
            }
        }
    }
}
