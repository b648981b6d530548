//! The layers of BOPN: from types and words to a score for every type, span and offset label.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Dropout, DropoutConfig, Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};

use super::config::Config;
use super::convolution::Convolutions;
use super::direct::{DirectScores, EncoderStates};
use super::target::{Offset, OffsetScheme};
use crate::encoder::WordStates;
use crate::nn::biaffine::Biaffine;
use crate::nn::bilstm::BiLstm;
use crate::nn::conditional_norm::ConditionalNorm;
use crate::text::Labels;

/// Rows of the distance embedding: nine buckets below the diagonal, nine above it, the diagonal, and padding.
pub(super) const DISTANCES: usize = 20;

/// The number of grid cells that are scored at once without autodiff. The size of a grid grows with the square of the
/// sentence length: without a limit a batch of long sentences would need gigabytes.
pub(super) const CELLS: usize = 1 << 16;

/// The initial factor of the scores that are not computed directly from the encoder's states.
const INITIAL_GAIN: f32 = 0.1;

/// The boundary offset prediction network: scores of offset labels for every type and span.
#[derive(Module, Debug)]
pub struct Bopn {
    /// One vector per type: encoded with the sentence, [types, encoder width], or without `type_input` an input of the
    /// scorer, [types, lstm width].
    pub types: Param<Tensor<2>>,
    /// BiLSTM over types and words.
    pub lstm: BiLstm,
    /// The vector of a span: its start word normalised conditionally on its end word.
    pub span_norm: ConditionalNorm,
    /// Embedding of the region: (padding,) below the diagonal, on or above it.
    pub region: Option<Embedding>,
    /// Embedding of the distance between start and end.
    pub distance: Option<Embedding>,
    /// Biaffine scorer of types and spans.
    pub biaffine: Biaffine,
    /// The second score of the released code.
    pub type_norm: Option<TypeNorm>,
    /// Convolutions over types, starts and ends.
    pub convolutions: Option<Convolutions>,
    /// Scores directly from the encoder's states.
    pub direct: Option<DirectScores>,
    /// With `direct`, a factor of all other scores of each label. It starts small: the other layers are random at first.
    pub gain: Option<Param<Tensor<1>>>,
    /// The initial bias of the labels, learned from there.
    pub initial_bias: Option<Param<Tensor<1>>>,
    lstm_dropout: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    #[module(skip)]
    pub(super) scheme: OffsetScheme,
    #[module(skip)]
    pub(super) labels: Labels,
}

/// The second score of the released code, from the type normalised conditionally on the span.
#[derive(Module, Debug)]
pub struct TypeNorm {
    /// Normalises the type's vector conditionally on the span's.
    pub norm: ConditionalNorm,
    /// From the normalised vector to offset labels.
    pub output: Linear,
}

/// The inputs of the scorer: types and words of a batch after the BiLSTM.
#[derive(Debug, Clone)]
pub struct TypesAndWords {
    /// The encoder's states, if scores are computed from them directly.
    pub encoder: Option<EncoderStates>,
    /// [batch, types, lstm width].
    pub types: Tensor<3>,
    /// [batch, words, lstm width]; 0 on padding.
    pub words: Tensor<3>,
    /// The number of words of each sentence.
    pub lengths: Vec<usize>,
}

impl TypesAndWords {
    /// Splits the batch into parts to be scored one after the other. With autodiff it is not split, as the graph keeps all
    /// tensors anyway.
    pub(super) fn parts(self) -> Vec<Self> {
        let [batch, words, _] = self.words.dims();
        let step = (CELLS / (words * words)).max(1);
        if step >= batch || self.words.device().is_autodiff() {
            return vec![self];
        }
        (0..batch)
            .step_by(step)
            .map(|first| {
                let count = step.min(batch - first);
                Self {
                    encoder: (self.encoder.as_ref()).map(|states| states.narrow(first, count)),
                    types: self.types.clone().narrow(0, first, count),
                    words: self.words.clone().narrow(0, first, count),
                    lengths: self.lengths[first..first + count].to_vec(),
                }
            })
            .collect()
    }
}

