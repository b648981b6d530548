//! The two losses of SeqNER.

use burn::tensor::Tensor;

use super::network::SeqNer;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::loss::cross_entropy;
use crate::nn::rows::select_rows;

/// Cross-entropy over words, or the CRF's negative log-likelihood over sentences.
pub fn loss(head: &SeqNer, states: &WordStates, gold: &Gold) -> Losses {
    let emissions = head.emissions(states);
    match &head.crf {
        None => Losses::single("tags", over_words(emissions, &gold.tags)),
        Some(crf) => {
            let likelihood = crf.log_likelihood(emissions, &states.lengths, &gold.tags);
            Losses::single("tags", likelihood.mean().neg())
        }
    }
}

/// Mean over all real words of the batch; padding is not even scored.
fn over_words(emissions: Tensor<3>, tags: &[Vec<i32>]) -> Tensor<1> {
    let [batch, words, kinds] = emissions.dims();
    let places: Vec<usize> = tags
        .iter()
        .enumerate()
        .flat_map(|(sentence, tags)| (0..tags.len()).map(move |word| sentence * words + word))
        .collect();
    let scores = select_rows(emissions.reshape([batch * words, kinds]), places);
    cross_entropy(scores, &tags.concat())
}
