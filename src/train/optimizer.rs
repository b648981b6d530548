//! AdamW in one pass over each tensor, parameter groups, and gradient clipping by the global norm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use burn::module::{Module, ModuleVisitor, Param, ParamGroup};
use burn::optim::{
    AdamWState, AdaptiveMomentumState, GradientsParams, LearningRate, ModuleOptimizer, Optimizer,
};
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::device;
use crate::nn::host;
use crate::recipe::TrainConfig;

/// Elements a thread updates at once.
const CHUNK: usize = 1 << 15;

/// The factor by which the optimizer multiplies all gradients of the next step, set between the backward pass and
/// the update.
#[derive(Debug, Clone)]
pub struct GradientScale(Arc<AtomicU32>);

impl GradientScale {
    fn new() -> Self {
        Self(Arc::new(AtomicU32::new(1f32.to_bits())))
    }

    fn set(&self, factor: f32) {
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }

    /// Sets the factor for the next optimizer step: 1 / batches (there are as many `losses` as batches), divided by
    /// `loss_scale`, the factor of the losses in the backward pass, times `max_norm` / norm when the norm of the mean
    /// gradient exceeds `max_norm` (0: no limit). Returns that norm and the losses, all read from the device in one
    /// transfer.
    pub fn set_from_norm<M: Module>(
        &self,
        model: &M,
        gradients: &GradientsParams,
        losses: Vec<Tensor<1>>,
        max_norm: f64,
        loss_scale: f64,
    ) -> (f64, Vec<f64>) {
        let mut factor = 1.0 / (losses.len() as f64 * loss_scale);
        let (norm, losses) = norm_and_losses(model, gradients, losses);
        let norm = factor * norm;
        if max_norm > 0.0 {
            factor *= (max_norm / (norm + 1e-6)).min(1.0);
        }
        self.set(factor as f32);
        (norm, losses)
    }

    fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// AdamW (Loshchilov and Hutter, 2019) with the arithmetic of `torch.optim.AdamW`.
#[derive(Debug, Clone)]
pub struct AdamW {
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    weight_decay: f32,
    scale: GradientScale,
}

impl AdamW {
    fn new(train: &TrainConfig, weight_decay: f64, scale: &GradientScale) -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: train.epsilon as f32,
            weight_decay: weight_decay as f32,
            scale: scale.clone(),
        }
    }
}

impl Optimizer for AdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        let device = tensor.device();
        let state = state.map_or_else(
            || AdaptiveMomentumState {
                time: 0,
                moment_1: Tensor::zeros(tensor.dims(), &device),
                moment_2: Tensor::zeros(tensor.dims(), &device),
                max_moment_2: None,
            },
            // A state read from a checkpoint may still be on another device.
            |state| {
                if state.momentum.moment_1.device() == device {
                    state.momentum
                } else {
                    state.momentum.to_device(&device)
                }
            },
        );
        let time = state.time + 1;
        let constants = Constants {
            beta_1: self.beta_1,
            beta_2: self.beta_2,
            scale: self.scale.get(),
            keep: 1.0 - rate as f32 * self.weight_decay,
            step: (rate / (1.0 - (self.beta_1 as f64).powi(time as i32))) as f32,
            root: (1.0 - (self.beta_2 as f64).powi(time as i32)).sqrt() as f32,
            epsilon: self.epsilon,
        };
        let (tensor, moment_1, moment_2) = if on_host(&device) {
            constants.one_pass(tensor, gradient, state.moment_1, state.moment_2)
        } else {
            constants.by_tensors(tensor, gradient, state.moment_1, state.moment_2)
        };
        let momentum = AdaptiveMomentumState {
            time,
            moment_1,
            moment_2,
            max_moment_2: None,
        };
        (tensor, Some(AdamWState { momentum }))
    }

    fn to_device<const D: usize>(mut state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        state.momentum = state.momentum.to_device(device);
        state
    }
}

/// True when tensors of a device can be accessed without a transfer.
fn on_host(device: &Device) -> bool {
    *device == device::cpu()
}

/// The scalars of one step, the same for every element.
struct Constants {
    beta_1: f32,
    beta_2: f32,
    scale: f32,
    keep: f32,
    step: f32,
    root: f32,
    epsilon: f32,
}

impl Constants {
    fn by_tensors<const D: usize>(
        &self,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        moment_1: Tensor<D>,
        moment_2: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
        let gradient = gradient * self.scale;
        let moment_1 = moment_1 * self.beta_1 + gradient.clone() * (1.0 - self.beta_1);
        let moment_2 = moment_2 * self.beta_2 + gradient.square() * (1.0 - self.beta_2);
        let divisor = moment_2.clone().sqrt() / self.root + self.epsilon;
        let tensor = tensor * self.keep - moment_1.clone() / divisor * self.step;
        (tensor, moment_1, moment_2)
    }

