//! One transformer for the whole BERT family: BERT, RoBERTa, ELECTRA and DistilBERT differ in names, in where
//! positions start and in whether token types and an embedding projection exist, not in arithmetic.

use std::sync::Arc;

use burn::module::{Initializer, Module};
use burn::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear,
    LinearConfig,
};
use burn::tensor::activation::{gelu_approximate, relu, softmax};
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::nn::activation::gelu;
use crate::nn::fused;
use crate::nn::fused::embedding::{Foot, look_up};

/// Added to the scores of padding before the softmax; small enough to vanish, large enough to stay finite.
const MASKED: f32 = -1e9;

/// Which member of the family a set of weights belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// BERT and everything with its layout.
    Bert,
    /// RoBERTa: positions start after the padding id.
    Roberta,
    /// ELECTRA: embeddings may be narrower than the layers.
    Electra,
    /// DistilBERT: no token types, other names.
    DistilBert,
}

/// The feed-forward activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Exact GELU.
    Gelu,
    /// GELU with the tanh approximation.
    GeluNew,
    /// Rectifier.
    Relu,
}

/// Sizes of a transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// The member of the family.
    pub family: Family,
    /// Number of word pieces.
    pub vocabulary: usize,
    /// Width of the embeddings; a projection follows when it differs from `width`.
    pub embedding_width: usize,
    /// Width of the layers.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    /// Rows of the position table.
    pub positions: usize,
    /// Rows of the token-type table; 0 for none.
    pub token_types: usize,
    /// Id of the padding piece.
    pub padding: usize,
    /// Layer-norm epsilon.
    pub norm_epsilon: f64,
    /// Dropout after embeddings and sub-layers.
    pub dropout: f64,
    /// Dropout on attention weights.
    pub attention_dropout: f64,
    /// Feed-forward activation.
    pub activation: Activation,
}

impl TransformerConfig {
    /// Where the first piece's position stands in the table.
    fn first_position(&self) -> usize {
        match self.family {
            Family::Roberta => self.padding + 1,
            _ => 0,
        }
    }

    /// How many pieces (special ones included) fit into one window.
    pub fn window(&self) -> usize {
        self.positions.saturating_sub(self.first_position())
    }

    /// A transformer with fresh weights.
    pub fn init(&self, device: &Device) -> Transformer {
        let normal = Initializer::Normal {
            mean: 0.0,
            std: 0.02,
        };
        let embedding = |rows| {
            EmbeddingConfig::new(rows, self.embedding_width)
                .with_initializer(normal.clone())
                .init(device)
        };
        let linear = |from, to| {
            LinearConfig::new(from, to)
                .with_initializer(normal.clone())
                .init(device)
        };
        let norm = |width| {
            LayerNormConfig::new(width)
                .with_epsilon(self.norm_epsilon)
                .init(device)
        };
        let layer = || Layer {
            query: linear(self.width, self.width),
            key: linear(self.width, self.width),
            value: linear(self.width, self.width),
            attention_output: linear(self.width, self.width),
            attention_norm: norm(self.width),
            feed_forward_inner: linear(self.width, self.feed_forward),
            feed_forward_outer: linear(self.feed_forward, self.width),
            feed_forward_norm: norm(self.width),
            dropout: DropoutConfig::new(self.dropout).init(),
            attention_dropout: DropoutConfig::new(self.attention_dropout).init(),
            heads: self.heads,
            activation: self.activation,
            norm_epsilon: self.norm_epsilon as f32,
        };
        Transformer {
            word_embeddings: embedding(self.vocabulary),
            position_embeddings: embedding(self.positions),
            token_type_embeddings: (self.token_types > 0).then(|| embedding(self.token_types)),
            embedding_norm: norm(self.embedding_width),
            projection: (self.embedding_width != self.width)
                .then(|| linear(self.embedding_width, self.width)),
            dropout: DropoutConfig::new(self.dropout).init(),
            layers: (0..self.layers).map(|_| layer()).collect(),
            first_position: self.first_position(),
            norm_epsilon: self.norm_epsilon as f32,
        }
    }
}

/// Embeddings and layers.
#[derive(Module, Debug)]
pub struct Transformer {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Option<Embedding>,
    embedding_norm: LayerNorm,
    projection: Option<Linear>,
    dropout: Dropout,
    layers: Vec<Layer>,
    #[module(skip)]
    first_position: usize,
    #[module(skip)]
    norm_epsilon: f32,
}

/// One state a piece, row after row.
#[derive(Debug, Clone)]
pub struct PieceStates {
    /// [all rows' pieces, width]; what stands between rows is padding.
    pub states: Tensor<2>,
    /// Where each row starts, its prompts first.
    starts: Vec<usize>,
    /// Prompts of each row.
    prompts: usize,
}

impl PieceStates {
    /// The place of a row's prompt.
    pub fn prompt(&self, row: usize, index: usize) -> usize {
        self.starts[row] + index
    }

