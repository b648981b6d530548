//! The diffusion process on the host: noise schedules, spans as signals, the forward and the backward step.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::config::{Config, Coordinates, Rescaling, Variance};

/// Two values of a span: its signal (coordinates scaled to −λ..λ, plus noise) or its boundaries as fractions of the
/// sentence.
pub type Pair = [f64; 2];

/// The noise schedule: how much of the signal is left at each timestep.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseSchedule {
    /// ᾱ of each timestep.
    pub alpha_bar: Vec<f64>,
}

impl NoiseSchedule {
    /// The schedule for T timesteps.
    pub fn new(variance: Variance, timesteps: usize) -> Self {
        let total = timesteps as f64;
        let beta = |time: usize| match variance {
            Variance::Cosine => {
                let height = |time: f64| {
                    ((time / total + 0.008) / 1.008 * std::f64::consts::FRAC_PI_2)
                        .cos()
                        .powi(2)
                };
                (1.0 - height(time as f64 + 1.0) / height(time as f64)).clamp(0.0, 0.999)
            }
            Variance::Linear => {
                let (first, last) = (0.1 / total, 20.0 / total);
                first + (last - first) * time as f64 / (total - 1.0)
            }
        };
        let mut product = 1.0;
        Self {
            alpha_bar: (0..timesteps)
                .map(|time| {
                    product *= 1.0 - beta(time);
                    product
                })
                .collect(),
        }
    }

    /// The timesteps of the denoising steps, each with the timestep it leads to; the last leads to none.
    pub fn timesteps(&self, steps: usize) -> Vec<(usize, Option<usize>)> {
        let total = self.alpha_bar.len() as f64;
        let time = |step: usize| (step as f64 * total / steps as f64 - 1.0) as usize;
        (1..=steps)
            .rev()
            .map(|step| (time(step), (step > 1).then(|| time(step - 1))))
            .collect()
    }

    /// Equation (4): a signal with the amount of noise of a timestep.
    pub fn noisy(&self, signal: Pair, time: usize, noise: Pair) -> Pair {
        let alpha_bar = self.alpha_bar[time];
        each(|side| alpha_bar.sqrt() * signal[side] + (1.0 - alpha_bar).sqrt() * noise[side])
    }

    /// Equations (6) and (7): from a noisy span and the network's prediction to a less noisy span. With η > 0 a part of the
    /// noise is replaced by new noise.
    pub fn denoised(
        &self,
        noisy: Pair,
        predicted: Pair,
        (time, next): (usize, usize),
        eta: f64,
        new_noise: Pair,
    ) -> Pair {
        let (now, then) = (self.alpha_bar[time], self.alpha_bar[next]);
        let sigma = eta * ((1.0 - now / then) * (1.0 - then) / (1.0 - now)).sqrt();
        let direction = (1.0 - then - sigma * sigma).max(0.0).sqrt();
        each(|side| {
            let noise = (noisy[side] / now.sqrt() - predicted[side]) / (1.0 / now - 1.0).sqrt();
            predicted[side] * then.sqrt() + direction * noise + sigma * new_noise[side]
        })
    }
}

fn each(value: impl Fn(usize) -> f64) -> Pair {
    [value(0), value(1)]
}

/// Prediction from spread spans starts at the last of so many equal parts of the timesteps: there noise moves a boundary by
/// a few words only.
pub const SPREAD_PART: usize = 10;

/// `count` spans that cover a sentence evenly, as first and last word: all of one word, then of two, three, ... words; of a
/// length whose spans are too many, every so many. Repeated from the start if there are fewer spans than wanted.
pub fn spread(words: usize, count: usize) -> Vec<[usize; 2]> {
    let mut spans = Vec::with_capacity(count);
    for length in 1..=words {
        let starts = words - length + 1;
        let wanted = starts.min(count - spans.len());
        spans.extend((0..wanted).map(|index| {
            let start = index * starts / wanted;
            [start, start + length - 1]
        }));
        if spans.len() == count {
            return spans;
        }
    }
    if spans.is_empty() {
        return vec![[0, 0]; count];
    }
    spans.into_iter().cycle().take(count).collect()
}

/// Converts spans of words to signals and back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanGeometry {
    coordinates: Coordinates,
    rescaling: Rescaling,
    scale: f64,
}

impl SpanGeometry {
    /// The conversion with these settings.
    pub fn of(config: &Config) -> Self {
        Self {
            coordinates: config.coordinates,
            rescaling: config.rescaling,
            scale: config.scale,
        }
    }

    /// From boundaries as fractions of the sentence to the two coordinates in 0..1.
    fn coordinates(&self, [left, right]: Pair) -> Pair {
        match self.coordinates {
            Coordinates::Boundaries => [left, right],
            Coordinates::Width => [left, right - left],
        }
    }

    /// From coordinates in 0..1 to a signal.
    pub fn signal(&self, coordinates: Pair) -> Pair {
        each(|side| (2.0 * coordinates[side] - 1.0) * self.scale)
    }

    /// The signal of a gold entity, given by its first and last word, in a sentence of `words` words.
    pub fn of_entity(&self, words: usize, left: usize, right: usize) -> Pair {
        let words = words.max(1) as f64;
        self.signal(self.coordinates([left as f64 / words, right as f64 / words]))
    }

    /// The signal of a predicted span, given by its first and last word.
    pub fn of_prediction(&self, words: usize, left: usize, right: usize) -> Pair {
        let divisor = match self.rescaling {
            Rescaling::Words => words.max(1) as f64,
            Rescaling::Mixed => words.saturating_sub(1) as f64 + 1e-20,
        };
        let signal = self.signal(self.coordinates([left as f64 / divisor, right as f64 / divisor]));
        signal.map(|value| value.clamp(-self.scale, self.scale))
    }

