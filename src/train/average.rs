//! Averaging the weights of the last epochs (`train.average`).
//!
//! The averaged weights are read from checkpoints, so a run that is stopped and resumed gets the same average, bit for bit.

use std::fmt;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde::Serialize;

use super::checkpoints::Checkpoints;
use super::curves::Point;
use super::prepare::PreparedRun;
use super::run::{ProgressOutput, TrainOptions};
use super::state::RunState;
use crate::device;
use crate::error::Result;
use crate::eval::evaluate;
use crate::heads::Head;
use crate::model::folder;
use crate::model::recognizer::Recognizer;
use crate::nn::host;
use crate::recipe::TrainConfig;

/// Which epochs are averaged: so many in a row, up to the last one or up to the best one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AverageWindow {
    /// The largest number of epochs; 0 for no average.
    pub epochs: usize,
    /// Whether the best epoch is the last of them. This is so for runs with `train.patience`: when patience ends a run,
    /// its last epochs are those that were not better.
    pub up_to_best: bool,
}

impl AverageWindow {
    /// The window of a run with these settings.
    pub fn of(train: &TrainConfig) -> Self {
        Self {
            epochs: train.average,
            up_to_best: train.patience > 0,
        }
    }

    /// The epochs to average if the run ends in this state, in order.
    pub fn epochs<'a>(&self, state: &'a RunState) -> &'a [Point] {
        let points = &state.curves.points;
        let best = (points.iter()).position(|point| point.step == state.best_step);
        match best {
            Some(best) if self.up_to_best => self.last_of(&points[..=best]),
            _ => self.last_of(points),
        }
    }

    /// The steps of the epoch ends that are averaged, or that may be if the run goes on.
    pub fn may_be_averaged(&self, state: &RunState) -> Vec<usize> {
        let mut points = self.epochs(state).to_vec();
        if !state.finished {
            // A later epoch may become the best, or be the last.
            points.extend_from_slice(self.last_of(&state.curves.points));
        }
        points.iter().map(|point| point.step).collect()
    }

    fn last_of<'a>(&self, points: &'a [Point]) -> &'a [Point] {
        &points[points.len().saturating_sub(self.epochs)..]
    }
}

/// Which weights became the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Chosen {
    /// The average.
    #[serde(rename = "average")]
    Average,
    /// Those of the best checkpoint.
    #[serde(rename = "best checkpoint")]
    BestCheckpoint,
}

/// The comparison of the averaged weights with the best checkpoint, as in `metrics.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Averaged {
    /// The averaged epochs.
    pub epochs: Vec<usize>,
    /// Dev F1 of the average, between 0 and 1, if there are dev sentences.
    pub dev_f1: Option<f64>,
    /// Dev F1 of the best checkpoint.
    pub best_checkpoint_dev_f1: Option<f64>,
    /// The better of the two; the best checkpoint if they are equal, the average without dev sentences.
    pub chosen: Chosen,
}

impl Averaged {
    fn new(epochs: Vec<usize>, dev_f1: Option<f64>, best_checkpoint_dev_f1: Option<f64>) -> Self {
        let chosen = match (dev_f1, best_checkpoint_dev_f1) {
            (Some(average), Some(best)) if average <= best => Chosen::BestCheckpoint,
            _ => Chosen::Average,
        };
        Self {
            epochs,
            dev_f1,
            best_checkpoint_dev_f1,
            chosen,
        }
    }
}

impl fmt::Display for Averaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epochs: Vec<String> = self.epochs.iter().map(usize::to_string).collect();
        write!(f, "average of epochs {}: ", epochs.join(", "))?;
        if let (Some(average), Some(best)) = (self.dev_f1, self.best_checkpoint_dev_f1) {
            let (average, best) = (100.0 * average, 100.0 * best);
            write!(f, "dev F1 {average:.2}, best checkpoint {best:.2}; ")?;
        }
        match self.chosen {
            Chosen::Average => write!(f, "the average becomes the model"),
            Chosen::BestCheckpoint => write!(f, "the best checkpoint becomes the model"),
        }
    }
}

