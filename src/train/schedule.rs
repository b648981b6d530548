//! The learning rate over the steps of a run: linear warm-up and decay, optionally with its own peak for the head.

use burn::module::ParamGroup;
use burn::optim::LearningRate;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::lr_scheduler::{LrScheduler, LrSchedulerRecord};

use crate::recipe::TrainConfig;

/// Linear warm-up to a peak, then linear decay to 0 over the steps of a run.
#[derive(Debug, Clone)]
pub struct WarmUp {
    peak: f64,
    rising: usize,
    total: usize,
    step: usize,
}

impl LrScheduler for WarmUp {
    fn step(&mut self) -> LearningRate {
        let step = self.step as f64;
        self.step += 1;
        if self.step <= self.rising {
            self.peak * (step / self.rising as f64)
        } else {
            let left = self.total.saturating_sub(self.step - 1) as f64;
            self.peak * left / (self.total.saturating_sub(self.rising).max(1)) as f64
        }
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar("step", self.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(step) = record.scalar("step") {
            self.step = step;
        }
    }
}

/// Two schedules, one after the other; the first may have no steps.
#[derive(Debug, Clone)]
struct Stages {
    first: WarmUp,
    /// Factor for the first schedule's rate after its warm-up.
    boost: f64,
    second: WarmUp,
}

impl LrScheduler for Stages {
    fn step(&mut self) -> LearningRate {
        if self.first.step >= self.first.total {
            return self.second.step();
        }
        let risen = self.first.step >= self.first.rising;
        self.first.step() * if risen { self.boost } else { 1.0 }
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new().with_scalar("step", self.first.step + self.second.step)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(step) = record.scalar::<usize>("step") {
            self.first.step = step.min(self.first.total);
            self.second.step = step - self.first.step;
        }
    }
}

/// The learning-rate schedule of a run of `total` steps, with a group of its own for the head if it has its own rate.
pub fn scheduler(train: &TrainConfig, total: usize) -> ModuleLrScheduler {
    let stage = |peak, total: usize| WarmUp {
        peak,
        rising: (train.warm_up * total as f64) as usize,
        total,
        step: 0,
    };
    let frozen = match train.freeze_rate {
        Some(_) => total * train.freeze_encoder.min(train.epochs) / train.epochs.max(1),
        None => 0,
    };
    let warm_up = |peak| Stages {
        first: stage(peak, frozen),
        boost: train.freeze_rate.unwrap_or(1.0),
        second: stage(peak, total - frozen),
    };
    let scheduler = ModuleLrScheduler::new(warm_up(train.learning_rate));
    match train.head_learning_rate {
        Some(rate) => scheduler.with_group(
            ParamGroup::from_regex(r"^(head|encoder\.features)\.").expect("a valid pattern"),
            warm_up(rate),
        ),
        None => scheduler,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let mut schedule = WarmUp {
            peak: 1.0,
            rising: 2,
            total: 6,
            step: 0,
        };
        let rates: Vec<f64> = (0..7).map(|_| schedule.step()).collect();
        assert_eq!(rates, [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]);
        let mut resumed = WarmUp {
            step: 0,
            ..schedule.clone()
        };
        resumed.load_record(
            WarmUp {
                step: 3,
                ..schedule
            }
            .to_record(),
        );
        assert_eq!(resumed.step(), 0.75);
    }

    #[test]
    fn a_stage_can_come_before_and_be_resumed_in() {
        let stage = |rising, total| WarmUp {
            peak: 1.0,
            rising,
            total,
            step: 0,
        };
        let fresh = Stages {
            first: stage(1, 3),
            boost: 2.0,
            second: stage(2, 4),
        };
        let mut schedule = fresh.clone();
        let mut records = vec![schedule.to_record()];
        let mut rates = Vec::new();
        for _ in 0..8 {
            rates.push(schedule.step());
            records.push(schedule.to_record());
        }
        assert_eq!(rates, [0.0, 2.0, 1.0, 0.0, 0.5, 1.0, 0.5, 0.0]);
        for (done, record) in records.into_iter().enumerate().take(8) {
            let mut resumed = fresh.clone();
            resumed.load_record(record);
            assert_eq!(resumed.step(), rates[done], "after {done}");
        }
    }
}
