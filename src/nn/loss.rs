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
    }

    #[test]
    fn cross_entropy_without_rows_is_zero() {
        let logits = Tensor::<2>::zeros([0, 3], &Device::flex());
        assert_eq!(floats(cross_entropy(logits, &[])), [0.0]);
    }
}