    fn one_pass<const D: usize>(
        &self,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        moment_1: Tensor<D>,
        moment_2: Tensor<D>,
    ) -> (Tensor<D>, Tensor<D>, Tensor<D>) {
        let device = tensor.device();
        let [mut tensor, gradient, mut moment_1, mut moment_2] =
            [tensor, gradient, moment_1, moment_2].map(Tensor::into_data);
        tensor
            .as_mut_slice::<f32>()
            .expect("parameters are f32")
            .par_chunks_mut(CHUNK)
            .zip(gradient.as_slice::<f32>().expect("f32").par_chunks(CHUNK))
            .zip(
                moment_1
                    .as_mut_slice::<f32>()
                    .expect("f32")
                    .par_chunks_mut(CHUNK),
            )
            .zip(
                moment_2
                    .as_mut_slice::<f32>()
                    .expect("f32")
                    .par_chunks_mut(CHUNK),
            )
            .for_each(|(((values, gradients), firsts), seconds)| {
                self.update(values, gradients, firsts, seconds)
            });
        let back = |data: TensorData| Tensor::from_data(data, &device);
        (back(tensor), back(moment_1), back(moment_2))
    }

    fn update(
        &self,
        values: &mut [f32],
        gradients: &[f32],
        firsts: &mut [f32],
        seconds: &mut [f32],
    ) {
        let (one, two) = (1.0 - self.beta_1, 1.0 - self.beta_2);
        for (((value, gradient), first), second) in
            values.iter_mut().zip(gradients).zip(firsts).zip(seconds)
        {
            let gradient = gradient * self.scale;
            *first = *first * self.beta_1 + gradient * one;
            *second = *second * self.beta_2 + gradient * gradient * two;
            *value = *value * self.keep
                - self.step * *first / (second.sqrt() / self.root + self.epsilon);
        }
    }
}

/// The optimizer of a run: weight decay on everything except biases and norms.
pub fn optimizer(train: &TrainConfig) -> (ModuleOptimizer, GradientScale) {
    let scale = GradientScale::new();
    let plain = ParamGroup::from_regex(r"(^|\.)(bias|gamma|beta)$").expect("a valid pattern");
    let optimizer = ModuleOptimizer::from(AdamW::new(train, train.weight_decay, &scale))
        .with_group(plain, AdamW::new(train, 0.0, &scale), None);
    (optimizer, scale)
}

/// The global gradient norm and the losses, in one transfer.
fn norm_and_losses<M: Module>(
    model: &M,
    gradients: &GradientsParams,
    losses: Vec<Tensor<1>>,
) -> (f64, Vec<f64>) {
    struct Norm<'a> {
        gradients: &'a GradientsParams,
        parts: Vec<Tensor<1>>,
    }
    impl ModuleVisitor for Norm<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.gradients.get::<D>(param.id) {
                let flat = gradient.reshape([-1]);
                self.parts.push(flat.clone().dot(flat));
            }
        }
    }
    let count = losses.len();
    let mut norm = Norm {
        gradients,
        parts: losses,
    };
    model.visit(&mut norm);
    let numbers = host::floats(Tensor::cat(norm.parts, 0));
    let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
    let (losses, squares) = numbers.split_at(count);
    (squares.iter().sum::<f64>().sqrt(), losses.to_vec())
}

