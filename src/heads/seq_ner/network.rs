//! The layers of SeqNER.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};

use super::config::{Config, Decoder};
use crate::encoder::WordStates;
use crate::nn::activation::Activation;
use crate::nn::crf::Crf;
use crate::text::Labels;

/// Layers between word states and the tagger: `norm(activation(W e + b))`.
#[derive(Module, Debug)]
pub struct StateTransform {
    /// A linear layer of the same width.
    pub dense: Linear,
    /// The layer norm after the activation.
    pub norm: LayerNorm,
    #[module(skip)]
    activation: Activation,
}

impl StateTransform {
    /// The activation.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    fn forward(&self, words: Tensor<3>) -> Tensor<3> {
        self.norm
            .forward(self.activation.forward(self.dense.forward(words)))
    }
}

/// The tagging head: a linear layer from word states to tag scores, with layers before it and a CRF if configured.
#[derive(Module, Debug)]
pub struct SeqNer {
    /// Layers before the tagger, if configured.
    pub transform: Option<StateTransform>,
    /// From word states to tag scores.
    pub emission: Linear,
    /// Transition scores, if the decoder is `crf`.
    pub crf: Option<Crf>,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) labels: Labels,
}

impl SeqNer {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let tags = config.tags.count(labels.len());
        let transform = config.transform.activation();
        Self {
            transform: transform.map(|activation| StateTransform {
                dense: LinearConfig::new(width, width).init(device),
                norm: (LayerNormConfig::new(width).with_epsilon(config.transform_epsilon))
                    .init(device),
                activation,
            }),
            emission: LinearConfig::new(width, tags).init(device),
            crf: (config.decoder == Decoder::Crf).then(|| Crf::new(tags, device)),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// Tag scores: [batch, words, tags].
    pub fn emissions(&self, states: &WordStates) -> Tensor<3> {
        let mut words = states.words.clone();
        if let Some(transform) = &self.transform {
            words = transform.forward(words);
        }
        words = self.dropout.forward(words);
        if self.config.word_dropout > 0.0 && words.device().is_autodiff() {
            let [batch, count, _] = words.dims();
            let keep = Tensor::<3>::random(
                [batch, count, 1],
                Distribution::Bernoulli(1.0 - self.config.word_dropout),
                &words.device(),
            );
            words = words * keep;
        }
        self.emission.forward(words)
    }
}
