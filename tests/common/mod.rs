//! Helpers for several tests: devices, small corpora and recipes, fixtures with tensors, and folders that may be missing.

#![allow(dead_code)] // each test file uses a part of it

#[cfg(feature = "cli")]
pub mod program;
pub mod small_corpus;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, Tensor, TensorData};
use nerzoo::data::{Format, TagScheme, write};
use nerzoo::device;
use nerzoo::error::Result;
use nerzoo::recipe::Recipe;
use nerzoo::registry::Entry;
use nerzoo::text::{Entity, Labels, Mention, Sentence};
use nerzoo::train::{Corpus, Finished, Inspection, TrainOptions};
use safetensors::{Dtype, SafeTensors};

/// The devices to test, with their names: those in `NERZOO_TEST_DEVICES` (separated by commas), by default the CPU and the
/// first device of every other kind that this build supports and this machine has.
pub fn devices() -> Vec<(String, Device)> {
    nerzoo::process::keep_freed_pages(); // as the program does
    match std::env::var("NERZOO_TEST_DEVICES") {
        Ok(names) => names
            .split(',')
            .map(|name| (name.to_string(), device::parse(name).unwrap()))
            .collect(),
        Err(_) => {
            let mut found = device::detect_all();
            found.retain(|device| !device.name.contains(':') || device.name.ends_with(":0"));
            let named = found.into_iter().map(|info| (info.name, info.device));
            named.collect()
        }
    }
}

/// The first device to test.
pub fn first_device() -> Device {
    devices().remove(0).1
}

/// Lets tests that change or use global state of the process (switches, random seeds) run one at a time.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::new(());
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recipe for a small model trained from scratch on a file of sentences, with the given settings changed.
pub fn small_recipe(head: &str, file: &Path, sets: &[impl AsRef<str>]) -> Recipe {
    let scratch = r#"
        [encoder.scratch]
        vocabulary = 120
        layers = 2
        width = 32
        heads = 2
        feed_forward = 64
        dropout = 0.0"#;
    recipe_with(scratch, head, file, sets)
}

/// Like [`small_recipe`], with a pretrained encoder. Settings of an encoder from scratch are left out.
pub fn pretrained_recipe(
    encoder: &Path,
    head: &str,
    file: &Path,
    sets: &[impl AsRef<str>],
) -> Recipe {
    let table = format!(
        "[encoder]\npretrained = {:?}",
        encoder.display().to_string()
    );
    let sets: Vec<&str> = sets.iter().map(AsRef::as_ref).collect();
    let is_kept = |set: &&&str| !set.starts_with("encoder.scratch.");
    let sets: Vec<&str> = sets.iter().filter(is_kept).copied().collect();
    recipe_with(&table, head, file, &sets)
}

fn recipe_with(encoder: &str, head: &str, file: &Path, sets: &[impl AsRef<str>]) -> Recipe {
    let file = file.display();
    let text = format!(
        r#"
        [data]
        train = ["{file}"]
        dev = ["{file}"]
        test = ["{file}"]
        {encoder}
        [head]
        name = "{head}"
        [train]
        epochs = 60
        batch = 4
        learning_rate = 5e-3
        patience = 0
        "#
    );
    let sets: Vec<String> = sets.iter().map(|set| set.as_ref().to_string()).collect();
    Recipe::parse(&text, "the test's recipe", &sets).unwrap()
}

/// A recipe for 50 epochs of one step each on the first sentences of the quickstart corpus, without dropout in the
/// encoder. The curves then hold the loss of every step.
pub fn fifty_step_recipe(head: &str, sets: &[&str]) -> Recipe {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/quickstart/train.jsonl");
    let fixed = [
        "data.dev=[]",
        "data.test=[]",
        "data.limit=16",
        "encoder.scratch.vocabulary=200",
        "train.epochs=50",
        "train.batch=16",
        "train.learning_rate=1e-3",
    ];
    small_recipe(head, &file, &[&fixed, sets].concat())
}

/// The training loss of each epoch of a run.
pub fn losses(finished: &Finished) -> Vec<f64> {
    let points = finished.state.curves.points.iter();
    points.map(|point| point.train_loss).collect()
}

