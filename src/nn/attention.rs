//! Multi-head attention between two lists of vectors.

use burn::module::{Initializer, Module};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};

/// Queries look at keys and take values.
#[derive(Module, Debug)]
pub struct Attention {
    /// To queries.
    pub query: Linear,
    /// To keys.
    pub key: Linear,
    /// To values.
    pub value: Linear,
    /// What the heads found, mixed.
    pub output: Linear,
    dropout: Dropout,
    #[module(skip)]
    heads: usize,
}

/// Keys and values of what is looked at, each [batch, heads, places, width of a head].
#[derive(Debug, Clone)]
pub struct KeysValues {
    keys: Tensor<4>,
    values: Tensor<4>,
}

impl Attention {
    /// Fresh weights: the three inputs evenly as PyTorch draws them, its three matrices being one; the output as told.
    pub fn new(
        width: usize,
        heads: usize,
        dropout: f64,
        output: &Initializer,
        device: &Device,
    ) -> Self {
        let bound = (6.0 / (4 * width) as f64).sqrt();
        let even = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        let linear = |weights: &Initializer| zero_bias(width, width, weights, device);
        Self {
            query: linear(&even),
            key: linear(&even),
            value: linear(&even),
            output: linear(output),
            dropout: DropoutConfig::new(dropout).init(),
            heads,
        }
    }

    /// [batch, places, width] as [batch, heads, places, width of a head].
    fn split(&self, tensor: Tensor<3>) -> Tensor<4> {
        let [batch, places, width] = tensor.dims();
        tensor
            .reshape([batch, places, self.heads, width / self.heads])
            .swap_dims(1, 2)
    }

    /// What is looked at, ready for any number of queries.
    pub fn look(&self, keys: Tensor<3>, values: Tensor<3>) -> KeysValues {
        KeysValues {
            keys: self.split(self.key.forward(keys)),
            values: self.split(self.value.forward(values)),
        }
    }

    /// [batch, queries, width]; `bias`, [batch, 1, 1, places], is `MASKED` on padding.
    pub fn forward(
        &self,
        queries: Tensor<3>,
        keys_values: &KeysValues,
        bias: Option<&Tensor<4>>,
    ) -> Tensor<3> {
        let [batch, count, width] = queries.dims();
        let depth = (width / self.heads) as f32;
        let queries = self.split(self.query.forward(queries) / depth.sqrt());
        let mut scores = queries.matmul(keys_values.keys.clone().transpose());
        if let Some(bias) = bias {
            scores = scores + bias.clone();
        }
        let weights = self.dropout.forward(softmax(scores, 3));
        let mixed = weights
            .matmul(keys_values.values.clone())
            .swap_dims(1, 2)
            .reshape([batch, count, width]);
        self.output.forward(mixed)
    }
}

/// A linear layer whose biases start at 0.
pub fn zero_bias(from: usize, to: usize, weights: &Initializer, device: &Device) -> Linear {
    let mut linear = LinearConfig::new(from, to)
        .with_initializer(weights.clone())
        .init(device);
    linear.bias = Some(burn::module::Param::from_tensor(Tensor::zeros(
        [to],
        device,
    )));
    linear
}
