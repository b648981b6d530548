//! Softmax over a row of scores that is seen in several parts, and its backward pass.
//!
//! ```text
//! for each part x:   m′ = max(m, max x),   e = e^(x - m′),   l′ = l · e^(m - m′) + Σ e
//! in the end:        p = e^(x - m) / l
//! ```
//!
//! What was computed with an earlier maximum is multiplied by `e^(m - m′)`.

use multiversion::multiversion;

use crate::nn::fused::math;

/// m and l of the parts of a row that were seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunningSoftmax {
    largest: f32,
    sum: f32,
}

impl RunningSoftmax {
    /// Before the first part.
    pub(super) fn new() -> Self {
        Self {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }

    /// Replaces the scores of a part by e, and returns the factor for what was computed before. An empty part changes nothing.
    pub(super) fn add(&mut self, scores: &mut [f32]) -> f32 {
        let largest = self.largest.max(largest(scores));
        let factor = if largest > self.largest {
            math::exp(self.largest - largest)
        } else {
            1.0
        };
        self.largest = largest;
        self.sum = self.sum * factor + exponentials(scores, largest);
        factor
    }

    /// What is needed to compute probabilities again from their scores.
    pub(super) fn statistics(self) -> SoftmaxStatistics {
        SoftmaxStatistics {
            largest: self.largest,
            inverse: 1.0 / self.sum,
        }
    }
}

/// The maximum m of a row, and 1 / l.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoftmaxStatistics {
    largest: f32,
    /// 1 / l.
    pub(super) inverse: f32,
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn largest(scores: &[f32]) -> f32 {
    let mut largest = [f32::NEG_INFINITY; 16];
    let mut chunks = scores.chunks_exact(16);
    for chunk in &mut chunks {
        for (largest, score) in largest.iter_mut().zip(chunk) {
            *largest = if *score > *largest { *score } else { *largest };
        }
    }
    let remainder = chunks.remainder().iter().chain(&largest);
    remainder.fold(f32::NEG_INFINITY, |largest, score| largest.max(*score))
}

/// Replaces scores by `e^(x - m)` and returns their sum.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
fn exponentials(scores: &mut [f32], largest: f32) -> f32 {
    for score in scores.iter_mut() {
        *score = math::exp(*score - largest);
    }
    math::sum(scores)
}

/// Replaces scores by probabilities.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn probabilities(scores: &mut [f32], statistics: SoftmaxStatistics) {
    let SoftmaxStatistics { largest, inverse } = statistics;
    for score in scores.iter_mut() {
        *score = math::exp(*score - largest) * inverse;
    }
}

/// The backward pass of `p = softmax(scale · x)`, in place: `dx = scale · p ⊙ (dp - mean)` with `mean = Σ p dp` over the
/// whole row.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn backward(gradient: &mut [f32], probabilities: &[f32], mean: f32, scale: f32) {
    for (gradient, probability) in gradient.iter_mut().zip(probabilities) {
        *gradient = scale * probability * (*gradient - mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_the_softmax_of_the_whole_row() {
        let scores: Vec<f32> = (0..83)
            .map(|i| (i as f32 * 1.7).sin() * 9.0 - 20.0)
            .collect();
        let total: f64 = scores.iter().map(|x| f64::from(*x).exp()).sum();
        for cuts in [vec![83], vec![1, 20, 20, 83], vec![0, 40, 83]] {
            let mut running = RunningSoftmax::new();
            // The sum of all e, brought up to date by the factors.
            let (mut sum, mut first) = (0.0, 0);
            for end in cuts {
                let mut part = scores[first..end].to_vec();
                sum *= running.add(&mut part);
                sum += part.iter().sum::<f32>();
                first = end;
            }
            let statistics = running.statistics();
            assert!((sum * statistics.inverse - 1.0).abs() < 1e-5);
            let mut found = scores.clone();
            probabilities(&mut found, statistics);
            for (found, score) in found.iter().zip(&scores) {
                let exact = f64::from(*score).exp() / total;
                assert!((f64::from(*found) - exact).abs() < 1e-6);
            }
        }
    }
}
