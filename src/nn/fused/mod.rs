//! Fused kernels for the CPU: a forward and a backward pass written over plain slices, seen by autodiff as one node.
//!
//! Burn's operations need one pass over memory each, forward and backward; a kernel needs few. Kernels run on the flex
//! backend only. On every other device, and with `NERZOO_FUSED=0` or [`set_enabled`], the same function is computed by
//! Burn's own operations, which remain the reference: tests compare values and gradients of the two.
//!
//! Results do not depend on the number of threads: sums over rows are taken in blocks of a fixed size, and the sums of
//! the blocks are added in order.
//!
//! # Notation
//! Kernels document their formulas in plain text. `⊙` multiplies element by element, `·` is a matrix product, `Σ rows`
//! sums over all rows, and `dx` is the gradient of the loss with respect to `x`.

pub mod bilstm;
pub mod conv3d;
pub mod embedding;
pub mod int8;
mod layer_norm;
mod math;
mod matmul;
mod params;
pub mod transformer;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Device, Distribution, Tensor, TensorData};

pub use params::{LinearParams, NormParams};

const UNKNOWN: u8 = 0;
const DISABLED: u8 = 1;
const ENABLED: u8 = 2;

/// Whether kernels are enabled; unknown until the environment has been read.
static SWITCH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Enables or disables all kernels for the whole process.
pub fn set_enabled(enabled: bool) {
    let switch = if enabled { ENABLED } else { DISABLED };
    SWITCH.store(switch, Ordering::Relaxed);
}

/// Whether kernels are enabled and support this device.
pub fn runs_on(device: &Device) -> bool {
    if SWITCH.load(Ordering::Relaxed) == UNKNOWN {
        set_enabled(std::env::var_os("NERZOO_FUSED").is_none_or(|value| value != "0"));
    }
    let device = if device.is_autodiff() {
        device.clone().inner()
    } else {
        device.clone()
    };
    SWITCH.load(Ordering::Relaxed) == ENABLED && device == Device::flex()
}

/// A differentiable function of `N` tensors with a hand-written backward pass.
///
/// Tensors are passed as their values in row-major order, always in the same order of inputs.
pub trait Kernel<const N: usize>: Debug + Clone + Send + Sync + 'static {
    /// Intermediate values of the forward pass which the backward pass needs in addition to the inputs.
    type Saved: Debug + Send + Sync + 'static;

    /// Whether the values for the backward pass are computed again there instead of being kept.
    fn recomputes(&self) -> bool {
        false
    }

    /// The output, and with `save` the values for the backward pass.
    fn forward(&self, inputs: [&[f32]; N], save: bool) -> (Vec<f32>, Option<Self::Saved>);

    /// The gradient of each input that is `needed`; others may be left out.
    fn backward(
        &self,
        inputs: [&[f32]; N],
        saved: &Self::Saved,
        grad_output: &[f32],
        needed: [bool; N],
    ) -> [Option<Vec<f32>>; N];
}

/// A tensor of any rank, flattened to be passed to a kernel.
pub struct KernelInput {
    tensor: Tensor<1>,
    shape: Vec<usize>,
}

impl<const D: usize> From<Tensor<D>> for KernelInput {
    fn from(tensor: Tensor<D>) -> Self {
        let shape = tensor.dims().to_vec();
        Self {
            tensor: tensor.flatten(0, D - 1),
            shape,
        }
    }
}

/// Applies a kernel to inputs on the flex device; the output has the given shape.
pub fn apply<K: Kernel<N>, const N: usize, const D: usize>(
    kernel: K,
    inputs: [KernelInput; N],
    shape: [usize; D],
) -> Tensor<D> {
    debug_assert!(inputs.iter().all(|input| !input.shape.is_empty()));
    let device = inputs[0].tensor.device();
    if !device.is_autodiff() {
        return compute(inputs, shape, |inputs| kernel.forward(inputs, false).0);
    }
    let inputs = inputs.map(|input| into_primitive::<Autodiff<Flex>>(input.tensor));
    let nodes = inputs.each_ref().map(|input| input.node());
    let inputs = inputs.map(|input| input.into_primitive());
    let prepared = KernelStep(kernel.clone())
        .prepare::<NoCheckpointing>(nodes)
        .compute_bound()
        .stateful();
    let output = match prepared {
        OpsKind::Tracked(prepared) => {
            let (output, saved) = kernel.forward(slices(&inputs), !kernel.recomputes());
            let saved = saved.map(Arc::new);
            let state = KernelState { saved, inputs };
            prepared.finish(state, from_values(output))
        }
        OpsKind::UnTracked(prepared) => {
            let (output, _) = kernel.forward(slices(&inputs), false);
            prepared.finish(from_values(output))
        }
    };
    Tensor::<1>::from_primitive::<Autodiff<Flex>>(output).reshape(shape)
}

