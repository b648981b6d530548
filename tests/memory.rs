//! Memory of training: estimates, recomputed layers, half precision.

#![cfg(feature = "train")]

#[path = "common/counting.rs"]
mod counting;

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, Tensor};
use nerzoo::encoder::batching::PackedRows;
use nerzoo::encoder::transformer::{
    Activation, EncoderFamily, Execution, Layout, Transformer, TransformerConfig,
};
use nerzoo::files::sha256;
use nerzoo::nn::{fused, host};
use nerzoo::process::allocations::count;
use nerzoo::recipe::Recipe;
use nerzoo::text::Labels;
use nerzoo::train::{Corpus, TrainOptions, Trainer};
use nerzoo::{device, registry};

/// One test at a time: random numbers, counters of memory and the switch of kernels are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn transformer(dropout: f64, layers: usize, execution: Execution) -> Transformer {
    let device = Device::flex().autodiff();
    device.seed(5);
    let config = TransformerConfig {
        family: EncoderFamily::Bert,
        vocabulary: 20,
        embedding_width: 32,
        width: 32,
        layers,
        heads: 2,
        feed_forward: 64,
        positions: 64,
        token_types: 1,
        padding: 0,
        norm_epsilon: 1e-5,
        dropout,
        attention_dropout: dropout,
        activation: Activation::Gelu,
        layout: Layout::Bert,
    };
    let mut model = config.init(&device);
    model.execution = execution;
    model
}

fn rows(count: usize) -> PackedRows {
    PackedRows {
        ids: (0..count * 24).map(|piece| (piece % 19) as u32).collect(),
        lengths: vec![24; count],
        padding_id: 0,
        least_width: 0,
    }
}

/// Loss and gradients of a pass with these dropout seeds.
fn pass(model: &Transformer, rows: &PackedRows, seed: u64) -> (f32, GradientsParams) {
    // For the embeddings, and for the seed that kernels draw.
    model.device().seed(seed);
    let weighted = |states: Tensor<2>| {
        let [count, width] = states.dims();
        let weights: Vec<f32> = (0..count * width)
            .map(|i| (i * 7919 % 13) as f32 / 13.0 - 0.4)
            .collect();
        let weights = Tensor::<1>::from_floats(weights.as_slice(), &states.device());
        (states * weights.reshape([count, width])).mean()
    };
    if !model.recomputes_by_operations() {
        let loss = weighted(model.forward(rows, None, 1).states);
        let gradients = GradientsParams::from_grads(loss.backward(), model);
        return (host::floats(loss)[0], gradients);
    }
    let (states, recomputation) = model.forward_recomputed(rows, None, 1, seed);
    let loss = weighted(states.states);
    let mut sum = GradientsAccumulator::new();
    recomputation.backward(&mut loss.backward(), |part| {
        sum.accumulate(model, GradientsParams::from_grads(part, model));
    });
    (host::floats(loss)[0], sum.grads())
}

/// Moves all weights along their gradients.
struct Move<'a>(&'a GradientsParams, f64);

impl ModuleMapper for Move<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, _) = param.consume();
        let Some(gradient) = self.0.get::<D>(id) else {
            return Param::initialized(id, value);
        };
        let moved = value.inner() + gradient * self.1;
        Param::initialized(id, Tensor::from_inner(moved).require_grad())
    }
}

/// Values of all gradients.
struct Values<'a>(&'a GradientsParams, Vec<f32>);

impl ModuleVisitor for Values<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.0.get::<D>(param.id) {
            self.1.extend(host::floats(gradient));
        }
    }
}

fn values(model: &Transformer, gradients: &GradientsParams) -> Vec<f32> {
    let mut values = Values(gradients, Vec::new());
    model.visit(&mut values);
    values.1
}

fn recompute(recompute: bool, without_kernels: bool) -> Execution {
    Execution {
        recompute,
        without_kernels,
        ..Execution::default()
    }
}

