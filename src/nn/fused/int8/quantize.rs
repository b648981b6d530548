//! Quantisation to eight bits: weights per output when a model is loaded, rows of activations when they are computed.
//!
//! ```text
//! weights:      w[k, n] ≈ scale[n] · value[k, n]           value in -127..=127, symmetric
//! activations:  x[k] ≈ scale · (value[k] - zero_point)     value in 0..=255, asymmetric, one scale for each row
//! ```

use multiversion::multiversion;

use super::QuantizeError;

/// The largest number of inputs of a layer: the sum of this many products of a difference of u8 and an i8, at most
/// 255 · 128 each, fits into an i32.
pub const MAX_INPUTS: usize = 1 << 16;

/// Scales below this are taken as 0: their inverse would not be finite.
const SMALLEST_SCALE: f32 = f32::MIN_POSITIVE;

/// Lanes of the loops that search for the smallest and largest value.
const LANES: usize = 16;

/// A matrix in eight bits with one scale for each output: the form in which a linear layer is stored.
///
/// # Shapes
/// - values: `[inputs, outputs]`
/// - scales: `[outputs]`
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeight {
    values: Vec<i8>,
    scales: Vec<f32>,
}

impl QuantizedWeight {
    /// Quantises a matrix `[inputs, outputs]`, with the largest magnitude of each column at ±127.
    pub fn quantize(weight: &[f32], outputs: usize) -> Result<Self, QuantizeError> {
        check_shape(weight.len(), outputs)?;
        if let Some(index) = weight.iter().position(|value| !value.is_finite()) {
            return Err(QuantizeError::not_finite(index, outputs));
        }
        let mut largest = vec![0f32; outputs];
        for row in weight.chunks_exact(outputs) {
            for (largest, value) in largest.iter_mut().zip(row) {
                *largest = largest.max(value.abs());
            }
        }
        let scales: Vec<f32> = largest.iter().map(|largest| scale_of(*largest)).collect();
        let inverses: Vec<f32> = scales.iter().map(|scale| inverse(*scale)).collect();
        let mut values = Vec::with_capacity(weight.len());
        for row in weight.chunks_exact(outputs) {
            let quantized = row.iter().zip(&inverses);
            values.extend(quantized.map(|(value, inverse)| to_i8(value * inverse)));
        }
        Ok(Self { values, scales })
    }

    /// Takes stored values and scales, after a check of their sizes and of the scales.
    pub fn from_stored(values: Vec<i8>, scales: Vec<f32>) -> Result<Self, QuantizeError> {
        check_shape(values.len(), scales.len())?;
        check_scales(&scales)?;
        Ok(Self { values, scales })
    }

    /// The values in row-major order, and the scales.
    pub fn into_parts(self) -> (Vec<i8>, Vec<f32>) {
        (self.values, self.scales)
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[i8] {
        &self.values
    }

    /// The scale of each output.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// The number of rows of the matrix.
    pub fn inputs(&self) -> usize {
        self.values.len() / self.scales.len()
    }

    /// The number of columns of the matrix.
    pub fn outputs(&self) -> usize {
        self.scales.len()
    }

    /// The matrix in f32, for devices without integer kernels.
    pub fn widen(&self) -> Vec<f32> {
        let mut widened = Vec::with_capacity(self.values.len());
        for row in self.values.chunks_exact(self.scales.len()) {
            let row = row.iter().zip(&self.scales);
            widened.extend(row.map(|(value, scale)| f32::from(*value) * scale));
        }
        widened
    }
}

/// Checks that a matrix of this many values and columns is not empty and has few enough rows.
fn check_shape(values: usize, outputs: usize) -> Result<(), QuantizeError> {
    if values == 0 || outputs == 0 || !values.is_multiple_of(outputs) {
        return Err(QuantizeError::Size {
            values,
            columns: outputs,
        });
    }
    let inputs = values / outputs;
    if inputs > MAX_INPUTS {
        return Err(QuantizeError::TooManyInputs(inputs));
    }
    Ok(())
}

/// Checks that stored scales are finite and not negative.
pub(super) fn check_scales(scales: &[f32]) -> Result<(), QuantizeError> {
    let is_valid = |scale: &f32| scale.is_finite() && *scale >= 0.0;
    match scales.iter().position(|scale| !is_valid(scale)) {
        Some(index) => Err(QuantizeError::Scale {
            index,
            scale: scales[index],
        }),
        None => Ok(()),
    }
}

/// The scale with which a value of this magnitude becomes 127; 0 for magnitudes that are 0 or almost so.
pub(super) fn scale_of(largest: f32) -> f32 {
    let scale = largest / 127.0;
    if scale < SMALLEST_SCALE { 0.0 } else { scale }
}

/// The inverse of a scale; 0 for a scale of 0.
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The nearest of -127..=127.
pub(super) fn to_i8(scaled: f32) -> i8 {
    scaled.round_ties_even().clamp(-127.0, 127.0) as i8
}

/// Rows of activations in eight bits, each with its own scale and zero point.
///
/// A row with a value that is not finite gets the scale NaN, so that all outputs computed from it are NaN.
///
/// The buffers are kept when rows are quantised into the same object again.
#[derive(Debug, Clone, Default)]
pub struct QuantizedRows {
    /// Four values of a row each; the last of a row may be padded, with any values, as the padding of weights is 0.
    values: Vec<[u8; 4]>,
    scales: Vec<f32>,
    zero_points: Vec<i32>,
    width: usize,
}

impl QuantizedRows {
    /// Quantises rows of the given width.
    pub fn new(rows: &[f32], width: usize) -> Self {
        let mut quantized = Self::default();
        quantized.replace(rows, width);
        quantized
    }

