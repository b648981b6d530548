//! Scores of spans computed directly from the encoder's states.
//!
//! BiLSTM, biaffine scorer and convolutions start from random weights and learn slowly. With `direct = true` one linear
//! layer adds scores from the states of the first and last word, the maximum over the words of the span, the state of the
//! sentence and the distance between start and end: a path around all of them.

use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};

use super::network::{DISTANCES, distance};
use crate::nn::fused;
use crate::nn::rows::select_rows;
use crate::nn::spans::{all_spans, max_pool};

/// The longest span whose maximum is used. Maxima of long spans differ little, and their number grows with the length.
const LONGEST: usize = 12;

/// The encoder's states of a batch.
#[derive(Debug, Clone)]
pub struct EncoderStates {
    /// [batch, words, width].
    pub words: Tensor<3>,
    /// [batch, width].
    pub sentence: Tensor<2>,
}

impl EncoderStates {
    /// The states of some of the sentences.
    pub(super) fn narrow(&self, first: usize, count: usize) -> Self {
        Self {
            words: self.words.clone().narrow(0, first, count),
            sentence: self.sentence.clone().narrow(0, first, count),
        }
    }
}

/// Linear scores of all labels and types for every span.
#[derive(Module, Debug)]
pub struct DirectScores {
    /// From the state of the first word: [encoder width, labels · types].
    pub start: Linear,
    /// From the state of the last word.
    pub end: Linear,
    /// From the maximum over the words of the span.
    pub pooled: Linear,
    /// From the state of the sentence.
    pub sentence: Linear,
    /// From the distance between start and end, in buckets.
    pub distance: Embedding,
}

impl DirectScores {
    pub(super) fn new(width: usize, outputs: usize, device: &Device) -> Self {
        let linear = || {
            LinearConfig::new(width, outputs)
                .with_bias(false)
                .init(device)
        };
        Self {
            start: linear(),
            end: linear(),
            pooled: linear(),
            sentence: linear(),
            distance: EmbeddingConfig::new(DISTANCES, outputs)
                .with_initializer(Initializer::Zeros)
                .init(device),
        }
    }

    /// Scores [batch, labels, types, words, words].
    pub(super) fn forward(
        &self,
        states: &EncoderStates,
        lengths: &[usize],
        labels: usize,
    ) -> Tensor<5> {
        let [batch, words, _] = states.words.dims();
        let types = self.distance.weight.dims()[1] / labels;
        let by_word = |layer: &Linear| -> Tensor<4> {
            let scores = layer.forward(states.words.clone()).swap_dims(1, 2);
            scores.reshape([batch, labels, types, words])
        };
        let sentence = self.sentence.forward(states.sentence.clone());
        by_word(&self.start).unsqueeze_dim::<5>(4)
            + by_word(&self.end).unsqueeze_dim::<5>(3)
            + sentence.reshape([batch, labels, types, 1, 1])
            + self.by_distance(words, &states.words.device(), labels)
            + self.by_maximum(states, lengths, labels)
    }

    /// [1, labels, types, words, words].
    fn by_distance(&self, words: usize, device: &Device, labels: usize) -> Tensor<5> {
        let rows: Vec<i32> = (0..words)
            .flat_map(|start| (0..words).map(move |end| distance(start, end)))
            .collect();
        let rows = Tensor::<2, Int>::from_data(TensorData::new(rows, [1, words * words]), device);
        let scores = self.distance.forward(rows).swap_dims(1, 2);
        let outputs = self.distance.weight.dims()[1];
        scores.reshape([1, labels, outputs / labels, words, words])
    }

    /// Scores of the spans of at most 12 words, 0 elsewhere: [batch, labels, types, words, words].
    fn by_maximum(&self, states: &EncoderStates, lengths: &[usize], labels: usize) -> Tensor<5> {
        let [batch, words, _] = states.words.dims();
        let outputs = self.distance.weight.dims()[1];
        // Outside kernels, those of padding words too: shapes do not depend on the lengths then, and padding is not read.
        let spans = if fused::runs_on(&states.words.device()) {
            all_spans(lengths, LONGEST)
        } else {
            all_spans(&vec![words; batch], LONGEST)
        };
        if spans.is_empty() {
            let shape = [batch, labels, outputs / labels, words, words];
            return Tensor::zeros(shape, &states.words.device());
        }
        let scores = self.pooled.forward(max_pool(states.words.clone(), &spans));
        // Row 0 is for the cells without a span.
        let none = Tensor::zeros([1, outputs], &scores.device());
        let mut rows = vec![0; batch * words * words];
        for (index, span) in spans.iter().enumerate() {
            rows[(span.sentence * words + span.start) * words + span.end - 1] = 1 + index;
        }
        let cells = select_rows(Tensor::cat(vec![none, scores], 0), rows);
        cells
            .reshape([batch, words * words, outputs])
            .swap_dims(1, 2)
            .reshape([batch, labels, outputs / labels, words, words])
    }
}
