//! The cell of an LSTM over many rows, forward and backward.

use multiversion::multiversion;

use crate::nn::fused::math::{sigmoid, tanh};

/// Gates before their functions to gates after them, cells and states. Without cells before, these are 0.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn cell(
    gates: &mut [f32],
    before: &[f32],
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
        let (new, output) = rest.split_at_mut(hidden);
        for value in input.iter_mut().chain(forget.iter_mut()) {
            *value = sigmoid(*value);
        }
        for value in new.iter_mut() {
            *value = tanh(*value);
        }
        for value in output.iter_mut() {
            *value = sigmoid(*value);
        }
        for ((cell, input), new) in cells.iter_mut().zip(&*input).zip(&*new) {
            *cell = input * new;
        }
        if !before.is_empty() {
            let before = &before[index * hidden..][..hidden];
            for ((cell, forget), before) in cells.iter_mut().zip(&*forget).zip(before) {
                *cell += forget * before;
            }
        }
        for ((state, output), cell) in states.iter_mut().zip(&*output).zip(&*cells) {
            *state = output * tanh(*cell);
        }
    }
}

/// Gradients of the gates before their functions, and of the cells before.
#[allow(clippy::too_many_arguments)]
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn cell_back(
    gates: &[f32],
    cells: &[f32],
    before: &[f32],
    state_gradients: &[f32],
    cell_gradients: &[f32],
    gate_gradients: &mut [f32],
    before_gradients: &mut [f32],
    hidden: usize,
) {
    for (row, found) in gate_gradients.chunks_exact_mut(4 * hidden).enumerate() {
        let gates = &gates[row * 4 * hidden..][..4 * hidden];
        let own = row * hidden..(row + 1) * hidden;
        let (cells, states) = (&cells[own.clone()], &state_gradients[own.clone()]);
        let above = &cell_gradients[own.clone()];
        let (inputs, rest) = gates.split_at(hidden);
        let (forgets, rest) = rest.split_at(hidden);
        let (news, outputs) = rest.split_at(hidden);
        let (to_input, rest) = found.split_at_mut(hidden);
        let (to_forget, rest) = rest.split_at_mut(hidden);
        let (to_new, to_output) = rest.split_at_mut(hidden);
        for unit in 0..hidden {
            let (input, new, output) = (inputs[unit], news[unit], outputs[unit]);
            let bent = tanh(cells[unit]);
            let cell = above[unit] + states[unit] * output * (1.0 - bent * bent);
            to_output[unit] = states[unit] * bent * output * (1.0 - output);
            to_input[unit] = cell * new * input * (1.0 - input);
            to_new[unit] = cell * input * (1.0 - new * new);
            to_forget[unit] = cell; // finished below, where there is a cell before
        }
        if before.is_empty() {
            to_forget.fill(0.0);
            continue;
        }
        let before = &before[own.clone()];
        let before_gradients = &mut before_gradients[own];
        for unit in 0..hidden {
            let (cell, forget) = (to_forget[unit], forgets[unit]);
            before_gradients[unit] = cell * forget;
            to_forget[unit] = cell * before[unit] * forget * (1.0 - forget);
        }
    }
}
