//! The requirements that every head of the zoo has to meet, one test case per head, variant, device and check, such as
//! `bopn/released/cpu/overfits`.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burn::tensor::Device;
use common::small_corpus::{recipe, sentences, variants};
use common::{entities, inspect, largest_gradients};
use libtest_mimic::{Arguments, Failed, Trial};
use nerzoo::encoder::load;
use nerzoo::heads::Evidence;
use nerzoo::recipe::Recipe;
use nerzoo::registry::{self, Entry};
use nerzoo::text::{Entity, Labels, Mention, Sentence, outermost};
use nerzoo::train::{Corpus, Finished};
use tempfile::TempDir;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let devices = common::devices();
    let mut trials = Vec::new();
    for entry in registry::heads() {
        for variant in variants(entry.name) {
            let case = |(device_name, device): &(String, Device)| {
                Arc::new(Case {
                    entry,
                    variant: variant.name,
                    sets: variant.sets.clone(),
                    device: device.clone(),
                    device_name: device_name.clone(),
                    trained: OnceLock::new(),
                })
            };
            let cases: Vec<Arc<Case>> = devices.iter().map(case).collect();
            // Neighbouring trials are of different devices, which can run side by side.
            for (name, check) in CHECKS {
                trials.extend(cases.iter().map(|case| trial(case.clone(), name, check)));
            }
        }
    }
    trials.push(half_precision());
    for (name, folder) in encoders() {
        for (device_name, device) in &devices {
            for entry in registry::heads() {
                let pair = Pair {
                    entry,
                    encoder: folder.clone(),
                    device: device.clone(),
                };
                let start = format!("{}/{name}/{device_name}", entry.name);
                trials.push(pair.trial(&start, "trains_20_steps", Pair::trains_20_steps));
                if entry.name == "seq_ner" {
                    let check = Pair::a_loaded_model_tags_the_same;
                    trials.push(pair.trial(&start, "a_loaded_model_tags_the_same", check));
                }
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Check = fn(&Case) -> Result<(), Failed>;

const CHECKS: [(&str, Check); 8] = [
    (
        "gradients_reach_every_parameter",
        gradients_reach_every_parameter,
    ),
    (
        "an_empty_sentence_keeps_gradients_finite",
        an_empty_sentence_keeps_gradients_finite,
    ),
    ("overfits", overfits),
    ("tags_the_training_sentences", tags_the_training_sentences),
    ("tags_an_empty_sentence", tags_an_empty_sentence),
    ("diagnosis_agrees_with_tags", diagnosis_agrees_with_tags),
    ("a_loaded_model_tags_the_same", a_loaded_model_tags_the_same),
    ("a_batch_changes_nothing", a_batch_changes_nothing),
];

fn trial(case: Arc<Case>, check_name: &str, check: Check) -> Trial {
    let (head, variant, device) = (case.entry.name, case.variant, &case.device_name);
    let name = format!("{head}/{variant}/{device}/{check_name}");
    Trial::test(name, move || {
        let _guard = lock(&case.device_name);
        check(&case)
    })
}

/// Lets one case at a time use a device, because the random seed of a device is global to the process.
fn lock(device: &str) -> MutexGuard<'static, ()> {
    static LOCKS: Mutex<BTreeMap<String, &'static Mutex<()>>> = Mutex::new(BTreeMap::new());
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let lock: &'static Mutex<()> = locks
        .entry(device.to_string())
        .or_insert_with(|| Box::leak(Box::default()));
    drop(locks);
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A head with settings on a device, and the model trained with them.
struct Case {
    entry: &'static Entry,
    variant: &'static str,
    sets: Vec<String>,
    device: Device,
    device_name: String,
    trained: OnceLock<Result<Trained, String>>,
}

/// A trained model, its run folder, and the mentions it finds in [`texts`].
struct Trained {
    finished: Finished,
    folder: TempDir,
    found: Vec<Vec<Mention>>,
}

impl Trained {
    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }
}

impl Case {
    fn recipe(&self, folder: &Path) -> Recipe {
        recipe(self.entry.name, &self.sets, folder)
    }

    /// The model, trained by the first check that needs it.
    fn trained(&self) -> Result<&Trained, Failed> {
        let trained = self.trained.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let recipe = self.recipe(folder.path());
            let out = folder.path().join("run");
            let options = common::train_options(recipe, &out, &self.device);
            let train = || -> nerzoo::error::Result<Trained> {
                let finished = (self.entry.train)(&options)?;
                let found = finished.tagger.tag(&texts())?;
                Ok(Trained {
                    finished,
                    folder,
                    found,
                })
            };
            train().map_err(|problem| problem.to_string())
        });
        let trained = trained.as_ref();
        trained.map_err(|problem| format!("the model was not trained: {problem}").into())
    }
}

