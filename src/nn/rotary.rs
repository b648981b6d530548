//! Rotary positions (Su et al. 2021, <https://arxiv.org/abs/2104.09864>): queries and keys are rotated by angles in
//! proportion to their positions, so that the product of two depends on the distance between them.
//!
//! ```text
//! at position p, for pair i of a head of width d:   angle = p · θ^(-2i/d)
//! x′[i]       = x[i] · cos(angle) - x[i + d/2] · sin(angle)
//! x′[i + d/2] = x[i + d/2] · cos(angle) + x[i] · sin(angle)
//! ```
//!
//! The inverse, which is also the backward pass, rotates by the negative angle.

use burn::tensor::{Device, Tensor, TensorData};
use multiversion::multiversion;

/// Cosines and sines of the angles of all positions.
#[derive(Debug)]
pub struct RotaryTable {
    /// `[positions, pairs]`
    cosines: Vec<f32>,
    /// `[positions, pairs]`
    sines: Vec<f32>,
    /// Half the width of a head.
    pairs: usize,
}

impl RotaryTable {
    /// The table for positions from 0 up to `positions`, with θ = `theta`.
    ///
    /// Angles are rounded to single precision as in the reference implementation: that of a late position may be thousands,
    /// of which the rounding error matters.
    pub fn new(positions: usize, head_width: usize, theta: f64) -> Self {
        let pairs = head_width / 2;
        let frequency = |pair: usize| {
            let exponent = (2 * pair) as f32 / head_width as f32;
            1.0 / (theta.powf(f64::from(exponent)) as f32)
        };
        let frequencies: Vec<f32> = (0..pairs).map(frequency).collect();
        let angles = (0..positions)
            .flat_map(|position| (frequencies.iter()).map(move |f| f64::from(position as f32 * f)));
        let (cosines, sines) = angles.map(|a| (a.cos() as f32, a.sin() as f32)).unzip();
        Self {
            cosines,
            sines,
            pairs,
        }
    }

    /// Rotates rows, the first of which is at `position`, in place. A row of `width` values has one or several heads.
    pub fn rotate(&self, rows: &mut [f32], width: usize, position: usize) {
        self.rotate_by(rows, width, position, 1.0);
    }

    /// The inverse of [`rotate`](Self::rotate).
    pub fn rotate_back(&self, rows: &mut [f32], width: usize, position: usize) {
        self.rotate_by(rows, width, position, -1.0);
    }

    fn rotate_by(&self, rows: &mut [f32], width: usize, position: usize, sign: f32) {
        if self.pairs == 0 {
            return;
        }
        let first = position * self.pairs;
        for ((row, cosines), sines) in (rows.chunks_exact_mut(width))
            .zip(self.cosines[first..].chunks_exact(self.pairs))
            .zip(self.sines[first..].chunks_exact(self.pairs))
        {
            rotate_heads(row, cosines, sines, sign);
        }
    }

    /// The cosines and sines of all positions, each twice: for the first and the second half of a head.
    ///
    /// # Shapes
    /// - output: `[positions, head width]` each
    pub fn tensors(&self, device: &Device) -> [Tensor<2>; 2] {
        [&self.cosines, &self.sines].map(|values| {
            let shape = [values.len() / self.pairs.max(1), self.pairs];
            let half = Tensor::<2>::from_data(TensorData::new(values.clone(), shape), device);
            Tensor::cat(vec![half.clone(), half], 1)
        })
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn rotate_heads(row: &mut [f32], cosines: &[f32], sines: &[f32], sign: f32) {
    let pairs = cosines.len();
    for head in row.chunks_exact_mut(2 * pairs) {
        let (firsts, seconds) = head.split_at_mut(pairs);
        for (((first, second), cosine), sine) in
            firsts.iter_mut().zip(seconds).zip(cosines).zip(sines)
        {
            let sine = sign * sine;
            let (one, other) = (*first, *second);
            *first = one * cosine - other * sine;
            *second = other * cosine + one * sine;
        }
    }
}

/// Rotates all heads by Burn's operations.
///
/// # Shapes
/// - input, output: `[rows, heads, positions, head width]`
/// - tables: `[positions, head width]` each, as from [`RotaryTable::tensors`]
pub fn rotate(input: Tensor<4>, [cosines, sines]: [&Tensor<2>; 2]) -> Tensor<4> {
    let depth = input.dims()[3];
    let (first, second) = (
        input.clone().narrow(3, 0, depth / 2),
        input.clone().narrow(3, depth / 2, depth / 2),
    );
    let crossed = Tensor::cat(vec![second.neg(), first], 3);
    input * cosines.clone().unsqueeze() + crossed * sines.clone().unsqueeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;

    #[test]
    fn products_depend_on_the_distance_and_rotation_can_be_undone() {
        let (depth, theta) = (6, 100.0);
        let table = RotaryTable::new(40, depth, theta);
        let vector =
            |seed: f32| -> Vec<f32> { (0..depth).map(|i| (seed + i as f32).sin()).collect() };
        let product = |one: usize, other: usize| {
            let (mut a, mut b) = (vector(0.3), vector(2.0));
            table.rotate(&mut a, depth, one);
            table.rotate(&mut b, depth, other);
            a.iter().zip(&b).map(|(a, b)| a * b).sum::<f32>()
        };
        for distance in [0, 1, 7] {
            let first = product(distance, 0);
            for position in [3, 20] {
                assert!((product(position + distance, position) - first).abs() < 1e-5);
            }
        }
        assert!((product(5, 0) - product(0, 0)).abs() > 1e-2);
        // Two rows of two heads.
        let original: Vec<f32> = (0..4 * depth).map(|i| i as f32 * 0.1).collect();
        let mut rows = original.clone();
        table.rotate(&mut rows, 2 * depth, 8);
        assert!((rows[0] - original[0]).abs() > 1e-2);
        let mut head = original[2 * depth + depth..].to_vec();
        table.rotate(&mut head, depth, 9);
        assert_eq!(rows[2 * depth + depth..], head);
        table.rotate_back(&mut rows, 2 * depth, 8);
        for (found, expected) in rows.iter().zip(&original) {
            assert!((found - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn tensors_are_rotated_in_the_same_way() {
        let device = Device::flex();
        let (heads, positions, depth) = (2, 5, 4);
        let table = RotaryTable::new(positions, depth, 10.0);
        let values: Vec<f32> = (0..heads * positions * depth)
            .map(|i| (i as f32).cos())
            .collect();
        let input = TensorData::new(values.clone(), [1, heads, positions, depth]);
        let [cosines, sines] = table.tensors(&device);
        let found = floats(rotate(
            Tensor::from_data(input, &device),
            [&cosines, &sines],
        ));
        let mut expected = values;
        for head in expected.chunks_exact_mut(positions * depth) {
            table.rotate(head, depth, 0);
        }
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6);
        }
    }
}
