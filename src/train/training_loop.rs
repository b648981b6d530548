//! The training loop.
//!
//! Burn's own loop restarts shuffling and random numbers on resume and saves only between epochs. Here the order of
//! batches, dropout and negative samples of a step are functions of the seed and the step's number, so a resumed run
//! ends with the same bits as an uninterrupted one.

use std::sync::Arc;
use std::time::Instant;

use burn::data::dataloader::Progress;
use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::Device;
use burn::train::metric::store::EventStoreClient;
use burn::train::{
    EventProcessorTraining, Interrupter, Learner, LearnerEvent, LearningCheckpointer,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingItem, ValidLoader,
};

use super::batches::{Batch, Loader};
use super::checkpoints::Checkpoints;
use super::device_pool::DevicePool;
use super::optimizer::{GradientScale, all_finite};
use super::progress::Reporter;
use super::run::ProgressOutput;
use super::shape_counter::ShapeCounter;
use super::state::{DevScore, RunState, StopRule};
use super::step::{self, Outcome, ValidationSums};
use super::tune;
use crate::error::{Error, Result, explain_full_disk};
use crate::heads::Head;
use crate::model::recognizer::Recognizer;
use crate::process;
use crate::recipe::TrainConfig;

/// What a training loop runs on.
pub(super) struct LoopConfig<H: Head> {
    /// The `[train]` table of the recipe.
    pub train: TrainConfig,
    /// Autodiff devices; the first holds the weights.
    pub devices: Vec<Device>,
    /// The training batches.
    pub loader: Loader<H>,
    /// The number of batches of each epoch.
    pub batches: Vec<usize>,
    /// Where the run starts.
    pub state: RunState,
    /// Whether that state comes from a checkpoint.
    pub resumed: bool,
    /// The checkpoints of the run.
    pub checkpoints: Checkpoints,
    /// Gradient clipping, shared with the optimizer.
    pub scale: GradientScale,
    /// The epoch after which the run pauses, if it is not finished before.
    pub last_epoch: usize,
    /// Save a checkpoint before the first step too.
    pub checkpoint_first: bool,
    /// How progress is shown.
    pub output: ProgressOutput,
}

/// A run in progress.
pub(super) struct TrainingLoop<'a, H: Head> {
    config: &'a LoopConfig<H>,
    state: RunState,
    learner: Learner<Recognizer<H>>,
    events: SupervisedTrainingEventProcessor<Recognizer<H>>,
    checkpointer: LearningCheckpointer<Recognizer<H>>,
    interrupter: Interrupter,
    store: Arc<EventStoreClient>,
    pool: DevicePool<H>,
    reporter: Reporter,
    /// The shapes of all steps so far.
    shapes: ShapeCounter,
    stop_rule: StopRule,
    last_save: Instant,
    started: Instant,
    seconds_before: f64,
    /// CPU seconds of the run before this process, minus those of the process before the run.
    cpu_seconds_before: f64,
}

/// What is left of a training loop at its end.
pub(super) struct LoopEnd<H: Head> {
    /// Whether everything that Burn does in other threads succeeded.
    pub result: Result<()>,
    /// The last state.
    pub state: RunState,
    /// The model after the last step.
    pub model: Recognizer<H>,
    /// Burn's events.
    pub events: SupervisedTrainingEventProcessor<Recognizer<H>>,
}

/// Batches of one optimizer step, each with its number in the run.
type StepBatches<H> = Vec<(usize, Batch<<H as Head>::Gold>)>;

impl<'a, H: Head> TrainingLoop<'a, H> {
    /// A loop at the start of the run, or where its checkpoint left it.
    pub fn new(
        config: &'a LoopConfig<H>,
        components: TrainingComponents<Recognizer<H>>,
        mut learner: Learner<Recognizer<H>>,
    ) -> Self {
        let state = config.state.clone();
        let checkpointer = (components.checkpointer).expect("a run registers its checkpointer");
        learner.fork(&config.devices[0]);
        if config.resumed {
            learner = checkpointer.load_checkpoint(learner, state.step);
        }
        let epochs = components.num_epochs;
        let (seconds, silent) = (
            config.train.report_seconds,
            config.output != ProgressOutput::Lines,
        );
        Self {
            learner,
            events: components.event_processor,
            checkpointer,
            interrupter: components.interrupter,
            store: components.event_store,
            pool: DevicePool::new(&config.devices),
            reporter: Reporter::new(silent, seconds, config.batches.clone()),
            shapes: ShapeCounter::default(),
            stop_rule: StopRule {
                epochs,
                patience: config.train.patience,
            },
            last_save: Instant::now(),
            started: Instant::now(),
            seconds_before: state.seconds,
            cpu_seconds_before: state.cpu_seconds - process::cpu_seconds().unwrap_or(0.0),
            state,
            config,
        }
    }

