//! The number format of an encoder's matrix products and activations in training.

use burn::nn::Linear;
use burn::tensor::module::linear;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

/// A floating-point format of matrix products and of the activations between them. Weights are stored in f32 in any case,
/// and sums of residuals, norms and softmax are computed in f32.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    strum::Display,
    strum::VariantArray,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of f32 and 8 significant bits.
    Bf16,
    /// 16 bits with 11 significant bits and values up to 65504.
    F16,
}

impl Precision {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// Whether a device can compute in this format.
    pub fn is_supported(self, device: &Device) -> bool {
        let dtype = match self {
            Self::F32 => return true,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        };
        device.supports_dtype(dtype)
    }

    /// Converts f32 values to this format.
    pub fn lower<const D: usize>(self, tensor: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => tensor,
            Self::Bf16 => tensor.cast(FloatDType::BF16),
            Self::F16 => tensor.cast(FloatDType::F16),
        }
    }

    /// Converts values in this format to f32.
    pub fn raise<const D: usize>(self, tensor: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => tensor,
            Self::Bf16 | Self::F16 => tensor.cast(FloatDType::F32),
        }
    }

    /// Applies a linear layer in this format, to an input that is in this format.
    pub fn linear<const D: usize>(self, layer: &Linear, input: Tensor<D>) -> Tensor<D> {
        if self == Self::F32 {
            return layer.forward(input);
        }
        let bias = layer.bias.as_ref().map(|bias| self.lower(bias.val()));
        linear(input, self.lower(layer.weight.val()), bias)
    }
}
