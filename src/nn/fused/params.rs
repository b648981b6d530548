//! Named groups of kernel inputs, generic over their representation.
//!
//! The same struct holds the tensors passed to a kernel (`T = KernelInput`), the values it reads (`T = &[f32]`) and the
//! gradients it returns (`T = Vec<f32>`).

use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

use super::KernelInput;

/// Parameters of a linear layer `y = x·weight + bias`.
///
/// # Shapes
/// - weight: `[inputs, outputs]`
/// - bias: `[outputs]`
#[derive(Debug, Clone, Copy)]
pub struct LinearParams<T> {
    /// The matrix.
    pub weight: T,
    /// The bias.
    pub bias: T,
}

/// Parameters of a layer norm `y = gamma ⊙ normalise(x) + beta`.
///
/// # Shapes
/// - gamma, beta: `[width]`
#[derive(Debug, Clone, Copy)]
pub struct NormParams<T> {
    /// The scale.
    pub gamma: T,
    /// The shift.
    pub beta: T,
}

impl From<&Linear> for LinearParams<KernelInput> {
    /// A missing bias becomes 0.
    fn from(linear: &Linear) -> Self {
        let weight = linear.weight.val();
        let zeros = || Tensor::zeros([weight.dims()[1]], &weight.device());
        let bias = linear.bias.as_ref().map(|bias| bias.val());
        let bias = bias.unwrap_or_else(zeros);
        Self {
            weight: weight.into(),
            bias: bias.into(),
        }
    }
}

impl From<&LayerNorm> for NormParams<KernelInput> {
    /// A missing shift becomes 0.
    fn from(norm: &LayerNorm) -> Self {
        let gamma = norm.gamma.val();
        let zeros = || Tensor::zeros(gamma.dims(), &gamma.device());
        let beta = norm.beta.as_ref().map(|beta| beta.val());
        let beta = beta.unwrap_or_else(zeros);
        Self {
            gamma: gamma.into(),
            beta: beta.into(),
        }
    }
}
