//! Encoders: sentences to one hidden state per word.
//!
//! ```text
//! Sentence ─tokenizer─▶ EncodedSentence ─batching─▶ PieceBatch ─transformer─▶ PieceStates ─pooling─▶ WordStates
//! ```
//!
//! The transformer is pretrained ([`load`]) or starts with random weights ([`ScratchConfig`]). [`features`] can add word
//! vectors, parts of speech and characters to the states.

pub mod batching;
mod config;
mod encoded_sentence;
pub mod export;
mod family;
pub mod features;
pub mod load;
mod pooling;
pub mod shapes;
pub mod tokenizer;
pub mod transformer;
pub mod vocabulary;
pub mod weight_files;
pub mod window;
pub mod word_vectors;

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use batching::PieceBatch;
pub use batching::RowLayout;
pub use config::{EncoderConfig, MOST_CONTEXT, MOST_OVERLAP, ScratchConfig};
pub use encoded_sentence::{EncodedSentence, WordPieces};
use features::WordFeatures;
pub use pooling::{LayerPooling, Pooling};
use transformer::{PieceStates, Recomputation, Transformer};

use crate::nn::mask;
use crate::nn::rows::select_rows;

/// A transformer with pooling from pieces to words, and optional word features.
#[derive(Module, Debug)]
pub struct Encoder {
    /// The transformer over word pieces.
    pub transformer: Transformer,
    /// Layers that join word features with the transformer's states.
    pub features: Option<WordFeatures>,
    #[module(skip)]
    pooling: Pooling,
    #[module(skip)]
    layers: LayerPooling,
}

/// Encoder output for a batch, as passed to a head.
#[derive(Debug, Clone)]
pub struct WordStates {
    /// One state per word: `[batch, words, width]`. States of padding words are finite but meaningless.
    pub words: Tensor<3>,
    /// State of each sentence's \[CLS\] piece: `[batch, width]`.
    pub sentence: Tensor<2>,
    /// States of the head's prompt vectors, encoded with each sentence: `[batch, prompts, width]`. For a sentence of
    /// several windows they come from its first.
    pub prompts: Option<Tensor<3>>,
    /// Number of words in each sentence: `[batch]`.
    pub lengths: Vec<usize>,
}

impl WordStates {
    /// True on words, false on padding.
    ///
    /// # Shapes
    /// - output: `[batch, words]`
    pub fn mask(&self) -> Tensor<2, Bool> {
        let [_, words, _] = self.words.dims();
        mask::bool_mask(&self.lengths, words, &self.words.device())
    }
}

impl Encoder {
    /// Encodes a batch to one state per word.
    pub fn forward(&self, batch: &PieceBatch) -> WordStates {
        self.forward_with(batch, None)
    }

    /// Encodes a batch to one state per word, with a head's prompt vectors before each row.
    ///
    /// # Shapes
    /// - prompt: `[prompts, width]`
    pub fn forward_with(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> WordStates {
        self.with_features(self.transformed(batch, prompt), batch)
    }

    /// Joins word features with the transformer's states, if the encoder has features.
    pub fn with_features(&self, states: WordStates, batch: &PieceBatch) -> WordStates {
        let Some(features) = &self.features else {
            return states;
        };
        let inputs = batch.features.as_ref();
        let inputs = inputs.expect("a batch for an encoder with features has feature inputs");
        WordStates {
            words: features.forward(states.words, inputs, &states.lengths),
            ..states
        }
    }

    /// The transformer's states, pooled to words, without word features.
    pub fn transformed(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> WordStates {
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        self.pool(&self.run_transformer(batch, prompt), batch, prompts)
    }

    /// The same as [`forward_with`](Self::forward_with), with layers that are computed again in the backward pass: see
    /// [`Transformer::forward_recomputed`].
    pub fn forward_recomputed(
        &self,
        batch: &PieceBatch,
        prompt: Option<Tensor<2>>,
        seed: u64,
    ) -> (WordStates, Recomputation<'_>) {
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let (transformer, average) = (&self.transformer, self.layers.count());
        let (pieces, recomputation) =
            transformer.forward_recomputed(&batch.rows, prompt, average, seed);
        let states = self.pool(&pieces, batch, prompts);
        (self.with_features(states, batch), recomputation)
    }

    /// Pools the states of pieces to words. `count` is the number of prompt vectors before each row.
    fn pool(&self, pieces: &PieceStates, batch: &PieceBatch, count: usize) -> WordStates {
        let width = pieces.states.dims()[1];
        let rows = &batch.sentence_rows;
        let select = |indices: Vec<usize>| select_rows(pieces.states.clone(), indices);
        let prompts = (count > 0).then(|| {
            let rows = rows.iter();
            let indices = rows.flat_map(|row| (0..count).map(|number| pieces.prompt(*row, number)));
            select(indices.collect()).reshape([batch.len(), count, width])
        });
        WordStates {
            sentence: select(rows.iter().map(|row| pieces.piece(*row, 0)).collect()),
            words: self
                .pooling
                .pool(pieces, batch)
                .reshape([batch.len(), batch.words, width]),
            prompts,
            lengths: batch.lengths.clone(),
        }
    }

    /// One state per piece; padding repeats the state of its row's first piece.
    ///
    /// # Shapes
    /// - output: `[rows, pieces, width]`
    pub fn piece_states(&self, batch: &PieceBatch) -> Tensor<3> {
        let pieces = self.run_transformer(batch, None);
        let columns = batch.rows.width();
        let indices: Vec<usize> = (batch.rows.lengths.iter().enumerate())
            .flat_map(|(row, length)| (0..columns).map(move |column| (row, column, *length)))
            .map(|(row, column, length)| {
                pieces.piece(row, if column < length { column } else { 0 })
            })
            .collect();
        let width = pieces.states.dims()[1];
        select_rows(pieces.states, indices).reshape([batch.rows.len(), columns, width])
    }

    fn run_transformer(&self, batch: &PieceBatch, prompt: Option<Tensor<2>>) -> PieceStates {
        (self.transformer).forward(&batch.rows, prompt, self.layers.count())
    }
}
