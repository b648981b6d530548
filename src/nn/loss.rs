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
