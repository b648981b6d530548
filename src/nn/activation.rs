//! Activation functions of feed-forward networks, with exact gradients on all devices.

use burn::tensor::Tensor;
use burn::tensor::activation;
use serde::{Deserialize, Serialize};

use crate::device;

/// Activation of a feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Exact GELU.
    Gelu,
    /// GELU with the tanh approximation.
    GeluNew,
    /// Rectified linear unit.
    Relu,
    /// Hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Applies the activation by Burn's operations.
    ///
    /// # Shapes
    /// - input, output: any
    pub fn forward<const D: usize>(self, input: Tensor<D>) -> Tensor<D> {
        match self {
            Activation::Gelu => gelu(input),
            Activation::GeluNew => activation::gelu_approximate(input),
            Activation::Relu => activation::relu(input),
            Activation::Tanh => activation::tanh(input),
        }
    }
}

/// GELU with its exact gradient, `gelu(x) = x Φ(x)` with `Φ(x) = (1 + erf(x / √2)) / 2`.
///
/// On all devices but flex, Burn's gradient of GELU is that of the tanh approximation, with an error of up to 5e-4. There
/// GELU is composed of operations which autodiff differentiates exactly.
///
/// # Shapes
/// - input, output: any
pub fn gelu<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    let device = input.device();
    if !device.is_autodiff() || device.inner() == device::cpu() {
        return activation::gelu(input);
    }
    let cumulative = (input.clone() * std::f32::consts::FRAC_1_SQRT_2).erf() * 0.5 + 0.5;
    input * cumulative
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;

    #[test]
    fn the_gradient_is_exact_on_every_backend() {
        for device in crate::device::cpu_devices() {
            let device = device.autodiff();
            let values = [-3.0, -2.0, -0.7, 0.0, 0.5, 1.9, 2.6];
            let input = Tensor::<1>::from_floats(values, &device).require_grad();
            let gradients = gelu(input.clone()).sum().backward();
            let found = floats(input.grad(&gradients).unwrap());
            // Φ(x) + x φ(x)
            let expected = [
                -0.011_946, -0.085_232, 0.023_386, 0.5, 0.867_495, 1.095_953, 1.030_655,
            ];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 2e-5, "{found} {expected}");
            }
        }
    }
}
