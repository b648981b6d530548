//! Pre-norm layers with linear layers in eight bits, for prediction.

use std::sync::Arc;

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{OptionalNorm, PreNormLayer};
use crate::nn::fused::int8::{AddTo, Gelu, Multiply};
use crate::nn::fused::layer_norm::layer_norm_in_place;
use crate::nn::fused::transformer::int8::{Int8Layer, Scratch, in_groups};
use crate::nn::fused::{KernelInput, NormParams, compute};

impl PreNormLayer {
    /// Applies the layer with linear layers in eight bits, without dropout. The norms are those before the attention, if
    /// there is one, and before the feed-forward network.
    ///
    /// # Shapes
    /// - states: `[rows, width]`
    /// - output: `[rows, width]`
    ///
    /// # Panics
    /// If the feed-forward network has no gate.
    pub fn forward_int8(
        &self,
        states: Tensor<2>,
        layers: &Int8Layer,
        attention_norm: Option<OptionalNorm<KernelInput>>,
        feed_forward_norm: OptionalNorm<KernelInput>,
    ) -> Tensor<2> {
        let (shape, device) = (states.dims(), states.device());
        let zeros = || KernelInput::from(Tensor::<1>::zeros([self.width], &device));
        let has_norm = attention_norm.is_some();
        let [gamma1, beta1] = match attention_norm {
            Some(norm) => [norm.gamma, norm.beta.unwrap_or_else(zeros)],
            None => [zeros(), zeros()],
        };
        let gamma2 = feed_forward_norm.gamma;
        let beta2 = feed_forward_norm.beta.unwrap_or_else(zeros);
        let inputs = [states.into(), gamma1, beta1, gamma2, beta2];
        compute(inputs, shape, |inputs| {
            let [states, gamma1, beta1, gamma2, beta2] = inputs;
            let norm = |gamma, beta| NormParams { gamma, beta };
            let attention_norm = has_norm.then(|| norm(gamma1, beta1));
            let norms = (attention_norm, norm(gamma2, beta2));
            in_groups(
                &self.lengths,
                states,
                self.width,
                |lengths, rows, output, block| {
                    let group = Self {
                        lengths: Arc::new(lengths),
                        ..self.clone()
                    };
                    group.run_int8(rows, output, block, layers, norms);
                },
            )
        })
    }

    /// Computes a group of sequences.
    fn run_int8(
        &self,
        states: &[f32],
        output: &mut [f32],
        block: usize,
        layers: &Int8Layer,
        (attention_norm, feed_forward_norm): (Option<NormParams<&[f32]>>, NormParams<&[f32]>),
    ) {
        let mut projections = layers.project(states, block, |rows, normalised| {
            let Some(norm) = attention_norm else {
                return rows;
            };
            normalised.clear();
            normalised.extend_from_slice(rows);
            layer_norm_in_place(normalised, norm, self.epsilon);
            normalised
        });
        self.rotate(&mut projections.query);
        self.rotate(&mut projections.key);
        let (context, _) = self.attention_forward(&projections, false);
        drop(projections);
        let gate = (layers.gate.as_ref()).expect("layers with a norm before have a gate");
        let size = block * self.width;
        (output.par_chunks_mut(size))
            .zip(states.par_chunks(size))
            .zip(context.par_chunks(size))
            .for_each_init(Scratch::default, |scratch, ((output, states), context)| {
                let Scratch {
                    quantized,
                    rows,
                    hidden,
                } = scratch;
                output.copy_from_slice(states);
                quantized.replace(context, self.width);
                layers.output.forward_quantized(quantized, output, &AddTo);
                rows.clear();
                rows.extend_from_slice(output);
                layer_norm_in_place(rows, feed_forward_norm, self.epsilon);
                quantized.replace(rows, self.width);
                hidden.resize(output.len() / self.width * self.inner, 0.0);
                layers.inner.forward_quantized(quantized, hidden, &Gelu);
                gate.forward_quantized(quantized, hidden, &Multiply);
                quantized.replace(hidden, self.inner);
                layers.outer.forward_quantized(quantized, output, &AddTo);
            });
    }
}