/// True when every parameter is finite.
pub fn all_finite<M: Module>(model: &M) -> bool {
    struct Sums(Vec<Tensor<1>>);
    impl ModuleVisitor for Sums {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            // A sum is not finite when one of its terms is not.
            self.0.push(param.val().inner().sum());
        }
    }
    let mut sums = Sums(Vec::new());
    model.visit(&mut sums);
    let sums = host::floats(Tensor::cat(sums.0, 0));
    sums.iter().all(|sum| sum.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::schedule::scheduler;
    use super::*;

    #[derive(Module, Debug)]
    struct Pair {
        encoder: burn::nn::Linear,
        head: burn::nn::Linear,
    }

    /// With all gradients 1, AdamW's first step is the learning rate itself; what is left is decay.
    #[test]
    fn every_group_gets_its_rate_and_decay() {
        let device = Device::flex().autodiff();
        let linear = || burn::nn::LinearConfig::new(3, 2).init(&device);
        let pair = Pair {
            encoder: linear(),
            head: linear(),
        };
        let train = TrainConfig {
            learning_rate: 1e-3,
            head_learning_rate: Some(1e-2),
            weight_decay: 0.5,
            warm_up: 0.0,
            ..TrainConfig::default()
        };
        let parameters = |pair: &Pair| {
            [&pair.encoder, &pair.head].map(|linear| {
                let bias = linear.bias.as_ref().map(|bias| bias.val().inner());
                let bias = bias.expect("there is one");
                (
                    crate::nn::host::floats(linear.weight.val().inner()),
                    crate::nn::host::floats(bias),
                )
            })
        };
        let before = parameters(&pair);
        let sum = |linear: &burn::nn::Linear| {
            linear.weight.val().sum() + linear.bias.as_ref().expect("there is one").val().sum()
        };
        let loss = sum(&pair.encoder) + sum(&pair.head);
        let gradients = GradientsParams::from_grads(loss.backward(), &pair);
        let (mut optimizer, _) = optimizer(&train);
        let rates = scheduler(&train, 10, &[0]).step();
        let after = parameters(&optimizer.step(rates, pair, gradients));
        for (index, rate) in [1e-3f32, 1e-2].into_iter().enumerate() {
            let moved = |before: &[f32], after: &[f32], decay: f32| {
                for (before, after) in before.iter().zip(after) {
                    let expected = before * (1.0 - rate * decay) - rate;
                    assert!(
                        (after - expected).abs() < 1e-6,
                        "{index}: {after} {expected}"
                    );
                }
            };
            moved(&before[index].0, &after[index].0, 0.5);
            moved(&before[index].1, &after[index].1, 0.0);
        }
    }

    /// Values computed with `torch.optim.AdamW` of PyTorch 2.15 (lr 0.1, betas 0.9 and 0.999, eps 1e-8): five steps from
    /// (1, -1, 0.25), with and without weight decay.
    #[test]
    fn steps_equal_those_of_pytorch() {
        let gradients = [
            [0.3, -2.0, 0.0],
            [-0.1, 1.0, 0.0],
            [0.5, 0.25, 1e-3],
            [-1.5, -0.75, 2.0],
            [0.2, 0.0, -4.0],
        ];
        let with_decay: [[f32; 3]; 5] = [
            [0.85, -0.85, 0.2375],
            [0.767_478_17, -0.780_866_3, 0.225_625],
            [0.658_574_64, -0.728_467, 0.150_463_5],
            [0.658_528_6, -0.663_266_24, 0.084_801_33],
            [0.646_465_5, -0.605_779_47, 0.107_388_59],
        ];
        let without_decay: [[f32; 3]; 5] = [
            [0.9, -0.9, 0.25],
            [0.859_978_2, -0.873_366_36, 0.25],
            [0.789_448_6, -0.860_010_4, 0.186_119_77],
            [0.822_331_4, -0.831_233, 0.127_980_78],
            [0.843_194_66, -0.806_909_5, 0.154_808_1],
        ];
        for device in crate::device::cpu_devices() {
            for (weight_decay, expected) in [(0.5, with_decay), (0.0, without_decay)] {
                let adamw =
                    AdamW::new(&TrainConfig::default(), weight_decay, &GradientScale::new());
                let mut tensor = Tensor::<1>::from_floats([1.0, -1.0, 0.25], &device);
                let mut state = None;
                for (step, (gradient, expected)) in gradients.iter().zip(expected).enumerate() {
                    let gradient = Tensor::from_floats(*gradient, &device);
                    (tensor, state) = adamw.step(0.1, tensor, gradient, state);
                    let found = crate::nn::host::floats(tensor.clone());
                    for (found, expected) in found.iter().zip(expected) {
                        let difference = (found - expected).abs();
                        assert!(difference < 5e-7, "step {step}: {found} {expected}");
                    }
                }
            }
        }
    }

    /// The factor that the next step multiplies gradients by, and the update with it, as
    /// `torch.nn.utils.clip_grad_norm_` followed by a step.
    #[test]
    fn gradients_are_clipped_to_the_norm() {
        let device = Device::flex().autodiff();
        let linear = burn::nn::LinearConfig::new(2, 1)
            .with_bias(false)
            .init(&device);
        let scale = GradientScale::new();
        // The loss 3 w1 + 4 w2 has a gradient of norm 5.
        let weights = Tensor::<2>::from_floats([[3.0], [4.0]], &device);
        let loss = (linear.weight.val() * weights).sum();
        let gradients = GradientsParams::from_grads(loss.clone().backward(), &linear);
        let losses = vec![loss.clone().inner()];
        let (norm, _) = scale.set_from_norm(&linear, &gradients, losses.clone(), 1.0, 1.0);
        assert!((norm - 5.0).abs() < 1e-6, "{norm}");
        assert!((scale.get() - 0.2).abs() < 1e-6, "{}", scale.get());
        scale.set_from_norm(&linear, &gradients, losses.clone(), 10.0, 1.0);
        assert_eq!(scale.get(), 1.0);
        scale.set_from_norm(&linear, &gradients, losses, 0.0, 1.0);
        assert_eq!(scale.get(), 1.0);
        // Two batches: the gradients are a sum, so the norm of their mean is 2.5.
        let losses = vec![loss.clone().inner(), loss.inner()];
        let (norm, losses) = scale.set_from_norm(&linear, &gradients, losses, 1.0, 1.0);
        assert!((norm - 2.5).abs() < 1e-6, "{norm}");
        assert_eq!(losses.len(), 2);
        assert!((scale.get() - 0.2).abs() < 1e-6, "{}", scale.get());
    }
}
