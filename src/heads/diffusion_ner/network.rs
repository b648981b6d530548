//! The denoising network: words and noisy spans to boundaries and types.

use std::sync::Arc;

use burn::module::{Initializer, Module};
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::{Device, Tensor, TensorData};

use super::config::{Config, Features, Initial};
use super::decode::Tally;
use super::process::{Geometry, Pair, Schedule};
use super::span_encoder::{Pointer, SpanLayer, TwoLayers};
use crate::encoder::WordStates;
use crate::nn::attention::{KeysValues, zero_bias};
use crate::nn::bilstm::BiLstm;
use crate::nn::mask::MASKED;
use crate::nn::rows::index_tensor;
use crate::text::Labels;

/// The head: a sentence encoder on top of the transformer, and the entity decoder.
#[derive(Module, Debug)]
pub struct DiffusionNer {
    /// Over the words.
    pub lstm: Vec<BiLstm>,
    /// What describes a span by its ends.
    pub ends: Option<Ends>,
    /// Over the sinusoid of a span's place in the list.
    pub slots: Option<TwoLayers>,
    /// The span encoder.
    pub layers: Vec<SpanLayer>,
    /// Over the sinusoid of the timestep.
    pub time: Option<TwoLayers>,
    /// First words.
    pub left: Pointer,
    /// Last words.
    pub right: Pointer,
    /// Types; class 0 is none.
    pub classifier: TwoLayers,
    dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) geometry: Geometry,
    #[module(skip)]
    pub(super) schedule: Arc<Schedule>,
    #[module(skip)]
    pub(super) labels: Labels,
    #[module(skip)]
    pub(super) tally: Arc<Tally>,
}

/// A span from its two end words.
#[derive(Module, Debug)]
pub struct Ends {
    /// First words.
    pub start: Linear,
    /// Last words.
    pub end: Linear,
    /// Both together.
    pub join: Linear,
}

/// A batch of sentences, encoded once for any number of denoising steps: everything that does not depend on spans.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// H: [batch, words, width], 0 past the end.
    pub words: Tensor<3>,
    /// Real words of each sentence.
    pub lengths: Vec<usize>,
    /// `MASKED` past the end, [batch, 1, 1, words]; nothing when there is no padding.
    bias: Option<Tensor<4>>,
    /// Images of the words for the spans' ends.
    ends: Option<[Tensor<3>; 2]>,
    /// Keys and values of the words for each layer.
    looked: Vec<KeysValues>,
    /// Images of the words for the two pointers.
    pointed: [Tensor<3>; 2],
}

/// What the network says about noisy spans.
#[derive(Debug, Clone)]
pub struct Denoised {
    /// Score of each word as the first one: [batch, spans, words]; `MASKED` past the end.
    pub left: Tensor<3>,
    /// The same for the last one.
    pub right: Tensor<3>,
    /// Score of each class: [batch, spans, 1 + types].
    pub types: Tensor<3>,
}