    /// Replaces the rows by those of a matrix `[rows, width]`.
    ///
    /// # Panics
    /// If `width` is 0 or `rows` does not consist of whole rows.
    pub fn replace(&mut self, rows: &[f32], width: usize) {
        assert!(width > 0 && rows.len().is_multiple_of(width));
        let count = rows.len() / width;
        self.width = width;
        self.values.resize(count * width.div_ceil(4), [0; 4]);
        self.scales.resize(count, 0.0);
        self.zero_points.resize(count, 0);
        let values = self.values.as_flattened_mut();
        quantize_rows(rows, values, width, &mut self.scales, &mut self.zero_points);
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.scales.len()
    }

    /// The number of values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The values of all rows, four at a time.
    pub(super) fn quads(&self) -> &[[u8; 4]] {
        &self.values
    }

    /// Scale and zero point of a row.
    pub(super) fn params(&self, row: usize) -> (f32, i32) {
        (self.scales[row], self.zero_points[row])
    }
}

/// Quantises rows one by one. A row of `quantized` is padded to a multiple of four values, which are left as they are.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn quantize_rows(
    rows: &[f32],
    quantized: &mut [u8],
    width: usize,
    scales: &mut [f32],
    zero_points: &mut [i32],
) {
    let padded = width.next_multiple_of(4);
    for (((row, quantized), scale), zero_point) in rows
        .chunks_exact(width)
        .zip(quantized.chunks_exact_mut(padded))
        .zip(scales)
        .zip(zero_points)
    {
        (*scale, *zero_point) = quantize_row(row, quantized);
    }
}

/// Quantises a row and returns its scale and zero point.
///
/// ```text
/// scale = (max(x, 0) - min(x, 0)) / 255
/// zero_point = round(-min(x, 0) / scale)
/// value = round(x / scale) + zero_point
/// ```
///
/// The range always contains 0, so the zero point is in 0..=255 and zeros are exact.
#[inline(always)]
fn quantize_row(row: &[f32], quantized: &mut [u8]) -> (f32, i32) {
    const SHIFT: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to an integer, held in the low bits
    let (low, high, is_finite) = range(row);
    // Divided before they are subtracted, so that the largest floats do not overflow.
    let step = high / 255.0 - low / 255.0;
    let scale = if step < SMALLEST_SCALE { 0.0 } else { step };
    let scale = if is_finite { scale } else { f32::NAN };
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let zero_point = (-low * inverse + SHIFT - SHIFT).clamp(0.0, 255.0);
    let (lowest, highest) = (-zero_point, 255.0 - zero_point);
    for (value, quantized) in row.iter().zip(quantized) {
        let scaled = value * inverse;
        // Comparisons with NaN are false, so NaN becomes the lowest value.
        let scaled = if scaled > lowest { scaled } else { lowest };
        let scaled = if scaled < highest { scaled } else { highest };
        *quantized = (scaled + (SHIFT + zero_point)).to_bits() as u8;
    }
    (scale, zero_point as i32)
}

