//! Cross-entropy over the cells of a batch.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};

use super::config::Config;
use super::convolution::cell_mask;
use super::network::Bopn;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::mask::has_padding;

/// Smaller values of `out_weight` count as this one where its logarithm is taken.
const LEAST_OUT_WEIGHT: f64 = 1e-6;

/// Equation (7): the mean over all real cells of the batch, of every type and on both sides of the diagonal. With a
/// `joint_weight`, also the mean over all spans of the cross-entropy of none and the types.
pub fn loss(head: &Bopn, states: &WordStates, gold: &Gold) -> Losses {
    let types = head.labels.len();
    let cells = |length: &usize| types * length * length;
    let count: usize = states.lengths.iter().map(cells).sum();
    let spans = |length: &usize| length * (length + 1) / 2;
    let span_count: usize = states.lengths.iter().map(spans).sum();
    let plane = gold.words * gold.words;
    let mut first = 0;
    let (mut offsets, mut joint) = (Vec::new(), Vec::new());
    for part in head.encode(states).parts() {
        let next = first + part.lengths.len();
        let logits = head.logits(&part);
        if let Some(classes) = &gold.classes {
            let classes = &classes[first * plane..next * plane];
            joint.push(over_spans(head, logits.clone(), classes, &part.lengths));
        }
        let labels = &gold.labels[first * types * plane..next * types * plane];
        offsets.push(over_cells(logits, labels, &part.lengths, &head.config));
        first = next;
    }
    let sum = |parts: Vec<Tensor<1>>| parts.into_iter().reduce(|sum, part| sum + part);
    let offsets = sum(offsets).expect("a batch has a part") / count.max(1) as f32;
    match sum(joint) {
        None => Losses::single("offsets", offsets),
        Some(joint) => {
            let joint = joint / span_count.max(1) as f32;
            Losses {
                total: offsets.clone() + joint.clone() * head.config.joint_weight,
                terms: vec![("offsets", offsets), ("types", joint)],
            }
        }
    }
}

/// Cross-entropy of none and the types, summed over the spans. `gold` is [batch, words, words].
///
/// Cells out of range weigh `out_weight` in the other loss, so their scores are too low by its logarithm. Here all spans weigh
/// the same, and that logarithm is added back: both losses then have the same optimum, and `none_bias = -ln(out_weight)` makes
/// up for it in prediction.
fn over_spans(head: &Bopn, logits: Tensor<5>, gold: &[i32], lengths: &[usize]) -> Tensor<1> {
    let [batch, _, _, words, _] = logits.dims();
    let device = logits.device();
    let mut is_span = vec![0f32; gold.len()];
    for (sentence, length) in lengths.iter().enumerate() {
        for start in 0..*length {
            let row = (sentence * words + start) * words;
            is_span[row + start..row + length].fill(1.0);
        }
    }
    let shape = [batch, 1, words * words];
    let is_span = Tensor::<3>::from_data(TensorData::new(is_span, shape), &device);
    let gold = Tensor::<1, Int>::from_ints(gold, &device).reshape(shape);
    let none_score = -head.config.out_weight.max(LEAST_OUT_WEIGHT).ln();
    let log_probabilities = log_softmax(head.joint_scores(logits, none_score), 1);
    (log_probabilities.gather(1, gold) * is_span).sum().neg()
}

/// Cross-entropy, summed over real cells. `logits` are [batch, labels, types, words, words], `gold` is
/// [batch, types, words, words]. With smoothing ε the target distribution is (1 − ε) · gold + ε / labels.
fn over_cells(logits: Tensor<5>, gold: &[i32], lengths: &[usize], config: &Config) -> Tensor<1> {
    let smoothing = config.smoothing;
    let [batch, labels, types, words, _] = logits.dims();
    let device = logits.device();
    let cells = batch * types * words * words;
    let rows = logits.permute([0, 2, 3, 4, 1]).reshape([cells, labels]);
    let log_probabilities = log_softmax(rows, 1);
    // Weights of the cells, unless all are 1.
    let weights = (config.out_weight != 1.0).then(|| {
        let weight = |label: &i32| {
            if *label == 0 {
                config.out_weight as f32
            } else {
                1.0
            }
        };
        let weights: Vec<f32> = gold.iter().map(weight).collect();
        Tensor::<2>::from_data(TensorData::new(weights, [cells, 1]), &device)
    });
    let gold = Tensor::<1, Int>::from_ints(gold, &device).reshape([cells, 1]);
    let mut losses = log_probabilities.clone().gather(1, gold);
    if smoothing > 0.0 {
        losses = losses * (1.0 - smoothing) + log_probabilities.mean_dim(1) * smoothing;
    }
    if let Some(weights) = weights {
        losses = losses * weights;
    }
    let losses: Tensor<5> = losses.reshape([batch, 1, types, words, words]);
    let losses = if has_padding(lengths, words) {
        losses * cell_mask(lengths, words, &device)
    } else {
        losses
    };
    losses.sum().neg()
}
