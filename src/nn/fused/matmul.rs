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

    /// Index of the last element; `None` for an empty matrix. `usize::MAX` stands for all indices that are larger.
    fn last(self) -> Option<usize> {
        let [rows, columns] = self.size;
        let down = rows.checked_sub(1)?.saturating_mul(self.strides[0]);
        let right = columns.checked_sub(1)?.saturating_mul(self.strides[1]);
        Some(self.start.saturating_add(down).saturating_add(right))
    }

    /// True if no two elements have the same index, as those of a matrix that is written. The indices have to be those of a
    /// slice.
    fn has_distinct_elements(self) -> bool {
        let [rows, columns] = self.size;
        let mut sides = [(self.strides[0], rows), (self.strides[1], columns)];
        sides.sort_unstable();
        let [(near, count), (far, other)] = sides;
        (count < 2 || near > 0) && (other < 2 || far > (count - 1) * near)
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
    assert!(last < output.len() && output_view.has_distinct_elements());
    assert!(left_view.last().is_none_or(|last| last < left.len()));
    assert!(right_view.last().is_none_or(|last| last < right.len()));
    // SAFETY: every index the views reach lies within its slice, as just checked; `output` is borrowed exclusively, and no two
    // of its elements are the same one, which threads would write at the same time.
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

    /// The product by its definition, in f64.
    fn expected(
        before: &[f32],
        output: MatrixView,
        left: (&[f32], MatrixView),
        right: (&[f32], MatrixView),
    ) -> Vec<f32> {
        let at = |view: MatrixView, row: usize, column: usize| {
            view.start + row * view.strides[0] + column * view.strides[1]
        };
        let mut all = before.to_vec();
        for row in 0..output.size[0] {
            for column in 0..output.size[1] {
                let term = |k: usize| {
                    f64::from(left.0[at(left.1, row, k)])
                        * f64::from(right.0[at(right.1, k, column)])
                };
                let sum: f64 = (0..left.1.size[1]).map(term).sum();
                let index = at(output, row, column);
                all[index] = (0.5 * f64::from(before[index]) + 2.0 * sum) as f32;
            }
        }
        all
    }

    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 7 + seed * 3) % 11) as f32 - 5.0)
            .collect()
    }

    /// All small sizes, row-major and transposed, in slices that end with the last element: nothing else is read or written.
    #[test]
    fn all_small_products_stay_within_their_slices() {
        let sizes = [0, 1, 2, 3, 7, 17];
        // A matrix in a slice whose first and last elements belong to it or, with a margin, do not.
        let view = |rows: usize, columns: usize, margin: usize, is_transposed: bool| {
            let size = if is_transposed {
                [columns, rows]
            } else {
                [rows, columns]
            };
            let view = MatrixView::block(0, margin, size, size[1] + 2 * margin);
            let count = view.last().map_or(margin, |last| last + 1 + margin);
            (
                if is_transposed {
                    view.transposed()
                } else {
                    view
                },
                count,
            )
        };
        for (rows, columns, depth) in triples(&sizes) {
            for flags in 0..16_usize {
                let margin = flags >> 3;
                let (left_view, count) = view(rows, depth, margin, flags & 1 > 0);
                let left = values(count, 1);
                let (right_view, count) = view(depth, columns, margin, flags & 2 > 0);
                let right = values(count, 2);
                let (output_view, count) = view(rows, columns, margin, flags & 4 > 0);
                let before = values(count, 3);
                let (left, right) = ((&left[..], left_view), (&right[..], right_view));
                let expected = expected(&before, output_view, left, right);
                let mut output = before.clone();
                matmul((&mut output, output_view), 0.5, left, right, 2.0);
                assert_eq!(output, expected, "{rows} x {depth} x {columns}, {flags}");
            }
        }
    }

    fn triples(sizes: &[usize]) -> impl Iterator<Item = (usize, usize, usize)> {
        let pairs = sizes
            .iter()
            .flat_map(|one| sizes.iter().map(move |two| (*one, *two)));
        pairs.flat_map(|(one, two)| sizes.iter().map(move |three| (one, two, *three)))
    }

    /// Views that leave their slices, also by an index that overflows, and outputs of which two elements are one.
    #[test]
    fn views_that_do_not_fit_are_refused() {
        let fits = MatrixView::new(4, 4);
        let strides = |rows: usize, columns: usize| MatrixView {
            strides: [rows, columns],
            ..fits
        };
        let refused = [
            MatrixView { start: 1, ..fits },
            MatrixView {
                start: usize::MAX,
                ..fits
            },
            strides(5, 1),
            strides(4, 2),
            strides(usize::MAX, 1),
            strides(1 << 63, 1),
            strides(usize::MAX / 3 + 1, 1),
            strides(1, usize::MAX / 2 + 1),
        ];
        let shared = [
            strides(0, 1),
            strides(1, 0),
            strides(0, 0),
            strides(1, 1),
            strides(3, 1),
            strides(2, 2),
        ];
        let multiplies = |output: MatrixView, left: MatrixView, right: MatrixView| {
            let data = [1.0f32; 16];
            crate::process::catch(|| {
                let mut written = [1.0f32; 16];
                matmul(
                    (&mut written, output),
                    0.0,
                    (&data, left),
                    (&data, right),
                    1.0,
                );
            })
            .is_ok()
        };
        assert!(multiplies(fits, fits, fits) && multiplies(fits.transposed(), fits, fits));
        for view in refused {
            assert!(!multiplies(view, fits, fits), "{view:?} as output");
            assert!(!multiplies(fits, view, fits), "{view:?} on the left");
            assert!(!multiplies(fits, fits, view), "{view:?} on the right");
        }
        for view in shared {
            assert!(!multiplies(view, fits, fits), "{view:?} as output");
            assert!(multiplies(fits, view, fits), "{view:?} is only read");
        }
        let other = MatrixView::new(4, 3);
        assert!(!multiplies(fits, other, fits) && !multiplies(other, fits, fits));
    }

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
