//! Maxima over spans of words without a [spans, words, width] tensor.
//!
//! A sparse table holds, for each power of two, the maxima of all windows of that many words. Any span is covered
//! by two such windows, so its maximum takes two look-ups: O(words · log ε · width) for the table and
//! O(spans · width) for the spans.

use burn::tensor::Tensor;

use super::rows::select_rows;

/// A span of words of a sentence in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSpan {
    /// The sentence.
    pub sentence: usize,
    /// First word.
    pub start: usize,
    /// One past the last word.
    pub end: usize,
}

impl BatchSpan {
    /// Number of words.
    pub fn words(&self) -> usize {
        self.end - self.start
    }
}

/// All spans of at most `longest` words of sentences of these lengths: sentence by sentence, short ones first, as
/// the papers list them.
pub fn all_spans(lengths: &[usize], longest: usize) -> Vec<BatchSpan> {
    let mut spans = Vec::new();
    for (sentence, length) in lengths.iter().enumerate() {
        for words in 1..=longest.min(*length) {
            for start in 0..=length - words {
                spans.push(BatchSpan {
                    sentence,
                    start,
                    end: start + words,
                });
            }
        }
    }
    spans
}

/// Maximum of the word states of each span: [spans, width]. `words` is [batch, words, width].
pub fn max_pool(words: Tensor<3>, spans: &[BatchSpan]) -> Tensor<2> {
    let longest = spans.iter().map(BatchSpan::words).max().unwrap_or(1);
    Maxima::new(words, longest).of(spans)
}

/// The sparse table of a batch, for spans that are asked for in several rounds.
#[derive(Debug, Clone)]
pub struct Maxima {
    /// Level after level: [(levels + 1) · batch · words, width].
    table: Tensor<2>,
    batch: usize,
    words: usize,
}

impl Maxima {
    /// The table for spans of at most `longest` words. `words` is [batch, words, width].
    pub fn new(words: Tensor<3>, longest: usize) -> Self {
        let [batch, count, width] = words.dims();
        let levels = longest.max(1).ilog2() as usize;
        // Level k at place i: the maximum of words i .. i + 2^k (past the end: of what there is).
        let mut level = words;
        let mut table = vec![level.clone()];
        for power in 0..levels {
            let step = 1 << power;
            if step >= count {
                table.push(level.clone());
                continue;
            }
            let shifted = level.clone().narrow(1, step, count - step);
            let head = level.clone().narrow(1, 0, count - step).max_pair(shifted);
            let tail = level.narrow(1, count - step, step);
            level = Tensor::cat(vec![head, tail], 1);
            table.push(level.clone());
        }
        Self {
            table: Tensor::cat(table, 0).reshape([batch * count * (levels + 1), width]),
            batch,
            words: count,
        }
    }

    /// Maximum of each span: [spans, width].
    pub fn of(&self, spans: &[BatchSpan]) -> Tensor<2> {
        let level = self.batch * self.words;
        let place = |span: &BatchSpan, from_end: bool| {
            let power = span.words().ilog2() as usize;
            let start = if from_end {
                span.end - (1 << power)
            } else {
                span.start
            };
            power * level + span.sentence * self.words + start
        };
        let left: Vec<usize> = spans.iter().map(|span| place(span, false)).collect();
        let right: Vec<usize> = spans.iter().map(|span| place(span, true)).collect();
        if left == right {
            return select_rows(self.table.clone(), left);
        }
        select_rows(self.table.clone(), left).max_pair(select_rows(self.table.clone(), right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::host::floats;
    use burn::tensor::{Device, Distribution};

    #[test]
    fn pooling_is_the_maximum_of_every_span() {
        for device in crate::device::cpu_devices() {
            device.seed(3);
            let words = Tensor::<3>::random([3, 9, 4], Distribution::Normal(0.0, 1.0), &device);
            let values = floats(words.clone());
            for longest in 1..=9 {
                let spans = all_spans(&[9, 1, 6], longest);
                let found = floats(max_pool(words.clone(), &spans));
                for (index, span) in spans.iter().enumerate() {
                    for column in 0..4 {
                        let expected = (span.start..span.end)
                            .map(|word| values[(span.sentence * 9 + word) * 4 + column])
                            .fold(f32::MIN, f32::max);
                        assert_eq!(found[index * 4 + column], expected);
                    }
                }
            }
        }
    }

    #[test]
    fn the_gradient_goes_to_the_winner_once() {
        let device = Device::flex().autodiff();
        let words = Tensor::<3>::from_floats([[[1.0], [5.0], [2.0]]], &device).require_grad();
        let span = BatchSpan {
            sentence: 0,
            start: 0,
            end: 3,
        };
        let gradients = max_pool(words.clone(), &[span]).sum().backward();
        assert_eq!(floats(words.grad(&gradients).unwrap()), [0.0, 1.0, 0.0]);
    }
}
