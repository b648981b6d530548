//! The plan of a comparison: which candidates, how many epochs, and after which epochs the worse half drops out.

use serde::{Deserialize, Serialize};

/// A comparison never trains its candidates longer than this without being asked to.
pub const MOST_EPOCHS: usize = 20;
/// Share of the time for training; the rest is for the final scores and the report.
pub const TRAINING_SHARE: f64 = 0.85;

/// The epochs of every candidate, and the rungs: the epochs after which candidates are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Epochs of a candidate that is trained to its end.
    pub epochs: usize,
    /// Epochs completed at the end of each rung, increasing; the last is `epochs`.
    pub rungs: Vec<usize>,
}

impl Schedule {
    /// At most this many rungs, each with about twice the epochs of the one before it.
    pub fn new(epochs: usize, rungs: usize) -> Self {
        let epochs = epochs.max(1);
        let halvings = (0..rungs.max(1) as u32).rev();
        let ends = halvings.map(|halvings| epochs.div_ceil(2usize.saturating_pow(halvings)));
        let mut rungs: Vec<usize> = ends.collect();
        rungs.dedup();
        Self { epochs, rungs }
    }

    /// Epochs trained in a rung.
    pub fn new_epochs(&self, rung: usize) -> usize {
        self.rungs[rung] - rung.checked_sub(1).map_or(0, |before| self.rungs[before])
    }

    /// Seconds for this rung and all later ones when these candidates enter it. As it is not known who will survive, later
    /// rungs are counted with the mean.
    pub fn seconds(&self, rung: usize, entering: &[Cost]) -> f64 {
        let mean = Cost::mean(entering);
        let mut count = entering.len();
        let mut total = 0.0;
        for rung in rung..self.rungs.len() {
            total += count as f64 * mean.seconds(self.new_epochs(rung));
            count = survivors(count);
        }
        total
    }
}

/// The time that a candidate takes, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// To read the corpus and the encoder, once per rung.
    pub start: f64,
    /// For an epoch with its dev evaluation.
    pub epoch: f64,
}

impl Cost {
    /// For some epochs of a rung.
    pub fn seconds(&self, epochs: usize) -> f64 {
        self.start + epochs as f64 * self.epoch
    }

    /// The mean; 0 without any.
    pub fn mean(costs: &[Self]) -> Self {
        let count = costs.len().max(1) as f64;
        let mean = |part: fn(&Self) -> f64| costs.iter().map(part).sum::<f64>() / count;
        Self {
            start: mean(|cost| cost.start),
            epoch: mean(|cost| cost.epoch),
        }
    }
}

/// How many of the candidates of a rung enter the next one: the better half, but two unless there was only one.
pub fn survivors(candidates: usize) -> usize {
    candidates.div_ceil(2).max(2).min(candidates)
}

/// The number of rungs after which two candidates remain.
pub fn default_rungs(candidates: usize) -> usize {
    let mut rungs = 1;
    let mut left = candidates;
    while left > 2 {
        left = survivors(left);
        rungs += 1;
    }
    rungs
}

/// The number of epochs that a corpus needs at the least for its candidates to be comparable: small corpora need more.
pub fn needed_epochs(sentences: usize) -> usize {
    (12_000 / sentences.max(1)).clamp(3, 10)
}

/// A candidate as the planner sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entrant {
    /// True for a head with its default settings.
    pub is_default: bool,
    /// Its time.
    pub cost: Cost,
}

/// What the planner decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The indices of the candidates that take part, in their order.
    pub kept: Vec<usize>,
    /// Epochs and rungs.
    pub schedule: Schedule,
    /// False when even the smallest plan takes longer than there is time.
    pub fits: bool,
}

/// The numbers that are given instead of chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// Epochs.
    pub epochs: Option<usize>,
    /// Rungs.
    pub rungs: Option<usize>,
}