#[test]
fn dropout_is_the_same_when_a_layer_is_recomputed() {
    let _alone = alone();
    for without_kernels in [false, true] {
        let model = transformer(0.2, 2, recompute(true, without_kernels));
        pass(&model, &rows(2), 7); // draws the weights
        let (loss, gradients) = pass(&model, &rows(2), 7);
        assert_eq!(loss, pass(&model, &rows(2), 7).0);
        assert_ne!(loss, pass(&model, &rows(2), 8).0);
        let size: f32 = values(&model, &gradients).iter().map(|x| x * x).sum();
        // The derivative in the direction of the gradient is its squared norm, unless other values were dropped.
        let step = 2e-3 / f64::from(size.sqrt());
        let moved = |factor: f64| {
            pass(
                &model.clone().map(&mut Move(&gradients, factor)),
                &rows(2),
                7,
            )
            .0
        };
        let slope = (moved(step) - moved(-step)) / (2.0 * step) as f32;
        assert!(
            (slope - size).abs() < 0.03 * size,
            "kernels {}: {slope} {size}",
            !without_kernels
        );
    }
}

#[test]
fn recomputed_kernels_give_the_same_bits_and_both_paths_take_less_memory() {
    let _alone = alone();
    for without_kernels in [false, true] {
        let peak = |is_on: bool| {
            let model = transformer(0.1, 12, recompute(is_on, without_kernels));
            let rows = rows(4);
            let (_, gradients) = pass(&model, &rows, 3); // allocates what is kept between calls
            let values = values(&model, &gradients);
            drop(gradients);
            (counting::peak(|| pass(&model, &rows, 3)), values)
        };
        let ((kept, expected), (recomputed, found)) = (peak(false), peak(true));
        println!(
            "kernels {}: {kept} bytes, recomputed {recomputed}",
            !without_kernels
        );
        assert!(recomputed * 2 < kept, "{recomputed} {kept}");
        if !without_kernels {
            assert_eq!(expected, found);
        }
    }
}

/// A small model of a head on some sentences of the synthetic corpus.
fn recipe(head: &str, sets: &[&str]) -> Recipe {
    let text = format!(
        "[data]\ncorpus = \"quickstart\"\nlimit = 64\n[head]\nname = \"{head}\"\n[train]\nbatch = 8\nepochs = 7\n\
         learning_rate = 1e-3\ntune = false\n[encoder.scratch]\nvocabulary = 200\nlayers = 2\nwidth = 32\nheads = 2\n\
         feed_forward = 64\ndropout = 0.0\n"
    );
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    registry::resolve(Recipe::parse(&text, "test", &sets).unwrap())
        .unwrap()
        .0
}

fn corpus(recipe: &Recipe) -> Corpus {
    let datasets = concat!(env!("CARGO_MANIFEST_DIR"), "/datasets");
    Corpus::load(recipe, &[datasets.into()]).unwrap()
}

fn trainer(recipe: &Recipe) -> Box<dyn Trainer> {
    let entry = registry::find(recipe.head_name()).unwrap();
    (entry.trainer)(recipe, corpus(recipe), &device::cpu()).unwrap()
}

#[test]
fn fifty_steps_in_half_precision_follow_those_in_single_precision() {
    let _alone = alone();
    for head in ["seq_ner", "span_ner"] {
        let losses = |precision: &str| -> Vec<f64> {
            let precision = format!("train.precision=\"{precision}\"");
            let mut trainer = trainer(&recipe(head, &[&precision, "head.dropout=0.0"]));
            (0..50).map(|_| trainer.step().unwrap().loss).collect()
        };
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let single = losses("f32");
        for precision in ["bf16", "f16"] {
            let half = losses(precision);
            assert_ne!(single, half, "{precision} computes in {precision}");
            for part in [0..10, 20..30, 40..50] {
                let (a, b) = (mean(&single[part.clone()]), mean(&half[part.clone()]));
                println!("{head} {precision} steps {part:?}: {a:.4} {b:.4}");
                assert!(
                    (a - b).abs() < 0.02 * a,
                    "{head} {precision} {part:?}: {a} {b}"
                );
            }
        }
        assert!(mean(&single[40..]) < 0.8 * mean(&single[..10]));
    }
}

