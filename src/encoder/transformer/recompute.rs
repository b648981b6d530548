//! Training that keeps only the input of each layer, by Burn's operations on any device.
//!
//! The forward pass of the layers builds no graph. In the backward pass each layer is run again, from the last to the first,
//! this time with a graph, through which the gradient of its output is passed on. Dropout is the same in both passes,
//! because the device's random numbers are seeded before each layer.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use burn::tensor::{Gradients, Tensor};

use super::{Layout, PaddedBatch, PieceStates, Transformer, padded_states};
use crate::encoder::batching::PackedRows;

/// Held while a layer runs: Burn's random numbers may be common to all devices of the process.
static SEEDED: Mutex<()> = Mutex::new(());

/// A forward pass whose layers are run again in the backward pass.
pub struct Recomputation<'a> {
    transformer: &'a Transformer,
    batch: PaddedBatch,
    /// Input of the first layer, with the graph of the embeddings.
    embedded: Tensor<3>,
    /// Input of each application of a layer, without a graph.
    inputs: Vec<Tensor<3>>,
    /// Number of last layers whose outputs are averaged.
    average: usize,
    seed: u64,
    /// The output, from which a new graph starts.
    output: Tensor<3>,
}

impl Transformer {
    /// Whether the backward pass of [`forward_recomputed`](Self::forward_recomputed) is needed to recompute layers: fused
    /// kernels do that themselves.
    pub fn recomputes_by_operations(&self) -> bool {
        self.execution.recompute && self.device().is_autodiff() && !self.uses_kernels()
    }

    /// The same as [`forward`](Self::forward) on padded rows, without keeping more than the input of each layer. Gradients
    /// of the states do not reach the weights by themselves: [`Recomputation::backward`] passes them on. All random
    /// numbers of the layers follow from `seed`.
    pub fn forward_recomputed(
        &self,
        rows: &PackedRows,
        prompt: Option<Tensor<2>>,
        average: usize,
        seed: u64,
    ) -> (PieceStates, Recomputation<'_>) {
        let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
        let batch = self.padded_batch(rows, prompts);
        let embedded = self.embed(rows, prompt);
        let learned = Learned::of(&batch, &self.layout).without_graph();
        let (frozen, shared) = (self.clone().no_grad(), learned.put_into(&batch));
        let inputs = RefCell::new(Vec::with_capacity(self.order.len()));
        let states = without_graph(embedded.clone());
        let output = frozen.run_layers(states, average, |step, _, states| {
            inputs.borrow_mut().push(states.clone());
            frozen.run_step(step, states, seed, &shared)
        });
        let output = output.require_grad();
        let states = padded_states(output.clone(), rows, prompts);
        let recomputation = Recomputation {
            transformer: self,
            average: average.clamp(1, self.order.len().max(1)),
            batch,
            embedded,
            inputs: inputs.into_inner(),
            seed,
            output,
        };
        (states, recomputation)
    }

    /// Runs one application of a layer, without what follows it, with the random numbers of the seed.
    fn run_step(
        &self,
        step: usize,
        states: Tensor<3>,
        seed: u64,
        batch: &PaddedBatch,
    ) -> Tensor<3> {
        let layer = &self.layers[self.order[step]];
        let _lock = SEEDED.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (step as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.device().seed(seed ^ number);
        self.run_padded_layer(step, layer, states, batch)
    }
}

/// The tensors of a batch that are computed from weights and used by all layers.
#[derive(Default)]
struct Learned {
    /// MPNet's bias of the attention scores.
    bias: Option<Tensor<4>>,
    /// DeBERTa's rows of relative positions.
    table: Option<Tensor<2>>,
}

impl Learned {
    fn of(batch: &PaddedBatch, layout: &Layout) -> Self {
        let positions = batch.positions.as_ref();
        match layout {
            Layout::Mpnet(_) => Self {
                bias: positions.and(batch.bias.clone()),
                table: None,
            },
            _ => Self {
                bias: None,
                table: positions.map(|positions| positions.table.clone()),
            },
        }
    }

    /// The same values without a graph.
    fn without_graph(&self) -> Self {
        Self {
            bias: self.bias.clone().map(without_graph),
            table: self.table.clone().map(without_graph),
        }
    }

    /// The same values as the start of a new graph.
    fn leaves(&self) -> Self {
        let values = self.without_graph();
        Self {
            bias: values.bias.map(Tensor::require_grad),
            table: values.table.map(Tensor::require_grad),
        }
    }

    /// A batch with these tensors.
    fn put_into(&self, batch: &PaddedBatch) -> PaddedBatch {
        let mut batch = batch.clone();
        if self.bias.is_some() {
            batch.bias = self.bias.clone();
        }
        if let (Some(table), Some(positions)) = (&self.table, &mut batch.positions) {
            positions.table = table.clone();
        }
        batch
    }