/// Plans for a number of seconds: as many epochs as fit. Where fewer than `needed` epochs would fit, candidates are left
/// out: first settings other than the default, slowest first, then the slowest heads.
pub fn choose(entrants: &[Entrant], seconds: f64, needed: usize, given: Given) -> Choice {
    let mut kept: Vec<usize> = (0..entrants.len()).collect();
    // Two heads in fewer epochs are better than one head alone.
    for (least_epochs, least_kept) in [(needed, 2), (1, 1)] {
        loop {
            if let Some(schedule) = longest(entrants, &kept, seconds, least_epochs, given) {
                return Choice {
                    kept,
                    schedule,
                    fits: true,
                };
            }
            if kept.len() <= least_kept {
                break;
            }
            leave_one_out(entrants, &mut kept);
        }
    }
    let epochs = given.epochs.unwrap_or(1);
    Choice {
        schedule: Schedule::new(epochs, given.rungs.unwrap_or(1)),
        kept,
        fits: false,
    }
}

/// The schedule with the most epochs that fits, if one with at least this many does.
fn longest(
    entrants: &[Entrant],
    kept: &[usize],
    seconds: f64,
    least: usize,
    given: Given,
) -> Option<Schedule> {
    let rungs = given.rungs.unwrap_or_else(|| default_rungs(kept.len()));
    let costs: Vec<Cost> = kept.iter().map(|index| entrants[*index].cost).collect();
    let epochs = match given.epochs {
        Some(epochs) => epochs..=epochs,
        None => least..=MOST_EPOCHS,
    };
    let mut schedules = epochs.rev().map(|epochs| Schedule::new(epochs, rungs));
    schedules.find(|schedule| schedule.seconds(0, &costs) <= seconds)
}

/// Leaves out the slowest candidate with other settings than the default, or the slowest of all where there is none.
fn leave_one_out(entrants: &[Entrant], kept: &mut Vec<usize>) {
    let slowest = (0..kept.len()).max_by(|a, b| {
        let key = |position: usize| {
            let entrant = &entrants[kept[position]];
            (!entrant.is_default, entrant.cost.epoch)
        };
        let ((a_variant, a), (b_variant, b)) = (key(*a), key(*b));
        a_variant.cmp(&b_variant).then(a.total_cmp(&b))
    });
    if let Some(slowest) = slowest {
        kept.remove(slowest);
    }
}

