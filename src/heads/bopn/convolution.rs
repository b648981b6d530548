//! 3-D convolutions over (type, start, end): neighbouring spans of all types hear each other's offsets.

use std::sync::Arc;

use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv3d, Conv3dConfig};
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig3d};
use burn::tensor::{Device, Tensor};

use super::config::Config;
use crate::nn::activation::gelu;
use crate::nn::fused;

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

    /// [batch, labels, types, words, words] to the same. With `lengths`, the real words of each sentence, what lies
    /// beyond a sentence's end is blanked, where a convolution would otherwise read whatever the padding holds.
    pub fn forward(&self, scores: Tensor<5>, lengths: Option<&[usize]>) -> Tensor<5> {
        let mut input = self.blank_planes(scores.clone());
        if let Some(pointwise) = &self.pointwise {
            input = gelu(by_label(pointwise, input));
        }
        let layers = Layers::new(lengths, &input);
        let mut outputs = Vec::new();
        for layer in &self.layers {
            let output = layers.run(layer, input.clone());
            if self.chained {
                input = output.clone();
            }
            outputs.push(output);
        }
        let mixed = by_label(&self.predictor, Tensor::cat(outputs, 1));
        if self.residual { scores + mixed } else { mixed }
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

/// How a batch goes through a layer: by Burn's operations, or as one kernel on the processor.
struct Layers {
    kernel: bool,
    /// For the kernel, the real words of each sentence, where there are others.
    lengths: Option<Arc<Vec<usize>>>,
    /// For Burn's operations, 1 on real cells, where there are others.
    mask: Option<Tensor<5>>,
}

impl Layers {
    fn new(lengths: Option<&[usize]>, input: &Tensor<5>) -> Self {
        let (words, device) = (input.dims()[4], input.device());
        let kernel = fused::runs_on(&device);
        let lengths = lengths.filter(|lengths| lengths.iter().any(|length| *length < words));
        Self {
            kernel,
            mask: lengths
                .filter(|_| !kernel)
                .map(|lengths| real(lengths, words, &device)),
            lengths: lengths.map(|lengths| Arc::new(lengths.to_vec())),
        }
    }

    /// GELU after the convolution of what is real.
    fn run(&self, layer: &Conv3d, input: Tensor<5>) -> Tensor<5> {
        if !self.kernel {
            return gelu(layer.forward(match &self.mask {
                Some(mask) => input * mask.clone(),
                None => input,
            }));
        }
        let [_, channels, planes, words, _] = input.dims();
        let kernel = fused::conv3d::Conv3dGelu {
            channels,
            depthwise: layer.groups == channels,
            planes,
            words,
            dilation: layer.dilation,
            lengths: self.lengths.clone(),
        };
        let bias = layer.bias.as_ref().map(|bias| bias.val());
        let bias = bias.unwrap_or_else(|| Tensor::zeros([channels], &input.device()));
        kernel.forward(input, layer.weight.val(), bias)
    }
}

/// 1 on cells of a sentence, 0 beyond its end: [batch, 1, 1, words, words].
pub(super) fn real(lengths: &[usize], words: usize, device: &Device) -> Tensor<5> {
    let batch = lengths.len();
    let line: Vec<f32> = lengths
        .iter()
        .flat_map(|length| (0..words).map(move |word| f32::from(u8::from(word < *length))))
        .collect();
    let line = Tensor::<1>::from_floats(line.as_slice(), device);
    line.clone().reshape([batch, 1, 1, words, 1]) * line.reshape([batch, 1, 1, 1, words])
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
