//! Arithmetic on slices, compiled for several instruction sets, of which one is chosen at run time.
//!
//! The functions of one value have no branches and call nothing, so that the compiler vectorises the loops over them.

use multiversion::multiversion;

/// `e^x` with a relative error below 2e-7. Arguments are clamped to the range where the result is a normal number.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to an integer, held in the low bits
    let x = x.clamp(-87.3, 88.3);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let exponent = shifted - SHIFT;
    // x = exponent · ln 2 + remainder; ln 2 in two parts keeps the remainder exact.
    let remainder = (x - exponent * 0.693_359_4) + exponent * 2.121_944_4e-4;
    let mut polynomial = 1.987_569_1e-4;
    polynomial = polynomial * remainder + 1.398_199_9e-3;
    polynomial = polynomial * remainder + 8.333_452e-3;
    polynomial = polynomial * remainder + 4.166_579_6e-2;
    polynomial = polynomial * remainder + 1.666_666_5e-1;
    polynomial = polynomial * remainder + 0.5;
    let mantissa = polynomial * remainder * remainder + remainder + 1.0;
    let power_of_two = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    mantissa * power_of_two
}

/// The error function as a quotient of polynomials in x², with an absolute error below 6e-7.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let x = x.clamp(-4.0, 4.0);
    let square = x * x;
    let mut numerator = -2.726_142_3e-10;
    numerator = numerator * square + 2.770_681_4e-8;
    numerator = numerator * square - 2.101_024e-6;
    numerator = numerator * square - 5.692_506_4e-5;
    numerator = numerator * square - 7.349_906_3e-4;
    numerator = numerator * square - 2.954_6e-3;
    numerator = numerator * square - 1.609_603_3e-2;
    let mut denominator = -1.456_607_2e-5;
    denominator = denominator * square - 2.133_740_6e-4;
    denominator = denominator * square - 1.682_827e-3;
    denominator = denominator * square - 7.373_329e-3;
    denominator = denominator * square - 1.426_473_9e-2;
    x * numerator / denominator
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent, with an absolute error below 6e-7.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// A pseudo-random integer for an index under a seed, uniform over all 32-bit values.
#[inline(always)]
fn hash(seed: u32, index: u32) -> u32 {
    let mut bits = index.wrapping_mul(0x9e37_79b9) ^ seed;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}

/// A dropout mask that is computed from a seed and the index of a value, and so never stored: the backward pass computes
/// the same mask again.
///
/// ```text
/// mask[i] = 0                      with the given probability
///         = 1 / (1 - probability)  otherwise
/// ```
#[derive(Debug, Clone, Copy)]
pub struct DropoutMask {
    threshold: u32,
    scale: f32,
    seed: u32,
}

impl DropoutMask {
    /// A mask that drops values with this probability. Each `stream` of a seed gives an independent mask.
    pub fn new(probability: f64, seed: u32, stream: u32) -> Self {
        Self {
            threshold: (probability * 4_294_967_296.0) as u32,
            scale: (1.0 / (1.0 - probability)) as f32,
            seed: hash(seed, stream),
        }
    }

    /// Multiplies values by their mask; the first of them has index `first`.
    pub fn apply(self, values: &mut [f32], first: usize) {
        if self.threshold > 0 {
            apply_mask(values, self, first);
        }
    }

    #[inline(always)]
    fn factor(self, index: usize) -> f32 {
        let is_kept = hash(self.seed, index as u32) >= self.threshold;
        if is_kept { self.scale } else { 0.0 }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn apply_mask(values: &mut [f32], mask: DropoutMask, first: usize) {
    for (index, value) in values.iter_mut().enumerate() {
        *value *= mask.factor(first + index);
    }
}

/// Adds `row` to each row.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn add_to_rows(rows: &mut [f32], row: &[f32]) {
    for values in rows.chunks_exact_mut(row.len()) {
        for (value, addend) in values.iter_mut().zip(row) {
            *value += addend;
        }
    }
}

/// `values += addends`, element by element.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn add(values: &mut [f32], addends: &[f32]) {
    for (value, addend) in values.iter_mut().zip(addends) {
        *value += addend;
    }
}

/// `gelu(x) = x Φ(x)` with `Φ(x) = (1 + erf(x / √2)) / 2`, and its derivative `Φ(x) + x φ(x)` with
/// `φ(x) = e^(-x²/2) / √(2π)`.
#[inline(always)]
pub fn gelu(x: f32) -> (f32, f32) {
    const DENSITY: f32 = 0.398_942_3; // 1 / √(2π)
    let cumulative = 0.5 + 0.5 * erf(x * std::f32::consts::FRAC_1_SQRT_2);
    let derivative = cumulative + x * DENSITY * exp(-0.5 * x * x);
    (x * cumulative, derivative)
}

