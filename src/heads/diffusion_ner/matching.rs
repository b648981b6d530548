//! Which prediction answers which gold entity.

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};
use rayon::prelude::*;

use super::config::Config;
use super::network::Denoised;
use super::target::{Gold, GoldEntity};
use crate::nn::assignment::assign;
use crate::nn::host::floats;

/// Pairs (prediction, gold entity) of one sentence, by prediction.
pub type Match = Vec<(usize, usize)>;

/// The cheapest matching of each sentence. All probabilities leave the device in one transfer; sentences are solved
/// side by side.
pub fn matching(config: &Config, denoised: &Denoised, gold: &Gold) -> Vec<Match> {
    let [_, spans, words] = denoised.left.dims();
    let classes = denoised.types.dims()[2];
    let probabilities = [
        sigmoid(plain(&denoised.left)),
        sigmoid(plain(&denoised.right)),
        softmax(plain(&denoised.types), 2),
    ];
    let row = 2 * words + classes;
    let probabilities = floats(Tensor::cat(probabilities.to_vec(), 2));
    gold.0
        .par_iter()
        .zip(probabilities.par_chunks_exact(spans * row))
        .map(|(target, rows)| {
            let costs: Vec<f64> = rows
                .chunks_exact(row)
                .flat_map(|row| {
                    let cost = move |entity: &GoldEntity| cost(config, row, words, entity);
                    target.entities.iter().map(cost)
                })
                .collect();
            assign(&costs, spans, target.entities.len())
        })
        .collect()
}

/// Minus the probabilities of what the entity is. `row` lists one prediction's words as first, as last, and classes.
fn cost(config: &Config, row: &[f32], words: usize, entity: &GoldEntity) -> f64 {
    let boundaries = row[entity.left] as f64 + row[words + entity.right] as f64;
    let class = row[2 * words + entity.class] as f64;
    -(config.match_boundaries * boundaries + config.match_types * class)
}

/// The numbers without their graph: a matching has no gradient.
fn plain(tensor: &Tensor<3>) -> Tensor<3> {
    if tensor.device().is_autodiff() {
        tensor.clone().inner()
    } else {
        tensor.clone()
    }
}
