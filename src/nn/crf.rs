//! A linear-chain conditional random field, vectorised over the batch.
//!
//! A tag sequence y over emissions s scores start(y₁) + Σ s_t(y_t) + Σ T(y_{t-1}, y_t) + end(y_n). The
//! log-partition runs the forward recursion as one matrix product a word: with m = max α,
//! α′ = m + log(e^{α−m} · e^T) + s.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use super::rows::indices;
use super::{host, mask};

/// Start, end and transition scores.
#[derive(Module, Debug)]
pub struct Crf {
    /// Score of beginning with each tag: \[tags\].
    pub start: Param<Tensor<1>>,
    /// Score of ending with each tag: \[tags\].
    pub end: Param<Tensor<1>>,
    /// Score of going from a tag (row) to a tag (column): [tags, tags].
    pub transitions: Param<Tensor<2>>,
}

impl Crf {
    /// Scores drawn evenly from ±0.1.
    pub fn new(tags: usize, device: &Device) -> Self {
        let even = Initializer::Uniform {
            min: -0.1,
            max: 0.1,
        };
        Self {
            start: even.init([tags], device),
            end: even.init([tags], device),
            transitions: even.init([tags, tags], device),
        }
    }

    /// log p(gold tags) of each sentence: \[batch\]. A sentence without words has log 1.
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

    /// The score of the gold sequences: \[batch\].
    fn score(&self, emissions: Tensor<3>, lengths: &[usize], gold: &[Vec<i32>]) -> Tensor<1> {
        let [batch, words, tags] = emissions.dims();
        let device = emissions.device();
        let tag = |sentence: usize, word: usize| gold[sentence][word] as usize;
        // One flat list of places for each kind of score; sums by sentence come from a 0/1 matrix.
        let (mut emitted, mut moved, mut begun, mut ended) = (vec![], vec![], vec![], vec![]);
        let (mut emitted_by, mut moved_by) = (vec![], vec![]);
        for (sentence, length) in lengths.iter().enumerate() {
            for word in 0..*length {
                emitted.push((sentence * words + word) * tags + tag(sentence, word));
                emitted_by.push(sentence);
                if word > 0 {
                    moved.push(tag(sentence, word - 1) * tags + tag(sentence, word));
                    moved_by.push(sentence);
                }
            }
            begun.push(if *length > 0 { tag(sentence, 0) } else { 0 });
            ended.push(if *length > 0 {
                tag(sentence, length - 1)
            } else {
                0
            });
        }
        let sums = |scores: Tensor<1>, places: &[usize], by: &[usize]| {
            if places.is_empty() {
                return Tensor::zeros([batch], &device);
            }
            let chosen = scores.select(0, indices(places, &device));
            Tensor::<1>::zeros([batch], &device).select_assign(
                0,
                indices(by, &device),
                chosen,
                burn::tensor::IndexingUpdateOp::Add,
            )
        };
        let everyone: Vec<usize> = (0..batch).collect();
        sums(
            emissions.reshape([batch * words * tags]),
            &emitted,
            &emitted_by,
        ) + sums(
            self.transitions.val().reshape([tags * tags]),
            &moved,
            &moved_by,
        ) + sums(self.start.val(), &begun, &everyone)
            + sums(self.end.val(), &ended, &everyone)
    }

    /// log Σ over all sequences: \[batch\].
    pub fn log_partition(&self, emissions: Tensor<3>, lengths: &[usize]) -> Tensor<1> {
        let last = self.forward(emissions, lengths).pop();
        let last = last.expect("at least one word position");
        log_sum_exp(last + self.end.val().unsqueeze())
    }

    /// The forward recursion: α after each word position, [batch, tags]; finished sentences keep theirs.
    fn forward(&self, emissions: Tensor<3>, lengths: &[usize]) -> Vec<Tensor<2>> {
        let transitions = self.transitions.val().exp();
        let mut steps = vec![self.start.val().unsqueeze() + word_of(&emissions, 0)];
        for word in 1..emissions.dims()[1] {
            let before = steps[word - 1].clone();
            let next = log_product(before.clone(), transitions.clone()) + word_of(&emissions, word);
            steps.push(keep_where_running(lengths, word, next, before));
        }
        steps
    }

