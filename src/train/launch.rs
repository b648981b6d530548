//! A run from recipe to bundle.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use burn::tensor::Device;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::{Interrupter, Learner, SupervisedTraining, TrainingStrategy};
use serde_json::{Value, json};

use super::batches::Loader;
use super::checkpoints::{Checkpoints, Lock, OnRequest, RunState};
use super::claim::{enter, refuse_taken};
use super::corpus::Corpus;
use super::optimizer::optimizer;
use super::progress::{NoRenderer, Reporter};
use super::run::Run;
use super::schedule::scheduler;
use super::step::{Loss, SpanF1};
use super::strategy::ResumableTraining;
use crate::error::{Error, Result};
use crate::eval::Report;
use crate::heads::Head;
use crate::model::recognizer::Recognizer;
use crate::model::tagger::{ModelTagger, Tagger};
use crate::model::{card, folder};
use crate::recipe::Recipe;
use crate::text::Sentence;

/// What to run and where.
pub struct Launch {
    /// The recipe.
    pub recipe: Recipe,
    /// The run's folder.
    pub out: PathBuf,
    /// Go on from the newest checkpoint.
    pub resume: bool,
    /// Write a checkpoint before the first step too.
    pub careful: bool,
    /// Where to train: each device takes a batch of its own. The first holds the weights.
    pub devices: Vec<Device>,
    /// Where corpora are looked for.
    pub roots: Vec<PathBuf>,
    /// Lines instead of the terminal display.
    pub plain: bool,
    /// No output at all.
    pub silent: bool,
    /// The command line, for the card.
    pub command: String,
    /// Stops the run when asked.
    pub interrupter: Interrupter,
}

/// A run that has come to its end.
pub struct Finished {
    /// The best model.
    pub tagger: Box<dyn Tagger>,
    /// Scores on dev, when there is one.
    pub dev: Option<Report>,
    /// Scores on test, when there is one.
    pub test: Option<Report>,
    /// Where the run stood.
    pub state: RunState,
}

/// Trains, evaluates and writes the bundle into the run's folder.
pub fn launch<H: Head>(launch: &Launch) -> Result<Finished> {
    let head: H::Config = launch.recipe.head_config()?;
    let mut recipe = launch.recipe.with_head(&head)?;
    share_out(&mut recipe, launch);
    refuse_taken(launch)?;
    // Whatever can fail early fails before the folder is claimed.
    let corpus = Corpus::load(&recipe, &launch.roots)?;
    H::check(&head)?;
    let run = Run::<H>::prepare(recipe, head, corpus)?;
    fs::create_dir_all(&launch.out).map_err(|source| Error::io(&launch.out, source))?;
    let _lock = Lock::take(&launch.out)?;
    let state = enter(launch, &run.recipe)?;
    match &state {
        None => run.write_description(&launch.out)?,
        Some(state) if state.data != run.corpus.fingerprint() => {
            return Err(Error::model_folder(
                &launch.out,
                "the training or dev sentences are not those this run was started with; bring the old files back, \
                 or start anew with another --out",
            ));
        }
        Some(_) => {}
    }
    let state = run.train(launch, state)?;
    run.finish(launch, state)
}

/// Gives every device a batch in every step. What a step does is then a matter of the recipe alone: so many batches,
/// whoever takes them.
fn share_out(recipe: &mut Recipe, launch: &Launch) {
    let (devices, train) = (launch.devices.len(), &mut recipe.train);
    let before = train.accumulate;
    train.accumulate = before.next_multiple_of(devices);
    if devices > 1 && !launch.silent {
        println!(
            "{devices} devices: a step takes {} batches of {} sentences, as train.accumulate = {} does on one device",
            train.accumulate, train.batch, train.accumulate
        );
    }
}

