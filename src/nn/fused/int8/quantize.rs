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
    /// Four values of a row each; the last of a row are padded with 0.
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
        let quads = width.div_ceil(4);
        self.width = width;
        // Every value is overwritten but the padding, which has to be 0 whatever the buffer held.
        self.values.resize(count * quads, [0; 4]);
        if width % 4 != 0 {
            for row in self.values.chunks_exact_mut(quads) {
                row[quads - 1] = [0; 4];
            }
        }
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
