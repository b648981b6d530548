//! A second classifier, for the spans between predicted boundaries.
//!
//! In the paper the type comes from the vector of the *noisy* span, which has to carry both where the entity is and what
//! it is. Here the words between the predicted boundaries decide: from the encoder's states of the first and last word
//! and their maximum, a linear layer predicts a type, or none if the span is not exactly an entity. It is trained on the
//! gold entities and on the spans that the network predicts, so it learns to reject the network's own errors.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};

use super::config::Reduction;
use super::decode::SpanCandidate;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::encoder::shapes::next_size;
use crate::nn::fused;
use crate::nn::host::{argmax, floats};
use crate::nn::loss::{cross_entropy, padded_cross_entropy};
use crate::nn::rows::select_rows;
use crate::nn::spans::{BatchSpan, max_pool};

/// Classifies spans by their own words.
#[derive(Module, Debug)]
pub struct Rescorer {
    /// From the first word, the last word and the maximum of a span to class scores; class 0 is none.
    pub classifier: Linear,
    dropout: Dropout,
}

impl Rescorer {
    pub(super) fn new(width: usize, classes: usize, dropout: f64, device: &Device) -> Self {
        Self {
            classifier: LinearConfig::new(3 * width, classes).init(device),
            dropout: DropoutConfig::new(dropout).init(),
        }
    }

    /// Class scores: [spans, classes].
    fn scores(&self, states: &WordStates, spans: &[BatchSpan]) -> Tensor<2> {
        let [batch, words, width] = states.words.dims();
        let all = states.words.clone().reshape([batch * words, width]);
        let row = |span: &BatchSpan, word: usize| span.sentence * words + word;
        let first = spans.iter().map(|span| row(span, span.start)).collect();
        let last = spans.iter().map(|span| row(span, span.end - 1)).collect();
        let features = vec![
            select_rows(all.clone(), first),
            select_rows(all, last),
            max_pool(states.words.clone(), spans),
        ];
        self.classifier
            .forward(self.dropout.forward(Tensor::cat(features, 1)))
    }

    /// Cross-entropy over the gold entities and the predicted spans of each sentence, given by first and last word.
    pub fn loss(
        &self,
        states: &WordStates,
        gold: &Gold,
        predicted: &[Vec<[usize; 2]>],
        reduction: Reduction,
    ) -> Tensor<1> {
        let (mut spans, mut classes) = (Vec::new(), Vec::new());
        for (sentence, (target, predicted)) in gold.0.iter().zip(predicted).enumerate() {
            let length = states.lengths[sentence];
            for ([left, right], class) in examples(target, predicted, length) {
                spans.push(BatchSpan {
                    sentence,
                    start: left,
                    end: right + 1,
                });
                classes.push(class);
            }
        }
        if spans.is_empty() {
            return states.words.clone().sum() * 0.0;
        }
        let mean = if fused::runs_on(&states.words.device()) {
            cross_entropy(self.scores(states, &spans), &classes)
        } else {
            // Padded, so that shapes do not depend on the spans.
            let [batch, words, _] = states.words.dims();
            let usual = gold.0.first().map_or(0, |target| target.spans.len());
            let padding = BatchSpan {
                sentence: 0,
                start: 0,
                end: words,
            };
            spans.resize(next_size(spans.len(), batch * usual), padding);
            padded_cross_entropy(self.scores(states, &spans), &classes)
        };
        match reduction {
            Reduction::Mean => mean,
            Reduction::Sum => mean * (classes.len() as f32 / gold.sentences().max(1) as f32),
        }
    }

    /// Replaces types and their probabilities by those of the spans' own words.
    pub fn rescore(&self, states: &WordStates, all: &mut [Vec<SpanCandidate>]) {
        let mut spans: Vec<BatchSpan> = Vec::new();
        let mut rows: BTreeMap<(usize, usize, usize), usize> = BTreeMap::new();
        for (sentence, candidates) in all.iter().enumerate() {
            for candidate in candidates {
                let key = (sentence, candidate.left, candidate.right);
                rows.entry(key).or_insert_with(|| {
                    spans.push(BatchSpan {
                        sentence,
                        start: candidate.left,
                        end: candidate.right + 1,
                    });
                    spans.len() - 1
                });
            }
        }
        if spans.is_empty() {
            return;
        }
        let scores = self.scores(states, &spans);
        let [_, classes] = scores.dims();
        let probabilities = floats(softmax(scores, 1));
        for (sentence, candidates) in all.iter_mut().enumerate() {
            for candidate in candidates {
                let row = rows[&(sentence, candidate.left, candidate.right)];
                let row = &probabilities[row * classes..(row + 1) * classes];
                candidate.class = 1 + argmax(&row[1..]);
                candidate.type_probability = row[candidate.class];
                candidate.none_probability = row[0];
            }
        }
    }
}

/// The spans to learn from and their classes: the entities, and predicted spans, which have the class of the entity they
/// equal or none.
fn examples(
    target: &super::target::SentenceTarget,
    predicted: &[[usize; 2]],
    length: usize,
) -> BTreeMap<[usize; 2], i32> {
    let mut examples = BTreeMap::new();
    for entity in &target.entities {
        let class = examples
            .entry([entity.left, entity.right])
            .or_insert(entity.class as i32);
        *class = (*class).min(entity.class as i32);
    }
    for [left, right] in predicted {
        if left <= right && *right < length {
            examples.entry([*left, *right]).or_insert(0);
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::super::target::{GoldEntity, SentenceTarget};
    use super::*;

    #[test]
    fn entities_and_predicted_spans_are_examples_once() {
        let entity = |left, right, class| GoldEntity { left, right, class };
        let target = SentenceTarget {
            timestep: 0,
            spans: Vec::new(),
            entities: vec![entity(1, 2, 2), entity(0, 2, 1), entity(1, 2, 2)],
        };
        let predicted = [[1, 2], [3, 3], [4, 3], [3, 3], [2, 9]];
        let found: Vec<_> = examples(&target, &predicted, 5).into_iter().collect();
        assert_eq!(found, [([0, 2], 1), ([1, 2], 2), ([3, 3], 0)]);
    }
}