    /// The place of a row's piece.
    pub fn piece(&self, row: usize, column: usize) -> usize {
        self.starts[row] + self.prompts + column
    }
}

#[derive(Module, Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    feed_forward_inner: Linear,
    feed_forward_outer: Linear,
    feed_forward_norm: LayerNorm,
    dropout: Dropout,
    attention_dropout: Dropout,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    norm_epsilon: f32,
}

impl Transformer {
    /// The device its weights are on.
    pub fn device(&self) -> Device {
        self.word_embeddings.weight.device()
    }

    /// States after the last `average` layers, averaged. `ids` are rows of equally many pieces, `lengths` the real
    /// pieces of each; `prompt`, [prompts, embedding width], stands before the first piece of every row as if it had
    /// been looked up.
    pub fn forward(
        &self,
        ids: &[i32],
        lengths: &[usize],
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let device = self.device();
        let gelu = (self.layers.iter()).all(|layer| layer.activation == Activation::Gelu);
        if gelu && fused::runs_on(&device) {
            return self.packed(ids, lengths, prompt, average);
        }
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let columns = ids.len() / lengths.len().max(1);
        let ids = Tensor::<1, Int>::from_ints(ids, &device).reshape([lengths.len(), columns]);
        let bias = padding_bias(&ids, lengths, prompts);
        let states = self.embed(ids, prompt);
        let states = self.climb(states, average, |_, layer, states| {
            layer.forward(states, bias.as_ref())
        });
        let [rows, columns, width] = states.dims();
        PieceStates {
            states: states.reshape([rows * columns, width]),
            starts: (0..rows).map(|row| row * columns).collect(),
            prompts,
        }
    }

    /// Through all layers; the mean of the states after the last `average`.
    fn climb<const D: usize>(
        &self,
        mut states: Tensor<D>,
        average: usize,
        run: impl Fn(usize, &Layer, Tensor<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        let average = average.clamp(1, self.layers.len().max(1));
        let first = self.layers.len().saturating_sub(average);
        let mut sum: Option<Tensor<D>> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            states = run(index, layer, states);
            if average > 1 && index >= first {
                sum = Some(match sum {
                    None => states.clone(),
                    Some(sum) => sum + states.clone(),
                });
            }
        }
        match sum {
            Some(sum) => sum / average as f32,
            None => states,
        }
    }

    /// The same through kernels, the rows one after the other without padding.
    fn packed(
        &self,
        ids: &[i32],
        lengths: &[usize],
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let device = self.device();
        let seed = device.is_autodiff().then(|| fused::seed(&device));
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let columns = ids.len() / lengths.len().max(1);
        let rows = lengths.iter().enumerate();
        let real = rows.flat_map(|(row, length)| &ids[row * columns..][..*length]);
        let real: Vec<usize> = real.map(|id| *id as usize).collect();
        let mut embedded = look_up(self.word_embeddings.weight.val(), real);
        let lengths: Arc<Vec<usize>> = Arc::new(lengths.iter().map(|l| prompts + l).collect());
        if let Some(prompt) = prompt {
            // The prompt's rows stand before all looked up; each sequence takes them and its own.
            let all = Tensor::cat(vec![prompt, embedded], 0);
            let mut next = prompts;
            let places = lengths.iter().flat_map(|length| {
                let own = next..next + length - prompts;
                next = own.end;
                (0..prompts).chain(own)
            });
            embedded = look_up(all, places.collect());
        }
        let first = self.first_position;
        let foot = Foot {
            places: (lengths.iter())
                .flat_map(|length| first..first + length)
                .collect(),
            epsilon: self.norm_epsilon,
            dropout: seed.map(|seed| Foot::dropout(seed, self.dropout.prob)),
        };
        let width = self.embedding_norm.gamma.dims()[0];
        let kind = match &self.token_type_embeddings {
            Some(table) => table.weight.val().narrow(0, 0, 1).reshape([width]),
            None => Tensor::zeros([width], &device),
        };
        let positions = self.position_embeddings.weight.val();
        let mut states = foot.run(embedded, positions, kind, norm(&self.embedding_norm));
        if let Some(projection) = &self.projection {
            states = projection.forward(states);
        }
        let states = self.climb(states, average, |index, layer, states| {
            layer.packed(index, states, &lengths, seed)
        });
        let mut next = 0;
        let starts = lengths.iter().map(|length| {
            next += length;
            next - length
        });
        PieceStates {
            states,
            starts: starts.collect(),
            prompts,
        }
    }

