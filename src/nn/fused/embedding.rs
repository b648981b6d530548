//! Looking up embeddings, and the norm over their sum.

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::math::{self, Dropout, dropout};
use super::norm::{self, BLOCK, Normalised};
use super::{Kernel, apply};

/// Rows of a table: [rows, width] to [places, width].
pub fn look_up(table: Tensor<2>, places: Vec<usize>) -> Tensor<2> {
    let [rows, width] = table.dims();
    assert!(places.iter().all(|place| *place < rows));
    let shape = [places.len(), width];
    let kernel = LookUp {
        places: places.into(),
        width,
    };
    apply(kernel, [table.into()], shape)
}

#[derive(Debug, Clone)]
struct LookUp {
    places: Arc<[usize]>,
    width: usize,
}

impl Kernel for LookUp {
    type Saved = usize; // numbers in the table

    fn forward(&self, inputs: &[&[f32]], _keep: bool) -> (Vec<f32>, Option<usize>) {
        let mut output = Vec::with_capacity(self.places.len() * self.width);
        for place in self.places.iter() {
            output.extend_from_slice(&inputs[0][place * self.width..][..self.width]);
        }
        (output, Some(inputs[0].len()))
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        size: &usize,
        gradient: &[f32],
        _wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>> {
        vec![Some(scatter(*size, &self.places, gradient, self.width))]
    }
}

/// A table of 0 with rows added at their places.
fn scatter(size: usize, places: &[usize], rows: &[f32], width: usize) -> Vec<f32> {
    let mut table = vec![0f32; size];
    for (place, row) in places.iter().zip(rows.chunks_exact(width)) {
        math::add(&mut table[place * width..][..width], row);
    }
    table
}

/// `dropout(norm(embedded + positions[place] + kind))`, as at the foot of a transformer.
#[derive(Debug, Clone)]
pub struct EmbeddingSum {
    /// Each row's position.
    pub places: Arc<[usize]>,
    /// The norm's epsilon.
    pub epsilon: f32,
    /// Dropout after the norm.
    pub dropout: Option<Dropout>,
}

impl EmbeddingSum {
    /// Dropout in training.
    pub fn dropout(seed: u32, probability: f64) -> Dropout {
        Dropout::new(probability, seed, 0)
    }

    /// [rows, width] with a table of positions, one row of a kind, and the norm's gain and shift.
    pub fn run(
        self,
        embedded: Tensor<2>,
        positions: Tensor<2>,
        kind: Tensor<1>,
        [gain, shift]: [Tensor<1>; 2],
    ) -> Tensor<2> {
        let shape = embedded.dims();
        let inputs = [
            embedded.into(),
            positions.into(),
            kind.into(),
            gain.into(),
            shift.into(),
        ];
        apply(self, inputs, shape)
    }
}

impl Kernel for EmbeddingSum {
    type Saved = Normalised;

    fn forward(&self, inputs: &[&[f32]], keep: bool) -> (Vec<f32>, Option<Normalised>) {
        let (positions, kind) = (inputs[1], inputs[2]);
        let width = kind.len();
        let add = |first: usize, rows: &mut [f32]| {
            math::add_row(rows, kind);
            for (row, place) in rows.chunks_exact_mut(width).zip(&self.places[first..]) {
                math::add(row, &positions[place * width..][..width]);
            }
        };
        let around = [inputs[3], inputs[4]];
        let (mut output, saved) = norm::norm(inputs[0].to_vec(), around, self.epsilon, add);
        if let Some(rule) = self.dropout {
            drop_blocks(&mut output, rule, width);
        }
        (output, keep.then_some(saved))
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        saved: &Normalised,
        gradient: &[f32],
        _wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>> {
        let width = inputs[2].len();
        let mut above = gradient.to_vec();
        if let Some(rule) = self.dropout {
            drop_blocks(&mut above, rule, width);
        }
        let [gain, shift] = norm::norm_back(&mut above, inputs[3], saved);
        let positions = scatter(inputs[1].len(), &self.places, &above, width);
        let kind = norm::column_sums(&above, width);
        vec![
            Some(above),
            Some(positions),
            Some(kind),
            Some(gain),
            Some(shift),
        ]
    }
}

fn drop_blocks(rows: &mut [f32], rule: Dropout, width: usize) {
    rows.par_chunks_mut(BLOCK * width)
        .enumerate()
        .for_each(|(block, rows)| dropout(rows, rule, block * BLOCK * width));
}
