//! Linear layers with eight-bit weights, and what is fused into the store of their outputs.

use rayon::prelude::*;

use super::kernel::{self, Epilogue, Isa};
use super::packed::PackedWeight;
use super::{QuantizeError, QuantizedRows, QuantizedWeight};
use crate::nn::fused::math;

/// The most rows of a task of the thread pool. Their inputs and outputs stay in the second-level cache, and a panel of
/// weights is used for all of them while it is in the first.
const BLOCK: usize = 48;

/// The fewest rows of a task, so that splitting costs little compared with the work.
const SMALLEST_BLOCK: usize = 12;

/// A linear layer `y = x·W + b` with weights in eight bits, for prediction on the CPU.
///
/// ```text
/// y[row, n] = scale[row] · scale[n] · Σ_k (x8[row, k] - zero_point[row]) · w8[k, n] + b[n]
/// ```
///
/// The sum is exact. Rows are computed independently, so results do not depend on other rows or the number of threads. If
/// a row has a value that is not finite, all its outputs are NaN.
///
/// # Shapes
/// - x: `[rows, inputs]`
/// - W: `[inputs, outputs]`
/// - y: `[rows, outputs]`
///
/// # Example
/// ```
/// use nerzoo::nn::fused::int8::{Int8Linear, QuantizedWeight};
///
/// let weight = QuantizedWeight::quantize(&[1.0, 0.0, 0.0, 2.0], 2)?; // [2, 2]
/// let layer = Int8Linear::new(&weight, &[0.5, 0.0])?;
/// let mut output = [0.0; 2];
/// layer.forward(&[1.0, -1.0], &mut output);
/// assert!((output[0] - 1.5).abs() < 0.01 && (output[1] + 2.0).abs() < 0.02);
/// # Ok::<(), nerzoo::nn::fused::int8::QuantizeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Int8Linear {
    weight: PackedWeight,
}

impl Int8Linear {
    /// Packs a quantised matrix, and a bias for each of its outputs, for this CPU.
    pub fn new(weight: &QuantizedWeight, bias: &[f32]) -> Result<Self, QuantizeError> {
        Self::for_isa(weight, bias, Isa::best())
    }

    /// [`new`](Self::new) for one of the instruction sets of this CPU.
    pub(super) fn for_isa(
        weight: &QuantizedWeight,
        bias: &[f32],
        isa: Isa,
    ) -> Result<Self, QuantizeError> {
        let weight = PackedWeight::new(weight, bias, isa)?;
        Ok(Self { weight })
    }

    /// The width of the rows it takes.
    pub fn inputs(&self) -> usize {
        self.weight.inputs()
    }

    /// The width of the rows it returns.
    pub fn outputs(&self) -> usize {
        self.weight.outputs()
    }

    /// Bytes of memory held by weights, scales and bias.
    pub fn bytes(&self) -> usize {
        self.weight.bytes()
    }

    /// `output = rows·W + b`, on all threads.
    ///
    /// # Panics
    /// If `rows` or `output` does not consist of whole rows, or not of equally many.
    pub fn forward(&self, rows: &[f32], output: &mut [f32]) {
        self.forward_with(rows, output, &Replace);
    }

    /// `output = gelu(rows·W + b)`, on all threads.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_gelu(&self, rows: &[f32], output: &mut [f32]) {
        self.forward_with(rows, output, &Gelu);
    }

    /// `residual = residual + rows·W + b`, on all threads.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_into_residual(&self, rows: &[f32], residual: &mut [f32]) {
        self.forward_with(rows, residual, &AddTo);
    }

    /// `rows·W + b` through an epilogue into `output`, on all threads.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_with(&self, rows: &[f32], output: &mut [f32], epilogue: &impl Epilogue) {
        let (inputs, outputs) = (self.inputs(), self.outputs());
        assert!(rows.len().is_multiple_of(inputs));
        let count = rows.len() / inputs;
        assert_eq!(output.len(), count * outputs);
        let tasks = 2 * rayon::current_num_threads();
        let block = count.div_ceil(tasks).clamp(SMALLEST_BLOCK, BLOCK);
        rows.par_chunks(block * inputs)
            .zip(output.par_chunks_mut(block * outputs))
            .for_each_init(QuantizedRows::default, |quantized, (rows, output)| {
                quantized.replace(rows, inputs);
                self.forward_quantized(quantized, output, epilogue);
            });
    }

    /// `rows·W + b` through an epilogue into `output`, on the calling thread, for rows that are already quantised: several
    /// layers can use the same ones.
    ///
    /// # Panics
    /// If the width of the rows is not that of the inputs, or the size of the output is another.
    pub fn forward_quantized(
        &self,
        rows: &QuantizedRows,
        output: &mut [f32],
        epilogue: &impl Epilogue,
    ) {
        kernel::multiply(rows, &self.weight, epilogue, output);
    }
}

/// Stores the output.
#[derive(Debug, Clone, Copy)]
pub struct Replace;

impl Epilogue for Replace {
    #[inline(always)]
    fn store(&self, output: f32, _before: f32) -> f32 {
        output
    }
}

/// Stores `gelu(output)`.
#[derive(Debug, Clone, Copy)]
pub struct Gelu;

impl Epilogue for Gelu {
    #[inline(always)]
    fn store(&self, output: f32, _before: f32) -> f32 {
        math::gelu(output)
    }
}

/// Adds the output to the value that is there.
#[derive(Debug, Clone, Copy)]
pub struct AddTo;

impl Epilogue for AddTo {
    #[inline(always)]
    fn store(&self, output: f32, before: f32) -> f32 {
        before + output
    }
}
