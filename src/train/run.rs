//! A run from recipe to model folder.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use burn::module::Module;
use burn::tensor::Device;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::{Interrupter, Learner, SupervisedTraining, TrainingStrategy};
use serde_json::{Value, json};

use super::average::{self, AverageWindow};
use super::batches::Loader;
use super::calibrate::calibrate;
use super::checkpoints::{Checkpoints, Lock, OnRequest};
use super::corpus::Corpus;
use super::memory::{self, MemoryEstimate, megabytes};
use super::optimizer::optimizer;
use super::prepare::{PreparedRun, check_precision};
use super::progress::NoRenderer;
use super::run_folder;
use super::schedule::scheduler;
use super::state::RunState;
use super::step::{Loss, SpanF1};
use super::strategy::ResumableTraining;
use super::training_loop::LoopConfig;
use super::tune::{self, ScoredSentence, Tuned, Tuning};
use crate::device;
use crate::error::{Error, Result};
use crate::eval::reliability::scored_mentions;
use crate::eval::{self, Evaluation, Report};
use crate::heads::Head;
use crate::hub::Hub;
use crate::model::calibration::Calibration;
use crate::model::parts::gold_pieces;
use crate::model::recognizer::Recognizer;
use crate::model::tagger::{ModelTagger, Tagger};
use crate::model::{card, folder};
use crate::process;
use crate::recipe::Recipe;
use crate::text::{Sentence, visible};

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgressOutput {
    /// Not at all.
    #[default]
    Silent,
    /// A line on standard output every few seconds.
    Lines,
    /// Burn's display, which takes the whole terminal.
    Terminal,
}

/// What to train, where, and how to report it.
///
/// ```no_run
/// use std::path::Path;
///
/// use nerzoo::recipe::Recipe;
/// use nerzoo::registry;
/// use nerzoo::train::{ProgressOutput, TrainOptions};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let recipe = Recipe::read(Path::new("model-zoo/recipes/quickstart.toml"), &["train.epochs=2".into()])?;
/// let (recipe, entry) = registry::resolve(recipe)?;
/// let options = TrainOptions {
///     output: ProgressOutput::Lines,
///     ..TrainOptions::new(recipe, "runs/quickstart")
/// };
/// let finished = (entry.train)(&options)?;
/// if let Some(test) = &finished.test {
///     println!("F1 {:.2}", 100.0 * test.overall.f1());
/// }
/// # Ok(())
/// # }
/// ```
pub struct TrainOptions {
    /// The recipe, with bundles resolved (see `registry::resolve`).
    pub recipe: Recipe,
    /// The run folder: checkpoints while it runs, the model folder at its end.
    pub out: PathBuf,
    /// Continue from the newest checkpoint in the run folder.
    pub resume: bool,
    /// Write a checkpoint before the first step too, for devices that may be lost at any time.
    pub checkpoint_first: bool,
    /// Train even if a device seems to have too little memory.
    pub force: bool,
    /// Where to train: each device takes a batch of its own. The first holds the weights.
    pub devices: Vec<Device>,
    /// Folders in which named corpora are searched.
    pub roots: Vec<PathBuf>,
    /// Where pretrained encoders are found by name.
    pub hub: Hub,
    /// How progress is shown.
    pub output: ProgressOutput,
    /// The command line, for the model card.
    pub command: String,
    /// Stops the run when asked.
    pub interrupter: Interrupter,
    /// The calibration of the model's scores if there are no dev sentences to fit one to.
    pub calibration: Option<Calibration>,
}

impl TrainOptions {
    /// Training of a recipe on the CPU into a folder, without output.
    pub fn new(recipe: Recipe, out: impl Into<PathBuf>) -> Self {
        Self {
            recipe,
            out: out.into(),
            resume: false,
            checkpoint_first: false,
            force: false,
            devices: vec![device::cpu()],
            roots: vec!["datasets".into()],
            hub: Hub::from_env(),
            output: ProgressOutput::Silent,
            command: String::new(),
            interrupter: Interrupter::new(),
            calibration: None,
        }
    }
}

/// A finished run.
pub struct Finished {
    /// The best model.
    pub tagger: Box<dyn Tagger>,
    /// Scores on dev, when there is one.
    pub dev: Option<Report>,
    /// Scores on test, when there is one.
    pub test: Option<Report>,
    /// The decoding settings chosen on dev, if the recipe says so.
    pub tuning: Option<Tuning>,
    /// The state at the end of training.
    pub state: RunState,
}

/// Trains, evaluates and writes the model into the run folder.
pub fn train<H: Head>(options: &TrainOptions) -> Result<Finished> {
    let (run, state, _lock) = train_epochs::<H>(options, usize::MAX)?;
    run.finish(options, state)
}

