//! Looking inside a step: which parameters a head's gradient reaches.

use burn::data::dataloader::DataLoader;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;

use super::batches::Loader;
use super::corpus::Corpus;
use super::recipe::Recipe;
use super::run::Run;
use crate::error::{Error, Result};
use crate::heads::Head;
use crate::nn::host;
use crate::text::{Labels, Sentence};

/// The largest gradient of each parameter, by its path.
pub type Reached = Vec<(String, f32)>;

/// The largest gradient of each parameter after one batch of the sentences; a parameter without any gets −1. Frozen ones
/// are passed over.
pub fn gradients<H: Head>(
    recipe: &Recipe,
    sentences: &[Sentence],
    device: &Device,
) -> Result<Reached> {
    let corpus = Corpus {
        train: sentences.to_vec(),
        dev: Vec::new(),
        test: Vec::new(),
        labels: Labels::of(sentences),
        about: None,
    };
    let run = Run::<H>::prepare(recipe.clone(), recipe.head_config()?, corpus)?;
    let model = run.model(&device.clone().autodiff())?;
    let loader = Loader::new(std::sync::Arc::new(run.kitchen(sentences, sentences.len())));
    let batch = loader.iter().next().and_then(|batch| batch.ok());
    let batch = batch.ok_or_else(|| Error::Training("no sentences to look at".into()))?;
    let output = TrainStep::step(&model, batch);
    let mut reach = Reach {
        gradients: output.grads,
        path: Vec::new(),
        found: Vec::new(),
    };
    model.visit(&mut reach);
    Ok(reach.found)
}

struct Reach {
    gradients: GradientsParams,
    path: Vec<String>,
    found: Reached,
}

impl ModuleVisitor for Reach {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let largest = match self.gradients.get::<D>(param.id) {
            Some(gradient) => host::floats(gradient.abs().max())[0],
            None => -1.0,
        };
        self.found.push((self.path.join("."), largest));
    }
}
