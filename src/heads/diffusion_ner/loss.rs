//! The negative log-likelihood of matched predictions.

use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Int, Tensor, TensorData};

use super::config::{Config, Matching, Reduction};
use super::matching::{Match, by_overlap, matching};
use super::network::{Denoised, DiffusionNer};
use super::process::Pair;
use super::sample::most_probable;
use super::target::Gold;
use crate::encoder::WordStates;
use crate::heads::Losses;

/// The loss of a batch.
pub fn loss(head: &DiffusionNer, states: &WordStates, gold: &Gold) -> Losses {
    let encoded = head.encode(states);
    // Sentences that are padding have the spans of the first one, which then do not count.
    let first = gold.0.first().map_or(&[][..], |target| &target.spans);
    let spans = gold.0.iter().map(|target| {
        if target.is_padding() {
            first
        } else {
            &target.spans
        }
    });
    let spans: Vec<&[Pair]> = spans.collect();
    let timesteps: Vec<usize> = gold.0.iter().map(|target| target.timestep).collect();
    let denoised = head.denoise(&encoded, &spans, &timesteps);
    let matches = match head.config.matching {
        Matching::Assignment => matching(&head.config, &denoised, gold),
        Matching::Overlap => by_overlap(head.geometry, gold, &states.lengths),
    };
    let mut losses = loss_of_matches(&head.config, &denoised, gold, &matches);
    if let Some(rescorer) = &head.rescorer {
        let predicted = most_probable([&denoised.left, &denoised.right]);
        let rescored = rescorer.loss(states, gold, &predicted, head.config.reduction);
        losses.total = losses.total + rescored.clone();
        losses.terms.push(("rescored", rescored));
    }
    losses
}

/// The loss of predictions with given matches.
///
/// Each word is a boundary or not, independently of the others: the negative log-likelihood of a boundary is the binary
/// cross-entropy, summed over all words.
pub fn loss_of_matches(
    config: &Config,
    denoised: &Denoised,
    gold: &Gold,
    matches: &[Match],
) -> Losses {
    let [batch, spans, words] = denoised.left.dims();
    let sentences = gold.sentences();
    let matched = matches.iter().map(Vec::len).sum::<usize>();
    let mut classes = vec![0i32; batch * spans];
    let mut is_matched = vec![0f32; batch * spans];
    let mut left = vec![0f32; batch * spans * words];
    let mut right = left.clone();
    for (sentence, pairs) in matches.iter().enumerate() {
        for (span, entity) in pairs {
            let entity = gold.0[sentence].entities[*entity];
            let row = sentence * spans + span;
            classes[row] = entity.class as i32;
            is_matched[row] = 1.0;
            left[row * words + entity.left] = 1.0;
            right[row * words + entity.right] = 1.0;
        }
    }
    let device = denoised.left.device();
    let tensor = |values: Vec<f32>, last: usize| {
        Tensor::<3>::from_data(TensorData::new(values, [batch, spans, last]), &device)
    };
    let mask = tensor(is_matched, 1);
    let boundaries = binary(denoised.left.clone(), tensor(left, words), mask.clone())
        + binary(denoised.right.clone(), tensor(right, words), mask);
    let types = types(config, denoised, &classes, [sentences * spans, matched]);
    let (boundaries, types) = match config.reduction {
        Reduction::Sum => (
            boundaries / sentences.max(1) as f32,
            types / sentences.max(1) as f32,
        ),
        Reduction::Mean => (
            boundaries / matched.max(1) as f32,
            types / (sentences * spans).max(1) as f32,
        ),
    };
    Losses {
        total: boundaries.clone() * config.loss_boundaries + types.clone() * config.loss_types,
        terms: vec![("boundaries", boundaries), ("types", types)],
    }
}

/// Binary cross-entropy of logits, summed over the words of the spans in `mask`. The logits of padding are so low that it
/// adds nothing.
fn binary(scores: Tensor<3>, gold: Tensor<3>, mask: Tensor<3>) -> Tensor<1> {
    // −log of (1 − sigmoid) is the softplus; without overflow: max(z, 0) + log(1 + e^−|z|).
    let softplus = relu(scores.clone()) + scores.clone().abs().neg().exp().log1p();
    (softplus * mask - scores * gold).sum()
}

/// Cross-entropy of the classes, weighted and summed over the spans without padding. `all` and `matched` are the numbers of
/// all spans and of those with an entity.
fn types(
    config: &Config,
    denoised: &Denoised,
    classes: &[i32],
    [all, matched]: [usize; 2],
) -> Tensor<1> {
    let scores = denoised.types.clone();
    let [batch, spans, count] = scores.dims();
    let device = scores.device();
    let none = all - matched;
    let none_weight = if config.balance_none {
        matched as f32 / none.max(1) as f32
    } else {
        config.none_weight as f32
    };
    let mut weights: Vec<f32> = classes
        .iter()
        .map(|class| if *class == 0 { none_weight } else { 1.0 })
        .collect();
    // Padding comes last.
    weights[all..].fill(0.0);
    let weights = Tensor::<1>::from_floats(weights.as_slice(), &device);
    let classes = Tensor::<1, Int>::from_ints(classes, &device);
    let likelihood = log_softmax(scores.reshape([batch * spans, count]), 1)
        .gather(1, classes.unsqueeze_dim(1))
        .reshape([batch * spans]);
    (likelihood * weights).sum().neg()
}