/// Trains until the end of this epoch (from 1) and leaves a checkpoint, but no model: [`train`] with `resume` continues the
/// same run to its end, with the same result as without the pause. Does nothing when the run is that far already.
pub fn train_until<H: Head>(options: &TrainOptions, epoch: usize) -> Result<RunState> {
    let (_, state, _lock) = train_epochs::<H>(options, epoch)?;
    Ok(state)
}

/// Prepares a run or the rest of it, trains up to the end of an epoch, and returns it with the lock on its folder.
fn train_epochs<H: Head>(
    options: &TrainOptions,
    last: usize,
) -> Result<(PreparedRun<H>, RunState, Lock)> {
    if options.devices.is_empty() {
        return Err(Error::Config("there is no device to train on".into()));
    }
    let head: H::Config = options.recipe.head_config()?;
    let mut recipe = options.recipe.with_head(&head)?;
    one_batch_per_device(&mut recipe, options);
    check_precision(recipe.train.precision, &options.devices)?;
    run_folder::refuse_other_run(options)?;
    // Whatever can fail early fails before the folder is taken.
    let corpus = Corpus::load(&recipe, &options.roots)?;
    let run = PreparedRun::<H>::new(recipe, head, corpus, &options.hub)?;
    fs::create_dir_all(&options.out).map_err(|source| Error::io(&options.out, source))?;
    let lock = Lock::take(&options.out)?;
    // Also for a run that has nothing left to train.
    Checkpoints::open(&options.out)?;
    let state = run_folder::enter::<H>(options, &run.recipe)?;
    match &state {
        None => run.write_description(&options.out)?,
        Some(state) if state.data != run.corpus.fingerprint() => {
            return Err(Error::model_folder(
                &options.out,
                "the training or dev sentences are not those this run was started with; restore the old files, or start \
                 a new run with another --out",
            ));
        }
        Some(_) => {}
    }
    let state = run.train(options, state, last)?;
    Ok((run, state, lock))
}

/// Rounds `train.accumulate` up so that every device has a batch in every step. The result of a step then depends on
/// the recipe alone, not on which device computes which batch.
fn one_batch_per_device(recipe: &mut Recipe, options: &TrainOptions) {
    let (devices, train) = (options.devices.len(), &mut recipe.train);
    train.accumulate = train.accumulate.next_multiple_of(devices);
    if devices > 1 && options.output != ProgressOutput::Silent {
        println!(
            "{devices} devices: a step takes {} batches of {} sentences, as train.accumulate = {} does on one device",
            train.accumulate, train.batch, train.accumulate
        );
    }
}

impl<H: Head> PreparedRun<H> {
    fn train(
        &self,
        options: &TrainOptions,
        saved: Option<RunState>,
        last: usize,
    ) -> Result<RunState> {
        let resumed = saved.is_some();
        let settings = &self.recipe.train;
        let precision = settings.precision;
        let state = saved.unwrap_or_else(|| RunState::new(self.corpus.fingerprint(), precision));
        if state.finished || state.epoch > last.min(settings.epochs) {
            return Ok(state);
        }
        let devices: Vec<Device> = options
            .devices
            .iter()
            .cloned()
            .map(Device::autodiff)
            .collect();
        let process = memory::process_memory(&options.devices[0]);
        let model = self.model(&options.devices[0], options.force)?;
        let estimate = self.estimate_all(&model, options, process)?;
        let model = model.fork(&devices[0]);
        let train = self.training_batcher(settings.batch, &options.devices[0]);
        let valid = self.batcher_like(&train, &self.dev_pieces(), 2 * settings.batch);
        let [train, valid] = [train, valid].map(|batcher| Loader::new(Arc::new(batcher)));
        self.describe(options, &model, &train, &estimate);
        let (optimizer, scale) = optimizer(settings);
        let batches: Vec<usize> = (1..=settings.epochs)
            .map(|epoch| train.batcher().batches(epoch))
            .collect();
        let steps = batches
            .iter()
            .map(|batches| batches.div_ceil(settings.accumulate));
        let steps = steps.sum();
        let scheduler = scheduler(settings, steps, &self.encoder.transformer.order());
        let learner = Learner::new(model, optimizer, scheduler);
        let window = AverageWindow::of(settings);
        let checkpoints = Checkpoints::open(&options.out)?.keeping(window);
        let (end, ended) = channel();
        let step = state.step;
        let strategy = ResumableTraining {
            config: LoopConfig {
                train: settings.clone(),
                devices,
                loader: train.clone(),
                batches,
                state,
                resumed,
                checkpoints: checkpoints.clone(),
                scale,
                last_epoch: last,
                checkpoint_first: options.checkpoint_first,
                output: options.output,
            },
            end,
        };
        let mut training = SupervisedTraining::new(&options.out, Arc::new(train), Arc::new(valid))
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
            .with_interrupter(options.interrupter.clone())
            .with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
            .num_epochs(settings.epochs);
        if options.output != ProgressOutput::Terminal {
            training = training.renderer(Box::new(NoRenderer));
        }
        // Before Burn's display installs a panic hook: it puts back the one it finds.
        process::install_panic_hook();
        // Burn panics if it cannot restore a checkpoint.
        process::catch(|| training.launch(learner)).map_err(|panic| {
            if !resumed {
                return Error::Training(format!("training failed: {panic}"));
            }
            let problem = format!(
                "the checkpoint cannot be restored: {panic}; remove this folder to resume from the checkpoint before"
            );
            Error::model_folder(checkpoints.step_folder(step), problem)
        })?;
        let (state, result) = (ended.recv())
            .map_err(|_| Error::Training("the training loop was not run to its end".into()))?;
        if result.is_err() {
            // A half-written checkpoint would fill a full disk. Whatever prevents it is reported already.
            let _ = checkpoints.remove_leftovers(&options.out);
        }
        let written = state.curves.write(&options.out);
        result?;
        written?;
        if !state.finished && state.epoch <= last {
            return Err(Error::Interrupted(format!(
                "stopped after step {}; everything up to there is saved, continue with --resume --out {}",
                state.step,
                options.out.display()
            )));
        }
        Ok(state)
    }

