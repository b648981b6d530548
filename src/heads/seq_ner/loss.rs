//! The two losses of SeqNER.

use burn::tensor::Tensor;

use super::network::SeqNer;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::loss::{cross_entropy, weighted_cross_entropy};
use crate::nn::rows::select_rows;

/// Cross-entropy, mean over words; or negative log-likelihood of the CRF, mean over sentences.
pub fn loss(head: &SeqNer, states: &WordStates, gold: &Gold) -> Losses {
    let emissions = head.emissions(states);
    match (&head.crf, gold.padded_from) {
        (None, None) => Losses::single("tags", over_words(emissions, &gold.tags)),
        (None, Some(_)) => Losses::single("tags", over_padded_words(emissions, &gold.tags)),
        (Some(crf), Some(sentences)) => {
            let likelihood = crf.padded_log_likelihood(emissions, &states.lengths, &gold.tags);
            Losses::single("tags", likelihood.sum().neg() / sentences.max(1) as f32)
        }
        (Some(crf), None) => {
            let likelihood = crf.log_likelihood(emissions, &states.lengths, &gold.tags);
            Losses::single("tags", likelihood.mean().neg())
        }
    }
}

/// Cross-entropy, mean over all words of the batch without padding.
fn over_words(emissions: Tensor<3>, tags: &[Vec<i32>]) -> Tensor<1> {
    let [batch, words, tag_count] = emissions.dims();
    let rows: Vec<usize> = tags
        .iter()
        .enumerate()
        .flat_map(|(sentence, tags)| (0..tags.len()).map(move |word| sentence * words + word))
        .collect();
    let scores = select_rows(emissions.reshape([batch * words, tag_count]), rows);
    cross_entropy(scores, &tags.concat())
}

/// The same with a weight of 0 for padding, so that no shape depends on the number of words.
fn over_padded_words(emissions: Tensor<3>, tags: &[Vec<i32>]) -> Tensor<1> {
    let [batch, words, tag_count] = emissions.dims();
    let count: usize = tags.iter().map(Vec::len).sum();
    let (mut gold, mut weights) = (vec![0; batch * words], vec![0.0; batch * words]);
    for (sentence, tags) in tags.iter().enumerate() {
        let first = sentence * words;
        gold[first..first + tags.len()].copy_from_slice(tags);
        weights[first..first + tags.len()].fill(1.0 / count as f32);
    }
    let scores = emissions.reshape([batch * words, tag_count]);
    weighted_cross_entropy(scores, &gold, &weights)
}
