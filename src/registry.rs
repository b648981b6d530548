//! The one table of all heads. Adding a paper is one folder and one line here.

use std::path::Path;

use burn::tensor::Device;

use crate::bench::{self, Bench, Measured};
use crate::error::{Error, Result, nearest};
use crate::heads::Head;
use crate::heads::bopn::Bopn;
use crate::heads::bundle::Bundle;
use crate::heads::diffusion_ner::DiffusionNer;
use crate::heads::locate_label::LocateLabel;
use crate::heads::seq_ner::SeqNer;
use crate::heads::span_ner::SpanNer;
use crate::model::folder::{self, Knobs};
use crate::model::tagger::Tagger;
use crate::recipe::Recipe;
use crate::text::Sentence;
use crate::train::inspect::{Inspection, inspect};
use crate::train::launch::{Finished, Launch, launch};

/// A head of the zoo as plain functions.
pub struct Entry {
    /// Its name in recipes.
    pub name: &'static str,
    /// Its name in models: for a bundle the names of both heads.
    pub id: fn() -> String,
    /// The paper.
    pub paper: &'static str,
    /// True when it finds nested entities.
    pub nested: bool,
    /// Says what is wrong with a recipe's knobs for this head.
    pub check: fn(&Recipe) -> Result<()>,
    /// Trains a recipe.
    pub train: fn(&Launch) -> Result<Finished>,
    /// Loads a finished bundle.
    pub load: fn(&Path, &Device, &Knobs) -> Result<Box<dyn Tagger>>,
    /// Loads the best checkpoint of an unfinished run.
    pub load_checkpoint: fn(&Path, &Device, &Knobs) -> Result<Box<dyn Tagger>>,
    /// Times training.
    pub bench_train: fn(&Bench) -> Result<Measured>,
    /// Times prediction.
    pub bench_predict: fn(&Bench) -> Result<Measured>,
    /// One training step and one prediction laid open, for tests.
    pub inspect: fn(&Recipe, &[Sentence], &Device) -> Result<Inspection>,
}

/// Every head there is.
pub static HEADS: &[Entry] = &[
    entry::<SeqNer>(
        "seq_ner",
        "SeqNER of Bundling Learning: tagging with softmax or CRF",
        false,
    ),
    entry::<SpanNer>(
        "span_ner",
        "SpanNER of Bundling Learning: every span up to a length classified",
        true,
    ),
    entry::<Bundle<SeqNer, SpanNer>>(
        "bl_ner",
        "BL-NER of Bundling Learning: SeqNER and SpanNER on one encoder",
        true,
    ),
    entry::<Bopn>(
        "bopn",
        "Boundary offset prediction network: every span's distance to its nearest entity",
        true,
    ),
    entry::<Bundle<SeqNer, Bopn>>(
        "seq_ner+bopn",
        "Bundling Learning with BOPN as the span model",
        true,
    ),
    entry::<LocateLabel>(
        "locate_label",
        "Locate and Label: seed spans filtered, moved to where an entity is, and classified",
        true,
    ),
    entry::<Bundle<SeqNer, LocateLabel>>(
        "seq_ner+locate_label",
        "Bundling Learning with Locate and Label as the span model",
        true,
    ),
    entry::<DiffusionNer>(
        "diffusion_ner",
        "DiffusionNER: entities by denoising random spans",
        true,
    ),
    entry::<Bundle<SeqNer, DiffusionNer>>(
        "seq_ner+diffusion_ner",
        "Bundling Learning with DiffusionNER as the span model",
        true,
    ),
];

const fn entry<H: Head>(name: &'static str, paper: &'static str, nested: bool) -> Entry {
    Entry {
        name,
        id: H::name,
        paper,
        nested,
        check: |recipe| recipe.head_config::<H::Config>().map(|_| ()),
        train: launch::<H>,
        load: |folder, device, knobs| Ok(Box::new(folder::load::<H>(folder, device, knobs)?)),
        load_checkpoint: |run, device, knobs| {
            Ok(Box::new(folder::load_checkpoint::<H>(run, device, knobs)?))
        },
        bench_train: bench::train::<H>,
        bench_predict: bench::predict::<H>,
        inspect: inspect::<H>,
    }
}

/// The head with this name.
pub fn find(name: &str) -> Result<&'static Entry> {
    let wanted = |entry: &&Entry| entry.name == name || (entry.id)() == name;
    HEADS.iter().find(wanted).ok_or_else(|| {
        let names: Vec<&str> = HEADS.iter().map(|entry| entry.name).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean {near:?}?"),
            None => ".".into(),
        };
        Error::Config(format!(
            "there is no head {name:?}{hint} The zoo has: {}",
            names.join(", ")
        ))
    })
}

/// A model from its folder: a finished one, or a run's best checkpoint. `knobs` replace those it was trained with.
pub fn load(path: &Path, device: &Device, knobs: &Knobs) -> Result<Box<dyn Tagger>> {
    let folder = folder::folder_of(path);
    let head = folder::Config::read(&folder)?.head;
    if knobs.contains_key("output") && !head.contains('+') {
        return Err(Error::Config(format!(
            "{} has one head only, {head}; choosing between seq and span is for models that bundle two",
            folder.display()
        )));
    }
    let entry = find(&head)?;
    if folder.join(crate::model::manifest::FILE).is_file() {
        (entry.load)(&folder, device, knobs)
    } else {
        (entry.load_checkpoint)(&folder, device, knobs)
    }
}
