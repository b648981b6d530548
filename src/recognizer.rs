//! A model is an encoder and a head: the one module that is trained, saved and loaded.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

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

    /// Word states. A frozen encoder runs without dropout and leaves no trace for the gradient, not even one to
    /// the head's prompt.
    pub fn states(&self, batch: &PieceBatch, frozen: bool) -> WordStates {
        let device = self.device();
        let prompt = self.head.prompt();
        if !frozen || !device.is_autodiff() {
            return self.encoder.forward_with(batch, prompt, &device);
        }
        let prompt = prompt.map(Tensor::inner);
        let states = self
            .encoder
            .valid()
            .forward_with(batch, prompt, &device.clone().inner());
        WordStates {
            words: Tensor::from_inner(states.words),
            sentence: Tensor::from_inner(states.sentence),
            prompts: states.prompts.map(Tensor::from_inner),
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
