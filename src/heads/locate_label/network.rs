//! The layers of Locate and Label: filter, regressor and classifier, each two linear layers over span features.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};

use super::config::{Config, FilterScores, Illegal, OffsetOutput, Rounding};
use crate::encoder::WordStates;
use crate::nn::activation::gelu;
use crate::nn::rows::select_rows;
use crate::nn::spans::{BatchSpan, SpanMaxima};
use crate::text::Labels;

/// The two-stage model: filter and regressor, then classifier.
#[derive(Module, Debug)]
pub struct LocateLabel {
    /// Scores whether a seed is a proposal (3).
    pub filter: Option<Scorer>,
    /// Predicts the offsets from its boundaries to those of the entity (5).
    pub regressor: Option<Scorer>,
    /// Classifies moved spans; class 0 is none (10).
    pub classifier: Scorer,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) labels: Labels,
}

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct Scorer {
    /// From span features to the width of a word state.
    pub inner: Linear,
    /// From there to scores.
    pub outer: Linear,
}

impl Scorer {
    fn new(features: usize, width: usize, scores: usize, device: &Device) -> Self {
        Self {
            inner: LinearConfig::new(features, width).init(device),
            outer: LinearConfig::new(width, scores).init(device),
        }
    }

    fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        self.outer.forward(gelu(self.inner.forward(features)))
    }
}

/// Which two words are part of the features of a span, besides its maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Borders {
    /// Its first and its last word, equations (2) and (9).
    Inner,
    /// The words before and after it, equation (4), clamped to the sentence.
    Outer,
}

impl Borders {
    /// The two words of a span in a sentence of `length` words.
    fn of(self, span: &BatchSpan, length: usize) -> [usize; 2] {
        match self {
            Self::Inner => [span.start, span.end.saturating_sub(1)],
            Self::Outer => [
                span.start.saturating_sub(1),
                span.end.min(length.saturating_sub(1)),
            ],
        }
    }
}

/// The states of a batch, prepared for computing span features.
#[derive(Debug, Clone)]
pub struct SpanContext {
    /// [batch · words, width].
    rows: Tensor<2>,
    /// [batch, width].
    sentence: Tensor<2>,
    maxima: SpanMaxima,
    words: usize,
    /// The number of words of each sentence.
    pub lengths: Vec<usize>,
}

impl SpanContext {
    /// Prepares a batch. Moved spans may have any length, so the table of maxima goes up to the longest sentence.
    pub fn new(states: &WordStates) -> Self {
        let [batch, words, width] = states.words.dims();
        Self {
            rows: states.words.clone().reshape([batch * words, width]),
            sentence: states.sentence.clone(),
            maxima: SpanMaxima::new(states.words.clone(), words),
            words,
            lengths: states.lengths.clone(),
        }
    }

    /// The indices in `rows` of the two border words of each span.
    fn border_rows(&self, spans: &[BatchSpan], borders: Borders) -> [Vec<usize>; 2] {
        [0, 1].map(|side| {
            let row = |span: &BatchSpan| {
                let words = borders.of(span, self.lengths[span.sentence]);
                span.sentence * self.words + words[side]
            };
            spans.iter().map(row).collect()
        })
    }

    /// The maximum of each span: [spans, width]; 0 for an empty one.
    fn pooled(&self, spans: &[BatchSpan]) -> Tensor<2> {
        if spans.iter().all(|span| span.words() > 0) {
            return self.maxima.max_pool(spans);
        }
        let filled = |span: &BatchSpan| BatchSpan {
            end: span.end.max(span.start + 1),
            ..*span
        };
        let some: Vec<BatchSpan> = spans.iter().map(filled).collect();
        let real: Vec<f32> = spans
            .iter()
            .map(|span| f32::from(u8::from(span.words() > 0)))
            .collect();
        let real = Tensor::<1>::from_floats(real.as_slice(), &self.rows.device());
        self.maxima.max_pool(&some) * real.reshape([spans.len(), 1])
    }
}

