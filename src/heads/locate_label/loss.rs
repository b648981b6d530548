//! Filter, offsets, overlap, classes: the four terms of the loss.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};

use super::config::{Averaging, ClassifierLoss, Config, Weighting};
use super::network::{LocateLabel, View};
use super::seeds::iou;
use super::target::{Gold, Sample};
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::host;
use crate::nn::spans::BatchSpan;
use crate::text::Span;

/// Equation (17) and its terms.
pub fn loss(head: &LocateLabel, states: &WordStates, gold: &Gold) -> Losses {
    let config = &head.config;
    let rows = Rows::new(gold, config.weighting == Weighting::Batch);
    if rows.samples.is_empty() {
        return Losses::single("classes", states.words.clone().sum() * 0.0);
    }
    let view = View::new(states);
    let mut terms = Vec::new();
    let mut weights = Vec::new();
    if let Some(verdicts) = head.verdicts(&view, &rows.spans) {
        terms.push(("filter", rows.filter(config, verdicts)));
        weights.push(config.filter_weight);
    }
    let offsets = head.offsets(&view, &rows.spans);
    let moved = rows.moved(head, &view, offsets.as_ref());
    if let Some(offsets) = offsets {
        let (smooth, overlap) = rows.regression(config, offsets, &moved);
        terms.extend([("offsets", smooth), ("overlap", overlap)]);
        weights.extend([config.regressor_weight; 2]);
    }
    let spans: Vec<BatchSpan> = moved.iter().map(|(span, _)| *span).collect();
    let classes = head.classes(&view, &spans);
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

/// The examples of a batch; where padding counts, behind them an empty row for each sentence that has fewer than the
/// largest.
struct Rows<'a> {
    samples: &'a [Sample],
    spans: Vec<BatchSpan>,
    /// How often each row counts in a sum over all rows.
    counts: Vec<f32>,
}

impl<'a> Rows<'a> {
    fn new(gold: &'a Gold, with_padding: bool) -> Self {
        let mut rows = Self {
            samples: &gold.samples,
            spans: gold.samples.iter().map(|sample| sample.span).collect(),
            counts: vec![1.0; gold.samples.len()],
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
        rows
    }

    /// Every span where the regressor puts it, and whether it may be a proposal.
    fn moved(
        &self,
        head: &LocateLabel,
        view: &View,
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
            .map(|(span, pair)| head.moved(*span, *pair, view.lengths[span.sentence]))
            .collect()
    }

    /// Equation (12).
    fn filter(&self, config: &Config, verdicts: Tensor<2>) -> Tensor<1> {
        let gold = self.padded(
            self.samples.iter().map(|sample| i32::from(sample.positive)),
            0,
        );
        let weights: Vec<f32> = self.samples.iter().map(|sample| sample.weight).collect();
        let real = vec![true; self.samples.len()];
        let losses = focal(verdicts, &gold, config.gamma);
        self.weighed(config, losses, &weights, &real)
    }

    /// Equation (16): a moved span has its entity's type when it is close enough to it, and none otherwise.
    fn classes(
        &self,
        config: &Config,
        scores: Tensor<2>,
        moved: &[(BatchSpan, bool)],
    ) -> Tensor<1> {
        let (mut gold, mut weights, mut legal) = (Vec::new(), Vec::new(), Vec::new());
        for (sample, (span, may_be)) in self.samples.iter().zip(moved) {
            let span = Span::new(span.start, span.end);
            let share = sample.pair.map_or(0.0, |pair| iou(span, pair.span));
            let class = sample.pair.map_or(0, |pair| pair.class);
            let close = share >= config.match_iou;
            gold.push(if close && *may_be { class } else { 0 });
            let weight = if close { share } else { 1.0 - share };
            weights.push(weight.powf(config.eta) as f32);
            legal.push(*may_be);
        }
        let gold = self.padded(gold.into_iter(), 0);
        let losses = match config.classifier_loss {
            ClassifierLoss::CrossEntropy => focal(scores, &gold, 0.0),
            ClassifierLoss::Focal => focal(scores, &gold, config.gamma),
        };
        self.weighed(config, losses, &weights, &legal)
    }

    /// Losses of all rows to one number. `weights` are those of the examples, `counted` says which of them count.
    fn weighed(
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
            // What [rows, 1] losses times [rows] weights make when they are spread over each other.
            Weighting::Batch => {
                let sum = (losses * vector(self.counts.clone(), &device)).sum();
                sum * (weights.iter().sum::<f32>() / number.max(1) as f32)
            }
        }
    }

