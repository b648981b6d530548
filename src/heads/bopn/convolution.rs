//! 3-D convolutions over (type, start, end): neighbouring spans of all types hear each other's offsets.

use crate::nn::activation::gelu;
use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor};

use super::config::Config;

/// Dilated convolutions whose outputs are put end to end and mixed by a linear layer.
#[derive(Module, Debug)]
pub struct Convolutions {
    /// Mixes the labels of each cell before the first convolution.
    pub pointwise: Option<Linear>,
    /// With dilation 1, 2, ...
    pub layers: Vec<Conv3d>,
    /// All outputs to scores.
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

    /// [batch, labels, types, words, words] to the same. `mask`, [batch, 1, 1, words, words], blanks what lies beyond
    /// a sentence's end, where a convolution would otherwise read whatever the padding holds.
    pub fn forward(&self, scores: Tensor<5>, mask: Option<Tensor<5>>) -> Tensor<5> {
        let masked = |grid: Tensor<5>| match &mask {
            Some(mask) => grid * mask.clone(),
            None => grid,
        };
        let mut input = self.blank_planes(scores.clone());
        if let Some(pointwise) = &self.pointwise {
            input = gelu(by_label(pointwise, input));
        }
        let mut outputs = Vec::new();
        for layer in &self.layers {
            let output = gelu(layer.forward(masked(input.clone())));
            if self.chained {
                input = output.clone();
            }
            outputs.push(output);
        }
        let mixed = by_label(&self.predictor, Tensor::cat(outputs, 1));
        match self.residual {
            true => scores + mixed,
            false => mixed,
        }
    }

    /// Dropout of whole planes, one draw for each sentence and label.
    fn blank_planes(&self, scores: Tensor<5>) -> Tensor<5> {
        if self.dropout.prob == 0.0 || !scores.device().is_autodiff() {
            return scores;
        }
        let [batch, labels, _, _, _] = scores.dims();
        let kept = Tensor::ones([batch, labels, 1, 1, 1], &scores.device());
        scores * self.dropout.forward(kept)
    }
}

/// A linear layer over the labels: [batch, labels, ...] to [batch, outputs, ...].
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
