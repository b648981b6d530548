//! A whole transformer layer over packed rows: no padding, two norms, six products, attention sentence by sentence.
//!
//! Numbers as in `encoder::transformer`'s plain layer, of which this is the image:
//! y = norm(x + dropout(W_o attend(x) + b_o)), z = norm(y + dropout(W₂ gelu(W₁ y + b₁) + b₂)).

mod attention;
mod linear;

use std::sync::Arc;

use linear::{bare, linear, rows_back, weight_back};
use rayon::prelude::*;

use super::math::{self, Dropout};
use super::norm::{self, BLOCK, Normalised};
use super::{Input, Kernel, apply};
use burn::tensor::Tensor;

/// A layer's weights, each [from, to], with bias; then the norms' gains and shifts.
pub struct Weights {
    /// Query, key, value, output, inner and outer: weight and bias.
    pub linear: [(Tensor<2>, Tensor<1>); 6],
    /// After attention and after the feed-forward part: gain and shift.
    pub norms: [[Tensor<1>; 2]; 2],
}

/// Places of the inputs.
const STATES: usize = 0;
const QUERY: usize = 1;
const OUTPUT: usize = 7;
const INNER: usize = 9;
const OUTER: usize = 11;
const NORMS: [usize; 2] = [13, 15];
const INPUTS: usize = 17;

/// What a layer is, beside its weights.
#[derive(Debug, Clone)]
pub struct Layer {
    /// Pieces of each sequence; the rows of all follow each other.
    pub lengths: Arc<Vec<usize>>,
    /// Attention heads.
    pub heads: usize,
    /// Width of states.
    pub width: usize,
    /// Width inside the feed-forward part.
    pub inner: usize,
    /// The norms' epsilon.
    pub epsilon: f32,
    /// Dropout of attention weights, and after both sub-layers.
    pub dropout: Option<[Dropout; 3]>,
}

impl Layer {
    /// Dropout in training: of attention weights and of sub-layers.
    pub fn dropout(seed: u32, layer: usize, attention: f64, sublayer: f64) -> [Dropout; 3] {
        let site = 3 * layer as u32 + 1;
        [
            Dropout::new(attention, seed, site),
            Dropout::new(sublayer, seed, site + 1),
            Dropout::new(sublayer, seed, site + 2),
        ]
    }

    /// States through the layer: [rows, width].
    pub fn run(self, states: Tensor<2>, weights: Weights) -> Tensor<2> {
        let shape = states.dims();
        let mut inputs: Vec<Input> = vec![states.into()];
        for (weight, bias) in weights.linear {
            inputs.extend([weight.into(), bias.into()]);
        }
        for around in weights.norms {
            inputs.extend(around.map(Input::from));
        }
        let Ok(inputs) = <[Input; INPUTS]>::try_from(inputs) else {
            unreachable!("a layer has its inputs")
        };
        apply(self, inputs, shape)
    }
}

/// What the backward pass needs.
#[derive(Debug)]
pub struct Saved {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    /// Attention weights before dropout: heads · length² for each sequence.
    weights: Vec<f32>,
    mixed: Vec<f32>,
    middle: Vec<f32>,
    activated: Vec<f32>,
    slopes: Vec<f32>,
    norms: [Normalised; 2],
}

impl Layer {
    /// GELU of `rows + bias`, and its slopes when they are to be kept.
    fn activate(&self, rows: &mut [f32], bias: &[f32], keep: bool) -> Vec<f32> {
        let block = BLOCK * self.inner;
        if !keep {
            rows.par_chunks_mut(block)
                .for_each(|rows| math::bias_gelu(rows, bias));
            return Vec::new();
        }
        let mut slopes = vec![0f32; rows.len()];
        rows.par_chunks_mut(block)
            .zip(slopes.par_chunks_mut(block))
            .for_each(|(rows, slopes)| math::bias_gelu_slope(rows, slopes, bias));
        slopes
    }
}

