//! A model is an encoder and a head: the one module that is trained, saved and loaded.

use burn::module::Module;
use burn::tensor::Device;

use crate::encoder::batch::PieceBatch;
use crate::encoder::{Encoder, EncoderConfig, WordStates};
use crate::heads::{Head, Losses};
use crate::text::{Labels, Mention};

/// An encoder with a head on it.
#[derive(Module, Debug)]
pub struct Recognizer<H: Head> {
    /// Words to states.
    pub encoder: Encoder,
    /// States to losses and mentions.
    pub head: H,
}

impl<H: Head> Recognizer<H> {
    /// A model with fresh weights.
    pub fn new(
        encoder: &EncoderConfig,
        head: &H::Config,
        labels: &Labels,
        device: &Device,
    ) -> Self {
        Self {
            encoder: encoder.init(device),
            head: H::init(head, encoder.width(), labels, device),
        }
    }

    /// The device its weights are on.
    pub fn device(&self) -> Device {
        self.encoder.transformer.device()
    }

    /// Word states. A frozen encoder runs without dropout and leaves no trace for the gradient.
    pub fn states(&self, batch: &PieceBatch, frozen: bool) -> WordStates {
        let device = self.device();
        if !frozen || !device.is_autodiff() {
            return self.encoder.forward(batch, &device);
        }
        let states = self.encoder.valid().forward(batch, &device.clone().inner());
        WordStates {
            words: burn::tensor::Tensor::from_inner(states.words),
            sentence: burn::tensor::Tensor::from_inner(states.sentence),
            lengths: states.lengths,
        }
    }

    /// The loss of a batch.
    pub fn loss(&self, batch: &PieceBatch, gold: &H::Gold, frozen: bool) -> Losses {
        self.head.loss(&self.states(batch, frozen), gold)
    }

    /// The mentions of each sentence of a batch.
    pub fn decode(&self, batch: &PieceBatch) -> Vec<Vec<Mention>> {
        self.head.decode(&self.states(batch, false))
    }
}