/// How many of the candidates, best first, can enter a rung so that it and the later ones end within these seconds; at least
/// one.
pub fn affordable(schedule: &Schedule, rung: usize, ranked: &[Cost], seconds: f64) -> usize {
    let fits = |count: &usize| schedule.seconds(rung, &ranked[..*count]) <= seconds;
    (1..=ranked.len()).rev().find(fits).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrants(costs: &[(bool, f64)]) -> Vec<Entrant> {
        let entrant = |(is_default, epoch): &(bool, f64)| Entrant {
            is_default: *is_default,
            cost: Cost {
                start: 1.0,
                epoch: *epoch,
            },
        };
        costs.iter().map(entrant).collect()
    }

    #[test]
    fn rungs_double_and_do_not_repeat() {
        let rungs = |epochs, rungs| Schedule::new(epochs, rungs).rungs;
        assert_eq!(rungs(20, 4), [3, 5, 10, 20]);
        assert_eq!(rungs(8, 4), [1, 2, 4, 8]);
        assert_eq!(rungs(3, 4), [1, 2, 3]);
        assert_eq!(rungs(1, 4), [1]);
        assert_eq!(rungs(2, 2), [1, 2]);
        assert_eq!(rungs(5, 1), [5]);
        let schedule = Schedule::new(8, 4);
        assert_eq!(
            [0, 1, 2, 3].map(|rung| schedule.new_epochs(rung)),
            [1, 1, 2, 4]
        );
    }

    #[test]
    fn the_better_half_survives_until_two_are_left() {
        assert_eq!([15, 8, 5, 4, 3, 2, 1].map(survivors), [8, 4, 3, 2, 2, 2, 1]);
        assert_eq!([15, 8, 4, 3, 2, 1].map(default_rungs), [4, 3, 2, 2, 1, 1]);
    }

    #[test]
    fn the_time_of_a_schedule_counts_survivors_only() {
        let costs = [Cost {
            start: 1.0,
            epoch: 10.0,
        }; 4];
        // Four candidates for one epoch, then two for another: 4 * 11 + 2 * 11.
        assert_eq!(Schedule::new(2, 2).seconds(0, &costs), 66.0);
        assert_eq!(Schedule::new(2, 2).seconds(1, &costs[..2]), 22.0);
    }

    #[test]
    fn as_many_epochs_as_fit_are_planned() {
        let four = entrants(&[(true, 10.0), (false, 10.0), (true, 10.0), (false, 10.0)]);
        let plan = |seconds| choose(&four, seconds, 3, Given::default());
        // Rungs 4 and 8: 4 * (1 + 40) + 2 * (1 + 40) = 246 seconds.
        let choice = plan(246.0);
        assert_eq!(
            choice.schedule,
            Schedule {
                epochs: 8,
                rungs: vec![4, 8]
            }
        );
        assert_eq!((choice.kept, choice.fits), (vec![0, 1, 2, 3], true));
        assert_eq!(plan(245.0).schedule.epochs, 7);
        assert_eq!(plan(1e6).schedule.epochs, 20);
    }

    #[test]
    fn settings_then_slow_heads_are_left_out() {
        let all = entrants(&[
            (true, 10.0),
            (false, 60.0),
            (true, 40.0),
            (false, 5.0),
            (true, 20.0),
        ]);
        let plan = |seconds| choose(&all, seconds, 3, Given::default());
        // All five in rungs 1, 2 and 3 take (5 + 3 + 2) * (1 + 27) seconds.
        assert_eq!(plan(280.0).kept, [0, 1, 2, 3, 4]);
        // Four in rungs 2 and 3: 4 * (1 + 2 * 18.75) + 2 * (1 + 18.75) = 193.5.
        assert_eq!(plan(200.0).kept, [0, 2, 3, 4]);
        // Three defaults in rungs 2 and 3: 3 * (1 + 140 / 3) + 2 * (1 + 70 / 3) = 191.7.
        let choice = plan(192.0);
        assert_eq!(
            (choice.kept, choice.schedule.rungs),
            (vec![0, 2, 4], vec![2, 3])
        );
        // Two heads of 10 and 20 seconds for three epochs: 2 * (1 + 45).
        let choice = plan(92.0);
        assert_eq!((choice.kept, choice.schedule.rungs), (vec![0, 4], vec![3]));
        // Fewer epochs than needed.
        let choice = plan(70.0);
        assert_eq!((choice.kept, choice.schedule.epochs), (vec![0, 4], 2));
        let choice = plan(11.0);
        assert_eq!(
            (choice.kept, choice.schedule.epochs, choice.fits),
            (vec![0], 1, true)
        );
        let choice = plan(5.0);
        assert_eq!(
            (choice.kept, choice.schedule.epochs, choice.fits),
            (vec![0], 1, false)
        );
    }

    #[test]
    fn given_epochs_are_kept() {
        let all = entrants(&[(true, 10.0), (true, 20.0), (true, 30.0)]);
        let given = Given {
            epochs: Some(2),
            rungs: Some(2),
        };
        let choice = choose(&all, 100.0, 5, given);
        assert_eq!(
            (choice.kept, choice.schedule.rungs),
            (vec![0, 1], vec![1, 2])
        );
    }

    #[test]
    fn fewer_candidates_continue_when_time_runs_out() {
        let schedule = Schedule::new(4, 2);
        let ranked = [Cost {
            start: 0.0,
            epoch: 10.0,
        }; 4];
        // The second rung takes 20 seconds for each.
        assert_eq!(affordable(&schedule, 1, &ranked, 80.0), 4);
        assert_eq!(affordable(&schedule, 1, &ranked, 59.0), 2);
        assert_eq!(affordable(&schedule, 1, &ranked, 0.0), 1);
    }

    #[test]
    fn small_corpora_need_more_epochs() {
        assert_eq!([100, 1500, 3707, 100_000].map(needed_epochs), [10, 8, 3, 3]);
    }
}
