//! Multi-head attention between two sequences of vectors.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};

/// Multi-head attention whose keys and values can be projected once and used with many queries.
///
/// ```text
/// head_h = dropout(softmax(Q_h·K_hᵀ / √d + bias))·V_h,   d = width / heads
/// output = (head_1 ⊕ … ⊕ head_H)·Wo + bo
/// ```
///
/// `Q`, `K` and `V` are linear projections of queries, keys and values; index `h` selects `d` of their columns.
#[derive(Module, Debug)]
pub struct Attention {
    /// Projection of the queries.
    pub query: Linear,
    /// Projection of the keys.
    pub key: Linear,
    /// Projection of the values.
    pub value: Linear,
    /// Projection of the concatenated heads.
    pub output: Linear,
    dropout: Dropout,
    #[module(skip)]
    heads: usize,
}

/// Projected keys and values, each `[batch, heads, positions, width / heads]`.
#[derive(Debug, Clone)]
pub struct KeysValues {
    keys: Tensor<4>,
    values: Tensor<4>,
}

impl Attention {
    /// New weights. The projections of queries, keys and values are drawn from the Xavier uniform distribution of one
    /// `[width, 3 · width]` matrix, as in PyTorch's `MultiheadAttention`; the output projection from `output`. Biases
    /// start at 0.
    pub fn new(
        width: usize,
        heads: usize,
        dropout: f64,
        output: &Initializer,
        device: &Device,
    ) -> Self {
        let bound = (6.0 / (4 * width) as f64).sqrt();
        let uniform = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        let linear = |weights: &Initializer| zero_bias(width, width, weights, device);
        Self {
            query: linear(&uniform),
            key: linear(&uniform),
            value: linear(&uniform),
            output: linear(output),
            dropout: DropoutConfig::new(dropout).init(),
            heads,
        }
    }

    /// `[batch, positions, width]` to `[batch, heads, positions, width / heads]`.
    fn split_heads(&self, tensor: Tensor<3>) -> Tensor<4> {
        let [batch, positions, width] = tensor.dims();
        tensor
            .reshape([batch, positions, self.heads, width / self.heads])
            .swap_dims(1, 2)
    }

    /// Projects keys and values, ready for any number of calls of [`forward`](Self::forward).
    ///
    /// # Shapes
    /// - keys, values: `[batch, positions, width]`
    pub fn project_keys_values(&self, keys: Tensor<3>, values: Tensor<3>) -> KeysValues {
        KeysValues {
            keys: self.split_heads(self.key.forward(keys)),
            values: self.split_heads(self.value.forward(values)),
        }
    }

    /// Attends from each query to all positions. `bias` is added to the scores: see
    /// [`attention_bias`](super::mask::attention_bias).
    ///
    /// # Shapes
    /// - queries: `[batch, queries, width]`
    /// - bias: `[batch, 1, 1, positions]`
    /// - output: `[batch, queries, width]`
    pub fn forward(
        &self,
        queries: Tensor<3>,
        keys_values: &KeysValues,
        bias: Option<&Tensor<4>>,
    ) -> Tensor<3> {
        let [batch, count, width] = queries.dims();
        let head_width = (width / self.heads) as f32;
        let queries = self.split_heads(self.query.forward(queries) / head_width.sqrt());
        let mut scores = queries.matmul(keys_values.keys.clone().transpose());
        if let Some(bias) = bias {
            scores = scores + bias.clone();
        }
        let probabilities = self.dropout.forward(softmax(scores, 3));
        let context = probabilities
            .matmul(keys_values.values.clone())
            .swap_dims(1, 2)
            .reshape([batch, count, width]);
        self.output.forward(context)
    }
}

/// A linear layer with weights from an initializer and a bias of 0.
pub fn zero_bias(inputs: usize, outputs: usize, weights: &Initializer, device: &Device) -> Linear {
    let mut linear = LinearConfig::new(inputs, outputs)
        .with_initializer(weights.clone())
        .init(device);
    linear.bias = Some(Param::from_tensor(Tensor::zeros([outputs], device)));
    linear
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use crate::nn::mask::attention_bias;

    /// One head, all projections the identity.
    fn identity(width: usize, device: &Device) -> Attention {
        let mut attention = Attention::new(width, 1, 0.0, &Initializer::Zeros, device);
        let layers = [
            &mut attention.query,
            &mut attention.key,
            &mut attention.value,
            &mut attention.output,
        ];
        for layer in layers {
            layer.weight = Param::from_tensor(Tensor::eye(width, device));
        }
        attention
    }

    #[test]
    fn values_are_averaged_by_the_softmax_of_scores_without_padding() {
        let device = Device::flex();
        let attention = identity(1, &device);
        let keys = Tensor::<3>::from_floats([[[0.0], [2f32.ln()], [9.0]]], &device);
        let values = Tensor::<3>::from_floats([[[3.0], [6.0], [100.0]]], &device);
        let queries = Tensor::<3>::from_floats([[[0.0], [1.0]]], &device);
        let keys_values = attention.project_keys_values(keys, values);
        let bias = attention_bias(&[2], 3, &device);
        let output = floats(attention.forward(queries, &keys_values, bias.as_ref()));
        // Probabilities 1/2, 1/2 and 1/3, 2/3; the third position is padding.
        for (output, expected) in output.iter().zip([4.5, 5.0]) {
            assert!((output - expected).abs() < 1e-5, "{output} {expected}");
        }
    }
}
