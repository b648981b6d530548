//! A bidirectional LSTM over sequences of different lengths; the two directions run in parallel.
//!
//! Rows are sorted by time step, within a step by length with the longest sequence first, so that each step is one matrix
//! product over the sequences that have not ended. The backward direction starts at the last real step of each sequence.

mod cell;

use std::sync::Arc;

use burn::tensor::Tensor;
use cell::{cell_backward, cell_forward};

use super::layer_norm::column_sums;
use super::math;
use super::matmul::{MatrixView, matmul, matmul_single_threaded};
use super::{Kernel, LinearParams, apply};

/// Applies a bidirectional LSTM; steps past the end of a sequence are 0 in the output.
///
/// # Shapes
/// - input: `[batch, steps, width]`
/// - weight: `[width, 2 · 4 · hidden]`, the input's share of the gates of both directions
/// - bias: `[2 · 4 · hidden]`
/// - recurrent: `[2, hidden, 4 · hidden]`
/// - output: `[batch, steps, 2 · hidden]`, the forward direction's states first
pub fn bilstm(
    input: Tensor<3>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    recurrent: Tensor<3>,
    lengths: &[usize],
) -> Tensor<3> {
    let [batch, steps, width] = input.dims();
    let [_, hidden, _] = recurrent.dims();
    let kernel = BiLstmKernel {
        order: Arc::new(TimeOrder::new(lengths, steps)),
        rows: batch * steps,
        width,
        hidden,
    };
    let inputs = BiLstmInputs {
        input: input.into(),
        projection: LinearParams {
            weight: weight.into(),
            bias: bias.into(),
        },
        recurrent: recurrent.into(),
    };
    apply(kernel, inputs.into_array(), [batch, steps, 2 * hidden])
}

/// The kernel of [`bilstm`].
///
/// For each direction, with `W`, `b` and `U` its parts of weight, bias and recurrent weight, and `t` the step in the
/// direction of reading:
///
/// ```text
/// forward:   aₜ = xₜ·W + b + hₜ₋₁·U,   h₋₁ = c₋₁ = 0
///            cₜ, hₜ = cell(aₜ, cₜ₋₁)
/// backward, from the last step to the first:
///            daₜ, dcₜ₋₁ = the cell's backward pass of dhₜ, dcₜ
///            dhₜ₋₁ += daₜ·Uᵀ
///            then dx = da·Wᵀ,   dW = xᵀ·da,   db = Σ rows da,   dU = Σₜ hₜ₋₁ᵀ·daₜ
/// ```
///
/// The cell's formulas are given in `cell.rs`. The gradients of both directions are added up in that of the input.
///
/// # Shapes
/// - x: `[rows, width]`, the real rows of the input in time order
/// - a: `[rows, 4 · hidden]`; c, h: `[rows, hidden]`
/// - W: `[width, 4 · hidden]`; b: `[4 · hidden]`; U: `[hidden, 4 · hidden]`
#[derive(Debug, Clone)]
struct BiLstmKernel {
    order: Arc<TimeOrder>,
    /// Rows of the input with padding.
    rows: usize,
    width: usize,
    hidden: usize,
}

/// The inputs of the kernel, or their gradients.
#[derive(Clone, Copy)]
struct BiLstmInputs<T> {
    input: T,
    /// From the input to the gates of both directions.
    projection: LinearParams<T>,
    recurrent: T,
}

const INPUTS: usize = 4;

impl<T> BiLstmInputs<T> {
    fn from_array([input, weight, bias, recurrent]: [T; INPUTS]) -> Self {
        Self {
            input,
            projection: LinearParams { weight, bias },
            recurrent,
        }
    }

    fn into_array(self) -> [T; INPUTS] {
        let LinearParams { weight, bias } = self.projection;
        [self.input, weight, bias, self.recurrent]
    }
}

/// The real rows of a padded batch in time order: all rows of step 0, then all of step 1, and so on.
#[derive(Debug)]
struct TimeOrder {
    /// For each direction, the index in the padded batch of each row in time order.
    rows: [Vec<usize>; 2],
    /// Where the rows of each step start in time order, and the end of the last.
    starts: Vec<usize>,
}

