//! Matching of predictions with gold entities.

use burn::tensor::Tensor;
use burn::tensor::activation::{sigmoid, softmax};
use rayon::prelude::*;

use super::config::Config;
use super::network::Denoised;
use super::process::SpanGeometry;
use super::target::{Gold, GoldEntity};
use crate::nn::assignment::assign;
use crate::nn::host::floats;

/// Pairs (prediction, gold entity) of one sentence, in the order of predictions.
pub type Match = Vec<(usize, usize)>;

/// The matching of lowest cost for each sentence. All probabilities are read from the device in one transfer; sentences
/// are solved in parallel.
pub fn matching(config: &Config, denoised: &Denoised, gold: &Gold) -> Vec<Match> {
    let [_, spans, words] = denoised.left.dims();
    let classes = denoised.types.dims()[2];
    let probabilities = [
        sigmoid(without_graph(&denoised.left)),
        sigmoid(without_graph(&denoised.right)),
        softmax(without_graph(&denoised.types), 2),
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

/// Each noisy span with the entity that it overlaps most, by the intersection over the union of their words; of equal ones
/// the first. Spans that overlap none have no match.
pub fn by_overlap(geometry: SpanGeometry, gold: &Gold, lengths: &[usize]) -> Vec<Match> {
    (gold.0.iter().zip(lengths))
        .map(|(target, length)| {
            (target.spans.iter().enumerate())
                .filter_map(|(index, span)| {
                    let words = geometry.words(*span, *length);
                    Some((index, best_overlap(words, &target.entities)?))
                })
                .collect()
        })
        .collect()
}

/// The index of the entity that a span overlaps most.
fn best_overlap([left, right]: [usize; 2], entities: &[GoldEntity]) -> Option<usize> {
    let mut best = None;
    for (index, entity) in entities.iter().enumerate() {
        let (first, last) = (left.max(entity.left), right.min(entity.right));
        if first > last {
            continue;
        }
        let shared = (last - first + 1) as f64;
        let union = (right.max(entity.right) - left.min(entity.left) + 1) as f64;
        if best.is_none_or(|(_, highest)| shared / union > highest) {
            best = Some((index, shared / union));
        }
    }
    best.map(|(index, _)| index)
}

/// The negative weighted sum of the probabilities of the entity's boundaries and class. `row` has the probabilities of
/// one prediction: of each word as the first, of each word as the last, and of each class.
fn cost(config: &Config, row: &[f32], words: usize, entity: &GoldEntity) -> f64 {
    let boundaries = row[entity.left] as f64 + row[words + entity.right] as f64;
    let class = row[2 * words + entity.class] as f64;
    -(config.match_boundaries * boundaries + config.match_types * class)
}

/// The values without the autodiff graph: a matching has no gradient.
fn without_graph(tensor: &Tensor<3>) -> Tensor<3> {
    if tensor.device().is_autodiff() {
        tensor.clone().inner()
    } else {
        tensor.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_matched_with_the_entity_it_overlaps_most() {
        let entity = |left, right| GoldEntity {
            left,
            right,
            class: 1,
        };
        let entities = [entity(0, 4), entity(1, 2), entity(7, 8)];
        assert_eq!(best_overlap([1, 1], &entities), Some(1));
        assert_eq!(best_overlap([3, 4], &entities), Some(0));
        assert_eq!(best_overlap([4, 9], &entities), Some(2));
        assert_eq!(best_overlap([5, 6], &entities), None);
    }
}