    /// Trains until the run is finished, at the epoch after which it pauses, stopped by the user, or failed.
    pub fn run(
        &mut self,
        train: &TrainLoader<Recognizer<H>>,
        valid: &ValidLoader<Recognizer<H>>,
    ) -> Result<()> {
        let result = self.run_epochs(train, valid);
        if result.is_err() && self.config.output == ProgressOutput::Terminal {
            // Tells the terminal display that the run is over.
            self.interrupter.stop(Some("an error"));
        }
        result
    }

    fn run_epochs(
        &mut self,
        train: &TrainLoader<Recognizer<H>>,
        valid: &ValidLoader<Recognizer<H>>,
    ) -> Result<()> {
        if self.config.checkpoint_first && !self.config.resumed {
            self.save()?;
        }
        let last = self.config.last_epoch;
        let ended = |state: &RunState| state.finished || state.epoch > last;
        while !ended(&self.state) && !self.interrupter.should_stop() {
            // Burn panics when a device is out of memory or lost.
            match process::catch(|| self.epoch(train, valid)) {
                Ok(result) => result?,
                Err(panic) => return Err(self.device_failed(panic.into())),
            }
        }
        Ok(())
    }

    /// Waits until all checkpoints are on disk and returns the final state, the model and Burn's events. Burn writes
    /// checkpoints in other threads, so a failure to write one is known only now.
    pub fn close(self) -> LoopEnd<H> {
        drop(self.checkpointer);
        LoopEnd {
            result: match self.interrupter.error() {
                Some(error) => Err(Error::Training(explain_full_disk(&error.to_string()))),
                None => Ok(()),
            },
            state: self.state,
            model: self.learner.model(),
            events: self.events,
        }
    }

