//! The table of heads: one entry for each, found by name. Adding a paper is one folder under `heads` and one line here;
//! a program that depends on this crate adds heads of its own with [`add`].

use std::fs;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use burn::tensor::Device;
use toml::{Table, Value};

use crate::data::check::Reach;
use crate::data::stats::Stats;
use crate::error::{Error, Result, nearest};
use crate::heads::bopn::Bopn;
use crate::heads::bundle::Bundle;
use crate::heads::diffusion_ner::DiffusionNer;
use crate::heads::locate_label::LocateLabel;
use crate::heads::seq_ner::SeqNer;
use crate::heads::settings::{self, Setting};
use crate::heads::span_ner::SpanNer;
use crate::heads::token_classifier::TokenClassifier;
use crate::heads::{Head, Suggestion};
use crate::model::folder::{self, ModelConfig};
use crate::model::import::{self, ImportedModel, ReleasedFiles};
use crate::model::manifest;
use crate::model::tagger::Tagger;
use crate::recipe::Recipe;
use crate::recipe::defaults::{self, Defaults, EncoderSize};
use crate::recipe::set::Assignment;
#[cfg(feature = "train")]
use crate::train::memory::MemoryEstimate;
#[cfg(feature = "train")]
use crate::train::{self, Corpus, Finished, RunState, TrainOptions, Trainer};

/// Loads a model from a folder onto a device, with settings of its head replaced.
pub type Load = fn(&Path, &Device, &[Assignment]) -> Result<Box<dyn Tagger>>;

/// Reads a model folder as its configuration and a token classifier, with settings of its head replaced.
pub type ExportTagger = fn(&Path, &[Assignment]) -> Result<(ModelConfig, TokenClassifier)>;

