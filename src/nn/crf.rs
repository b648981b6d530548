//! A linear-chain conditional random field (CRF), vectorised over the batch.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Bool, Device, Tensor, TensorData};

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
        self.of_present(self.score(emissions, lengths, gold) - partition, lengths)
    }

    /// The same with operations whose shapes do not depend on the lengths.
    pub fn padded_log_likelihood(
        &self,
        emissions: Tensor<3>,
        lengths: &[usize],
        gold: &[Vec<i32>],
    ) -> Tensor<1> {
        let partition = self.log_partition(emissions.clone(), lengths);
        self.of_present(
            self.padded_score(emissions, lengths, gold) - partition,
            lengths,
        )
    }

    /// The values of sentences with words, and 0 for empty ones.
    fn of_present(&self, values: Tensor<1>, lengths: &[usize]) -> Tensor<1> {
        values * mask::float_mask(lengths, 1, &self.start.device()).squeeze_dim(1)
    }

    /// The score of each gold sequence, from scores of all words times 0 on padding: `[batch]`.
    fn padded_score(
        &self,
        emissions: Tensor<3>,
        lengths: &[usize],
        gold: &[Vec<i32>],
    ) -> Tensor<1> {
        let [batch, words, tags] = emissions.dims();
        let device = emissions.device();
        let tag = |sentence: usize, word: usize| match gold.get(sentence) {
            Some(gold) => gold.get(word).map_or(0, |tag| *tag as usize),
            None => 0,
        };
        let select = |scores: Tensor<1>, indices: Vec<usize>| {
            scores.select(0, index_tensor(&indices, &device))
        };
        let all = (0..batch).flat_map(|sentence| (0..words).map(move |word| (sentence, word)));
        let emitted =
            all.map(|(sentence, word)| (sentence * words + word) * tags + tag(sentence, word));
        let emitted = select(emissions.reshape([batch * words * tags]), emitted.collect());
        let is_word = mask::float_mask(lengths, words, &device);
        let emitted = (emitted.reshape([batch, words]) * is_word).sum_dim(1);
        let starts = (0..batch).map(|sentence| tag(sentence, 0));
        let ends = lengths.iter().enumerate();
        let ends = ends.map(|(sentence, length)| tag(sentence, length.saturating_sub(1)));
        let mut score = emitted.squeeze_dim(1)
            + select(self.start.val(), starts.collect())
            + select(self.end.val(), ends.collect());
        if words > 1 {
            let pairs =
                (0..batch).flat_map(|sentence| (1..words).map(move |word| (sentence, word)));
            let transitions =
                pairs.map(|(sentence, word)| tag(sentence, word - 1) * tags + tag(sentence, word));
            let table = self.transitions.val().reshape([tags * tags]);
            let transitions = select(table, transitions.collect()).reshape([batch, words - 1]);
            let counts: Vec<usize> = lengths
                .iter()
                .map(|length| length.saturating_sub(1))
                .collect();
            let is_pair = mask::float_mask(&counts, words - 1, &device);
            score = score + (transitions * is_pair).sum_dim(1).squeeze_dim(1);
        }
        score
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

    /// The learned scores on the host, to decode sentences one by one.
    pub fn scores(&self) -> CrfScores {
        let [tags] = self.start.dims();
        let all = Tensor::cat(
            vec![
                self.start.val(),
                self.end.val(),
                self.transitions.val().reshape([tags * tags]),
            ],
            0,
        );
        let mut start = host::floats(all);
        let mut end = start.split_off(tags);
        let transitions = end.split_off(tags);
        CrfScores {
            start,
            end,
            transitions,
        }
    }
}

/// The learned scores of a [`Crf`] on the host. Emissions of a sentence are `[words, tags]`.
#[derive(Debug, Clone, PartialEq)]
pub struct CrfScores {
    start: Vec<f32>,
    end: Vec<f32>,
    transitions: Vec<f32>,
}

impl CrfScores {
    fn tags(&self) -> usize {
        self.start.len()
    }

    fn transition(&self, from: usize, to: usize) -> f32 {
        self.transitions[from * self.tags() + to]
    }

