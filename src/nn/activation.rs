//! Activations whose gradient Burn only approximates.

use burn::tensor::activation;
use burn::tensor::{Device, Tensor};

/// The exact GELU with its exact gradient. Burn's gradient is that of the tanh approximation on all devices but
/// flex, which is off by up to 5e-4; there the formula is written out, and each part has its own gradient.
pub fn gelu<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    let device = input.device();
    if !device.is_autodiff() || device.inner() == Device::flex() {
        return activation::gelu(input);
    }
    let halves = (input.clone() * std::f32::consts::FRAC_1_SQRT_2).erf() * 0.5 + 0.5;
    input * halves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;

    #[test]
    fn the_gradient_is_exact_everywhere() {
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