/// The registry entry of a head, with its generic functions as function pointers.
pub struct Entry {
    /// Its name in recipes.
    pub name: &'static str,
    /// Its name in model folders: for a bundle the names of both heads, as in `seq_ner+span_ner`.
    pub id: fn() -> String,
    /// The paper and the idea in one line.
    pub paper: &'static str,
    /// True when it finds nested entities.
    pub nested: bool,
    /// All settings with their documentation and defaults.
    pub settings: fn() -> Vec<Setting>,
    /// Fails when the settings of a recipe are wrong for this head.
    pub check: fn(&Recipe) -> Result<()>,
    /// Loads a finished model folder.
    pub load: Load,
    /// Fails when settings cannot replace those of a trained model.
    pub check_overrides: fn(&Path, &[Assignment]) -> Result<()>,
    /// Fails unless the weights of a model folder fit its `config.json`, without loading them.
    pub check_weights: fn(&Path) -> Result<()>,
    /// Settings that suit a corpus better than the defaults.
    pub suggest: fn(&Stats) -> Vec<Suggestion>,
    /// Which entities it can represent with the settings of a recipe.
    pub reach: fn(&Recipe) -> Result<Reach>,
    /// Writes a model folder with a token classifier of the transformers library as its head.
    pub import_tagger: fn(&Path, &TokenClassifier, ImportedModel<'_>) -> Result<()>,
    /// Writes a model folder with the weights of a checkpoint that the authors' program wrote.
    pub import_released: fn(&Path, ReleasedFiles<'_>) -> Result<()>,
    /// The configuration of a model folder, and its head as a token classifier of the transformers library.
    pub export_tagger: ExportTagger,
    /// Loads the best checkpoint of an unfinished run.
    #[cfg(feature = "train")]
    pub load_checkpoint: Load,
    /// Trains a recipe.
    #[cfg(feature = "train")]
    pub train: fn(&TrainOptions) -> Result<Finished>,
    /// Trains a recipe up to the end of an epoch, to be continued with `train`.
    #[cfg(feature = "train")]
    pub train_until: fn(&TrainOptions, usize) -> Result<RunState>,
    /// Prepares training step by step, without a run folder.
    #[cfg(feature = "train")]
    pub trainer: fn(&Recipe, Corpus, &Device) -> Result<Box<dyn Trainer>>,
    /// Estimates the memory of training a recipe.
    #[cfg(feature = "train")]
    pub memory: fn(&Recipe, Corpus, &Device) -> Result<Vec<MemoryEstimate>>,
}

/// The name of the head that tags words one by one, as token classifiers do.
pub const TAGGER: &str = "seq_ner";

/// The heads of this crate. A static, so that only this crate compiles them.
static HEADS: &[Entry] = &[
    Entry::of::<SeqNer>(
        "seq_ner",
        "SeqNER (Bundling Learning): tagging with softmax or CRF",
        false,
    ),
    Entry::of::<SpanNer>(
        "span_ner",
        "SpanNER (Bundling Learning): classifies every span up to a length",
        true,
    ),
    Entry::of::<Bundle<SeqNer, SpanNer>>(
        "bl_ner",
        "BL-NER (Bundling Learning): SeqNER and SpanNER on one encoder",
        true,
    ),
    Entry::of::<Bopn>(
        "bopn",
        "Boundary offset prediction network: the distance of every span to its nearest entity",
        true,
    ),
    Entry::of::<Bundle<SeqNer, Bopn>>(
        "seq_ner+bopn",
        "Bundling Learning with BOPN as the span model",
        true,
    ),
    Entry::of::<LocateLabel>(
        "locate_label",
        "Locate and Label: filters seed spans, moves their boundaries and classifies them",
        true,
    ),
    Entry::of::<Bundle<SeqNer, LocateLabel>>(
        "seq_ner+locate_label",
        "Bundling Learning with Locate and Label as the span model",
        true,
    ),
    Entry::of::<DiffusionNer>(
        "diffusion_ner",
        "DiffusionNER: generates entities by denoising random spans",
        true,
    ),
    Entry::of::<Bundle<SeqNer, DiffusionNer>>(
        "seq_ner+diffusion_ner",
        "Bundling Learning with DiffusionNER as the span model",
        true,
    ),
];

/// Heads added by programs that use this crate.
static ADDED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

impl Entry {
    /// The entry of a head.
    pub const fn of<H: Head>(name: &'static str, paper: &'static str, nested: bool) -> Self {
        Self {
            name,
            id: H::name,
            paper,
            nested,
            settings: settings::describe::<H::Config>,
            check: |recipe| recipe.head_config::<H::Config>().map(|_| ()),
            load: |folder, device, overrides| {
                Ok(Box::new(folder::load::<H>(folder, device, overrides)?))
            },
            check_overrides: folder::check_overrides::<H>,
            check_weights: folder::check_weights::<H>,
            suggest: H::suggest,
            reach: |recipe| Ok(H::reach(&recipe.head_config::<H::Config>()?)),
            import_tagger: |folder, classifier, model| {
                import::write::<H>(folder, H::from_token_classifier(classifier)?, model)
            },
            import_released: import::write_released::<H>,
            export_tagger: |folder, overrides| {
                let (config, head) = folder::load_head::<H>(folder, overrides)?;
                Ok((config, head.to_token_classifier()?))
            },
            #[cfg(feature = "train")]
            load_checkpoint: |run, device, overrides| {
                Ok(Box::new(train::load_checkpoint::<H>(
                    run, device, overrides,
                )?))
            },
            #[cfg(feature = "train")]
            train: train::train::<H>,
            #[cfg(feature = "train")]
            train_until: train::train_until::<H>,
            #[cfg(feature = "train")]
            trainer: train::trainer::<H>,
            #[cfg(feature = "train")]
            memory: train::memory::estimates::<H>,
        }
    }

    /// Settings for this head on a corpus, each with its reason: those of the table of measured results, and of those it
    /// leaves open, what the head suggests for the corpus.
    ///
    /// ```
    /// use nerzoo::data::stats::Stats;
    /// use nerzoo::recipe::{Recipe, defaults::EncoderSize};
    ///
    /// # fn main() -> nerzoo::error::Result<()> {
    /// let text = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n";
    /// let mut recipe = Recipe::parse(text, "example", &[])?;
    /// let entry = nerzoo::registry::find("seq_ner")?;
    /// let corpus = Stats::default(); // Stats::of the training sentences
    /// entry.defaults(&corpus, EncoderSize::of(None)).apply(&mut recipe)?;
    /// assert_eq!(recipe.train.learning_rate, 1e-3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn defaults(&self, corpus: &Stats, encoder: EncoderSize) -> Defaults {
        let id = (self.id)();
        let mut found = defaults::for_corpus(&[self.name, &id], corpus, encoder);
        for suggestion in (self.suggest)(corpus) {
            let is_known = |known: &Suggestion| known.setting == suggestion.setting;
            if !found.head.iter().any(is_known) {
                found.head.push(suggestion);
            }
        }
        found
    }
}

/// Which entities each head can represent on a corpus, with the settings that `init` chooses for it; heads added by other
/// programs included.
pub fn reach(corpus: &Stats) -> Result<Vec<(&'static str, Reach)>> {
    let of = |entry: &'static Entry| {
        let head = Table::from_iter([("name".to_string(), Value::String(entry.name.into()))]);
        let recipe = Table::from_iter([
            (
                "data".to_string(),
                Value::Table(Table::from_iter([(
                    "corpus".to_string(),
                    Value::String("x".into()),
                )])),
            ),
            ("head".to_string(), Value::Table(head)),
        ]);
        let mut recipe = Recipe::parse(&recipe.to_string(), entry.name, &[])?;
        entry
            .defaults(corpus, EncoderSize::of(None))
            .apply(&mut recipe)?;
        Ok((entry.name, (entry.reach)(&recipe)?))
    };
    heads().into_iter().map(of).collect()
}