/// GELU with the tanh approximation, `x (1 + tanh u) / 2 = x σ(2u)` with `u = √(2/π) (x + 0.044715 x³)`, and its derivative
/// `σ + 2 u′ x σ (1 - σ)`.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> (f32, f32) {
    const SCALE: f32 = 1.595_769; // 2 √(2/π)
    const CUBIC: f32 = 0.044_715;
    // Past this range σ is 0 or 1; squares of larger values would overflow.
    let bounded = x.clamp(-30.0, 30.0);
    let square = bounded * bounded;
    let gate = sigmoid(SCALE * bounded * (1.0 + CUBIC * square));
    let slope = SCALE * (1.0 + 3.0 * CUBIC * square);
    (x * gate, gate + bounded * gate * (1.0 - gate) * slope)
}

/// `max(x, 0)` and its derivative, which is 0 at 0. NaN stays NaN.
#[inline(always)]
pub fn relu(x: f32) -> (f32, f32) {
    let value = if x < 0.0 { 0.0 } else { x };
    let derivative = if x > 0.0 { 1.0 } else { 0.0 };
    (value, derivative)
}

/// The hyperbolic tangent `y` and its derivative `1 - y²`.
#[inline(always)]
fn tanh_derivative(x: f32) -> (f32, f32) {
    let value = tanh(x);
    (value, 1.0 - value * value)
}

/// Defines two functions over rows for a function of one value that returns its result and derivative: the result for
/// `rows + bias` in place, and the same with the derivatives.
macro_rules! over_rows {
    ($function:ident, $in_place:ident, $with_derivative:ident) => {
        #[doc = concat!("`", stringify!($function), "(rows + bias)` in place.")]
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
        pub fn $in_place(rows: &mut [f32], bias: &[f32]) {
            for values in rows.chunks_exact_mut(bias.len()) {
                for (value, bias) in values.iter_mut().zip(bias) {
                    *value = $function(*value + bias).0;
                }
            }
        }

        #[doc = concat!("`", stringify!($function), "(rows + bias)` in place, and the derivatives.")]
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
        pub fn $with_derivative(rows: &mut [f32], derivatives: &mut [f32], bias: &[f32]) {
            let width = bias.len();
            for (values, derivatives) in rows
                .chunks_exact_mut(width)
                .zip(derivatives.chunks_exact_mut(width))
            {
                for ((value, derivative), bias) in values.iter_mut().zip(derivatives).zip(bias) {
                    (*value, *derivative) = $function(*value + bias);
                }
            }
        }
    };
}

over_rows!(gelu, bias_gelu, bias_gelu_with_derivative);
over_rows!(gelu_tanh, bias_gelu_tanh, bias_gelu_tanh_with_derivative);
over_rows!(relu, bias_relu, bias_relu_with_derivative);
over_rows!(tanh_derivative, bias_tanh, bias_tanh_with_derivative);

/// Softmax of one row in place: `p = e^(x - max x) / Σ e^(x - max x)`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn softmax(row: &mut [f32]) {
    let mut largest = [f32::NEG_INFINITY; 16];
    let mut chunks = row.chunks_exact(16);
    for chunk in &mut chunks {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            *largest = if *value > *largest { *value } else { *largest };
        }
    }
    let remainder = chunks.remainder().iter().chain(&largest);
    let largest = remainder.fold(f32::NEG_INFINITY, |largest, value| largest.max(*value));
    for value in row.iter_mut() {
        *value = exp(*value - largest);
    }
    let inverse = 1.0 / sum(row);
    for value in row.iter_mut() {
        *value *= inverse;
    }
}

/// The backward pass of `p = softmax(scale · x)`, in place: `dx = scale · p ⊙ (dp - Σ p dp)`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn softmax_backward(gradient: &mut [f32], probabilities: &[f32], scale: f32) {
    let mean = dot(gradient, probabilities);
    for (gradient, probability) in gradient.iter_mut().zip(probabilities) {
        *gradient = scale * probability * (*gradient - mean);
    }
}

/// `values *= factors`, element by element.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub fn multiply(values: &mut [f32], factors: &[f32]) {
    for (value, factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

/// The sum of all values, accumulated in sixteen lanes.
#[inline(always)]
pub fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let mut chunks = values.chunks_exact(16);
    for chunk in &mut chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    let remainder: f32 = chunks.remainder().iter().sum();
    lanes.iter().sum::<f32>() + remainder
}

