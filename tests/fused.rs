//! Fused kernels against the Burn operations they replace: the same values and gradients with any number of threads.

#![cfg(feature = "train")]

mod common;

use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::activation::gelu;
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Distribution, Gradients, Int, Tensor};
use common::losses;
use nerzoo::encoder::batching::{PackedRows, PieceBatch};
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::transformer::{
    Activation, AlbertLayout, DebertaConvolution, DebertaLayout, EncoderFamily, Layout,
    ModernbertLayout, MpnetLayout, Transformer, TransformerConfig,
};
use nerzoo::encoder::{
    EncodedSentence, EncoderConfig, LayerPooling, Pooling, RowLayout, ScratchConfig,
};
use nerzoo::nn::bilstm::BiLstm;
use nerzoo::nn::fused;
use nerzoo::nn::fused::conv3d::Conv3dGelu;
use nerzoo::nn::host::floats;
use nerzoo::registry;
use nerzoo::text::Sentence;

/// The gradient of every parameter, in order.
struct Collect<'a>(&'a Gradients, Vec<Vec<f32>>);

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.0).map(floats);
        self.1.push(gradient.unwrap_or_default());
    }
}

/// Adds noise to all parameters: with the small weights of a new model, attention is nearly uniform.
struct Disturb;

impl ModuleMapper for Disturb {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|value| {
            let noise = value.random_like(Distribution::Normal(0.0, 0.2));
            (value + noise).detach().require_grad()
        })
    }
}

fn gradients<M: Module>(model: &M, loss: Tensor<1>) -> Vec<Vec<f32>> {
    let found = loss.backward();
    let mut collect = Collect(&found, Vec::new());
    model.visit(&mut collect);
    collect.1
}

fn assert_close(one: &[f32], other: &[f32], what: &str) {
    assert_eq!(one.len(), other.len(), "{what}");
    // Sums over many rows cancel, so differences are relative to the largest value.
    let size = other.iter().fold(1f32, |most, value| most.max(value.abs()));
    let differences = one
        .iter()
        .zip(other)
        .map(|(one, other)| (one - other).abs());
    // NaN has to stay NaN.
    let larger = |a: f32, b: f32| if b > a || b.is_nan() { b } else { a };
    let worst = differences.fold(0f32, larger) / size;
    assert!(worst < 2e-5, "{what}: {worst}");
}

/// Every structure of layers that runs on packed rows, with its name.
fn layouts() -> Vec<(String, Layout)> {
    let mut layouts = vec![
        ("bert".into(), Layout::Bert),
        (
            "albert".into(),
            Layout::Albert(AlbertLayout {
                groups: 2,
                layers_per_group: 2,
            }),
        ),
        ("mpnet".into(), Layout::Mpnet(MpnetLayout { buckets: 32 })),
    ];
    let terms = [[true, true], [true, false], [false, true], [false, false]];
    for [content_to_position, position_to_content] in terms {
        // All distances, a range that is clamped, buckets.
        for (buckets, longest) in [(0, 40), (0, 6), (8, 20)] {
            for shared_key in [true, false] {
                let convolution = DebertaConvolution {
                    kernel: 3,
                    groups: 2,
                    activation: Activation::Tanh,
                };
                let layout = DebertaLayout {
                    relative: longest != 40 || content_to_position,
                    content_to_position,
                    position_to_content,
                    buckets,
                    longest,
                    shared_key,
                    normalised: shared_key,
                    position_input: buckets == 0,
                    convolution: (longest == 20).then_some(convolution),
                };
                layouts.push((format!("{layout:?}"), Layout::Deberta(layout)));
            }
        }
    }
    layouts
}

/// The sizes of a transformer with another structure of layers.
fn with_layout(config: TransformerConfig, layout: &Layout) -> TransformerConfig {
    let layout = layout.clone();
    match layout {
        Layout::Mpnet(_) => TransformerConfig {
            family: EncoderFamily::Mpnet,
            positions: config.positions + 2,
            padding: 1,
            token_types: 0,
            layout,
            ..config
        },
        Layout::Deberta(_) => TransformerConfig {
            family: EncoderFamily::Deberta,
            layout,
            ..config
        },
        _ => TransformerConfig { layout, ..config },
    }
}

