//! The training loop, as a strategy of Burn's `SupervisedTraining`.
//!
//! Burn's own loop restarts shuffling and random numbers on resume and saves only between epochs. This one makes
//! every step a function of the seed and the step's number: order, dropout and negatives of a step do not depend
//! on how the run got there, so a resumed run ends in the same bits as an uninterrupted one.

mod steps;

use std::sync::Mutex;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use burn::train::metric::store::EventStoreClient;
use burn::train::{
    EventProcessorTraining, InferenceStep, Interrupter, Learner, LearnerEvent,
    LearningCheckpointer, SupervisedLearningStrategy, SupervisedTrainingEventProcessor,
    TrainLoader, TrainingComponents, TrainingItem, ValidLoader,
};

use super::batches::Loader;
use super::checkpoints::{Checkpoints, RunState};
use super::curves::Point;
use super::device_pool::DevicePool;
use super::optimizer::{GradientScale, all_finite};
use super::progress::Reporter;
use super::step::Outcome;
use crate::error::Error;
use crate::eval::Counts;
use crate::heads::Head;
use crate::model::recognizer::Recognizer;
use crate::process;
use crate::recipe::Train;

/// A loop that can be left and entered again at any step.
pub struct ResumableTraining<H: Head> {
    /// How the run is trained.
    pub train: Train,
    /// The autodiff devices; the first holds the weights.
    pub devices: Vec<Device>,
    /// The training batches, told where to begin.
    pub loader: Loader<H>,
    /// Dev sentences exist.
    pub has_dev: bool,
    /// Where the run stands.
    pub state: Mutex<RunState>,
    /// True when that state came from a checkpoint.
    pub resumed: bool,
    /// Where checkpoints go.
    pub checkpoints: Checkpoints,
    /// The factor for gradients.
    pub scale: GradientScale,
    /// Lines of progress.
    pub reporter: Mutex<Reporter>,
    /// Save before the first step: devices of other machines may go away at any time.
    pub careful: bool,
    /// No terminal display is shown.
    pub plain: bool,
    /// Why the run cannot go on.
    pub problem: Mutex<Option<Error>>,
}

/// What one `fit` needs at every turn.
struct Session<'a, H: Head> {
    learner: Learner<Recognizer<H>>,
    events: SupervisedTrainingEventProcessor<Recognizer<H>>,
    checkpointer: LearningCheckpointer<Recognizer<H>>,
    interrupter: Interrupter,
    store: std::sync::Arc<EventStoreClient>,
    state: RunState,
    saved: Instant,
    started: Instant,
    seconds_before: f64,
    epochs: usize,
    pool: DevicePool<H>,
    settings: &'a ResumableTraining<H>,
}

impl<H: Head> SupervisedLearningStrategy<Recognizer<H>> for ResumableTraining<H> {
    fn fit(
        &self,
        components: TrainingComponents<Recognizer<H>>,
        mut learner: Learner<Recognizer<H>>,
        train: TrainLoader<Recognizer<H>>,
        valid: ValidLoader<Recognizer<H>>,
        _starting_epoch: usize,
    ) -> (
        Recognizer<H>,
        SupervisedTrainingEventProcessor<Recognizer<H>>,
    ) {
        let state = self.state.lock().expect("no other thread").clone();
        let checkpointer = components.checkpointer.expect("launch registers one");
        learner.fork(&self.devices[0]);
        if self.resumed {
            learner = checkpointer.load_checkpoint(learner, state.step);
        }
        let mut session = Session {
            learner,
            events: components.event_processor,
            checkpointer,
            interrupter: components.interrupter,
            store: components.event_store,
            seconds_before: state.seconds,
            state,
            saved: Instant::now(),
            started: Instant::now(),
            epochs: components.num_epochs,
            pool: DevicePool::new(&self.devices),
            settings: self,
        };
        if self.careful && !self.resumed {
            session.save();
        }
        while !session.state.finished && !session.interrupter.should_stop() {
            // A panic is Burn's way to say that a device is out of memory or gone.
            if let Err(reason) = process::caught(|| session.epoch(&train, &valid)) {
                session.fail(session.broken(&reason));
            }
        }
        // A terminal display forgets stops and errors when it closes; what went wrong is kept here.
        if let Some(error) = session.interrupter.error() {
            session.fail(Error::Training(error.to_string()));
        }
        *self.state.lock().expect("no other thread") = session.state;
        // Dropping the checkpointer waits until everything is on disk.
        drop(session.checkpointer);
        (session.learner.model(), session.events)
    }
}

