//! Dynamic loss scaling for f16, whose small gradients would become 0.
//!
//! The loss is multiplied by a factor before the backward pass, and the gradients are divided by it in f32. If a gradient
//! overflows, the step is skipped and the factor halved; after many steps without overflow it is doubled.

use serde::{Deserialize, Serialize};

use crate::nn::precision::Precision;

/// The first factor.
const INITIAL: f64 = 65_536.0;

/// Steps without overflow after which the factor is doubled.
const GROWTH_STEPS: usize = 2_000;

/// Largest factor.
const LARGEST: f64 = 16_777_216.0;

/// The state of loss scaling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// The factor of the next step.
    pub factor: f64,
    /// Steps since it last changed.
    pub steps: usize,
    /// Steps that were skipped so far.
    pub skipped: usize,
}

impl LossScale {
    /// Loss scaling at the start of a run in this format; `None` if it needs none.
    pub fn of(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then_some(Self {
            factor: INITIAL,
            steps: 0,
            skipped: 0,
        })
    }

    /// Counts a step whose gradients are finite.
    pub fn count_step(&mut self) {
        self.steps += 1;
        if self.steps >= GROWTH_STEPS {
            self.factor = (2.0 * self.factor).min(LARGEST);
            self.steps = 0;
        }
    }

    /// Lowers the factor after an overflow and counts the step as skipped. Returns false if it is 1 already, so that the
    /// loss itself must be at fault.
    pub fn skip_step(&mut self) -> bool {
        if self.factor <= 1.0 {
            return false;
        }
        self.factor = (self.factor / 2.0).max(1.0);
        self.steps = 0;
        self.skipped += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_falls_on_overflow_and_rises_after_many_steps() {
        assert_eq!(LossScale::of(Precision::F32), None);
        assert_eq!(LossScale::of(Precision::Bf16), None);
        let mut scale = LossScale::of(Precision::F16).unwrap();
        assert!(scale.skip_step());
        assert_eq!((scale.factor, scale.skipped), (32_768.0, 1));
        for _ in 0..GROWTH_STEPS - 1 {
            scale.count_step();
        }
        assert_eq!(scale.factor, 32_768.0);
        scale.count_step();
        assert_eq!((scale.factor, scale.steps), (65_536.0, 0));
        let skipped = (0..100).filter(|_| scale.skip_step()).count();
        assert_eq!((scale.factor, skipped, scale.skipped), (1.0, 16, 17));
        for _ in 0..100 * GROWTH_STEPS {
            scale.count_step();
        }
        assert_eq!(scale.factor, LARGEST);
    }
}
