//! The denoising network: from words and noisy spans to boundaries and types.

use std::sync::Arc;

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::{Device, Tensor, TensorData};

use super::config::{Config, InitialWeights, SpanFeatures};
use super::process::{NoiseSchedule, Pair, SpanGeometry};
use super::rescore::Rescorer;
use super::span_encoder::{Pointer, SpanLayer, TwoLayers};
use crate::encoder::WordStates;
use crate::nn::attention::{KeysValues, zero_bias};
use crate::nn::bilstm::BiLstm;
use crate::nn::mask::attention_bias;
use crate::nn::rows::{index_tensor, select_rows};
use crate::text::Labels;

/// Words that are further from a boundary than this all have the same score.
const FAR: isize = 8;

/// The denoising network: a BiLSTM over word states, a span encoder, two boundary pointers and a type classifier.
#[derive(Module, Debug)]
pub struct DiffusionNer {
    /// BiLSTM layers over the words.
    pub lstm: Vec<BiLstm>,
    /// Layers that represent a span by its end words.
    pub ends: Option<EndLayers>,
    /// Layers after the sinusoidal embedding of a span's index in the list.
    pub slots: Option<TwoLayers>,
    /// Layers of the span encoder.
    pub layers: Vec<SpanLayer>,
    /// Layers after the sinusoidal embedding of the timestep.
    pub time: Option<TwoLayers>,
    /// Scores words as the first of a span.
    pub left: Pointer,
    /// Scores words as the last of a span.
    pub right: Pointer,
    /// Classifies spans; class 0 is none.
    pub classifier: TwoLayers,
    /// Score of a word as a boundary by its distance from that of the noisy span: [2, distances].
    pub near: Option<Param<Tensor<2>>>,
    /// Classifies the spans between predicted boundaries.
    pub rescorer: Option<Rescorer>,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) geometry: SpanGeometry,
    #[module(skip)]
    pub(super) schedule: Arc<NoiseSchedule>,
    #[module(skip)]
    pub(super) labels: Labels,
}

/// Layers that compute the vector of a span from its two end words.
#[derive(Module, Debug)]
pub struct EndLayers {
    /// For the first word.
    pub start: Linear,
    /// For the last word.
    pub end: Linear,
    /// For both together.
    pub join: Linear,
}

/// A batch of sentences encoded once for all denoising steps: everything that does not depend on the spans.
#[derive(Debug, Clone)]
pub struct EncodedWords {
    /// H: [batch, words, width]; 0 on padding.
    pub words: Tensor<3>,
    /// The number of words of each sentence.
    pub lengths: Vec<usize>,
    /// Attention bias that masks padding, [batch, 1, 1, words]; `None` if there is no padding.
    bias: Option<Tensor<4>>,
    /// Projections of the words for the ends of spans.
    ends: Option<[Tensor<3>; 2]>,
    /// Keys and values of the words for each layer of the span encoder.
    keys_values: Vec<KeysValues>,
    /// Projections of the words for the two pointers.
    pointer_words: [Tensor<3>; 2],
}

/// The predictions of the network for noisy spans, as logits.
#[derive(Debug, Clone)]
pub struct Denoised {
    /// Score of each word as the first one: [batch, spans, words]; about −1e9 on padding.
    pub left: Tensor<3>,
    /// Score of each word as the last one, likewise.
    pub right: Tensor<3>,
    /// Score of each class: [batch, spans, 1 + types].
    pub types: Tensor<3>,
}