#[test]
fn estimates_are_close_to_what_is_allocated() {
    let _alone = alone();
    for (head, sets) in [
        ("seq_ner", &[][..]),
        ("span_ner", &[]),
        ("bl_ner", &["train.recompute=true"]),
        ("locate_label", &[]),
        ("seq_ner", &["train.precision=\"bf16\""]),
    ] {
        // All batches are equal.
        let recipe = recipe(head, sets);
        let mut corpus = corpus(&recipe);
        let longest = corpus
            .train
            .iter()
            .max_by_key(|sentence| sentence.len())
            .unwrap()
            .clone();
        corpus.labels = Labels::of(&corpus.train);
        corpus.train = vec![longest; 16];
        let entry = registry::find(head).unwrap();
        let all = (entry.memory)(&recipe, corpus.clone(), &device::cpu()).unwrap();
        assert_eq!(all.len(), 6);
        let train = &recipe.train;
        let mut fitting = all.iter().filter(|estimate| {
            (estimate.precision, estimate.recompute) == (train.precision, train.recompute)
        });
        let estimate = fitting.next().unwrap();
        let (mut trainer, _) = count(|| (entry.trainer)(&recipe, corpus, &device::cpu()).unwrap());
        trainer.step().unwrap();
        let (_, step) = count(|| trainer.step().unwrap());
        let kept = estimate.weights() + estimate.optimizer();
        let measured = (kept + step.unwrap().peak) as f64;
        let estimated = estimate.model() as f64;
        println!("{head} {sets:?}: {measured} allocated, {estimated} estimated");
        assert!(
            (estimated / measured - 1.0).abs() < 0.15,
            "{head} {sets:?}: {measured} {estimated}"
        );
    }
}

#[test]
fn a_resumed_run_in_half_precision_ends_with_the_same_bits() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for sets in [
        ["train.precision=\"f16\"", "train.recompute=true"],
        ["train.precision=\"bf16\"", "train.accumulate=2"],
    ] {
        let mut recipe = recipe("seq_ner", &sets);
        recipe.train.epochs = 2;
        recipe.encoder.scratch.as_mut().unwrap().dropout = 0.1;
        let entry = registry::find("seq_ner").unwrap();
        let options = |name: &str, resume: bool| TrainOptions {
            resume,
            roots: vec![concat!(env!("CARGO_MANIFEST_DIR"), "/datasets").into()],
            ..TrainOptions::new(
                recipe.clone(),
                folder
                    .path()
                    .join(format!("{name}-{}", recipe.train.precision)),
            )
        };
        let weights =
            |options: &TrainOptions| sha256(&options.out.join("model.safetensors")).unwrap();
        let whole = options("whole", false);
        let finished = (entry.train)(&whole).unwrap();
        let has_scale = recipe.train.precision.to_string() == "f16";
        assert_eq!(finished.state.loss_scale.is_some(), has_scale);
        let state = (entry.train_until)(&options("parts", false), 1).unwrap();
        assert_eq!(
            state.loss_scale.map(|scale| scale.steps > 0),
            has_scale.then_some(true)
        );
        let rest = options("parts", true);
        let resumed = (entry.train)(&rest).unwrap();
        assert_eq!(weights(&whole), weights(&rest));
        assert_eq!(finished.state.loss_scale, resumed.state.loss_scale);
    }
}

#[test]
fn kernels_are_left_out_in_half_precision_only() {
    let _alone = alone();
    fused::set_enabled(true);
    let half = Execution {
        precision: nerzoo::nn::precision::Precision::Bf16,
        ..Execution::default()
    };
    assert!(transformer(0.0, 1, Execution::default()).uses_kernels());
    let half = transformer(0.0, 1, half);
    assert!(!half.uses_kernels());
    // Prediction is in single precision.
    assert!(half.valid().uses_kernels());
}
