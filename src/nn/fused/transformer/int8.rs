//! Transformer layers with linear layers in eight bits, for prediction.
//!
//! All steps but the attention are independent for each row, and the attention for each sequence. Tasks of the thread pool
//! therefore compute whole layers for groups of sequences, in buffers that stay in the second-level cache; those with many
//! rows are split further. Results do not depend on how rows are grouped or split.

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::TransformerLayer;
use super::attention::{Projections, split};
use super::positions::{DistanceRows, PositionInputs, PositionValues};
use crate::nn::activation::Activation;
use crate::nn::fused::int8::{
    AddTo, Gelu, GeluTanh, Int8Linear, QuantizedRows, Relu, Replace, Tanh,
};
use crate::nn::fused::layer_norm::layer_norm_in_place;
use crate::nn::fused::{KernelInput, NormParams, compute};

/// The most rows of a block, for which linear layers are computed at once.
const BLOCK: usize = 48;

/// The fewest rows of a block, so that splitting costs little compared with the work.
const SMALLEST_BLOCK: usize = 12;

/// The linear layers of a transformer layer in eight bits.
#[derive(Debug)]
pub struct Int8Layer {
    /// Wq, bq.
    pub query: Int8Linear,
    /// Wk, bk.
    pub key: Int8Linear,
    /// Wv, bv.
    pub value: Int8Linear,
    /// Wo, bo.
    pub output: Int8Linear,
    /// W₁, b₁.
    pub inner: Int8Linear,
    /// W₃, b₃ of a gated feed-forward network.
    pub gate: Option<Int8Linear>,
    /// W₂, b₂.
    pub outer: Int8Linear,
}

impl Int8Layer {
    /// Sets queries, keys and values from rows `[rows, width]`, in blocks of so many rows. `prepare` returns the rows of a
    /// block that are projected, from the block and a buffer of its size.
    pub(super) fn project(
        &self,
        rows: &[f32],
        block: usize,
        prepare: impl for<'a> Fn(&'a [f32], &'a mut Vec<f32>) -> &'a [f32] + Sync,
    ) -> Projections {
        let width = self.query.inputs();
        let zeros = || vec![0f32; rows.len()];
        let mut projections = Projections {
            query: zeros(),
            key: zeros(),
            value: zeros(),
        };
        let size = block * width;
        rows.par_chunks(size)
            .zip(projections.query.par_chunks_mut(size))
            .zip(projections.key.par_chunks_mut(size))
            .zip(projections.value.par_chunks_mut(size))
            .for_each_init(
                Scratch::default,
                |scratch, (((rows, query), key), value)| {
                    let rows = prepare(rows, &mut scratch.rows);
                    scratch.quantized.replace(rows, width);
                    let quantized = &scratch.quantized;
                    self.query.forward_quantized(quantized, query, &Replace);
                    self.key.forward_quantized(quantized, key, &Replace);
                    self.value.forward_quantized(quantized, value, &Replace);
                },
            );
        projections
    }
}

/// Buffers of a task.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) quantized: QuantizedRows,
    pub(super) rows: Vec<f32>,
    pub(super) hidden: Vec<f32>,
}

/// Computes consecutive sequences of packed rows in groups. `run` gets the lengths of a group's sequences, its rows, the
/// place of its output, and the number of rows of a block.
///
/// # Shapes
/// - states, output: `[rows, width]`
pub(super) fn in_groups(
    lengths: &[usize],
    states: &[f32],
    width: usize,
    run: impl Fn(Vec<usize>, &[f32], &mut [f32], usize) + Sync,
) -> Vec<f32> {
    let rows: usize = lengths.iter().sum();
    let tasks = 2 * rayon::current_num_threads();
    let most = rows.div_ceil(tasks).clamp(SMALLEST_BLOCK, BLOCK);
    let groups = group(lengths, most);
    let sizes = groups
        .iter()
        .map(|lengths| lengths.iter().sum::<usize>() * width);
    let sizes: Vec<usize> = sizes.collect();
    let mut output = vec![0f32; states.len()];
    let outputs = split(&mut output, sizes.iter().copied());
    let mut rest = states;
    let mut inputs = Vec::with_capacity(sizes.len());
    for size in sizes {
        let (input, after) = rest.split_at(size);
        inputs.push(input);
        rest = after;
    }
    (groups.into_par_iter().zip(inputs).zip(outputs)).for_each(|((lengths, input), output)| {
        let rows = input.len() / width;
        // Blocks of equal size, of whole tiles.
        let blocks = rows.div_ceil(most).max(1);
        let block = rows.div_ceil(blocks).max(1).next_multiple_of(6);
        run(lengths, input, output, block);
    });
    output
}