impl DiffusionNer {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let weights = match config.initial {
            InitialWeights::Uniform => Initializer::KaimingUniform {
                gain: 1.0 / 3f64.sqrt(),
                fan_out_only: false,
            },
            InitialWeights::Normal => Initializer::Normal {
                mean: 0.0,
                std: 0.02,
            },
        };
        let two_layers = || TwoLayers::new(width, width, &weights, device);
        let layer = || {
            SpanLayer::new(
                width,
                config.heads,
                config.feed_forward,
                config.dropout,
                &weights,
                device,
            )
        };
        Self {
            lstm: (0..config.lstm_layers)
                .map(|_| BiLstm::new(width, width / 2, device))
                .collect(),
            ends: (config.features == SpanFeatures::Ends).then(|| EndLayers {
                start: zero_bias(width, width, &weights, device),
                end: zero_bias(width, width, &weights, device),
                join: zero_bias(2 * width, width, &weights, device),
            }),
            slots: config.slot_positions.then(two_layers),
            layers: (0..config.attention_layers).map(|_| layer()).collect(),
            time: config.time_layers.then(two_layers),
            left: Pointer::new(width, &weights, device),
            right: Pointer::new(width, &weights, device),
            classifier: TwoLayers::new(width, labels.len() + 1, &weights, device),
            near: config.locality.then(|| initial_near(device)),
            rescorer: (config.rescore)
                .then(|| Rescorer::new(width, labels.len() + 1, config.dropout, device)),
            dropout: DropoutConfig::new(config.dropout).init(),
            geometry: SpanGeometry::of(config),
            schedule: Arc::new(NoiseSchedule::new(config.variance, config.timesteps)),
            config: config.clone(),
            labels: labels.clone(),
        }
    }

    /// Encodes a batch: the transformer's states through the BiLSTM, and the projections that spans attend to.
    pub fn encode(&self, states: &WordStates) -> EncodedWords {
        let mut words = states.words.clone();
        for (index, layer) in self.lstm.iter().enumerate() {
            if index > 0 {
                words = self.dropout.forward(words);
            }
            words = layer.forward(words, &states.lengths);
        }
        EncodedWords {
            bias: attention_bias(&states.lengths, words.dims()[1], &words.device()),
            ends: self.ends.as_ref().map(|ends| {
                [
                    ends.start.forward(words.clone()),
                    ends.end.forward(words.clone()),
                ]
            }),
            keys_values: self
                .layers
                .iter()
                .map(|layer| {
                    layer
                        .cross_attention
                        .project_keys_values(words.clone(), words.clone())
                })
                .collect(),
            pointer_words: [
                self.left.words.forward(words.clone()),
                self.right.words.forward(words.clone()),
            ],
            words,
            lengths: states.lengths.clone(),
        }
    }

    /// The vectors of noisy spans, given as fractions of their sentences: [batch, spans, width].
    pub fn span_features(&self, encoded: &EncodedWords, spans: &[&[Pair]]) -> Tensor<3> {
        let [batch, words, width] = encoded.words.dims();
        let device = encoded.words.device();
        let count = spans.first().map_or(0, |spans| spans.len());
        let bounds: Vec<[usize; 2]> = spans
            .iter()
            .zip(&encoded.lengths)
            .flat_map(|(spans, length)| {
                let geometry = self.geometry;
                spans.iter().map(move |span| geometry.words(*span, *length))
            })
            .collect();
        let (Some(ends), Some(projections)) = (&self.ends, &encoded.ends) else {
            // The mean, as a product with weights [spans, words].
            let mut weights = vec![0f32; batch * count * words];
            for (row, [left, right]) in bounds.iter().enumerate() {
                let weight = 1.0 / (right - left + 1) as f32;
                weights[row * words + left..=row * words + right].fill(weight);
            }
            let shape = [batch, count, words];
            let weights = Tensor::<3>::from_data(TensorData::new(weights, shape), &device);
            return self.dropout.forward(weights.matmul(encoded.words.clone()));
        };
        let end_words = |side: usize| {
            let rows: Vec<usize> = bounds
                .iter()
                .enumerate()
                .map(|(row, bounds)| row / count * words + bounds[side])
                .collect();
            let projected = projections[side].clone().reshape([batch * words, width]);
            self.dropout
                .forward(projected.select(0, index_tensor(&rows, &device)))
        };
        let joined = Tensor::cat(vec![end_words(0), end_words(1)], 1);
        let features = self.dropout.forward(ends.join.forward(joined));
        features.reshape([batch, count, width])
    }

    /// Vectors for the indices in a list of `count` spans: [1, spans, width].
    pub fn slot_vectors(&self, count: usize) -> Option<Tensor<3>> {
        let slots = self.slots.as_ref()?;
        let positions: Vec<usize> = (0..count).collect();
        let [width, _] = slots.inner.weight.dims();
        let waves = sinusoid(&positions, width, &slots.inner.weight.device());
        Some(slots.forward(waves).unsqueeze())
    }

    /// One vector per timestep: [timesteps, width].
    pub fn time_vectors(&self, timesteps: &[usize]) -> Tensor<2> {
        let [width, _] = self.classifier.inner.weight.dims();
        let waves = sinusoid(timesteps, width, &self.classifier.inner.weight.device());
        match &self.time {
            Some(time) => time.forward(waves),
            None => waves,
        }
    }

    /// The span encoder: spans attend to each other and to the words: [batch, spans, width]. `span_bias`, [batch, 1, 1,
    /// spans], is added to the scores of spans in self-attention.
    pub fn attend(
        &self,
        encoded: &EncodedWords,
        mut spans: Tensor<3>,
        span_bias: Option<&Tensor<4>>,
    ) -> Tensor<3> {
        let slots = self.slot_vectors(spans.dims()[1]);
        for (layer, words) in self.layers.iter().zip(&encoded.keys_values) {
            let biases = [span_bias, encoded.bias.as_ref()];
            spans = layer.forward(spans, slots.as_ref(), words, biases);
        }
        spans
    }

    /// f(x_t, S, t): boundaries and types of noisy spans, given as fractions of their sentences, with one timestep per
    /// sentence.
    pub fn denoise(
        &self,
        encoded: &EncodedWords,
        spans: &[&[Pair]],
        timesteps: &[usize],
    ) -> Denoised {
        let states = self.span_states(encoded, spans, None, timesteps);
        let [left, right] = self.boundaries(encoded, spans, states.clone());
        Denoised {
            left,
            right,
            types: self.classifier.forward(states),
        }
    }

    /// States of noisy spans after the span encoder, with their timesteps: [batch, spans, width].
    pub fn span_states(
        &self,
        encoded: &EncodedWords,
        spans: &[&[Pair]],
        span_bias: Option<&Tensor<4>>,
        timesteps: &[usize],
    ) -> Tensor<3> {
        let features = self.span_features(encoded, spans);
        let time = self.time_vectors(timesteps).unsqueeze_dim::<3>(1);
        self.attend(encoded, features, span_bias) + time
    }

    /// Scores of words as the first and as the last one of noisy spans with these states: each [batch, spans, words].
    pub fn boundaries(
        &self,
        encoded: &EncodedWords,
        spans: &[&[Pair]],
        states: Tensor<3>,
    ) -> [Tensor<3>; 2] {
        let masked = |scores: Tensor<3>| match &encoded.bias {
            Some(bias) => {
                let [batch, _, _, words] = bias.dims();
                scores + bias.clone().reshape([batch, 1, words])
            }
            None => scores,
        };
        let near = |scores: Tensor<3>, side: usize| match &self.near {
            Some(near) => scores + self.near_scores(near, encoded, spans, side),
            None => scores,
        };
        let [left, right] = &encoded.pointer_words;
        [
            near(masked(self.left.forward(left, states.clone())), 0),
            near(masked(self.right.forward(right, states)), 1),
        ]
    }

    /// Scores of words by their distance from the first (0) or last (1) word of noisy spans: [batch, spans, words].
    fn near_scores(
        &self,
        near: &Param<Tensor<2>>,
        encoded: &EncodedWords,
        spans: &[&[Pair]],
        side: usize,
    ) -> Tensor<3> {
        let [batch, words, _] = encoded.words.dims();
        let count = spans.first().map_or(0, |spans| spans.len());
        let mut rows = Vec::with_capacity(batch * count * words);
        for (spans, length) in spans.iter().zip(&encoded.lengths) {
            for span in *spans {
                let boundary = self.geometry.words(*span, *length)[side] as isize;
                let distance = |word: usize| (word as isize - boundary).clamp(-FAR, FAR);
                rows.extend((0..words).map(|word| (distance(word) + FAR) as usize));
            }
        }
        let table = near.val().narrow(0, side, 1).transpose(); // [distances, 1]
        select_rows(table, rows).reshape([batch, count, words])
    }
}

/// The score falls by 1 with every word between a word and the boundary of the noisy span.
fn initial_near(device: &Device) -> Param<Tensor<2>> {
    let row: Vec<f32> = (-FAR..=FAR)
        .map(|distance| -(distance.abs() as f32))
        .collect();
    let values = [row.clone(), row].concat();
    Param::from_data(TensorData::new(values, [2, 2 * FAR as usize + 1]), device)
}

/// Sinusoidal position embeddings, sines first: [positions, width].
fn sinusoid(positions: &[usize], width: usize, device: &Device) -> Tensor<2> {
    let half = width / 2;
    let step = 10000f64.ln() / (half.max(2) - 1) as f64;
    let frequency = |index: usize| (-step * index as f64).exp();
    let waves: Vec<f32> = positions
        .iter()
        .flat_map(|position| {
            let angle = move |index| *position as f64 * frequency(index);
            let sines = (0..half).map(move |index| angle(index).sin() as f32);
            sines.chain((0..half).map(move |index| angle(index).cos() as f32))
        })
        .collect();
    Tensor::from_data(TensorData::new(waves, [positions.len(), 2 * half]), device)
}