impl DiffusionNer {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let weights = match config.initial {
            Initial::Even => Initializer::KaimingUniform {
                gain: 1.0 / 3f64.sqrt(),
                fan_out_only: false,
            },
            Initial::Normal => Initializer::Normal {
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
            ends: (config.features == Features::Ends).then(|| Ends {
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
            dropout: DropoutConfig::new(config.dropout).init(),
            geometry: Geometry::of(config),
            schedule: Arc::new(Schedule::new(config.variance, config.timesteps)),
            config: config.clone(),
            labels: labels.clone(),
            tally: Arc::default(),
        }
    }

    /// The sentence encoder: the transformer's states through the BiLSTM, and all that spans will ask of them.
    pub fn encode(&self, states: &WordStates) -> Encoded {
        let mut words = states.words.clone();
        for (index, layer) in self.lstm.iter().enumerate() {
            if index > 0 {
                words = self.dropout.forward(words);
            }
            words = layer.forward(words, &states.lengths);
        }
        Encoded {
            bias: padding_bias(&states.lengths, words.dims()[1], &words.device()),
            ends: self.ends.as_ref().map(|ends| {
                [
                    ends.start.forward(words.clone()),
                    ends.end.forward(words.clone()),
                ]
            }),
            looked: self
                .layers
                .iter()
                .map(|layer| {
                    layer
                        .cross_attention
                        .project_keys_values(words.clone(), words.clone())
                })
                .collect(),
            pointed: [
                self.left.words.forward(words.clone()),
                self.right.words.forward(words.clone()),
            ],
            words,
            lengths: states.lengths.clone(),
        }
    }

    /// Noisy spans, given as shares of their sentences, as vectors: [batch, spans, width].
    pub fn span_features(&self, encoded: &Encoded, spans: &[&[Pair]]) -> Tensor<3> {
        let [batch, words, width] = encoded.words.dims();
        let device = encoded.words.device();
        let count = spans.first().map_or(0, |spans| spans.len());
        let places: Vec<[usize; 2]> = spans
            .iter()
            .zip(&encoded.lengths)
            .flat_map(|(spans, length)| {
                let geometry = self.geometry;
                spans.iter().map(move |span| geometry.words(*span, *length))
            })
            .collect();
        let (Some(ends), Some(images)) = (&self.ends, &encoded.ends) else {
            // The mean as a product with [spans, words] weights.
            let mut weights = vec![0f32; batch * count * words];
            for (row, [left, right]) in places.iter().enumerate() {
                let share = 1.0 / (right - left + 1) as f32;
                weights[row * words + left..=row * words + right].fill(share);
            }
            let shape = [batch, count, words];
            let weights = Tensor::<3>::from_data(TensorData::new(weights, shape), &device);
            return self.dropout.forward(weights.matmul(encoded.words.clone()));
        };
        let look_up = |side: usize| {
            let rows: Vec<usize> = places
                .iter()
                .enumerate()
                .map(|(row, place)| row / count * words + place[side])
                .collect();
            let image = images[side].clone().reshape([batch * words, width]);
            self.dropout
                .forward(image.select(0, index_tensor(&rows, &device)))
        };
        let joined = Tensor::cat(vec![look_up(0), look_up(1)], 1);
        let features = self.dropout.forward(ends.join.forward(joined));
        features.reshape([batch, count, width])
    }

    /// Vectors for the places in a list of so many spans: [1, spans, width].
    pub fn slot_vectors(&self, count: usize) -> Option<Tensor<3>> {
        let slots = self.slots.as_ref()?;
        let places: Vec<usize> = (0..count).collect();
        let [width, _] = slots.inner.weight.dims();
        let waves = sinusoid(&places, width, &slots.inner.weight.device());
        Some(slots.forward(waves).unsqueeze())
    }

    /// One vector a timestep: [timesteps, width].
    pub fn time_vectors(&self, timesteps: &[usize]) -> Tensor<2> {
        let [width, _] = self.classifier.inner.weight.dims();
        let waves = sinusoid(timesteps, width, &self.classifier.inner.weight.device());
        match &self.time {
            Some(time) => time.forward(waves),
            None => waves,
        }
    }

    /// Spans that know each other and the sentence: [batch, spans, width].
    pub fn attend(&self, encoded: &Encoded, mut spans: Tensor<3>) -> Tensor<3> {
        let slots = self.slot_vectors(spans.dims()[1]);
        for (layer, looked) in self.layers.iter().zip(&encoded.looked) {
            spans = layer.forward(spans, slots.as_ref(), looked, encoded.bias.as_ref());
        }
        spans
    }

    /// f(x_t, S, t): what noisy spans, as shares of their sentences, really are. One timestep a sentence.
    pub fn denoise(&self, encoded: &Encoded, spans: &[&[Pair]], timesteps: &[usize]) -> Denoised {
        let features = self.span_features(encoded, spans);
        let time = self.time_vectors(timesteps).unsqueeze_dim::<3>(1);
        self.read(encoded, self.attend(encoded, features) + time)
    }

    /// Boundaries and types of spans that went through the span encoder.
    pub fn read(&self, encoded: &Encoded, spans: Tensor<3>) -> Denoised {
        let masked = |scores: Tensor<3>| match &encoded.bias {
            Some(bias) => {
                let [batch, _, _, words] = bias.dims();
                scores + bias.clone().reshape([batch, 1, words])
            }
            None => scores,
        };
        let [left, right] = &encoded.pointed;
        Denoised {
            left: masked(self.left.forward(left, spans.clone())),
            right: masked(self.right.forward(right, spans.clone())),
            types: self.classifier.forward(spans),
        }
    }
}

fn padding_bias(lengths: &[usize], words: usize, device: &Device) -> Option<Tensor<4>> {
    if lengths.iter().all(|length| *length == words) {
        return None;
    }
    let bias: Vec<f32> = lengths
        .iter()
        .flat_map(|length| (0..words).map(move |word| if word < *length { 0.0 } else { MASKED }))
        .collect();
    Some(Tensor::<1>::from_floats(bias.as_slice(), device).reshape([lengths.len(), 1, 1, words]))
}

/// Waves of falling frequency, sines first: [numbers, width].
fn sinusoid(numbers: &[usize], width: usize, device: &Device) -> Tensor<2> {
    let half = width / 2;
    let step = 10000f64.ln() / (half.max(2) - 1) as f64;
    let frequency = |index: usize| (-step * index as f64).exp();
    let waves: Vec<f32> = numbers
        .iter()
        .flat_map(|number| {
            let angle = move |index| *number as f64 * frequency(index);
            let sines = (0..half).map(move |index| angle(index).sin() as f32);
            sines.chain((0..half).map(move |index| angle(index).cos() as f32))
        })
        .collect();
    Tensor::from_data(TensorData::new(waves, [numbers.len(), 2 * half]), device)
}
