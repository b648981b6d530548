//! The four terms of the loss: filter, offsets, overlap and classes.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};

use super::config::{Averaging, ClassifierLoss, Config, Weighting};
use super::network::{LocateLabel, SpanContext};
use super::seeds::iou;
use super::target::{Example, Gold};
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::host;
use crate::nn::spans::BatchSpan;
use crate::text::Span;

/// Equation (17): the weighted sum of four terms.
pub fn loss(head: &LocateLabel, states: &WordStates, gold: &Gold) -> Losses {
    let config = &head.config;
    let rows = ExampleRows::new(gold, config.weighting == Weighting::Batch);
    if rows.examples.is_empty() {
        return Losses::single("classes", states.words.clone().sum() * 0.0);
    }
    let context = SpanContext::new(states);
    let mut terms = Vec::new();
    let mut weights = Vec::new();
    if let Some(logits) = head.filter_logits(&context, &rows.spans) {
        terms.push(("filter", rows.filter(config, logits)));
        weights.push(config.filter_weight);
    }
    let offsets = head.offsets(&context, &rows.spans);
    let moved = rows.moved(head, &context, offsets.as_ref());
    if let Some(offsets) = offsets {
        let (smooth, overlap) = rows.regression(config, offsets, &moved);
        terms.extend([("offsets", smooth), ("overlap", overlap)]);
        weights.extend([config.regressor_weight; 2]);
    }
    let spans: Vec<BatchSpan> = moved.iter().map(|(span, _)| *span).collect();
    let classes = head.classes(&context, &spans);
    terms.push(("classes", rows.classes(config, classes, &moved)));
    weights.push(config.classifier_weight);
    let total = terms
        .iter()
        .zip(weights)
        .map(|((_, term), weight)| term.clone() * weight)
        .reduce(|sum, term| sum + term)
        .expect("the classifier is always there");
    Losses { total, terms }
}

/// The examples of a batch. If padding counts, they are followed by an empty row for each sentence that has fewer examples
/// than the sentence with most. In a batch that is padded to a shape, rows that do not count follow.
struct ExampleRows<'a> {
    examples: &'a [Example],
    spans: Vec<BatchSpan>,
    /// The multiplicity of each row in a sum over all rows.
    counts: Vec<f32>,
}

impl<'a> ExampleRows<'a> {
    fn new(gold: &'a Gold, with_padding: bool) -> Self {
        let mut rows = Self {
            examples: &gold.examples,
            spans: gold.examples.iter().map(|example| example.span).collect(),
            counts: vec![1.0; gold.examples.len()],
        };
        for (sentence, count) in gold.padding.iter().copied().enumerate() {
            if with_padding && count > 0 {
                rows.spans.push(BatchSpan {
                    sentence,
                    start: 0,
                    end: 0,
                });
                rows.counts.push(count as f32);
            }
        }
        if let Some(size) = gold.rows {
            let padding = BatchSpan {
                sentence: 0,
                start: 0,
                end: 0,
            };
            rows.spans.resize(size.max(rows.spans.len()), padding);
            rows.counts.resize(rows.spans.len(), 0.0);
        }
        rows
    }

    /// Every span as moved by the regressor, and whether it is legal.
    fn moved(
        &self,
        head: &LocateLabel,
        context: &SpanContext,
        offsets: Option<&Tensor<2>>,
    ) -> Vec<(BatchSpan, bool)> {
        let Some(offsets) = offsets else {
            return self.spans.iter().map(|span| (*span, true)).collect();
        };
        let offsets = host::floats(offsets.clone().detach());
        let (pairs, _) = offsets.as_chunks::<2>();
        self.spans
            .iter()
            .zip(pairs)
            .map(|(span, pair)| head.moved(*span, *pair, context.lengths[span.sentence]))
            .collect()
    }

    /// The filter loss, equation (12).
    fn filter(&self, config: &Config, logits: Tensor<2>) -> Tensor<1> {
        let gold = self.padded(
            self.examples
                .iter()
                .map(|example| i32::from(example.positive)),
            0,
        );
        let weights: Vec<f32> = self.examples.iter().map(|example| example.weight).collect();
        let real = vec![true; self.examples.len()];
        let losses = focal(logits, &gold, config.gamma);
        self.weighted(config, losses, &weights, &real)
    }

    /// The classifier loss, equation (16): the class of a moved span is its entity's type if it is close enough, otherwise
    /// none.
    fn classes(
        &self,
        config: &Config,
        scores: Tensor<2>,
        moved: &[(BatchSpan, bool)],
    ) -> Tensor<1> {
        let (mut gold, mut weights, mut legal) = (Vec::new(), Vec::new(), Vec::new());
        for (example, (span, is_legal)) in self.examples.iter().zip(moved) {
            let span = Span::new(span.start, span.end);
            let overlap = example.pair.map_or(0.0, |pair| iou(span, pair.span));
            let class = example.pair.map_or(0, |pair| pair.class);
            let close = overlap >= config.match_iou;
            gold.push(if close && *is_legal { class } else { 0 });
            let weight = if close { overlap } else { 1.0 - overlap };
            weights.push(weight.powf(config.eta) as f32);
            legal.push(*is_legal);
        }
        let gold = self.padded(gold.into_iter(), 0);
        let losses = match config.classifier_loss {
            ClassifierLoss::CrossEntropy => focal(scores, &gold, 0.0),
            ClassifierLoss::Focal => focal(scores, &gold, config.gamma),
        };
        self.weighted(config, losses, &weights, &legal)
    }

