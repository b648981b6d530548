//! Arithmetic on slices, compiled for several instruction sets and chosen at run time.
//!
//! The functions of one number have no branches and no calls, so that the loops over them become vector code.

use multiversion::multiversion;

/// e to the x: relative error below 2e-7 where the result is a normal number; 0 below.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to a whole number in the low bits
    let x = x.clamp(-87.3, 88.3);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let whole = shifted - SHIFT;
    // ln 2 in two parts keeps the remainder exact.
    let rest = (x - whole * 0.693_359_4) + whole * 2.121_944_4e-4;
    let mut sum = 1.987_569_1e-4;
    sum = sum * rest + 1.398_199_9e-3;
    sum = sum * rest + 8.333_452e-3;
    sum = sum * rest + 4.166_579_6e-2;
    sum = sum * rest + 1.666_666_5e-1;
    sum = sum * rest + 0.5;
    let fraction = sum * rest * rest + rest + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    fraction * power
}

/// The error function: a quotient of polynomials in x², error below 6e-7.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let mut over = -2.726_142_3e-10;
    over = over * square + 2.770_681_4e-8;
    over = over * square - 2.101_024e-6;
    over = over * square - 5.692_506_4e-5;
    over = over * square - 7.349_906_3e-4;
    over = over * square - 2.954_6e-3;
    over = over * square - 1.609_603_3e-2;
    let mut under = -1.456_607_2e-5;
    under = under * square - 2.133_740_6e-4;
    under = under * square - 1.682_827e-3;
    under = under * square - 7.373_329e-3;
    under = under * square - 1.426_473_9e-2;
    x * over / under
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent, absolute error below 6e-7.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// An even draw from the 32-bit numbers for a place under a seed.
#[inline(always)]
fn draw(seed: u32, place: u32) -> u32 {
    let mut bits = place.wrapping_mul(0x9e37_79b9) ^ seed;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

/// Dropout as a function of place: the same in the forward and the backward pass, nothing to keep.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    threshold: u32,
    scale: f32,
    seed: u32,
}

impl Dropout {
    /// Drops with this probability; each `site` of a model drops its own places.
    pub fn new(probability: f64, seed: u32, site: u32) -> Self {
        Self {
            threshold: (probability * 4_294_967_296.0) as u32,
            scale: (1.0 / (1.0 - probability)) as f32,
            seed: draw(seed, site),
        }
    }

    /// The factor of a place: 0, or what makes up for the others.
    #[inline(always)]
    fn factor(self, place: usize) -> f32 {
        let keep = draw(self.seed, place as u32) >= self.threshold;
        if keep { self.scale } else { 0.0 }
    }

    fn none(self) -> bool {
        self.threshold == 0
    }
}

/// Multiplies values, the first of which stands at `place`, by their factors.
pub fn dropout(values: &mut [f32], dropout: Dropout, place: usize) {
    if !dropout.none() {
        drop_places(values, dropout, place);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn drop_places(values: &mut [f32], dropout: Dropout, place: usize) {
    for (index, value) in values.iter_mut().enumerate() {
        *value *= dropout.factor(place + index);
    }
}

/// Adds a row to each row.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn add_row(rows: &mut [f32], row: &[f32]) {
    for values in rows.chunks_exact_mut(row.len()) {
        for (value, addend) in values.iter_mut().zip(row) {
            *value += addend;
        }
    }
}

/// Adds numbers to numbers.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn add(values: &mut [f32], addends: &[f32]) {
    for (value, addend) in values.iter_mut().zip(addends) {
        *value += addend;
    }
}

/// GELU of rows plus a bias, in place.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn bias_gelu(rows: &mut [f32], bias: &[f32]) {
    for values in rows.chunks_exact_mut(bias.len()) {
        for (value, bias) in values.iter_mut().zip(bias) {
            let x = *value + bias;
            *value = x * (0.5 + 0.5 * erf(x * std::f32::consts::FRAC_1_SQRT_2));
        }
    }
}

/// The same, and its slope beside it.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn bias_gelu_slope(rows: &mut [f32], slopes: &mut [f32], bias: &[f32]) {
    const DENSITY: f32 = 0.398_942_3; // 1 / √(2π)
    let width = bias.len();
    for (values, slopes) in rows
        .chunks_exact_mut(width)
        .zip(slopes.chunks_exact_mut(width))
    {
        for ((value, slope), bias) in values.iter_mut().zip(slopes).zip(bias) {
            let x = *value + bias;
            let below = 0.5 + 0.5 * erf(x * std::f32::consts::FRAC_1_SQRT_2);
            *value = x * below;
            *slope = below + x * DENSITY * exp(-0.5 * x * x);
        }
    }
}

