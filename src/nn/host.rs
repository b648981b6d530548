//! Reading tensors back to plain numbers, in one transfer each.

use std::cell::Cell;

use burn::tensor::{Int, Tensor};

thread_local! {
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread has waited for numbers from a device. On a GPU each time empties its queue of work.
pub fn reads() -> usize {
    READS.get()
}

/// All numbers of a tensor, row by row.
pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<f32>()
        .try_into_vec()
        .expect("converted to f32")
}

/// All integers of a tensor, row by row.
pub fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i32> {
    READS.set(READS.get() + 1);
    tensor
        .into_data()
        .convert::<i32>()
        .try_into_vec()
        .expect("converted to i32")
}

/// The number of the highest of `kinds` scores for each real word of [batch, words, kinds] scores.
pub fn best(scores: &[f32], words: usize, kinds: usize, lengths: &[usize]) -> Vec<Vec<i32>> {
    lengths
        .iter()
        .enumerate()
        .map(|(sentence, length)| {
            (0..*length)
                .map(|word| {
                    let at = (sentence * words + word) * kinds;
                    let row = &scores[at..at + kinds];
                    // The first of equals, as everywhere else.
                    (1..kinds).fold(
                        0,
                        |best, kind| if row[kind] > row[best] { kind } else { best },
                    ) as i32
                })
                .collect()
        })
        .collect()
}
