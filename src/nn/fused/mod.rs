//! Kernels for the CPU backend: what autodiff does in many passes over memory, done in few.
//!
//! Each kernel has a forward and a backward pass written out over plain slices; Burn's graph sees one node. They run on
//! flex only; on every other device, and with `NERZOO_FUSED=0` or [`set`], the same arithmetic is done by Burn's own
//! operations, which stay the reference: tests compare values and gradients of the two.
//!
//! Results do not depend on the number of threads: what is summed over rows is summed in blocks of a fixed size.

pub mod bilstm;
pub mod conv3d;
pub mod embedding;
pub mod layer;
mod math;
mod norm;
mod product;

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

/// Unknown, off, on.
static SWITCH: AtomicU8 = AtomicU8::new(0);

/// Turns all kernels on or off for the whole process.
pub fn set(on: bool) {
    SWITCH.store(1 + u8::from(on), Ordering::Relaxed);
}

/// Whether kernels run on this device.
pub fn runs_on(device: &Device) -> bool {
    if SWITCH.load(Ordering::Relaxed) == 0 {
        set(std::env::var_os("NERZOO_FUSED").is_none_or(|value| value != "0"));
    }
    let device = if device.is_autodiff() {
        device.clone().inner()
    } else {
        device.clone()
    };
    SWITCH.load(Ordering::Relaxed) == 2 && device == Device::flex()
}

/// A function of tensors with its own gradient.
pub trait Kernel: Debug + Clone + Send + Sync + 'static {
    /// What the backward pass needs beside the inputs.
    type Saved: Debug + Send + Sync + 'static;

    /// The result, and with `keep` what the backward pass will need.
    fn forward(&self, inputs: &[&[f32]], keep: bool) -> (Vec<f32>, Option<Self::Saved>);

    /// The gradient of each input that is `wanted`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        saved: &Self::Saved,
        gradient: &[f32],
        wanted: &[bool],
    ) -> Vec<Option<Vec<f32>>>;
}

/// A tensor of any rank on its way into a kernel.
pub struct Input {
    tensor: Tensor<1>,
    shape: Vec<usize>,
}

impl<const D: usize> From<Tensor<D>> for Input {
    fn from(tensor: Tensor<D>) -> Self {
        let shape = tensor.dims().to_vec();
        Self {
            tensor: tensor.flatten(0, D - 1),
            shape,
        }
    }
}

/// Applies a kernel; the result has the shape given.
pub fn apply<K: Kernel, const N: usize, const D: usize>(
    kernel: K,
    inputs: [Input; N],
    shape: [usize; D],
) -> Tensor<D> {
    debug_assert!(inputs.iter().all(|input| !input.shape.is_empty()));
    let device = inputs[0].tensor.device();
    if !device.is_autodiff() {
        let inputs = inputs.map(|input| flat::<Flex>(input.tensor));
        let (output, _) = kernel.forward(&slices(&inputs), false);
        return Tensor::from_data(TensorData::new(output, shape), &device);
    }
    let inputs = inputs.map(|input| flat::<Autodiff<Flex>>(input.tensor));
    let guards = inputs.each_ref().map(|input| input.node());
    let plain = inputs.map(|input| input.into_primitive());
    let prepared = Step(kernel.clone())
        .prepare::<NoCheckpointing>(guards)
        .compute_bound()
        .stateful();
    let output = match prepared {
        OpsKind::Tracked(prepared) => {
            let (output, saved) = kernel.forward(&slices(&plain), true);
            let state = State {
                saved: Arc::new(saved.expect("kept when asked to")),
                inputs: plain,
            };
            prepared.finish(state, primitive(output))
        }
        OpsKind::UnTracked(prepared) => {
            let (output, _) = kernel.forward(&slices(&plain), false);
            prepared.finish(primitive(output))
        }
    };
    Tensor::<1>::from_primitive::<Autodiff<Flex>>(output).reshape(shape)
}

/// The backend's own form of a tensor that is known to be there.
fn flat<B: burn::backend::Backend>(tensor: Tensor<1>) -> FloatTensor<B>
where
    burn::tensor::Float: burn::tensor::BackendPrimitive<B, Primitive = FloatTensor<B>>,
    burn::backend::DispatchTensor: burn::backend::DispatchKindConversion<B>,
{
    match tensor.try_into_primitive::<B>() {
        Ok(primitive) => primitive,
        Err(problem) => panic!("a kernel was asked for off its device: {problem:?}"),
    }
}

fn primitive(values: Vec<f32>) -> FloatTensor<Flex> {
    let length = values.len();
    FloatTensor::<Flex>::from_data(TensorData::new(values, [length]))
}

fn slices<const N: usize>(tensors: &[FloatTensor<Flex>; N]) -> Vec<&[f32]> {
    tensors
        .iter()
        .map(|tensor| tensor.as_slice().expect("flattening makes contiguous"))
        .collect()
}

#[derive(Debug)]
struct Step<K>(K);

#[derive(Debug)]
struct State<K: Kernel, const N: usize> {
    saved: Arc<K::Saved>,
    inputs: [FloatTensor<Flex>; N],
}

impl<K: Kernel, const N: usize> Clone for State<K, N> {
    fn clone(&self) -> Self {
        Self {
            saved: self.saved.clone(),
            inputs: self.inputs.clone(),
        }
    }
}

impl<K: Kernel, const N: usize> Backward<Flex, N> for Step<K> {
    type State = State<K, N>;

    fn backward(self, ops: Ops<State<K, N>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<Flex>(&ops.node).to_contiguous();
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let found = self.0.backward(
            &slices(&ops.state.inputs),
            &ops.state.saved,
            gradient.as_slice().expect("made contiguous"),
            &wanted,
        );
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent.id, primitive(gradient));
            }
        }
    }
}

/// A seed for a kernel's dropout, drawn from the device's own random numbers.
pub fn seed(device: &Device) -> u32 {
    let device = device.clone().inner();
    let drawn = Tensor::<1>::random([2], Distribution::Uniform(0.0, 1.0), &device);
    // The numbers are in this process's memory: nothing is waited for.
    let drawn = drawn.into_data();
    let drawn: &[f32] = drawn.as_slice().expect("flex draws f32");
    (drawn[0].to_bits() << 9) ^ drawn[1].to_bits()
}