    /// The memory that training needs on the first device. Fails if one of the devices has less, unless that is forced.
    fn estimate_all(
        &self,
        model: &Recognizer<H>,
        options: &TrainOptions,
        process: u64,
    ) -> Result<MemoryEstimate> {
        let first = &options.devices[0];
        let estimate = self.estimate(model, first, process);
        if !options.force {
            (options.devices.iter()).try_for_each(|device| memory::check(&estimate, device))?;
        }
        Ok(estimate)
    }

    fn describe(
        &self,
        options: &TrainOptions,
        model: &Recognizer<H>,
        train: &Loader<H>,
        estimate: &MemoryEstimate,
    ) {
        if options.output == ProgressOutput::Silent {
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
            visible(&corpus.labels.names().join(", "))
        );
        let nested = corpus.nested();
        if nested > 0 && !model.head.nested() {
            println!(
                "this head is flat: it is trained and validated on the outermost entities ({nested} training entities are nested)"
            );
        } else if nested > 0 && model.head.has_flat_part() {
            println!(
                "the tagger of this bundle is trained on the outermost entities ({nested} training entities are nested)"
            );
        }
        println!("{}", self.segmentation);
        println!(
            "{} parameters, {} batches per epoch ({:.1} % padding{}), run folder {}",
            model.num_params(),
            train.batcher().batches(1),
            100.0 * train.batcher().padding_share(1),
            match &train.batcher().ladder {
                Some(ladder) => format!(", {} sizes of batches", ladder.rungs().len()),
                None => " if padded".into(),
            },
            options.out.display()
        );
        let device = &options.devices[0];
        let has = device::memory(device).map(|bytes| format!(" of {}", megabytes(bytes)));
        println!(
            "memory: about {}{} at the most: {estimate}",
            megabytes(estimate.total()),
            has.unwrap_or_default()
        );
    }

