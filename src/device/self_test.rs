//! A short self-test of a device: compares the most important operations and their gradients with another backend.

use std::time::Instant;

use burn::tensor::activation::softmax;
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

use super::DeviceKind;
use crate::process::caught;

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
    #[error("the result of {operation} differs from the CPU's by {difference:.1e} (relative)")]
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
    // The CPU backend itself is compared with the reference backend.
    let other = if *device == Device::flex() {
        DeviceKind::Ndarray
    } else {
        DeviceKind::Cpu
    };
    let other = other.devices().remove(0);
    let results_on = |device: &Device| {
        caught(|| results(device)).map_err(|reason| SelfTestError::Panicked(reason.to_string()))
    };
    let found = results_on(device)?;
    let expected = results_on(&other)?;
    let differences: Vec<(&'static str, f32)> = found
        .into_iter()
        .zip(expected)
        .map(|((name, found), (_, expected))| (name, difference(&found, &expected)))
        .collect();
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
        for device in [DeviceKind::Cpu, DeviceKind::Ndarray] {
            let report = run(&device.devices()[0]).unwrap();
            assert_eq!(report.differences.len(), 5);
            assert!(report.worst() <= TOLERANCE);
        }
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 4.0]), 0.5);
        assert_eq!(difference(&[f32::NAN], &[1.0]), f32::INFINITY);
    }
}
