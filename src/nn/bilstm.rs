//! A bidirectional LSTM over sequences of different lengths.
//!
//! Both directions are computed together. The backward direction reads each sequence reversed from its last real step, so
//! that padding comes last there, too, and never affects a real step. The input's share of all gates is one matrix product
//! before the recurrence. On the CPU a fused kernel computes the layer without padding.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Tensor};

use super::rows::index_tensor;
use super::{fused, mask};

/// Steps that are sliced from the gates at once. The gradient of a slice is as large as the tensor it is taken from;
/// slicing in two stages keeps the cost of the backward pass from growing with the square of the length.
const BLOCK: usize = 16;

/// One bidirectional LSTM layer.
///
/// ```text
/// i, f, g, o = x·W + b + h·U                    for each direction, gates in PyTorch's order
/// c′ = sigmoid(f) ⊙ c + sigmoid(i) ⊙ tanh(g)
/// h′ = sigmoid(o) ⊙ tanh(c′)
/// ```
#[derive(Module, Debug)]
pub struct BiLstm {
    /// W and b of the forward, then of the backward direction: `[input, 2 · 4 · hidden]`.
    pub input: Linear,
    /// U of the forward and of the backward direction: `[2, hidden, 4 · hidden]`.
    pub recurrent: Param<Tensor<3>>,
}

impl BiLstm {
    /// New weights, uniform between ±1/√hidden as in PyTorch.
    pub fn new(input: usize, hidden: usize, device: &Device) -> Self {
        let bound = 1.0 / (hidden as f64).sqrt();
        let uniform = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        Self {
            input: LinearConfig::new(input, 8 * hidden)
                .with_initializer(uniform.clone())
                .init(device),
            recurrent: uniform.init([2, hidden, 4 * hidden], device),
        }
    }

    /// Applies the layer to sequences of these lengths. Steps past the end of a sequence are 0 in the output.
    ///
    /// # Shapes
    /// - input: `[batch, steps, input]`
    /// - output: `[batch, steps, 2 · hidden]`, the forward direction's states first
    pub fn forward(&self, input: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        let [batch, steps, _] = input.dims();
        let device = input.device();
        if let (true, Some(bias)) = (fused::runs_on(&device), &self.input.bias) {
            let (weight, recurrent) = (self.input.weight.val(), self.recurrent.val());
            return fused::bilstm::bilstm(input, weight, bias.val(), recurrent, lengths);
        }
        let [_, hidden, gates] = self.recurrent.dims();
        let reversed: Vec<usize> = (0..batch * steps)
            .map(|row| reversed_row(row / steps, row % steps, steps, lengths))
            .collect();
        let reversed = index_tensor(&reversed, &device);

        let projected = self
            .input
            .forward(input)
            .reshape([batch * steps, 2 * gates]);
        let forward = projected.clone().narrow(1, 0, gates);
        let backward = projected.narrow(1, gates, gates);
        let backward = backward.select(0, reversed.clone());
        let projected: Tensor<4> = Tensor::stack::<3>(vec![forward, backward], 0)
            .reshape([2, batch, steps, gates])
            .permute([2, 0, 1, 3]); // [steps, 2, batch, gates]

        let states = self.recur(projected); // [steps, 2, batch, hidden]
        let states = states.permute([1, 2, 0, 3]);
        let direction = |index| {
            states
                .clone()
                .narrow(0, index, 1)
                .reshape([batch * steps, hidden])
        };
        let both = Tensor::cat(vec![direction(0), direction(1).select(0, reversed)], 1).reshape([
            batch,
            steps,
            2 * hidden,
        ]);
        if mask::has_padding(lengths, steps) {
            both * mask::float_mask(lengths, steps, &device).unsqueeze_dim(2)
        } else {
            both
        }
    }

