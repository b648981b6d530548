//! 3-D convolutions over (type, start, end), which combine the offset scores of neighbouring spans and of all types.

use std::sync::Arc;

use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor};

use super::config::Config;
use crate::nn::activation::gelu;
use crate::nn::fused;
use crate::nn::mask::{float_mask, has_padding};

/// Dilated convolutions whose outputs are concatenated and combined by a linear layer.
#[derive(Module, Debug)]
pub struct Convolutions {
    /// A linear layer over the labels of each cell before the first convolution.
    pub pointwise: Option<Linear>,
    /// Convolutions with dilation 1, 2, ...
    pub layers: Vec<Conv3d>,
    /// From the outputs of all convolutions to scores.
    pub predictor: Linear,
    dropout: Dropout,
    #[module(skip)]
    chained: bool,
    #[module(skip)]
    residual: bool,
}

impl Convolutions {
    pub(super) fn new(config: &Config, labels: usize, device: &Device) -> Self {
        let layer = |dilation: usize| {
            let groups = if config.depthwise { labels } else { 1 };
            Conv3dConfig::new([labels, labels], [3, 3, 3])
                .with_dilation([dilation; 3])
                .with_padding(PaddingConfig3d::Explicit(dilation, dilation, dilation))
                .with_groups(groups)
                .with_initializer(Initializer::KaimingUniform {
                    gain: 1.0 / 3f64.sqrt(),
                    fan_out_only: false,
                })
                .init(device)
        };
        Self {
            pointwise: config
                .pointwise
                .then(|| LinearConfig::new(labels, labels).init(device)),
            layers: (1..=config.convolutions).map(layer).collect(),
            predictor: LinearConfig::new(config.convolutions * labels, labels).init(device),
            dropout: DropoutConfig::new(config.convolution_dropout).init(),
            chained: config.chained,
            residual: config.residual,
        }
    }

    /// [batch, labels, types, words, words] to the same shape. With `lengths`, the number of words of each sentence,
    /// cells past the end of a sentence are set to zero before each convolution, which would otherwise read padding.
    pub fn forward(&self, scores: Tensor<5>, lengths: Option<&[usize]>) -> Tensor<5> {
        let mut input = self.drop_planes(scores.clone());
        if let Some(pointwise) = &self.pointwise {
            input = gelu(by_label(pointwise, input));
        }
        let masked = MaskedConvolution::new(lengths, &input);
        let mut outputs = Vec::new();
        for layer in &self.layers {
            let output = masked.run(layer, input.clone());
            if self.chained {
                input = output.clone();
            }
            outputs.push(output);
        }
        let mixed = by_label(&self.predictor, Tensor::cat(outputs, 1));
        if self.residual { scores + mixed } else { mixed }
    }

    /// Dropout of whole planes: one random draw per sentence and label.
    fn drop_planes(&self, scores: Tensor<5>) -> Tensor<5> {
        if self.dropout.prob == 0.0 || !scores.device().is_autodiff() {
            return scores;
        }
        let [batch, labels, _, _, _] = scores.dims();
        let kept = Tensor::ones([batch, labels, 1, 1, 1], &scores.device());
        scores * self.dropout.forward(kept)
    }
}

/// Runs convolution layers on a batch with padding cells set to zero: as one CPU kernel, or by Burn's operations.
struct MaskedConvolution {
    kernel: bool,
    /// For the kernel: the number of words of each sentence, if there is padding.
    lengths: Option<Arc<Vec<usize>>>,
    /// For Burn's operations: 1 on real cells and 0 on padding, if there is padding.
    mask: Option<Tensor<5>>,
}

impl MaskedConvolution {
    fn new(lengths: Option<&[usize]>, input: &Tensor<5>) -> Self {
        let (words, device) = (input.dims()[4], input.device());
        let kernel = fused::runs_on(&device);
        let lengths = lengths.filter(|lengths| has_padding(lengths, words));
        Self {
            kernel,
            mask: lengths
                .filter(|_| !kernel)
                .map(|lengths| cell_mask(lengths, words, &device)),
            lengths: lengths.map(|lengths| Arc::new(lengths.to_vec())),
        }
    }

    /// GELU of the convolution.
    fn run(&self, layer: &Conv3d, input: Tensor<5>) -> Tensor<5> {
        if !self.kernel {
            return gelu(layer.forward(match &self.mask {
                Some(mask) => input * mask.clone(),
                None => input,
            }));
        }
        let [_, channels, planes, words, _] = input.dims();
        let kernel = fused::conv3d::Conv3d {
            channels,
            separate: layer.groups == channels,
            planes,
            words,
            dilation: layer.dilation,
            lengths: self.lengths.clone(),
        };
        let bias = layer.bias.as_ref().map(|bias| bias.val());
        let bias = bias.unwrap_or_else(|| Tensor::zeros([channels], &input.device()));
        kernel.gelu(input, layer.weight.val(), bias)
    }
}

/// 1 on real cells, 0 on cells whose start or end is padding: [batch, 1, 1, words, words].
pub(super) fn cell_mask(lengths: &[usize], words: usize, device: &Device) -> Tensor<5> {
    let batch = lengths.len();
    let mask = float_mask(lengths, words, device);
    mask.clone().reshape([batch, 1, 1, words, 1]) * mask.reshape([batch, 1, 1, 1, words])
}

/// Applies a linear layer to the dimension of labels: [batch, labels, ...] to [batch, outputs, ...].
fn by_label(linear: &Linear, grid: Tensor<5>) -> Tensor<5> {
    let [batch, labels, types, starts, ends] = grid.dims();
    let [_, outputs] = linear.weight.dims();
    let weight = linear.weight.val().transpose().unsqueeze(); // [1, outputs, labels]
    let mixed = Tensor::<3>::matmul(weight, grid.reshape([batch, labels, types * starts * ends]));
    let mixed = match &linear.bias {
        Some(bias) => mixed + bias.val().reshape([1, outputs, 1]),
        None => mixed,
    };
    mixed.reshape([batch, outputs, types, starts, ends])
}
