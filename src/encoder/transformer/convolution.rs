//! The convolution over pieces beside the first layer of DeBERTa-v2-xlarge.

use burn::module::Module;
use burn::nn::conv::Conv1d;
use burn::nn::{Dropout, LayerNorm};
use burn::tensor::{Tensor, TensorData};

use super::config::Activation;
use crate::encoder::batching::starts;
use crate::nn::mask::{float_mask, has_padding};
use crate::nn::rows::select_rows;

/// A convolution over the input of the first layer, which is added to its output:
/// `LayerNorm(output + activation(dropout(convolution(input))))`.
#[derive(Module, Debug)]
pub(super) struct Convolution {
    pub(super) convolution: Conv1d,
    pub(super) norm: LayerNorm,
    pub(super) dropout: Dropout,
    #[module(skip)]
    pub(super) activation: Activation,
}

impl Convolution {
    /// Applies the convolution to padded rows of the given lengths.
    ///
    /// # Shapes
    /// - input, output: `[rows, pieces, width]`
    pub(super) fn forward(
        &self,
        input: Tensor<3>,
        output: Tensor<3>,
        lengths: &[usize],
    ) -> Tensor<3> {
        let [rows, pieces, _] = input.dims();
        let input = if has_padding(lengths, pieces) {
            let mask = float_mask(lengths, pieces, &input.device());
            input * mask.reshape([rows, pieces, 1])
        } else {
            input
        };
        self.join(self.convolve(input), output)
    }

    /// Applies the convolution to packed rows of the given lengths.
    ///
    /// # Shapes
    /// - input, output: `[pieces of all rows, width]`
    pub(super) fn forward_packed(
        &self,
        input: Tensor<2>,
        output: Tensor<2>,
        lengths: &[usize],
    ) -> Tensor<2> {
        let [pieces, width] = input.dims();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let zeros = Tensor::from_data(TensorData::zeros::<f32, _>([1, width]), &input.device());
        let rows = || starts(lengths).into_iter().zip(lengths).enumerate();
        // Padding is the row of zeros after the last piece.
        let unpacked = rows().flat_map(|(_, (start, length))| {
            (0..longest).map(move |i| if i < *length { start + i } else { pieces })
        });
        let padded = select_rows(Tensor::cat(vec![input, zeros], 0), unpacked.collect());
        let convolved = self.convolve(padded.reshape([lengths.len(), longest, width]));
        let packed = rows().flat_map(|(row, (_, length))| row * longest..row * longest + length);
        let convolved = convolved.reshape([lengths.len() * longest, width]);
        self.join(select_rows(convolved, packed.collect()), output)
    }

    fn convolve(&self, input: Tensor<3>) -> Tensor<3> {
        let channels_first = input.swap_dims(1, 2);
        self.convolution.forward(channels_first).swap_dims(1, 2)
    }

    fn join<const D: usize>(&self, convolved: Tensor<D>, output: Tensor<D>) -> Tensor<D> {
        let convolved = self.activation.forward(self.dropout.forward(convolved));
        self.norm.forward(output + convolved)
    }
}