/// The training sentences, an empty sentence, and one with unknown words.
fn texts() -> Vec<Sentence> {
    let mut texts = sentences();
    texts.push(Sentence::default());
    texts.push(Sentence::from_words([
        "quite",
        "unknown",
        "👩‍🔬",
        "\u{200b}",
        "北京",
    ]));
    texts
}

fn gradients_reach_every_parameter(case: &Case) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let recipe = case.recipe(folder.path());
    let found = inspect(case.entry, &recipe, &sentences(), &case.device)?;
    assert!(found.gradients.len() > 10);
    for (parameter, largest) in largest_gradients(&found) {
        assert!(largest.is_finite(), "{parameter} has {largest}");
        // The bias of the keys shifts all scores of a softmax alike: its gradient is zero.
        let is_zero = parameter.ends_with("key.bias");
        assert!(is_zero || largest > 0.0, "no gradient reaches {parameter}");
    }
    Ok(())
}

fn an_empty_sentence_keeps_gradients_finite(case: &Case) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let recipe = case.recipe(folder.path());
    let mut sentences = sentences();
    sentences.push(Sentence::default());
    let found = inspect(case.entry, &recipe, &sentences, &case.device)?;
    assert!(found.loss.is_finite(), "the loss is {}", found.loss);
    for (parameter, largest) in largest_gradients(&found) {
        assert!(largest.is_finite(), "{parameter} has {largest}");
    }
    Ok(())
}

fn overfits(case: &Case) -> Result<(), Failed> {
    let finished = &case.trained()?.finished;
    let report = finished.test.as_ref().unwrap();
    let counts = if case.entry.nested {
        report.overall
    } else {
        report.flat_view
    };
    assert_eq!(counts.f1(), 1.0, "{report}");
    assert_eq!(finished.tagger.nested(), case.entry.nested);
    Ok(())
}

fn tags_the_training_sentences(case: &Case) -> Result<(), Failed> {
    for (sentence, mentions) in sentences().iter().zip(&case.trained()?.found) {
        let mut gold = if case.entry.nested {
            sentence.entities.clone()
        } else {
            outermost(&sentence.entities)
        };
        let mut found: Vec<Entity> = mentions
            .iter()
            .map(|mention| mention.entity.clone())
            .collect();
        gold.sort();
        found.sort();
        assert_eq!(found, gold);
        let mut scores = mentions.iter().map(|mention| mention.score);
        assert!(scores.all(|score| (0.0..=1.0001).contains(&score)));
    }
    Ok(())
}

fn tags_an_empty_sentence(case: &Case) -> Result<(), Failed> {
    let found = &case.trained()?.found;
    assert_eq!(found.len(), texts().len());
    assert!(found[8].is_empty(), "{:?}", found[8]);
    Ok(())
}

/// The diagnosis has the mentions of `tag`, and all sources of evidence together find what the source "all" finds.
fn diagnosis_agrees_with_tags(case: &Case) -> Result<(), Failed> {
    let trained = case.trained()?;
    let diagnosis = trained.finished.tagger.diagnose(&texts())?;
    assert_same(&diagnosis.mentions, &trained.found);
    // A bundle also reports the mentions of its other head.
    let (heads, evidence): (Vec<Evidence>, Vec<Evidence>) = (diagnosis.evidence.into_iter())
        .partition(|evidence| registry::find(&evidence.name).is_ok());
    let id = (case.entry.id)();
    assert_eq!(heads.len(), usize::from(id.contains('+')));
    assert_eq!(evidence.is_empty(), !id.contains("bopn"));
    let found = |source: &Evidence| -> BTreeSet<(usize, Entity)> {
        let each = source.mentions.iter().enumerate();
        each.flat_map(|(index, list)| list.iter().map(move |m| (index, m.entity.clone())))
            .collect()
    };
    let combined = ["all", "rules", "votes"];
    let single = evidence
        .iter()
        .filter(|source| !combined.contains(&source.name.as_str()));
    let together: BTreeSet<(usize, Entity)> = single.flat_map(found).collect();
    for source in &evidence {
        let found = found(source);
        match source.name.as_str() {
            "all" => assert_eq!(found, together),
            name => assert!(found.is_subset(&together), "{name}"),
        }
    }
    Ok(())
}

fn a_loaded_model_tags_the_same(case: &Case) -> Result<(), Failed> {
    let trained = case.trained()?;
    let loaded = registry::load(&trained.out(), &case.device, &[])?;
    assert_eq!(loaded.labels(), trained.finished.tagger.labels());
    assert_same(&trained.found, &loaded.tag(&texts())?);
    Ok(())
}