/// Writes sentences into a file and returns its path.
pub fn write_sentences(path: PathBuf, sentences: &[Sentence]) -> PathBuf {
    write::to_file(&path, sentences, Format::TokensJsonl, TagScheme::Iob2).unwrap();
    path
}

/// A sentence from words separated by spaces and entities as (start, end, type).
pub fn sentence(words: &str, entities: &[(usize, usize, &str)]) -> Sentence {
    let mut sentence = Sentence::from_words(words.split(' '));
    sentence.entities = entities
        .iter()
        .map(|(start, end, label)| Entity::new(*start, *end, *label))
        .collect();
    sentence
}

/// The entities of each sentence's mentions, without scores.
pub fn entities(mentions: &[Vec<Mention>]) -> Vec<Vec<Entity>> {
    let entities =
        |list: &Vec<Mention>| list.iter().map(|mention| mention.entity.clone()).collect();
    mentions.iter().map(entities).collect()
}

/// Options for training on one device without output.
pub fn train_options(recipe: Recipe, out: &Path, device: &Device) -> TrainOptions {
    TrainOptions {
        devices: vec![device.clone()],
        command: "a test".into(),
        ..TrainOptions::new(recipe, out)
    }
}

/// One training step and one prediction on these sentences as one batch.
pub fn inspect(
    entry: &Entry,
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
    (entry.trainer)(recipe, corpus, device)?.inspect()
}

/// The largest absolute value in the gradient of each parameter, -1 where there is no gradient.
pub fn largest_gradients(inspection: &Inspection) -> Vec<(String, f32)> {
    let each = inspection.gradients.iter();
    each.map(|(parameter, gradient)| {
        let largest = gradient.as_ref().map_or(-1.0, |gradient| {
            let sizes = gradient.iter().map(|value| value.abs());
            // NaN has to stay NaN.
            sizes.fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
        });
        (parameter.clone(), largest)
    })
    .collect()
}

/// Fails unless two steps have the same loss, gradients and mentions up to rounding; prints how far apart they are.
pub fn assert_same_step(what: &str, found: &Inspection, expected: &Inspection) {
    let apart = (found.loss - expected.loss).abs() / expected.loss.abs().max(1e-6);
    assert!(apart < 2e-5, "{what}: {} {}", found.loss, expected.loss);
    // Differences are relative to the largest value of the gradient, or of all gradients where it is tiny.
    let largest = largest_gradients(expected);
    let all = largest.iter().fold(0f32, |all, (_, one)| all.max(*one));
    let mut worst = 0f32;
    for ((one, other), (parameter, own)) in found
        .gradients
        .iter()
        .zip(&expected.gradients)
        .zip(&largest)
    {
        assert_eq!(one.0, other.0, "{what}");
        let (Some(one), Some(other)) = (&one.1, &other.1) else {
            assert_eq!(one.1, other.1, "{what}: {parameter}");
            continue;
        };
        let pairs = one.iter().zip(other);
        let differences = pairs.map(|(a, b)| (a - b).abs());
        // NaN has to stay NaN.
        let larger = |a: f32, b: f32| if b > a || b.is_nan() { b } else { a };
        let apart = differences.fold(0f32, larger);
        let apart = apart / own.max(1e-3 * all);
        assert!(apart < 5e-4, "{what}: {parameter} is {apart:.1e} apart");
        worst = worst.max(apart);
    }
    println!("{what}: loss {apart:.1e}, gradients {worst:.1e}");
    assert_eq!(
        entities(&found.mentions),
        entities(&expected.mentions),
        "{what}"
    );
}

/// A folder outside the repository: the one that the variable names, or the default. Prints that `test` is skipped and
/// returns nothing when the folder is missing.
pub fn external_folder(variable: &str, default: &str, test: &str) -> Option<PathBuf> {
    let folder = folder_of(variable, default);
    if folder.is_dir() {
        return Some(folder);
    }
    print_skipped(&format!(
        "{test}: there is no folder {} (set {variable})",
        folder.display()
    ));
    None
}

/// The folder that the variable names, or the default, relative to the repository.
fn folder_of(variable: &str, default: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(default),
    }
}

