//! Linear layers with eight-bit weights.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::kernel::{self, Epilogue, Isa};
use super::packed::PackedWeight;
use super::{AddTo, Gelu, QuantizeError, QuantizedRows, QuantizedWeight, Replace};
use crate::nn::fused::compute;

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

    /// `rows·W + b` for a tensor on the flex device, on all threads.
    ///
    /// # Shapes
    /// - rows: `[rows, inputs]`
    /// - output: `[rows, outputs]`
    ///
    /// # Panics
    /// If the tensor is on another device.
    pub fn forward_tensor(&self, rows: Tensor<2>) -> Tensor<2> {
        let shape = [rows.dims()[0], self.outputs()];
        compute([rows.into()], shape, |[rows]| {
            let mut output = vec![0f32; shape[0] * shape[1]];
            self.forward(rows, &mut output);
            output
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::fused::int8::MAX_INPUTS;
    use crate::nn::fused::math;

    /// Pseudo-random values from -1 to 1.
    fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn weight(values: Vec<i8>, outputs: usize) -> QuantizedWeight {
        let scales = (1..=outputs).map(|n| n as f32 * 1e-3).collect();
        QuantizedWeight::from_stored(values, scales).unwrap()
    }

    /// The formula of the layer, with sums in i64.
    fn reference(
        rows: &[f32],
        weight: &QuantizedWeight,
        bias: &[f32],
        before: &[f32],
        epilogue: &impl Epilogue,
    ) -> Vec<f32> {
        let (inputs, outputs) = (weight.inputs(), weight.outputs());
        let mut output = before.to_vec();
        for (row, output) in rows
            .chunks_exact(inputs)
            .zip(output.chunks_exact_mut(outputs))
        {
            let quantized = QuantizedRows::new(row, inputs);
            let (scale, zero_point) = quantized.params(0);
            for (column, output) in output.iter_mut().enumerate() {
                let values = quantized.quads().as_flattened().iter().take(inputs);
                let term = |(k, value): (usize, &u8)| {
                    let weight = i64::from(weight.values()[k * outputs + column]);
                    (i64::from(*value) - i64::from(zero_point)) * weight
                };
                let sum: i64 = values.enumerate().map(term).sum();
                let sum = i32::try_from(sum).expect("the sum fits into an i32");
                let value = sum as f32 * (scale * weight.scales()[column]) + bias[column];
                *output = epilogue.store(value, *output);
            }
        }
        output
    }

    fn assert_same_bits(found: &[f32], expected: &[f32], context: &str) {
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            let is_same = found.to_bits() == expected.to_bits();
            assert!(
                is_same,
                "{context}: output {index} is {found}, not {expected}"
            );
        }
    }

    /// Compares all instruction sets of this CPU with the reference.
    fn check(rows: &[f32], weight: &QuantizedWeight, epilogue: &impl Epilogue) {
        let (inputs, outputs) = (weight.inputs(), weight.outputs());
        let count = rows.len() / inputs;
        let bias = noise(outputs, 3);
        let before = noise(count * outputs, 4);
        let expected = reference(rows, weight, &bias, &before, epilogue);
        for isa in Isa::available() {
            let layer = Int8Linear::for_isa(weight, &bias, isa).unwrap();
            let mut output = before.clone();
            layer.forward_quantized(&QuantizedRows::new(rows, inputs), &mut output, epilogue);
            let context = format!("{isa:?}, {count} rows, {inputs} inputs, {outputs} outputs");
            assert_same_bits(&output, &expected, &context);
        }
    }

    #[test]
    fn all_small_shapes_are_exact_on_every_instruction_set() {
        let widths = (1..=9).chain([15, 16, 17, 31, 33]);
        for inputs in widths {
            for outputs in (1..=17).chain([31, 33, 63, 64, 65, 80, 129]) {
                let values = noise(inputs * outputs, 1).into_iter();
                let values = values.map(|value| (value * 128.0) as i8).collect();
                let weight = weight(values, outputs);
                for count in [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13] {
                    check(&noise(count * inputs, 2), &weight, &Replace);
                }
            }
        }
    }

    #[test]
    fn epilogues_are_applied_to_each_output() {
        for [inputs, outputs] in [[384, 100], [130, 64], [7, 5]] {
            let values = noise(inputs * outputs, 1);
            let weight = QuantizedWeight::quantize(&values, outputs).unwrap();
            let rows = noise(9 * inputs, 2);
            check(&rows, &weight, &Replace);
            check(&rows, &weight, &Gelu);
            check(&rows, &weight, &AddTo);
        }
    }

    #[test]
    fn extreme_values_neither_saturate_nor_overflow() {
        for inputs in [1, 2, 5, 64, 1000, MAX_INPUTS] {
            // Rows whose values become 0 or 255, with a zero point of 0, 255 and between.
            let mut rows = vec![1.0; inputs];
            rows.extend(vec![-1.0; inputs]);
            rows.extend((0..inputs).map(|k| if k % 2 == 0 { 1.0 } else { -1.0 }));
            rows.extend((0..inputs).map(|k| if k % 4 < 2 { 1.0 } else { -1e-3 }));
            for pattern in [
                [-128; 4],
                [127; 4],
                [-128, 127, -128, 127],
                [127, 127, -128, -128],
            ] {
                let values = (0..3 * inputs).map(|i| pattern[i / 3 % 4]).collect();
                check(&rows, &weight(values, 3), &Replace);
            }
        }
    }

    #[test]
    fn outputs_are_close_to_those_in_f32() {
        let [count, inputs, outputs] = [40, 384, 70];
        let (rows, values, bias) = (
            noise(count * inputs, 1),
            noise(inputs * outputs, 2),
            noise(outputs, 3),
        );
        let weight = QuantizedWeight::quantize(&values, outputs).unwrap();
        let layer = Int8Linear::new(&weight, &bias).unwrap();
        let residual = noise(count * outputs, 4);
        let mut plain = vec![0.0; count * outputs];
        layer.forward(&rows, &mut plain);
        let mut activated = plain.clone();
        layer.forward_gelu(&rows, &mut activated);
        let mut added = residual.clone();
        layer.forward_into_residual(&rows, &mut added);
        let (mut square_error, mut square) = (0.0, 0.0);
        for index in 0..count * outputs {
            let (row, column) = (index / outputs, index % outputs);
            let term = |k: usize| {
                f64::from(rows[row * inputs + k]) * f64::from(values[k * outputs + column])
            };
            let exact = (0..inputs).map(term).sum::<f64>() + f64::from(bias[column]);
            square_error += (f64::from(plain[index]) - exact).powi(2);
            square += exact.powi(2);
            assert_eq!(activated[index], math::gelu(plain[index]).0);
            assert_eq!(added[index], residual[index] + plain[index]);
        }
        assert!(
            (square_error / square).sqrt() < 0.008,
            "{square_error} of {square}"
        );
    }

    #[test]
    fn rows_of_zeros_give_the_bias() {
        let weight = QuantizedWeight::quantize(&noise(50 * 20, 1), 20).unwrap();
        let bias = noise(20, 2);
        let layer = Int8Linear::new(&weight, &bias).unwrap();
        for value in [0.0, -0.0, 1e-45] {
            let mut output = vec![7.0; 40];
            layer.forward(&[value; 100], &mut output);
            assert_eq!(output, bias.repeat(2));
        }
    }

    #[test]
    fn a_row_that_is_not_finite_gives_nan_and_leaves_others_alone() {
        let [count, inputs, outputs] = [20, 37, 70];
        let weight = QuantizedWeight::quantize(&noise(inputs * outputs, 1), outputs).unwrap();
        let layer = Int8Linear::new(&weight, &noise(outputs, 2)).unwrap();
        let rows = noise(count * inputs, 3);
        let mut expected = vec![0.0; count * outputs];
        layer.forward(&rows, &mut expected);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut rows = rows.clone();
            rows[5 * inputs + 36] = value;
            let mut output = vec![0.0; count * outputs];
            layer.forward(&rows, &mut output);
            for (row, output) in output.chunks_exact(outputs).enumerate() {
                if row == 5 {
                    assert!(output.iter().all(|value| value.is_nan()));
                } else {
                    assert_same_bits(output, &expected[row * outputs..][..outputs], "other rows");
                }
            }
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let [inputs, outputs] = [50, 70];
        let weight = QuantizedWeight::quantize(&noise(inputs * outputs, 1), outputs).unwrap();
        let layer = Int8Linear::new(&weight, &noise(outputs, 2)).unwrap();
        for count in [1, 11, 12, 13, 100, 301] {
            let rows = noise(count * inputs, 3);
            let results = [1, 2, 4].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let mut output = vec![0.0; count * outputs];
                let pool = pool.build().unwrap();
                pool.install(|| layer.forward_gelu(&rows, &mut output));
                output
            });
            assert_same_bits(&results[1], &results[0], "2 threads");
            assert_same_bits(&results[2], &results[0], "4 threads");
        }
    }

    #[test]
    fn a_bias_of_another_size_is_refused() {
        let weight = QuantizedWeight::quantize(&[1.0; 6], 3).unwrap();
        let error = Int8Linear::new(&weight, &[0.0; 2]).unwrap_err();
        assert_eq!(error.to_string(), "a bias of 2 values for 3 outputs");
    }
}
