//! A biaffine classifier that scores every pair of a left and a right vector.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::attention::zero_bias;

/// A biaffine classifier with a feed-forward layer on each side.
///
/// ```text
/// x′ = relu(W_left·dropout(x) + b_left) ⊕ 1
/// y′ = relu(W_right·dropout(y) + b_right) ⊕ 1
/// score_o(x, y) = x′ᵀ·U_o·y′
/// ```
///
/// The appended 1 includes the terms linear in x′ and y′ and the bias in `U_o`.
#[derive(Module, Debug)]
pub struct Biaffine {
    /// Feed-forward layer of the left vectors.
    pub left: Linear,
    /// Feed-forward layer of the right vectors.
    pub right: Linear,
    /// U, with the row and the column of the appended 1 last: `[outputs, hidden + 1, hidden + 1]`.
    pub form: Param<Tensor<3>>,
    dropout: Dropout,
}

impl Biaffine {
    /// New weights as in the program of Yu et al.: Kaiming uniform for the feed-forward layers, Xavier normal for U.
    pub fn new(
        [left, right]: [usize; 2],
        hidden: usize,
        outputs: usize,
        dropout: f64,
        device: &Device,
    ) -> Self {
        let kaiming = Initializer::KaimingUniform {
            gain: 2f64.sqrt(),
            fan_out_only: false,
        };
        let feed_forward = |inputs: usize| zero_bias(inputs, hidden, &kaiming, device);
        let side = hidden + 1;
        // As in PyTorch, both fans of a three-dimensional tensor count its last dimension.
        let fans = (side * side + outputs * side) as f64;
        let form = Initializer::Normal {
            mean: 0.0,
            std: (2.0 / fans).sqrt(),
        };
        Self {
            left: feed_forward(left),
            right: feed_forward(right),
            form: form.init([outputs, side, side], device),
            dropout: DropoutConfig::new(dropout).init(),
        }
    }

    /// Scores all pairs. Pass the side with fewer vectors as `left`: they are multiplied by U first, so that the right ones
    /// need a single product.
    ///
    /// # Shapes
    /// - left: `[batch, lefts, left width]`
    /// - right: `[batch, rights, right width]`
    /// - output: `[batch, outputs · lefts, rights]`
    pub fn forward(&self, left: Tensor<3>, right: Tensor<3>) -> Tensor<3> {
        let [batch, lefts, _] = left.dims();
        let [outputs, side, _] = self.form.dims();
        let device = left.device();
        let left = relu(self.left.forward(self.dropout.forward(left)));
        let ones = Tensor::ones([batch, lefts, 1], &device);
        let left = Tensor::cat(vec![left, ones], 2).reshape([batch * lefts, side]);
        let form = self.form.val().swap_dims(0, 1); // [side, outputs, side]
        let form = form.reshape([side, outputs * side]);
        let products = left
            .matmul(form)
            .reshape([batch, lefts, outputs, side])
            .swap_dims(1, 2)
            .reshape([batch, outputs * lefts, side]);
        let right = relu(self.right.forward(self.dropout.forward(right)));
        let constant = products.clone().narrow(2, side - 1, 1);
        products.narrow(2, 0, side - 1).matmul(right.transpose()) + constant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Distribution;

    #[test]
    fn scores_follow_the_formula() {
        let device = Device::flex();
        let random =
            |shape: [usize; 3]| Tensor::<3>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let (hidden, outputs) = (3, 2);
        let layer = Biaffine::new([4, 5], hidden, outputs, 0.0, &device);
        let (left, right) = (random([2, 3, 4]), random([2, 6, 5]));
        let found = floats(layer.forward(left.clone(), right.clone()));
        let left = floats(relu(layer.left.forward(left)));
        let right = floats(relu(layer.right.forward(right)));
        let form = floats(layer.form.val());
        let extended = |values: &[f32], row: usize, column: usize| {
            if column < hidden {
                values[row * hidden + column]
            } else {
                1.0
            }
        };
        for (index, found) in found.into_iter().enumerate() {
            let (y, x, output) = (index % 6, index / 6 % 3, index / 18 % outputs);
            let batch = index / (18 * outputs);
            let mut expected = 0.0;
            for row in 0..=hidden {
                for column in 0..=hidden {
                    expected += extended(&left, batch * 3 + x, row)
                        * form[(output * (hidden + 1) + row) * (hidden + 1) + column]
                        * extended(&right, batch * 6 + y, column);
                }
            }
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
