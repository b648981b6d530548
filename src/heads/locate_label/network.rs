//! Layers of Locate and Label: filter, regressor and classifier, each two linear layers over what describes a span.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};

use super::config::{Config, FilterScores, Illegal, Offsets, Rounding};
use crate::encoder::WordStates;
use crate::nn::activation::gelu;
use crate::nn::rows::select_rows;
use crate::nn::spans::{BatchSpan, SpanMaxima};
use crate::text::Labels;

/// The two-stage identifier.
#[derive(Module, Debug)]
pub struct LocateLabel {
    /// Is a seed a proposal? (3)
    pub filter: Option<Scorer>,
    /// How far its boundaries are from the entity's. (5)
    pub regressor: Option<Scorer>,
    /// The type of a moved span; class 0 is none. (10)
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
    /// From what describes a span to as many numbers as a word's state has.
    pub inner: Linear,
    /// To scores.
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

/// Which words beside a span's maximum describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Borders {
    /// Its first and its last word, equations (2) and (9).
    Inner,
    /// The words before and after it, equation (4); at the sentence's end the last one there is.
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

/// A batch, ready to describe spans.
#[derive(Debug, Clone)]
pub struct View {
    /// [batch · words, width].
    rows: Tensor<2>,
    /// [batch, width].
    sentence: Tensor<2>,
    maxima: SpanMaxima,
    words: usize,
    /// Words of each sentence.
    pub lengths: Vec<usize>,
}

impl View {
    /// Moved spans may have any length, so the table of maxima goes up to the longest sentence.
    pub fn new(states: &WordStates) -> Self {
        let [batch, words, width] = states.words.dims();
        let longest = states.lengths.iter().copied().max().unwrap_or(1);
        Self {
            rows: states.words.clone().reshape([batch * words, width]),
            sentence: states.sentence.clone(),
            maxima: SpanMaxima::new(states.words.clone(), longest),
            words,
            lengths: states.lengths.clone(),
        }
    }

    /// Where the two border words of each span lie in `rows`.
    fn places(&self, spans: &[BatchSpan], borders: Borders) -> [Vec<usize>; 2] {
        [0, 1].map(|side| {
            let place = |span: &BatchSpan| {
                let words = borders.of(span, self.lengths[span.sentence]);
                span.sentence * self.words + words[side]
            };
            spans.iter().map(place).collect()
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
        let verdicts = match config.filter_scores {
            FilterScores::Sigmoid => 1,
            FilterScores::Softmax => 2,
        };
        Self {
            filter: config.filter.then(|| scorer(verdicts)),
            regressor: config.regressor.then(|| scorer(2)),
            classifier: scorer(labels.len() + 1),
            dropout: DropoutConfig::new(config.dropout).init(),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// What describes each span: its border words, its maximum, and the sentence when asked: [spans, features].
    pub fn features(&self, view: &View, spans: &[BatchSpan], borders: Borders) -> Tensor<2> {
        let [first, last] = view.places(spans, borders);
        let mut parts = vec![
            select_rows(view.rows.clone(), first),
            select_rows(view.rows.clone(), last),
            view.pooled(spans),
        ];
        if self.config.sentence_context {
            let sentences: Vec<usize> = spans.iter().map(|span| span.sentence).collect();
            parts.push(select_rows(view.sentence.clone(), sentences));
        }
        Tensor::cat(parts, 1)
    }

    fn scores(
        &self,
        scorer: &Scorer,
        view: &View,
        spans: &[BatchSpan],
        borders: Borders,
    ) -> Tensor<2> {
        // Taken apart it is cheaper where words border more than one span, but it leaves dropout nothing to drop.
        if !view.rows.device().is_autodiff() && spans.len() > view.rows.dims()[0] {
            return self.folded(scorer, view, spans, borders);
        }
        let features = self.features(view, spans, borders);
        scorer.forward(self.dropout.forward(features))
    }

    /// The same scores without dropout. The first layer is linear in each part of what describes a span, so words and
    /// sentences go through it once instead of once for every span they border.
    fn folded(
        &self,
        scorer: &Scorer,
        view: &View,
        spans: &[BatchSpan],
        borders: Borders,
    ) -> Tensor<2> {
        let width = view.rows.dims()[1];
        let weight = scorer.inner.weight.val(); // [features, width]
        let part = |index: usize| weight.clone().narrow(0, index * width, width);
        let [first, last] = view.places(spans, borders);
        let project = |index: usize, places: Vec<usize>| {
            select_rows(view.rows.clone().matmul(part(index)), places)
        };
        let mut inner = project(0, first) + project(1, last) + view.pooled(spans).matmul(part(2));
        if self.config.sentence_context {
            let sentences: Vec<usize> = spans.iter().map(|span| span.sentence).collect();
            let projected = view.sentence.clone().matmul(part(3));
            inner = inner + select_rows(projected, sentences);
        }
        if let Some(bias) = &scorer.inner.bias {
            inner = inner + bias.val().unsqueeze();
        }
        scorer.outer.forward(gelu(inner))
    }

    /// The filter's scores of nothing and of a proposal: [spans, 2].
    pub fn verdicts(&self, view: &View, spans: &[BatchSpan]) -> Option<Tensor<2>> {
        let filter = self.filter.as_ref()?;
        let scores = self.scores(filter, view, spans, Borders::Inner);
        Some(match self.config.filter_scores {
            FilterScores::Softmax => scores,
            // σ(x) is the second of softmax(0, x).
            FilterScores::Sigmoid => Tensor::cat(vec![scores.zeros_like(), scores], 1),
        })
    }

    /// How far the left and the right boundary of each span are to be moved, unrounded: [spans, 2].
    pub fn offsets(&self, view: &View, spans: &[BatchSpan]) -> Option<Tensor<2>> {
        let regressor = self.regressor.as_ref()?;
        let raw = self.scores(regressor, view, spans, Borders::Outer);
        Some(match self.config.offsets {
            Offsets::Linear => raw,
            Offsets::Sigmoid => {
                let lengths: Vec<f32> = spans
                    .iter()
                    .map(|span| view.lengths[span.sentence] as f32)
                    .collect();
                let lengths = Tensor::<1>::from_floats(lengths.as_slice(), &raw.device());
                sigmoid(raw) * lengths.reshape([spans.len(), 1])
            }
        })
    }

    /// Class scores of moved spans: [spans, 1 + types].
    pub fn classes(&self, view: &View, spans: &[BatchSpan]) -> Tensor<2> {
        self.scores(&self.classifier, view, spans, Borders::Inner)
    }

    /// A span moved by offsets, and whether it may be a proposal; one that may not stays where it was.
    pub fn moved(&self, span: BatchSpan, offsets: [f32; 2], length: usize) -> (BatchSpan, bool) {
        let round = |offset: f32| match self.config.rounding {
            Rounding::HalfUp => (offset + 0.5).floor(),
            Rounding::HalfEven => offset.round_ties_even(),
        };
        // Far more than any sentence has words, and far less than where integers end.
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