/// Prints that a test is skipped, bypassing the test runner's capture.
pub fn print_skipped(message: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {message}");
}

/// The parity fixtures: `NERZOO_GOLDEN`, by default those of the repository.
pub fn parity_fixtures() -> PathBuf {
    existing("NERZOO_GOLDEN", "tests/fixtures/parity")
}

/// The tiny encoders with expected states: `NERZOO_TINY_ENCODERS`, by default those of the repository.
pub fn tiny_encoders() -> PathBuf {
    existing("NERZOO_TINY_ENCODERS", "tests/fixtures/encoders")
}

fn existing(variable: &str, default: &str) -> PathBuf {
    let folder = folder_of(variable, default);
    assert!(
        folder.is_dir(),
        "there is no folder {} (set {variable}, or unset it to use {default})",
        folder.display()
    );
    folder
}

/// The pretrained encoders, which are not in the repository.
pub fn pretrained_encoders(test: &str) -> Option<PathBuf> {
    external_folder("NERZOO_ENCODERS", "../shared/encoders", test)
}

/// The published corpora, which are not in the repository.
pub fn published_corpora(test: &str) -> Option<PathBuf> {
    external_folder("NERZOO_DATA", "../shared/corpora", test)
}

/// A fixture: a JSON file and tensors in a safetensors file beside it.
pub struct Fixture {
    pub name: String,
    pub json: serde_json::Value,
    bytes: Vec<u8>,
}

impl Fixture {
    pub fn read(path: &Path) -> Self {
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap(),
            bytes: std::fs::read(path.with_extension("safetensors")).unwrap(),
        }
    }

    pub fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.tensors().tensor(name).unwrap().shape().to_vec()
    }

    /// The values of a tensor of any type.
    pub fn floats(&self, name: &str) -> Vec<f32> {
        let tensors = self.tensors();
        let view = tensors
            .tensor(name)
            .unwrap_or_else(|_| panic!("{}: no {name}", self.name));
        let data = view.data();
        match view.dtype() {
            Dtype::F32 => data
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            Dtype::F64 => data
                .chunks_exact(8)
                .map(|b| f64::from_le_bytes(b.try_into().unwrap()) as f32)
                .collect(),
            Dtype::I64 => data
                .chunks_exact(8)
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f32)
                .collect(),
            Dtype::I32 => data
                .chunks_exact(4)
                .map(|b| i32::from_le_bytes(b.try_into().unwrap()) as f32)
                .collect(),
            Dtype::U8 | Dtype::BOOL => data.iter().map(|byte| *byte as f32).collect(),
            other => panic!("{name}: {other:?}"),
        }
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.floats(name)
            .into_iter()
            .map(|value| value as i64)
            .collect()
    }

    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(self.floats(name), self.shape(name)), device)
    }

    /// The tensors whose names start with a prefix, which is removed, as the bytes of a safetensors file.
    pub fn under(&self, prefix: &str) -> Vec<u8> {
        let tensors = self.tensors();
        let chosen: Vec<_> = tensors
            .tensors()
            .into_iter()
            .filter_map(|(name, view)| Some((name.strip_prefix(prefix)?.to_string(), view)))
            .collect();
        safetensors::serialize(chosen, None).unwrap()
    }
}

/// The largest difference between two lists, relative to the largest expected value.
pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "different sizes");
    let size = expected
        .iter()
        .fold(1e-6f32, |size, value| size.max(value.abs()));
    let each = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // NaN has to stay NaN.
    let worst = each.fold(
        0f32,
        |worst, d| if d > worst || d.is_nan() { d } else { worst },
    );
    worst / size
}

/// Fails when two lists differ by more than 1e-4, relative to the largest expected value.
pub fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    let difference = difference(found, expected);
    print_detail(&format!("{what}: {difference:.1e}"));
    assert!(
        difference <= 1e-4,
        "{what} differs by {difference:.2e} (relative)"
    );
}

/// Prints a measurement if the test is run with `--nocapture`. For test targets with their own main function, whose output
/// is not captured.
pub fn print_detail(message: &str) {
    if std::env::args().any(|argument| argument == "--nocapture") {
        println!("{message}");
    }
}
