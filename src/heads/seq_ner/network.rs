//! The layers of SeqNER.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};

use super::config::{Config, Decoder};
use crate::encoder::WordStates;
use crate::nn::crf::Crf;
use crate::text::Labels;

/// The tagging head: a linear layer from word states to tag scores, with a CRF if configured.
#[derive(Module, Debug)]
pub struct SeqNer {
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
        let tags = 2 * labels.len() + 1;
        Self {
            emission: LinearConfig::new(width, tags).init(device),
            crf: (config.decoder == Decoder::Crf).then(|| Crf::new(tags, device)),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// Tag scores: [batch, words, tags].
    pub fn emissions(&self, states: &WordStates) -> Tensor<3> {
        let mut words = self.dropout.forward(states.words.clone());
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
