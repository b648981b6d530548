//! One transformer for all families of encoders. What a family has beyond BERT's layers is its [`Layout`].
//!
//! On the CPU it runs on packed rows through fused kernels; on other devices on padded rows through Burn's operations.

mod check;
mod config;
mod convolution;
mod int8;
mod layer;
mod layout;
mod pre_norm;
mod recompute;
mod relative;
mod rotary_attention;
mod states;

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Dropout, Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};

pub use check::{LIMITS, Limit, SizeError};
pub use config::{Activation, EncoderFamily, TransformerConfig};
use convolution::Convolution;
use int8::Int8Embeddings;
pub use int8::{Int8Kind, Int8Source, int8_kind};
use layer::{EncoderLayer, KernelOptions};
pub use layout::{
    AlbertLayout, DebertaConvolution, DebertaLayout, Layout, ModernbertLayout, MpnetLayout,
};
use pre_norm::ByAttention;
pub use recompute::Recomputation;
pub(in crate::encoder) use relative::MPNET_BUCKETS;
use relative::RelativePositions;
use rotary_attention::PaddedAttention;
pub use states::PieceStates;

use super::batching::{PackedRows, starts};
use crate::nn::fused;
use crate::nn::fused::embedding::{EmbeddingSum, look_up};
use crate::nn::mask::attention_bias;
use crate::nn::precision::Precision;

/// How a transformer computes in training. Without autodiff it always computes in f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Execution {
    /// Format of matrix products and activations. Fused kernels compute in f32 only.
    pub precision: Precision,
    /// Keep only the input of each layer for the backward pass, and compute the layer again there.
    pub recompute: bool,
    /// Use Burn's operations even where there are fused kernels.
    pub without_kernels: bool,
}

/// Embeddings and transformer layers.
#[derive(Module, Debug)]
pub struct Transformer {
    word_embeddings: Embedding,
    position_embeddings: Option<Embedding>,
    token_type_embeddings: Option<Embedding>,
    embedding_norm: LayerNorm,
    projection: Option<Linear>,
    relative_embeddings: Option<Embedding>,
    relative_norm: Option<LayerNorm>,
    convolution: Option<Convolution>,
    dropout: Dropout,
    layers: Vec<EncoderLayer>,
    final_norm: Option<LayerNorm>,
    /// The layer that makes each hidden state from the one before; some families use layers several times.
    #[module(skip)]
    order: Vec<usize>,
    #[module(skip)]
    layout: Layout,
    #[module(skip)]
    first_position: usize,
    #[module(skip)]
    norm_epsilon: f32,
    /// Weights in eight bits, in place of those of the embeddings and linear layers.
    #[module(skip)]
    int8: Option<Arc<Int8Embeddings>>,
    /// How it computes in training.
    #[module(skip)]
    pub execution: Execution,
}

/// What all layers need to run on a batch of padded rows.
#[derive(Clone)]
struct PaddedBatch {
    /// Length of each row, prompts included.
    lengths: Vec<usize>,
    /// Added to the attention scores: `[rows or 1, heads or 1, pieces or 1, pieces]`.
    bias: Option<Tensor<4>>,
    positions: Option<RelativePositions>,
    rotary: Arc<ByAttention<PaddedAttention>>,
}

impl Transformer {
    /// The device that the weights are on.
    pub fn device(&self) -> Device {
        self.word_embeddings.weight.lazy_device()
    }

    /// The structure of the layers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Encodes rows of pieces. The states are the mean of the outputs of the last `average` layers. The vectors of
    /// `prompt` stand before the first piece of every row, like embeddings of pieces. If embeddings are narrower than the
    /// layers, the transpose of the projection that follows them makes these vectors as narrow.
    ///
    /// # Shapes
    /// - prompt: `[prompts, width]`
    pub fn forward(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let prompt = prompt.map(|prompt| self.narrowed(prompt));
        if self.uses_kernels() {
            self.forward_packed(rows, prompt, average)
        } else {
            self.forward_padded(rows, prompt, average)
        }
    }