impl Bopn {
    pub(super) fn new(config: &Config, width: usize, labels: &Labels, device: &Device) -> Self {
        let scheme = OffsetScheme::of(config);
        let hidden = config.lstm_width;
        let features = hidden + config.region_width + config.distance_width;
        let type_width = if config.type_input { width } else { hidden };
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 1.0,
        };
        let embedding = |rows: usize, width: usize| {
            (width > 0).then(|| EmbeddingConfig::new(rows, width).init(device))
        };
        let regions = 2 + usize::from(config.padding_region);
        Self {
            types: normal.init([labels.len(), type_width], device),
            lstm: BiLstm::new(width, hidden / 2, device),
            span_norm: ConditionalNorm::new(hidden, hidden, device),
            region: embedding(regions, config.region_width),
            distance: embedding(DISTANCES, config.distance_width),
            biaffine: Biaffine::new(
                [hidden, features],
                config.biaffine_width,
                scheme.len(),
                config.biaffine_dropout,
                device,
            ),
            type_norm: config.type_norm.then(|| TypeNorm {
                norm: ConditionalNorm::new(hidden, features, device),
                output: LinearConfig::new(hidden, scheme.len()).init(device),
            }),
            convolutions: (config.convolutions > 0)
                .then(|| Convolutions::new(config, scheme.len(), device)),
            direct: (config.direct)
                .then(|| DirectScores::new(width, scheme.len() * labels.len(), device)),
            gain: (config.direct).then(|| {
                let gain = TensorData::new(vec![INITIAL_GAIN; scheme.len()], [scheme.len()]);
                Param::from_data(gain, device)
            }),
            initial_bias: (config.initial_out > 0.0).then(|| initial_bias(config, &scheme, device)),
            lstm_dropout: DropoutConfig::new(config.lstm_dropout).init(),
            config: config.clone(),
            scheme,
            labels: labels.clone(),
        }
    }

    /// The type vectors to be encoded with the sentence, if `type_input` is on.
    pub(super) fn type_prompt(&self) -> Option<Tensor<2>> {
        self.config.type_input.then(|| self.types.val())
    }

    /// Types and words after the BiLSTM.
    pub fn encode(&self, states: &WordStates) -> TypesAndWords {
        let [batch, words, _] = states.words.dims();
        let (input, first) = match (self.config.type_input, &states.prompts) {
            (true, Some(prompts)) => {
                let both = Tensor::cat(vec![prompts.clone(), states.words.clone()], 1);
                (both, self.labels.len())
            }
            _ => (states.words.clone(), 0),
        };
        let lengths: Vec<usize> = states.lengths.iter().map(|length| first + length).collect();
        let output = self
            .lstm
            .forward(self.lstm_dropout.forward(input), &lengths);
        let types = match first {
            0 => {
                let [types, width] = self.types.dims();
                self.types
                    .val()
                    .unsqueeze::<3>()
                    .expand([batch, types, width])
            }
            _ => output.clone().narrow(1, 0, first),
        };
        TypesAndWords {
            encoder: self.direct.as_ref().map(|_| EncoderStates {
                words: states.words.clone(),
                sentence: states.sentence.clone(),
            }),
            types,
            words: output.narrow(1, first, words),
            lengths: states.lengths.clone(),
        }
    }

    /// v_ij: each word i as a start, normalised conditionally on each word j as an end: [batch, words, words, lstm width].
    pub fn spans(&self, encoded: &TypesAndWords) -> Tensor<4> {
        self.span_norm
            .forward_pairs(encoded.words.clone(), encoded.words.clone())
    }

    /// v̂_ij: spans with the embeddings of distance and region: [batch, words, words, features].
    pub fn span_features(&self, encoded: &TypesAndWords) -> Tensor<4> {
        let spans = self.spans(encoded);
        let [batch, words, _, _] = spans.dims();
        let device = spans.device();
        let mut parts = vec![spans];
        let tables = [
            self.distance.as_ref().map(|table| (table, true)),
            self.region.as_ref().map(|table| (table, false)),
        ];
        for (table, by_distance) in tables.into_iter().flatten() {
            let row = |start: usize, end: usize| {
                if by_distance {
                    distance(start, end)
                } else {
                    i32::from(start <= end) + i32::from(self.config.padding_region)
                }
            };
            // If padding is masked, its rows do not matter: all sentences share one grid.
            let lengths = if self.config.mask_convolution || !self.config.padding_region {
                &[words][..]
            } else {
                &encoded.lengths
            };
            let mut rows = Vec::with_capacity(lengths.len() * words * words);
            for length in lengths {
                for start in 0..words {
                    rows.extend((0..words).map(|end| {
                        if start.max(end) < *length {
                            row(start, end)
                        } else {
                            0
                        }
                    }));
                }
            }
            let shape = [lengths.len(), words * words];
            let rows = Tensor::<2, Int>::from_data(TensorData::new(rows, shape), &device);
            let width = table.weight.dims()[1];
            let embedded = table.forward(rows);
            parts.push(
                embedded
                    .reshape([lengths.len(), words, words, width])
                    .expand([batch, words, words, width]),
            );
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Tensor::cat(parts, 3),
        }
    }

    /// Scores before the convolutions: [batch, offset labels, types, words, words].
    pub fn scores(&self, encoded: &TypesAndWords) -> Tensor<5> {
        let [batch, words, _] = encoded.words.dims();
        let [_, types, _] = encoded.types.dims();
        let features = self.span_features(encoded);
        let width = features.dims()[3];
        let features = features.reshape([batch, words * words, width]);
        let mut scores = self
            .biaffine
            .forward(encoded.types.clone(), features.clone()); // [batch, labels · types, words²]
        if let Some(type_norm) = &self.type_norm {
            let output = type_norm.output.weight.val().transpose(); // [labels, lstm width]
            let (weight, bias) = type_norm.norm.fold_linear(encoded.types.clone(), output);
            scores = scores + weight.matmul(features.transpose()) + bias;
        }
        let scores = scores.reshape([batch, self.scheme.len(), types, words, words]);
        match self
            .type_norm
            .as_ref()
            .and_then(|norm| norm.output.bias.as_ref())
        {
            Some(bias) => scores + bias.val().reshape([1, self.scheme.len(), 1, 1, 1]),
            None => scores,
        }
    }

    /// Final scores: [batch, offset labels, types, words, words].
    pub fn logits(&self, encoded: &TypesAndWords) -> Tensor<5> {
        let mut scores = self.scores(encoded);
        if let Some(convolutions) = &self.convolutions {
            let masked = self.config.mask_convolution;
            let lengths = masked.then_some(encoded.lengths.as_slice());
            scores = convolutions.forward(scores, lengths);
        }
        let by_label = |values: &Param<Tensor<1>>| -> Tensor<5> {
            values.val().reshape([1, self.scheme.len(), 1, 1, 1])
        };
        if let Some(gain) = &self.gain {
            scores = scores * by_label(gain);
        }
        if let (Some(direct), Some(states)) = (&self.direct, &encoded.encoder) {
            scores = scores + direct.forward(states, &encoded.lengths, self.scheme.len());
        }
        match &self.initial_bias {
            Some(bias) => scores + by_label(bias),
            None => scores,
        }
    }

    /// Joint scores of none and the types of each span, from final scores: [batch, 1 + types, words²]. The score of a type
    /// is that of its centre relative to "out of range".
    pub(super) fn joint_scores(&self, logits: Tensor<5>, none_score: f64) -> Tensor<3> {
        let [batch, _, types, words, _] = logits.dims();
        let centre = self.scheme.id(Offset::Centre).unwrap_or(0);
        let scores = logits.clone().narrow(1, centre, 1) - logits.narrow(1, 0, 1);
        let scores = scores.reshape([batch, types, words * words]);
        let none = Tensor::full([batch, 1, words * words], none_score, &scores.device());
        Tensor::cat(vec![none, scores], 1)
    }
}

