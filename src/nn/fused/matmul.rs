//! Matrix products over slices: the `gemm` crate behind a bounds-checked interface.

use gemm::Parallelism;

/// Products of fewer multiplications than this run on one thread.
const PARALLEL_THRESHOLD: usize = 1 << 18;

/// A matrix stored in a slice: its first element, its size and its strides.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView {
    /// Index of the first element.
    pub start: usize,
    /// Rows and columns.
    pub size: [usize; 2],
    /// Distance between neighbouring rows, and between neighbouring columns, in elements.
    pub strides: [usize; 2],
}

impl MatrixView {
    /// A row-major matrix that fills its slice.
    pub fn new(rows: usize, columns: usize) -> Self {
        Self {
            start: 0,
            size: [rows, columns],
            strides: [columns, 1],
        }
    }

    /// The block of a given size at `first_row` and `first_column` of a row-major matrix of `width` columns.
    pub fn block(first_row: usize, first_column: usize, size: [usize; 2], width: usize) -> Self {
        Self {
            start: first_row * width + first_column,
            size,
            strides: [width, 1],
        }
    }

    /// The transposed matrix, over the same memory.
    pub fn transposed(self) -> Self {
        let ([rows, columns], [row_stride, column_stride]) = (self.size, self.strides);
        Self {
            start: self.start,
            size: [columns, rows],
            strides: [column_stride, row_stride],
        }
    }

    /// Index of the last element; `None` for an empty matrix.
    fn last(self) -> Option<usize> {
        let [rows, columns] = self.size;
        let down = rows.checked_sub(1)? * self.strides[0];
        Some(self.start + down + columns.checked_sub(1)? * self.strides[1])
    }
}

/// `output = beta · output + alpha · left · right`, on all threads where the product is large.
///
/// # Shapes
/// - left: `[rows, depth]`
/// - right: `[depth, columns]`
/// - output: `[rows, columns]`
pub fn matmul(
    output: (&mut [f32], MatrixView),
    beta: f32,
    left: (&[f32], MatrixView),
    right: (&[f32], MatrixView),
    alpha: f32,
) {
    let ([rows, columns], depth) = (output.1.size, left.1.size[1]);
    let parallelism = if rows * columns * depth < PARALLEL_THRESHOLD {
        Parallelism::None
    } else {
        Parallelism::Rayon(0)
    };
    checked_gemm(output, beta, left, right, alpha, parallelism);
}

/// [`matmul`] on the calling thread alone.
pub fn matmul_single_threaded(
    output: (&mut [f32], MatrixView),
    beta: f32,
    left: (&[f32], MatrixView),
    right: (&[f32], MatrixView),
    alpha: f32,
) {
    checked_gemm(output, beta, left, right, alpha, Parallelism::None);
}

fn checked_gemm(
    (output, output_view): (&mut [f32], MatrixView),
    beta: f32,
    (left, left_view): (&[f32], MatrixView),
    (right, right_view): (&[f32], MatrixView),
    alpha: f32,
    parallelism: Parallelism,
) {
    let ([rows, columns], depth) = (output_view.size, left_view.size[1]);
    assert_eq!(left_view.size[0], rows);
    assert_eq!(right_view.size, [depth, columns]);
    let Some(last) = output_view.last() else {
        return;
    };
    assert!(last < output.len());
    assert!(left_view.last().is_none_or(|last| last < left.len()));
    assert!(right_view.last().is_none_or(|last| last < right.len()));
    // SAFETY: every index the views reach lies within its slice, as just checked, and `output` is borrowed exclusively.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            output.as_mut_ptr().add(output_view.start),
            output_view.strides[1] as isize,
            output_view.strides[0] as isize,
            beta != 0.0,
            left.as_ptr().add(left_view.start.min(left.len())),
            left_view.strides[1] as isize,
            left_view.strides[0] as isize,
            right.as_ptr().add(right_view.start.min(right.len())),
            right_view.strides[1] as isize,
            right_view.strides[0] as isize,
            beta,
            alpha,
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
    fn products_of_blocks_and_transposed_matrices_are_right() {
        let (rows, columns, depth) = (3, 4, 5);
        let left: Vec<f32> = (0..depth * rows).map(|i| i as f32 * 0.5 - 3.0).collect();
        let right: Vec<f32> = (0..depth * 9).map(|i| (i as f32).sin()).collect();
        let mut output = vec![1.0f32; rows * 6];
        matmul(
            (&mut output, MatrixView::block(0, 1, [rows, columns], 6)),
            2.0,
            (&left, MatrixView::new(depth, rows).transposed()),
            (&right, MatrixView::block(0, 3, [depth, columns], 9)),
            0.5,
        );
        for row in 0..rows {
            for column in 0..6 {
                let is_in_block = (1..1 + columns).contains(&column);
                let exact = if is_in_block {
                    let term = |k: usize| left[k * rows + row] * right[k * 9 + 3 + column - 1];
                    2.0 + 0.5 * (0..depth).map(term).sum::<f32>()
                } else {
                    1.0
                };
                assert!((output[row * 6 + column] - exact).abs() < 1e-5);
            }
        }
    }
}
