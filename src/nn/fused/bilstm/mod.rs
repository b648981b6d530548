//! A bidirectional LSTM over sequences of different lengths, both directions at once in two threads.
//!
//! Rows are put in order of time, the longest sequences first, so that each step is one product over the sequences that
//! are still going. The backward direction reads every sequence from its last real step.

mod cell;

use std::sync::Arc;

use burn::tensor::Tensor;
use cell::{cell, cell_back};

use super::math;
use super::norm::column_sums;
use super::product::{View, product, product_alone};
use super::{Kernel, apply};

/// [batch, steps, input] to [batch, steps, 2 · hidden] with an input weight [input, 2 · 4 · hidden], its bias, and a
/// recurrent weight [2, hidden, 4 · hidden].
pub fn bilstm(
    input: Tensor<3>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    recurrent: Tensor<3>,
    lengths: &[usize],
) -> Tensor<3> {
    let [batch, steps, width] = input.dims();
    let [_, hidden, _] = recurrent.dims();
    let kernel = BiLstm {
        order: Arc::new(Order::new(lengths, steps)),
        rows: batch * steps,
        width,
        hidden,
    };
    let inputs = [input.into(), weight.into(), bias.into(), recurrent.into()];
    apply(kernel, inputs, [batch, steps, 2 * hidden])
}

#[derive(Debug, Clone)]
struct BiLstm {
    order: Arc<Order>,
    rows: usize,
    width: usize,
    hidden: usize,
}

/// Which padded row each row in order of time is.
#[derive(Debug)]
struct Order {
    /// For each direction: rows of step 0, then of step 1, …
    rows: [Vec<usize>; 2],
    /// Where each step's rows start, and the end.
    starts: Vec<usize>,
}

impl Order {
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

    /// The steps from first to last: their rows, and how many rows the step before has.
    fn steps(&self) -> impl DoubleEndedIterator<Item = Step> + '_ {
        self.starts.windows(2).enumerate().map(|(index, at)| Step {
            start: at[0],
            count: at[1] - at[0],
            before: index.checked_sub(1).map(|index| self.starts[index]),
        })
    }
}

struct Step {
    start: usize,
    count: usize,
    /// Where the rows of the step before start; the first `count` of them go on.
    before: Option<usize>,
}

/// What one direction remembers, in order of time.
#[derive(Debug)]
pub struct Direction {
    /// Input, forget, cell and output gates after their functions: 4 · hidden a row.
    gates: Vec<f32>,
    cells: Vec<f32>,
    states: Vec<f32>,
}

/// Gradients of one direction.
struct Found {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    recurrent: Vec<f32>,
}

fn gather(rows: &[f32], places: &[usize], stride: usize, first: usize, width: usize) -> Vec<f32> {
    let mut found = Vec::with_capacity(places.len() * width);
    for place in places {
        found.extend_from_slice(&rows[place * stride + first..][..width]);
    }
    found
}

impl BiLstm {
    /// The part of the input weight that feeds a direction.
    fn part(&self, direction: usize) -> View {
        let gates = 4 * self.hidden;
        View::part(0, direction * gates, [self.width, gates], 2 * gates)
    }

    fn walk(&self, inputs: &[&[f32]], direction: usize) -> Direction {
        let (width, hidden) = (self.width, self.hidden);
        let width_of_gates = 4 * hidden;
        let places = &self.order.rows[direction];
        let count = places.len();
        let rows = gather(inputs[0], places, width, 0, width);
        let bias = &inputs[2][direction * width_of_gates..][..width_of_gates];
        let mut gates = bias.repeat(count);
        product(
            (&mut gates, View::new(count, width_of_gates)),
            1.0,
            (&rows, View::new(count, width)),
            (inputs[1], self.part(direction)),
            1.0,
        );
        let recurrent =
            &inputs[3][direction * hidden * width_of_gates..][..hidden * width_of_gates];
        let mut cells = vec![0f32; count * hidden];
        let mut states = vec![0f32; count * hidden];
        for step in self.order.steps() {
            let own = step.start * width_of_gates..(step.start + step.count) * width_of_gates;
            let gates = &mut gates[own];
            let (old_cells, cells) = cells.split_at_mut(step.start * hidden);
            let (old_states, states) = states.split_at_mut(step.start * hidden);
            let cells = &mut cells[..step.count * hidden];
            let states = &mut states[..step.count * hidden];
            let mut before: &[f32] = &[];
            if let Some(first) = step.before {
                let old = View::part(first, 0, [step.count, hidden], hidden);
                product_alone(
                    (gates, View::new(step.count, width_of_gates)),
                    1.0,
                    (old_states, old),
                    (recurrent, View::new(hidden, width_of_gates)),
                    1.0,
                );
                before = &old_cells[first * hidden..][..step.count * hidden];
            }
            cell(gates, before, cells, states, hidden);
        }
        Direction {
            gates,
            cells,
            states,
        }
    }