    /// Reduces the losses of all rows to one value. `weights` are the weights of the examples; only the `counted` ones
    /// contribute.
    fn weighted(
        &self,
        config: &Config,
        losses: Tensor<1>,
        weights: &[f32],
        counted: &[bool],
    ) -> Tensor<1> {
        let device = losses.device();
        let pairs = weights.iter().zip(counted);
        let weights: Vec<f32> = pairs
            .map(|(weight, counted)| if *counted { *weight } else { 0.0 })
            .collect();
        let number = counted.iter().filter(|counted| **counted).count();
        match config.weighting {
            Weighting::Sample => {
                let sum = (losses * vector(self.padded(weights.into_iter(), 0.0), &device)).sum();
                sum / self.divisor(config, number)
            }
            // As if losses [rows, 1] and weights [rows] were broadcast against each other.
            Weighting::Batch => {
                let sum = (losses * vector(self.counts.clone(), &device)).sum();
                sum * (weights.iter().sum::<f32>() / number.max(1) as f32)
            }
        }
    }

    /// Offset and overlap loss, equations (14) and (15), over the positive examples.
    fn regression(
        &self,
        config: &Config,
        offsets: Tensor<2>,
        moved: &[(BatchSpan, bool)],
    ) -> (Tensor<1>, Tensor<1>) {
        let device = offsets.device();
        let rows = self.spans.len();
        // A row that does not count is compared with a span of one word, so that its hull is never empty.
        let mut targets = [0.0, 1.0].repeat(rows);
        let mut seeds = vec![0.0; 2 * rows];
        let mut weights = vec![0.0; rows];
        let mut counted = vec![0.0; rows];
        let mut number = 0;
        for (row, (example, (_, legal))) in self.examples.iter().zip(moved).enumerate() {
            let Some(pair) = example.pair.filter(|_| example.positive && *legal) else {
                continue;
            };
            let own = [example.span.start, example.span.end].map(|word| word as f32);
            let gold = [pair.span.start, pair.span.end].map(|word| word as f32);
            for side in 0..2 {
                seeds[2 * row + side] = own[side];
                targets[2 * row + side] = gold[side] - own[side];
            }
            number += 1;
            counted[row] = 1.0;
            weights[row] = if config.weigh_offsets {
                example.weight
            } else {
                1.0
            };
        }
        let divisor = self.divisor(config, number);
        let pairs = |values: Vec<f32>| vector(values, &device).reshape([rows, 2]);
        let (targets, seeds) = (pairs(targets), pairs(seeds));
        let smooth = smooth_l1(offsets.clone() - targets.clone()).sum_dim(1);
        let smooth = smooth.reshape([rows]) * vector(weights, &device);
        let overlap = overlap_loss(seeds.clone() + offsets, seeds + targets);
        let overlap = overlap * vector(counted, &device);
        (smooth.sum() / divisor, overlap.sum() / divisor)
    }

    fn divisor(&self, config: &Config, number: usize) -> f32 {
        let number = match config.averaging {
            Averaging::Samples => self.examples.len(),
            Averaging::Terms => number,
            Averaging::Sum => 1,
        };
        number.max(1) as f32
    }

    /// Values of the examples, followed by `padding` for each padding row.
    fn padded<T: Copy>(&self, values: impl Iterator<Item = T>, padding: T) -> Vec<T> {
        let more = self.spans.len() - self.examples.len();
        values.chain(std::iter::repeat_n(padding, more)).collect()
    }
}

fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    Tensor::from_floats(values.as_slice(), device)
}

/// Focal loss −(1 − p)^γ log p with p the probability of the gold class; with γ = 0 the cross-entropy: [rows].
fn focal(scores: Tensor<2>, gold: &[i32], gamma: f64) -> Tensor<1> {
    let rows = gold.len();
    let gold = Tensor::<1, Int>::from_ints(gold, &scores.device());
    let log_probabilities = log_softmax(scores, 1)
        .gather(1, gold.unsqueeze_dim(1))
        .reshape([rows]);
    if gamma == 0.0 {
        return log_probabilities.neg();
    }
    let rest = log_probabilities.clone().exp().neg() + 1.0;
    let factor = match gamma {
        2.0 => rest.clone() * rest,
        // By rounding p may slightly exceed 1, where the power is NaN.
        _ => rest.clamp_min(1e-12).powf_scalar(gamma),
    };
    (factor * log_probabilities).neg()
}

/// Smooth L1: x² / 2 for |x| ≤ 1, otherwise |x| − ½. Burn's `SmoothL1Loss` rounds differently in the last bit.
fn smooth_l1(difference: Tensor<2>) -> Tensor<2> {
    let size = difference.abs();
    let ones = size.ones_like();
    let below = size.clone().min_pair(ones);
    below.clone() * below.clone() * 0.5 + size - below
}

/// 1 − intersection / hull of two lists of spans, each [rows, 2], with unrounded boundaries: [rows]. The intersection of
/// disjoint spans is negative.
fn overlap_loss(one: Tensor<2>, other: Tensor<2>) -> Tensor<1> {
    let rows = one.dims()[0];
    let side = |span: &Tensor<2>, index: usize| span.clone().narrow(1, index, 1).reshape([rows]);
    let (start, end) = (side(&one, 0), side(&one, 1));
    let (other_start, other_end) = (side(&other, 0), side(&other, 1));
    let intersection =
        end.clone().min_pair(other_end.clone()) - start.clone().max_pair(other_start.clone());
    let hull = end.max_pair(other_end) - start.min_pair(other_start);
    (intersection / hull).neg() + 1.0
}
