//! The two losses of SeqNER.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

use super::network::SeqNer;
use super::target::Gold;
use crate::encoder::{WordStates, indices};
use crate::heads::Losses;

/// Cross-entropy over words, or the CRF's negative log-likelihood over sentences.
pub fn loss(head: &SeqNer, states: &WordStates, gold: &Gold) -> Losses {
    let emissions = head.emissions(states);
    match &head.crf {
        None => Losses::single("tags", cross_entropy(emissions, &gold.tags)),
        Some(crf) => {
            let likelihood = crf.log_likelihood(emissions, &states.lengths, &gold.tags);
            Losses::single("tags", likelihood.mean().neg())
        }
    }
}

/// Mean over all real words of the batch; padding is not even scored.
fn cross_entropy(emissions: Tensor<3>, tags: &[Vec<i32>]) -> Tensor<1> {
    let [batch, words, kinds] = emissions.dims();
    let device = emissions.device();
    let places: Vec<usize> = tags
        .iter()
        .enumerate()
        .flat_map(|(sentence, tags)| (0..tags.len()).map(move |word| sentence * words + word))
        .collect();
    if places.is_empty() {
        return emissions.sum() * 0.0;
    }
    let gold: Vec<i32> = tags.concat();
    let gold = Tensor::<1, Int>::from_ints(gold.as_slice(), &device);
    let scores = emissions
        .reshape([batch * words, kinds])
        .select(0, indices(&places, &device));
    log_softmax(scores, 1)
        .gather(1, gold.unsqueeze_dim(1))
        .mean()
        .neg()
}
