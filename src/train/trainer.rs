//! Training step by step without a run folder: for timing, for tests, and for programs with a loop of their own.

use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::{Learner, TrainStep};

use super::batches::{Batch, Batches, Loader, mix};
use super::corpus::Corpus;
use super::loss_scale::LossScale;
use super::optimizer::{GradientScale, optimizer};
use super::prepare::{PreparedRun, check_precision};
use super::schedule::scheduler;
use super::shape_counter::ShapeCounter;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::hub::Hub;
use crate::model::recognizer::Recognizer;
use crate::model::tagger::Tagger;
use crate::nn::host;
use crate::recipe::Recipe;
use crate::text::{Mention, Sentence};

/// A model in training, one step at a time.
pub trait Trainer {
    /// Trains on the next batch, one batch per optimizer step whatever `train.accumulate` is, and continues with the next
    /// epoch when one ends.
    fn step(&mut self) -> Result<TrainedBatch>;

    /// Computes one step on all training sentences as one batch, without an update, and tags them. If batches are padded to
    /// a ladder of sizes, the batch has two empty sentences more.
    fn inspect(&self) -> Result<Inspection>;

    /// The model as it is now.
    fn tagger(&self) -> Box<dyn Tagger>;

    /// The sentences it was prepared with.
    fn corpus(&self) -> &Corpus;

    /// The shapes of the batches of an epoch, made without a step. Epochs count from 1.
    fn shapes(&self, epoch: usize) -> Result<ShapeCounter>;
}

/// A batch after its step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainedBatch {
    /// Sentences of the batch.
    pub sentences: usize,
    /// Their words.
    pub words: usize,
    /// Their mean loss.
    pub loss: f64,
    /// Whether no step before it had the same shapes, so that a GPU may have had to compile kernels.
    pub is_new_shape: bool,
}

/// Intermediate results of one training step and one prediction.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The loss.
    pub loss: f64,
    /// The gradient of each trainable parameter by its path; `None` where no gradient arrived.
    pub gradients: Vec<(String, Option<Vec<f32>>)>,
    /// The mentions predicted for each sentence.
    pub mentions: Vec<Vec<Mention>>,
    /// How often the training step waited to read values from the device, before the weights are updated.
    pub reads_in_training: usize,
    /// How often the prediction did.
    pub reads_in_prediction: usize,
}

/// Prepares step-by-step training of a recipe on these sentences.
pub fn trainer<H: Head>(
    recipe: &Recipe,
    corpus: Corpus,
    device: &Device,
) -> Result<Box<dyn Trainer>> {
    let run = PreparedRun::<H>::new(
        recipe.clone(),
        recipe.head_config()?,
        corpus,
        &Hub::from_env(),
    )?;
    let settings = &run.recipe.train;
    let loader = Loader::new(Arc::new(run.training_batcher(settings.batch, device)));
    let steps = (1..=settings.epochs).map(|epoch| loader.batcher().batches(epoch));
    let (optimizer, scale) = optimizer(settings);
    let scheduler = scheduler(settings, steps.sum(), &run.encoder.transformer.order());
    check_precision(settings.precision, std::slice::from_ref(device))?;
    let loss_scale = LossScale::of(settings.precision);
    let model = run.model(device, false)?;
    let device = device.clone().autodiff();
    let model = model.fork(&device);
    let batches = loader.epoch(1, 0);
    Ok(Box::new(Steps {
        learner: Learner::new(model, optimizer, scheduler),
        run,
        scale,
        device,
        loader,
        batches,
        epoch: 1,
        batch: 0,
        total: 0,
        loss_scale,
        shapes: ShapeCounter::default(),
    }))
}

struct Steps<H: Head> {
    run: PreparedRun<H>,
    learner: Learner<Recognizer<H>>,
    scale: GradientScale,
    device: Device,
    loader: Loader<H>,
    batches: Batches<H::Gold>,
    /// The current epoch, from 1.
    epoch: usize,
    /// Batches of the current epoch that are done.
    batch: usize,
    /// Batches of the whole run that are done.
    total: usize,
    loss_scale: Option<LossScale>,
    shapes: ShapeCounter,
}

impl<H: Head> Steps<H> {
    fn next_batch(&mut self) -> Result<Batch<H::Gold>> {
        let per_epoch = self.loader.batcher().batches(self.epoch);
        if self.batch == per_epoch {
            self.epoch += 1;
            self.batch = 0;
            self.batches = self.loader.epoch(self.epoch, 0);
        }
        match self.batches.next() {
            Some(Ok(batch)) => Ok(batch),
            Some(Err(problem)) => Err(Error::Training(problem.to_string())),
            None => Err(Error::Training(format!(
                "the batches of epoch {} ended after {} of {per_epoch}: making a batch failed, see above",
                self.epoch, self.batch
            ))),
        }
    }
}