    /// The recurrence over all steps of both directions.
    ///
    /// # Shapes
    /// - projected: `[steps, 2, batch, 4 · hidden]`
    /// - output: `[steps, 2, batch, hidden]`
    fn recur(&self, projected: Tensor<4>) -> Tensor<4> {
        let [steps, _, batch, gates] = projected.dims();
        let hidden = gates / 4;
        let recurrent = self.recurrent.val();
        let mut previous: Option<(Tensor<3>, Tensor<3>)> = None; // state and cell: [2, batch, hidden]
        let mut states = Vec::with_capacity(steps);
        for start in (0..steps).step_by(BLOCK) {
            let count = BLOCK.min(steps - start);
            let block = projected.clone().narrow(0, start, count);
            for step in 0..count {
                let mut sum = block.clone().narrow(0, step, 1).reshape([2, batch, gates]);
                if let Some((state, _)) = &previous {
                    sum = sum + state.clone().matmul(recurrent.clone());
                }
                let gate = |index: usize| sum.clone().narrow(2, index * hidden, hidden);
                let new = sigmoid(gate(0)) * tanh(gate(2));
                let cell = match previous {
                    Some((_, cell)) => sigmoid(gate(1)) * cell + new,
                    None => new,
                };
                let state = sigmoid(gate(3)) * tanh(cell.clone());
                states.push(state.clone());
                previous = Some((state, cell));
            }
        }
        Tensor::stack(states, 0)
    }
}

/// The row of a step after its sequence has been reversed; padding stays where it is.
fn reversed_row(sequence: usize, step: usize, steps: usize, lengths: &[usize]) -> usize {
    let length = lengths[sequence];
    let reversed = if step < length {
        length - 1 - step
    } else {
        step
    };
    sequence * steps + reversed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Distribution;

    /// One direction, value by value.
    fn reference(inputs: &[Vec<f32>], layer: &BiLstm, direction: usize) -> Vec<Vec<f32>> {
        let [_, hidden, gates] = layer.recurrent.dims();
        let weight = floats(layer.input.weight.val());
        let bias = floats(layer.input.bias.as_ref().unwrap().val());
        let recurrent = floats(layer.recurrent.val());
        let logistic = |x: f32| 1.0 / (1.0 + (-x).exp());
        let (mut state, mut cell) = (vec![0.0; hidden], vec![0.0; hidden]);
        let mut states = Vec::new();
        for input in inputs {
            let sums: Vec<f32> = (0..gates)
                .map(|gate| {
                    let column = direction * gates + gate;
                    let from_input: f32 = (0..input.len())
                        .map(|row| input[row] * weight[row * 2 * gates + column])
                        .sum();
                    let from_state: f32 = (0..hidden)
                        .map(|row| {
                            state[row] * recurrent[(direction * hidden + row) * gates + gate]
                        })
                        .sum();
                    bias[column] + from_input + from_state
                })
                .collect();
            for unit in 0..hidden {
                let gate = |index: usize| sums[index * hidden + unit];
                cell[unit] = logistic(gate(1)) * cell[unit] + logistic(gate(0)) * gate(2).tanh();
                state[unit] = logistic(gate(3)) * cell[unit].tanh();
            }
            states.push(state.clone());
        }
        states
    }

    #[test]
    fn each_direction_starts_at_an_end_of_its_sequence() {
        for device in crate::device::cpu_devices() {
            device.seed(5);
            let (steps, width, hidden) = (19, 3, 2);
            let layer = BiLstm::new(width, hidden, &device);
            let lengths = [19, 1, 7, 0];
            let shape = [lengths.len(), steps, width];
            let input = Tensor::<3>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            let found = floats(layer.forward(input.clone(), &lengths));
            let values = floats(input);
            for (sequence, length) in lengths.into_iter().enumerate() {
                let rows: Vec<Vec<f32>> = (0..length)
                    .map(|step| {
                        let at = (sequence * steps + step) * width;
                        values[at..at + width].to_vec()
                    })
                    .collect();
                let forward = reference(&rows, &layer, 0);
                let reversed: Vec<Vec<f32>> = rows.into_iter().rev().collect();
                let mut backward = reference(&reversed, &layer, 1);
                backward.reverse();
                for step in 0..steps {
                    let at = (sequence * steps + step) * 2 * hidden;
                    let expected = if step < length {
                        [forward[step].clone(), backward[step].clone()].concat()
                    } else {
                        vec![0.0; 2 * hidden]
                    };
                    for (found, expected) in found[at..].iter().zip(expected) {
                        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                    }
                }
            }
        }
    }
}
