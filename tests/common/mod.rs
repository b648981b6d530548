//! What several tests need: devices, shared files that may be missing, tensors from fixtures.

#![allow(dead_code)] // each test file uses its part

pub mod eight;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use burn::tensor::{Device, Tensor, TensorData};
use burn::train::Interrupter;
use nerzoo::data::{Format, TagScheme, write};
use nerzoo::recipe::Recipe;
use nerzoo::text::{Entity, Sentence};
use nerzoo::train::inspect::Inspection;
use nerzoo::train::launch::{Finished, Launch};
use safetensors::{Dtype, SafeTensors};

/// The devices tests run on: `NERZOO_TEST_DEVICES`, by default `cpu,ndarray`.
pub fn devices() -> Vec<(String, Device)> {
    nerzoo::process::keep_freed_pages(); // as the program does
    let names = std::env::var("NERZOO_TEST_DEVICES").unwrap_or_else(|_| "cpu,ndarray".into());
    names
        .split(',')
        .map(|name| (name.to_string(), nerzoo::device::parse(name).unwrap()))
        .collect()
}

/// Lets tests that change or use what belongs to the whole process (switches, random numbers) run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A recipe for a small model from nothing over a file of sentences, with what a test changes in it.
pub fn small(head: &str, file: &Path, sets: &[impl AsRef<str>]) -> Recipe {
    let file = file.display();
    let text = format!(
        r#"
        [data]
        train = ["{file}"]
        dev = ["{file}"]
        test = ["{file}"]
        [encoder.scratch]
        vocabulary = 120
        layers = 2
        width = 32
        heads = 2
        feed_forward = 64
        dropout = 0.0
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

/// A recipe over the shipped corpus' first sentences without random numbers, one step in each of 50 epochs: the curves
/// then hold every step's loss.
pub fn fifty(head: &str, sets: &[&str]) -> Recipe {
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
    small(head, &file, &[&fixed, sets].concat())
}

/// The loss of each epoch of a run.
pub fn losses(finished: &Finished) -> Vec<f64> {
    let points = finished.state.curves.points.iter();
    points.map(|point| point.train_loss).collect()
}

/// Sentences in a file.
pub fn file(path: PathBuf, sentences: &[Sentence]) -> PathBuf {
    write::to_file(&path, sentences, Format::TokensJsonl, TagScheme::Iob2).unwrap();
    path
}

/// A sentence: its words between blanks, and its entities' first words, ends and types.
pub fn sentence(words: &str, entities: &[(usize, usize, &str)]) -> Sentence {
    let mut sentence = Sentence::from_words(words.split(' '));
    sentence.entities = entities
        .iter()
        .map(|(start, end, label)| Entity::new(*start, *end, *label))
        .collect();
    sentence
}

/// A run without output on one device.
pub fn launch(recipe: Recipe, out: &Path, device: &Device) -> Launch {
    Launch {
        recipe,
        out: out.to_path_buf(),
        resume: false,
        careful: false,
        devices: vec![device.clone()],
        roots: Vec::new(),
        plain: true,
        silent: true,
        command: "a test".into(),
        interrupter: Interrupter::new(),
    }
}

/// The largest gradient of each parameter, -1 where none arrived.
pub fn largest(probed: Inspection) -> Vec<(String, f32)> {
    let each = probed.gradients.into_iter();
    each.map(|(parameter, gradient)| {
        let largest = gradient.map_or(-1.0, |gradient| {
            let sizes = gradient.iter().map(|value| value.abs());
            // Not a number stays one.
            sizes.fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
        });
        (parameter, largest)
    })
    .collect()
}

/// A folder of real files: the variable's, or the default beside the project. `None`, said loudly, when missing.
pub fn shared(variable: &str, default: &str, test: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os(variable) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(default),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    skipped(&format!(
        "{test}: {} is not there (set {variable})",
        folder.display()
    ));
    None
}

/// Says that something is left out, past the test runner's capture: a skipped check must be seen.
pub fn skipped(what: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}

/// The golden fixtures.
pub fn golden(test: &str) -> Option<PathBuf> {
    shared("NERZOO_GOLDEN", "../shared/golden", test)
}

/// The real encoders; the fixtures' default lies beside the golden folder.
pub fn encoders(test: &str) -> Option<PathBuf> {
    shared("NERZOO_ENCODERS", "../shared/encoders", test)
}

/// The real corpora.
pub fn corpora(test: &str) -> Option<PathBuf> {
    shared("NERZOO_DATA", "../shared/corpora", test)
}

/// The fixtures (`.json` with `.safetensors` beside it) of a family, sorted.
pub fn fixtures(golden: &Path, family: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(golden.join(family)) else {
        skipped(&format!(
            "fixtures of {family}: no such folder in {}",
            golden.display()
        ));
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixture of {family}");
    found
}

/// A fixture's tensors.
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

    /// Numbers of a tensor, whatever their type.
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

    /// The tensors under a prefix, without it, as safetensors bytes.
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

/// Largest difference between two lists, relative to the largest number expected.
pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "different sizes");
    let size = expected
        .iter()
        .fold(1e-6f32, |size, value| size.max(value.abs()));
    let worst = found
        .iter()
        .zip(expected)
        .fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
    worst / size
}

/// Fails when two lists differ by more than 1e-4 relatively; says how much they do.
pub fn agree(what: &str, found: &[f32], expected: &[f32]) {
    let difference = difference(found, expected);
    println!("{what}: {difference:.1e}");
    assert!(
        difference <= 1e-4,
        "{what} differs by {difference:.2e} (relative)"
    );
}
