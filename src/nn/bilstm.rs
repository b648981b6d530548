//! A bidirectional LSTM over sequences of different lengths.
//!
//! Both directions walk at once: the backward one reads each sequence turned round from its last real step, so its
//! padding, too, comes last and never touches a real step. The input's share of all gates is one product before the
//! walk. On the CPU one kernel does it all, padding left out. Gates stand in PyTorch's order: input, forget, cell, output.

use burn::module::{Initializer, Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Tensor};

use crate::nn::rows::indices;
use crate::nn::{fused, mask};

/// Steps cut from the gates in one piece. The gradient of a cut is as large as what it was cut from, so cutting in
/// two stages keeps the backward pass from growing with the square of the length.
const BLOCK: usize = 16;

/// One layer of LSTM in both directions.
#[derive(Module, Debug)]
pub struct BiLstm {
    /// Input to the gates of both directions: [input, 2 · 4 · hidden].
    pub input: Linear,
    /// State to gates, forward and backward: [2, hidden, 4 · hidden].
    pub recurrent: Param<Tensor<3>>,
}

impl BiLstm {
    /// Weights drawn evenly from ±1/√hidden, as in PyTorch.
    pub fn new(input: usize, hidden: usize, device: &Device) -> Self {
        let bound = 1.0 / (hidden as f64).sqrt();
        let even = Initializer::Uniform {
            min: -bound,
            max: bound,
        };
        Self {
            input: LinearConfig::new(input, 8 * hidden)
                .with_initializer(even.clone())
                .init(device),
            recurrent: even.init([2, hidden, 4 * hidden], device),
        }
    }

    /// [batch, steps, input] to [batch, steps, 2 · hidden], the forward state first. Steps past a sequence's length
    /// come out as 0.
    pub fn forward(&self, input: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        let [batch, steps, _] = input.dims();
        let device = input.device();
        if let (true, Some(bias)) = (fused::runs_on(&device), &self.input.bias) {
            let (weight, recurrent) = (self.input.weight.val(), self.recurrent.val());
            return fused::bilstm::bilstm(input, weight, bias.val(), recurrent, lengths);
        }
        let [_, hidden, gates] = self.recurrent.dims();
        let turned: Vec<usize> = (0..batch * steps)
            .map(|place| turn(place / steps, place % steps, steps, lengths))
            .collect();
        let turned = indices(&turned, &device);

        let projected = self
            .input
            .forward(input)
            .reshape([batch * steps, 2 * gates]);
        let forward = projected.clone().narrow(1, 0, gates);
        let backward = projected.narrow(1, gates, gates).select(0, turned.clone());
        let projected: Tensor<4> = Tensor::stack::<3>(vec![forward, backward], 0)
            .reshape([2, batch, steps, gates])
            .permute([2, 0, 1, 3]); // [steps, 2, batch, gates]

        let states = self.walk(projected); // [steps, 2, batch, hidden]
        let states = states.permute([1, 2, 0, 3]);
        let direction = |index| {
            states
                .clone()
                .narrow(0, index, 1)
                .reshape([batch * steps, hidden])
        };
        let both = Tensor::cat(vec![direction(0), direction(1).select(0, turned)], 1).reshape([
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

    fn walk(&self, projected: Tensor<4>) -> Tensor<4> {
        let [steps, _, batch, gates] = projected.dims();
        let hidden = gates / 4;
        let recurrent = self.recurrent.val();
        let mut last: Option<(Tensor<3>, Tensor<3>)> = None; // state and cell: [2, batch, hidden]
        let mut states = Vec::with_capacity(steps);
        for start in (0..steps).step_by(BLOCK) {
            let count = BLOCK.min(steps - start);
            let block = projected.clone().narrow(0, start, count);
            for step in 0..count {
                let mut sum = block.clone().narrow(0, step, 1).reshape([2, batch, gates]);
                if let Some((state, _)) = &last {
                    sum = sum + state.clone().matmul(recurrent.clone());
                }
                let gate = |index: usize| sum.clone().narrow(2, index * hidden, hidden);
                let new = sigmoid(gate(0)) * tanh(gate(2));
                let cell = match last {
                    Some((_, cell)) => sigmoid(gate(1)) * cell + new,
                    None => new,
                };
                let state = sigmoid(gate(3)) * tanh(cell.clone());
                states.push(state.clone());
                last = Some((state, cell));
            }
        }
        Tensor::stack(states, 0)
    }
}

/// Where step `step` of a sequence lies in the same sequence turned round; padding stays where it is.
fn turn(sequence: usize, step: usize, steps: usize, lengths: &[usize]) -> usize {
    let length = lengths[sequence];
    let place = if step < length {
        length - 1 - step
    } else {
        step
    };
    sequence * steps + place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::Distribution;

    /// One direction, number by number.
    fn plain(inputs: &[Vec<f32>], layer: &BiLstm, direction: usize) -> Vec<Vec<f32>> {
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
    fn each_sequence_is_walked_from_both_of_its_own_ends() {
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
                let forward = plain(&rows, &layer, 0);
                let reversed: Vec<Vec<f32>> = rows.into_iter().rev().collect();
                let mut backward = plain(&reversed, &layer, 1);
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
