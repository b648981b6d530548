//! One transformer for all families of encoders. What a family has beyond BERT's layers is its [`Layout`].
//!
//! On the CPU it runs on packed
//! rows through fused kernels; on other devices on padded rows through Burn's operations.

mod config;
mod layer;
mod layout;
mod pre_norm;
mod rotary_attention;
mod states;

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Dropout, Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};

pub use config::{Activation, EncoderFamily, TransformerConfig};
use layer::EncoderLayer;
pub use layout::{
    AlbertLayout, DebertaConvolution, DebertaLayout, Layout, ModernbertLayout, MpnetLayout,
};
use pre_norm::ByAttention;
pub use states::PieceStates;

use super::batching::{PackedRows, starts};
use crate::nn::fused;
use crate::nn::fused::embedding::{EmbeddingSum, look_up};
use crate::nn::mask::attention_bias;

/// Embeddings and transformer layers.
#[derive(Module, Debug)]
pub struct Transformer {
    word_embeddings: Embedding,
    position_embeddings: Option<Embedding>,
    token_type_embeddings: Option<Embedding>,
    embedding_norm: LayerNorm,
    projection: Option<Linear>,
    dropout: Dropout,
    layers: Vec<EncoderLayer>,
    final_norm: Option<LayerNorm>,
    /// For each step from one hidden state to the next, the layers that make it; some families use layers several times.
    #[module(skip)]
    order: Vec<Vec<usize>>,
    #[module(skip)]
    first_position: usize,
    #[module(skip)]
    norm_epsilon: f32,
}

impl Transformer {
    /// The device that the weights are on.
    pub fn device(&self) -> Device {
        self.word_embeddings.weight.device()
    }

    /// Encodes rows of pieces. The states are the mean of the outputs of the last `average` layers. The vectors of
    /// `prompt` stand before the first piece of every row, like embeddings of pieces.
    ///
    /// # Shapes
    /// - prompt: `[prompts, embedding width]`
    pub fn forward(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let gelu = (self.layers.iter()).all(|layer| layer.activation == Activation::Gelu);
        if gelu && fused::runs_on(&self.device()) {
            self.forward_packed(rows, prompt, average)
        } else {
            self.forward_padded(rows, prompt, average)
        }
    }

    /// Encodes rows of pieces by Burn's operations, all rows padded to the longest.
    fn forward_padded(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
    ) -> PieceStates {
        let device = self.device();
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let ids = Tensor::<1, Int>::from_ints(rows.padded_ids().as_slice(), &device)
            .reshape([rows.len(), rows.width()]);
        let lengths = with_prompts(rows, prompts);
        let bias = attention_bias(&lengths, prompts + rows.width(), &device);
        let columns = prompts + rows.width();
        let rotary = ByAttention::padded(&self.layers, &lengths, columns, &device);
        let states = self.embed(ids, prompt);
        let states = self.run_layers(states, average, |_, layer, states| match rotary.of(layer) {
            Some(attention) => layer.forward_pre_norm(states, attention),
            None => layer.forward(states, bias.as_ref()),
        });
        let [count, columns, width] = states.dims();
        let row_starts = (0..count).map(|row| row * columns).collect();
        let states = states.reshape([count * columns, width]);
        PieceStates::new(states, &rows.lengths, row_starts, prompts)
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
        let rotary = ByAttention::packed(&self.layers, &lengths);
        let states = self.run_layers(states, average, |index, layer, states| {
            match rotary.of(layer) {
                Some(table) => layer.forward_pre_norm_packed(index, states, &lengths, table, seed),
                None => layer.forward_packed(index, states, &lengths, seed),
            }
        });
        PieceStates::new(states, &rows.lengths, starts(&lengths), prompts)
    }

    /// Runs all layers and returns the mean output of the last `average`. `run` is given the number of the application of a
    /// layer, from 0 on.
    fn run_layers<const D: usize>(
        &self,
        mut states: Tensor<D>,
        average: usize,
        run: impl Fn(usize, &EncoderLayer, Tensor<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        let steps = self.order.len();
        let average = average.clamp(1, steps.max(1));
        let mut sum: Option<Tensor<D>> = None;
        let mut applied = 0;
        for (step, layers) in self.order.iter().enumerate() {
            for index in layers {
                states = run(applied, &self.layers[*index], states);
                applied += 1;
            }
            if step + 1 == steps
                && let Some(norm) = &self.final_norm
            {
                states = norm.forward(states);
            }
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
        let ids = rows.ids.iter().map(|id| *id as usize).collect();
        let mut embedded = look_up(self.word_embeddings.weight.val(), ids);
        if let Some(prompt) = prompt {
            embedded = insert_prompts(embedded, prompt, &rows.lengths);
        }
        let width = self.embedding_norm.gamma.dims()[0];
        let first = self.first_position;
        let (table, positions) = match &self.position_embeddings {
            Some(table) => {
                let positions = lengths.iter().flat_map(|length| first..first + length);
                (table.weight.val(), positions.collect())
            }
            None => {
                let pieces = lengths.iter().sum();
                (
                    Tensor::zeros([1, width], &self.device()),
                    vec![0; pieces].into(),
                )
            }
        };
        let embedding_sum = EmbeddingSum {
            positions,
            epsilon: self.norm_epsilon,
            dropout: seed.map(|seed| EmbeddingSum::dropout(seed, self.dropout.prob)),
        };
        let token_type = match &self.token_type_embeddings {
            Some(table) => table.weight.val().narrow(0, 0, 1).reshape([width]),
            None => Tensor::zeros([width], &self.device()),
        };
        let norm = (&self.embedding_norm).into();
        self.project(embedding_sum.forward(embedded, table, token_type, norm))
    }

    /// Input of the first layer for padded rows.
    ///
    /// # Shapes
    /// - ids: `[rows, pieces]`
    /// - prompt: `[prompts, embedding width]`
    /// - output: `[rows, prompts + pieces, width]`
    fn embed(&self, ids: Tensor<2, Int>, prompt: Option<Tensor<2>>) -> Tensor<3> {
        let device = ids.device();
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
        let states = self.embedding_norm.forward(embedded);
        self.project(self.dropout.forward(states))
    }

    /// From the width of the embeddings to that of the layers, where they differ.
    fn project<const D: usize>(&self, states: Tensor<D>) -> Tensor<D> {
        match &self.projection {
            Some(projection) => projection.forward(states),
            None => states,
        }
    }
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
