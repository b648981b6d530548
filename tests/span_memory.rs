//! Scoring all spans of a sentence takes memory proportional to words × longest span, not to the square of the words.

#[path = "common/counting.rs"]
mod counting;

use burn::tensor::{Device, Distribution, Tensor};
use nerzoo::encoder::WordStates;
use nerzoo::heads::span_ner::{Config, SpanNer};
use nerzoo::heads::{Head, Preset, Settings};
use nerzoo::text::Labels;

/// The peak of allocated bytes while one sentence of `words` words is decoded.
fn peak(words: usize, longest: usize) -> usize {
    let device = Device::flex();
    device.seed(1);
    let labels = Labels::new(["protein", "DNA", "RNA", "cell_line", "cell_type"]);
    let config = Config {
        longest,
        ..Config::of(Preset::Paper)
    };
    let head = SpanNer::init(&config, 384, &labels, &device);
    let states = WordStates {
        prompts: None,
        words: Tensor::random([1, words, 384], Distribution::Normal(0.0, 1.0), &device),
        sentence: Tensor::zeros([1, 384], &device),
        lengths: vec![words],
    };
    head.decode(&states); // allocates what is kept between calls
    counting::peak(|| head.decode(&states))
}

#[test]
fn memory_is_linear_in_words_times_longest() {
    println!("words  longest      bytes  bytes per word and length");
    for words in [16, 32, 64, 128, 256, 512] {
        for longest in [5, 10, 20] {
            let bytes = peak(words, longest);
            let share = bytes as f64 / (words * longest) as f64;
            println!("{words:5} {longest:8} {bytes:10} {share:10.0}");
        }
    }
    // Eight times the words may take eight times the memory (a square would take 64 times), and so with lengths.
    for longest in [5, 10, 20] {
        let (short, long) = (peak(64, longest), peak(512, longest));
        assert!(
            long < short * 8 * 13 / 10,
            "longest {longest}: {short} bytes grow to {long}"
        );
    }
    let (few, many) = (peak(512, 5), peak(512, 20));
    assert!(many < few * 4 * 13 / 10, "{few} bytes grow to {many}");
}