/// The smallest and the largest of the values and 0, and whether all are finite.
#[inline(always)]
fn range(row: &[f32]) -> (f32, f32, bool) {
    const MAGNITUDE: u32 = 0x7fff_ffff;
    let (mut low, mut high, mut magnitude) = ([0f32; LANES], [0f32; LANES], [0u32; LANES]);
    let mut chunks = row.chunks_exact(LANES);
    for chunk in &mut chunks {
        for lane in 0..LANES {
            let value = chunk[lane];
            low[lane] = if value < low[lane] { value } else { low[lane] };
            high[lane] = if value > high[lane] {
                value
            } else {
                high[lane]
            };
            magnitude[lane] = magnitude[lane].max(value.to_bits() & MAGNITUDE);
        }
    }
    for (lane, value) in chunks.remainder().iter().enumerate() {
        low[lane] = low[lane].min(*value);
        high[lane] = high[lane].max(*value);
        magnitude[lane] = magnitude[lane].max(value.to_bits() & MAGNITUDE);
    }
    let low = low.into_iter().fold(0f32, f32::min);
    let high = high.into_iter().fold(0f32, f32::max);
    let magnitude = magnitude.into_iter().fold(0, u32::max);
    (low, high, f32::from_bits(magnitude).is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a quantised row stands for.
    fn widen_rows(rows: &QuantizedRows) -> Vec<f64> {
        let mut widened = Vec::new();
        let quads = rows.width().div_ceil(4);
        for (row, values) in rows.quads().chunks_exact(quads).enumerate() {
            let (scale, zero_point) = rows.params(row);
            let values = values.as_flattened().iter().take(rows.width());
            let value = |value: &u8| f64::from(scale) * f64::from(i32::from(*value) - zero_point);
            widened.extend(values.map(value));
        }
        widened
    }

    fn check_rows(values: &[f32], width: usize) {
        let rows = QuantizedRows::new(values, width);
        let widened = widen_rows(&rows);
        for (row, values) in values.chunks_exact(width).enumerate() {
            let (scale, zero_point) = rows.params(row);
            assert!((0..=255).contains(&zero_point));
            if values.iter().any(|value| !value.is_finite()) {
                assert!(scale.is_nan());
                continue;
            }
            assert!(scale.is_finite() && scale >= 0.0);
            let tolerance = f64::from(scale) * 0.501 + 256.0 * f64::from(SMALLEST_SCALE);
            for (value, widened) in values.iter().zip(&widened[row * width..]) {
                let error = (f64::from(*value) - widened).abs();
                assert!(error <= tolerance, "{value} became {widened}");
                assert!(*value != 0.0 || *widened == 0.0);
            }
        }
    }

    #[test]
    fn rows_are_rounded_to_the_nearest_value() {
        let wave = |i: usize| (i as f32 * 0.7).sin() * (1.0 + (i % 13) as f32);
        for width in (1..70).chain([127, 384]) {
            let values: Vec<f32> = (0..3 * width).map(wave).collect();
            check_rows(&values, width);
            check_rows(
                &values.iter().map(|value| value.abs()).collect::<Vec<_>>(),
                width,
            );
            check_rows(
                &values.iter().map(|value| -value.abs()).collect::<Vec<_>>(),
                width,
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_become_0_and_255() {
        let rows = QuantizedRows::new(&[-1.0, 0.0, 4.1, 3.0, 0.0, 0.0, -2.0, -2.0], 4);
        assert_eq!(rows.quads(), [[0, 50, 255, 200], [255, 255, 0, 0]]);
        assert_eq!((rows.params(0).1, rows.params(1).1), (50, 255));
        assert_eq!(rows.params(1).0, 2.0 / 255.0);
    }

    #[test]
    fn extreme_rows_do_not_overflow() {
        for value in [
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            1e-45,
            -1e-45,
            0.0,
            -0.0,
        ] {
            check_rows(&[value, 0.0, 1.0], 1);
            check_rows(&[value, -value, 0.5 * value, 0.0, value], 5);
            check_rows(&[value; 64], 64);
        }
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            check_rows(&[1.0, value, 2.0, 1.0, 2.0, 3.0], 3);
            for index in [0, 15, 16, 31, 32, 36] {
                let mut row = vec![1.0; 37];
                row[index] = value;
                check_rows(&row, 37);
            }
        }
    }

    #[test]
    fn buffers_can_be_used_again() {
        let mut rows = QuantizedRows::new(&[1.0; 30], 6);
        for (values, width) in [
            (vec![2.0, -1.0, 0.5], 1),
            (vec![0.0; 0], 7),
            (vec![-3.0; 10], 5),
        ] {
            rows.replace(&values, width);
            let fresh = QuantizedRows::new(&values, width);
            assert_eq!(rows.count(), values.len() / width);
            assert_eq!(widen_rows(&rows), widen_rows(&fresh));
        }
    }

    proptest! {
        #[test]
        fn any_row_can_be_quantised(row in prop::collection::vec(any::<u32>(), 1..80)) {
            let row: Vec<f32> = row.into_iter().map(f32::from_bits).collect();
            check_rows(&row, row.len());
        }

        #[test]
        fn any_finite_matrix_can_be_quantised(
            values in prop::collection::vec(-3e38f32..3e38, 1..60),
            exponent in -80i32..1,
        ) {
            let values: Vec<f32> = values.iter().map(|value| value * 10f32.powi(exponent)).collect();
            for outputs in (1..=values.len()).filter(|outputs| values.len().is_multiple_of(*outputs)) {
                let weight = QuantizedWeight::quantize(&values, outputs).unwrap();
                for (index, (value, widened)) in values.iter().zip(weight.widen()).enumerate() {
                    let tolerance = 0.501 * weight.scales()[index % outputs] + 128.0 * SMALLEST_SCALE;
                    prop_assert!((value - widened).abs() <= tolerance, "{} {}", value, widened);
                }
                let stored = (weight.values().to_vec(), weight.scales().to_vec());
                prop_assert_eq!(QuantizedWeight::from_stored(stored.0, stored.1).unwrap(), weight);
            }
        }
    }

    #[test]
    fn columns_have_their_own_scales() {
        let weight = QuantizedWeight::quantize(&[1.27, 0.0, -100.0, -0.5, 0.0, 200.0], 3).unwrap();
        assert_eq!(weight.values(), [127, 0, -64, -50, 0, 127]);
        assert_eq!(weight.scales()[1], 0.0);
        assert_eq!((weight.inputs(), weight.outputs()), (2, 3));
    }

    #[test]
    fn invalid_matrices_are_refused() {
        let quantize = QuantizedWeight::quantize;
        let size = |values, columns| Err(QuantizeError::Size { values, columns });
        assert_eq!(quantize(&[], 1), size(0, 1));
        assert_eq!(quantize(&[1.0; 5], 0), size(5, 0));
        assert_eq!(quantize(&[1.0; 5], 2), size(5, 2));
        let too_many = Err(QuantizeError::TooManyInputs(MAX_INPUTS + 1));
        assert_eq!(quantize(&vec![1.0; MAX_INPUTS + 1], 1), too_many);
        let not_finite = Err(QuantizeError::NotFinite { row: 1, column: 0 });
        assert_eq!(quantize(&[1.0, 2.0, f32::NAN, 1.0], 2), not_finite);
        assert_eq!(quantize(&[1.0, 2.0, f32::INFINITY, 1.0], 2), not_finite);

        let from_stored = |values: usize, scales: &[f32]| {
            QuantizedWeight::from_stored(vec![1; values], scales.to_vec())
        };
        assert_eq!(from_stored(3, &[]), size(3, 0));
        assert_eq!(from_stored(0, &[1.0]), size(0, 1));
        assert_eq!(from_stored(3, &[1.0, 1.0]), size(3, 2));
        for scale in [-1.0, f32::INFINITY, f32::NAN] {
            let error = from_stored(4, &[1.0, scale]).unwrap_err();
            assert!(
                matches!(error, QuantizeError::Scale { index: 1, .. }),
                "{error}"
            );
        }
    }
}
