//! The LSTM cell over many rows, forward and backward.
//!
//! ```text
//! forward:   i = σ(aᵢ),   f = σ(a_f),   g = tanh(a_g),   o = σ(a_o)
//!            c′ = f ⊙ c + i ⊙ g
//!            h′ = o ⊙ tanh(c′)
//! backward:  d = dc′ + dh′ ⊙ o ⊙ (1 - tanh²(c′))
//!            daᵢ  = d ⊙ g ⊙ i ⊙ (1 - i)
//!            da_f = d ⊙ c ⊙ f ⊙ (1 - f)
//!            da_g = d ⊙ i ⊙ (1 - g²)
//!            da_o = dh′ ⊙ tanh(c′) ⊙ o ⊙ (1 - o)
//!            dc   = d ⊙ f
//! ```
//!
//! `a` are the gates before their activations, `c` and `h` cell and state of the previous step, `c′` and `h′` those of
//! this step. At the first step `c` is 0, given as an empty slice.
//!
//! # Shapes
//! - a, da: `[rows, 4 · hidden]` in the order input, forget, cell candidate, output
//! - c, c′, h′: `[rows, hidden]`

use multiversion::multiversion;

use crate::nn::fused::math::{sigmoid, tanh};

/// Replaces the gates `a` by their activations, and writes `cells` c′ and `states` h′.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn cell_forward(
    gates: &mut [f32],
    previous_cells: &[f32],
    cells: &mut [f32],
    states: &mut [f32],
    hidden: usize,
) {
    let rows = gates.chunks_exact_mut(4 * hidden);
    let rows = rows
        .zip(cells.chunks_exact_mut(hidden))
        .zip(states.chunks_exact_mut(hidden));
    for (index, ((gates, cells), states)) in rows.enumerate() {
        let (input, rest) = gates.split_at_mut(hidden);
        let (forget, rest) = rest.split_at_mut(hidden);
        let (candidate, output) = rest.split_at_mut(hidden);
        for value in input.iter_mut().chain(forget.iter_mut()) {
            *value = sigmoid(*value);
        }
        for value in candidate.iter_mut() {
            *value = tanh(*value);
        }
        for value in output.iter_mut() {
            *value = sigmoid(*value);
        }
        for ((cell, input), candidate) in cells.iter_mut().zip(&*input).zip(&*candidate) {
            *cell = input * candidate;
        }
        if !previous_cells.is_empty() {
            let previous = &previous_cells[index * hidden..][..hidden];
            for ((cell, forget), previous) in cells.iter_mut().zip(&*forget).zip(previous) {
                *cell += forget * previous;
            }
        }
        for ((state, output), cell) in states.iter_mut().zip(&*output).zip(&*cells) {
            *state = output * tanh(*cell);
        }
    }
}

/// Writes `grad_gates` da and `grad_previous_cells` dc. `gates` are the activations i, f, g, o.
#[allow(clippy::too_many_arguments)]
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn cell_backward(
    gates: &[f32],
    cells: &[f32],
    previous_cells: &[f32],
    grad_states: &[f32],
    grad_cells: &[f32],
    grad_gates: &mut [f32],
    grad_previous_cells: &mut [f32],
    hidden: usize,
) {
    for (row, grad_gates) in grad_gates.chunks_exact_mut(4 * hidden).enumerate() {
        let gates = &gates[row * 4 * hidden..][..4 * hidden];
        let range = row * hidden..(row + 1) * hidden;
        let cells = &cells[range.clone()];
        let grad_states = &grad_states[range.clone()];
        let grad_cells = &grad_cells[range.clone()];
        let (inputs, rest) = gates.split_at(hidden);
        let (forgets, rest) = rest.split_at(hidden);
        let (candidates, outputs) = rest.split_at(hidden);
        let (grad_input, rest) = grad_gates.split_at_mut(hidden);
        let (grad_forget, rest) = rest.split_at_mut(hidden);
        let (grad_candidate, grad_output) = rest.split_at_mut(hidden);
        for unit in 0..hidden {
            let (input, candidate, output) = (inputs[unit], candidates[unit], outputs[unit]);
            let tanh_cell = tanh(cells[unit]);
            let grad_cell =
                grad_cells[unit] + grad_states[unit] * output * (1.0 - tanh_cell * tanh_cell);
            grad_output[unit] = grad_states[unit] * tanh_cell * output * (1.0 - output);
            grad_input[unit] = grad_cell * candidate * input * (1.0 - input);
            grad_candidate[unit] = grad_cell * input * (1.0 - candidate * candidate);
            grad_forget[unit] = grad_cell; // holds d until the loop below
        }
        if previous_cells.is_empty() {
            grad_forget.fill(0.0);
            continue;
        }
        let previous_cells = &previous_cells[range.clone()];
        let grad_previous_cells = &mut grad_previous_cells[range];
        for unit in 0..hidden {
            let (grad_cell, forget) = (grad_forget[unit], forgets[unit]);
            grad_previous_cells[unit] = grad_cell * forget;
            grad_forget[unit] = grad_cell * previous_cells[unit] * forget * (1.0 - forget);
        }
    }
}