    fn epoch(
        &mut self,
        train: &TrainLoader<Recognizer<H>>,
        valid: &ValidLoader<Recognizer<H>>,
    ) -> Result<()> {
        let epoch = self.state.epoch;
        self.train_event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: train.num_items(),
        });
        self.train_epoch(train)?;
        self.train_event(LearnerEvent::EndSplit(epoch));
        if self.interrupter.should_stop() {
            return self.save_unless_failed();
        }
        let dev = if valid.num_items() > 0 {
            Some(self.validate(epoch, valid)?)
        } else {
            None
        };
        self.train_event(LearnerEvent::EndEpoch(epoch));
        let flushed = self.events.flush();
        self.interrupter.fail_on_error(flushed);
        if !self.interrupter.should_stop() {
            self.set_seconds();
            let rate = self.learner.lr_current().base();
            self.state.end_epoch(dev, rate, self.stop_rule);
            self.reporter.epoch(&self.state);
            if self.config.loader.batcher().ladder.is_some() {
                tracing::info!("epochs up to {epoch}: {}", self.shapes);
            }
        }
        // Stopped during validation, the epoch is saved with all its batches done: resuming validates again.
        self.save_unless_failed()
    }

    /// The rest of the current epoch's batches.
    fn train_epoch(&mut self, train: &TrainLoader<Recognizer<H>>) -> Result<()> {
        let config = self.config;
        let epoch = self.state.epoch;
        let per_epoch = config.batches[epoch - 1];
        let before: usize = config.batches[..epoch - 1].iter().sum();
        config.loader.seek(epoch, self.state.batch);
        let mut batches = train.iter();
        while self.state.batch < per_epoch {
            let wanted = config.train.accumulate.min(per_epoch - self.state.batch);
            let mut group: StepBatches<H> = Vec::with_capacity(wanted);
            for number in self.state.batch..self.state.batch + wanted {
                match batches.next() {
                    Some(Ok(batch)) => {
                        self.shapes.add(&batch);
                        group.push((before + number, batch));
                    }
                    Some(Err(problem)) => return Err(Error::Training(problem.to_string())),
                    None => {
                        return Err(Error::Training(format!(
                            "the batches of epoch {epoch} ended after {number} of {per_epoch}: making a batch failed, \
                             see above"
                        )));
                    }
                }
            }
            let outcomes = self.step(group)?;
            if config.output == ProgressOutput::Terminal {
                process::enable_terminal_signals();
            }
            for outcome in outcomes {
                self.record_batch(outcome, batches.progress());
            }
            if self.interrupter.should_stop() {
                return Ok(());
            }
            if self.state.batch < per_epoch && self.checkpoint_is_due() {
                self.save()?;
            }
        }
        Ok(())
    }

    /// One update of the weights from the mean gradient of several batches. Fails without an update when a loss or the
    /// gradient norm is not finite.
    fn step(&mut self, group: StepBatches<H>) -> Result<Vec<Outcome>> {
        let config = self.config;
        let count = group.len();
        let scale = self.state.loss_scale.map_or(1.0, |scale| scale.factor);
        let group = group.into_iter().map(|(number, mut batch)| {
            batch.loss_scale = scale;
            (number, batch)
        });
        let group: StepBatches<H> = group.collect();
        let sentences: Vec<Vec<usize>> = group.iter().map(|(_, b)| b.sentences.clone()).collect();
        let model = self.learner.model();
        let mut accumulator = GradientsAccumulator::new();
        let mut single = None;
        let mut outcomes = Vec::with_capacity(count);
        let mut group = group.into_iter().peekable();
        while group.peek().is_some() {
            let at_once = group.by_ref().take(self.pool.size()).collect();
            let outputs = (self.pool)
                .compute(&self.learner, at_once, config.train.seed)
                .map_err(|problem| self.device_failed(problem.into()))?;
            for output in outputs {
                if count == 1 {
                    single = Some(output.grads);
                } else {
                    accumulator.accumulate(&model, output.grads);
                }
                outcomes.push(output.item);
            }
        }
        let gradients = single.unwrap_or_else(|| accumulator.grads());
        let losses = (outcomes.iter_mut()).filter_map(|outcome| outcome.unread.take());
        let losses = losses.collect();
        let (norm, losses) =
            (config.scale).set_from_norm(&model, &gradients, losses, config.train.clip, scale);
        drop(model);
        for (index, (outcome, loss)) in outcomes.iter_mut().zip(losses).enumerate() {
            outcome.loss = loss;
            if !loss.is_finite() {
                self.state.batch += index;
                return Err(self.not_finite(&format!("loss became {loss}"), &sentences[index]));
            }
        }
        if norm.is_finite() {
            if let Some(scale) = &mut self.state.loss_scale {
                scale.count_step();
            }
            self.learner.lr_step();
            self.learner.optimizer_step(gradients);
        } else if self.skip_step() {
            self.learner.lr_step();
        } else {
            let what = "gradient norm became infinite or NaN";
            return Err(self.not_finite(what, &sentences.concat()));
        }
        self.state.step += 1;
        Ok(outcomes)
    }

    /// Lowers the loss scale of f16 after an overflow; false if there is none to lower.
    fn skip_step(&mut self) -> bool {
        let Some(scale) = &mut self.state.loss_scale else {
            return false;
        };
        let is_lowered = scale.skip_step();
        if is_lowered {
            tracing::info!(
                "a step is skipped because a gradient overflowed in f16: the loss scale is {} now, {} steps were skipped so far",
                scale.factor,
                scale.skipped
            );
        }
        is_lowered
    }

    /// Adds a batch to the state and reports it.
    fn record_batch(&mut self, outcome: Outcome, progress: Progress) {
        self.state.add_batch(outcome.loss, outcome.sentences);
        self.set_seconds();
        let iteration = Some(self.state.batch);
        let rate = self.learner.lr_current();
        self.reporter
            .step(&self.state, outcome.sentences, rate.base());
        let item = TrainingItem::new(outcome, progress, iteration, Some(rate));
        self.train_event(LearnerEvent::ProcessedItem(item));
    }

    /// Loss and scores on the dev sentences, computed without autodiff.
    fn validate(&mut self, epoch: usize, valid: &ValidLoader<Recognizer<H>>) -> Result<DevScore> {
        let model = self.learner.model().valid();
        let mut sums = ValidationSums::default();
        self.valid_event(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: valid.num_items(),
        });
        let mut batches = valid.iter();
        let mut iteration = 0;
        let mut dev = Vec::new();
        while let Some(batch) = batches.next() {
            let batch = batch.map_err(|problem| Error::Training(problem.to_string()))?;
            let (outcome, scored) = step::validate(&model, batch);
            sums.add(&outcome);
            if self.config.train.tune {
                dev.extend(scored);
            }
            iteration += 1;
            let item = TrainingItem::new(outcome, batches.progress(), Some(iteration), None);
            self.valid_event(LearnerEvent::ProcessedItem(item));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.valid_event(LearnerEvent::EndSplit(epoch));
        if self.config.output != ProgressOutput::Terminal {
            for count in &sums.diagnostics {
                tracing::info!("epoch {epoch}: {count}");
            }
        }
        self.state.other = sums.other.map(|(name, counts)| (name, counts.f1()));
        // The model is judged with the settings that it would be used with.
        let counts = if dev.is_empty() || self.interrupter.should_stop() {
            sums.counts
        } else {
            tune::tune(&model.head, &dev)?.cross_fitted
        };
        Ok(DevScore {
            loss: sums.loss / valid.num_items().max(1) as f64,
            counts,
            as_trained: sums.counts,
        })
    }

    fn train_event(&mut self, event: LearnerEvent<Outcome>) {
        let result = self.events.process_train(event);
        self.interrupter.fail_on_error(result);
    }

    fn valid_event(&mut self, event: LearnerEvent<Outcome>) {
        let result = self.events.process_valid(event);
        self.interrupter.fail_on_error(result);
    }

    /// Puts the time so far into the state.
    fn set_seconds(&mut self) {
        self.state.seconds = self.seconds_before + self.started.elapsed().as_secs_f64();
        if let Some(seconds) = process::cpu_seconds() {
            self.state.cpu_seconds = self.cpu_seconds_before + seconds;
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        self.last_save.elapsed().as_secs_f64() > 60.0 * self.config.train.checkpoint_minutes
    }

    /// Saves a checkpoint, unless something failed in Burn: then earlier checkpoints are the ones to resume from.
    fn save_unless_failed(&mut self) -> Result<()> {
        if self.interrupter.error().is_some() {
            return Ok(());
        }
        self.save()
    }

    fn save(&mut self) -> Result<()> {
        // Weights that are not finite must not replace a good checkpoint.
        if !all_finite(&self.learner.model()) {
            return Err(Error::Training(format!(
                "some weights are not finite after step {}, so no checkpoint was written; earlier ones are kept. Lower \
                 train.learning_rate, or raise train.epsilon or train.warm_up",
                self.state.step
            )));
        }
        self.config.checkpoints.announce(self.state.clone());
        self.checkpointer
            .checkpoint(&self.learner, self.state.step, &self.store);
        self.last_save = Instant::now();
        Ok(())
    }

    fn device_failed(&self, cause: Box<dyn std::error::Error + Send + Sync>) -> Error {
        let remedy = if self.config.checkpoint_first {
            "Restart all workers, as the others do not reconnect to a restarted one"
        } else {
            "If it ran out of memory, lower train.batch"
        };
        Error::DeviceFailed {
            context: format!(
                "a device failed in epoch {}, batch {} (after step {}); {}. {remedy}; then continue with --resume",
                self.state.epoch,
                self.state.batch,
                self.state.step,
                self.kept_checkpoint(),
            ),
            source: cause,
        }
    }

    /// What a resumed run would start from.
    fn kept_checkpoint(&self) -> String {
        match self.config.checkpoints.newest() {
            Ok(Some(state)) => format!("the checkpoint after step {} is kept", state.step),
            _ => "no checkpoint was written yet".into(),
        }
    }

    fn not_finite(&self, what: &str, sentences: &[usize]) -> Error {
        let texts = &self.config.loader.batcher().corpus.sentences;
        let numbers: Vec<String> = sentences.iter().map(|i| (i + 1).to_string()).collect();
        let first = sentences.first().map_or("", |i| texts[*i].text.as_str());
        Error::Training(format!(
            "the {what} in epoch {}, batch {} (after step {}); {}. Lower train.learning_rate, raise train.warm_up, or \
             look at the batch: training sentences [{}], the first of them {first:?}",
            self.state.epoch,
            self.state.batch,
            self.state.step,
            self.kept_checkpoint(),
            numbers.join(", "),
        ))
    }
}
