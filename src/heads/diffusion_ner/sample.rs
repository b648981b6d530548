//! Denoising from pure noise: the backward process of prediction.

use burn::tensor::Tensor;

use super::network::{Denoised, DiffusionNer, Encoded};
use super::process::{Noise, Pair};
use crate::nn::host::integers;

/// Where normal numbers come from: for a sentence of the batch, a list of pairs, one a span.
pub trait Source {
    /// The next list of so many pairs for a sentence.
    fn draw(&mut self, sentence: usize, spans: usize) -> Vec<Pair>;
}

/// One stream of noise a sentence. It depends on the seed and on the sentence's length, never on the batch.
#[derive(Debug)]
pub struct Seeded(Vec<Noise>);

impl Seeded {
    /// Streams for sentences of these lengths.
    pub fn new(seed: u64, lengths: &[usize]) -> Self {
        let stream = |length: &usize| Noise::stream(seed, *length as u64);
        Self(lengths.iter().map(stream).collect())
    }
}

impl Source for Seeded {
    fn draw(&mut self, sentence: usize, spans: usize) -> Vec<Pair> {
        self.0[sentence].pairs(spans)
    }
}

/// How a batch was denoised.
#[derive(Debug, Clone)]
pub struct Trajectory {
    /// The spans' signals before each step: by step, sentence and span.
    pub signals: Vec<Vec<Vec<Pair>>>,
    /// What the network said in the last step.
    pub last: Denoised,
    /// First and last word of each span in the last step, by sentence and span.
    pub words: Vec<Vec<[usize; 2]>>,
}

/// Equations (5) to (7) over γ steps. The spans live on the host, where they are a few numbers; a step takes the most
/// probable boundaries from the device and nothing else.
pub fn sample(head: &DiffusionNer, encoded: &Encoded, source: &mut impl Source) -> Trajectory {
    let config = &head.config;
    let batch = encoded.lengths.len();
    let mut draw = || -> Vec<Vec<Pair>> {
        (0..batch)
            .map(|sentence| source.draw(sentence, config.spans))
            .collect()
    };
    let mut now = draw();
    let mut signals = Vec::with_capacity(config.steps);
    for (time, next) in head.schedule.times(config.steps) {
        let shares: Vec<Vec<Pair>> = now
            .iter()
            .map(|spans| spans.iter().map(|s| head.geometry.shares(*s)).collect())
            .collect();
        let shares: Vec<&[Pair]> = shares.iter().map(Vec::as_slice).collect();
        let last = head.denoise(encoded, &shares, &vec![time; batch]);
        let words = most_probable(&last);
        signals.push(now.clone());
        let Some(next) = next else {
            return Trajectory {
                signals,
                last,
                words,
            };
        };
        let fresh = if config.eta > 0.0 {
            draw()
        } else {
            vec![vec![[0.0; 2]; config.spans]; batch]
        };
        for (sentence, spans) in now.iter_mut().enumerate() {
            let length = encoded.lengths[sentence];
            for (index, span) in spans.iter_mut().enumerate() {
                let [left, right] = words[sentence][index];
                let predicted = head.geometry.of_prediction(length, left, right);
                let fresh = fresh[sentence][index];
                *span = (head.schedule).denoised(*span, predicted, (time, next), config.eta, fresh);
            }
        }
    }
    unreachable!("the last step leads to no other")
}

/// The most probable first and last word of each span.
fn most_probable(denoised: &Denoised) -> Vec<Vec<[usize; 2]>> {
    let [_, spans, _] = denoised.left.dims();
    let both = [&denoised.left, &denoised.right].map(|scores| scores.clone().argmax(2));
    let both = integers(Tensor::cat(both.to_vec(), 2)); // [batch, spans, 2]
    let rows: Vec<[usize; 2]> = both
        .chunks_exact(2)
        .map(|pair| [pair[0] as usize, pair[1] as usize])
        .collect();
    rows.chunks_exact(spans).map(<[_]>::to_vec).collect()
}