    /// The backward recursion: β at each word position, [batch, tags].
    fn backward(&self, emissions: &Tensor<3>, lengths: &[usize]) -> Vec<Tensor<2>> {
        let [batch, words, tags] = emissions.dims();
        let transitions = self.transitions.val().exp().transpose();
        let end = self.end.val().unsqueeze::<2>().expand([batch, tags]);
        let mut steps = vec![end.clone()];
        for word in (0..words - 1).rev() {
            let after = steps[steps.len() - 1].clone() + word_of(emissions, word + 1);
            let next = log_product(after, transitions.clone());
            // A sentence that is over before the next word still stands at its end.
            steps.push(keep_where_running(lengths, word + 1, next, end.clone()));
        }
        steps.reverse();
        steps
    }

    /// p(tag of word) under the whole model: [batch, words, tags].
    pub fn marginals(&self, emissions: Tensor<3>, lengths: &[usize]) -> Tensor<3> {
        let forward = self.forward(emissions.clone(), lengths);
        let backward = self.backward(&emissions, lengths);
        let partition = self.log_partition(emissions, lengths).unsqueeze_dim::<2>(1);
        let words = forward
            .into_iter()
            .zip(backward)
            .map(|(before, after)| (before + after - partition.clone()).exp())
            .collect();
        Tensor::stack(words, 1)
    }

    /// The best tag sequence of each sentence. Back-pointers are read back once.
    pub fn viterbi(&self, emissions: Tensor<3>, lengths: &[usize]) -> Vec<Vec<i32>> {
        let [batch, words, tags] = emissions.dims();
        let transitions = self.transitions.val().unsqueeze::<3>();
        let mut score = self.start.val().unsqueeze() + word_of(&emissions, 0);
        let mut pointers: Vec<Tensor<1, Int>> = Vec::with_capacity(words);
        for word in 1..words {
            let all = score.clone().unsqueeze_dim::<3>(2) + transitions.clone();
            let (best, from) = all.max_dim_with_indices(1); // [batch, 1, tags]
            pointers.push(from.reshape([batch * tags]));
            let next = best.reshape([batch, tags]) + word_of(&emissions, word);
            score = keep_where_running(lengths, word, next, score);
        }
        let last = (score + self.end.val().unsqueeze()).argmax(1);
        pointers.insert(0, last.reshape([batch]));
        let read = host::integers(Tensor::cat(pointers, 0));
        let (last, pointers) = read.split_at(batch); // [batch], [words - 1, batch, tags]
        lengths
            .iter()
            .enumerate()
            .map(|(sentence, length)| {
                let mut path = vec![0; *length];
                let mut tag = last[sentence];
                for word in (0..*length).rev() {
                    path[word] = tag;
                    if word > 0 {
                        tag = pointers[((word - 1) * batch + sentence) * tags + tag as usize];
                    }
                }
                path
            })
            .collect()
    }
}

/// Scores of one word position: [batch, tags].
fn word_of(emissions: &Tensor<3>, word: usize) -> Tensor<2> {
    let [batch, _, tags] = emissions.dims();
    emissions.clone().narrow(1, word, 1).reshape([batch, tags])
}

/// `next` for sentences that have this word, `before` for those that are over.
fn keep_where_running(
    lengths: &[usize],
    word: usize,
    next: Tensor<2>,
    before: Tensor<2>,
) -> Tensor<2> {
    if lengths.iter().all(|length| *length > word) {
        return next;
    }
    let over: Vec<bool> = lengths.iter().map(|length| *length <= word).collect();
    let over =
        Tensor::<2, Bool>::from_data(TensorData::new(over, [lengths.len(), 1]), &next.device());
    let shape = next.dims();
    next.mask_where(over.expand(shape), before)
}

/// log(e^scores · matrix), row by row, without overflow.
fn log_product(scores: Tensor<2>, matrix: Tensor<2>) -> Tensor<2> {
    let highest = scores.clone().detach().max_dim(1);
    (scores - highest.clone()).exp().matmul(matrix).log() + highest
}

/// log Σ e^scores of each row.
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

    /// Score of one sequence, by the definition.
    fn score(crf: &Crf, emissions: &[f32], path: &[usize]) -> f64 {
        let start = host::floats(crf.start.val());
        let end = host::floats(crf.end.val());
        let moves = host::floats(crf.transitions.val());
        let mut total = (start[path[0]] + end[path[path.len() - 1]]) as f64;
        for (word, tag) in path.iter().enumerate() {
            total += emissions[word * 3 + tag] as f64;
            if word > 0 {
                total += moves[path[word - 1] * 3 + tag] as f64;
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
    fn agrees_with_counting_every_sequence() {
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
