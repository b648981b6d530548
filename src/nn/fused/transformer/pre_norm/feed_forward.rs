//! The gate of a feed-forward network: `a = mask ⊙ gelu(h) ⊙ g` (GeGLU with dropout), forward and backward.
//!
//! ```text
//! backward:  dh = gelu′(h) ⊙ g ⊙ mask ⊙ da
//!            dg = gelu(h) ⊙ mask ⊙ da
//! ```
//!
//! h and g are saved; the backward pass computes GELU, its derivative and a again, which takes less time than to read them.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::nn::fused::layer_norm::BLOCK;
use crate::nn::fused::math::{self, DropoutMask};

/// 1 / √(2π)
const DENSITY: f32 = 0.398_942_3;

/// a from h and g, `[rows, inner]` each.
pub(super) fn gate(
    hidden: &[f32],
    gate: &[f32],
    inner: usize,
    dropout: Option<DropoutMask>,
) -> Vec<f32> {
    let block = BLOCK * inner;
    let mut gated = vec![0f32; hidden.len()];
    (gated.par_chunks_mut(block))
        .zip(hidden.par_chunks(block))
        .zip(gate.par_chunks(block))
        .enumerate()
        .for_each(|(index, ((gated, hidden), gate))| {
            gate_values(gated, hidden, gate);
            if let Some(dropout) = dropout {
                dropout.apply(gated, index * block);
            }
        });
    gated
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn gate_values(gated: &mut [f32], hidden: &[f32], gate: &[f32]) {
    for ((gated, x), gate) in gated.iter_mut().zip(hidden).zip(gate) {
        let cumulative = 0.5 + 0.5 * math::erf(x * std::f32::consts::FRAC_1_SQRT_2);
        *gated = x * cumulative * gate;
    }
}

/// The values of the backward pass, `[rows, inner]` each.
pub(super) struct GateGradients {
    /// a.
    pub(super) gated: Vec<f32>,
    /// dh.
    pub(super) hidden: Vec<f32>,
    /// dg.
    pub(super) gate: Vec<f32>,
}

/// a again, dh and dg from h, g and da.
pub(super) fn gate_backward(
    hidden: &[f32],
    gate: &[f32],
    mut gradient: Vec<f32>,
    inner: usize,
    dropout: Option<DropoutMask>,
) -> GateGradients {
    let block = BLOCK * inner;
    let mut gated = vec![0f32; gradient.len()];
    let mut grad_gate = vec![0f32; gradient.len()];
    (gradient.par_chunks_mut(block))
        .zip(gated.par_chunks_mut(block))
        .zip(grad_gate.par_chunks_mut(block))
        .zip(hidden.par_chunks(block).zip(gate.par_chunks(block)))
        .enumerate()
        .for_each(
            |(index, (((gradient, gated), grad_gate), (hidden, gate)))| {
                if let Some(dropout) = dropout {
                    dropout.apply(gradient, index * block);
                }
                gate_values_backward(gradient, gated, grad_gate, hidden, gate);
                if let Some(dropout) = dropout {
                    dropout.apply(gated, index * block);
                }
            },
        );
    GateGradients {
        gated,
        hidden: gradient,
        gate: grad_gate,
    }
}

/// Replaces da in `gradient`, with its dropout applied, by dh.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn gate_values_backward(
    gradient: &mut [f32],
    gated: &mut [f32],
    grad_gate: &mut [f32],
    hidden: &[f32],
    gate: &[f32],
) {
    for ((((gradient, gated), grad_gate), x), gate) in (gradient.iter_mut().zip(gated))
        .zip(grad_gate)
        .zip(hidden)
        .zip(gate)
    {
        let cumulative = 0.5 + 0.5 * math::erf(x * std::f32::consts::FRAC_1_SQRT_2);
        let derivative = cumulative + x * DENSITY * math::exp(-0.5 * x * x);
        *gated = x * cumulative * gate;
        *grad_gate = *gradient * x * cumulative;
        *gradient *= derivative * gate;
    }
}