/// The model of a finished run: its best checkpoint, or the average of its last epochs if `train.average` is set and the
/// average has a higher dev F1. Prints the comparison.
pub(super) fn best_or_average<H: Head>(
    run: &PreparedRun<H>,
    options: &TrainOptions,
    state: &RunState,
) -> Result<(Recognizer<H>, Option<Averaged>)> {
    let device = options.devices[0].clone().inner();
    let checkpoints = Checkpoints::at(&options.out);
    let load = |step: usize, device: &Device| {
        let fresh = Recognizer::<H>::new(&run.encoder, &run.head, &run.corpus.labels, device);
        folder::restore(fresh, &checkpoints.model_folder(step))
    };
    let best = load(state.best_step, &device)?;
    let points = AverageWindow::of(&run.recipe.train).epochs(state);
    let models = points.iter().map(|point| load(point.step, &device::cpu()));
    let average = match mean(models) {
        Ok(Some(average)) => average.to_device(&device),
        Ok(None) => return Ok((best, None)),
        // A trained model is better than none.
        Err(problem) => {
            tracing::warn!(
                "the weights of the last epochs cannot be averaged, so the best checkpoint becomes the model: {}",
                problem.chain()
            );
            return Ok((best, None));
        }
    };
    let averaged = Averaged::new(
        points.iter().map(|point| point.epoch).collect(),
        dev_f1(run, &average)?,
        dev_f1(run, &best)?,
    );
    if options.output != ProgressOutput::Silent {
        println!("{averaged}");
    }
    let model = match averaged.chosen {
        Chosen::Average => average,
        Chosen::BestCheckpoint => best,
    };
    Ok((model, Some(averaged)))
}

/// Strict F1 on the dev sentences, if there are any, as after each epoch: with settings chosen on them if the recipe says
/// so, and with a flat head scored on the outermost entities.
fn dev_f1<H: Head>(run: &PreparedRun<H>, model: &Recognizer<H>) -> Result<Option<f64>> {
    if run.corpus.dev.is_empty() {
        return Ok(None);
    }
    if let Some(tuned) = run.tune(model)? {
        return Ok(Some(tuned.cross_fitted.f1()));
    }
    let report = evaluate(&run.tagger(model), &run.corpus.dev)?;
    let counts = if model.head.nested() {
        report.overall
    } else {
        report.flat_view
    };
    Ok(Some(counts.f1()))
}

/// A model with the mean of the weights of several models, added in double precision in the given order; `None` without
/// models. At most one of them is in memory at a time.
fn mean<M: Module>(models: impl IntoIterator<Item = Result<M>>) -> Result<Option<M>> {
    let mut sum = WeightSum::default();
    let mut last = None;
    for model in models {
        drop(last.take());
        let model = model?;
        sum.next = 0;
        sum.models += 1;
        model.visit(&mut sum);
        last = Some(model);
    }
    sum.next = 0;
    Ok(last.map(|model| model.map(&mut sum)))
}

/// Sums of the parameters of several models. As a visitor it adds those of a model, as a mapper it replaces them by the mean.
#[derive(Default)]
struct WeightSum {
    /// The sum of each parameter, in the order in which a module visits them.
    sums: Vec<Vec<f64>>,
    /// The index of the parameter that comes next.
    next: usize,
    /// The number of models.
    models: usize,
}

impl ModuleVisitor for WeightSum {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values = host::floats(param.val());
        if self.next == self.sums.len() {
            self.sums.push(vec![0.0; values.len()]);
        }
        for (sum, value) in self.sums[self.next].iter_mut().zip(values) {
            *sum += f64::from(value);
        }
        self.next += 1;
    }
}