    /// Whether there is a kernel for its layers: that of layers with rotary positions computes GELU only.
    fn has_kernels(&self) -> bool {
        (self.layers.iter())
            .all(|layer| layer.rotary.is_none() || layer.activation == Activation::Gelu)
    }

    /// Whether the layers run as fused kernels on packed rows.
    pub fn uses_kernels(&self) -> bool {
        let is_chosen = self.has_kernels()
            && !self.execution.without_kernels
            && self.precision() == Precision::F32
            && fused::runs_on(&self.device());
        self.is_int8() || is_chosen
    }

    /// Format of matrix products and activations on the device that the weights are on.
    fn precision(&self) -> Precision {
        if self.device().is_autodiff() {
            self.execution.precision
        } else {
            Precision::F32
        }
    }

    /// Encodes rows of pieces by Burn's operations, all rows padded to the longest.
    fn forward_padded(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let batch = self.padded_batch(rows, prompts);
        let states = self.embed(rows, prompt);
        let states = self.run_layers(states, average, |index, layer, states| {
            self.run_padded_layer(index, layer, states, &batch)
        });
        padded_states(states, rows, prompts)
    }

    /// What all layers need to run on these rows, each with so many prompt vectors before it.
    fn padded_batch(&self, rows: &PackedRows, prompts: usize) -> PaddedBatch {
        let device = self.device();
        let lengths = with_prompts(rows, prompts);
        let pieces = prompts + rows.width();
        let mut bias = attention_bias(&lengths, pieces, &device);
        let positions = self.relative_positions(pieces);
        if let (Layout::Mpnet(_), Some(positions)) = (&self.layout, &positions) {
            // All layers have the same.
            let relative = positions.bias();
            bias = Some(match bias {
                Some(bias) => bias + relative,
                None => relative,
            });
        }
        PaddedBatch {
            rotary: Arc::new(ByAttention::padded(&self.layers, &lengths, pieces, &device)),
            lengths,
            bias,
            positions,
        }
    }

    /// Runs one application of a layer by Burn's operations; `index` is its number, from 0 on.
    fn run_padded_layer(
        &self,
        index: usize,
        layer: &EncoderLayer,
        states: Tensor<3>,
        batch: &PaddedBatch,
    ) -> Tensor<3> {
        let precision = self.precision();
        if let Some(attention) = batch.rotary.of(layer) {
            return layer.forward_pre_norm(states, attention, precision);
        }
        let (bias, positions) = (batch.bias.as_ref(), batch.positions.as_ref());
        let run = |states| layer.forward(states, bias, positions, precision);
        match &self.convolution {
            Some(convolution) if index == 0 => {
                let output = run(states.clone());
                convolution.forward(states, output, &batch.lengths)
            }
            _ => run(states),
        }
    }

    /// Encodes rows of pieces through fused kernels, without padding.
    fn forward_packed(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let device = self.device();
        let seed = device.is_autodiff().then(|| fused::seed(&device));
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let lengths = Arc::new(with_prompts(rows, prompts));
        let states = self.embed_packed(rows, prompt, &lengths, seed);
        let positions = self.relative_positions(lengths.iter().copied().max().unwrap_or(0));
        let rotary = ByAttention::packed(&self.layers, &lengths);
        let kernel = KernelOptions {
            lengths: &lengths,
            seed,
            recompute: self.execution.recompute,
        };
        let states = self.run_layers(states, average, |index, layer, states| {
            if let Some(table) = rotary.of(layer) {
                return layer.forward_pre_norm_packed(index, states, table, kernel);
            }
            let run = |states| layer.forward_packed(index, states, positions.as_ref(), kernel);
            match &self.convolution {
                Some(convolution) if index == 0 => {
                    let output = run(states.clone());
                    convolution.forward_packed(states, output, &lengths)
                }
                _ => run(states),
            }
        });
        PieceStates::new(states, &rows.lengths, starts(&lengths), prompts)
    }

