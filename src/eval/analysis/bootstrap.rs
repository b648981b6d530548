//! How far scores and their differences can be trusted: the paired bootstrap over sentences.
//!
//! Each resample draws as many sentences as there are, with replacement, and scores every model on the same draw.
//! Every resample has its own stream of random numbers, so the result does not depend on the number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::Options;
use crate::eval::Counts;

/// The middle 95 % of what the resamples gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// 2.5 % of the resamples are below.
    pub low: f64,
    /// 2.5 % of the resamples are above.
    pub high: f64,
}

/// A model against the standard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// F1 of the model minus F1 of the standard, on the sentences as they are.
    pub value: f64,
    /// Where the difference lies in 95 % of the resamples.
    pub interval: Interval,
    /// Two-sided p-value: how rarely a resample crosses to the other side of zero. Never below
    /// `2 / (resamples + 1)`, as finitely many resamples cannot say more.
    pub p: f64,
}

/// What the resamples say about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Significance {
    /// Where its F1 lies in 95 % of the resamples.
    pub f1: Interval,
    /// Its difference to the standard; none for the standard itself.
    pub difference: Option<Difference>,
}

/// Resamples the sentences; `counts[model][sentence]` is what a model did where.
pub(super) fn bootstrap(
    counts: &[Vec<Counts>],
    standard: usize,
    options: Options,
) -> Vec<Significance> {
    // [resample][model]
    let samples: Vec<Vec<f64>> = (0..options.resamples as u64)
        .into_par_iter()
        .map(|number| resample(counts, options.seed, number))
        .collect();
    (0..counts.len())
        .map(|model| {
            let difference =
                (model != standard).then(|| compare(counts, &samples, model, standard));
            Significance {
                f1: interval(samples.iter().map(|sample| sample[model]).collect()),
                difference,
            }
        })
        .collect()
}

/// F1 of every model on one draw of sentences.
fn resample(counts: &[Vec<Counts>], seed: u64, number: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number);
    let sentences = counts.first().map_or(0, Vec::len);
    let mut sums = vec![Counts::default(); counts.len()];
    for _ in 0..sentences {
        // The high half of the product is even over 0..sentences but for one part in 2^64 / sentences.
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
    standard: usize,
) -> Difference {
    let f1 = |model: usize| counts[model].iter().copied().sum::<Counts>().f1();
    let differences: Vec<f64> = samples
        .iter()
        .map(|sample| sample[model] - sample[standard])
        .collect();
    let share = |count: usize| (count + 1) as f64 / (differences.len() + 1) as f64;
    let below = share(differences.iter().filter(|value| **value <= 0.0).count());
    let above = share(differences.iter().filter(|value| **value >= 0.0).count());
    Difference {
        value: f1(model) - f1(standard),
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

/// A quantile of sorted values, between two of them where it falls between; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = share * last as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
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

    fn options(seed: u64) -> Options {
        Options {
            worst: 0,
            resamples: 999,
            seed,
        }
    }

    #[test]
    fn quantiles_lie_between_values() {
        let values: Vec<f64> = (0..=40).map(f64::from).collect();
        // 2.5 % of 40 steps is one step.
        assert_eq!(quantile(&values, 0.025), 1.0);
        assert_eq!(quantile(&[1.0, 3.0], 0.25), 1.5);
        assert_eq!(quantile(&[7.0], 0.975), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn equal_models_do_not_differ() {
        let model: Vec<Counts> = (0..20).map(|index| counts(index % 5)).collect();
        let results = bootstrap(&[model.clone(), model], 0, options(1));
        assert_eq!(results[0].difference, None);
        let difference = results[1].difference.expect("not the standard");
        assert_eq!((difference.value, difference.p), (0.0, 1.0));
        assert_eq!(
            difference.interval,
            Interval {
                low: 0.0,
                high: 0.0
            }
        );
        assert_eq!(results[0].f1, results[1].f1);
        // 20 sentences with 0, 1, 2, 3 and 4 of 4 right in turn: F1 is 0.5, and the interval holds it.
        assert!(results[0].f1.low < 0.5 && 0.5 < results[0].f1.high);
    }

    #[test]
    fn a_model_better_everywhere_is_as_sure_as_can_be() {
        // Every sentence has 3 of 4 right against 2 of 4, so every resample differs by exactly 0.25.
        let results = bootstrap(&[vec![counts(2); 10], vec![counts(3); 10]], 0, options(1));
        let difference = results[1].difference.expect("not the standard");
        assert_eq!(difference.value, 0.25);
        assert_eq!(
            difference.interval,
            Interval {
                low: 0.25,
                high: 0.25
            }
        );
        assert_eq!(difference.p, 2.0 / 1000.0);
        // Seen from the other side only the signs change.
        let results = bootstrap(&[vec![counts(2); 10], vec![counts(3); 10]], 1, options(1));
        let difference = results[0].difference.expect("not the standard");
        assert_eq!((difference.value, difference.p), (-0.25, 0.002));
    }

    #[test]
    fn threads_change_nothing_and_seeds_do() {
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
    fn nothing_to_draw_from_is_no_panic() {
        let results = bootstrap(&[Vec::new(), Vec::new()], 0, options(1));
        assert_eq!(
            results[1].difference.map(|difference| difference.p),
            Some(1.0)
        );
    }
}