    /// Adds the gradients of these tensors to `sums`.
    fn add_gradients(&self, gradients: &mut Gradients, sums: &mut Self) {
        add_gradient(&self.bias, gradients, &mut sums.bias);
        add_gradient(&self.table, gradients, &mut sums.table);
    }

    /// The sum of the products of these tensors with their gradients.
    fn weighted(self, gradients: Self) -> Option<Tensor<1>> {
        let bias = product(self.bias, gradients.bias);
        let table = product(self.table, gradients.table);
        bias.or(table)
    }
}

fn add_gradient<const D: usize>(
    leaf: &Option<Tensor<D>>,
    gradients: &mut Gradients,
    sum: &mut Option<Tensor<D>>,
) {
    let gradient = leaf.as_ref().and_then(|leaf| leaf.grad_remove(gradients));
    if let Some(gradient) = gradient {
        *sum = Some(match sum.take() {
            Some(sum) => sum + gradient,
            None => gradient,
        });
    }
}

/// A scalar whose gradient by `values` is `gradient`.
fn product<const D: usize>(
    values: Option<Tensor<D>>,
    gradient: Option<Tensor<D>>,
) -> Option<Tensor<1>> {
    Some((values? * Tensor::from_inner(gradient?)).sum())
}

fn without_graph<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_inner(tensor.inner())
}

