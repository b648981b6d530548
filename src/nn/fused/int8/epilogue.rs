//! What is fused into the store of a linear layer's outputs.

use super::Epilogue;
use crate::nn::fused::math;

/// Defines an epilogue from the expression of the value that is stored.
macro_rules! epilogue {
    ($doc:literal, $name:ident, |$output:ident, $before:ident| $stored:expr) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Epilogue for $name {
            #[inline(always)]
            fn store(&self, $output: f32, $before: f32) -> f32 {
                $stored
            }
        }
    };
}

epilogue!("Stores the output.", Replace, |output, _before| output);
epilogue!(
    "Adds the output to the value that is there.",
    AddTo,
    |output, before| before + output
);
epilogue!(
    "Multiplies the value that is there by the output.",
    Multiply,
    |output, before| before * output
);
epilogue!("Stores `gelu(output)`.", Gelu, |output, _before| {
    math::gelu(output).0
});
epilogue!(
    "Stores GELU of the output with the tanh approximation.",
    GeluTanh,
    |output, _before| math::gelu_tanh(output).0
);
epilogue!("Stores `max(output, 0)`.", Relu, |output, _before| {
    math::relu(output).0
});
epilogue!("Stores `tanh(output)`.", Tanh, |output, _before| {
    math::tanh(output)
});
