//! The inputs of a pre-norm layer's kernel, of which biases and the first norm may be missing.

use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};

use crate::nn::fused::KernelInput;

/// Parameters of a linear layer `y = x·weight + bias`.
///
/// # Shapes
/// - weight: `[inputs, outputs]`
/// - bias: `[outputs]`
#[derive(Debug, Clone, Copy)]
pub struct OptionalLinear<T> {
    /// The matrix.
    pub weight: T,
    /// The bias, if there is one.
    pub bias: Option<T>,
}

/// Parameters of a layer norm `y = gamma ⊙ normalise(x) + beta`.
///
/// # Shapes
/// - gamma, beta: `[width]`
#[derive(Debug, Clone, Copy)]
pub struct OptionalNorm<T> {
    /// The scale.
    pub gamma: T,
    /// The shift, if there is one.
    pub beta: Option<T>,
}

impl From<&Linear> for OptionalLinear<KernelInput> {
    fn from(linear: &Linear) -> Self {
        Self {
            weight: linear.weight.val().into(),
            bias: linear.bias.as_ref().map(|bias| bias.val().into()),
        }
    }
}

impl From<&LayerNorm> for OptionalNorm<KernelInput> {
    fn from(norm: &LayerNorm) -> Self {
        Self {
            gamma: norm.gamma.val().into(),
            beta: norm.beta.as_ref().map(|beta| beta.val().into()),
        }
    }
}

/// The parameters of a pre-norm layer: tensors, their values or their gradients.
pub struct PreNormParams<T> {
    /// γ₁, β₁; none in a layer whose input is normalised already.
    pub attention_norm: Option<OptionalNorm<T>>,
    /// Wq, bq.
    pub query: OptionalLinear<T>,
    /// Wk, bk.
    pub key: OptionalLinear<T>,
    /// Wv, bv.
    pub value: OptionalLinear<T>,
    /// Wo, bo.
    pub output: OptionalLinear<T>,
    /// γ₂, β₂.
    pub feed_forward_norm: OptionalNorm<T>,
    /// W₁, b₁.
    pub inner: OptionalLinear<T>,
    /// W₃, b₃.
    pub gate: OptionalLinear<T>,
    /// W₂, b₂.
    pub outer: OptionalLinear<T>,
}

/// The inputs of the kernel, or their gradients.
pub(super) struct PreNormInputs<T> {
    pub(super) states: T,
    pub(super) params: PreNormParams<T>,
}

/// Number of inputs that every layer has.
const REQUIRED: usize = 9;
/// Number of inputs that may be missing.
const OPTIONAL: usize = 10;
/// Number of inputs of the kernel.
pub(super) const INPUTS: usize = REQUIRED + OPTIONAL;

/// Which of the optional inputs there are.
pub(super) type Present = [bool; OPTIONAL];

impl<T> PreNormInputs<T> {
    /// The inputs from an array, in which inputs that are not `present` have any value.
    pub(super) fn from_array(inputs: [T; INPUTS], present: Present) -> Self {
        let [states, wq, wk, wv, wo, w1, w3, w2, gamma2, optional @ ..] = inputs;
        let mut present = present.into_iter();
        let optional = optional.map(|input| present.next().unwrap_or(false).then_some(input));
        let [gamma1, beta1, bq, bk, bv, bo, b1, b3, b2, beta2] = optional;
        let linear = |weight, bias| OptionalLinear { weight, bias };
        let norm = |gamma, beta| OptionalNorm { gamma, beta };
        Self {
            states,
            params: PreNormParams {
                attention_norm: gamma1.map(|gamma| norm(gamma, beta1)),
                query: linear(wq, bq),
                key: linear(wk, bk),
                value: linear(wv, bv),
                output: linear(wo, bo),
                feed_forward_norm: norm(gamma2, beta2),
                inner: linear(w1, b1),
                gate: linear(w3, b3),
                outer: linear(w2, b2),
            },
        }
    }

    /// The inputs as an array, `None` for those that are missing.
    pub(super) fn into_array(self) -> [Option<T>; INPUTS] {
        let params = self.params;
        let (gamma1, beta1) = match params.attention_norm {
            Some(norm) => (Some(norm.gamma), norm.beta),
            None => (None, None),
        };
        [
            Some(self.states),
            Some(params.query.weight),
            Some(params.key.weight),
            Some(params.value.weight),
            Some(params.output.weight),
            Some(params.inner.weight),
            Some(params.gate.weight),
            Some(params.outer.weight),
            Some(params.feed_forward_norm.gamma),
            gamma1,
            beta1,
            params.query.bias,
            params.key.bias,
            params.value.bias,
            params.output.bias,
            params.inner.bias,
            params.gate.bias,
            params.outer.bias,
            params.feed_forward_norm.beta,
        ]
    }
}

impl PreNormInputs<KernelInput> {
    /// The inputs with a constant in place of each that is missing, and which there are.
    pub(super) fn filled(self, device: &Device) -> ([KernelInput; INPUTS], Present) {
        let inputs = self.into_array();
        let mut present = [false; OPTIONAL];
        for (present, input) in present.iter_mut().zip(&inputs[REQUIRED..]) {
            *present = input.is_some();
        }
        let inputs =
            inputs.map(|input| input.unwrap_or_else(|| Tensor::<1>::zeros([1], device).into()));
        (inputs, present)
    }
}