    /// Equations (14) and (15), over the positive examples.
    fn regression(
        &self,
        config: &Config,
        offsets: Tensor<2>,
        moved: &[(BatchSpan, bool)],
    ) -> (Tensor<1>, Tensor<1>) {
        let device = offsets.device();
        let rows = self.spans.len();
        // A row that does not count compares itself with one word: its hull is never empty.
        let mut targets = [0.0, 1.0].repeat(rows);
        let mut seeds = vec![0.0; 2 * rows];
        let mut weights = vec![0.0; rows];
        let mut counted = vec![0.0; rows];
        let mut number = 0;
        for (row, (sample, (_, legal))) in self.samples.iter().zip(moved).enumerate() {
            let Some(pair) = sample.pair.filter(|_| sample.positive && *legal) else {
                continue;
            };
            let own = [sample.span.start, sample.span.end].map(|word| word as f32);
            let gold = [pair.span.start, pair.span.end].map(|word| word as f32);
            for side in 0..2 {
                seeds[2 * row + side] = own[side];
                targets[2 * row + side] = gold[side] - own[side];
            }
            number += 1;
            counted[row] = 1.0;
            weights[row] = if config.weigh_offsets {
                sample.weight
            } else {
                1.0
            };
        }
        let divisor = self.divisor(config, number);
        let pairs = |values: Vec<f32>| vector(values, &device).reshape([rows, 2]);
        let (targets, seeds) = (pairs(targets), pairs(seeds));
        let smooth = smooth_l1(offsets.clone() - targets.clone()).sum_dim(1);
        let smooth = smooth.reshape([rows]) * vector(weights, &device);
        let overlap = apart(seeds.clone() + offsets, seeds + targets);
        let overlap = overlap * vector(counted, &device);
        (smooth.sum() / divisor, overlap.sum() / divisor)
    }

    fn divisor(&self, config: &Config, number: usize) -> f32 {
        let number = match config.averaging {
            Averaging::Samples => self.samples.len(),
            Averaging::Terms => number,
            Averaging::Sum => 1,
        };
        number.max(1) as f32
    }

    /// Values of the examples with another for each row of padding.
    fn padded<T: Copy>(&self, values: impl Iterator<Item = T>, padding: T) -> Vec<T> {
        let more = self.spans.len() - self.samples.len();
        values.chain(std::iter::repeat_n(padding, more)).collect()
    }
}

fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    Tensor::from_floats(values.as_slice(), device)
}

/// −(1 − p)^γ log p of the gold class's probability p; with γ = 0 the cross-entropy: [rows].
fn focal(scores: Tensor<2>, gold: &[i32], gamma: f64) -> Tensor<1> {
    let rows = gold.len();
    let gold = Tensor::<1, Int>::from_ints(gold, &scores.device());
    let logarithms = log_softmax(scores, 1)
        .gather(1, gold.unsqueeze_dim(1))
        .reshape([rows]);
    if gamma == 0.0 {
        return logarithms.neg();
    }
    let rest = logarithms.clone().exp().neg() + 1.0;
    let factor = match gamma {
        2.0 => rest.clone() * rest,
        // Rounding may put p above 1 by a hair, where a power has no value.
        _ => rest.clamp_min(1e-12).powf_scalar(gamma),
    };
    (factor * logarithms).neg()
}

/// x² / 2 up to 1, and from there on a line.
fn smooth_l1(difference: Tensor<2>) -> Tensor<2> {
    let size = difference.abs();
    let ones = size.ones_like();
    let below = size.clone().min_pair(ones);
    below.clone() * below.clone() * 0.5 + size - below
}

/// 1 − shared / hull of spans with unrounded boundaries and of others with at least a word, each [rows, 2]: [rows]. What
/// is shared by spans that lie apart is negative.
fn apart(one: Tensor<2>, other: Tensor<2>) -> Tensor<1> {
    let rows = one.dims()[0];
    let side = |span: &Tensor<2>, index: usize| span.clone().narrow(1, index, 1).reshape([rows]);
    let (start, end) = (side(&one, 0), side(&one, 1));
    let (other_start, other_end) = (side(&other, 0), side(&other, 1));
    let shared =
        end.clone().min_pair(other_end.clone()) - start.clone().max_pair(other_start.clone());
    let hull = end.max_pair(other_end) - start.min_pair(other_start);
    (shared / hull).neg() + 1.0
}
