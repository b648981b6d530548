//! Embedding look-up, and the normalised sum of embeddings at the bottom of a transformer.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::layer_norm::{self, SavedNorm};
use super::math::{self, DropoutMask};
use super::{Kernel, KernelInput, NormParams, apply};

/// Selects rows of a table by index; an index may occur any number of times.
///
/// # Shapes
/// - table: `[rows, width]`
/// - output: `[indices, width]`
///
/// # Panics
/// If an index is not below the number of rows.
pub fn look_up(table: Tensor<2>, indices: Vec<usize>) -> Tensor<2> {
    let [rows, width] = table.dims();
    assert!(indices.iter().all(|index| *index < rows));
    let shape = [indices.len(), width];
    let kernel = LookUp {
        indices: indices.into(),
        width,
    };
    apply(kernel, [table.into()], shape)
}

/// The kernel of [`look_up`].
///
/// ```text
/// forward:   output[i] = table[indices[i]]
/// backward:  dtable[r] = Σ doutput[i] over all i with indices[i] = r
/// ```
///
/// # Shapes
/// - table: `[rows, width]`
/// - output: `[indices, width]`
#[derive(Debug, Clone)]
struct LookUp {
    indices: Arc<[usize]>,
    width: usize,
}

impl Kernel<1> for LookUp {
    type Saved = ();

    fn forward(&self, [table]: [&[f32]; 1], _save: bool) -> (Vec<f32>, Option<()>) {
        let mut output = Vec::with_capacity(self.indices.len() * self.width);
        for index in self.indices.iter() {
            output.extend_from_slice(&table[index * self.width..][..self.width]);
        }
        (output, Some(()))
    }

    fn backward(
        &self,
        [table]: [&[f32]; 1],
        (): &(),
        grad_output: &[f32],
        _needed: [bool; 1],
    ) -> [Option<Vec<f32>>; 1] {
        let grad_table = scatter_add(table.len(), &self.indices, grad_output, self.width);
        [Some(grad_table)]
    }
}

/// A table of `size` zeros, to which each row is added at its index.
fn scatter_add(size: usize, indices: &[usize], rows: &[f32], width: usize) -> Vec<f32> {
    let mut table = vec![0f32; size];
    for (index, row) in indices.iter().zip(rows.chunks_exact(width)) {
        math::add(&mut table[index * width..][..width], row);
    }
    table
}

/// The embedding layer of a transformer after the look-up of the word pieces: adds position and token type embeddings,
/// normalises and applies dropout.
///
/// ```text
/// forward:   x = embedded + position_table[positions] + token_type
///            output = dropout(LayerNorm(x))
/// backward:  dLayerNorm = mask ⊙ doutput; dx, dγ, dβ as in LayerNorm
///            dembedded = dx
///            dposition_table[p] = Σ dx[i] over all i with positions[i] = p
///            dtoken_type = Σ rows dx
/// ```
///
/// # Shapes
/// - embedded, output: `[rows, width]`
/// - position_table: `[positions, width]`
/// - token_type, norm's gamma and beta: `[width]`
#[derive(Debug, Clone)]
pub struct EmbeddingSum {
    /// Position of each row in its sequence, as an index into the position table.
    pub positions: Arc<[usize]>,
    /// Epsilon of the norm.
    pub epsilon: f32,
    /// Dropout after the norm, in training.
    pub dropout: Option<DropoutMask>,
}

/// The inputs of [`EmbeddingSum`], or their gradients.
struct EmbeddingInputs<T> {
    embedded: T,
    position_table: T,
    token_type: T,
    norm: NormParams<T>,
}

const INPUTS: usize = 5;

impl<T> EmbeddingInputs<T> {
    fn from_array([embedded, position_table, token_type, gamma, beta]: [T; INPUTS]) -> Self {
        Self {
            embedded,
            position_table,
            token_type,
            norm: NormParams { gamma, beta },
        }
    }

    fn into_array(self) -> [T; INPUTS] {
        [
            self.embedded,
            self.position_table,
            self.token_type,
            self.norm.gamma,
            self.norm.beta,
        ]
    }
}

impl EmbeddingSum {
    /// The dropout mask for training.
    pub fn dropout(seed: u32, probability: f64) -> DropoutMask {
        DropoutMask::new(probability, seed, 0)
    }

    /// Applies the layer.
    ///
    /// # Shapes
    /// - embedded: `[rows, width]`
    /// - position_table: `[positions, width]`
    /// - token_type: `[width]`
    /// - output: `[rows, width]`
    pub fn forward(
        self,
        embedded: Tensor<2>,
        position_table: Tensor<2>,
        token_type: Tensor<1>,
        norm: NormParams<KernelInput>,
    ) -> Tensor<2> {
        let shape = embedded.dims();
        let inputs = EmbeddingInputs {
            embedded: embedded.into(),
            position_table: position_table.into(),
            token_type: token_type.into(),
            norm,
        };
        apply(self, inputs.into_array(), shape)
    }
}

impl Kernel<INPUTS> for EmbeddingSum {
    type Saved = SavedNorm;

    fn forward(&self, inputs: [&[f32]; INPUTS], save: bool) -> (Vec<f32>, Option<SavedNorm>) {
        let inputs = EmbeddingInputs::from_array(inputs);
        let width = inputs.token_type.len();
        let add_embeddings = |first_row: usize, rows: &mut [f32]| {
            math::add_to_rows(rows, inputs.token_type);
            let positions = &self.positions[first_row..];
            for (row, position) in rows.chunks_exact_mut(width).zip(positions) {
                math::add(row, &inputs.position_table[position * width..][..width]);
            }
        };
        let embedded = inputs.embedded.to_vec();
        let (mut output, saved) =
            layer_norm::layer_norm(embedded, inputs.norm, self.epsilon, add_embeddings);
        if let Some(dropout) = self.dropout {
            layer_norm::apply_dropout(&mut output, dropout, width);
        }
        (output, save.then_some(saved))
    }

    fn backward(
        &self,
        inputs: [&[f32]; INPUTS],
        saved: &SavedNorm,
        grad_output: &[f32],
        _needed: [bool; INPUTS],
    ) -> [Option<Vec<f32>>; INPUTS] {
        let inputs = EmbeddingInputs::from_array(inputs);
        let width = inputs.token_type.len();
        let mut gradient = grad_output.to_vec();
        if let Some(dropout) = self.dropout {
            layer_norm::apply_dropout(&mut gradient, dropout, width);
        }
        let norm = layer_norm::layer_norm_backward(&mut gradient, inputs.norm.gamma, saved);
        let table_size = inputs.position_table.len();
        let gradients = EmbeddingInputs {
            position_table: scatter_add(table_size, &self.positions, &gradient, width),
            token_type: layer_norm::column_sums(&gradient, width),
            embedded: gradient,
            norm,
        };
        gradients.into_array().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Device;

    #[test]
    fn gradients_of_rows_selected_twice_are_added() {
        let device = Device::flex().autodiff();
        let table = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
        let table = table.require_grad();
        let output = look_up(table.clone(), vec![2, 0, 2]);
        assert_eq!(floats(output.clone()), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
        let weights = Tensor::<2>::from_floats([[1.0, 2.0], [4.0, 8.0], [16.0, 32.0]], &device);
        let gradients = (output * weights).sum().backward();
        let expected = [4.0, 8.0, 0.0, 0.0, 17.0, 34.0];
        assert_eq!(floats(table.grad(&gradients).unwrap()), expected);
    }
}