fn encoder(layers: LayerPooling, dropout: f64) -> (EncoderConfig, PieceBatch) {
    let words =
        |count: usize| Sentence::from_words((0..count).map(|i| format!("word{}", i * i % 11)));
    let sentences: Vec<Sentence> = [9, 1, 40, 5].into_iter().map(words).collect();
    let pieces = WordTokenizer::train(&sentences, 40, true).unwrap();
    let scratch = ScratchConfig {
        layers: 3,
        width: 24,
        heads: 3,
        feed_forward: 40,
        positions: 30,
        dropout,
        ..ScratchConfig::default()
    };
    let mut transformer = scratch.transformer(pieces.vocabulary_size());
    transformer.token_types = 2;
    let config = EncoderConfig {
        transformer,
        pooling: Pooling::Max,
        layers,
        overlap: 4,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    };
    let encoded = pieces.encode(&sentences);
    let rows: Vec<&EncodedSentence> = encoded.iter().collect();
    let batch = PieceBatch::new(&rows, &pieces, 28, 4);
    assert!(batch.rows.len() > 4 && batch.rows.padding_share() > 0.2);
    (config, batch)
}

#[test]
fn the_encoder_is_the_same_with_and_without_kernels() {
    let _guard = common::exclusive(); // the switch is global
    let device = Device::flex().autodiff();
    let mut cases: Vec<(String, Layout, Activation, usize)> = Vec::new();
    for (index, (name, layout)) in layouts().into_iter().enumerate() {
        cases.push((name.clone(), layout.clone(), Activation::Gelu, 24));
        if index % 3 == 0 {
            let name = format!("{name} with narrow embeddings");
            cases.push((name, layout, Activation::Gelu, 10));
        }
    }
    for activation in [Activation::GeluNew, Activation::Relu, Activation::Tanh] {
        cases.push((format!("{activation:?}"), Layout::Bert, activation, 24));
    }
    for (name, layout, activation, embedding_width) in cases {
        for (prompts, layers) in [(0, LayerPooling::Last), (2, LayerPooling::MeanOfLastFour)] {
            device.seed(3);
            let (mut config, batch) = encoder(layers, 0.0);
            config.transformer = with_layout(config.transformer, &layout);
            config.transformer.activation = activation;
            config.transformer.embedding_width = embedding_width;
            let model = config.init(&device);
            let model = model.map(&mut Disturb);
            let prompt = Param::from_tensor(Tensor::<2>::random(
                [prompts.max(1), embedding_width],
                Distribution::Normal(0.0, 1.0),
                &device,
            ));
            let run = |on: bool| {
                fused::set_enabled(on);
                let given = (prompts > 0).then(|| prompt.val());
                let states = model.forward_with(&batch, given);
                let mut values = floats(states.sentence.clone().inner());
                let mut sum = (states.sentence.sin()).sum();
                for (row, length) in states.lengths.iter().enumerate() {
                    // States of padding words differ.
                    let words = (states.words.clone()).slice([row..row + 1, 0..*length]);
                    values.extend(floats(words.clone().inner()));
                    sum = sum + (words * 1.3).sin().sum();
                }
                if let Some(prompts) = states.prompts {
                    values.extend(floats(prompts.clone().inner()));
                    sum = sum + prompts.powi_scalar(2).sum();
                }
                let found = gradients(&(model.clone(), prompt.clone()), sum);
                (values, found)
            };
            let (plain, plain_gradients) = run(false);
            let (fast, fast_gradients) = run(true);
            let what = format!("{name}, {prompts} prompts");
            assert_close(&fast, &plain, &format!("{what}: states"));
            assert_eq!(fast_gradients.len(), plain_gradients.len());
            for (index, pair) in fast_gradients.iter().zip(&plain_gradients).enumerate() {
                assert_close(pair.0, pair.1, &format!("{what}: gradient {index}"));
            }
            let valid = model.valid().forward(&batch);
            if prompts == 0 {
                let mut values = floats(valid.sentence);
                for (row, length) in valid.lengths.iter().enumerate() {
                    values.extend(floats(
                        valid.words.clone().slice([row..row + 1, 0..*length]),
                    ));
                }
                assert_close(&values, &plain, &format!("{what}: states without a graph"));
            }
        }
    }
}