    fn walk_back(
        &self,
        inputs: &[&[f32]],
        saved: &Direction,
        above: &[f32],
        direction: usize,
    ) -> Found {
        let (width, hidden) = (self.width, self.hidden);
        let width_of_gates = 4 * hidden;
        let places = &self.order.rows[direction];
        let count = places.len();
        let mut states = gather(above, places, 2 * hidden, direction * hidden, hidden);
        let mut cells = vec![0f32; count * hidden];
        let mut gates = vec![0f32; count * width_of_gates];
        let recurrent =
            &inputs[3][direction * hidden * width_of_gates..][..hidden * width_of_gates];
        let turned = turn(recurrent, hidden);
        for step in self.order.steps().rev() {
            let (first, end) = (step.start, step.start + step.count);
            let before = step.before.map(|at| &saved.cells[at * hidden..]);
            let (old_cells, own_cells) = cells.split_at_mut(first * hidden);
            cell_back(
                &saved.gates[first * width_of_gates..end * width_of_gates],
                &saved.cells[first * hidden..end * hidden],
                before.unwrap_or_default(),
                &states[first * hidden..end * hidden],
                &own_cells[..step.count * hidden],
                &mut gates[first * width_of_gates..end * width_of_gates],
                step.before.map_or(&mut [], |at| {
                    &mut old_cells[at * hidden..][..step.count * hidden]
                }),
                hidden,
            );
            if let Some(at) = step.before {
                product_alone(
                    (&mut states, View::part(at, 0, [step.count, hidden], hidden)),
                    1.0,
                    (
                        &gates,
                        View::part(first, 0, [step.count, width_of_gates], width_of_gates),
                    ),
                    (&turned, View::new(width_of_gates, hidden)),
                    1.0,
                );
            }
        }
        let square = [hidden, width_of_gates];
        let mut found = Found {
            input: vec![0f32; count * width],
            weight: vec![0f32; width * width_of_gates],
            bias: column_sums(&gates, width_of_gates),
            recurrent: vec![0f32; hidden * width_of_gates],
        };
        let gates = (gates.as_slice(), View::new(count, width_of_gates));
        product(
            (&mut found.input, View::new(count, width)),
            0.0,
            gates,
            (inputs[1], self.part(direction).turned()),
            1.0,
        );
        let rows = gather(inputs[0], places, width, 0, width);
        product(
            (&mut found.weight, View::new(width, width_of_gates)),
            0.0,
            (&rows, View::new(count, width).turned()),
            gates,
            1.0,
        );
        // Each row of a later step with the state before it.
        let mut old = Vec::with_capacity(count * hidden);
        for step in self.order.steps() {
            if let Some(at) = step.before {
                old.extend_from_slice(&saved.states[at * hidden..][..step.count * hidden]);
            }
        }
        let later = old.len() / hidden;
        let gates = (
            gates.0,
            View::part(count - later, 0, [later, width_of_gates], width_of_gates),
        );
        if later > 0 {
            product(
                (&mut found.recurrent, View::new(square[0], square[1])),
                0.0,
                (&old, View::new(later, hidden).turned()),
                gates,
                1.0,
            );
        }
        found
    }
}

/// [hidden, 4 · hidden] to [4 · hidden, hidden].
fn turn(weight: &[f32], hidden: usize) -> Vec<f32> {
    let width = weight.len() / hidden;
    let each =
        (0..width).flat_map(|column| (0..hidden).map(move |row| weight[row * width + column]));
    each.collect()
}

impl Kernel for BiLstm {
    type Saved = [Direction; 2];

    fn forward(&self, inputs: &[&[f32]], keep: bool) -> (Vec<f32>, Option<Self::Saved>) {
        let (forward, backward) = rayon::join(|| self.walk(inputs, 0), || self.walk(inputs, 1));
        let both = [forward, backward];
        let hidden = self.hidden;
        let mut output = vec![0f32; self.rows * 2 * hidden];
        for (direction, walked) in both.iter().enumerate() {
            let rows = walked.states.chunks_exact(hidden);
            for (place, state) in self.order.rows[direction].iter().zip(rows) {
                let at = (place * 2 + direction) * hidden;
                output[at..at + hidden].copy_from_slice(state);
            }
        }
        (output, keep.then_some(both))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        saved: &Self::Saved,
        gradient: &[f32],
        _wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>> {
        let back =
            |direction: usize| self.walk_back(inputs, &saved[direction], gradient, direction);
        let (forward, backward) = rayon::join(|| back(0), || back(1));
        let both = [forward, backward];
        let mut input = vec![0f32; inputs[0].len()];
        for (direction, found) in both.iter().enumerate() {
            let rows = found.input.chunks_exact(self.width);
            for (place, row) in self.order.rows[direction].iter().zip(rows) {
                math::add(&mut input[place * self.width..][..self.width], row);
            }
        }
        let gates = 4 * self.hidden;
        let [one, other] = &both;
        let pairs = (one.weight.chunks_exact(gates)).zip(other.weight.chunks_exact(gates));
        let weight = pairs.flat_map(|(one, other)| one.iter().chain(other));
        vec![
            Some(input),
            Some(weight.copied().collect()),
            Some([one.bias.as_slice(), &other.bias].concat()),
            Some([one.recurrent.as_slice(), &other.recurrent].concat()),
        ]
    }
}
