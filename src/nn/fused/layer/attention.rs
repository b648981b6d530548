//! Attention within each sequence, forward and backward.

use rayon::prelude::*;

use super::{Layer, Saved};
use crate::nn::fused::math::{self, dropout};
use crate::nn::fused::product::{View, product};

/// Where a sequence stands.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    row: usize,
    place: usize,
    length: usize,
}

/// Cuts rows at the sequences' borders.
fn split(mut rows: &mut [f32], sizes: impl Iterator<Item = usize>) -> Vec<&mut [f32]> {
    let mut parts = Vec::new();
    for size in sizes {
        let (part, rest) = rows.split_at_mut(size);
        parts.push(part);
        rows = rest;
    }
    parts
}

impl Layer {
    fn depth(&self) -> usize {
        self.width / self.heads
    }

    /// First row, and first attention weight, of each sequence.
    fn sequences(&self) -> Vec<Sequence> {
        let (mut row, mut place) = (0, 0);
        let each = self.lengths.iter().map(|length| {
            let sequence = Sequence {
                row,
                place,
                length: *length,
            };
            row += length;
            place += self.heads * length * length;
            sequence
        });
        each.collect()
    }

    /// Mixes values by attention, and returns the weights when they are to be kept.
    pub(super) fn attend(
        &self,
        [query, key, value]: [&[f32]; 3],
        keep: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let (width, depth) = (self.width, self.depth());
        let sequences = self.sequences();
        let mut mixed = vec![0f32; query.len()];
        let cells = |sequence: &Sequence| self.heads * sequence.length * sequence.length;
        let kept = if keep {
            sequences.iter().map(cells).sum()
        } else {
            0
        };
        let mut weights = vec![0f32; kept];
        let rows = split(&mut mixed, sequences.iter().map(|s| s.length * width));
        let places = split(
            &mut weights,
            sequences.iter().map(|s| if keep { cells(s) } else { 0 }),
        );
        let scale = 1.0 / (depth as f32).sqrt();
        let rule = self.dropout.map(|rules| rules[0]);
        (sequences.par_iter().zip(rows).zip(places)).for_each(|((sequence, mixed), kept)| {
            let length = sequence.length;
            let square = View::new(length, length);
            let mut scores = vec![0f32; length * length];
            for head in 0..self.heads {
                let part = View::part(sequence.row, head * depth, [length, depth], width);
                product(
                    (&mut scores, square),
                    0.0,
                    (query, part),
                    (key, part.turned()),
                    scale,
                );
                for row in scores.chunks_exact_mut(length) {
                    math::softmax(row);
                }
                let first = head * length * length;
                if keep {
                    kept[first..first + length * length].copy_from_slice(&scores);
                }
                if let Some(rule) = rule {
                    dropout(&mut scores, rule, sequence.place + first);
                }
                let into = View::part(0, head * depth, [length, depth], width);
                product((mixed, into), 0.0, (&scores, square), (value, part), 1.0);
            }
        });
        (mixed, weights)
    }

    /// Gradients of queries, keys and values.
    pub(super) fn attend_back(&self, saved: &Saved, above: &[f32]) -> [Vec<f32>; 3] {
        let (width, depth) = (self.width, self.depth());
        let sequences = self.sequences();
        let mut found = [(); 3].map(|()| vec![0f32; above.len()]);
        let sizes = || sequences.iter().map(|s| s.length * width);
        let [query, key, value] = &mut found;
        let parts = split(query, sizes())
            .into_par_iter()
            .zip(split(key, sizes()))
            .zip(split(value, sizes()));
        let scale = 1.0 / (depth as f32).sqrt();
        let rule = self.dropout.map(|rules| rules[0]);
        (sequences.par_iter().zip(parts)).for_each(|(sequence, ((query, key), value))| {
            let length = sequence.length;
            let square = View::new(length, length);
            let mut dropped = vec![0f32; length * length];
            let mut gradient = vec![0f32; length * length];
            for head in 0..self.heads {
                let part = View::part(sequence.row, head * depth, [length, depth], width);
                let into = View::part(0, head * depth, [length, depth], width);
                let first = sequence.place + head * length * length;
                let weights = &saved.weights[first..first + length * length];
                dropped.copy_from_slice(weights);
                let values = (saved.value.as_slice(), part.turned());
                product((&mut gradient, square), 0.0, (above, part), values, 1.0);
                if let Some(rule) = rule {
                    dropout(&mut dropped, rule, first);
                    dropout(&mut gradient, rule, first);
                }
                let turned = (dropped.as_slice(), square.turned());
                product((value, into), 0.0, turned, (above, part), 1.0);
                for (gradient, weights) in gradient
                    .chunks_exact_mut(length)
                    .zip(weights.chunks_exact(length))
                {
                    math::softmax_back(gradient, weights, scale);
                }
                product(
                    (query, into),
                    0.0,
                    (&gradient, square),
                    (&saved.key, part),
                    1.0,
                );
                let turned = (gradient.as_slice(), square.turned());
                product((key, into), 0.0, turned, (&saved.query, part), 1.0);
            }
        });
        found
    }
}