/// A small ModernBERT with a window of 16 pieces.
fn modernbert(biases: bool) -> TransformerConfig {
    TransformerConfig {
        family: EncoderFamily::Modernbert,
        vocabulary: 50,
        embedding_width: 24,
        width: 24,
        layers: 4,
        heads: 3,
        feed_forward: 20,
        positions: 2000,
        token_types: 0,
        padding: 0,
        norm_epsilon: 1e-5,
        dropout: 0.0,
        attention_dropout: 0.0,
        activation: Activation::Gelu,
        layout: Layout::Modernbert(ModernbertLayout {
            global_theta: 1000.0,
            local_theta: 100.0,
            local_window: 16,
            is_global: vec![false, true, false, false],
            attention_bias: biases,
            feed_forward_bias: biases,
            norm_bias: biases,
            feed_forward_dropout: 0.0,
        }),
    }
}

/// Replaces all weights by larger ones, so that attention is not uniform.
struct Enlarge(f64);

impl ModuleMapper for Enlarge {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|tensor| {
            let noise = tensor.random_like(Distribution::Normal(0.0, self.0));
            Tensor::from_inner((tensor + noise).inner()).require_grad()
        })
    }
}

fn packed(lengths: &[usize]) -> PackedRows {
    let pieces: usize = lengths.iter().sum();
    PackedRows {
        ids: (0..pieces)
            .map(|piece| (piece * piece % 47) as u32)
            .collect(),
        lengths: lengths.to_vec(),
        padding_id: 3,
        least_width: 0,
    }
}

/// The states of all pieces and prompts, and a scalar of them.
fn states_and_scalar(
    model: &Transformer,
    rows: &PackedRows,
    prompt: Option<Tensor<2>>,
    average: usize,
) -> (Vec<f32>, Tensor<1>) {
    let prompts = prompt.as_ref().map_or(0, |prompt| prompt.dims()[0]);
    let states = model.forward(rows, prompt, average);
    // States of padding differ.
    let first_pieces = (0..rows.len()).flat_map(|row| {
        let states = &states;
        (0..prompts).map(move |number| states.prompt(row, number))
    });
    let indices = (0..rows.ids.len()).map(|piece| states.index(piece));
    let indices: Vec<i32> = indices
        .chain(first_pieces)
        .map(|index| index as i32)
        .collect();
    let indices = Tensor::<1, Int>::from_ints(indices.as_slice(), &model.device());
    let states = states.states.select(0, indices);
    let [count, width] = states.dims();
    let factors = Tensor::<1, Int>::arange(0..(count * width) as i64, &model.device());
    let factors = (factors.float() * 0.7).sin().reshape([count, width]);
    (floats(states.clone()), (states * factors).sum())
}

#[test]
fn modernbert_is_the_same_with_and_without_its_kernel() {
    let _guard = common::exclusive(); // the switch is global
    let device = Device::flex().autodiff();
    // Lengths, prompts, biases, number of layers averaged.
    type Case<'a> = (&'a [usize], usize, bool, usize);
    let cases: [Case; 6] = [
        (&[1], 0, false, 1),
        (&[2, 1, 15, 16, 5 * 16 + 3], 0, false, 4),
        (&[5 * 16 + 3, 16, 15, 2, 1], 3, true, 2),
        (&[30, 7], 2, false, 1),
        (&[17, 17], 0, true, 4),
        // More queries than a task of the thread pool has.
        (&[530, 3], 1, false, 1),
    ];
    for (lengths, prompts, biases, average) in cases {
        device.seed(8);
        let model = modernbert(biases).init(&device).map(&mut Enlarge(0.2));
        let shape = [prompts.max(1), 24];
        let prompt = Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let prompt = Param::from_tensor(prompt);
        let rows = packed(lengths);
        let run = |on: bool| {
            fused::set_enabled(on);
            let given = (prompts > 0).then(|| prompt.val());
            let (states, scalar) = states_and_scalar(&model, &rows, given, average);
            (states, gradients(&(model.clone(), prompt.clone()), scalar))
        };
        let (plain, plain_gradients) = run(false);
        let (fast, fast_gradients) = run(true);
        let what = format!("{lengths:?} {prompts} {biases}");
        assert_close(&fast, &plain, &what);
        assert_eq!(fast_gradients.len(), plain_gradients.len());
        for (index, pair) in fast_gradients.iter().zip(&plain_gradients).enumerate() {
            assert_close(pair.0, pair.1, &format!("{what}: gradient {index}"));
        }
        let given = (prompts > 0).then(|| prompt.val().inner());
        let (predicted, _) = states_and_scalar(&model.valid(), &rows, given, average);
        assert_close(&predicted, &plain, &format!("{what} without a graph"));
    }
}