impl ModuleMapper for WeightSum {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let sum = std::mem::take(&mut self.sums[self.next]);
        self.next += 1;
        let mean = |sum: f64| (sum / self.models as f64) as f32;
        param.map(|tensor| {
            let mean: Vec<f32> = sum.into_iter().map(mean).collect();
            Tensor::from_data(TensorData::new(mean, tensor.dims()), &tensor.device())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::precision::Precision;
    use crate::train::state::{DevScore, StopRule};

    #[derive(Module, Debug)]
    struct Small {
        weight: Param<Tensor<2>>,
        bias: Param<Tensor<1>>,
    }

    fn small(weight: [[f32; 2]; 1], bias: [f32; 1]) -> Result<Small> {
        let device = device::cpu();
        Ok(Small {
            weight: Param::from_data(weight, &device),
            bias: Param::from_data(bias, &device),
        })
    }

    #[test]
    fn the_mean_of_three_models() {
        let models = [
            small([[1.0, -2.0]], [0.5]),
            small([[2.0, 4.0]], [0.5]),
            small([[6.0, 1.0]], [2.0]),
        ];
        let mean = mean(models).unwrap().unwrap();
        assert_eq!(host::floats(mean.weight.val()), [3.0, 1.0]);
        assert_eq!(mean.weight.val().dims(), [1, 2]);
        assert_eq!(host::floats(mean.bias.val()), [1.0]);
    }

    #[test]
    fn sums_are_in_double_precision() {
        // In single precision, 1e8 + 1 is 1e8.
        let models = [1e8f32, 1.0, -1e8, 3.0].map(|bias| small([[0.0; 2]], [bias]));
        let mean = mean(models).unwrap().unwrap();
        assert_eq!(host::floats(mean.bias.val()), [1.0]);
    }

    #[test]
    fn no_models_have_no_mean() {
        assert!(mean(Vec::<Result<Small>>::new()).unwrap().is_none());
    }

    /// The state after epochs of 10 steps with so many correct of 10 entities.
    fn state(correct: &[u64], epochs: usize, patience: usize) -> RunState {
        let mut state = RunState::new(String::new(), Precision::F32);
        for (epoch, correct) in correct.iter().enumerate() {
            let counts = crate::eval::Counts {
                correct: *correct,
                predicted: 10,
                gold: 10,
            };
            state.step = 10 * (epoch + 1);
            let dev = Some(DevScore {
                loss: 1.0,
                counts,
                as_trained: counts,
            });
            state.end_epoch(dev, 1e-3, StopRule { epochs, patience });
        }
        state
    }

    fn averaged(window: AverageWindow, state: &RunState) -> Vec<usize> {
        let points = window.epochs(state);
        points.iter().map(|point| point.epoch).collect()
    }

    #[test]
    fn the_last_epochs_are_averaged() {
        let window = AverageWindow {
            epochs: 3,
            up_to_best: false,
        };
        let running = state(&[5, 7, 6, 6], 5, 0);
        assert_eq!(window.may_be_averaged(&running), [20, 30, 40, 20, 30, 40]);
        let finished = state(&[5, 7, 6, 6, 6], 5, 0);
        assert_eq!(averaged(window, &finished), [3, 4, 5]);
        assert_eq!(window.may_be_averaged(&finished), [30, 40, 50]);
        let short = state(&[5, 7], 2, 0);
        assert_eq!(averaged(window, &short), [1, 2]);
        assert_eq!(averaged(AverageWindow::default(), &finished), [0; 0]);
    }

    #[test]
    fn with_patience_the_epochs_up_to_the_best_are_averaged() {
        let window = AverageWindow {
            epochs: 2,
            up_to_best: true,
        };
        let running = state(&[5, 6, 7, 6, 6], 9, 3);
        assert!(!running.finished);
        assert_eq!(window.may_be_averaged(&running), [20, 30, 40, 50]);
        let finished = state(&[5, 6, 7, 6, 6, 6], 9, 3);
        assert!(finished.finished);
        assert_eq!(averaged(window, &finished), [2, 3]);
        assert_eq!(window.may_be_averaged(&finished), [20, 30]);
    }

    #[test]
    fn the_better_one_becomes_the_model() {
        let choose = |average, best| Averaged::new(vec![4, 5], average, best);
        let better = choose(Some(0.875), Some(0.75));
        assert_eq!(
            better.to_string(),
            "average of epochs 4, 5: dev F1 87.50, best checkpoint 75.00; the average becomes the model"
        );
        assert_eq!(
            serde_json::to_value(choose(Some(0.75), Some(0.75))).unwrap(),
            serde_json::json!({
                "epochs": [4, 5],
                "dev_f1": 0.75,
                "best_checkpoint_dev_f1": 0.75,
                "chosen": "best checkpoint",
            })
        );
        assert_eq!(
            choose(None, None).to_string(),
            "average of epochs 4, 5: the average becomes the model"
        );
    }
}
