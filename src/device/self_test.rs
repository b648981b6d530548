//! A short self-test of a device: compares the most important operations and their gradients with the CPU's.

use std::time::Instant;

use burn::tensor::activation::softmax;
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

use crate::process::catch;

/// Largest allowed difference, relative to the largest value.
const TOLERANCE: f32 = 1e-4;

/// The result of a self-test that passed.
#[derive(Debug, Clone)]
pub struct SelfTestReport {
    /// Name of each operation and the relative difference of its result from the other backend's.
    pub differences: Vec<(&'static str, f32)>,
    /// Duration in seconds; on a GPU mostly the compilation of kernels.
    pub seconds: f64,
}

impl SelfTestReport {
    /// The largest difference.
    pub fn worst(&self) -> f32 {
        self.differences
            .iter()
            .fold(0.0, |worst, (_, difference)| worst.max(*difference))
    }
}

/// Why a device failed the self-test.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SelfTestError {
    /// An operation panicked, as Burn does when a device is missing or out of memory.
    #[error("{0}")]
    Panicked(String),
    /// The result of an operation is wrong.
    #[error(
        "the result of {operation} differs from the expected one by {difference:.1e} (relative)"
    )]
    WrongResult {
        /// Name of the operation.
        operation: &'static str,
        /// Relative difference from the other backend's result.
        difference: f32,
    },
}

/// Runs the self-test on a device.
pub fn run(device: &Device) -> Result<SelfTestReport, SelfTestError> {
    let start = Instant::now();
    let results_on = |device: &Device| {
        catch(|| results(device)).map_err(|reason| SelfTestError::Panicked(reason.to_string()))
    };
    let found = results_on(device)?;
    let differences: Vec<(&'static str, f32)> = if *device == Device::flex() {
        let pairs = found.iter().zip(PROJECTIONS);
        pairs
            .map(|((name, found), expected)| (*name, projection_difference(found, expected)))
            .collect()
    } else {
        let pairs = found.iter().zip(results_on(&Device::flex())?);
        pairs
            .map(|((name, found), (_, expected))| (*name, difference(found, &expected)))
            .collect()
    };
    for (operation, difference) in differences.iter().copied() {
        if difference > TOLERANCE {
            return Err(SelfTestError::WrongResult {
                operation,
                difference,
            });
        }
    }
    Ok(SelfTestReport {
        differences,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Each result projected on the vector sin 1, sin 2, sin 3, ..., computed in double precision by another program. The
/// CPU, with which all other devices are compared, is compared with these.
const PROJECTIONS: [f64; 5] = [
    -20.063_682_649_876_74,
    -0.742_374_276_230_205_5,
    -21.457_808_396_660_69,
    -0.389_722_854_201_778_1,
    0.129_471_539_119_039_58,
];

/// Difference of a result's projection from the expected one, relative to the norm of the result.
fn projection_difference(found: &[f32], expected: f64) -> f32 {
    let (mut projection, mut squares) = (0.0, 0.0);
    for (index, value) in found.iter().enumerate() {
        projection += f64::from(*value) * ((index + 1) as f64).sin();
        squares += f64::from(*value).powi(2);
    }
    match (projection - expected).abs() / squares.sqrt().max(1e-6) {
        difference if difference.is_nan() => f32::INFINITY,
        difference => difference as f32,
    }
}

/// Largest difference of two results, relative to the largest expected value; infinite if a result is NaN.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    let largest = expected
        .iter()
        .fold(1e-6f32, |largest, x| largest.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0f32, |worst, (a, b)| match (a - b).abs() / largest {
        difference if difference.is_nan() => f32::INFINITY,
        difference => worst.max(difference),
    })
}

/// A tensor of pseudo-random values between -1 and 1, the same on every device.
fn values<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|index| ((index * 7919 + 13) % 1009) as f32 / 504.5 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The values of a tensor, row by row.
fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.into_data().convert::<f32>();
    data.try_into_vec().expect("converted to f32")
}

/// Names and results of the tested operations.
fn results(device: &Device) -> Vec<(&'static str, Vec<f32>)> {
    let device = device.clone().autodiff();
    let left = values([48, 64], &device).require_grad();
    let right = values([64, 40], &device).require_grad();
    let grid = values([2, 3, 4, 6, 6], &device).require_grad();
    let kernel = values([5, 3, 3, 3, 3], &device).require_grad();
    let product = left.clone().matmul(right.clone());
    let probabilities = softmax(product.clone(), 1);
    let dilated = ConvOptions::new([1, 1, 1], [1, 2, 2], [1, 2, 2], 1);
    let convolved = conv3d(grid.clone(), kernel.clone(), None, dilated);
    let loss = probabilities.clone().square().sum() + convolved.clone().square().mean();
    let gradients = loss.backward();
    let missing = "every parameter of the loss has a gradient";
    vec![
        ("matrix product", floats(product.inner())),
        ("softmax", floats(probabilities.inner())),
        ("3-D convolution", floats(convolved.inner())),
        (
            "gradient of a matrix product",
            floats(left.grad(&gradients).expect(missing)),
        ),
        (
            "gradient of a convolution",
            floats(kernel.grad(&gradients).expect(missing)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_passes_and_differences_are_measured() {
        for device in crate::device::cpu_devices() {
            let report = run(&device).unwrap();
            assert_eq!(report.differences.len(), 5);
            assert!(report.worst() <= 1e-5, "{report:?}");
        }
        assert!(projection_difference(&[0.5], 0.5) > 0.1);
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 4.0]), 0.5);
        assert_eq!(difference(&[f32::NAN], &[1.0]), f32::INFINITY);
    }
}
