//! A second's work that shows whether a device calculates: the operations our models lean on, and their gradients,
//! beside another backend's.

use std::time::Instant;

use burn::tensor::activation::softmax;
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};

use super::Family;
use crate::nn::host::floats;
use crate::process::catch;

/// How far results may be apart, relative to the largest number.
const TOLERANCE: f32 = 1e-4;

/// What came out.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Each operation and how far its result is from the other backend's, relatively.
    pub differences: Vec<(&'static str, f32)>,
    /// How long it took, in seconds; on a GPU mostly compiling.
    pub seconds: f64,
}

impl Verdict {
    /// The largest difference.
    pub fn worst(&self) -> f32 {
        self.differences
            .iter()
            .fold(0.0, |worst, (_, difference)| worst.max(*difference))
    }
}

/// Runs the test; the reason when the device fails it.
pub fn run(device: &Device) -> Result<Verdict, String> {
    let start = Instant::now();
    // The processor's own backend is compared with the reference.
    let other = if *device == Device::flex() {
        Family::Ndarray
    } else {
        Family::Cpu
    };
    let other = other.devices().remove(0);
    let found = catch(|| results(device))?;
    let expected = catch(|| results(&other))?;
    let differences: Vec<(&'static str, f32)> = found
        .into_iter()
        .zip(expected)
        .map(|((name, found), (_, expected))| (name, difference(&found, &expected)))
        .collect();
    for (name, difference) in &differences {
        if *difference > TOLERANCE {
            return Err(format!(
                "{name} is {difference:.1e} away from the processor's"
            ));
        }
    }
    Ok(Verdict {
        differences,
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    let size = expected.iter().fold(1e-6f32, |size, x| size.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0f32, |worst, (a, b)| match (a - b).abs() / size {
        apart if apart.is_nan() => f32::INFINITY,
        apart => worst.max(apart),
    })
}

/// Numbers between -1 and 1 without pattern, the same everywhere.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|index| ((index * 7919 + 13) % 1009) as f32 / 504.5 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn results(device: &Device) -> Vec<(&'static str, Vec<f32>)> {
    let device = device.clone().autodiff();
    let left = numbers([48, 64], &device).require_grad();
    let right = numbers([64, 40], &device).require_grad();
    let grid = numbers([2, 3, 4, 6, 6], &device).require_grad();
    let kernel = numbers([5, 3, 3, 3, 3], &device).require_grad();
    let product = left.clone().matmul(right.clone());
    let shares = softmax(product.clone(), 1);
    let dilated = ConvOptions::new([1, 1, 1], [1, 2, 2], [1, 2, 2], 1);
    let convolved = conv3d(grid.clone(), kernel.clone(), None, dilated);
    let target = shares.clone().square().sum() + convolved.clone().square().mean();
    let gradients = target.backward();
    let missing = "a parameter of the loss has a gradient";
    vec![
        ("matrix product", floats(product.inner())),
        ("softmax", floats(shares.inner())),
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
    fn processors_pass_and_differences_are_seen() {
        for device in [Family::Cpu, Family::Ndarray] {
            let verdict = run(&device.devices()[0]).unwrap();
            assert_eq!(verdict.differences.len(), 5);
            assert!(verdict.worst() <= TOLERANCE);
        }
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 4.0]), 0.5);
        assert_eq!(difference(&[f32::NAN], &[1.0]), f32::INFINITY);
    }
}
