//! The hot layers of a training step, each alone: `cargo bench`.

use burn::tensor::{Device, Distribution, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use nerzoo::encoder::WordStates;
use nerzoo::heads::Head;
use nerzoo::heads::seq_ner::{Config, Decoder, Gold, SeqNer};
use nerzoo::text::Labels;

const BATCH: usize = 16;
const WORDS: usize = 32;
const WIDTH: usize = 384;

fn states(device: &Device) -> WordStates {
    device.seed(1);
    WordStates {
        prompts: None,
        words: Tensor::random(
            [BATCH, WORDS, WIDTH],
            Distribution::Normal(0.0, 1.0),
            device,
        ),
        sentence: Tensor::zeros([BATCH, WIDTH], device),
        lengths: (0..BATCH).map(|row| WORDS - row % 5).collect(),
    }
}

/// Loss with its gradient, and decoding, of the tagger with each decoder.
fn tagger(criterion: &mut Criterion) {
    let labels = Labels::new(["A", "B", "C", "D", "E", "F"]);
    for (name, decoder) in [("softmax", Decoder::Softmax), ("crf", Decoder::Crf)] {
        let config = Config {
            decoder,
            ..Config::default()
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

criterion_group!(benches, tagger);
criterion_main!(benches);