    /// Relative positions of rows of up to `longest` pieces; `None` if the layers do not use any.
    fn relative_positions(&self, longest: usize) -> Option<RelativePositions> {
        let table = self.relative_embeddings.as_ref()?;
        if !self.layout.uses_relative_positions() {
            return None;
        }
        let mut positions = RelativePositions::new(table.weight.val(), &self.layout, longest);
        if let Some(norm) = &self.relative_norm {
            positions.table = norm.forward(positions.table);
        }
        Some(positions)
    }

    /// Runs all layers in order and returns the mean output of the last `average`. `run` is given the number of the
    /// application of a layer, from 0 on.
    fn run_layers<const D: usize>(
        &self,
        mut states: Tensor<D>,
        average: usize,
        run: impl Fn(usize, &EncoderLayer, Tensor<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        let steps = self.order.len();
        let average = average.clamp(1, steps.max(1));
        let mut sum: Option<Tensor<D>> = None;
        for (step, index) in self.order.iter().enumerate() {
            states = run(step, &self.layers[*index], states);
            states = self.finish_step(step, states);
            if average > 1 && step + average >= steps {
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

    /// The output of an application of a layer: after the last one, normalised by the families that do so.
    fn finish_step<const D: usize>(&self, step: usize, states: Tensor<D>) -> Tensor<D> {
        match &self.final_norm {
            Some(norm) if step + 1 == self.order.len() => norm.forward(states),
            _ => states,
        }
    }

    /// Input of the first layer for packed rows. `lengths` are the rows' lengths, prompts included.
    ///
    /// # Shapes
    /// - output: `[prompts and pieces of all rows, width]`
    fn embed_packed(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        lengths: &[usize],
        seed: Option<u32>,
    ) -> Tensor<2> {
        let ids: Vec<usize> = rows.ids.iter().map(|id| *id as usize).collect();
        let mut embedded = match &self.int8 {
            Some(int8) => int8.words(&ids, self),
            None => look_up(self.word_embeddings.weight.val(), ids),
        };
        if let Some(prompt) = prompt {
            embedded = insert_prompts(embedded, prompt, &rows.lengths);
        }
        let width = self.embedding_norm.gamma.dims()[0];
        let first = self.first_position;
        let positions = lengths.iter().flat_map(|length| first..first + length);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut position_table = match &self.int8 {
            Some(int8) => int8.positions(first + longest, self),
            None => self.position_embeddings.as_ref().map(|t| t.weight.val()),
        };
        let mut token_type = self.token_type();
        if self.projects_sum() {
            // The kernel adds and normalises at once, so what is projected in between is added before.
            if let Some(table) = position_table.take() {
                embedded = embedded + look_up(table, positions.clone().collect());
            }
            if let Some(token_type) = token_type.take() {
                embedded = embedded + token_type.unsqueeze();
            }
            embedded = self.project(embedded);
        }
        let (position_table, positions) = match position_table {
            Some(table) => (table, positions.collect()),
            None => {
                let pieces = lengths.iter().sum();
                let zeros = Tensor::zeros([1, width], &self.device());
                (zeros, vec![0; pieces].into())
            }
        };
        let embedding_sum = EmbeddingSum {
            positions,
            epsilon: self.norm_epsilon,
            dropout: seed.map(|seed| EmbeddingSum::dropout(seed, self.dropout.prob)),
        };
        let token_type = token_type.unwrap_or_else(|| Tensor::zeros([width], &self.device()));
        let norm = (&self.embedding_norm).into();
        let states = embedding_sum.forward(embedded, position_table, token_type, norm);
        if self.projects_sum() {
            states
        } else {
            self.project(states)
        }
    }

    /// The embedding of the first token type, which all pieces have.
    ///
    /// # Shapes
    /// - output: `[embedding width]`
    fn token_type(&self) -> Option<Tensor<1>> {
        let table = self.token_type_embeddings.as_ref()?.weight.val();
        let [_, width] = table.dims();
        Some(table.narrow(0, 0, 1).reshape([width]))
    }

    /// Whether the sum of the embeddings is projected before it is normalised, and not after.
    fn projects_sum(&self) -> bool {
        self.projection.is_some() && matches!(self.layout, Layout::Deberta(_))
    }

    /// Input of the first layer for padded rows.
    ///
    /// # Shapes
    /// - prompt: `[prompts, embedding width]`
    /// - output: `[rows, prompts + pieces, width]`
    fn embed(&self, rows: &PackedRows, prompt: Option<Tensor<2>>) -> Tensor<3> {
        let device = self.device();
        let ids = Tensor::<1, Int>::from_ints(rows.padded_ids().as_slice(), &device)
            .reshape([rows.len(), rows.width()]);
        let mut embedded = self.word_embeddings.forward(ids);
        if let Some(prompt) = prompt {
            let [rows, _, width] = embedded.dims();
            let prompts = prompt.dims()[0];
            let prompt = prompt.unsqueeze::<3>().expand([rows, prompts, width]);
            embedded = Tensor::cat(vec![prompt, embedded], 1);
        }
        // All rows have the same positions and token types, so addends [1, pieces, width] are broadcast.
        if let Some(table) = &self.position_embeddings {
            let [_, pieces, _] = embedded.dims();
            let first = self.first_position as i64;
            let positions = Tensor::<1, Int>::arange(first..first + pieces as i64, &device);
            embedded = embedded + table.forward(positions.unsqueeze());
        }
        if let Some(token_types) = &self.token_type_embeddings {
            embedded = embedded + token_types.forward(Tensor::zeros([1, 1], &device));
        }
        if self.projects_sum() {
            let states = self.embedding_norm.forward(self.project(embedded));
            return self.dropout.forward(states);
        }
        let states = self.embedding_norm.forward(embedded);
        self.project(self.dropout.forward(states))
    }

    /// Vectors as wide as the layers, brought to the width of the embeddings.
    ///
    /// # Shapes
    /// - prompt: `[prompts, width]`
    /// - output: `[prompts, embedding width]`
    fn narrowed(&self, prompt: Tensor<2>) -> Tensor<2> {
        match &self.projection {
            Some(Linear { weight, .. }) if weight.dims()[0] != prompt.dims()[1] => {
                prompt.matmul(weight.val().transpose())
            }
            _ => prompt,
        }
    }

    /// From the width of the embeddings to that of the layers, where they differ.
    fn project<const D: usize>(&self, states: Tensor<D>) -> Tensor<D> {
        match &self.projection {
            Some(projection) => projection.forward(states),
            None => states,
        }
    }
}

/// The output of the transformer on padded rows.
///
/// # Shapes
/// - states: `[rows, prompts + pieces, width]`
fn padded_states(states: Tensor<3>, rows: &PackedRows, prompts: usize) -> PieceStates {
    let [count, columns, width] = states.dims();
    let row_starts = (0..count).map(|row| row * columns).collect();
    let states = states.reshape([count * columns, width]);
    PieceStates::new(states, &rows.lengths, row_starts, prompts)
}

/// Lengths of rows with `prompts` vectors before each.
fn with_prompts(rows: &PackedRows, prompts: usize) -> Vec<usize> {
    rows.lengths.iter().map(|length| prompts + length).collect()
}

/// Puts the prompt before the embeddings of every row.
///
/// # Shapes
/// - embedded: `[pieces of all rows, width]`
/// - prompt: `[prompts, width]`
/// - output: `[prompts and pieces of all rows, width]`
fn insert_prompts(embedded: Tensor<2>, prompt: Tensor<2>, lengths: &[usize]) -> Tensor<2> {
    let prompts = prompt.dims()[0];
    let all = Tensor::cat(vec![prompt, embedded], 0);
    let rows = starts(lengths).into_iter().zip(lengths);
    let indices = rows.flat_map(|(start, length)| {
        let pieces = prompts + start..prompts + start + length;
        (0..prompts).chain(pieces)
    });
    look_up(all, indices.collect())
}
