//! The layers of SpanNER.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::config::{Config, Representation};
use crate::encoder::WordStates;
use crate::nn::rows::select_rows;
use crate::nn::spans::{BatchSpan, max_pool};
use crate::text::Labels;

/// The span head: a linear classifier over the representation of each span.
#[derive(Module, Debug)]
pub struct SpanNer {
    /// From span representations to class scores; class 0 is none.
    pub classifier: Linear,
    /// One row per length in words; row 0 is unused.
    pub length_embedding: Embedding,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) labels: Labels,
}

impl SpanNer {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let parts = match config.representation {
            Representation::Boundary | Representation::Pooling => 2,
            Representation::Hybrid => 4,
        };
        let features = parts * width + config.length_width;
        Self {
            classifier: LinearConfig::new(features, labels.len() + 1).init(device),
            length_embedding: EmbeddingConfig::new(config.longest + 1, config.length_width)
                .init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    fn uses_borders(&self) -> bool {
        self.config.representation != Representation::Pooling
    }

    fn uses_pooling(&self) -> bool {
        self.config.representation != Representation::Boundary
    }

    /// Class scores of given spans: [spans, classes].
    pub fn scores(&self, states: &WordStates, spans: &[BatchSpan]) -> Tensor<2> {
        let [batch, words, width] = states.words.dims();
        let all = states.words.clone().reshape([batch * words, width]);
        let mut parts = Vec::new();
        if self.uses_borders() {
            for last in [false, true] {
                let rows: Vec<usize> = spans
                    .iter()
                    .map(|span| {
                        span.sentence * words + if last { span.end - 1 } else { span.start }
                    })
                    .collect();
                parts.push(select_rows(all.clone(), rows));
            }
        }
        if self.uses_pooling() {
            parts.push(max_pool(states.words.clone(), spans));
            let sentences: Vec<usize> = spans.iter().map(|span| span.sentence).collect();
            parts.push(select_rows(states.sentence.clone(), sentences));
        }
        let lengths: Vec<usize> = spans.iter().map(BatchSpan::words).collect();
        parts.push(select_rows(self.length_embedding.weight.val(), lengths));
        self.classifier
            .forward(self.dropout.forward(Tensor::cat(parts, 1)))
    }

    /// Class scores of all spans of 1, 2, ... ε words: [batch, words − length + 1, classes] for each length up to the
    /// longest sentence. Words are projected once, and the maxima of one length are computed from those of the length
    /// before.
    pub fn all_scores(&self, states: &WordStates) -> Vec<Tensor<3>> {
        let [batch, words, width] = states.words.dims();
        let weight = self.classifier.weight.val(); // [features, classes]
        let classes = weight.dims()[1];
        let mut row = 0;
        let mut next = |count: usize| {
            let part = weight.clone().narrow(0, row, count);
            row += count;
            part
        };
        let flat = states.words.clone().reshape([batch * words, width]);
        let project = |part: Tensor<2>| flat.clone().matmul(part).reshape([batch, words, classes]);
        let borders = self
            .uses_borders()
            .then(|| (project(next(width)), project(next(width))));
        let pooling = self.uses_pooling().then(|| {
            let pooled = next(width);
            let sentence = states.sentence.clone().matmul(next(width));
            (pooled, sentence.reshape([batch, 1, classes]))
        });
        let mut by_length = self
            .length_embedding
            .weight
            .val()
            .matmul(next(self.length_embedding.weight.dims()[1])); // [longest + 1, classes]
        if let Some(bias) = &self.classifier.bias {
            by_length = by_length + bias.val().unsqueeze();
        }
        let mut maxima = states.words.clone();
        let mut all = Vec::new();
        for length in 1..=self.config.longest.min(words) {
            let starts = words - length + 1;
            let row = by_length.clone().narrow(0, length, 1);
            let mut scores = row
                .reshape([1, 1, classes])
                .expand([batch, starts, classes]);
            if let Some((first, last)) = &borders {
                scores = scores
                    + first.clone().narrow(1, 0, starts)
                    + last.clone().narrow(1, length - 1, starts);
            }
            if let Some((weight, sentence)) = &pooling {
                if length > 1 {
                    let shifted = states.words.clone().narrow(1, length - 1, starts);
                    maxima = maxima.narrow(1, 0, starts).max_pair(shifted);
                }
                let pooled = maxima.clone().reshape([batch * starts, width]);
                let pooled = pooled.matmul(weight.clone());
                scores = scores + pooled.reshape([batch, starts, classes]) + sentence.clone();
            }
            all.push(scores);
        }
        all
    }
}
