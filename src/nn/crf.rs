//! A linear-chain conditional random field (CRF), vectorised over the batch.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use super::rows::index_tensor;
use super::{host, mask};

/// A linear-chain CRF over tag sequences.
///
/// ```text
/// score(y) = start[y₁] + Σₜ sₜ[yₜ] + Σₜ T[yₜ₋₁, yₜ] + end[yₙ]      for emissions s of n words
/// log p(y) = score(y) - log Z,   Z = Σ over all tag sequences y of e^score(y)
/// ```
///
/// `log Z` comes from the forward recursion, one matrix product per word: `α₁ = start + s₁` and, with `m = max αₜ₋₁`,
/// `αₜ = m + log(e^(αₜ₋₁ - m)·e^T) + sₜ`.
#[derive(Module, Debug)]
pub struct Crf {
    /// Score of each tag as the first: `[tags]`.
    pub start: Param<Tensor<1>>,
    /// Score of each tag as the last: `[tags]`.
    pub end: Param<Tensor<1>>,
    /// Score of the transition from a tag (row) to the next (column): `[tags, tags]`.
    pub transitions: Param<Tensor<2>>,
}

impl Crf {
    /// New scores, uniform between ±0.1.
    pub fn new(tags: usize, device: &Device) -> Self {
        let uniform = Initializer::Uniform {
            min: -0.1,
            max: 0.1,
        };
        Self {
            start: uniform.init([tags], device),
            end: uniform.init([tags], device),
            transitions: uniform.init([tags, tags], device),
        }
    }

    /// log p of the gold tags of each sentence; 0 for a sentence without words.
    ///
    /// # Shapes
    /// - emissions: `[batch, words, tags]`
    /// - output: `[batch]`
    pub fn log_likelihood(
        &self,
        emissions: Tensor<3>,
        lengths: &[usize],
        gold: &[Vec<i32>],
    ) -> Tensor<1> {
        let partition = self.log_partition(emissions.clone(), lengths);
        // 1 for sentences with words, 0 for empty ones.
        let is_present = mask::float_mask(lengths, 1, &self.start.device()).squeeze_dim(1);
        (self.score(emissions, lengths, gold) - partition) * is_present
    }

    /// The score of each gold sequence: `[batch]`.
    fn score(&self, emissions: Tensor<3>, lengths: &[usize], gold: &[Vec<i32>]) -> Tensor<1> {
        let [batch, words, tags] = emissions.dims();
        let device = emissions.device();
        let tag = |sentence: usize, word: usize| gold[sentence][word] as usize;
        // Flat indices into each kind of score, and the sentences that own them.
        let (mut emitted, mut transitions) = (vec![], vec![]);
        let (mut emitted_by, mut transitions_by) = (vec![], vec![]);
        let (mut starts, mut ends) = (vec![], vec![]);
        for (sentence, length) in lengths.iter().enumerate() {
            for word in 0..*length {
                emitted.push((sentence * words + word) * tags + tag(sentence, word));
                emitted_by.push(sentence);
                if word > 0 {
                    transitions.push(tag(sentence, word - 1) * tags + tag(sentence, word));
                    transitions_by.push(sentence);
                }
            }
            starts.push(if *length > 0 { tag(sentence, 0) } else { 0 });
            ends.push(if *length > 0 {
                tag(sentence, length - 1)
            } else {
                0
            });
        }
        let sums = |scores: Tensor<1>, selected: &[usize], owners: &[usize]| {
            if selected.is_empty() {
                return Tensor::zeros([batch], &device);
            }
            let chosen = scores.select(0, index_tensor(selected, &device));
            Tensor::<1>::zeros([batch], &device).select_assign(
                0,
                index_tensor(owners, &device),
                chosen,
                burn::tensor::IndexingUpdateOp::Add,
            )
        };
        let sentences: Vec<usize> = (0..batch).collect();
        sums(
            emissions.reshape([batch * words * tags]),
            &emitted,
            &emitted_by,
        ) + sums(
            self.transitions.val().reshape([tags * tags]),
            &transitions,
            &transitions_by,
        ) + sums(self.start.val(), &starts, &sentences)
            + sums(self.end.val(), &ends, &sentences)
    }