impl TimeOrder {
    fn new(lengths: &[usize], steps: usize) -> Self {
        let mut longest_first: Vec<usize> = (0..lengths.len()).collect();
        longest_first.sort_by_key(|sequence| std::cmp::Reverse(lengths[*sequence]));
        let (mut rows, mut starts) = ([Vec::new(), Vec::new()], vec![0]);
        for step in 0..lengths.iter().copied().max().unwrap_or(0) {
            for sequence in longest_first.iter().copied() {
                let length = lengths[sequence];
                if step < length {
                    rows[0].push(sequence * steps + step);
                    rows[1].push(sequence * steps + length - 1 - step);
                }
            }
            starts.push(rows[0].len());
        }
        Self { rows, starts }
    }

    fn steps(&self) -> impl DoubleEndedIterator<Item = LstmStep> + '_ {
        let windows = self.starts.windows(2).enumerate();
        windows.map(|(index, range)| LstmStep {
            start: range[0],
            count: range[1] - range[0],
            previous: index.checked_sub(1).map(|index| self.starts[index]),
        })
    }
}

/// The rows of one time step.
struct LstmStep {
    /// Index of the first row in time order.
    start: usize,
    /// Number of rows: sequences that have this step.
    count: usize,
    /// Index of the first row of the previous step, of which the first `count` rows belong to the same sequences.
    previous: Option<usize>,
}

/// The values of one direction's forward pass which its backward pass needs, in time order.
#[derive(Debug)]
pub struct SavedDirection {
    /// Activations of the input, forget, candidate and output gates: `[rows, 4 · hidden]`.
    gates: Vec<f32>,
    /// `[rows, hidden]`.
    cells: Vec<f32>,
    /// `[rows, hidden]`.
    states: Vec<f32>,
}

/// Gradients of one direction, that of the input in time order.
struct DirectionGradients {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    recurrent: Vec<f32>,
}

/// Columns `first..first + width` of the rows with these indices; rows are `stride` values apart.
fn gather_rows(
    rows: &[f32],
    indices: &[usize],
    stride: usize,
    first: usize,
    width: usize,
) -> Vec<f32> {
    let mut gathered = Vec::with_capacity(indices.len() * width);
    for index in indices {
        gathered.extend_from_slice(&rows[index * stride + first..][..width]);
    }
    gathered
}

impl BiLstmKernel {
    /// Width of the four gates of a direction.
    fn gates(&self) -> usize {
        4 * self.hidden
    }

    /// W: the columns of the input weight that belong to a direction.
    fn input_weight(&self, direction: usize) -> MatrixView {
        let gates = self.gates();
        MatrixView::block(0, direction * gates, [self.width, gates], 2 * gates)
    }

