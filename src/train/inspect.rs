//! Looking inside a step: loss, gradients, predictions, and how often the device was waited for.

use burn::data::dataloader::DataLoader;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;

use super::batches::Loader;
use super::corpus::Corpus;
use super::optimizer::optimizer;
use super::run::Run;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::nn::host;
use crate::recipe::Recipe;
use crate::text::{Labels, Mention, Sentence};

/// One training step and one prediction, laid open.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The loss.
    pub loss: f64,
    /// The gradient of each parameter by its path, frozen ones left out; nothing where none arrived.
    pub gradients: Vec<(String, Option<Vec<f32>>)>,
    /// What the model finds as it is.
    pub mentions: Vec<Vec<Mention>>,
    /// How often the step waited for numbers from the device, before the weights are updated.
    pub reads_in_training: usize,
    /// How often the prediction did.
    pub reads_in_prediction: usize,
}

/// Does one step without an update on one batch of the sentences, and predicts them.
pub fn inspect<H: Head>(
    recipe: &Recipe,
    sentences: &[Sentence],
    device: &Device,
) -> Result<Inspection> {
    let corpus = Corpus {
        train: sentences.to_vec(),
        dev: Vec::new(),
        test: Vec::new(),
        labels: Labels::of(sentences),
        about: None,
    };
    let run = Run::<H>::prepare(recipe.clone(), recipe.head_config()?, corpus)?;
    let model = run.model(&device.clone().autodiff())?;
    let loader = Loader::new(std::sync::Arc::new(run.batcher(sentences, sentences.len())));
    let batch = loader.iter().next().and_then(|batch| batch.ok());
    let batch = batch.ok_or_else(|| Error::Training("no sentences to look at".into()))?;
    let pieces = batch.pieces.clone();
    let order = batch.sentences.clone();
    let before = host::reads();
    let output = TrainStep::step(&model, batch);
    let (_, scale) = optimizer(&recipe.train);
    let loss = output.item.unread.into_iter().collect();
    let (_, losses) = scale.clip(&model, &output.grads, loss, 1.0);
    let trained = host::reads();
    let plain = model.valid();
    let states = plain.states(&pieces, false);
    let found = plain.head.decode(&states);
    let predicted = host::reads();
    let mut mentions = vec![Vec::new(); found.len()];
    for (index, list) in order.into_iter().zip(found) {
        mentions[index] = list;
    }
    let mut reach = Reach {
        gradients: output.grads,
        path: Vec::new(),
        found: Vec::new(),
    };
    model.visit(&mut reach);
    Ok(Inspection {
        loss: losses[0],
        gradients: reach.found,
        mentions,
        reads_in_training: trained - before,
        reads_in_prediction: predicted - trained,
    })
}

struct Reach {
    gradients: GradientsParams,
    path: Vec<String>,
    found: Vec<(String, Option<Vec<f32>>)>,
}

impl ModuleVisitor for Reach {
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