impl<H: Head> Session<'_, H> {
    fn epoch(&mut self, train: &TrainLoader<Recognizer<H>>, valid: &ValidLoader<Recognizer<H>>) {
        let epoch = self.state.epoch;
        self.report(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: train.num_items(),
        });
        self.train_epoch(train);
        self.report(LearnerEvent::EndSplit(epoch));
        if self.interrupter.should_stop() {
            return self.save_if_sound();
        }
        let dev = self.settings.has_dev.then(|| self.validate(epoch, valid));
        self.report(LearnerEvent::EndEpoch(epoch));
        let flushed = self.events.flush();
        self.interrupter.fail_on_error(flushed);
        if !self.interrupter.should_stop() {
            self.close_epoch(dev);
        }
        // Stopped inside validation, the epoch is saved with all its batches done: resuming validates again.
        self.save_if_sound();
    }

    /// Ends the run with an error; the first one counts.
    fn fail(&self, error: Error) {
        let mut problem = self.settings.problem.lock().expect("no other thread");
        problem.get_or_insert(error);
        self.interrupter.stop(Some("an error"));
    }

    /// A checkpoint, unless the run ended in an error.
    fn save_if_sound(&mut self) {
        let problem = self
            .settings
            .problem
            .lock()
            .expect("no other thread")
            .is_some();
        if !problem && self.interrupter.error().is_none() {
            self.save();
        }
    }

    fn report(&mut self, event: LearnerEvent<Outcome>) {
        let result = self.events.process_train(event);
        self.interrupter.fail_on_error(result);
    }

    fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Reporter> {
        self.settings.reporter.lock().expect("no other thread")
    }

    fn is_due(&self) -> bool {
        self.saved.elapsed().as_secs_f64() > 60.0 * self.settings.train.checkpoint_minutes
    }

    fn save(&mut self) {
        // Weights that are no numbers must not push out a checkpoint that is good.
        if !all_finite(&self.learner.model()) {
            let step = self.state.step;
            return self.fail(Error::Training(format!(
                "some weights are not finite after step {step}, so no checkpoint was written; earlier ones are kept. \
                 Lower train.learning_rate, or raise train.epsilon or train.warm_up"
            )));
        }
        self.settings.checkpoints.announce(self.state.clone());
        self.checkpointer
            .checkpoint(&self.learner, self.state.step, &self.store);
        self.saved = Instant::now();
    }

    /// Loss and counts over the dev sentences, on a model without a graph.
    fn validate(&mut self, epoch: usize, valid: &ValidLoader<Recognizer<H>>) -> (f64, Counts) {
        let model = self.learner.model().valid();
        let (mut loss, mut counts) = (0.0, Counts::default());
        let mut other: Option<(String, Counts)> = None;
        let total = valid.num_items();
        self.tell_valid(LearnerEvent::StartSplit {
            epoch_number: epoch,
            total_items: total,
        });
        let mut batches = valid.iter();
        let mut iteration = 0;
        while let Some(batch) = batches.next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(problem) => {
                    self.interrupter.fail(problem);
                    break;
                }
            };
            let outcome = InferenceStep::step(&model, batch);
            loss += outcome.loss * outcome.sentences as f64;
            counts += outcome.counts;
            if let Some((name, counts)) = outcome.other.clone() {
                other.get_or_insert((name, Counts::default())).1 += counts;
            }
            iteration += 1;
            self.tell_valid(LearnerEvent::ProcessedItem(TrainingItem::new(
                outcome,
                batches.progress(),
                Some(iteration),
                None,
            )));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.tell_valid(LearnerEvent::EndSplit(epoch));
        if let Some(note) = model.head.note().filter(|_| self.settings.plain) {
            tracing::info!("epoch {epoch}: {note}");
        }
        self.state.other = other.map(|(name, counts)| (name, counts.f1()));
        (loss / total.max(1) as f64, counts)
    }

    fn tell_valid(&mut self, event: LearnerEvent<Outcome>) {
        let result = self.events.process_valid(event);
        self.interrupter.fail_on_error(result);
    }

    /// Takes stock at the end of an epoch: curves, best checkpoint, patience.
    fn close_epoch(&mut self, dev: Option<(f64, Counts)>) {
        let state = &mut self.state;
        let train = &self.settings.train;
        let f1 = dev.map(|(_, counts)| counts.f1());
        state.seconds = self.seconds_before + self.started.elapsed().as_secs_f64();
        let before = state
            .curves
            .points
            .last()
            .map_or(0.0, |point| point.seconds);
        state.curves.push(Point {
            epoch: state.epoch,
            step: state.step,
            train_loss: state.loss_sum / state.loss_sentences.max(1) as f64,
            dev_loss: dev.map(|(loss, _)| loss),
            dev_precision: dev.map(|(_, counts)| counts.precision()),
            dev_recall: dev.map(|(_, counts)| counts.recall()),
            dev_f1: f1,
            other_f1: state.other.as_ref().map(|(_, f1)| *f1),
            learning_rate: self.learner.lr_current().base(),
            seconds: state.seconds,
            sentences_per_second: state.loss_sentences as f64 / (state.seconds - before).max(1e-9),
        });
        // Without a dev set the newest checkpoint is the one to keep.
        if f1.is_none_or(|f1| f1 > state.best_f1 || state.best_step == 0) {
            state.best_f1 = f1.unwrap_or(0.0);
            state.best_step = state.step;
            state.stale = 0;
        } else {
            state.stale += 1;
        }
        state.finished =
            state.epoch == self.epochs || (train.patience > 0 && state.stale >= train.patience);
        state.epoch += 1;
        state.batch = 0;
        state.loss_sum = 0.0;
        state.loss_sentences = 0;
        self.lines().epoch(&self.state);
    }
}