/// Log-odds of "out of range" against each other label, all of which are equally probable.
fn initial_bias(config: &Config, scheme: &OffsetScheme, device: &Device) -> Param<Tensor<1>> {
    let labels = scheme.len();
    let others = (1.0 - config.initial_out) / (labels - 1).max(1) as f64;
    let mut bias = vec![0f32; labels];
    bias[0] = (config.initial_out / others).ln() as f32;
    Param::from_data(TensorData::new(bias, [labels]), device)
}

/// The row of the distance embedding: 19 on the diagonal, 1 to 9 below it and 10 to 18 above it, in buckets that double in size.
pub(super) fn distance(start: usize, end: usize) -> i32 {
    let bucket = |difference: usize| (1 + difference.ilog2()).min(9) as i32;
    match start.cmp(&end) {
        std::cmp::Ordering::Greater => bucket(start - end),
        std::cmp::Ordering::Less => bucket(end - start) + 9,
        std::cmp::Ordering::Equal => 19,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_fall_into_buckets() {
        let below: Vec<i32> = [1, 2, 3, 4, 7, 8, 127, 128, 255, 256, 900]
            .map(|far| distance(far, 0))
            .to_vec();
        assert_eq!(below, [1, 2, 2, 3, 3, 4, 7, 8, 8, 9, 9]);
        assert_eq!(
            [distance(0, 1), distance(5, 5), distance(0, 300)],
            [10, 19, 18]
        );
    }
}
