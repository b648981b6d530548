//! Embedding tables in eight bits, with one scale for each row.

use burn::tensor::{Device, Tensor, TensorData};

use super::QuantizeError;
use super::quantize::{check_scales, inverse, scale_of, to_i8};

/// An embedding table in eight bits: `table[row] ≈ scale[row] · values[row]`.
///
/// # Shapes
/// - values: `[rows, width]`
/// - scales: `[rows]`
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Embedding {
    values: Vec<i8>,
    scales: Vec<f32>,
    width: usize,
}

impl Int8Embedding {
    /// Quantises a table `[rows, width]`, with the largest magnitude of each row at ±127.
    pub fn quantize(table: &[f32], width: usize) -> Result<Self, QuantizeError> {
        check_size(table.len(), width)?;
        if let Some(index) = table.iter().position(|value| !value.is_finite()) {
            return Err(QuantizeError::not_finite(index, width));
        }
        let mut values = Vec::with_capacity(table.len());
        let mut scales = Vec::with_capacity(table.len() / width);
        for row in table.chunks_exact(width) {
            let largest = row
                .iter()
                .fold(0f32, |largest, value| largest.max(value.abs()));
            let scale = scale_of(largest);
            let inverse = inverse(scale);
            values.extend(row.iter().map(|value| to_i8(value * inverse)));
            scales.push(scale);
        }
        Ok(Self {
            values,
            scales,
            width,
        })
    }

    /// Takes stored values and scales, after a check of their sizes and of the scales.
    pub fn from_stored(
        values: Vec<i8>,
        scales: Vec<f32>,
        width: usize,
    ) -> Result<Self, QuantizeError> {
        check_size(values.len(), width)?;
        let rows = values.len() / width;
        if scales.len() != rows {
            return Err(QuantizeError::Scales {
                found: scales.len(),
                expected: rows,
            });
        }
        check_scales(&scales)?;
        Ok(Self {
            values,
            scales,
            width,
        })
    }

    /// The values in row-major order, and the scales.
    pub fn into_parts(self) -> (Vec<i8>, Vec<f32>) {
        (self.values, self.scales)
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[i8] {
        &self.values
    }

    /// The scale of each row.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.scales.len()
    }

    /// The number of values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Writes a row in f32 to `output`.
    ///
    /// # Panics
    /// If the index is not below the number of rows, or `output` is not of the width of a row.
    pub fn row(&self, index: usize, output: &mut [f32]) {
        assert_eq!(output.len(), self.width);
        let scale = self.scales[index];
        let values = &self.values[index * self.width..][..self.width];
        for (output, value) in output.iter_mut().zip(values) {
            *output = f32::from(*value) * scale;
        }
    }

    /// Rows by index, in f32; an index may occur any number of times.
    ///
    /// # Shapes
    /// - output: `[indices, width]`
    ///
    /// # Panics
    /// If an index is not below the number of rows.
    pub fn select(&self, indices: &[usize], device: &Device) -> Tensor<2> {
        let mut rows = vec![0f32; indices.len() * self.width];
        for (index, row) in indices.iter().zip(rows.chunks_exact_mut(self.width)) {
            self.row(*index, row);
        }
        Tensor::from_data(TensorData::new(rows, [indices.len(), self.width]), device)
    }

    /// The table in f32, for devices without integer kernels.
    pub fn widen(&self) -> Vec<f32> {
        let mut widened = vec![0f32; self.values.len()];
        for (index, output) in widened.chunks_exact_mut(self.width).enumerate() {
            self.row(index, output);
        }
        widened
    }
}

/// Checks that a table of this many values is not empty and consists of whole rows.
fn check_size(values: usize, width: usize) -> Result<(), QuantizeError> {
    if values == 0 || width == 0 || !values.is_multiple_of(width) {
        return Err(QuantizeError::Size {
            values,
            columns: width,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_close_to_those_in_f32() {
        let (rows, width) = (40, 37);
        let value = |i: usize| (i as f32 * 0.37).sin() * 10f32.powi((i / width) as i32 - 20);
        let table: Vec<f32> = (0..rows * width).map(value).collect();
        let embedding = Int8Embedding::quantize(&table, width).unwrap();
        assert_eq!((embedding.rows(), embedding.width()), (rows, width));
        let mut output = vec![0f32; width];
        for (index, row) in table.chunks_exact(width).enumerate() {
            embedding.row(index, &mut output);
            for (found, exact) in output.iter().zip(row) {
                assert!((found - exact).abs() <= 0.501 * embedding.scales()[index]);
            }
        }
        let (values, scales) = (embedding.values().to_vec(), embedding.scales().to_vec());
        let stored = Int8Embedding::from_stored(values, scales, width).unwrap();
        assert_eq!(stored, embedding);
        assert_eq!(stored.widen()[(rows - 1) * width..], output);
    }

    #[test]
    fn a_row_of_zeros_or_almost_zeros_is_zero() {
        let embedding = Int8Embedding::quantize(&[0.0, -0.0, 1e-45, 1e-40, 1.0, -1.0], 2).unwrap();
        assert_eq!(embedding.widen()[..4], [0.0; 4]);
        assert_eq!(embedding.values()[4..], [127, -127]);
    }

    #[test]
    fn invalid_tables_are_refused() {
        let quantize = Int8Embedding::quantize;
        assert!(quantize(&[], 3).is_err());
        assert!(quantize(&[1.0; 4], 0).is_err());
        assert!(quantize(&[1.0; 4], 3).is_err());
        let error = quantize(&[1.0, 2.0, 3.0, f32::NAN], 2).unwrap_err();
        assert_eq!(error, QuantizeError::NotFinite { row: 1, column: 1 });
        let from_stored = Int8Embedding::from_stored;
        let error = from_stored(vec![1; 6], vec![1.0; 2], 2).unwrap_err();
        assert_eq!(error.to_string(), "2 scales for 3 rows");
        assert!(from_stored(vec![1; 4], vec![1.0, f32::NAN], 2).is_err());
        assert!(from_stored(vec![1; 4], vec![1.0, -1.0], 2).is_err());
        assert!(from_stored(vec![], vec![], 2).is_err());
    }
}
