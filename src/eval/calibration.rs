//! Fits a [`Calibration`] to the scores of mentions on dev sentences.
//!
//! Three methods are fitted: temperature scaling, Platt scaling (with a bias) and, given enough mentions, isotonic
//! regression. A method is taken if its cross-validated negative log-likelihood is clearly lower than that of the scores as
//! they are and of the simpler methods. Folds are made by sentence, and nothing is random.

use super::reliability::ScoredMention;
use crate::model::calibration::{CLAMP, Calibration, MAX_KNOTS, logit, sigmoid};

/// With fewer mentions, nothing is fitted.
pub const MIN_MENTIONS: usize = 30;

/// With fewer mentions, isotonic regression is not tried.
pub const MIN_MENTIONS_ISOTONIC: usize = 1000;

/// Number of folds of the cross-validation.
const FOLDS: usize = 5;

/// A method must lower the negative log-likelihood by more than this share.
const MIN_GAIN: f64 = 1e-3;

/// Largest inverse temperature; its inverse is the smallest. Both keep the map monotone and smooth.
const MAX_SLOPE: f64 = 10.0;

/// Minimum number of mentions per block of the isotonic regression, before blocks are pooled.
const MIN_BLOCK: usize = 20;

/// Pooled blocks have one probability; it rises from this much below to this much above, so that the map increases
/// strictly.
const RISE: f64 = 1e-4;

/// The calibration of a model, and the scores it gives to mentions it was not fitted on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The calibration, fitted on all mentions; `None` if no method improves the scores.
    pub calibration: Option<Calibration>,
    /// The same mentions with cross-fitted scores: each is calibrated with the other folds' mentions only.
    pub cross_fitted: Vec<ScoredMention>,
}

/// Fits a calibration to the scores of mentions.
///
/// ```
/// use nerzoo::eval::calibration::fit;
/// use nerzoo::eval::reliability::{Reliability, ScoredMention};
///
/// // A model that gives every mention a score of 0.99, and is right in three of four cases.
/// let mention = |index| ScoredMention { sentence: index, score: 0.99, correct: index % 4 > 0 };
/// let scored: Vec<ScoredMention> = (0..400).map(mention).collect();
/// let calibration = fit(&scored).calibration.unwrap();
/// assert!((calibration.apply(0.99) - 0.75).abs() < 0.01);
/// ```
pub fn fit(scored: &[ScoredMention]) -> Fit {
    let mut best = Fit {
        calibration: None,
        cross_fitted: scored.to_vec(),
    };
    if scored.len() < MIN_MENTIONS {
        return best;
    }
    let mut methods: Vec<Method> = vec![temperature, platt];
    if scored.len() >= MIN_MENTIONS_ISOTONIC {
        methods.push(isotonic);
    }
    let mut lowest = negative_log_likelihood(scored);
    for method in methods {
        let cross_fitted = cross_fit(method, scored);
        let loss = negative_log_likelihood(&cross_fitted);
        if loss < lowest * (1.0 - MIN_GAIN) {
            lowest = loss;
            best = Fit {
                calibration: Some(method(scored)),
                cross_fitted,
            };
        }
    }
    best
}

/// Fits one kind of calibration.
type Method = fn(&[ScoredMention]) -> Calibration;

/// Mean negative log-likelihood of the mentions' correctness under their scores.
fn negative_log_likelihood(scored: &[ScoredMention]) -> f64 {
    let loss = |mention: &ScoredMention| {
        let score = f64::from(mention.score).clamp(CLAMP, 1.0 - CLAMP);
        -(if mention.correct { score } else { 1.0 - score }).ln()
    };
    scored.iter().map(loss).sum::<f64>() / scored.len().max(1) as f64
}