    /// Chooses decoding settings for the best checkpoint, or for the average of several, evaluates it and writes the model
    /// folder.
    fn finish(&self, options: &TrainOptions, state: RunState) -> Result<Finished> {
        if !options.out.is_dir() {
            return Err(Error::model_folder(&options.out, folder::GONE));
        }
        let (mut model, averaged) = average::best_or_average(self, options, &state)?;
        let tuned = self.tune(&model)?;
        let head = tuned.as_ref().map_or(&self.head, |tuned| &tuned.config);
        model.head.set_config(head.clone());
        let tagger = self.tagger(&model);
        let score = |sentences: &[Sentence]| -> Result<Option<(Evaluation, Report)>> {
            if sentences.is_empty() {
                return Ok(None);
            }
            let mentions = tagger.tag_with(sentences, &[head, &self.head])?;
            let [chosen, as_trained] = &mentions[..] else {
                return Ok(None);
            };
            let evaluation = Evaluation {
                report: eval::score(sentences, chosen),
                scored: scored_mentions(sentences, chosen, model.head.nested()),
            };
            Ok(Some((evaluation, eval::score(sentences, as_trained))))
        };
        let (dev, dev_as_trained) = score(&self.corpus.dev)?.unzip();
        let (test, test_as_trained) = score(&self.corpus.test)?.unzip();
        let calibrated = calibrate(&self.recipe.train, dev.as_ref(), test.as_ref());
        calibrated.print(options.output);
        let calibration = match dev {
            Some(_) => calibrated.calibration.clone(),
            None => (options.calibration.clone()).filter(|_| self.recipe.train.calibrate),
        };
        let tagger = tagger.with_calibration(calibration.clone());
        let [dev, test] = [dev, test].map(|scored| scored.map(|scored| scored.report));
        let tuning = tuned.as_ref().map(|tuned| Tuning {
            changes: tuned.changes.clone(),
            dev_f1_as_trained: tuned.as_trained.f1(),
            dev_f1_cross_fitted: tuned.cross_fitted.f1(),
            dev_as_trained,
            test_as_trained,
        });
        let mut metrics = self.metrics(&state, dev.as_ref(), test.as_ref(), tuning.as_ref());
        if let Some(averaged) = averaged {
            metrics["average"] = json!(averaged);
        }
        metrics["calibration"] = calibrated.metrics();
        metrics[card::RUN] = self.run_facts(options, &state);
        let card = card::card(&card::CardFacts {
            recipe: &self.recipe,
            labels: &self.corpus.labels,
            corpus: self.corpus.about.clone(),
            metrics: &metrics,
            nested: model.head.nested(),
            encoder_origin: self.encoder_origin.as_ref(),
        });
        folder::write(
            &options.out,
            &folder::ModelFiles {
                model: &model,
                config: folder::ModelConfig {
                    calibration,
                    ..self.config(head)
                },
                tokenizer: &self.tokenizer,
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
            tuning,
            state,
        })
    }

    /// A tagger of the model.
    pub(super) fn tagger(&self, model: &Recognizer<H>) -> ModelTagger<H> {
        ModelTagger::new(
            model.clone(),
            self.tokenizer.clone(),
            self.encoder.clone(),
            self.corpus.labels.clone(),
        )
        .with_documents(self.segmentation.segmentation, self.recipe.predict.longest)
    }

    /// The dev sentences as they are scored during training: those that are too long for the head in pieces, which do not cut
    /// an entity. The final scores are those of whole sentences, tagged as after training.
    fn dev_pieces(&self) -> Cow<'_, [Sentence]> {
        let longest = self.recipe.predict.longest;
        let longest = longest.unwrap_or_else(|| H::longest_sentence(&self.head));
        gold_pieces(&self.corpus.dev, longest, self.encoder.context > 0)
    }

    /// Chooses decoding settings on the dev sentences, if the recipe says so and there are any.
    pub(super) fn tune(&self, model: &Recognizer<H>) -> Result<Option<Tuned<H::Config>>> {
        let dev = self.dev_pieces();
        if dev.is_empty() || !self.recipe.train.tune {
            return Ok(None);
        }
        let candidates = self.tagger(model).candidates(&dev)?;
        let scored: Vec<_> = (candidates.into_iter().zip(dev.iter()).enumerate())
            .map(|(index, (candidates, sentence))| ScoredSentence {
                index,
                candidates,
                entities: sentence.entities.clone(),
            })
            .collect();
        tune::tune(&model.head, &scored).map(Some)
    }

    fn metrics(
        &self,
        state: &RunState,
        dev: Option<&Report>,
        test: Option<&Report>,
        tuning: Option<&Tuning>,
    ) -> Value {
        json!({
            "dev": dev.map(Report::to_json),
            "test": test.map(Report::to_json),
            "tuning": tuning.map(Tuning::to_json),
            "best_step": state.best_step,
            "steps": state.step,
            "seconds": state.seconds,
            "curves": state.curves,
        })
    }

    /// What the model card and `metrics.json` say about the run.
    fn run_facts(&self, options: &TrainOptions, state: &RunState) -> Value {
        let counts = |sentences: &[Sentence]| {
            let entities = sentences.iter().map(|sentence| sentence.entities.len());
            json!({"sentences": sentences.len(), "entities": entities.sum::<usize>()})
        };
        let devices = options.devices.iter().map(device::name_of);
        json!({
            "command": options.command,
            "segmentation": self.segmentation.to_string(),
            "cpu_seconds": Some(state.cpu_seconds).filter(|seconds| *seconds > 0.0),
            "hardware": {
                "cpu": process::cpu_name().unwrap_or_else(|| std::env::consts::ARCH.into()),
                "threads": rayon::current_num_threads(),
                "devices": devices.collect::<Vec<_>>(),
            },
            "splits": {
                "train": counts(&self.corpus.train),
                "dev": counts(&self.corpus.dev),
                "test": counts(&self.corpus.test),
            },
        })
    }
}