impl Recomputation<'_> {
    /// Passes the gradients of the output on to the weights: calls `collect` with the gradients of each layer and at last
    /// with those of the embeddings. Gradients of weights that are used several times are in several of them.
    pub fn backward(self, gradients: &mut Gradients, mut collect: impl FnMut(Gradients)) {
        let transformer = self.transformer;
        let Some(of_output) = self.output.grad_remove(gradients) else {
            return; // the loss does not depend on the output
        };
        let steps = transformer.order.len();
        let average = self.average;
        let share = if average > 1 {
            of_output / average as f32
        } else {
            of_output
        };
        // Of the output of the current step, from the steps above it.
        let mut gradient = (average == 1).then(|| share.clone());
        let learned = Learned::of(&self.batch, &transformer.layout);
        let mut of_learned = Learned::default();
        for (step, input) in self.inputs.into_iter().enumerate().rev() {
            if average > 1 && step + average >= steps {
                gradient = Some(match gradient {
                    Some(gradient) => gradient + share.clone(),
                    None => share.clone(),
                });
            }
            let input = input.require_grad();
            let leaves = learned.leaves();
            let batch = leaves.put_into(&self.batch);
            let output = transformer.run_step(step, input.clone(), self.seed, &batch);
            let output = transformer.finish_step(step, output);
            let Some(root) = product(Some(output), gradient.take()) else {
                continue;
            };
            let mut gradients = root.backward();
            gradient = input.grad_remove(&mut gradients);
            leaves.add_gradients(&mut gradients, &mut of_learned);
            collect(gradients);
        }
        // A graph whose backward pass never runs would stay in memory.
        let embedded = product(Some(self.embedded), gradient);
        let learned = learned.weighted(of_learned);
        let root = match (embedded, learned) {
            (Some(embedded), Some(learned)) => Some(embedded + learned),
            (embedded, learned) => embedded.or(learned),
        };
        if let Some(root) = root {
            collect(root.backward());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::transformer::{
        Activation, AlbertLayout, DebertaConvolution, DebertaLayout, EncoderFamily, Execution,
        ModernbertLayout, MpnetLayout, TransformerConfig,
    };
    use crate::nn::host::floats;
    use burn::module::{ModuleVisitor, Param};
    use burn::tensor::Device;
    use std::collections::BTreeMap;

    fn deberta(shared_key: bool, convolution: bool) -> Layout {
        Layout::Deberta(DebertaLayout {
            relative: true,
            content_to_position: true,
            position_to_content: true,
            buckets: 4,
            longest: 32,
            shared_key,
            normalised: true,
            position_input: false,
            convolution: convolution.then_some(DebertaConvolution {
                kernel: 3,
                groups: 1,
                activation: Activation::Tanh,
            }),
        })
    }

    fn layouts() -> Vec<Layout> {
        let modernbert = ModernbertLayout {
            global_theta: 1000.0,
            local_theta: 100.0,
            local_window: 4,
            is_global: vec![true, false, true],
            attention_bias: false,
            feed_forward_bias: true,
            norm_bias: false,
            feed_forward_dropout: 0.0,
        };
        vec![
            Layout::Bert,
            Layout::Albert(AlbertLayout {
                groups: 1,
                layers_per_group: 1,
            }),
            Layout::Mpnet(MpnetLayout { buckets: 32 }),
            deberta(false, true),
            deberta(true, false),
            Layout::Modernbert(modernbert),
        ]
    }

    fn model(layout: Layout) -> Transformer {
        let device = Device::flex().autodiff();
        device.seed(5);
        let config = TransformerConfig {
            family: EncoderFamily::Bert,
            vocabulary: 20,
            embedding_width: 8,
            width: 8,
            layers: 3,
            heads: 2,
            feed_forward: 12,
            positions: 40,
            token_types: 1,
            padding: 0,
            norm_epsilon: 1e-5,
            dropout: 0.0,
            attention_dropout: 0.0,
            activation: Activation::Gelu,
            layout,
        };
        let mut model = config.init(&device);
        model.execution = Execution {
            recompute: true,
            without_kernels: true,
            ..Execution::default()
        };
        model
    }

    fn rows() -> PackedRows {
        PackedRows {
            ids: (0..16).map(|piece| piece % 7).collect(),
            lengths: vec![9, 4, 3],
            padding_id: 0,
            least_width: 0,
        }
    }

    /// A loss that weighs all real states differently.
    fn loss(states: &PieceStates) -> Tensor<1> {
        let indices: Vec<usize> = (0..16).map(|piece| states.index(piece)).collect();
        let states = crate::nn::rows::select_rows(states.states.clone(), indices);
        let [count, width] = states.dims();
        let weights = (0..count * width).map(|i| ((i * 7919) % 13) as f32 / 13.0 - 0.4);
        let weights: Vec<f32> = weights.collect();
        let weights = Tensor::<1>::from_floats(weights.as_slice(), &states.device());
        (states * weights.reshape([count, width])).sum()
    }

    type Collected = BTreeMap<String, Vec<f32>>;

    /// Adds the gradients of all parameters by name.
    struct Collector<'a> {
        gradients: &'a mut Gradients,
        path: Vec<String>,
        sums: &'a mut Collected,
    }

    impl ModuleVisitor for Collector<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.into());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = param.val().grad_remove(self.gradients) else {
                return;
            };
            let gradient = floats(gradient);
            let sum = self.sums.entry(self.path.join(".")).or_default();
            sum.resize(gradient.len(), 0.0);
            sum.iter_mut().zip(gradient).for_each(|(a, b)| *a += b);
        }
    }

    fn collect(model: &Transformer, gradients: &mut Gradients, sums: &mut Collected) {
        let path = Vec::new();
        model.visit(&mut Collector {
            gradients,
            path,
            sums,
        });
    }

    fn prompt(model: &Transformer) -> Tensor<2> {
        Tensor::<2>::ones([2, 8], &model.device()).require_grad()
    }

    fn recomputed(model: &Transformer, average: usize, seed: u64) -> (f32, Collected, Vec<f32>) {
        let prompt = prompt(model);
        let (states, recomputation) =
            model.forward_recomputed(&rows(), Some(prompt.clone()), average, seed);
        let loss = loss(&states);
        let (mut sums, mut of_prompt) = (Collected::new(), Vec::new());
        recomputation.backward(&mut loss.backward(), |mut part| {
            if let Some(gradient) = prompt.grad(&part) {
                of_prompt = floats(gradient);
            }
            collect(model, &mut part, &mut sums);
        });
        (floats(loss)[0], sums, of_prompt)
    }

    #[test]
    fn gradients_are_those_of_the_whole_graph() {
        for layout in layouts() {
            for average in [1, 2] {
                let model = model(layout.clone());
                let prompt = prompt(&model);
                let whole = loss(&model.forward_padded(&rows(), Some(prompt.clone()), average));
                let mut gradients = whole.backward();
                let expected_prompt = floats(prompt.grad(&gradients).unwrap());
                let mut expected = Collected::new();
                collect(&model, &mut gradients, &mut expected);
                let (found_loss, found, found_prompt) = recomputed(&model, average, 3);
                assert_eq!(floats(whole)[0], found_loss, "{layout:?}");
                let names = |all: &Collected| all.keys().cloned().collect::<Vec<_>>();
                assert_eq!(names(&expected), names(&found), "{layout:?}");
                let mut pairs: Vec<(&str, &[f32], &[f32])> = (expected.iter())
                    .map(|(name, values)| (name.as_str(), &values[..], &found[name][..]))
                    .collect();
                pairs.push(("prompt", &expected_prompt, &found_prompt));
                for (name, expected, found) in pairs {
                    let scale = expected.iter().fold(1.0, |most: f32, x| most.max(x.abs()));
                    for (a, b) in expected.iter().zip(found) {
                        assert!((a - b).abs() < 1e-5 * scale, "{layout:?} {name}: {a} {b}");
                    }
                    assert_eq!(expected.len(), found.len(), "{layout:?} {name}");
                }
            }
        }
    }
}