    /// log Z of each sentence.
    ///
    /// # Shapes
    /// - emissions: `[batch, words, tags]`
    /// - output: `[batch]`
    pub fn log_partition(&self, emissions: Tensor<3>, lengths: &[usize]) -> Tensor<1> {
        let last = self.forward(emissions, lengths).pop();
        let last = last.expect("at least one word position");
        log_sum_exp(last + self.end.val().unsqueeze())
    }

    /// The forward recursion: α after each word, `[batch, tags]`. Sentences that have ended keep their last α.
    fn forward(&self, emissions: Tensor<3>, lengths: &[usize]) -> Vec<Tensor<2>> {
        let transitions = self.transitions.val().exp();
        let mut steps = vec![self.start.val().unsqueeze() + word_scores(&emissions, 0)];
        for word in 1..emissions.dims()[1] {
            let previous = steps[word - 1].clone();
            let next =
                log_matmul(previous.clone(), transitions.clone()) + word_scores(&emissions, word);
            steps.push(keep_ended(lengths, word, next, previous));
        }
        steps
    }

    /// The backward recursion: β at each word, `[batch, tags]`.
    fn backward(&self, emissions: &Tensor<3>, lengths: &[usize]) -> Vec<Tensor<2>> {
        let [batch, words, tags] = emissions.dims();
        let transitions = self.transitions.val().exp().transpose();
        let end = self.end.val().unsqueeze::<2>().expand([batch, tags]);
        let mut steps = vec![end.clone()];
        for word in (0..words - 1).rev() {
            let following = steps[steps.len() - 1].clone() + word_scores(emissions, word + 1);
            let next = log_matmul(following, transitions.clone());
            // In a sentence without a next word, β is still that of its last word.
            steps.push(keep_ended(lengths, word + 1, next, end.clone()));
        }
        steps.reverse();
        steps
    }

    /// Marginal probability of each tag of each word.
    ///
    /// # Shapes
    /// - emissions, output: `[batch, words, tags]`
    pub fn marginals(&self, emissions: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        let forward = self.forward(emissions.clone(), lengths);
        let backward = self.backward(&emissions, lengths);
        let partition = self.log_partition(emissions, lengths).unsqueeze_dim::<2>(1);
        let words = forward
            .into_iter()
            .zip(backward)
            .map(|(alpha, beta)| (alpha + beta - partition.clone()).exp())
            .collect();
        Tensor::stack(words, 1)
    }

    /// The tag sequence with the highest score of each sentence, by the Viterbi algorithm. Results are copied from the device in one transfer.
    ///
    /// # Shapes
    /// - emissions: `[batch, words, tags]`
    pub fn viterbi(&self, emissions: Tensor<3>, lengths: &[usize]) -> Vec<Vec<i32>> {
        let [batch, words, tags] = emissions.dims();
        let transitions = self.transitions.val().unsqueeze::<3>();
        let mut score = self.start.val().unsqueeze() + word_scores(&emissions, 0);
        let mut back_pointers: Vec<Tensor<1, Int>> = Vec::with_capacity(words);
        for word in 1..words {
            let all = score.clone().unsqueeze_dim::<3>(2) + transitions.clone();
            let (best, from) = all.max_dim_with_indices(1); // [batch, 1, tags]
            back_pointers.push(from.reshape([batch * tags]));
            let next = best.reshape([batch, tags]) + word_scores(&emissions, word);
            score = keep_ended(lengths, word, next, score);
        }
        let last = (score + self.end.val().unsqueeze()).argmax(1);
        back_pointers.insert(0, last.reshape([batch]));
        let read = host::integers(Tensor::cat(back_pointers, 0));
        let (last, back_pointers) = read.split_at(batch); // [batch], [words - 1, batch, tags]
        lengths
            .iter()
            .enumerate()
            .map(|(sentence, length)| {
                let mut path = vec![0; *length];
                let mut tag = last[sentence];
                for word in (0..*length).rev() {
                    path[word] = tag;
                    if word > 0 {
                        let from = ((word - 1) * batch + sentence) * tags;
                        tag = back_pointers[from + tag as usize];
                    }
                }
                path
            })
            .collect()
    }
}

/// Emissions of one word: `[batch, tags]`.
fn word_scores(emissions: &Tensor<3>, word: usize) -> Tensor<2> {
    let [batch, _, tags] = emissions.dims();
    emissions.clone().narrow(1, word, 1).reshape([batch, tags])
}

