//! Reading tensors back from a device as plain values, in one transfer each.

use std::cell::Cell;

use burn::tensor::{Int, Tensor};

thread_local! {
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// The number of times this thread has waited for a device to return values. Each such read makes a GPU finish all
/// queued work.
pub fn reads() -> usize {
    READS.get()
}

/// All values of a float tensor in row-major order.
pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<f32>()
        .try_into_vec()
        .expect("converted to f32")
}

/// All values of an integer tensor in row-major order.
pub fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<i32>()
        .try_into_vec()
        .expect("converted to i32")
}

/// The index of the largest value of a row; the first of equal maxima, 0 for an empty row.
pub fn argmax(row: &[f32]) -> usize {
    (1..row.len()).fold(
        0,
        |best, index| if row[index] > row[best] { index } else { best },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argmax_is_the_first_of_equal_maxima() {
        assert_eq!(argmax(&[]), 0);
        assert_eq!(argmax(&[-1.0]), 0);
        assert_eq!(argmax(&[0.5, 2.0, -3.0, 2.0]), 1);
    }
}
