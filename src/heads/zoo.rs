//! The one table of all heads. Adding a paper is one folder and one line here.

use std::path::Path;

use burn::tensor::Device;

use super::Head;
use super::seq_ner::SeqNer;
use crate::error::{Error, Result, nearest};
use crate::predict::Tagger;
use crate::text::Sentence;
use crate::train::bench::{self, Bench, Measured};
use crate::train::launch::{Finished, Launch, launch};
use crate::train::probe::{Reached, gradients};
use crate::train::recipe::Recipe;
use crate::zoo::bundle;

/// A head of the zoo as plain functions.
pub struct Entry {
    /// Its name in recipes.
    pub name: &'static str,
    /// The paper.
    pub paper: &'static str,
    /// True when it finds nested entities.
    pub nested: bool,
    /// Trains a recipe.
    pub train: fn(&Launch) -> Result<Finished>,
    /// Loads a finished bundle.
    pub load: fn(&Path, &Device) -> Result<Box<dyn Tagger>>,
    /// Loads the best checkpoint of an unfinished run.
    pub load_checkpoint: fn(&Path, &Device) -> Result<Box<dyn Tagger>>,
    /// Times training.
    pub bench_train: fn(&Bench) -> Result<Measured>,
    /// Times prediction.
    pub bench_predict: fn(&Bench) -> Result<Measured>,
    /// One training step's gradients by parameter, for looking whether each gets one.
    pub gradients: fn(&Recipe, &[Sentence], &Device) -> Result<Reached>,
}

/// Every head there is.
pub const ZOO: &[Entry] = &[entry::<SeqNer>(
    "SeqNER of Bundling Learning: tagging with softmax or CRF",
    false,
)];

const fn entry<H: Head>(paper: &'static str, nested: bool) -> Entry {
    Entry {
        name: H::NAME,
        paper,
        nested,
        train: launch::<H>,
        load: |folder, device| Ok(Box::new(bundle::load::<H>(folder, device)?)),
        load_checkpoint: |run, device| Ok(Box::new(bundle::load_checkpoint::<H>(run, device)?)),
        bench_train: bench::train::<H>,
        bench_predict: bench::predict::<H>,
        gradients: gradients::<H>,
    }
}

/// The head with this name.
pub fn find(name: &str) -> Result<&'static Entry> {
    ZOO.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = ZOO.iter().map(|entry| entry.name).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean {near:?}?"),
            None => String::new(),
        };
        Error::Config(format!(
            "there is no head {name:?}{hint} The zoo has: {}",
            names.join(", ")
        ))
    })
}

/// A model from its folder: a bundle, or a run's best checkpoint.
pub fn load(path: &Path, device: &Device) -> Result<Box<dyn Tagger>> {
    let folder = bundle::folder_of(path);
    let entry = find(&bundle::Config::read(&folder)?.head)?;
    match folder.join(crate::zoo::manifest::FILE).is_file() {
        true => (entry.load)(&folder, device),
        false => (entry.load_checkpoint)(&folder, device),
    }
}