    /// U: a direction's part of the recurrent weight.
    fn recurrent_weight<'a>(&self, recurrent: &'a [f32], direction: usize) -> &'a [f32] {
        let size = self.hidden * self.gates();
        &recurrent[direction * size..][..size]
    }

    fn forward_direction(&self, inputs: BiLstmInputs<&[f32]>, direction: usize) -> SavedDirection {
        let (width, hidden, gate_width) = (self.width, self.hidden, self.gates());
        let indices = &self.order.rows[direction];
        let count = indices.len();
        let rows = gather_rows(inputs.input, indices, width, 0, width);
        let bias = &inputs.projection.bias[direction * gate_width..][..gate_width];
        let mut gates = bias.repeat(count);
        matmul(
            (&mut gates, MatrixView::new(count, gate_width)),
            1.0,
            (&rows, MatrixView::new(count, width)),
            (inputs.projection.weight, self.input_weight(direction)),
            1.0,
        );
        let recurrent = self.recurrent_weight(inputs.recurrent, direction);
        let mut cells = vec![0f32; count * hidden];
        let mut states = vec![0f32; count * hidden];
        for step in self.order.steps() {
            let gates = &mut gates[step.start * gate_width..(step.start + step.count) * gate_width];
            let (earlier_cells, cells) = cells.split_at_mut(step.start * hidden);
            let (earlier_states, states) = states.split_at_mut(step.start * hidden);
            let cells = &mut cells[..step.count * hidden];
            let states = &mut states[..step.count * hidden];
            let mut previous_cells: &[f32] = &[];
            if let Some(first) = step.previous {
                matmul_single_threaded(
                    (gates, MatrixView::new(step.count, gate_width)),
                    1.0,
                    (
                        earlier_states,
                        MatrixView::block(first, 0, [step.count, hidden], hidden),
                    ),
                    (recurrent, MatrixView::new(hidden, gate_width)),
                    1.0,
                );
                previous_cells = &earlier_cells[first * hidden..][..step.count * hidden];
            }
            cell_forward(gates, previous_cells, cells, states, hidden);
        }
        SavedDirection {
            gates,
            cells,
            states,
        }
    }

    fn backward_direction(
        &self,
        inputs: BiLstmInputs<&[f32]>,
        saved: &SavedDirection,
        grad_output: &[f32],
        direction: usize,
    ) -> DirectionGradients {
        let (width, gate_width) = (self.width, self.gates());
        let grad_gates = self.gate_gradients(inputs.recurrent, saved, grad_output, direction);
        let indices = &self.order.rows[direction];
        let count = indices.len();
        let gates_view = MatrixView::new(count, gate_width);
        let mut input = vec![0f32; count * width];
        matmul(
            (&mut input, MatrixView::new(count, width)),
            0.0,
            (&grad_gates, gates_view),
            (
                inputs.projection.weight,
                self.input_weight(direction).transposed(),
            ),
            1.0,
        );
        let rows = gather_rows(inputs.input, indices, width, 0, width);
        let mut weight = vec![0f32; width * gate_width];
        matmul(
            (&mut weight, MatrixView::new(width, gate_width)),
            0.0,
            (&rows, MatrixView::new(count, width).transposed()),
            (&grad_gates, gates_view),
            1.0,
        );
        DirectionGradients {
            input,
            weight,
            bias: column_sums(&grad_gates, gate_width),
            recurrent: self.recurrent_gradient(saved, &grad_gates),
        }
    }

    /// da of all steps, from the last to the first: `[rows, 4 · hidden]` in time order.
    fn gate_gradients(
        &self,
        recurrent: &[f32],
        saved: &SavedDirection,
        grad_output: &[f32],
        direction: usize,
    ) -> Vec<f32> {
        let (hidden, gate_width) = (self.hidden, self.gates());
        let indices = &self.order.rows[direction];
        let count = indices.len();
        let first_column = direction * hidden;
        let mut grad_states = gather_rows(grad_output, indices, 2 * hidden, first_column, hidden);
        let mut grad_cells = vec![0f32; count * hidden];
        let mut grad_gates = vec![0f32; count * gate_width];
        let recurrent_transposed = transposed(self.recurrent_weight(recurrent, direction), hidden);
        for step in self.order.steps().rev() {
            let (start, end) = (step.start, step.start + step.count);
            let previous_cells = step.previous.map(|first| &saved.cells[first * hidden..]);
            let (earlier_grad_cells, own_grad_cells) = grad_cells.split_at_mut(start * hidden);
            cell_backward(
                &saved.gates[start * gate_width..end * gate_width],
                &saved.cells[start * hidden..end * hidden],
                previous_cells.unwrap_or_default(),
                &grad_states[start * hidden..end * hidden],
                &own_grad_cells[..step.count * hidden],
                &mut grad_gates[start * gate_width..end * gate_width],
                step.previous.map_or(&mut [], |first| {
                    &mut earlier_grad_cells[first * hidden..][..step.count * hidden]
                }),
                hidden,
            );
            if let Some(first) = step.previous {
                matmul_single_threaded(
                    (
                        &mut grad_states,
                        MatrixView::block(first, 0, [step.count, hidden], hidden),
                    ),
                    1.0,
                    (
                        &grad_gates,
                        MatrixView::block(start, 0, [step.count, gate_width], gate_width),
                    ),
                    (&recurrent_transposed, MatrixView::new(gate_width, hidden)),
                    1.0,
                );
            }
        }
        grad_gates
    }

    /// dU: the product of the state before each step with the gate gradient of that step.
    fn recurrent_gradient(&self, saved: &SavedDirection, grad_gates: &[f32]) -> Vec<f32> {
        let (hidden, gate_width) = (self.hidden, self.gates());
        let count = grad_gates.len() / gate_width;
        let mut previous_states = Vec::with_capacity(count * hidden);
        for step in self.order.steps() {
            if let Some(first) = step.previous {
                let states = &saved.states[first * hidden..][..step.count * hidden];
                previous_states.extend_from_slice(states);
            }
        }
        let mut gradient = vec![0f32; hidden * gate_width];
        let later = previous_states.len() / hidden;
        if later > 0 {
            matmul(
                (&mut gradient, MatrixView::new(hidden, gate_width)),
                0.0,
                (
                    &previous_states,
                    MatrixView::new(later, hidden).transposed(),
                ),
                (
                    grad_gates,
                    MatrixView::block(count - later, 0, [later, gate_width], gate_width),
                ),
                1.0,
            );
        }
        gradient
    }
}