impl<H: Head> Run<H> {
    fn train(&self, launch: &Launch, before: Option<RunState>) -> Result<RunState> {
        let resumed = before.is_some();
        let state = before.unwrap_or(RunState {
            epoch: 1,
            data: self.corpus.fingerprint(),
            ..RunState::default()
        });
        if state.finished {
            return Ok(state);
        }
        let settings = &self.recipe.train;
        let devices: Vec<Device> = launch
            .devices
            .iter()
            .cloned()
            .map(Device::autodiff)
            .collect();
        let model = self.model(&devices[0])?;
        let train = Loader::new(Arc::new(self.batcher(&self.corpus.train, settings.batch)));
        let valid = Loader::new(Arc::new(self.batcher(&self.corpus.dev, 2 * settings.batch)));
        self.describe(launch, &model, &train);
        let batches: Vec<usize> = (1..=settings.epochs)
            .map(|epoch| train.batcher().batches(epoch))
            .collect();
        let (optimizer, scale) = optimizer(settings);
        let each = batches.iter();
        let steps = each.map(|batches| batches.div_ceil(settings.accumulate));
        let steps = steps.sum();
        let learner = Learner::new(model, optimizer, scheduler(settings, steps));
        let checkpoints = Checkpoints::open(&launch.out)?;
        let strategy = Arc::new(ResumableTraining {
            train: settings.clone(),
            devices,
            loader: train.clone(),
            has_dev: !self.corpus.dev.is_empty(),
            state: Mutex::new(state),
            resumed,
            checkpoints: checkpoints.clone(),
            scale,
            careful: launch.careful,
            reporter: Mutex::new(Reporter::new(
                launch.silent || !launch.plain,
                settings.report_seconds,
                batches,
            )),
            plain: launch.plain || launch.silent,
            problem: Mutex::new(None),
        });
        let mut training = SupervisedTraining::new(&launch.out, Arc::new(train), Arc::new(valid))
            .metric_train_numeric(Loss::default())
            .metric_valid_numeric(Loss::default())
            .metric_valid_numeric(SpanF1::default())
            .with_metric_logger(InMemoryMetricLogger::default())
            .with_application_logger(None)
            .with_custom_checkpointers(
                checkpoints.part(0),
                checkpoints.part(1),
                checkpoints.part(2),
            )
            .with_checkpointing_strategy(OnRequest)
            .with_interrupter(launch.interrupter.clone())
            .with_training_strategy(TrainingStrategy::Custom(strategy.clone()))
            .num_epochs(settings.epochs);
        if launch.plain || launch.silent {
            training = training.renderer(Box::new(NoRenderer));
        }
        training.launch(learner);
        let state = strategy.state.lock().expect("no other thread").clone();
        state.curves.write(&launch.out)?;
        if let Some(problem) = strategy.problem.lock().expect("no other thread").take() {
            return Err(problem);
        }
        if !state.finished {
            return Err(Error::Interrupted(format!(
                "stopped after step {}; everything up to there is saved, go on with --resume --out {}",
                state.step,
                launch.out.display()
            )));
        }
        Ok(state)
    }

    fn describe(&self, launch: &Launch, model: &Recognizer<H>, train: &Loader<H>) {
        if launch.silent {
            return;
        }
        let corpus = &self.corpus;
        println!(
            "{} on {} training, {} dev and {} test sentences; {} types: {}",
            H::name(),
            corpus.train.len(),
            corpus.dev.len(),
            corpus.test.len(),
            corpus.labels.len(),
            corpus.labels.names().join(", ")
        );
        let nested = corpus.nested();
        if nested > 0 && !model.head.nested() {
            println!(
                "this head is flat: it learns, and is chosen by, the outermost entities ({nested} training entities nest)"
            );
        } else if nested > 0 && model.head.has_flat_part() {
            println!(
                "the tagger of this bundle learns the outermost entities ({nested} training entities nest)"
            );
        }
        println!(
            "{} parameters, {} batches an epoch ({:.1} % of their pieces would be padding), run folder {}",
            burn::module::Module::num_params(model),
            train.batcher().batches(1),
            100.0 * train.batcher().padding(1),
            launch.out.display()
        );
    }

    /// Evaluates the best checkpoint and writes the bundle.
    fn finish(&self, launch: &Launch, state: RunState) -> Result<Finished> {
        let device = launch.devices[0].clone().inner();
        let fresh = Recognizer::<H>::new(&self.encoder, &self.head, &self.corpus.labels, &device);
        let checkpoint = Checkpoints::at(&launch.out).step_folder(state.best_step);
        let model = folder::restore(fresh, &checkpoint)?;
        let tagger = ModelTagger::new(
            model.clone(),
            self.pieces.clone(),
            self.encoder.clone(),
            self.corpus.labels.clone(),
        );
        let score = |sentences: &[Sentence]| {
            if sentences.is_empty() {
                Ok(None)
            } else {
                evaluate(&tagger, sentences).map(Some)
            }
        };
        let dev = score(&self.corpus.dev)?;
        let test = score(&self.corpus.test)?;
        let metrics = self.metrics(&state, dev.as_ref(), test.as_ref());
        let card = card::card(&card::CardFacts {
            recipe: &self.recipe,
            labels: &self.corpus.labels,
            corpus: self.corpus.about.clone(),
            metrics: &metrics,
            command: &launch.command,
            nested: model.head.nested(),
        });
        folder::write(
            &launch.out,
            &folder::ModelFiles {
                model: &model,
                config: self.config(),
                pieces: &self.pieces,
                recipe: self.recipe.to_toml()?,
                metrics,
                card,
                half: self.recipe.train.half,
            },
        )?;
        Ok(Finished {
            tagger: Box::new(tagger),
            dev,
            test,
            state,
        })
    }

    fn metrics(&self, state: &RunState, dev: Option<&Report>, test: Option<&Report>) -> Value {
        json!({
            "dev": dev.map(Report::to_json),
            "test": test.map(Report::to_json),
            "best_step": state.best_step,
            "steps": state.step,
            "seconds": state.seconds,
            "curves": state.curves,
        })
    }
}

/// A tagger's scores on sentences with gold.
pub fn evaluate(tagger: &dyn Tagger, sentences: &[Sentence]) -> Result<Report> {
    let mentions = tagger.tag(sentences)?;
    let mut report = Report::of(
        sentences
            .iter()
            .map(|sentence| sentence.entities.as_slice())
            .zip(mentions.iter().map(Vec::as_slice)),
    );
    for entity in sentences.iter().flat_map(|sentence| &sentence.misaligned) {
        report.add_unreachable(&entity.label, 1);
    }
    Ok(report)
}