    /// The tag sequence with the highest score, by the Viterbi algorithm; of equal ones, that of the lower tags.
    pub fn viterbi(&self, emissions: &[f32]) -> Vec<usize> {
        let tags = self.tags();
        let words = emissions.len() / tags;
        if words == 0 {
            return Vec::new();
        }
        let mut score: Vec<f32> = add(&self.start, &emissions[..tags]);
        let mut back_pointers = Vec::with_capacity((words - 1) * tags);
        for row in emissions.chunks_exact(tags).skip(1) {
            let from: Vec<usize> = (0..tags)
                .map(|to| {
                    let reached = |from: usize| score[from] + self.transition(from, to);
                    (1..tags).fold(0, |best, from| {
                        if reached(from) > reached(best) {
                            from
                        } else {
                            best
                        }
                    })
                })
                .collect();
            score = (0..tags)
                .map(|to| score[from[to]] + self.transition(from[to], to) + row[to])
                .collect();
            back_pointers.extend(from);
        }
        let mut path = vec![host::argmax(&add(&score, &self.end))];
        for from in back_pointers.chunks_exact(tags).rev() {
            path.push(from[path[path.len() - 1]]);
        }
        path.reverse();
        path
    }

    /// Marginal probability of each tag of each word: `[words, tags]`.
    pub fn marginals(&self, emissions: &[f32]) -> Vec<f32> {
        let tags = self.tags();
        let words = emissions.len() / tags;
        if words == 0 {
            return Vec::new();
        }
        let row = |word: usize| &emissions[word * tags..(word + 1) * tags];
        let mut forward = vec![add(&self.start, row(0))];
        for word in 1..words {
            let next = (0..tags).map(|to| {
                let paths =
                    (0..tags).map(|from| forward[word - 1][from] + self.transition(from, to));
                log_sum(paths) + row(word)[to]
            });
            forward.push(next.collect());
        }
        let mut backward = vec![self.end.clone()];
        for word in (1..words).rev() {
            let following = add(&backward[backward.len() - 1], row(word));
            let next = (0..tags)
                .map(|from| log_sum((0..tags).map(|to| self.transition(from, to) + following[to])));
            backward.push(next.collect());
        }
        backward.reverse();
        let partition = log_sum(add(&forward[words - 1], &self.end).into_iter());
        let both = forward.iter().zip(&backward);
        both.flat_map(|(alpha, beta)| add(alpha, beta))
            .map(|score| (score - partition).exp())
            .collect()
    }
}

/// Sums of corresponding elements.
fn add(one: &[f32], other: &[f32]) -> Vec<f32> {
    one.iter()
        .zip(other)
        .map(|(one, other)| one + other)
        .collect()
}

/// `log Σ e^score` without overflow.
fn log_sum(scores: impl Iterator<Item = f32> + Clone) -> f32 {
    let highest = scores.clone().fold(f32::NEG_INFINITY, f32::max);
    highest
        + scores
            .map(|score| (score - highest).exp())
            .sum::<f32>()
            .ln()
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
            let host_scores = crf.scores();
            let all = host::floats(emissions.clone());
            for (sentence, length) in lengths.iter().take(2).enumerate() {
                let own = &all[sentence * 12..][..length * 3];
                let marginals = host_scores.marginals(own);
                let scores: Vec<(f64, Vec<usize>)> = paths(*length)
                    .into_iter()
                    .map(|path| (score(&crf, own, &path), path))
                    .collect();
                let sum: f64 = scores.iter().map(|(score, _)| score.exp()).sum();
                assert!((partition[sentence] as f64 - sum.ln()).abs() < 1e-4);
                let (_, winner) = scores.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                assert_eq!(&host_scores.viterbi(own), winner);
                for word in 0..*length {
                    for tag in 0..3 {
                        let with: f64 = scores
                            .iter()
                            .filter(|(_, path)| path[word] == tag)
                            .map(|(score, _)| score.exp())
                            .sum();
                        let got = marginals[word * 3 + tag] as f64;
                        assert!((got - with / sum).abs() < 1e-4, "{got} {}", with / sum);
                    }
                }
            }
            assert!(host_scores.viterbi(&[]).is_empty());
            assert!(host_scores.marginals(&[]).is_empty());
            let gold = [vec![0, 1, 2, 0], vec![2, 1], vec![]];
            let likelihood = host::floats(crf.log_likelihood(emissions.clone(), &lengths, &gold));
            let expected = score(&crf, &all, &[0, 1, 2, 0]) - partition[0] as f64;
            assert!((likelihood[0] as f64 - expected).abs() < 1e-4);
            assert_eq!(likelihood[2], 0.0);
            let padded = Tensor::cat(vec![emissions.clone(), emissions], 1);
            let padded = host::floats(crf.padded_log_likelihood(padded, &lengths, &gold));
            for (padded, exact) in padded.iter().zip(&likelihood) {
                assert!((padded - exact).abs() < 1e-4, "{padded} {exact}");
            }
        }
    }
}
