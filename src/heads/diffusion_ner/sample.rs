//! Denoising from pure noise: the backward process in prediction.

use burn::tensor::Tensor;

use super::config::Start;
use super::distinct::DistinctSpans;
use super::network::{Denoised, DiffusionNer, EncodedWords};
use super::process::{Noise, Pair, SPREAD_PART, spread};
use crate::nn::host::integers;

/// A source of normally distributed values: for a sentence of the batch, one pair per span.
pub trait NoiseSource {
    /// The next pairs for a sentence, one per span.
    fn draw(&mut self, sentence: usize, spans: usize) -> Vec<Pair>;
}

/// One noise generator per sentence, which depends on the seed and on the length of the sentence, never on the batch.
#[derive(Debug)]
pub struct SeededNoise(Vec<Noise>);

impl SeededNoise {
    /// Generators for sentences of these lengths.
    pub fn new(seed: u64, lengths: &[usize]) -> Self {
        let stream = |length: &usize| Noise::stream(seed, *length as u64);
        Self(lengths.iter().map(stream).collect())
    }
}

impl NoiseSource for SeededNoise {
    fn draw(&mut self, sentence: usize, spans: usize) -> Vec<Pair> {
        self.0[sentence].pairs(spans)
    }
}

/// The denoising trajectory of a batch.
#[derive(Debug, Clone)]
pub struct Trajectory {
    /// The signals of the spans before each step, by step, sentence and span.
    pub signals: Vec<Vec<Vec<Pair>>>,
    /// The predictions of the network in the last step.
    pub last: Denoised,
    /// The first and last word of each span in the last step, by sentence and span.
    pub words: Vec<Vec<[usize; 2]>>,
}

/// Equations (5) to (7) over γ steps. The spans are kept on the host; each step reads only the most probable boundaries
/// from the device.
pub fn sample(
    head: &DiffusionNer,
    encoded: &EncodedWords,
    source: &mut impl NoiseSource,
) -> Trajectory {
    let config = &head.config;
    let batch = encoded.lengths.len();
    let mut draw = || -> Vec<Vec<Pair>> {
        (0..batch)
            .map(|sentence| source.draw(sentence, config.spans))
            .collect()
    };
    let (mut now, part) = match config.start {
        Start::Noise => (draw(), 1),
        Start::Spread => {
            let signals = |length: &usize| {
                let spans = spread(*length, config.spans).into_iter();
                let signal =
                    |[left, right]: [usize; 2]| head.geometry.of_prediction(*length, left, right);
                spans.map(signal).collect()
            };
            (encoded.lengths.iter().map(signals).collect(), SPREAD_PART)
        }
    };
    let mut signals = Vec::with_capacity(config.steps);
    for (time, next) in head.schedule.timesteps(config.steps) {
        let (time, next) = (time / part, next.map(|next| next / part));
        let fractions: Vec<Vec<Pair>> = now
            .iter()
            .map(|spans| spans.iter().map(|s| head.geometry.fractions(*s)).collect())
            .collect();
        let distinct = DistinctSpans::of(head, encoded, fractions);
        let spans: Vec<&[Pair]> = distinct.spans.iter().map(Vec::as_slice).collect();
        let times = vec![time; batch];
        let states = head.span_states(encoded, &spans, distinct.bias.as_ref(), &times);
        let [left, right] = head.boundaries(encoded, &spans, states.clone());
        let words = distinct.expand(&most_probable([&left, &right]));
        signals.push(now.clone());
        let Some(next) = next else {
            let last = Denoised {
                left,
                right,
                types: head.classifier.forward(states),
            };
            return Trajectory {
                signals,
                last: distinct.expand_predictions(last),
                words,
            };
        };
        let new_noise = if config.eta > 0.0 {
            draw()
        } else {
            vec![vec![[0.0; 2]; config.spans]; batch]
        };
        for (sentence, spans) in now.iter_mut().enumerate() {
            let length = encoded.lengths[sentence];
            for (index, span) in spans.iter_mut().enumerate() {
                let [left, right] = words[sentence][index];
                let predicted = head.geometry.of_prediction(length, left, right);
                let new_noise = new_noise[sentence][index];
                *span =
                    (head.schedule).denoised(*span, predicted, (time, next), config.eta, new_noise);
            }
        }
    }
    unreachable!("the last step leads to no other")
}

/// The most probable first and last word of each span.
pub(super) fn most_probable(boundaries: [&Tensor<3>; 2]) -> Vec<Vec<[usize; 2]>> {
    let [_, spans, _] = boundaries[0].dims();
    let both = boundaries.map(|scores| scores.clone().argmax(2));
    let both = integers(Tensor::cat(both.to_vec(), 2)); // [batch, spans, 2]
    let rows: Vec<[usize; 2]> = both
        .chunks_exact(2)
        .map(|pair| [pair[0] as usize, pair[1] as usize])
        .collect();
    rows.chunks_exact(spans).map(<[_]>::to_vec).collect()
}
