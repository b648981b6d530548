//! Layer normalisation whose scale and shift depend on a second vector.
//!
//! CLN(x, c) = γ(c) ⊙ (x − mean) / √(variance + ε) + β(c), with γ and β linear in c. Both start as if there were no
//! condition: γ = 1, β = 0.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};

const EPSILON: f32 = 1e-12;

/// The two linear maps of a conditional layer norm.
#[derive(Module, Debug)]
pub struct ConditionalNorm {
    /// Condition to scale.
    pub gamma: Linear,
    /// Condition to shift.
    pub beta: Linear,
}

impl ConditionalNorm {
    /// A norm of vectors of `width` numbers under conditions of `condition` numbers.
    pub fn new(width: usize, condition: usize, device: &Device) -> Self {
        let constant = |value: f32| Linear {
            weight: Param::from_tensor(Tensor::zeros([condition, width], device)),
            bias: Some(Param::from_tensor(Tensor::full([width], value, device))),
        };
        Self {
            gamma: constant(1.0),
            beta: constant(0.0),
        }
    }

    /// Every vector under every condition of its sentence: [batch, vectors, width] and [batch, conditions, width]
    /// to [batch, vectors, conditions, width].
    pub fn pairs(&self, vectors: Tensor<3>, conditions: Tensor<3>) -> Tensor<4> {
        let scale = self.gamma.forward(conditions.clone()).unsqueeze_dim(1);
        let shift = self.beta.forward(conditions).unsqueeze_dim(1);
        normalise(vectors).unsqueeze_dim::<4>(2) * scale + shift
    }

    /// ⟨w, CLN(x, c)⟩ for many conditions c without a CLN(x, c) for each of them. It is linear in c, so this is its
    /// weight and bias: for `vectors` x, [batch, vectors, width], and `outputs` w, [outputs, width],
    /// weights [batch, outputs · vectors, condition] and biases [batch, outputs · vectors, 1].
    pub fn folded(&self, vectors: Tensor<3>, outputs: Tensor<2>) -> (Tensor<3>, Tensor<3>) {
        let [batch, count, width] = vectors.dims();
        let [rows, _] = outputs.dims();
        let outputs = outputs.reshape([1, rows, 1, width]);
        let scaled = (normalise(vectors).unsqueeze_dim::<4>(1) * outputs.clone()).reshape([
            batch,
            rows * count,
            width,
        ]);
        let plain =
            outputs
                .expand([batch, rows, count, width])
                .reshape([batch, rows * count, width]);
        let weight =
            scaled.clone().matmul(columns(&self.gamma)) + plain.clone().matmul(columns(&self.beta));
        let bias = (scaled * bias(&self.gamma) + plain * bias(&self.beta)).sum_dim(2);
        (weight, bias)
    }
}

/// A linear layer's weight as [1, output, input].
fn columns(linear: &Linear) -> Tensor<3> {
    linear.weight.val().transpose().unsqueeze()
}

/// A linear layer's bias as [1, 1, output].
fn bias(linear: &Linear) -> Tensor<3> {
    let bias = linear.bias.as_ref().expect("made with a bias above");
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
    use burn::tensor::Distribution;

    #[test]
    fn folding_gives_the_same_products() {
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

        let (weight, bias) = norm.folded(vectors.clone(), outputs.clone());
        let folded = weight.matmul(conditions.clone().transpose()) + bias; // [2, 2 · 3, 5]
        let all = norm.pairs(vectors, conditions); // [2, 3, 5, width]
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
