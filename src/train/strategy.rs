//! The adapter through which Burn's `SupervisedTraining` runs our training loop.

use std::sync::mpsc::Sender;

use burn::train::{
    Learner, SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader,
    TrainingComponents, ValidLoader,
};

use super::state::RunState;
use super::training_loop::{LoopConfig, TrainingLoop};
use crate::error::Result;
use crate::heads::Head;
use crate::model::recognizer::Recognizer;

/// Training that can be stopped and resumed at any step: a [`TrainingLoop`] as a strategy of Burn.
pub(super) struct ResumableTraining<H: Head> {
    /// What the loop runs on.
    pub config: LoopConfig<H>,
    /// Receives the last state and whether the loop failed; Burn's interface returns the model only.
    pub end: Sender<(RunState, Result<()>)>,
}

impl<H: Head> SupervisedLearningStrategy<Recognizer<H>> for ResumableTraining<H> {
    fn fit(
        &self,
        components: TrainingComponents<Recognizer<H>>,
        learner: Learner<Recognizer<H>>,
        train: TrainLoader<Recognizer<H>>,
        valid: ValidLoader<Recognizer<H>>,
        _starting_epoch: usize,
    ) -> (
        Recognizer<H>,
        SupervisedTrainingEventProcessor<Recognizer<H>>,
    ) {
        let mut training = TrainingLoop::new(&self.config, components, learner);
        let result = training.run(&train, &valid);
        let end = training.close();
        // The receiver is gone only if its thread panicked.
        let _ = self.end.send((end.state, result.and(end.result)));
        (end.model, end.events)
    }
}