impl LocateLabel {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let features = width * if config.sentence_context { 4 } else { 3 };
        let scorer = |scores| Scorer::new(features, width, scores, device);
        let filter_scores = match config.filter_scores {
            FilterScores::Sigmoid => 1,
            FilterScores::Softmax => 2,
        };
        Self {
            filter: config.filter.then(|| scorer(filter_scores)),
            regressor: config.regressor.then(|| scorer(2)),
            classifier: scorer(labels.len() + 1),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// The features of each span: its border words, its maximum and, with `sentence_context`, the sentence:
    /// [spans, features].
    pub fn features(
        &self,
        context: &SpanContext,
        spans: &[BatchSpan],
        borders: Borders,
    ) -> Tensor<2> {
        let [first, last] = context.border_rows(spans, borders);
        let mut parts = vec![
            select_rows(context.rows.clone(), first),
            select_rows(context.rows.clone(), last),
            context.pooled(spans),
        ];
        if self.config.sentence_context {
            let sentences: Vec<usize> = spans.iter().map(|span| span.sentence).collect();
            parts.push(select_rows(context.sentence.clone(), sentences));
        }
        Tensor::cat(parts, 1)
    }

    fn scores(
        &self,
        scorer: &Scorer,
        context: &SpanContext,
        spans: &[BatchSpan],
        borders: Borders,
    ) -> Tensor<2> {
        // Splitting the layer is cheaper if words border more than one span, but rules out dropout on the features.
        if !context.rows.device().is_autodiff() && spans.len() > context.rows.dims()[0] {
            return self.folded(scorer, context, spans, borders);
        }
        let features = self.features(context, spans, borders);
        scorer.forward(self.dropout.forward(features))
    }

    /// The same scores without dropout. The first layer is linear in each part of the features, so words and sentences go
    /// through it once instead of once for every span.
    fn folded(
        &self,
        scorer: &Scorer,
        context: &SpanContext,
        spans: &[BatchSpan],
        borders: Borders,
    ) -> Tensor<2> {
        let width = context.rows.dims()[1];
        let weight = scorer.inner.weight.val(); // [features, width]
        let part = |index: usize| weight.clone().narrow(0, index * width, width);
        let [first, last] = context.border_rows(spans, borders);
        let project = |index: usize, rows: Vec<usize>| {
            select_rows(context.rows.clone().matmul(part(index)), rows)
        };
        let mut inner =
            project(0, first) + project(1, last) + context.pooled(spans).matmul(part(2));
        if self.config.sentence_context {
            let sentences: Vec<usize> = spans.iter().map(|span| span.sentence).collect();
            let projected = context.sentence.clone().matmul(part(3));
            inner = inner + select_rows(projected, sentences);
        }
        if let Some(bias) = &scorer.inner.bias {
            inner = inner + bias.val().unsqueeze();
        }
        scorer.outer.forward(gelu(inner))
    }

    /// The filter's logits for none and for a proposal: [spans, 2].
    pub fn filter_logits(&self, context: &SpanContext, spans: &[BatchSpan]) -> Option<Tensor<2>> {
        let filter = self.filter.as_ref()?;
        let scores = self.scores(filter, context, spans, Borders::Inner);
        Some(match self.config.filter_scores {
            FilterScores::Softmax => scores,
            // σ(x) is the second of softmax(0, x).
            FilterScores::Sigmoid => Tensor::cat(vec![scores.zeros_like(), scores], 1),
        })
    }

    /// By how many words to move the start and the end of each span, unrounded: [spans, 2].
    pub fn offsets(&self, context: &SpanContext, spans: &[BatchSpan]) -> Option<Tensor<2>> {
        let regressor = self.regressor.as_ref()?;
        let raw = self.scores(regressor, context, spans, Borders::Outer);
        Some(match self.config.offsets {
            OffsetOutput::Linear => raw,
            OffsetOutput::Sigmoid => {
                let lengths: Vec<f32> = spans
                    .iter()
                    .map(|span| context.lengths[span.sentence] as f32)
                    .collect();
                let lengths = Tensor::<1>::from_floats(lengths.as_slice(), &raw.device());
                sigmoid(raw) * lengths.reshape([spans.len(), 1])
            }
        })
    }

    /// Class scores of moved spans: [spans, 1 + types].
    pub fn classes(&self, context: &SpanContext, spans: &[BatchSpan]) -> Tensor<2> {
        self.scores(&self.classifier, context, spans, Borders::Inner)
    }

    /// A span moved by offsets, and whether it is a legal proposal; an illegal one is returned unmoved.
    pub fn moved(&self, span: BatchSpan, offsets: [f32; 2], length: usize) -> (BatchSpan, bool) {
        let round = |offset: f32| match self.config.rounding {
            Rounding::HalfUp => (offset + 0.5).floor(),
            Rounding::HalfEven => offset.round_ties_even(),
        };
        // Far longer than any sentence, and far below the largest integer.
        let step = |offset: f32| round(offset).clamp(-1e9, 1e9) as i64;
        let mut start = span.start as i64 + step(offsets[0]);
        let mut end = span.end as i64 + step(offsets[1]);
        if self.config.illegal == Illegal::Clamp {
            start = start.max(0);
            end = end.min(length as i64);
        }
        let legal = 0 <= start && start < end && end <= length as i64;
        if legal {
            let [start, end] = [start as usize, end as usize];
            (BatchSpan { start, end, ..span }, true)
        } else {
            (span, self.config.illegal == Illegal::Clamp)
        }
    }
}