/// The inner product, accumulated in sixteen lanes.
#[inline(always)]
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let (mut lefts, mut rights) = (left.chunks_exact(16), right.chunks_exact(16));
    for (left, right) in (&mut lefts).zip(&mut rights) {
        for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
            *lane += left * right;
        }
    }
    let remainder: f32 = (lefts.remainder().iter().zip(rights.remainder()))
        .map(|(left, right)| left * right)
        .sum();
    lanes.iter().sum::<f32>() + remainder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> impl Iterator<Item = f32> {
        (-40_000..=40_000).map(|step| step as f32 * 5e-4)
    }

    #[test]
    fn functions_are_close_to_exact_values() {
        for x in range() {
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() < 3e-7 * exact, "exp {x}");
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() < 2e-7, "sigmoid {x}");
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() < 3e-7, "tanh {x}");
        }
        assert!(exp(-1e9) < 1e-37);
        // The integral of the Gaussian from 0 up, by the trapezoidal rule.
        let (mut exact, step) = (0.0f64, 1e-4f64);
        let gaussian = |x: f64| 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp();
        for index in 0..60_000 {
            let x = f64::from(index) * step;
            assert!((f64::from(erf(x as f32)) - exact).abs() < 6e-7, "erf {x}");
            assert_eq!(erf(-x as f32), -erf(x as f32));
            exact += step * 0.5 * (gaussian(x) + gaussian(x + step));
        }
    }

    #[test]
    fn activations_and_derivatives_follow_the_formulas() {
        let tanh_form = |x: f64| {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + u.tanh())
        };
        for x in range() {
            let exact = f64::from(x);
            let (value, derivative) = gelu_tanh(x);
            let wanted = tanh_form(exact);
            assert!(
                (f64::from(value) - wanted).abs() < 1e-6 * exact.abs().max(1.0),
                "{x}"
            );
            let step = 1e-5;
            let wanted = (tanh_form(exact + step) - tanh_form(exact - step)) / (2.0 * step);
            assert!((f64::from(derivative) - wanted).abs() < 2e-6, "{x}");
            assert_eq!(relu(x), (x.max(0.0), f32::from(x > 0.0)));
            let (value, derivative) = tanh_derivative(x);
            assert!((f64::from(value) - exact.tanh()).abs() < 3e-7, "{x}");
            let wanted = exact.cosh().powi(-2);
            assert!((f64::from(derivative) - wanted).abs() < 1e-6, "{x}");
        }
        for function in [gelu, gelu_tanh, relu, tanh_derivative] {
            assert!(function(f32::NAN).0.is_nan());
            assert_eq!(function(0.0).0, 0.0);
        }
        for function in [gelu_tanh, relu] {
            for large in [50.0, 1e3, 1e25] {
                assert_eq!(function(large), (large, 1.0));
                let (value, derivative) = function(-large);
                assert!(value.abs() < 1e-9 && derivative.abs() < 1e-9);
            }
        }
    }

    /// The functions over rows add the bias and agree with and without derivatives, also for widths that no vector fits.
    #[test]
    fn activations_over_rows_add_the_bias() {
        type OfOne = fn(f32) -> (f32, f32);
        type InPlace = fn(&mut [f32], &[f32]);
        type WithDerivative = fn(&mut [f32], &mut [f32], &[f32]);
        let functions: [(OfOne, InPlace, WithDerivative); 4] = [
            (gelu, bias_gelu, bias_gelu_with_derivative),
            (gelu_tanh, bias_gelu_tanh, bias_gelu_tanh_with_derivative),
            (relu, bias_relu, bias_relu_with_derivative),
            (tanh_derivative, bias_tanh, bias_tanh_with_derivative),
        ];
        for (function, in_place, with_derivative) in functions {
            for width in [1, 7, 16, 37] {
                let rows: Vec<f32> = (0..3 * width)
                    .map(|i| (i as f32 * 0.9).sin() * 4.0)
                    .collect();
                let bias: Vec<f32> = (0..width).map(|i| (i as f32).cos()).collect();
                let (mut one, mut other) = (rows.clone(), rows.clone());
                let mut derivatives = vec![0f32; rows.len()];
                in_place(&mut one, &bias);
                with_derivative(&mut other, &mut derivatives, &bias);
                for index in 0..rows.len() {
                    let (value, derivative) = function(rows[index] + bias[index % width]);
                    assert!((one[index] - value).abs() < 1e-6);
                    assert!((other[index] - value).abs() < 1e-6);
                    assert!((derivatives[index] - derivative).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn a_dropout_mask_drops_its_share_and_can_be_computed_again() {
        let mask = DropoutMask::new(0.1, 7, 3);
        let mut values = vec![1.0f32; 100_000];
        mask.apply(&mut values, 0);
        let dropped = values.iter().filter(|value| **value == 0.0).count();
        assert!((9_700..10_300).contains(&dropped), "{dropped}");
        let mut again = vec![1.0f32; 1000];
        mask.apply(&mut again, 5000);
        assert_eq!(again, values[5000..6000]);
        let mut other = vec![1.0f32; 1000];
        DropoutMask::new(0.1, 7, 4).apply(&mut other, 5000);
        assert_ne!(again, other);
    }

    #[test]
    fn softmax_and_its_backward_pass_follow_the_formulas() {
        for length in [1, 3, 16, 37] {
            let scores: Vec<f32> = (0..length).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
            let mut found = scores.clone();
            softmax(&mut found);
            let total: f64 = scores.iter().map(|x| f64::from(*x).exp()).sum();
            for (found, score) in found.iter().zip(&scores) {
                assert!((f64::from(*found) - f64::from(*score).exp() / total).abs() < 1e-6);
            }
            let grad_output: Vec<f32> = (0..length).map(|i| (i as f32).cos()).collect();
            let mut grad_input = grad_output.clone();
            softmax_backward(&mut grad_input, &found, 0.5);
            let mean: f32 = grad_output.iter().zip(&found).map(|(g, p)| g * p).sum();
            for index in 0..length {
                let exact = 0.5 * found[index] * (grad_output[index] - mean);
                assert!((grad_input[index] - exact).abs() < 1e-6);
            }
        }
    }
}