/// A sentence alone has no padding, in a batch it has.
fn a_batch_changes_nothing(case: &Case) -> Result<(), Failed> {
    let trained = case.trained()?;
    let tag = |text: &Sentence| -> nerzoo::error::Result<Vec<Mention>> {
        let mut found = trained.finished.tagger.tag(std::slice::from_ref(text))?;
        Ok(found.remove(0))
    };
    let single: Result<Vec<Vec<Mention>>, _> = texts().iter().map(tag).collect();
    assert_same(&trained.found, &single?);
    Ok(())
}

fn assert_same(one: &[Vec<Mention>], other: &[Vec<Mention>]) {
    assert_eq!(entities(one), entities(other));
    for (one, other) in one.iter().flatten().zip(other.iter().flatten()) {
        let difference = (one.score - other.score).abs();
        assert!(difference < 1e-4, "{} {}", one.score, other.score);
    }
}

/// Weights saved in half precision give the same entities.
fn half_precision() -> Trial {
    let (device_name, device) = common::devices().remove(0);
    let name = format!("seq_ner/half/{device_name}/tags_the_same");
    Trial::test(name, move || {
        let _guard = lock(&device_name);
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("run");
        let recipe = recipe("seq_ner", &["train.half=true".into()], folder.path());
        let options = common::train_options(recipe, &out, &device);
        let finished = (registry::find("seq_ner")?.train)(&options)?;
        let loaded = registry::load(&out, &device, &[])?;
        let expected = entities(&finished.tagger.tag(&sentences())?);
        assert_eq!(entities(&loaded.tag(&sentences())?), expected);
        assert!(expected.iter().any(|list| !list.is_empty()));
        Ok(())
    })
}

/// One tiny pretrained encoder of each family, with its name: the first, if possible with a width that all heads can divide.
fn encoders() -> Vec<(String, PathBuf)> {
    let folders = std::fs::read_dir(common::tiny_encoders()).unwrap();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut families = BTreeMap::new();
    for folder in folders {
        if let Ok(config) = std::fs::read_to_string(folder.join("config.json")) {
            let config: serde_json::Value = serde_json::from_str(&config).unwrap();
            let family = config["model_type"].as_str().unwrap().to_string();
            let width = load::config(&folder).map_or(1, |config| config.width);
            let choice = (!width.is_multiple_of(4), folder);
            let chosen = families.entry(family).or_insert_with(|| choice.clone());
            if choice < *chosen {
                *chosen = choice;
            }
        }
    }
    let named = families
        .into_iter()
        .map(|(name, (_, folder))| (name, folder));
    named.collect()
}

/// A head on a pretrained encoder.
#[derive(Clone)]
struct Pair {
    entry: &'static Entry,
    encoder: PathBuf,
    device: Device,
}

impl Pair {
    fn trial(
        &self,
        start: &str,
        check_name: &str,
        check: fn(&Self) -> Result<(), Failed>,
    ) -> Trial {
        let pair = self.clone();
        let device = start.rsplit('/').next().unwrap_or_default().to_string();
        Trial::test(format!("{start}/{check_name}"), move || {
            let _guard = lock(&device);
            check(&pair)
        })
    }

    fn recipe(&self, folder: &Path) -> Recipe {
        let file = common::write_sentences(folder.join("eight.jsonl"), &sentences());
        let variant = &variants(self.entry.name)[0];
        let mut sets = variant.sets.clone();
        sets.push("train.epochs=10".into());
        sets.push("train.learning_rate=2e-3".into());
        common::pretrained_recipe(&self.encoder, self.entry.name, &file, &sets)
    }

    fn trains_20_steps(&self) -> Result<(), Failed> {
        let folder = tempfile::tempdir()?;
        let corpus = Corpus {
            train: sentences(),
            dev: Vec::new(),
            test: Vec::new(),
            labels: Labels::of(&sentences()),
            about: None,
        };
        let recipe = self.recipe(folder.path());
        let mut trainer = (self.entry.trainer)(&recipe, corpus, &self.device)?;
        let before = trainer.inspect()?;
        for (parameter, largest) in largest_gradients(&before) {
            assert!(largest.is_finite(), "{parameter} has {largest}");
        }
        let losses: Result<Vec<f64>, _> = (0..20)
            .map(|_| trainer.step().map(|batch| batch.loss))
            .collect();
        let losses = losses?;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&losses[..6]), mean(&losses[14..]));
        common::print_detail(&format!("{}: {first} {last}", self.entry.name));
        assert!(last < first, "{losses:?}");
        assert!(trainer.inspect()?.loss.is_finite());
        Ok(())
    }

    fn a_loaded_model_tags_the_same(&self) -> Result<(), Failed> {
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("run");
        let options = common::train_options(self.recipe(folder.path()), &out, &self.device);
        let finished = (self.entry.train)(&options)?;
        let loaded = registry::load(&out, &self.device, &[])?;
        assert_same(&finished.tagger.tag(&texts())?, &loaded.tag(&texts())?);
        Ok(())
    }
}
