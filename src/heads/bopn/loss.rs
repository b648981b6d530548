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

/// Equation (7): the mean over all real cells of the batch, of every type and on both sides of the diagonal.
pub fn loss(head: &Bopn, states: &WordStates, gold: &Gold) -> Losses {
    let types = head.labels.len();
    let count: usize = (states.lengths.iter())
        .map(|length| types * length * length)
        .sum();
    let plane = types * gold.words * gold.words;
    let mut first = 0;
    let mut sum: Option<Tensor<1>> = None;
    for part in head.encode(states).parts() {
        let next = first + part.lengths.len();
        let labels = &gold.labels[first * plane..next * plane];
        let losses = over_cells(head.logits(&part), labels, &part.lengths, &head.config);
        sum = Some(match sum {
            Some(sum) => sum + losses,
            None => losses,
        });
        first = next;
    }
    let sum = sum.expect("a batch has a part");
    Losses::single("offsets", sum / count.max(1) as f32)
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