/// All heads: those of this crate, then those that were added.
pub fn heads() -> Vec<&'static Entry> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    HEADS.iter().chain(added.iter().copied()).collect()
}

/// Adds a head, for recipes and model folders that name it. Fails when its name is taken. `examples/own_head.rs` shows a
/// complete head outside this crate.
///
/// ```
/// # use nerzoo::heads::seq_ner::SeqNer;
/// use nerzoo::registry::{self, Entry};
/// // A head of your own stands where SeqNer does; it is found by its name and by `Head::name`.
/// let problem = registry::add(Entry::of::<SeqNer>("my_tagger", "Taggers of mine", false));
/// assert!(problem.unwrap_err().to_string().contains("seq_ner"));
/// ```
pub fn add(entry: Entry) -> Result<()> {
    let id = (entry.id)();
    let names = [entry.name, id.as_str()];
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = HEADS.iter().chain(added.iter().copied());
    if let Some(other) =
        known.find(|other| names.contains(&other.name) || names.contains(&(other.id)().as_str()))
    {
        return Err(Error::Config(format!(
            "a head {} ({id}) cannot be added: {} has this name already",
            entry.name, other.name
        )));
    }
    added.push(Box::leak(Box::new(entry)));
    Ok(())
}

/// The head with this name, of a recipe or of a model folder.
///
/// ```
/// use nerzoo::registry;
/// assert!(registry::find("span_ner").is_ok_and(|entry| entry.nested));
/// let problem = registry::find("spam_ner").err().map(|problem| problem.to_string());
/// assert!(problem.is_some_and(|text| text.contains("span_ner")));
/// ```
pub fn find(name: &str) -> Result<&'static Entry> {
    let all = heads();
    let found = all
        .iter()
        .find(|entry| entry.name == name || (entry.id)() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|entry| entry.name).collect();
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

