//! The two losses of SeqNER.

use burn::tensor::Tensor;

use super::network::SeqNer;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::heads::Losses;
use crate::nn::loss::cross_entropy;
use crate::nn::rows::select_rows;

/// Cross-entropy, mean over words; or negative log-likelihood of the CRF, mean over sentences.
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