/// Calibrates the mentions of each fold with those of the others.
fn cross_fit(method: Method, scored: &[ScoredMention]) -> Vec<ScoredMention> {
    let fold_of = |mention: &ScoredMention| mention.sentence % FOLDS;
    let calibrations: Vec<Calibration> = (0..FOLDS)
        .map(|fold| {
            let others = scored.iter().filter(|mention| fold_of(mention) != fold);
            method(&others.copied().collect::<Vec<_>>())
        })
        .collect();
    let calibrate = |mention: &ScoredMention| ScoredMention {
        score: calibrations[fold_of(mention)].apply(mention.score),
        ..*mention
    };
    scored.iter().map(calibrate).collect()
}

fn temperature(scored: &[ScoredMention]) -> Calibration {
    let [slope, _] = LogisticFit::new(scored).minimum(false);
    Calibration::Temperature {
        temperature: rounded(1.0 / slope),
    }
}

fn platt(scored: &[ScoredMention]) -> Calibration {
    let [slope, bias] = LogisticFit::new(scored).minimum(true);
    Calibration::Platt {
        temperature: rounded(1.0 / slope),
        bias: rounded(bias),
    }
}

/// Six decimals: enough, and read back from JSON as exactly the same number.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Logistic regression of correctness on the logit of the score.
struct LogisticFit {
    /// Logit and target probability of each mention.
    points: Vec<(f64, f64)>,
}

impl LogisticFit {
    /// Targets are those of Platt (1999), slightly inside 0 and 1, so that the minimum is finite even if all mentions are
    /// correct.
    fn new(scored: &[ScoredMention]) -> Self {
        let correct = scored.iter().filter(|mention| mention.correct).count() as f64;
        let wrong = scored.len() as f64 - correct;
        let target = |is_correct| {
            if is_correct {
                (correct + 1.0) / (correct + 2.0)
            } else {
                1.0 / (wrong + 2.0)
            }
        };
        let point = |mention: &ScoredMention| {
            let logit = logit(f64::from(mention.score));
            (logit, target(mention.correct))
        };
        Self {
            points: scored.iter().map(point).collect(),
        }
    }

    /// Slope (the inverse temperature) and bias with the lowest loss, by Newton's method with step halving. Without
    /// `with_bias` the bias is 0.
    fn minimum(&self, with_bias: bool) -> [f64; 2] {
        let mut at = [1.0, 0.0];
        let mut loss = self.loss(at);
        for _ in 0..100 {
            let step = self.newton_step(at, with_bias);
            let next = (0..40).find_map(|halvings| {
                let share = 0.5f64.powi(halvings);
                let slope = (at[0] - share * step[0]).clamp(1.0 / MAX_SLOPE, MAX_SLOPE);
                let next = [slope, at[1] - share * step[1]];
                let next_loss = self.loss(next);
                (next_loss < loss).then_some((next, next_loss))
            });
            let Some((next, next_loss)) = next else {
                break;
            };
            let is_done = loss - next_loss < 1e-12 * loss;
            (at, loss) = (next, next_loss);
            if is_done {
                break;
            }
        }
        at
    }

    fn loss(&self, [slope, bias]: [f64; 2]) -> f64 {
        let loss = |&(logit, target): &(f64, f64)| {
            let z = slope * logit + bias;
            // ln(1 + exp(z)) without overflow
            z.max(0.0) + (-z.abs()).exp().ln_1p() - target * z
        };
        self.points.iter().map(loss).sum()
    }

