//! Loss functions that more than one head uses.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Mean cross-entropy of logits with the gold class of each row; 0 without rows.
///
/// `loss = -mean over rows of log softmax(logits)[gold]`
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - gold: `[rows]`
/// - output: `[1]`
pub fn cross_entropy(logits: Tensor<2>, gold: &[i32]) -> Tensor<1> {
    if gold.is_empty() {
        return logits.sum() * 0.0;
    }
    let gold = Tensor::<1, Int>::from_ints(gold, &logits.device());
    log_softmax(logits, 1)
        .gather(1, gold.unsqueeze_dim(1))
        .mean()
        .neg()
}

/// Cross-entropy of logits with the gold class of each row, times the row's weight, summed over the rows.
///
/// `loss = -Σ over rows of weight · log softmax(logits)[gold]`
///
/// # Shapes
/// - logits: `[rows, classes]`
/// - gold, weights: `[rows]`
/// - output: `[1]`
pub fn weighted_cross_entropy(logits: Tensor<2>, gold: &[i32], weights: &[f32]) -> Tensor<1> {
    let device = logits.device();
    let gold = Tensor::<1, Int>::from_ints(gold, &device);
    let weights = Tensor::<1>::from_floats(weights, &device);
    let log_probabilities = log_softmax(logits, 1).gather(1, gold.unsqueeze_dim(1));
    (log_probabilities * weights.unsqueeze_dim(1)).sum().neg()
}

/// Mean cross-entropy of logits with the gold class of each row, without the rows past the end of `gold`, which are padding;
/// 0 if all are.
///
/// # Shapes
/// - logits: `[rows and padding, classes]`
/// - gold: `[rows]`
/// - output: `[1]`
pub fn padded_cross_entropy(logits: Tensor<2>, gold: &[i32]) -> Tensor<1> {
    let [rows, _] = logits.dims();
    let mut weights = vec![1.0 / gold.len().max(1) as f32; gold.len()];
    weights.resize(rows, 0.0);
    let mut gold = gold.to_vec();
    gold.resize(rows, 0);
    weighted_cross_entropy(logits, &gold, &weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Device;

    #[test]
    fn cross_entropy_is_the_mean_over_rows() {
        let device = Device::flex();
        let logits = Tensor::<2>::from_floats([[0.0, 3f32.ln()], [5.0, 5.0]], &device);
        let loss = floats(cross_entropy(logits, &[0, 1]));
        let expected = (4f32.ln() + 2f32.ln()) / 2.0;
        assert!((loss[0] - expected).abs() < 1e-6, "{loss:?} {expected}");
        let padded = [[0.0, 3f32.ln()], [5.0, 5.0], [7.0, 1.0]];
        let padded = Tensor::<2>::from_floats(padded, &device);
        let loss = floats(padded_cross_entropy(padded.clone(), &[0, 1]));
        assert!((loss[0] - expected).abs() < 1e-6, "{loss:?} {expected}");
        assert_eq!(floats(padded_cross_entropy(padded, &[])), [0.0]);
    }

    #[test]
    fn cross_entropy_without_rows_is_zero() {
        let logits = Tensor::<2>::zeros([0, 3], &Device::flex());
        assert_eq!(floats(cross_entropy(logits, &[])), [0.0]);
    }
}