impl Kernel for Layer {
    type Saved = Saved;

    fn forward(&self, inputs: &[&[f32]], keep: bool) -> (Vec<f32>, Option<Saved>) {
        let states = inputs[STATES];
        let rule = |site: usize| self.dropout.map(|rules| rules[site]);
        let [query, key, value] = [0, 1, 2].map(|part| {
            let at = QUERY + 2 * part;
            linear(states, inputs[at], inputs[at + 1])
        });
        let (mixed, weights) = self.attend([&query, &key, &value], keep);
        let attended = bare(&mixed, inputs[OUTPUT], self.width);
        let around = |at: usize| [inputs[at], inputs[at + 1]];
        let (middle, first) = norm::norm(
            attended,
            around(NORMS[0]),
            self.epsilon,
            norm::residual(inputs[OUTPUT + 1], states, rule(1)),
        );
        let mut activated = bare(&middle, inputs[INNER], self.inner);
        let slopes = self.activate(&mut activated, inputs[INNER + 1], keep);
        let outer = bare(&activated, inputs[OUTER], self.width);
        let (output, second) = norm::norm(
            outer,
            around(NORMS[1]),
            self.epsilon,
            norm::residual(inputs[OUTER + 1], &middle, rule(2)),
        );
        let saved = keep.then_some(Saved {
            query,
            key,
            value,
            weights,
            mixed,
            middle,
            activated,
            slopes,
            norms: [first, second],
        });
        (output, saved)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        saved: &Saved,
        gradient: &[f32],
        _wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>> {
        let (width, inner) = (self.width, self.inner);
        let rule = |site: usize| self.dropout.map(|rules| rules[site]);
        let mut found: Vec<Option<Vec<f32>>> = vec![None; INPUTS];
        let mut put = |at: usize, pair: [Vec<f32>; 2]| {
            for (offset, gradient) in pair.into_iter().enumerate() {
                found[at + offset] = Some(gradient);
            }
        };

        // The feed-forward part. `above` ends as the gradient of its input, the middle states.
        let mut above = gradient.to_vec();
        put(
            NORMS[1],
            norm::norm_back(&mut above, inputs[NORMS[1]], &saved.norms[1]),
        );
        let (through, bias) = norm::bias_back(&above, width, rule(2));
        let weight = weight_back(&saved.activated, &through, [inner, width]);
        put(OUTER, [weight, bias]);
        let mut inside = vec![0f32; saved.slopes.len()];
        rows_back(&mut inside, 0.0, &through, inputs[OUTER], width);
        inside
            .par_chunks_mut(BLOCK * inner)
            .zip(saved.slopes.par_chunks(BLOCK * inner))
            .for_each(|(inside, slopes)| math::multiply(inside, slopes));
        let weight = weight_back(&saved.middle, &inside, [width, inner]);
        put(INNER, [weight, norm::column_sums(&inside, inner)]);
        rows_back(&mut above, 1.0, &inside, inputs[INNER], inner);
        drop(inside);

        // Attention. `above` ends as the gradient of the layer's input.
        put(
            NORMS[0],
            norm::norm_back(&mut above, inputs[NORMS[0]], &saved.norms[0]),
        );
        let (through, bias) = norm::bias_back(&above, width, rule(1));
        let weight = weight_back(&saved.mixed, &through, [width, width]);
        put(OUTPUT, [weight, bias]);
        let mut mixed = vec![0f32; through.len()];
        rows_back(&mut mixed, 0.0, &through, inputs[OUTPUT], width);
        for (part, gradient) in self.attend_back(saved, &mixed).into_iter().enumerate() {
            let at = QUERY + 2 * part;
            let weight = weight_back(inputs[STATES], &gradient, [width, width]);
            put(at, [weight, norm::column_sums(&gradient, width)]);
            rows_back(&mut above, 1.0, &gradient, inputs[at], width);
        }
        found[STATES] = Some(above);
        found
    }
}