    /// The gradient times the inverse Hessian. A slope at its limit stays there if the step would leave the limit.
    fn newton_step(&self, [slope, bias]: [f64; 2], with_bias: bool) -> [f64; 2] {
        let (mut gradient, mut hessian) = ([0.0; 2], [0.0; 3]);
        for &(logit, target) in &self.points {
            let probability = sigmoid(slope * logit + bias);
            let variance = probability * (1.0 - probability);
            gradient[0] += (probability - target) * logit;
            gradient[1] += probability - target;
            hessian[0] += variance * logit * logit;
            hessian[1] += variance * logit;
            hessian[2] += variance;
        }
        // Keeps the Hessian invertible if all scores are equal.
        hessian[0] += 1e-9;
        hessian[2] += 1e-9;
        let is_at_limit = (slope <= 1.0 / MAX_SLOPE && gradient[0] > 0.0)
            || (slope >= MAX_SLOPE && gradient[0] < 0.0);
        if !with_bias {
            return if is_at_limit {
                [0.0; 2]
            } else {
                [gradient[0] / hessian[0], 0.0]
            };
        }
        if is_at_limit {
            return [0.0, gradient[1] / hessian[2]];
        }
        let determinant = hessian[0] * hessian[2] - hessian[1] * hessian[1];
        [
            (hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
            (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant,
        ]
    }
}

/// Mentions with neighbouring scores.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    count: f64,
    correct: f64,
    /// Mean score of the mentions. Of several blocks pooled, the first one's and the last one's.
    scores: [f64; 2],
}

impl Block {
    fn new(mentions: &[ScoredMention]) -> Self {
        let count = mentions.len() as f64;
        let scores = mentions.iter().map(|mention| f64::from(mention.score));
        Self {
            count,
            correct: mentions.iter().filter(|mention| mention.correct).count() as f64,
            scores: [scores.sum::<f64>() / count; 2],
        }
    }

    /// The share of correct mentions, with half a mention of each kind added: never exactly 0 or 1.
    fn probability(&self) -> f64 {
        (self.correct + 0.5) / (self.count + 1.0)
    }

    fn pooled(self, next: Self) -> Self {
        Self {
            count: self.count + next.count,
            correct: self.correct + next.correct,
            scores: [self.scores[0], next.scores[1]],
        }
    }