/// A matrix of `rows` rows, transposed in memory.
fn transposed(matrix: &[f32], rows: usize) -> Vec<f32> {
    let columns = matrix.len() / rows;
    let values =
        (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column]));
    values.collect()
}

impl Kernel<INPUTS> for BiLstmKernel {
    type Saved = [SavedDirection; 2];

    fn forward(&self, inputs: [&[f32]; INPUTS], save: bool) -> (Vec<f32>, Option<Self::Saved>) {
        let inputs = BiLstmInputs::from_array(inputs);
        let (forward, backward) = rayon::join(
            || self.forward_direction(inputs, 0),
            || self.forward_direction(inputs, 1),
        );
        let both = [forward, backward];
        let hidden = self.hidden;
        let mut output = vec![0f32; self.rows * 2 * hidden];
        for (direction, saved) in both.iter().enumerate() {
            let states = saved.states.chunks_exact(hidden);
            for (row, state) in self.order.rows[direction].iter().zip(states) {
                let start = (row * 2 + direction) * hidden;
                output[start..start + hidden].copy_from_slice(state);
            }
        }
        (output, save.then_some(both))
    }

    fn backward(
        &self,
        inputs: [&[f32]; INPUTS],
        saved: &Self::Saved,
        grad_output: &[f32],
        _needed: [bool; INPUTS],
    ) -> [Option<Vec<f32>>; INPUTS] {
        let inputs = BiLstmInputs::from_array(inputs);
        let direction = |direction: usize| {
            self.backward_direction(inputs, &saved[direction], grad_output, direction)
        };
        let (forward, backward) = rayon::join(|| direction(0), || direction(1));
        let mut input = vec![0f32; inputs.input.len()];
        for (indices, gradients) in self.order.rows.iter().zip([&forward, &backward]) {
            let rows = gradients.input.chunks_exact(self.width);
            for (index, row) in indices.iter().zip(rows) {
                math::add(&mut input[index * self.width..][..self.width], row);
            }
        }
        let gates = self.gates();
        let rows = (forward.weight.chunks_exact(gates)).zip(backward.weight.chunks_exact(gates));
        let weight = rows.flat_map(|(forward, backward)| forward.iter().chain(backward));
        let gradients = BiLstmInputs {
            input,
            projection: LinearParams {
                weight: weight.copied().collect(),
                bias: [forward.bias.as_slice(), &backward.bias].concat(),
            },
            recurrent: [forward.recurrent.as_slice(), &backward.recurrent].concat(),
        };
        gradients.into_array().map(Some)
    }
}