#[test]
fn gradients_of_modernbert_with_dropout_are_those_of_its_output() {
    let _guard = common::exclusive(); // the switch and the random seed are global
    fused::set_enabled(true);
    let device = Device::flex().autodiff();
    device.seed(9);
    let mut config = modernbert(true);
    config.set_dropout(0.3);
    let model = config.init(&device).map(&mut Enlarge(0.2));
    let rows = packed(&[40, 1, 9]);
    let scalar = |prompt: Tensor<2>| {
        device.seed(10); // the same masks every time
        states_and_scalar(&model, &rows, Some(prompt), 1).1
    };
    let random = || Tensor::<2>::random([2, 24], Distribution::Normal(0.0, 1.0), &device);
    let (prompt, direction) = (random().require_grad(), random());
    let found = scalar(prompt.clone()).backward();
    let slope = floats((prompt.grad(&found).unwrap() * direction.clone().inner()).sum())[0];
    let step = 1e-2;
    let at = |factor: f32| {
        floats(scalar(prompt.clone() + direction.clone() * (factor * step)).inner())[0]
    };
    let expected = (at(1.0) - at(-1.0)) / (2.0 * step);
    let size = slope.abs().max(expected.abs());
    assert!((slope - expected).abs() < 0.02 * size, "{slope} {expected}");
    assert!(size > 1e-2);
}

#[test]
fn the_bilstm_is_the_same_with_and_without_its_kernel() {
    let _guard = common::exclusive(); // the switch is global
    let device = Device::flex().autodiff();
    for lengths in [vec![19, 1, 7, 0, 19], vec![3], vec![1, 1], vec![0]] {
        device.seed(5);
        let (steps, width, hidden) = (20, 10, 6);
        let layer = BiLstm::new(width, hidden, &device);
        let shape = [lengths.len(), steps, width];
        let input = Tensor::<3>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        let input = Param::from_tensor(input);
        let run = |on: bool| {
            fused::set_enabled(on);
            let output = layer.forward(input.val(), &lengths);
            let weights = Tensor::<1, Int>::arange(0..2 * hidden as i64, &device).float();
            let loss = (output.clone() * weights.sin().unsqueeze()).sin().sum();
            let found = gradients(&(layer.clone(), input.clone()), loss);
            (floats(output.inner()), found)
        };
        let (plain, plain_gradients) = run(false);
        let (fast, fast_gradients) = run(true);
        assert_close(&fast, &plain, "states");
        assert_eq!(fast_gradients.len(), 4);
        for (index, pair) in fast_gradients.iter().zip(&plain_gradients).enumerate() {
            assert_close(pair.0, pair.1, &format!("{lengths:?}: gradient {index}"));
        }
    }
}

