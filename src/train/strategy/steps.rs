//! The steps of an epoch: batches out to the devices, losses and gradients back, one update.

use burn::data::dataloader::Progress;
use burn::optim::GradientsAccumulator;
use burn::train::{LearnerEvent, TrainLoader, TrainingItem};

use super::Session;
use crate::error::Error;
use crate::heads::Head;
use crate::model::recognizer::Recognizer;
use crate::process;
use crate::train::batches::Batch;
use crate::train::step::Outcome;

impl<H: Head> Session<'_, H> {
    pub(super) fn train_epoch(&mut self, train: &TrainLoader<Recognizer<H>>) {
        let settings = self.settings;
        let epoch = self.state.epoch;
        let per_epoch = settings.loader.batcher().batches(epoch);
        let before = settings.loader.batcher().batches_before(epoch);
        settings.loader.seek(epoch, self.state.batch);
        let mut batches = train.iter();
        while self.state.batch < per_epoch {
            let wanted = settings.train.accumulate.min(per_epoch - self.state.batch);
            let mut group = Vec::with_capacity(wanted);
            for number in self.state.batch..self.state.batch + wanted {
                match batches.next() {
                    Some(Ok(batch)) => group.push((before + number, batch)),
                    Some(Err(problem)) => return self.interrupter.fail(problem),
                    None => {
                        return self.fail(Error::Training(format!(
                            "the batches of epoch {epoch} ended after {number} of {per_epoch}: making a batch failed, \
                             see above"
                        )));
                    }
                }
            }
            let Some(outcomes) = self.step(group) else {
                return;
            };
            if !settings.plain {
                process::let_signals_through();
            }
            for outcome in outcomes {
                self.take_note(outcome, batches.progress());
            }
            if self.interrupter.should_stop() {
                return;
            }
            if self.state.batch < per_epoch && self.is_due() {
                self.save();
            }
        }
    }

    /// One update of the weights from a group of batches, each with its number in the run. Nothing when that failed or
    /// led to bad numbers: then the weights stay as they are.
    fn step(&mut self, group: Vec<(usize, Batch<H::Gold>)>) -> Option<Vec<Outcome>> {
        let settings = self.settings;
        let count = group.len();
        let sentences: Vec<Vec<usize>> = group.iter().map(|(_, b)| b.sentences.clone()).collect();
        let model = self.learner.model();
        let mut accumulator = GradientsAccumulator::new();
        let mut single = None;
        let mut outcomes = Vec::with_capacity(count);
        let mut group = group.into_iter().peekable();
        while group.peek().is_some() {
            let wave = group.by_ref().take(self.pool.size()).collect();
            let seed = settings.train.seed;
            let outputs = match self.pool.calculate(&self.learner, wave, seed) {
                Ok(outputs) => outputs,
                Err(problem) => {
                    self.fail(self.broken(&problem));
                    return None;
                }
            };
            for output in outputs {
                match count {
                    1 => single = Some(output.grads),
                    _ => accumulator.accumulate(&model, output.grads),
                }
                outcomes.push(output.item);
            }
        }
        let gradients = single.unwrap_or_else(|| accumulator.grads());
        let losses = outcomes
            .iter_mut()
            .filter_map(|outcome| outcome.unread.take());
        let losses = losses.collect();
        let (norm, losses) = settings
            .scale
            .clip(&model, &gradients, losses, settings.train.clip);
        drop(model);
        for (index, (outcome, loss)) in outcomes.iter_mut().zip(losses).enumerate() {
            outcome.loss = loss;
            if !loss.is_finite() {
                self.state.batch += index;
                self.stop_on_bad_number(&format!("loss became {loss}"), &sentences[index]);
                return None;
            }
        }
        if !norm.is_finite() {
            self.stop_on_bad_number("gradient is not finite", &sentences.concat());
            return None;
        }
        self.learner.lr_step();
        self.learner.optimizer_step(gradients);
        self.state.step += 1;
        Some(outcomes)
    }

    /// Counts a batch and tells everyone who watches.
    fn take_note(&mut self, outcome: Outcome, progress: Progress) {
        self.state.batch += 1;
        self.state.loss_sum += outcome.loss * outcome.sentences as f64;
        self.state.loss_sentences += outcome.sentences;
        self.state.seconds = self.seconds();
        let iteration = Some(self.state.batch);
        let rate = self.learner.lr_current();
        self.lines()
            .step(&self.state, outcome.sentences, rate.base());
        self.report(LearnerEvent::ProcessedItem(TrainingItem::new(
            outcome,
            progress,
            iteration,
            Some(rate),
        )));
    }

    /// What to say when a device gave up.
    pub(super) fn broken(&self, problem: &str) -> Error {
        let remedy = if self.settings.careful {
            "Start all workers anew, as the others do not take one back"
        } else {
            "If its memory is full, give it smaller batches"
        };
        Error::Training(format!(
            "a device failed in epoch {}, batch {} (after step {}); {}. {remedy}; then go on with --resume. It said: \
             {problem}",
            self.state.epoch,
            self.state.batch,
            self.state.step,
            self.kept(),
        ))
    }

    /// What a resumed run would start from.
    fn kept(&self) -> String {
        match self.settings.checkpoints.newest() {
            Ok(Some(state)) => format!("the checkpoint after step {} is kept", state.step),
            _ => "no checkpoint was written yet".into(),
        }
    }

    fn stop_on_bad_number(&mut self, what: &str, sentences: &[usize]) {
        let kept = self.kept();
        let texts = &self.settings.loader.batcher().corpus.sentences;
        let message = format!(
            "the {what} in epoch {}, batch {} (after step {}); {kept}. Lower train.learning_rate, raise \
             train.warm_up, or look at the batch: training sentences [{}], the first of them {:?}",
            self.state.epoch,
            self.state.batch,
            self.state.step,
            sentences
                .iter()
                .map(|index| (index + 1).to_string())
                .collect::<Vec<_>>()
                .join(", "),
            sentences
                .first()
                .map_or("", |index| texts[*index].text.as_str()),
        );
        self.fail(Error::Training(message));
    }
}