    /// The coordinates of a random span from two normally distributed values.
    pub fn random(&self, noise: Pair) -> Pair {
        let [first, second] = noise.map(|value| value / 6.0 + 0.5);
        match self.coordinates {
            Coordinates::Boundaries => [first.min(second), first.max(second)],
            Coordinates::Width => [first, second.max(1e-4)],
        }
    }

    /// From a signal to boundaries as fractions of the sentence.
    pub fn fractions(&self, signal: Pair) -> Pair {
        let [first, second] =
            signal.map(|value| (value.clamp(-self.scale, self.scale) / self.scale + 1.0) / 2.0);
        let boundaries = match self.coordinates {
            Coordinates::Boundaries => [first, second],
            Coordinates::Width => [first, first + second],
        };
        boundaries.map(|value| value.clamp(0.0, 1.0))
    }

    /// From fractions of the sentence to word indices, the left one first.
    pub fn words(&self, fractions: Pair, words: usize) -> [usize; 2] {
        let last = words.saturating_sub(1);
        let factor = match self.rescaling {
            Rescaling::Words => words,
            Rescaling::Mixed => last,
        };
        let [one, other] = fractions
            .map(|fraction| ((fraction * factor as f64).round_ties_even() as usize).min(last));
        [one.min(other), one.max(other)]
    }
}

/// A seeded generator of normally distributed values.
#[derive(Debug)]
pub struct Noise(ChaCha8Rng);

impl Noise {
    /// A generator; the same seed gives the same values.
    pub fn new(seed: u64) -> Self {
        Self::stream(seed, 0)
    }

    /// One of many independent generators with the same seed.
    pub fn stream(seed: u64, number: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number);
        Self(random)
    }

    /// A uniformly distributed value in 0..1.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A uniformly distributed integer below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.uniform() * limit as f64) as usize).min(limit.saturating_sub(1))
    }

    /// Two independent normally distributed values (Box–Muller).
    pub fn pair(&mut self) -> Pair {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * self.uniform();
        [radius * angle.cos(), radius * angle.sin()]
    }

    /// `count` such pairs.
    pub fn pairs(&mut self, count: usize) -> Vec<Pair> {
        (0..count).map(|_| self.pair()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::settings::{Preset, Settings};

    #[test]
    fn spread_spans_cover_the_sentence() {
        assert_eq!(spread(3, 5), [[0, 0], [1, 1], [2, 2], [0, 1], [1, 2]]);
        assert_eq!(spread(4, 2), [[0, 0], [2, 2]]);
        let repeated = [[0, 0], [1, 1], [0, 1], [0, 0]];
        assert_eq!(spread(2, 4), repeated);
        assert_eq!(spread(0, 2), [[0, 0], [0, 0]]);
        assert_eq!(spread(9, 20).len(), 20);
    }

    #[test]
    fn steps_end_before_the_first_timestep() {
        let schedule = NoiseSchedule::new(Variance::Cosine, 1000);
        let times = schedule.timesteps(5);
        let expected = [(999, 799), (799, 599), (599, 399), (399, 199)];
        assert_eq!(times[..4], expected.map(|(time, next)| (time, Some(next))));
        assert_eq!(times[4], (199, None));
        assert_eq!(schedule.timesteps(1), [(999, None)]);
        assert_eq!(schedule.timesteps(1000).len(), 1000);
        assert_eq!(schedule.timesteps(1000)[999], (0, None));
        for variance in [Variance::Cosine, Variance::Linear] {
            let kept = NoiseSchedule::new(variance, 1000).alpha_bar;
            assert!(kept.is_sorted_by(|one, next| one > next));
            assert!(kept[0] > 0.99 && kept[999] < 1e-4);
        }
    }

    /// Without noise every span is converted back to its words, with either kind of coordinates.
    #[test]
    fn spans_without_noise_are_converted_back() {
        for preset in [Preset::Paper, Preset::Released] {
            let geometry = SpanGeometry::of(&Config::of(preset));
            for words in 1..40 {
                for left in 0..words {
                    for right in left..words {
                        let there = geometry.of_prediction(words, left, right);
                        let back = geometry.words(geometry.fractions(there), words);
                        assert_eq!(back, [left, right], "{preset:?} {words}");
                    }
                }
            }
        }
    }

    /// A perfect prediction at every step removes all noise.
    #[test]
    fn denoising_ends_at_the_prediction() {
        let schedule = NoiseSchedule::new(Variance::Cosine, 1000);
        let (signal, mut noise) = ([0.25, -0.5], Noise::new(3));
        for eta in [0.0, 1.0] {
            let mut span = noise.pair();
            for (time, next) in schedule.timesteps(50) {
                if let Some(next) = next {
                    span = schedule.denoised(span, signal, (time, next), eta, noise.pair());
                }
            }
            for side in 0..2 {
                assert!((span[side] - signal[side]).abs() < 0.15, "{eta} {span:?}");
            }
        }
    }

    #[test]
    fn noise_is_normal() {
        let mut noise = Noise::new(7);
        let values: Vec<f64> = noise.pairs(20_000).concat();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / count;
        let beyond = values.iter().filter(|value| value.abs() > 1.96).count() as f64 / count;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03);
        assert!((beyond - 0.05).abs() < 0.005, "{beyond}");
    }
}