#[test]
fn the_convolution_is_the_same_with_and_without_its_kernel() {
    let _guard = common::exclusive(); // the random seed is global
    let device = Device::flex().autodiff();
    // Channels, depthwise, planes, words, dilation, sentence lengths.
    type Case<'a> = (usize, bool, usize, usize, [usize; 3], Option<&'a [usize]>);
    let cases: [Case; 10] = [
        (11, false, 3, 10, [2, 2, 2], Some(&[10, 6])),
        (10, false, 5, 9, [1, 1, 1], Some(&[9, 4])),
        (10, false, 7, 33, [3, 3, 3], None),
        (10, true, 4, 12, [2, 2, 2], Some(&[12, 0, 7])),
        (14, false, 2, 5, [2, 2, 2], Some(&[3])),
        (7, false, 1, 6, [1, 2, 2], None),
        (6, false, 3, 8, [1, 3, 2], Some(&[8, 1])),
        (4, false, 3, 1, [1, 1, 1], None),
        (2, false, 6, 40, [1, 1, 1], None),
        (3, true, 1, 2, [3, 3, 3], Some(&[1, 2])),
    ];
    for (channels, depthwise, planes, words, dilation, lengths) in cases {
        device.seed(6);
        let random = |shape: [usize; 5]| -> Tensor<5> {
            Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device)
        };
        let batch = lengths.map_or(2, <[usize]>::len);
        let grid = Param::from_tensor(random([batch, channels, planes, words, words]));
        let inputs = if depthwise { 1 } else { channels };
        let weight = Param::from_tensor(random([channels, inputs, 3, 3, 3]) * 0.1);
        let bias = Tensor::random([channels], Distribution::Normal(0.0, 1.0), &device);
        let bias: Param<Tensor<1>> = Param::from_tensor(bias);
        let found = |output: Tensor<5>| {
            let loss = (output.clone() * 1.3).sin().sum();
            let model = (grid.clone(), (weight.clone(), bias.clone()));
            (floats(output.inner()), gradients(&model, loss))
        };
        let real: Vec<f32> = (0..batch)
            .flat_map(|index| {
                let length = lengths.map_or(words, |lengths| lengths[index]);
                let inside = move |cell: usize| (cell / words).max(cell % words) < length;
                (0..words * words).map(move |cell| f32::from(u8::from(inside(cell))))
            })
            .collect();
        let real = Tensor::<1>::from_floats(real.as_slice(), &device);
        let real = real.reshape([batch, 1, 1, words, words]);
        let options = ConvOptions::new(
            [1; 3],
            dilation,
            dilation,
            if depthwise { channels } else { 1 },
        );
        let plain = conv3d(grid.val() * real, weight.val(), Some(bias.val()), options);
        let (plain, plain_gradients) = found(gelu(plain));
        let kernel = Conv3dGelu {
            channels,
            depthwise,
            planes,
            words,
            dilation,
            lengths: lengths.map(|lengths| Arc::new(lengths.to_vec())),
        };
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                let kernel = kernel.clone();
                found(kernel.forward(grid.val(), weight.val(), bias.val()))
            })
        };
        let (fast, fast_gradients) = run(1);
        assert!(
            (fast.clone(), fast_gradients.clone()) == run(3),
            "threads change nothing"
        );
        let what = format!("{kernel:?}");
        assert_close(&fast, &plain, &what);
        assert_eq!(fast_gradients.len(), 3);
        for (index, pair) in fast_gradients.iter().zip(&plain_gradients).enumerate() {
            assert_close(pair.0, pair.1, &format!("{what}: gradient {index}"));
        }
        let [grid, weight] = [&grid, &weight].map(|tensor| tensor.val().inner());
        let inference = floats(kernel.forward(grid, weight, bias.val().inner()));
        assert_close(&inference, &plain, &format!("{what} without a graph"));
    }
}

#[test]
fn threads_change_no_bit() {
    let _guard = common::exclusive(); // the switch is global
    fused::set_enabled(true);
    let run = |threads: usize, layout: &Layout| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let device = Device::flex().autodiff();
            device.seed(3);
            let (mut config, batch) = encoder(LayerPooling::Last, 0.3);
            config.transformer = with_layout(config.transformer, layout);
            let model = config.init(&device);
            device.seed(4);
            let states = model.forward(&batch);
            let values = floats(states.words.clone().inner());
            let found = gradients(&model, states.words.sin().sum());
            let mut config = modernbert(true);
            config.set_dropout(0.3);
            let model = config.init(&device).map(&mut Enlarge(0.3));
            device.seed(5);
            let rows = packed(&[1100, 1, 70]);
            let (states, scalar) = states_and_scalar(&model, &rows, None, 2);
            (values, found, states, gradients(&model, scalar))
        })
    };
    for (name, layout) in layouts() {
        let one = run(1, &layout);
        for threads in [2, 4] {
            assert!(one == run(threads, &layout), "{name}: {threads} threads");
        }
    }
}

#[test]
fn fifty_steps_have_the_same_losses() {
    let _guard = common::exclusive(); // the switch is global
    let folder = tempfile::tempdir().unwrap();
    let run = |on: bool| {
        fused::set_enabled(on);
        let sets = [
            "head.preset=released",
            "head.lstm_width=32",
            "head.lstm_dropout=0.0",
            "head.biaffine_width=16",
            "head.biaffine_dropout=0.0",
            "head.convolution_dropout=0.0",
        ];
        let out = folder.path().join(if on { "kernels" } else { "plain" });
        let recipe = common::fifty_step_recipe("bopn", &sets);
        let options = common::train_options(recipe, &out, &Device::flex());
        losses(&(registry::find("bopn").unwrap().train)(&options).unwrap())
    };
    let (plain, fast) = (run(false), run(true));
    assert_eq!(plain.len(), 50);
    assert!(plain[49] < 0.5 * plain[0], "{plain:?}");
    for (step, (plain, fast)) in plain.iter().zip(&fast).enumerate() {
        assert!((plain - fast).abs() < 1e-4, "step {step}: {plain} {fast}");
    }
}
