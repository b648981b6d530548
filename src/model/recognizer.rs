//! The model: an encoder and a head, the Burn module that is trained, saved and loaded.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::encoder::batching::PieceBatch;
use crate::encoder::{Encoder, EncoderConfig, WordStates};
use crate::heads::{Head, Losses};
use crate::text::{Labels, Mention};

/// A model: an encoder followed by a head.
#[derive(Module, Debug)]
pub struct Recognizer<H: Head> {
    /// Computes a state for each word.
    pub encoder: Encoder,
    /// Computes losses and mentions from word states.
    pub head: H,
}

impl<H: Head> Recognizer<H> {
    /// A model with newly initialised weights.
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

    /// The word states of a batch. The transformer of a frozen encoder runs without dropout and without autodiff, so the
    /// head's prompt gets no gradient either; word features are trained even then, as they are not pretrained.
    pub fn states(&self, batch: &PieceBatch, frozen: bool) -> WordStates {
        let device = self.device();
        let prompt = self.head.prompt();
        if !frozen || !device.is_autodiff() {
            return self.encoder.forward_with(batch, prompt);
        }
        let prompt = prompt.map(Tensor::inner);
        let states = self.encoder.valid().transformed(batch, prompt);
        let states = WordStates {
            words: Tensor::from_inner(states.words),
            sentence: Tensor::from_inner(states.sentence),
            prompts: states.prompts.map(Tensor::from_inner),
            lengths: states.lengths,
        };
        self.encoder.with_features(states, batch)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::tokenizer::WordTokenizer;
    use crate::encoder::{EncodedSentence, LayerPooling, Pooling, RowLayout, ScratchConfig};
    use crate::heads::bopn::{self, Bopn};
    use crate::heads::settings::{Preset, Settings};
    use crate::nn::host::floats;
    use crate::text::Sentence;

    #[test]
    fn prompts_are_encoded_with_every_window_and_read_from_the_first() {
        let sentence = Sentence::from_words((0..40).map(|word| format!("w{}", word % 7)));
        let pieces = WordTokenizer::train(std::slice::from_ref(&sentence), 60, true).unwrap();
        let scratch = ScratchConfig {
            width: 8,
            heads: 2,
            feed_forward: 8,
            positions: 20,
            ..ScratchConfig::default()
        };
        let encoder = EncoderConfig {
            transformer: scratch.transformer(pieces.vocabulary_size()),
            pooling: Pooling::Mean,
            layers: LayerPooling::Last,
            overlap: 4,
            context: 0,
            rows: RowLayout::Standard,
            features: None,
        };
        let labels = Labels::new(["A", "B", "C"]);
        let config = bopn::Config::of(Preset::Paper);
        let device = Device::flex();
        let model = Recognizer::<Bopn>::new(&encoder, &config, &labels, &device);
        let prompts = Bopn::prompts(&config, &labels);
        assert_eq!(prompts, 3);
        let window = encoder.transformer.window() - prompts;
        let states = |sentence: &Sentence| {
            let encoded = pieces.encode(std::slice::from_ref(sentence));
            let batch = PieceBatch::new(
                &encoded.iter().collect::<Vec<&EncodedSentence>>(),
                &pieces,
                window,
                4,
            );
            (batch.clone(), model.states(&batch, false))
        };
        let (batch, long) = states(&sentence);
        assert!(batch.rows.len() > 2 && batch.rows.width() == window);
        assert_eq!(long.words.dims(), [1, 40, 8]);
        // The first window alone.
        let first = Sentence::from_words((0..window - 2).map(|word| format!("w{}", word % 7)));
        let (_, short) = states(&first);
        let prompts = |states: WordStates| floats(states.prompts.unwrap());
        for (one, other) in prompts(long).iter().zip(prompts(short)) {
            assert!((one - other).abs() < 1e-5, "{one} {other}");
        }
    }
}
