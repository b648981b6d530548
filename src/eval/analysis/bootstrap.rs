//! Confidence intervals and p-values of F1 and its differences, by a paired bootstrap over sentences.
//!
//! Each resample draws as many sentences as there are, with replacement, and scores every model on the same draw.
//! Every resample has its own random stream, so the result does not depend on the number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::AnalysisOptions;
use crate::eval::Counts;

/// A 95 % confidence interval: the middle 95 % of the values from the resamples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// 2.5 % of the resamples are below.
    pub low: f64,
    /// 2.5 % of the resamples are above.
    pub high: f64,
}

/// Difference in F1 between a model and the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct F1Difference {
    /// F1 of the model minus F1 of the baseline, on all sentences without resampling.
    pub value: f64,
    /// 95 % confidence interval of the difference.
    pub interval: Interval,
    /// Two-sided p-value, from the share of resamples in which the difference has the other sign or is zero. At least
    /// `2 / (resamples + 1)`: finitely many resamples cannot show less.
    pub p: f64,
}

/// Bootstrap results of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Significance {
    /// 95 % confidence interval of F1.
    pub f1: Interval,
    /// Difference to the baseline; `None` for the baseline itself.
    pub difference: Option<F1Difference>,
}

/// Runs the bootstrap on `counts[model][sentence]`; returns one result per model.
pub(super) fn bootstrap(
    counts: &[Vec<Counts>],
    baseline: usize,
    options: AnalysisOptions,
) -> Vec<Significance> {
    // [resample][model]
    let samples: Vec<Vec<f64>> = (0..options.resamples as u64)
        .into_par_iter()
        .map(|number| resample(counts, options.seed, number))
        .collect();
    (0..counts.len())
        .map(|model| {
            let difference =
                (model != baseline).then(|| compare(counts, &samples, model, baseline));
            Significance {
                f1: interval(samples.iter().map(|sample| sample[model]).collect()),
                difference,
            }
        })
        .collect()
}

/// F1 of every model on one random draw of sentences.
fn resample(counts: &[Vec<Counts>], seed: u64, number: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let sentences = counts.first().map_or(0, Vec::len);
    let mut sums = vec![Counts::default(); counts.len()];
    for _ in 0..sentences {
        // The high half of the product is uniform over 0..sentences, up to a bias of sentences / 2^64.
        let drawn = (u128::from(random.next_u64()) * sentences as u128) >> 64;
        for (sum, model) in sums.iter_mut().zip(counts) {
            *sum += model[drawn as usize];
        }
    }
    sums.iter().map(Counts::f1).collect()
}

fn compare(
    counts: &[Vec<Counts>],
    samples: &[Vec<f64>],
    model: usize,
    baseline: usize,
) -> F1Difference {
    let f1 = |model: usize| counts[model].iter().copied().sum::<Counts>().f1();
    let differences: Vec<f64> = samples
        .iter()
        .map(|sample| sample[model] - sample[baseline])
        .collect();
    let share = |count: usize| (count + 1) as f64 / (differences.len() + 1) as f64;
    let below = share(differences.iter().filter(|value| **value <= 0.0).count());
    let above = share(differences.iter().filter(|value| **value >= 0.0).count());
    F1Difference {
        value: f1(model) - f1(baseline),
        p: (2.0 * below.min(above)).min(1.0),
        interval: interval(differences),
    }
}

/// The 2.5 % and 97.5 % quantiles.
fn interval(mut values: Vec<f64>) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    Interval {
        low: quantile(&values, 0.025),
        high: quantile(&values, 0.975),
    }
}

/// A quantile of sorted values, interpolated linearly between neighbours; 0 when there are no values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let position = share * last as f64;
    let (below, above) = (
        sorted[position.floor() as usize],
        sorted[position.ceil() as usize],
    );
    below + (above - below) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(correct: u64) -> Counts {
        Counts {
            correct,
            predicted: 4,
            gold: 4,
        }
    }

    fn options(seed: u64) -> AnalysisOptions {
        AnalysisOptions {
            worst: 0,
            resamples: 999,
            seed,
        }
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values: Vec<f64> = (0..=40).map(f64::from).collect();
        // 2.5 % of 40 steps is one step.
        assert_eq!(quantile(&values, 0.025), 1.0);
        assert_eq!(quantile(&[1.0, 3.0], 0.25), 1.5);
        assert_eq!(quantile(&[7.0], 0.975), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn equal_models_have_no_difference() {
        let model: Vec<Counts> = (0..20).map(|index| counts(index % 5)).collect();
        let results = bootstrap(&[model.clone(), model], 0, options(1));
        assert_eq!(results[0].difference, None);
        let difference = results[1].difference.expect("not the baseline");
        assert_eq!((difference.value, difference.p), (0.0, 1.0));
        assert_eq!(
            difference.interval,
            Interval {
                low: 0.0,
                high: 0.0
            }
        );
        assert_eq!(results[0].f1, results[1].f1);
        // 20 sentences with 0, 1, 2, 3 and 4 of 4 correct in turn: F1 is 0.5, and the interval contains it.
        assert!(results[0].f1.low < 0.5 && 0.5 < results[0].f1.high);
    }

    #[test]
    fn a_model_better_on_every_sentence_has_the_smallest_p_value() {
        // Every sentence has 3 of 4 correct against 2 of 4, so every resample differs by exactly 0.25.
        let results = bootstrap(&[vec![counts(2); 10], vec![counts(3); 10]], 0, options(1));
        let difference = results[1].difference.expect("not the baseline");
        assert_eq!(difference.value, 0.25);
        assert_eq!(
            difference.interval,
            Interval {
                low: 0.25,
                high: 0.25
            }
        );
        assert_eq!(difference.p, 2.0 / 1000.0);
        // With the other model as the baseline only the sign changes.
        let results = bootstrap(&[vec![counts(2); 10], vec![counts(3); 10]], 1, options(1));
        let difference = results[0].difference.expect("not the baseline");
        assert_eq!((difference.value, difference.p), (-0.25, 0.002));
    }

    #[test]
    fn results_depend_on_the_seed_but_not_on_the_threads() {
        let models: Vec<Vec<Counts>> = (1..4u64)
            .map(|step| (0..37).map(|index| counts(index * step % 5)).collect())
            .collect();
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.expect("a pool of threads");
            pool.install(|| bootstrap(&models, 1, options(seed)))
        };
        assert_eq!(with(1, 7), with(5, 7));
        assert_ne!(with(1, 7), with(1, 8));
    }

    #[test]
    fn no_sentences_do_not_panic() {
        let results = bootstrap(&[Vec::new(), Vec::new()], 0, options(1));
        assert_eq!(
            results[1].difference.map(|difference| difference.p),
            Some(1.0)
        );
    }
}
