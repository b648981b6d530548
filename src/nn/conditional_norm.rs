//! Conditional layer normalisation: scale and shift depend on a second vector.

use burn::module::{Initializer, Module};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

const EPSILON: f32 = 1e-12;

/// Conditional layer normalisation of a vector `x` under a condition `c`.
///
/// `CLN(x, c) = γ(c) ⊙ (x - mean(x)) / √(variance(x) + ε) + β(c)`
///
/// `γ` and `β` are linear in `c`. They start as constants, γ = 1 and β = 0, so that a new layer ignores the condition.
#[derive(Module, Debug)]
pub struct ConditionalNorm {
    /// γ, from the condition to the scale.
    pub gamma: Linear,
    /// β, from the condition to the shift.
    pub beta: Linear,
}

impl ConditionalNorm {
    /// A norm for vectors of `width` values under conditions of `condition` values.
    pub fn new(width: usize, condition: usize, device: &Device) -> Self {
        let constant = |value: f64| Linear {
            weight: Initializer::Zeros.init([condition, width], device),
            bias: Some(Initializer::Constant { value }.init([width], device)),
        };
        Self {
            gamma: constant(1.0),
            beta: constant(0.0),
        }
    }

    /// Normalises every vector under every condition of the same batch element.
    ///
    /// # Shapes
    /// - vectors: `[batch, vectors, width]`
    /// - conditions: `[batch, conditions, condition]`
    /// - output: `[batch, vectors, conditions, width]`
    pub fn forward_pairs(&self, vectors: Tensor<3>, conditions: Tensor<3>) -> Tensor<4> {
        let scale = self.gamma.forward(conditions.clone()).unsqueeze_dim(1);
        let shift = self.beta.forward(conditions).unsqueeze_dim(1);
        normalise(vectors).unsqueeze_dim::<4>(2) * scale + shift
    }

    /// Weights and biases of ⟨w, CLN(x, c)⟩ as a linear function of the condition `c`, for all `vectors` x and `outputs`
    /// w. A linear layer after the norm can thus be computed for many conditions without a CLN(x, c) for each of them.
    ///
    /// # Shapes
    /// - vectors: `[batch, vectors, width]`
    /// - outputs: `[outputs, width]`
    /// - weights: `[batch, outputs · vectors, condition]`
    /// - biases: `[batch, outputs · vectors, 1]`
    pub fn fold_linear(&self, vectors: Tensor<3>, outputs: Tensor<2>) -> (Tensor<3>, Tensor<3>) {
        let [batch, count, width] = vectors.dims();
        let [rows, _] = outputs.dims();
        let outputs = outputs.reshape([1, rows, 1, width]);
        let scaled = (normalise(vectors).unsqueeze_dim::<4>(1) * outputs.clone()).reshape([
            batch,
            rows * count,
            width,
        ]);
        let expanded =
            outputs
                .expand([batch, rows, count, width])
                .reshape([batch, rows * count, width]);
        let weight = scaled.clone().matmul(transposed_weight(&self.gamma))
            + expanded.clone().matmul(transposed_weight(&self.beta));
        let bias = (scaled * bias(&self.gamma) + expanded * bias(&self.beta)).sum_dim(2);
        (weight, bias)
    }
}

/// A linear layer's weight, transposed: `[1, outputs, inputs]`.
fn transposed_weight(linear: &Linear) -> Tensor<3> {
    linear.weight.val().transpose().unsqueeze()
}

/// A linear layer's bias: `[1, 1, outputs]`.
fn bias(linear: &Linear) -> Tensor<3> {
    let bias = linear
        .bias
        .as_ref()
        .expect("`new` creates both layers with a bias");
    bias.val().unsqueeze()
}

/// Zero mean and unit variance over the last dimension.
fn normalise(vectors: Tensor<3>) -> Tensor<3> {
    let mean = vectors.clone().mean_dim(2);
    let centred = vectors - mean;
    let variance = centred.clone().square().mean_dim(2);
    centred / (variance + EPSILON).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::module::Param;
    use burn::tensor::Distribution;

    #[test]
    fn a_folded_linear_layer_gives_the_same_products() {
        let device = Device::flex();
        let random = |rows: usize, columns: usize| {
            let shape = [rows, columns];
            Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device)
        };
        let (width, condition) = (4, 3);
        let mut norm = ConditionalNorm::new(width, condition, &device);
        norm.gamma.weight = Param::from_tensor(random(condition, width));
        norm.beta.weight = Param::from_tensor(random(condition, width));
        norm.beta.bias = Some(Param::from_tensor(random(1, width).reshape([width])));
        let vectors = random(6, width).reshape([2, 3, width]);
        let conditions = random(10, condition).reshape([2, 5, condition]);
        let outputs = random(2, width);

        let (weight, bias) = norm.fold_linear(vectors.clone(), outputs.clone());
        let folded = weight.matmul(conditions.clone().transpose()) + bias; // [2, 2 · 3, 5]
        let all = norm.forward_pairs(vectors, conditions); // [2, 3, 5, width]
        let products = all
            .reshape([30, width])
            .matmul(outputs.transpose())
            .reshape([2, 3, 5, 2])
            .permute([0, 3, 1, 2]);
        for (one, other) in floats(folded).iter().zip(floats(products)) {
            assert!((one - other).abs() < 1e-4, "{one} {other}");
        }
    }
}
