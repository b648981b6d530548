//! A biaffine classifier of pairs: every left vector with every right one.
//!
//! score_o(x, y) = x′ᵀ U_o y′ + W_o (x′ ⊕ y′) + b_o with x′ and y′ feed-forward images of x and y. A constant 1
//! appended to both images carries the linear part and the bias inside U.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

/// Two feed-forward layers and the form between them.
#[derive(Module, Debug)]
pub struct Biaffine {
    /// Left vector to its image.
    pub left: Linear,
    /// Right vector to its image.
    pub right: Linear,
    /// The form, the constants' row and column last: [outputs, hidden + 1, hidden + 1].
    pub form: Param<Tensor<3>>,
    dropout: Dropout,
}

impl Biaffine {
    /// Weights as in the programs of Yu et al. and those after them: Kaiming for the rectifiers, Xavier for the form.
    pub fn new(
        [left, right]: [usize; 2],
        hidden: usize,
        outputs: usize,
        dropout: f64,
        device: &Device,
    ) -> Self {
        let rectified = |from: usize| {
            let weights = Initializer::KaimingUniform {
                gain: 2f64.sqrt(),
                fan_out_only: false,
            };
            let mut linear = LinearConfig::new(from, hidden)
                .with_initializer(weights)
                .init(device);
            linear.bias = Some(Param::from_tensor(Tensor::zeros([hidden], device)));
            linear
        };
        let side = hidden + 1;
        // PyTorch's fans of a three-dimensional tensor: both count the last side.
        let fans = (side * side + outputs * side) as f64;
        let form = Initializer::Normal {
            mean: 0.0,
            std: (2.0 / fans).sqrt(),
        };
        Self {
            left: rectified(left),
            right: rectified(right),
            form: form.init([outputs, side, side], device),
            dropout: DropoutConfig::new(dropout).init(),
        }
    }

    /// [batch, lefts, ·] and [batch, rights, ·] to [batch, outputs · lefts, rights]. The few left vectors are
    /// multiplied into the form first, so that the many right ones take a single product.
    pub fn forward(&self, left: Tensor<3>, right: Tensor<3>) -> Tensor<3> {
        let [batch, lefts, _] = left.dims();
        let [outputs, side, _] = self.form.dims();
        let device = left.device();
        let left = relu(self.left.forward(self.dropout.forward(left)));
        let ones = Tensor::ones([batch, lefts, 1], &device);
        let left = Tensor::cat(vec![left, ones], 2).reshape([batch * lefts, side]);
        let form = self.form.val().swap_dims(0, 1); // [side, outputs, side]
        let form = form.reshape([side, outputs * side]);
        let mixed = left
            .matmul(form)
            .reshape([batch, lefts, outputs, side])
            .swap_dims(1, 2)
            .reshape([batch, outputs * lefts, side]);
        let right = relu(self.right.forward(self.dropout.forward(right)));
        let constant = mixed.clone().narrow(2, side - 1, 1);
        mixed.narrow(2, 0, side - 1).matmul(right.transpose()) + constant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Distribution;

    #[test]
    fn scores_are_the_form_between_images_with_a_one() {
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
        let image = |values: &[f32], row: usize, place: usize| {
            if place < hidden {
                values[row * hidden + place]
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
                    expected += image(&left, batch * 3 + x, row)
                        * form[(output * (hidden + 1) + row) * (hidden + 1) + column]
                        * image(&right, batch * 6 + y, column);
                }
            }
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