/// The head of a recipe, and the recipe with `bundle.with` turned into the bundle's own settings.
pub fn resolve(mut recipe: Recipe) -> Result<(Recipe, &'static Entry)> {
    if let Some(bundle) = recipe.bundle.take() {
        let name = recipe.head_name().to_string();
        let (answers, entry) = bundle_of(&name, &bundle.with)?;
        let mut own = std::mem::take(&mut recipe.head);
        own.remove("name");
        recipe.head = Table::from_iter([
            ("name".to_string(), Value::String((entry.id)())),
            ("alpha".to_string(), Value::Float(bundle.alpha)),
            ("output".to_string(), Value::String(answers.into())),
            (answers.to_string(), Value::Table(own)),
        ]);
    }
    let entry = find(recipe.head_name())?;
    (entry.check)(&recipe)?;
    Ok((recipe, entry))
}

/// Finds the bundle of two heads; also returns whether `name` is its `seq` or its `span` part.
fn bundle_of(name: &str, with: &str) -> Result<(&'static str, &'static Entry)> {
    let (own, other) = ((find(name)?.id)(), (find(with)?.id)());
    let orders = [
        ("seq", format!("{own}+{other}")),
        ("span", format!("{other}+{own}")),
    ];
    for (part, id) in &orders {
        if let Some(entry) = heads().into_iter().find(|entry| (entry.id)() == *id) {
            return Ok((part, entry));
        }
    }
    let bundles: Vec<String> = heads()
        .iter()
        .map(|entry| (entry.id)())
        .filter(|id| id.contains('+'))
        .collect();
    Err(Error::Config(format!(
        "bundle.with = {with:?}: there is no bundle of {name} and {with}. The zoo has: {}",
        bundles.join(", ")
    )))
}

/// Fails unless the weights of a model folder fit its `config.json`, without loading them.
pub fn check_weights(folder: &Path) -> Result<()> {
    let entry = find(&ModelConfig::read(folder)?.head)?;
    (entry.check_weights)(folder)
}