/// `next` for sentences that have this word, `previous` for those that have ended.
fn keep_ended(lengths: &[usize], word: usize, next: Tensor<2>, previous: Tensor<2>) -> Tensor<2> {
    if lengths.iter().all(|length| *length > word) {
        return next;
    }
    let has_ended: Vec<bool> = lengths.iter().map(|length| *length <= word).collect();
    let has_ended = TensorData::new(has_ended, [lengths.len(), 1]);
    let has_ended = Tensor::<2, Bool>::from_data(has_ended, &next.device());
    let shape = next.dims();
    next.mask_where(has_ended.expand(shape), previous)
}

/// `log(e^scores·matrix)` without overflow.
fn log_matmul(scores: Tensor<2>, matrix: Tensor<2>) -> Tensor<2> {
    let highest = scores.clone().detach().max_dim(1);
    (scores - highest.clone()).exp().matmul(matrix).log() + highest
}

/// `log Σ e^scores` of each row.
fn log_sum_exp(scores: Tensor<2>) -> Tensor<1> {
    let [batch, _] = scores.dims();
    let highest = scores.clone().detach().max_dim(1);
    let sum = (scores - highest.clone()).exp().sum_dim(1).log() + highest;
    sum.reshape([batch])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(device: &Device) -> (Crf, Tensor<3>, Vec<usize>) {
        device.seed(7);
        let emissions = Tensor::random(
            [3, 4, 3],
            burn::tensor::Distribution::Normal(0.0, 2.0),
            device,
        );
        (Crf::new(3, device), emissions, vec![4, 2, 0])
    }

    /// Score of one tag sequence by the definition.
    fn score(crf: &Crf, emissions: &[f32], path: &[usize]) -> f64 {
        let start = host::floats(crf.start.val());
        let end = host::floats(crf.end.val());
        let transitions = host::floats(crf.transitions.val());
        let mut total = (start[path[0]] + end[path[path.len() - 1]]) as f64;
        for (word, tag) in path.iter().enumerate() {
            total += emissions[word * 3 + tag] as f64;
            if word > 0 {
                total += transitions[path[word - 1] * 3 + tag] as f64;
            }
        }
        total
    }

    fn paths(length: usize) -> Vec<Vec<usize>> {
        (0..3usize.pow(length as u32))
            .map(|code| {
                (0..length)
                    .map(|word| code / 3usize.pow(word as u32) % 3)
                    .collect()
            })
            .collect()
    }

    #[test]
    fn everything_agrees_with_enumerating_all_sequences() {
        for device in crate::device::cpu_devices() {
            let (crf, emissions, lengths) = example(&device);
            let partition = host::floats(crf.log_partition(emissions.clone(), &lengths));
            let marginals = host::floats(crf.marginals(emissions.clone(), &lengths));
            let best = crf.viterbi(emissions.clone(), &lengths);
            let all = host::floats(emissions.clone());
            for (sentence, length) in lengths.iter().take(2).enumerate() {
                let own = &all[sentence * 12..];
                let scores: Vec<(f64, Vec<usize>)> = paths(*length)
                    .into_iter()
                    .map(|path| (score(&crf, own, &path), path))
                    .collect();
                let sum: f64 = scores.iter().map(|(score, _)| score.exp()).sum();
                assert!((partition[sentence] as f64 - sum.ln()).abs() < 1e-4);
                let (_, winner) = scores.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                let found: Vec<usize> = best[sentence].iter().map(|tag| *tag as usize).collect();
                assert_eq!(&found, winner);
                for word in 0..*length {
                    for tag in 0..3 {
                        let with: f64 = scores
                            .iter()
                            .filter(|(_, path)| path[word] == tag)
                            .map(|(score, _)| score.exp())
                            .sum();
                        let got = marginals[(sentence * 4 + word) * 3 + tag] as f64;
                        assert!((got - with / sum).abs() < 1e-4, "{got} {}", with / sum);
                    }
                }
            }
            assert!(best[2].is_empty());
            let gold = [vec![0, 1, 2, 0], vec![2, 1], vec![]];
            let likelihood = host::floats(crf.log_likelihood(emissions, &lengths, &gold));
            let expected = score(&crf, &all, &[0, 1, 2, 0]) - partition[0] as f64;
            assert!((likelihood[0] as f64 - expected).abs() < 1e-4);
            assert_eq!(likelihood[2], 0.0);
        }
    }
}
