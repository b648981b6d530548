//! One transformer for the whole BERT family: BERT, RoBERTa, ELECTRA and DistilBERT differ in names, in where
//! positions start and in whether token types and an embedding projection exist, not in arithmetic.

mod config;
mod layer;

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Dropout, Embedding, LayerNorm, Linear};
use burn::tensor::{Device, Int, Tensor};

pub use config::{Activation, Family, TransformerConfig};
use layer::Layer;

use crate::nn::fused;
use crate::nn::fused::embedding::{EmbeddingSum, look_up};

/// Added to the scores of padding before the softmax; small enough to vanish, large enough to stay finite.
const MASKED: f32 = -1e9;

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
        let states = self.run_layers(states, average, |_, layer, states| {
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
    fn run_layers<const D: usize>(
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
        let embedding_sum = EmbeddingSum {
            positions: (lengths.iter())
                .flat_map(|length| first..first + length)
                .collect(),
            epsilon: self.norm_epsilon,
            dropout: seed.map(|seed| EmbeddingSum::dropout(seed, self.dropout.prob)),
        };
        let width = self.embedding_norm.gamma.dims()[0];
        let kind = match &self.token_type_embeddings {
            Some(table) => table.weight.val().narrow(0, 0, 1).reshape([width]),
            None => Tensor::zeros([width], &device),
        };
        let positions = self.position_embeddings.weight.val();
        let norm = (&self.embedding_norm).into();
        let mut states = embedding_sum.forward(embedded, positions, kind, norm);
        if let Some(projection) = &self.projection {
            states = projection.forward(states);
        }
        let states = self.run_layers(states, average, |index, layer, states| {
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
