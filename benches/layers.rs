//! Benchmarks of the layers that dominate a training step, as fused kernels and as Burn operations: `cargo bench -p nerzoo-benches`.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::activation::gelu;
use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Distribution, Tensor};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use nerzoo::encoder::WordStates;
use nerzoo::encoder::batching::PackedRows;
use nerzoo::encoder::transformer::{
    Activation, EncoderFamily, Layout, ModernbertLayout, Transformer, TransformerConfig,
};
use nerzoo::heads::seq_ner::{Config, Decoder, Gold, SeqNer};
use nerzoo::heads::{Head, Preset, Settings};
use nerzoo::nn::bilstm::BiLstm;
use nerzoo::nn::{fused, rows};
use nerzoo::recipe::TrainConfig;
use nerzoo::text::Labels;
use nerzoo::train::optimizer::optimizer;
use nerzoo::train::schedule::scheduler;

const BATCH: usize = 16;
const WORDS: usize = 32;
const WIDTH: usize = 384;

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn states(device: &Device) -> WordStates {
    device.seed(1);
    WordStates {
        prompts: None,
        words: random([BATCH, WORDS, WIDTH], device),
        sentence: Tensor::zeros([BATCH, WIDTH], device),
        lengths: (0..BATCH).map(|row| WORDS - row % 5).collect(),
    }
}

/// Times a function with fused kernels and with Burn operations, each with and without its backward pass.
fn bench_both(criterion: &mut Criterion, name: &str, mut run: impl FnMut(&Device) -> Tensor<1>) {
    for (kind, on) in [("kernel", true), ("plain", false)] {
        fused::set_enabled(on);
        let device = Device::flex();
        criterion.bench_function(&format!("{name}, {kind}, forward"), |bencher| {
            bencher.iter(|| run(&device).into_data());
        });
        let device = device.autodiff();
        criterion.bench_function(&format!("{name}, {kind}, with gradient"), |bencher| {
            bencher.iter(|| run(&device).backward());
        });
    }
    fused::set_enabled(true);
}

/// Embeddings and one transformer layer of the size of a MiniLM.
fn transformer(criterion: &mut Criterion) {
    let config = TransformerConfig {
        family: EncoderFamily::Bert,
        vocabulary: 3000,
        embedding_width: WIDTH,
        width: WIDTH,
        layers: 1,
        heads: 12,
        feed_forward: 4 * WIDTH,
        positions: 128,
        token_types: 2,
        padding: 0,
        norm_epsilon: 1e-12,
        dropout: 0.1,
        attention_dropout: 0.1,
        activation: Activation::Gelu,
        layout: Layout::Bert,
    };
    let trained = config.init(&Device::flex().autodiff());
    let plain = trained.valid();
    let lengths: Vec<usize> = (0..BATCH).map(|row| WORDS - row % 9).collect();
    let total: usize = lengths.iter().sum();
    let rows = PackedRows {
        ids: (0..total).map(|i| (i * i % 3000) as u32).collect(),
        lengths,
        padding_id: 0,
        least_width: 0,
    };
    bench_both(criterion, "transformer layer", |device| {
        let model: &Transformer = if device.is_autodiff() {
            &trained
        } else {
            &plain
        };
        model.forward(&rows, None, 1).states.sum()
    });
}

/// Embeddings and one layer of the size of ModernBERT-base, over sentences and over a long row.
fn modernbert(criterion: &mut Criterion) {
    for (is_global, name) in [(true, "global"), (false, "local")] {
        let config = TransformerConfig {
            family: EncoderFamily::Modernbert,
            vocabulary: 3000,
            embedding_width: 768,
            width: 768,
            layers: 1,
            heads: 12,
            feed_forward: 1152,
            positions: 8192,
            token_types: 0,
            padding: 0,
            norm_epsilon: 1e-5,
            dropout: 0.0,
            attention_dropout: 0.0,
            activation: Activation::Gelu,
            layout: Layout::Modernbert(ModernbertLayout {
                global_theta: 160_000.0,
                local_theta: 10_000.0,
                local_window: 128,
                is_global: vec![is_global],
                attention_bias: false,
                feed_forward_bias: false,
                norm_bias: false,
                feed_forward_dropout: 0.0,
            }),
        };
        let trained = config.init(&Device::flex().autodiff());
        let plain = trained.valid();
        let sentences: Vec<usize> = (0..BATCH).map(|row| WORDS - row % 9).collect();
        for lengths in [sentences, vec![2048]] {
            let total: usize = lengths.iter().sum();
            let name = format!("{name} ModernBERT layer, {} x {total}", lengths.len());
            let rows = PackedRows {
                ids: (0..total).map(|i| (i * i % 3000) as u32).collect(),
                lengths,
                padding_id: 0,
                least_width: 0,
            };
            bench_both(criterion, &name, |device| {
                let model: &Transformer = if device.is_autodiff() {
                    &trained
                } else {
                    &plain
                };
                model.forward(&rows, None, 1).states.sum()
            });
        }
    }
}