    fn embed(&self, ids: Tensor<2, Int>, prompt: Option<Tensor<2>>) -> Tensor<3> {
        let device = ids.device();
        let mut embedded = self.word_embeddings.forward(ids);
        if let Some(prompt) = prompt {
            let [rows, _, width] = embedded.dims();
            let prompts = prompt.dims()[0];
            let prompt = prompt.unsqueeze::<3>().expand([rows, prompts, width]);
            embedded = Tensor::cat(vec![prompt, embedded], 1);
        }
        let [_, pieces, _] = embedded.dims();
        let positions = Tensor::<1, Int>::arange(
            self.first_position as i64..(self.first_position + pieces) as i64,
            &device,
        );
        // Every row has the same positions and token types: one [1, pieces, width] addend serves all.
        let mut addend = self.position_embeddings.forward(positions.unsqueeze());
        if let Some(token_types) = &self.token_type_embeddings {
            addend = addend + token_types.forward(Tensor::zeros([1, 1], &device));
        }
        let states = self.embedding_norm.forward(embedded + addend);
        let states = self.dropout.forward(states);
        match &self.projection {
            Some(projection) => projection.forward(states),
            None => states,
        }
    }
}

/// [rows, 1, 1, prompts + pieces] with `MASKED` on padding, or nothing when there is no padding.
fn padding_bias(ids: &Tensor<2, Int>, lengths: &[usize], prompts: usize) -> Option<Tensor<4>> {
    let [rows, pieces] = ids.dims();
    if lengths.iter().all(|length| *length == pieces) {
        return None;
    }
    let pieces = prompts + pieces;
    let mut bias = vec![0f32; rows * pieces];
    for (row, length) in lengths.iter().enumerate() {
        bias[row * pieces + prompts + length..(row + 1) * pieces].fill(MASKED);
    }
    Some(Tensor::<1>::from_floats(bias.as_slice(), &ids.device()).reshape([rows, 1, 1, pieces]))
}

/// A norm's gain and shift.
fn norm(norm: &LayerNorm) -> [Tensor<1>; 2] {
    let shift = norm.beta.as_ref().map(|beta| beta.val());
    let gain = norm.gamma.val();
    let zeros = || Tensor::zeros(gain.dims(), &gain.device());
    [gain.clone(), shift.unwrap_or_else(zeros)]
}

impl Layer {
    /// The whole layer as one kernel.
    fn packed(
        &self,
        index: usize,
        states: Tensor<2>,
        lengths: &Arc<Vec<usize>>,
        seed: Option<u32>,
    ) -> Tensor<2> {
        let [_, width] = states.dims();
        let linear = |linear: &Linear| {
            let weight = linear.weight.val();
            let zeros = || Tensor::zeros([weight.dims()[1]], &weight.device());
            let bias = linear.bias.as_ref().map(|bias| bias.val());
            (weight.clone(), bias.unwrap_or_else(zeros))
        };
        let dropout = |seed| {
            let (attention, sublayer) = (self.attention_dropout.prob, self.dropout.prob);
            fused::layer::Layer::dropout(seed, index, attention, sublayer)
        };
        let kernel = fused::layer::Layer {
            lengths: lengths.clone(),
            heads: self.heads,
            width,
            inner: self.feed_forward_inner.weight.dims()[1],
            epsilon: self.norm_epsilon,
            dropout: seed.map(dropout),
        };
        let weights = fused::layer::Weights {
            linear: [
                &self.query,
                &self.key,
                &self.value,
                &self.attention_output,
                &self.feed_forward_inner,
                &self.feed_forward_outer,
            ]
            .map(linear),
            norms: [&self.attention_norm, &self.feed_forward_norm].map(norm),
        };
        kernel.run(states, weights)
    }

    fn forward(&self, states: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        let attended = self.dropout.forward(self.attend(states.clone(), bias));
        let states = self.attention_norm.forward(states + attended);
        let inner = self.feed_forward_inner.forward(states.clone());
        let inner = match self.activation {
            Activation::Gelu => gelu(inner),
            Activation::GeluNew => gelu_approximate(inner),
            Activation::Relu => relu(inner),
        };
        let outer = self.dropout.forward(self.feed_forward_outer.forward(inner));
        self.feed_forward_norm.forward(states + outer)
    }

    fn attend(&self, states: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        let [rows, pieces, width] = states.dims();
        let depth = width / self.heads;
        let split = |tensor: Tensor<3>| -> Tensor<4> {
            tensor
                .reshape([rows, pieces, self.heads, depth])
                .swap_dims(1, 2)
        };
        // Scaling the queries touches fewer numbers than scaling the scores.
        let query = split(self.query.forward(states.clone()) / (depth as f32).sqrt());
        let key = split(self.key.forward(states.clone()));
        let value = split(self.value.forward(states));
        let mut scores = query.matmul(key.transpose()); // [rows, heads, pieces, pieces]
        if let Some(bias) = bias {
            scores = scores + bias.clone();
        }
        let weights = self.attention_dropout.forward(softmax(scores, 3));
        let mixed = weights
            .matmul(value)
            .swap_dims(1, 2)
            .reshape([rows, pieces, width]);
        self.attention_output.forward(mixed)
    }
}
