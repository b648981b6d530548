//! Distinct spans of a denoising step.
//!
//! The network sees the words of a noisy span only, and after the first steps most of the K spans of a sentence cover the same
//! words. Each distinct span is computed once; in self-attention it has the weight of all its copies, so the result is the same.

use std::collections::HashMap;

use burn::tensor::{Device, Tensor, TensorData};

use super::network::{Denoised, DiffusionNer, EncodedWords};
use super::process::Pair;
use crate::nn::mask::MASKED;
use crate::nn::rows::index_tensor;

/// The distinct spans of each sentence of a batch, padded to the same number.
#[derive(Debug)]
pub struct DistinctSpans {
    /// One of the equal spans for each, as fractions of the sentence, by sentence. Padding repeats the first.
    pub spans: Vec<Vec<Pair>>,
    /// Logarithms of the numbers of copies, to be added to the scores of self-attention: [batch, 1, 1, spans].
    pub bias: Option<Tensor<4>>,
    /// Which of the distinct spans each of the original spans is, by sentence.
    index: Vec<Vec<usize>>,
}

impl DistinctSpans {
    /// The distinct ones of spans given as fractions of their sentences. A network with vectors for the index of a span in the
    /// list tells copies apart: then all are distinct.
    pub fn of(head: &DiffusionNer, encoded: &EncodedWords, spans: Vec<Vec<Pair>>) -> Self {
        let identity = |spans: Vec<Vec<Pair>>| Self {
            index: (spans.iter()).map(|s| (0..s.len()).collect()).collect(),
            spans,
            bias: None,
        };
        if head.slots.is_some() {
            return identity(spans);
        }
        let (mut distinct, mut index, mut copies) = (Vec::new(), Vec::new(), Vec::new());
        for (spans, length) in spans.iter().zip(&encoded.lengths) {
            let mut seen = HashMap::with_capacity(spans.len());
            let (mut first, mut count) = (Vec::new(), Vec::new());
            let places: Vec<usize> = spans
                .iter()
                .map(|span| {
                    let words = head.geometry.words(*span, *length);
                    let place = *seen.entry(words).or_insert_with(|| {
                        first.push(*span);
                        count.push(0f32);
                        first.len() - 1
                    });
                    count[place] += 1.0;
                    place
                })
                .collect();
            distinct.push(first);
            copies.push(count);
            index.push(places);
        }
        let most = distinct.iter().map(Vec::len).max().unwrap_or(0);
        if spans.iter().all(|spans| spans.len() == most) {
            return identity(spans);
        }
        let mut bias = Vec::with_capacity(distinct.len() * most);
        for (spans, copies) in distinct.iter_mut().zip(&copies) {
            bias.extend(copies.iter().map(|count| count.ln()));
            bias.extend((copies.len()..most).map(|_| MASKED));
            let padding = spans[0];
            spans.resize(most, padding);
        }
        let shape = [distinct.len(), 1, 1, most];
        let device: Device = encoded.words.device();
        Self {
            spans: distinct,
            bias: Some(Tensor::from_data(TensorData::new(bias, shape), &device)),
            index,
        }
    }

    /// Values of the distinct spans, by sentence, as values of all spans.
    pub fn expand<T: Copy>(&self, values: &[Vec<T>]) -> Vec<Vec<T>> {
        let of_sentence = |(values, index): (&Vec<T>, &Vec<usize>)| {
            index.iter().map(|place| values[*place]).collect()
        };
        values.iter().zip(&self.index).map(of_sentence).collect()
    }

    /// Predictions for the distinct spans as predictions for all spans.
    pub fn expand_predictions(&self, denoised: Denoised) -> Denoised {
        if self.bias.is_none() {
            return denoised;
        }
        let [batch, distinct, _] = denoised.types.dims();
        let rows: Vec<usize> = (self.index.iter().enumerate())
            .flat_map(|(sentence, index)| {
                index.iter().map(move |place| sentence * distinct + place)
            })
            .collect();
        let count = rows.len() / batch.max(1);
        let rows = index_tensor(&rows, &denoised.types.device());
        let expand = |tensor: Tensor<3>| {
            let [_, _, width] = tensor.dims();
            let tensor = tensor.reshape([batch * distinct, width]);
            let rows = tensor.select(0, rows.clone());
            rows.reshape([batch, count, width])
        };
        Denoised {
            left: expand(denoised.left),
            right: expand(denoised.right),
            types: expand(denoised.types),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::super::config::Config;
    use super::*;
    use crate::encoder::WordStates;
    use crate::heads::settings::{Preset, Settings};
    use crate::nn::host::floats;
    use crate::text::Labels;

    #[test]
    fn copies_have_the_weight_of_all_spans() {
        let device = Device::flex();
        device.seed(3);
        let config = Config {
            locality: true,
            spans: 6,
            heads: 2,
            feed_forward: 12,
            ..Config::of(Preset::Paper)
        };
        let labels = Labels::new(["A", "B"]);
        let head = DiffusionNer::new(&config, 8, &labels, &device);
        assert!(head.slots.is_none());
        let normal = Distribution::Normal(0.0, 1.0);
        let encoded = head.encode(&WordStates {
            words: Tensor::random([2, 5, 8], normal, &device),
            sentence: Tensor::random([2, 8], normal, &device),
            prompts: None,
            lengths: vec![5, 3],
        });
        let spans: Vec<Vec<Pair>> = vec![
            vec![
                [0.0, 0.4],
                [0.2, 0.2],
                [0.0, 0.41],
                [0.8, 0.8],
                [0.2, 0.2],
                [0.2, 0.2],
            ],
            vec![[0.3, 0.3]; 6],
        ];
        let given: Vec<&[Pair]> = spans.iter().map(Vec::as_slice).collect();
        let plain = head.denoise(&encoded, &given, &[7, 7]);

        let distinct = DistinctSpans::of(&head, &encoded, spans.clone());
        assert_eq!(
            distinct.spans.iter().map(Vec::len).collect::<Vec<_>>(),
            [3, 3]
        );
        let few: Vec<&[Pair]> = distinct.spans.iter().map(Vec::as_slice).collect();
        let states = head.span_states(&encoded, &few, distinct.bias.as_ref(), &[7, 7]);
        let [left, right] = head.boundaries(&encoded, &few, states.clone());
        let types = head.classifier.forward(states);
        let expanded = distinct.expand_predictions(Denoised { left, right, types });
        let pairs = [
            (plain.left, expanded.left),
            (plain.right, expanded.right),
            (plain.types, expanded.types),
        ];
        for (one, other) in pairs {
            assert_eq!(one.dims(), other.dims());
            for (one, other) in floats(one).iter().zip(floats(other)) {
                assert!(
                    (one - other).abs() <= 1e-5 * one.abs().max(1.0),
                    "{one} {other}"
                );
            }
        }
        assert_eq!(
            distinct.expand(&[vec![0, 1, 2], vec![3, 4, 5]]),
            [[0, 1, 0, 2, 1, 1], [3; 6]]
        );
    }
}