/// Loads a model folder, or the best checkpoint of an unfinished run. `overrides` replace settings of the head that may
/// change after training.
///
/// ```no_run
/// use nerzoo::recipe::set::Assignment;
/// use nerzoo::{device, registry};
///
/// # fn main() -> nerzoo::error::Result<()> {
/// let settings = [Assignment::parse("head.output=seq")?];
/// let tagger = registry::load("runs/quickstart".as_ref(), &device::parse("cpu")?, &settings)?;
/// println!("{} types", tagger.labels().len());
/// # Ok(())
/// # }
/// ```
pub fn load(path: &Path, device: &Device, overrides: &[Assignment]) -> Result<Box<dyn Tagger>> {
    let folder = folder::folder_of(path);
    let entry = find(&ModelConfig::read(&folder)?.head)?;
    if folder.join(manifest::FILE).is_file() {
        return (entry.load)(&folder, device, overrides);
    }
    if fs::symlink_metadata(folder.join(manifest::FILE)).is_ok() {
        return Err(Error::model_folder(
            folder.join(manifest::FILE),
            "this is not an ordinary file; copy the folder again",
        ));
    }
    #[cfg(feature = "train")]
    return (entry.load_checkpoint)(&folder, device, overrides);
    #[cfg(not(feature = "train"))]
    Err(Error::model_folder(
        folder,
        "no manifest.json here: the model is not finished, and this build (without the feature `train`) loads finished \
         models only",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SMALL: &str = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n";

    fn resolved(sets: &[&str]) -> Result<Recipe> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        Ok(resolve(Recipe::parse(SMALL, "r.toml", &sets)?)?.0)
    }

    #[test]
    fn a_line_bundles_two_heads() {
        let recipe = resolved(&["bundle.with=span_ner", "head.decoder=crf"]).unwrap();
        assert_eq!(recipe.head_name(), "seq_ner+span_ner");
        assert_eq!(recipe.head["output"].as_str(), Some("seq"));
        assert_eq!(recipe.head["seq"]["decoder"].as_str(), Some("crf"));
        let recipe = resolved(&["bundle.with=seq_ner", "head.name=bopn"]).unwrap();
        assert_eq!(recipe.head_name(), "seq_ner+bopn");
        assert_eq!(recipe.head["output"].as_str(), Some("span"));
    }

    #[test]
    fn bundles_that_do_not_exist_are_explained() {
        let problem = resolved(&["bundle.with=seq_ner"]).unwrap_err().to_string();
        assert!(
            problem.contains("no bundle of seq_ner and seq_ner"),
            "{problem}"
        );
        let problem = resolved(&["bundle.with=span_nre"]).unwrap_err().to_string();
        assert!(problem.contains("did you mean \"span_ner\"?"), "{problem}");
    }

    #[test]
    fn the_table_of_defaults_names_heads_and_settings_that_exist() {
        for row in defaults::rows() {
            let Some(name) = &row.condition.head else {
                assert!(row.head.is_empty(), "settings of no head: {}", row.why);
                continue;
            };
            let settings = (find(name).unwrap().settings)();
            for (key, _) in row.head_settings() {
                assert!(
                    settings.iter().any(|known| known.name == key),
                    "{name}: {key}"
                );
            }
        }
    }

    #[test]
    fn the_defaults_of_every_head_are_a_valid_recipe() {
        let mut stats = Stats {
            entities: 100,
            lengths: BTreeMap::from([(1, 60), (3, 39), (12, 1)]),
            entities_per_sentence: BTreeMap::from([(0, 5), (1, 90), (5, 2)]),
            ..Stats::default()
        };
        let widths = [384, 768, 1024].map(|width| EncoderSize::Pretrained { width });
        for entry in heads() {
            for sentences in [50, 1500, 5000, 50_000] {
                stats.sentences = sentences;
                for encoder in widths.into_iter().chain([EncoderSize::Scratch]) {
                    let text = SMALL.replace("seq_ner", entry.name);
                    let mut recipe = Recipe::parse(&text, "r.toml", &[]).unwrap();
                    let found = entry.defaults(&stats, encoder);
                    found.apply(&mut recipe).unwrap();
                    let written = recipe.to_toml().unwrap();
                    let recipe = Recipe::parse(&written, entry.name, &[]).unwrap();
                    resolve(recipe).unwrap();
                }
            }
        }
    }

    #[test]
    fn every_head_reaches_what_its_settings_allow() {
        let stats = Stats {
            sentences: 1000,
            entities: 100,
            lengths: BTreeMap::from([(1, 60), (3, 39), (12, 1)]),
            entities_per_sentence: BTreeMap::from([(0, 5), (1, 90), (5, 2)]),
            ..Stats::default()
        };
        let all: BTreeMap<&str, Reach> = reach(&stats).unwrap().into_iter().collect();
        assert_eq!(all["seq_ner"], Reach::flat());
        assert_eq!(
            (all["span_ner"].longest, all["bl_ner"].longest),
            (Some(3), Some(3))
        );
        assert!(all["diffusion_ner"].most.is_some_and(|most| most >= 5));
        assert!(all.values().filter(|reach| reach.overlapping).count() >= 8);
    }

    #[test]
    fn defaults_combine_the_table_with_suggestions_for_the_corpus() {
        let stats = Stats {
            sentences: 1000,
            entities: 100,
            lengths: BTreeMap::from([(1, 60), (3, 40)]),
            ..Stats::default()
        };
        let encoder = EncoderSize::Pretrained { width: 384 };
        let found = find("bl_ner").unwrap().defaults(&stats, encoder);
        let longest = |one: &&Suggestion| one.setting == "span.longest";
        assert_eq!(found.head.iter().find(longest).unwrap().value, 3);
        let is_rate = |one: &Suggestion| one.setting == "head_learning_rate";
        assert!(found.train.iter().any(is_rate));
    }

    #[test]
    fn every_head_lists_its_settings() {
        for entry in heads() {
            for setting in (entry.settings)() {
                assert!(!setting.doc.is_empty(), "{}: {}", entry.name, setting.name);
                assert!(!setting.kind.is_empty(), "{}: {}", entry.name, setting.name);
                assert!(
                    !setting.defaults.is_empty(),
                    "{}: {}",
                    entry.name,
                    setting.name
                );
            }
        }
    }
}