/// Softmax of one row, in place.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn softmax(row: &mut [f32]) {
    let mut largest = [f32::NEG_INFINITY; 16];
    let mut chunks = row.chunks_exact(16);
    for chunk in &mut chunks {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = if *value > *largest { *value } else { *largest };
        }
    }
    let rest = chunks.remainder().iter().chain(&largest);
    let largest = rest.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    for value in row.iter_mut() {
        *value = exp(*value - largest);
    }
    let inverse = 1.0 / sum(row);
    for value in row.iter_mut() {
        *value *= inverse;
    }
}

/// The gradient before a softmax from that after it, in place: p ⊙ (g − p·g), times `scale`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn softmax_back(gradient: &mut [f32], weights: &[f32], scale: f32) {
    let common = dot(gradient, weights);
    for (gradient, weight) in gradient.iter_mut().zip(weights) {
        *gradient = scale * weight * (*gradient - common);
    }
}

/// Multiplies numbers by numbers.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn multiply(values: &mut [f32], factors: &[f32]) {
    for (value, factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

/// The sum in sixteen lanes.
#[inline(always)]
pub fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let mut chunks = values.chunks_exact(16);
    for chunk in &mut chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let rest: f32 = chunks.remainder().iter().sum();
    lanes.iter().sum::<f32>() + rest
}

/// The inner product in sixteen lanes.
#[inline(always)]
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let (mut ones, mut others) = (one.chunks_exact(16), other.chunks_exact(16));
    for (one, other) in (&mut ones).zip(&mut others) {
        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
            *lane += one * other;
        }
    }
    let rest: f32 = (ones.remainder().iter().zip(others.remainder()))
        .map(|(one, other)| one * other)
        .sum();
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> impl Iterator<Item = f32> {
        (-40_000..=40_000).map(|step| step as f32 * 5e-4)
    }

    #[test]
    fn functions_are_close_to_exact() {
        for x in range() {
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() < 3e-7 * exact, "exp {x}");
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() < 2e-7, "sigmoid {x}");
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() < 3e-7, "tanh {x}");
        }
        assert!(exp(-1e9) < 1e-37);
        // The integral of the bell curve by the trapezoid rule, from 0 up.
        let (mut exact, step) = (0.0f64, 1e-4f64);
        let bell = |x: f64| 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp();
        for index in 0..60_000 {
            let x = f64::from(index) * step;
            assert!((f64::from(erf(x as f32)) - exact).abs() < 6e-7, "erf {x}");
            assert_eq!(erf(-x as f32), -erf(x as f32));
            exact += step * 0.5 * (bell(x) + bell(x + step));
        }
    }

    #[test]
    fn dropout_drops_its_share_and_the_same_places_again() {
        let rule = Dropout::new(0.1, 7, 3);
        let mut values = vec![1.0f32; 100_000];
        dropout(&mut values, rule, 0);
        let dropped = values.iter().filter(|value| **value == 0.0).count();
        assert!((9_700..10_300).contains(&dropped), "{dropped}");
        let mut again = vec![1.0f32; 1000];
        dropout(&mut again, rule, 5000);
        assert_eq!(again, values[5000..6000]);
        let mut other = vec![1.0f32; 1000];
        dropout(&mut other, Dropout::new(0.1, 7, 4), 5000);
        assert_ne!(again, other);
    }

    #[test]
    fn softmax_and_its_gradient_are_right() {
        for length in [1, 3, 16, 37] {
            let scores: Vec<f32> = (0..length).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
            let mut found = scores.clone();
            softmax(&mut found);
            let total: f64 = scores.iter().map(|x| f64::from(*x).exp()).sum();
            for (found, score) in found.iter().zip(&scores) {
                assert!((f64::from(*found) - f64::from(*score).exp() / total).abs() < 1e-6);
            }
            let above: Vec<f32> = (0..length).map(|i| (i as f32).cos()).collect();
            let mut back = above.clone();
            softmax_back(&mut back, &found, 0.5);
            let common: f32 = above.iter().zip(&found).map(|(g, p)| g * p).sum();
            for index in 0..length {
                let exact = 0.5 * found[index] * (above[index] - common);
                assert!((back[index] - exact).abs() < 1e-6);
            }
        }
    }
}