/// Applies a function that has no backward pass to inputs on the flex device without autodiff; the output has the given
/// shape.
///
/// # Panics
/// If an input is on another device.
pub fn compute<const N: usize, const D: usize>(
    inputs: [KernelInput; N],
    shape: [usize; D],
    function: impl FnOnce([&[f32]; N]) -> Vec<f32>,
) -> Tensor<D> {
    let device = inputs[0].tensor.device();
    let inputs = inputs.map(|input| into_primitive::<Flex>(input.tensor));
    let output = function(slices(&inputs));
    Tensor::from_data(TensorData::new(output, shape), &device)
}

/// The backend's own representation of a tensor.
///
/// # Panics
/// If the tensor is not on that backend.
fn into_primitive<B: burn::backend::Backend>(tensor: Tensor<1>) -> FloatTensor<B>
where
    burn::tensor::Float: burn::tensor::BackendPrimitive<B, Primitive = FloatTensor<B>>,
    burn::backend::DispatchTensor: burn::backend::DispatchKindConversion<B>,
{
    match tensor.try_into_primitive::<B>() {
        Ok(primitive) => primitive,
        Err(problem) => panic!("fused kernels run on the flex device only: {problem:?}"),
    }
}

fn from_values(values: Vec<f32>) -> FloatTensor<Flex> {
    let length = values.len();
    FloatTensor::<Flex>::from_data(TensorData::new(values, [length]))
}

fn slices<const N: usize>(tensors: &[FloatTensor<Flex>; N]) -> [&[f32]; N] {
    tensors
        .each_ref()
        .map(|tensor| tensor.as_slice().expect("flattened tensors are contiguous"))
}

/// A kernel's node in the autodiff graph.
#[derive(Debug)]
struct KernelStep<K>(K);

/// The values a kernel's node holds until its backward pass.
#[derive(Debug)]
struct KernelState<K: Kernel<N>, const N: usize> {
    /// `None` if they are computed again.
    saved: Option<Arc<K::Saved>>,
    inputs: [FloatTensor<Flex>; N],
}

impl<K: Kernel<N>, const N: usize> Clone for KernelState<K, N> {
    fn clone(&self) -> Self {
        Self {
            saved: self.saved.clone(),
            inputs: self.inputs.clone(),
        }
    }
}

impl<K: Kernel<N>, const N: usize> Backward<Flex, N> for KernelStep<K> {
    type State = KernelState<K, N>;

    fn backward(
        self,
        ops: Ops<KernelState<K, N>, N>,
        gradients: &mut Gradients,
        _: &mut Checkpointer,
    ) {
        let grad_output = gradients.consume::<Flex>(&ops.node).to_contiguous();
        let needed = ops.parents.each_ref().map(Option::is_some);
        let saved = ops.state.saved.clone().unwrap_or_else(|| {
            let (_, saved) = self.0.forward(slices(&ops.state.inputs), true);
            Arc::new(saved.expect("forward with `save` returns the saved values"))
        });
        let grad_inputs = self.0.backward(
            slices(&ops.state.inputs),
            &saved,
            grad_output.as_slice().expect("made contiguous"),
            needed,
        );
        for (parent, gradient) in ops.parents.into_iter().zip(grad_inputs) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent.id, from_values(gradient));
            }
        }
    }
}

/// A seed for the dropout masks of a forward pass, drawn from the device's random number generator.
pub fn seed(device: &Device) -> u32 {
    let device = device.clone().inner();
    let drawn = Tensor::<1>::random([2], Distribution::Uniform(0.0, 1.0), &device);
    // Flex keeps tensors in this process's memory, so this does not wait for a device.
    let drawn = drawn.into_data();
    let drawn: &[f32] = drawn.as_slice().expect("flex draws f32");
    (drawn[0].to_bits() << 9) ^ drawn[1].to_bits()
}