/// Cuts sequences into groups of about `most` rows; a sequence of more is a group of its own.
fn group(lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut rows = 0;
    for length in lengths {
        match groups.last_mut() {
            Some(group) if rows + length / 2 <= most => group.push(*length),
            _ => {
                groups.push(vec![*length]);
                rows = 0;
            }
        }
        rows += length;
    }
    groups
}

impl TransformerLayer {
    /// Applies the layer with linear layers in eight bits, without dropout, with relative positions if they are given. The
    /// norms are those after the attention and after the feed-forward network.
    ///
    /// # Shapes
    /// - states: `[rows, width]`
    /// - output: `[rows, width]`
    pub fn forward_int8(
        &self,
        states: Tensor<2>,
        layers: &Int8Layer,
        [attention_norm, feed_forward_norm]: [NormParams<KernelInput>; 2],
        positions: Option<(&DistanceRows, PositionInputs<Tensor<2>>)>,
    ) -> Tensor<2> {
        let (shape, device) = (states.dims(), states.device());
        let (rows, positions) = match positions {
            Some((rows, positions)) => (Some(rows), positions.into_array()),
            None => (None, [const { None }; 3]),
        };
        let has = positions.each_ref().map(Option::is_some);
        let [keys, queries, bias] = positions.map(|input: Option<Tensor<2>>| {
            KernelInput::from(input.unwrap_or_else(|| Tensor::zeros([1, 1], &device)))
        });
        let inputs = [
            states.into(),
            attention_norm.gamma,
            attention_norm.beta,
            feed_forward_norm.gamma,
            feed_forward_norm.beta,
            keys,
            queries,
            bias,
        ];
        compute(inputs, shape, |inputs| {
            let [states, gamma1, beta1, gamma2, beta2, positions @ ..] = inputs;
            let norm = |gamma, beta| NormParams { gamma, beta };
            let position = |index: usize| has[index].then_some(positions[index]);
            let positions = rows.map(|rows| PositionValues {
                rows,
                inputs: PositionInputs::from_array(std::array::from_fn(position)),
            });
            let norms = [norm(gamma1, beta1), norm(gamma2, beta2)];
            in_groups(
                &self.lengths,
                states,
                self.width,
                |lengths, rows, output, block| {
                    let group = Self {
                        lengths: Arc::new(lengths),
                        ..self.clone()
                    };
                    group.run_int8(rows, output, block, layers, norms, positions.as_ref());
                },
            )
        })
    }

    /// Computes a group of sequences.
    fn run_int8(
        &self,
        states: &[f32],
        output: &mut [f32],
        block: usize,
        layers: &Int8Layer,
        norms: [NormParams<&[f32]>; 2],
        positions: Option<&PositionValues>,
    ) {
        let projections = layers.project(states, block, |rows, _| rows);
        let (context, _) = self.attention_forward(&projections, positions, false);
        drop(projections);
        let size = block * self.width;
        (output.par_chunks_mut(size))
            .zip(states.par_chunks(size))
            .zip(context.par_chunks(size))
            .for_each_init(Scratch::default, |scratch, ((output, states), context)| {
                output.copy_from_slice(states);
                scratch.quantized.replace(context, self.width);
                (layers.output).forward_quantized(&scratch.quantized, output, &AddTo);
                layer_norm_in_place(output, norms[0], self.epsilon);
                scratch.quantized.replace(output, self.width);
                let rows = output.len() / self.width;
                scratch.hidden.resize(rows * self.inner, 0.0);
                let (inner, quantized) = (&layers.inner, &scratch.quantized);
                let hidden = &mut scratch.hidden;
                match self.activation {
                    Activation::Gelu => inner.forward_quantized(quantized, hidden, &Gelu),
                    Activation::GeluNew => inner.forward_quantized(quantized, hidden, &GeluTanh),
                    Activation::Relu => inner.forward_quantized(quantized, hidden, &Relu),
                    Activation::Tanh => inner.forward_quantized(quantized, hidden, &Tanh),
                }
                scratch.quantized.replace(&scratch.hidden, self.inner);
                (layers.outer).forward_quantized(&scratch.quantized, output, &AddTo);
                layer_norm_in_place(output, norms[1], self.epsilon);
            });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_all_sequences_and_about_as_many_rows_as_asked() {
        for lengths in [
            vec![],
            vec![5],
            vec![30; 7],
            vec![512, 3, 4, 100, 20, 48, 47, 1],
        ] {
            for most in [12, 48] {
                let groups = group(&lengths, most);
                assert_eq!(groups.concat(), lengths);
                for group in &groups {
                    let rows: usize = group.iter().sum();
                    let largest = group.iter().max().copied().unwrap_or(0);
                    assert!(rows <= most + largest, "{groups:?}");
                    assert!(!group.is_empty());
                }
            }
        }
        assert_eq!(group(&[30; 5], 48), [vec![30, 30], vec![30, 30], vec![30]]);
    }
}