    /// One knot, or two if several blocks are pooled.
    fn knots(&self) -> Vec<[f64; 2]> {
        let [first, last] = self.scores;
        let probability = self.probability();
        if first == last {
            vec![[first, probability]]
        } else {
            vec![[first, probability - RISE], [last, probability + RISE]]
        }
    }
}

fn isotonic(scored: &[ScoredMention]) -> Calibration {
    Calibration::Isotonic {
        knots: knots(&pool_adjacent_violators(&equal_count_blocks(scored))),
    }
}

/// The mentions in blocks of about equal size, sorted by score. Equal scores are in the same block.
fn equal_count_blocks(scored: &[ScoredMention]) -> Vec<Block> {
    let mut sorted = scored.to_vec();
    sorted.sort_by(|one, other| one.score.total_cmp(&other.score));
    // Two knots are for the ends.
    let size = sorted.len().div_ceil(MAX_KNOTS - 2).max(MIN_BLOCK);
    let mut blocks = Vec::new();
    let mut rest = &sorted[..];
    while !rest.is_empty() {
        let last = rest[size.min(rest.len()) - 1].score;
        let end = rest.partition_point(|mention| mention.score <= last);
        blocks.push(Block::new(&rest[..end]));
        rest = &rest[end..];
    }
    blocks
}

/// Pools neighbouring blocks until probabilities increase from block to block.
fn pool_adjacent_violators(blocks: &[Block]) -> Vec<Block> {
    let mut pooled: Vec<Block> = Vec::new();
    for block in blocks {
        let mut block = *block;
        while let Some(last) = pooled.pop_if(|last| last.probability() >= block.probability()) {
            block = last.pooled(block);
        }
        pooled.push(block);
    }
    pooled
}

/// The knots of all blocks and one for each end. Below the first block the probability falls to 0; above the last one it
/// hardly rises, as nothing is known about higher scores.
fn knots(blocks: &[Block]) -> Vec<[f64; 2]> {
    let (first, mut last) = ([0.0, 0.0], [1.0, 1.0]);
    let Some(highest) = blocks.last() else {
        return vec![first, last];
    };
    let probability = highest.probability();
    last[1] = rounded(probability + RISE.max(0.01 * (1.0 - probability))).min(1.0);
    let mut knots = vec![first];
    let mut previous = first;
    for knot in blocks.iter().flat_map(Block::knots) {
        let knot = knot.map(rounded);
        let increases = |from: [f64; 2], to: [f64; 2]| from[0] < to[0] && from[1] < to[1];
        // Rounding and the small rise of pooled blocks can make neighbours equal.
        if increases(previous, knot) && increases(knot, last) {
            knots.push(knot);
            previous = knot;
        }
    }
    knots.push(last);
    knots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::reliability::Reliability;

    /// For each score 200 mentions in sentences of their own, with this probability correct, in an order that gives every
    /// fold the same share.
    fn scored(points: &[(f32, f64)]) -> Vec<ScoredMention> {
        let mut all = Vec::new();
        for &(score, probability) in points {
            all.extend((0..200).map(|index| ScoredMention {
                sentence: index,
                score,
                correct: ((index / FOLDS) as f64) < (40.0 * probability).round(),
            }));
        }
        all
    }

    fn scores_from(first: usize, last: usize) -> impl Iterator<Item = f32> {
        (first..=last).map(|part| part as f32 / 40.0)
    }

    #[test]
    fn a_known_temperature_is_found() {
        // True odds are the square root of the model's: 81 to 1 is 9 to 1.
        let points = [
            (81.0f32 / 82.0, 0.9),
            (9.0 / 10.0, 0.75),
            (0.5, 0.5),
            (0.1, 0.25),
        ];
        let fit = fit(&scored(&points));
        let Some(Calibration::Temperature { temperature }) = fit.calibration else {
            panic!("{:?}", fit.calibration);
        };
        assert!((temperature - 2.0).abs() < 0.03, "{temperature}");
        let error = |scored: &[ScoredMention]| Reliability::of(scored).calibration_error().unwrap();
        // (0.0878 + 0.15 + 0 + 0.15) / 4
        assert!((error(&scored(&points)) - 0.09695).abs() < 1e-4);
        assert!(error(&fit.cross_fitted) < 0.01);
    }

    #[test]
    fn a_known_bias_is_found() {
        // True odds are half the model's: 18 to 1 is 9 to 1.
        let points = [
            (18.0f32 / 19.0, 0.9),
            (6.0 / 7.0, 0.75),
            (2.0 / 3.0, 0.5),
            (1.0 / 3.0, 0.2),
        ];
        let Some(Calibration::Platt { temperature, bias }) = fit(&scored(&points)).calibration
        else {
            panic!("{:?}", fit(&scored(&points)).calibration);
        };
        assert!((temperature - 1.0).abs() < 0.03, "{temperature}");
        assert!((bias + 2f64.ln()).abs() < 0.03, "{bias}");
    }

    #[test]
    fn a_step_needs_isotonic_regression() {
        let probability = |score| if score < 0.7 { 0.2 } else { 0.8 };
        let points: Vec<(f32, f64)> =
            (scores_from(10, 39).map(|score| (score, probability(score)))).collect();
        let calibration = fit(&scored(&points)).calibration.unwrap();
        assert_eq!(calibration.method(), "isotonic");
        assert_eq!(calibration.check(), Ok(()));
        for (score, expected) in [(0.4, 0.2), (0.6, 0.2), (0.8, 0.8), (0.95, 0.8)] {
            let found = calibration.apply(score);
            assert!((found - expected).abs() < 0.05, "{score}: {found}");
        }
        // A fifth of the mentions is too few for it.
        let few: Vec<ScoredMention> = (scored(&points).into_iter().step_by(31)).collect();
        assert!(few.len() < MIN_MENTIONS_ISOTONIC);
        assert_ne!(fit(&few).calibration.unwrap().method(), "isotonic");
    }

    #[test]
    fn good_scores_and_few_mentions_are_left_alone() {
        let points: Vec<(f32, f64)> = scores_from(2, 38)
            .map(|score| (score, f64::from(score)))
            .collect();
        let good = scored(&points);
        assert_eq!(fit(&good).calibration, None);
        assert_eq!(fit(&good).cross_fitted, good);
        let few = vec![
            ScoredMention {
                sentence: 0,
                score: 0.99,
                correct: false,
            };
            MIN_MENTIONS - 1
        ];
        assert_eq!(fit(&few).calibration, None);
        assert_eq!(fit(&[]).calibration, None);
    }

    #[test]
    fn extreme_mentions_give_valid_maps() {
        let mentions =
            |score: fn(usize) -> f32, correct: fn(usize) -> bool| -> Vec<ScoredMention> {
                let mention = |index| ScoredMention {
                    sentence: index,
                    score: score(index),
                    correct: correct(index),
                };
                (0..2000).map(mention).collect()
            };
        let cases = [
            mentions(|_| 1.0, |_| true),
            mentions(|_| 0.0, |_| true),
            mentions(|_| 1.0, |index| index % 3 == 0),
            mentions(|index| index as f32 / 2000.0, |index| index < 1000), // the wrong way round
            mentions(|index| index as f32 / 2000.0, |index| index >= 1000), // separable
            mentions(|index| 1.0 - index as f32 * 1e-7, |index| index < 1000),
        ];
        for scored in &cases {
            for method in [temperature, platt, isotonic] {
                let calibration = method(scored);
                assert_eq!(calibration.check(), Ok(()), "{calibration:?}");
                // Values read back from JSON are the same to the last bit.
                let text = serde_json::to_string(&calibration).unwrap();
                assert_eq!(
                    serde_json::from_str::<Calibration>(&text).unwrap(),
                    calibration
                );
            }
        }
        for method in [temperature, platt, isotonic] {
            assert_eq!(method(&[]).check(), Ok(()));
            assert!((method(&[]).apply(0.3) - 0.3).abs() < 1e-6);
        }
        // A score that says the opposite of the truth becomes nearly constant, but is not turned round.
        let Calibration::Temperature { temperature } = temperature(&cases[3]) else {
            panic!("temperature scaling has a temperature");
        };
        assert_eq!(temperature, 10.0);
    }

    #[test]
    fn violators_are_pooled() {
        let block = |score: f64, correct| Block {
            count: 4.0,
            correct,
            scores: [score; 2],
        };
        let blocks = [
            block(0.2, 1.0),
            block(0.4, 3.0),
            block(0.6, 2.0),
            block(0.9, 4.0),
        ];
        let pooled = pool_adjacent_violators(&blocks);
        let expected = Block {
            count: 8.0,
            correct: 5.0,
            scores: [0.4, 0.6],
        };
        assert_eq!(pooled, [blocks[0], expected, blocks[3]]);
        // 1.5 of 5, 5.5 of 9, 4.5 of 5; the last knot is a hundredth of the way from 0.9 to 1.
        let expected = [
            [0.0, 0.0],
            [0.2, 0.3],
            [0.4, 0.611011],
            [0.6, 0.611211],
            [0.9, 0.9],
            [1.0, 0.901],
        ];
        assert_eq!(knots(&pooled), expected);
    }

    #[test]
    fn equal_scores_are_in_one_block() {
        let mention = |index: usize| ScoredMention {
            sentence: index,
            score: if index < 500 {
                0.25
            } else {
                index as f32 / 1000.0
            },
            correct: true,
        };
        let scored: Vec<ScoredMention> = (0..1000).map(mention).collect();
        let blocks = equal_count_blocks(&scored);
        // 1000 mentions in at most 48 blocks are 21 in each.
        let counts: Vec<f64> = blocks.iter().map(|block| block.count).collect();
        assert_eq!(counts[..2], [500.0, 21.0]);
        assert_eq!(counts.len(), 1 + 24);
        assert_eq!(counts.iter().sum::<f64>(), 1000.0);
        assert!((blocks[1].scores[0] - 0.51).abs() < 1e-6);
    }
}