/// The size used by three of the papers: 384 to 2 · 256.
fn bilstm(criterion: &mut Criterion) {
    let lengths = [WORDS; 8];
    let device = Device::flex().autodiff();
    let trained = BiLstm::new(WIDTH, 256, &device);
    let plain = trained.valid();
    let input = random([8, WORDS, WIDTH], &device);
    bench_both(criterion, "BiLSTM", |device| {
        if device.is_autodiff() {
            trained.forward(input.clone(), &lengths).sum()
        } else {
            plain.forward(input.clone().inner(), &lengths).sum()
        }
    });
}

/// The convolution of BOPN: 10 channels, kernel size 3, dilated within planes.
fn convolution(criterion: &mut Criterion) {
    let flex = Device::flex();
    let grid = random([8, 10, 5, WORDS, WORDS], &flex);
    let kernel = random([10, 10, 3, 3, 3], &flex) * 0.1;
    let bias = random([10], &flex);
    for dilation in [1, 2] {
        let dilations = [1, dilation, dilation];
        let name = format!("3-D convolution and GELU, dilation {dilation}");
        bench_both(criterion, &name, |device| {
            let [grid, kernel] = if device.is_autodiff() {
                [&grid, &kernel].map(|t| Tensor::from_inner(t.clone()).require_grad())
            } else {
                [grid.clone(), kernel.clone()]
            };
            let bias = if device.is_autodiff() {
                Tensor::from_inner(bias.clone()).require_grad()
            } else {
                bias.clone()
            };
            if !fused::runs_on(device) {
                let options = ConvOptions::new([1; 3], dilations, dilations, 1);
                return gelu(conv3d(grid, kernel, Some(bias), options)).sum();
            }
            let layer = fused::conv3d::Conv3dGelu {
                channels: 10,
                depthwise: false,
                planes: 5,
                words: WORDS,
                dilation: dilations,
                lengths: None,
            };
            layer.forward(grid, kernel, bias).sum()
        });
    }
}

/// One optimizer step with gradient clipping over as many parameters as a small transformer has.
fn adamw(criterion: &mut Criterion) {
    let train = TrainConfig::default();
    let device = Device::flex().autodiff();
    let model = BiLstm::new(1024, 1024, &device);
    let input = random([2, 4, 1024], &device);
    let (mut optimizer, scale) = optimizer(&train);
    criterion.bench_function("AdamW, 16.8 million parameters", |bencher| {
        bencher.iter_batched(
            || {
                let loss = model.forward(input.clone(), &[4, 4]).sum();
                let gradients = loss.clone().backward();
                let gradients = GradientsParams::from_grads(gradients, &model);
                (model.clone(), gradients, loss.inner())
            },
            |(model, gradients, loss)| {
                scale.set_from_norm(&model, &gradients, vec![loss], 1.0, 1.0);
                let rates = scheduler(&train, 10, &[]).step();
                optimizer.step(rates, model, gradients)
            },
            BatchSize::PerIteration,
        );
    });
}

/// Row selection (embedding look-up) and its backward pass.
fn row_selection(criterion: &mut Criterion) {
    let table = random([30_000, WIDTH], &Device::flex());
    let indices: Vec<usize> = (0..BATCH * WORDS).map(|i| i * i % 30_000).collect();
    bench_both(criterion, "row selection", |device| {
        let table = if device.is_autodiff() {
            Tensor::from_inner(table.clone()).require_grad()
        } else {
            table.clone()
        };
        rows::select_rows(table, indices.clone()).sum()
    });
}

/// Loss with its backward pass, and decoding, of the sequence tagger with each decoder.
fn tagger(criterion: &mut Criterion) {
    let labels = Labels::new(["A", "B", "C", "D", "E", "F"]);
    for (name, decoder) in [("softmax", Decoder::Softmax), ("crf", Decoder::Crf)] {
        let config = Config {
            decoder,
            ..Config::of(Preset::Paper)
        };
        let device = Device::flex().autodiff();
        let head = SeqNer::init(&config, WIDTH, &labels, &device);
        let input = states(&device);
        let gold = Gold {
            tags: input
                .lengths
                .iter()
                .map(|length| vec![0; *length])
                .collect(),
            padded_from: None,
        };
        criterion.bench_function(&format!("seq_ner {name} loss and gradient"), |bencher| {
            bencher.iter(|| head.loss(&input, &gold).total.backward());
        });
        let plain = Device::flex();
        let head = SeqNer::init(&config, WIDTH, &labels, &plain);
        let input = states(&plain);
        criterion.bench_function(&format!("seq_ner {name} decode"), |bencher| {
            bencher.iter(|| head.decode(&input));
        });
    }
}

criterion_group!(
    benches,
    transformer,
    modernbert,
    bilstm,
    convolution,
    row_selection,
    adamw,
    tagger
);
criterion_main!(benches);