impl<H: Head> Trainer for Steps<H> {
    fn step(&mut self) -> Result<TrainedBatch> {
        let mut batch = self.next_batch()?;
        let scale = self.loss_scale.map_or(1.0, |scale| scale.factor);
        batch.loss_scale = scale;
        let sentences = batch.sentences.len();
        let is_new_shape = self.shapes.add(&batch);
        let words_of = |index: &usize| self.run.corpus.train[*index].len();
        let words = batch.sentences.iter().map(words_of).sum();
        self.device
            .seed(mix(self.run.recipe.train.seed, self.total as u64));
        let output = self.learner.train_step(batch);
        let loss = output.item.unread.into_iter().collect();
        let model = self.learner.model();
        let clip = self.run.recipe.train.clip;
        let (norm, losses) = (self.scale).set_from_norm(&model, &output.grads, loss, clip, scale);
        drop(model);
        let loss = losses[0];
        let is_skipped =
            !norm.is_finite() && self.loss_scale.as_mut().is_some_and(LossScale::skip_step);
        if !loss.is_finite() || !norm.is_finite() && !is_skipped {
            return Err(Error::Training(format!(
                "the loss is {loss} and the gradient norm {norm} in epoch {}, batch {}; lower train.learning_rate",
                self.epoch, self.batch
            )));
        }
        self.learner.lr_step();
        if !is_skipped {
            self.learner.optimizer_step(output.grads);
            self.loss_scale.iter_mut().for_each(LossScale::count_step);
        }
        self.batch += 1;
        self.total += 1;
        Ok(TrainedBatch {
            sentences,
            words,
            loss,
            is_new_shape,
        })
    }

    fn inspect(&self) -> Result<Inspection> {
        let sentences: &[Sentence] = &self.run.corpus.train;
        let model = self.learner.model();
        let mut size = sentences.len();
        if self.loader.batcher().ladder.is_some() {
            size += 2;
        }
        let batcher = self.loader.batcher();
        let batcher = self.run.batcher_like(batcher, sentences, size);
        let batch = Loader::new(Arc::new(batcher)).iter().next();
        let batch = batch.ok_or_else(|| Error::Training("no sentences to inspect".into()))?;
        let batch = batch.map_err(|problem| Error::Training(problem.to_string()))?;
        let (pieces, order) = (batch.pieces.clone(), batch.sentences.clone());
        let before = host::reads();
        let output = TrainStep::step(&model, batch);
        let loss = output.item.unread.into_iter().collect();
        let (_, losses) = (self.scale).set_from_norm(&model, &output.grads, loss, 1.0, 1.0);
        let trained = host::reads();
        let found = model.valid().decode(&pieces);
        let predicted = host::reads();
        let mut mentions = vec![Vec::new(); order.len()];
        for (index, list) in order.into_iter().zip(found) {
            mentions[index] = list;
        }
        Ok(Inspection {
            loss: losses[0],
            gradients: GradientCollector::collect(&model, output.grads),
            mentions,
            reads_in_training: trained - before,
            reads_in_prediction: predicted - trained,
        })
    }

    fn tagger(&self) -> Box<dyn Tagger> {
        Box::new(self.run.tagger(&self.learner.model().valid()))
    }

    fn corpus(&self) -> &Corpus {
        &self.run.corpus
    }

    fn shapes(&self, epoch: usize) -> Result<ShapeCounter> {
        let mut shapes = ShapeCounter::default();
        for batch in self.loader.epoch(epoch, 0) {
            shapes.add(&batch.map_err(|problem| Error::Training(problem.to_string()))?);
        }
        Ok(shapes)
    }
}

/// Collects the gradients of all trainable parameters by path.
struct GradientCollector {
    gradients: GradientsParams,
    path: Vec<String>,
    found: Vec<(String, Option<Vec<f32>>)>,
}

impl GradientCollector {
    fn collect<M: Module>(
        model: &M,
        gradients: GradientsParams,
    ) -> Vec<(String, Option<Vec<f32>>)> {
        let mut collector = Self {
            gradients,
            path: Vec::new(),
            found: Vec::new(),
        };
        model.visit(&mut collector);
        collector.found
    }
}

impl ModuleVisitor for GradientCollector {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            let gradient = self.gradients.get::<D>(param.id).map(host::floats);
            self.found.push((self.path.join("."), gradient));
        }
    }
}
