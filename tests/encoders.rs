//! Encoders in the Hugging Face layout: tiny ones with random weights and the states that the reference implementation
//! computes, made by `fixtures/encoders/make.py` (`NERZOO_TINY_ENCODERS` names another folder); and the error messages for
//! broken folders.

#![cfg(feature = "train")] // the helpers train

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use common::difference;
use half::{bf16, f16};
use nerzoo::encoder::batching::PieceBatch;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::window::windows;
use nerzoo::encoder::{
    EncodedSentence, Encoder, EncoderConfig, LayerPooling, Pooling, RowLayout, load,
};
use nerzoo::error::Result;
use nerzoo::nn::host::floats;
use nerzoo::text::Sentence;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use tempfile::TempDir;

/// Largest difference allowed, relative to the largest expected value.
const ALLOWED: f32 = 1e-5;

#[derive(Deserialize)]
struct Expected {
    sentences: Vec<ExpectedSentence>,
}

#[derive(Deserialize)]
struct ExpectedSentence {
    words: Vec<String>,
    pieces: Vec<String>,
    input_ids: Vec<u32>,
    /// -1 for special pieces.
    word_of_piece: Vec<i64>,
    last_hidden_state: Vec<Vec<f32>>,
    mean_last_four: Vec<Vec<f32>>,
}

impl ExpectedSentence {
    fn sentence(&self) -> Sentence {
        Sentence::from_words(self.words.clone())
    }

    fn states(&self, layers: LayerPooling) -> Vec<f32> {
        match layers {
            LayerPooling::Last => self.last_hidden_state.concat(),
            LayerPooling::MeanOfLastFour => self.mean_last_four.concat(),
        }
    }
}

/// A fixture of the repository.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/encoders")
        .join(name)
}

/// Every folder with an `expected.json`, sorted.
fn fixtures() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(common::tiny_encoders())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no encoder has an expected.json");
    folders
}

fn expected(folder: &Path) -> Vec<ExpectedSentence> {
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().sentences
}

fn load_encoder(folder: &Path, layers: LayerPooling, device: &Device) -> Result<Encoder> {
    let mut encoder = EncoderConfig {
        transformer: load::config(folder)?,
        pooling: Pooling::Max,
        layers,
        overlap: 0,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    }
    .init(device);
    load::weights(&mut encoder.transformer, folder)?;
    Ok(encoder)
}

fn batch(
    pieces: &WordTokenizer,
    sentences: &[Sentence],
    window: usize,
    overlap: usize,
) -> PieceBatch {
    let encoded = pieces.encode(sentences);
    PieceBatch::new(
        &encoded.iter().collect::<Vec<&EncodedSentence>>(),
        pieces,
        window,
        overlap,
    )
}

fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    let difference = difference(found, expected);
    println!("{what}: {difference:.1e}");
    assert!(
        difference <= ALLOWED,
        "{what} differs by {difference:.2e} (relative)"
    );
}

#[test]
fn no_fixture_is_missing() {
    let names: Vec<String> = fixtures()
        .iter()
        .map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    if std::env::var_os("NERZOO_TINY_ENCODERS").is_some() {
        return common::print_skipped(
            "no_fixture_is_missing: NERZOO_TINY_ENCODERS names another folder",
        );
    }
    let script = fs::read_to_string(fixture("make.py")).unwrap();
    let made = script.split("= empty(\"").skip(1);
    let mut made: Vec<&str> = made.map(|rest| rest.split('"').next().unwrap()).collect();
    made.sort_unstable();
    assert!(made.len() >= 8);
    assert_eq!(names, made);
}

#[test]
fn pieces_equal_those_of_the_reference() {
    for folder in fixtures() {
        let pieces = WordTokenizer::from_folder(&folder).unwrap();
        let window = load::config(&folder).unwrap().window();
        for expected in expected(&folder) {
            let what = format!("{} {:?}", folder.display(), expected.words);
            let batch = batch(&pieces, &[expected.sentence()], window, 0);
            let names: Vec<String> = (batch.rows.ids)
                .iter()
                .map(|id| pieces.piece(*id).unwrap())
                .collect();
            assert_eq!(names, expected.pieces, "{what}");
            assert_eq!(batch.rows.ids, expected.input_ids, "{what}");
            let mut owners = vec![-1; batch.rows.width()];
            for (word, (first, count)) in
                batch.first_piece.iter().zip(&batch.piece_count).enumerate()
            {
                owners[*first..first + count].fill(word as i64);
            }
            assert_eq!(owners, expected.word_of_piece, "{what}");
        }
    }
}

#[test]
fn states_equal_those_of_the_reference() {
    for folder in fixtures() {
        let pieces = WordTokenizer::from_folder(&folder).unwrap();
        let window = load::config(&folder).unwrap().window();
        let expected = expected(&folder);
        let sentences: Vec<Sentence> = expected.iter().map(ExpectedSentence::sentence).collect();
        for (device_name, device) in common::devices() {
            for layers in [LayerPooling::Last, LayerPooling::MeanOfLastFour] {
                let name = folder.file_name().unwrap().to_string_lossy();
                let what = format!("{name} {device_name} {layers:?}");
                let encoder = load_encoder(&folder, layers, &device).unwrap();
                for (index, expected) in expected.iter().enumerate() {
                    let batch = batch(&pieces, &sentences[index..=index], window, 0);
                    let states = floats(encoder.piece_states(&batch));
                    assert_close(
                        &format!("{what} {index}"),
                        &states,
                        &expected.states(layers),
                    );
                }
                // All at once, short ones padded.
                let batch = batch(&pieces, &sentences, window, 0);
                let states = encoder.piece_states(&batch);
                let [_, row, width] = states.dims();
                let states = floats(states);
                for (index, expected) in expected.iter().enumerate() {
                    let start = index * row * width;
                    let end = start + batch.rows.lengths[index] * width;
                    assert_close(
                        &format!("{what} {index} padded"),
                        &states[start..end],
                        &expected.states(layers),
                    );
                }
            }
        }
    }
}

/// Values of all parameters by path.
#[derive(Default)]
struct Values {
    path: Vec<String>,
    found: BTreeMap<String, Vec<f32>>,
}

/// Gradients of all parameters by path; zeros for parameters without one.
struct GradientValues<'a>(&'a Gradients, Values);

impl ModuleVisitor for Values {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.insert(self.path.join("."), floats(param.val()));
    }
}

impl ModuleVisitor for GradientValues<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.1.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.1.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let gradient = value.grad(self.0).map(floats);
        let gradient = gradient.unwrap_or_else(|| vec![0.0; value.shape().num_elements()]);
        self.1.found.insert(self.1.path.join("."), gradient);
    }
}

/// Largest difference allowed between gradients, relative to the largest expected value of the parameter. Gradients are sums
/// over all pieces, which cancel.
const ALLOWED_GRADIENT: f32 = 1e-4;

#[test]
fn gradients_equal_those_of_the_reference() {
    for folder in fixtures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(expected_gradients) = fs::read(folder.join("gradients.safetensors")) else {
            common::print_skipped(&format!("gradients of {name}: no gradients.safetensors"));
            continue;
        };
        let pieces = WordTokenizer::from_folder(&folder).unwrap();
        let config = load::config(&folder).unwrap();
        for (device_name, device) in common::devices() {
            // Gradients have the names and shapes of the weights, so they are read as if they were weights.
            let mut read = config.init(&device);
            load::weights_from_bytes(&mut read, expected_gradients.clone()).unwrap();
            let mut wanted = Values::default();
            read.visit(&mut wanted);

            let device = device.autodiff();
            let mut config = config.clone();
            config.set_dropout(0.0);
            let mut transformer = config.init(&device);
            load::weights(&mut transformer, &folder).unwrap();
            let encoder = EncoderConfig {
                transformer: config.clone(),
                pooling: Pooling::Max,
                layers: LayerPooling::Last,
                overlap: 0,
                context: 0,
                rows: RowLayout::Standard,
                features: None,
            };
            let mut encoder = encoder.init(&device);
            encoder.transformer = transformer;
            let sentences: Vec<Sentence> = (expected(&folder).iter())
                .map(ExpectedSentence::sentence)
                .collect();
            // All at once, short ones padded on devices that need it.
            let batch = batch(&pieces, &sentences, config.window(), 0);
            let states = encoder.piece_states(&batch);
            let [_, columns, width] = states.dims();
            let mut factors = vec![0f32; states.shape().num_elements()];
            for (row, length) in batch.rows.lengths.iter().enumerate() {
                let first = row * columns * width;
                for (index, factor) in factors[first..first + length * width]
                    .iter_mut()
                    .enumerate()
                {
                    *factor = (0.7 * index as f64).sin() as f32;
                }
            }
            let factors = TensorData::new(factors, states.dims());
            let sum = (states * Tensor::from_data(factors, &device)).sum();
            let gradients = sum.backward();
            let mut found = GradientValues(&gradients, Values::default());
            encoder.transformer.visit(&mut found);
            let largest = (wanted.found.values().flatten()).fold(0f32, |a, b| a.max(b.abs()));
            for (path, wanted) in &wanted.found {
                // Some gradients are zero in theory, such as those of key biases: the softmax ignores them.
                let size = wanted.iter().fold(1e-3 * largest, |a, b| a.max(b.abs()));
                let found = &found.1.found[path];
                let worst = (found.iter().zip(wanted))
                    .map(|(a, b)| {
                        if a.is_finite() {
                            (a - b).abs()
                        } else {
                            f32::INFINITY
                        }
                    })
                    .fold(0f32, f32::max);
                assert!(
                    worst <= ALLOWED_GRADIENT * size,
                    "{name} {device_name} {path}: {worst:.2e} of {size:.2e}"
                );
            }
        }
    }
}

/// A sentence of so many words, some of many pieces, one of more pieces than a window of 64 holds.
fn long_sentence(folder: &Path, count: usize) -> Sentence {
    let words: Vec<String> = expected(folder)
        .into_iter()
        .flat_map(|sentence| sentence.words)
        .collect();
    let mut words: Vec<String> = words.iter().cycle().take(count).cloned().collect();
    words[count / 2] = "a1".repeat(49);
    Sentence::from_words(words)
}

/// The longest input of an encoder: the first positions of RoBERTa and MPNet are not used.
fn expected_window(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let positions = config["max_position_embeddings"].as_u64().unwrap() as usize;
    let family = config["model_type"].as_str().unwrap();
    let starts_at_two = family.contains("roberta") || family == "mpnet";
    positions - if starts_at_two { 2 } else { 0 }
}

#[test]
fn a_long_sentence_is_cut_into_windows() {
    let device = nerzoo::device::parse("cpu").unwrap();
    for folder in fixtures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let pieces = WordTokenizer::from_folder(&folder).unwrap();
        let config = load::config(&folder).unwrap();
        let window = config.window();
        assert_eq!(window, expected_window(&folder), "{name}");
        let encoder = load_encoder(&folder, LayerPooling::Last, &device).unwrap();
        // Enough for more than five windows.
        let count = 300.max(6 * window);
        let sentence = long_sentence(&folder, count);
        for overlap in [0, 16] {
            let long = batch(&pieces, std::slice::from_ref(&sentence), window, overlap);
            assert!(long.rows.width() <= window);
            assert_eq!(long.len(), 1);
            let states = encoder.forward(&long);
            assert_eq!(states.words.dims(), [1, count, config.width]);
            let sentence_state = floats(states.sentence);
            let states = floats(states.words);
            assert!(states.iter().all(|value| value.is_finite()));

            let counts = pieces.encode(std::slice::from_ref(&sentence))[0].counts();
            let parts = windows(&counts, window - 2, overlap);
            assert!(parts.len() > 5, "{name}: {} windows", parts.len());
            assert_eq!(long.rows.len(), parts.len());
            let mut separate = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                let words = sentence.words[part.words.clone()]
                    .iter()
                    .map(|word| word.text.clone());
                let short = batch(&pieces, &[Sentence::from_words(words)], window, 0);
                assert_eq!(short.rows.len(), 1);
                let found = encoder.forward(&short);
                if index == 0 {
                    assert_close(
                        &format!("{name} sentence"),
                        &sentence_state,
                        &floats(found.sentence),
                    );
                }
                let from = part.owned.start - part.words.start;
                let owned = from * config.width..(from + part.owned.len()) * config.width;
                separate.extend_from_slice(&floats(found.words)[owned]);
            }
            assert_close(&format!("{name} overlap {overlap}"), &states, &separate);
        }
    }
}

/// A copy of a fixture that can be changed.
fn copy(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

#[derive(Clone)]
struct Weight {
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Weight {
    fn zeros(shape: &[usize]) -> Self {
        Self {
            kind: Dtype::F32,
            shape: shape.to_vec(),
            bytes: vec![0; 4 * shape.iter().product::<usize>()],
        }
    }

    /// The same values in another type, converted by `bytes`.
    fn converted<const N: usize>(&self, kind: Dtype, bytes: impl Fn(f32) -> [u8; N]) -> Self {
        assert_eq!(self.kind, Dtype::F32);
        let values = self
            .bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        Self {
            kind,
            shape: self.shape.clone(),
            bytes: values.flat_map(bytes).collect(),
        }
    }
}

/// Changes the weights of a copy.
fn edit(folder: &TempDir, change: impl FnOnce(&mut BTreeMap<String, Weight>)) {
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let mut weights: BTreeMap<String, Weight> = SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .map(|(name, view)| {
            let weight = Weight {
                kind: view.dtype(),
                shape: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            (name.to_string(), weight)
        })
        .collect();
    change(&mut weights);
    let views = weights.iter().map(|(name, weight)| {
        (
            name,
            TensorView::new(weight.kind, weight.shape.clone(), &weight.bytes).unwrap(),
        )
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn replace(folder: &TempDir, file: &str, from: &str, to: &str) {
    let path = folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// The error message of loading a broken encoder.
fn load_error(folder: &TempDir) -> String {
    let device = nerzoo::device::parse("cpu").unwrap();
    match load_encoder(folder.path(), LayerPooling::Last, &device) {
        Ok(_) => panic!("the broken folder was accepted"),
        Err(error) => error.to_string(),
    }
}

fn assert_mentions(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn missing_weights_are_named() {
    let folder = copy("electra");
    edit(&folder, |weights| {
        for name in [
            "electra.encoder.layer.1.attention.self.query.weight",
            "electra.embeddings_project.bias",
            "electra.embeddings.LayerNorm.weight",
        ] {
            weights.remove(name).unwrap();
        }
    });
    let message = load_error(&folder);
    assert_mentions(&message, &["model.safetensors", "missing"]);
    assert_mentions(
        &message,
        &[
            "layers.1.query.weight",
            "projection.bias",
            "embedding_norm.gamma",
        ],
    );
    assert_eq!(message.matches("missing").count(), 3, "{message}");
}

#[test]
fn joined_weights_are_named_as_in_the_file() {
    let folder = copy("modernbert");
    edit(&folder, |weights| {
        weights.remove("model.layers.1.attn.Wqkv.weight").unwrap();
        let gate = Weight::zeros(&[42, 24]);
        weights.insert("model.layers.0.mlp.Wi.weight".into(), gate);
        let odd = Weight::zeros(&[71, 24]);
        weights.insert("model.layers.2.attn.Wqkv.weight".into(), odd);
        weights.insert("model.layers.3.attn.Wqkv.bias".into(), Weight::zeros(&[72]));
        let norm = Weight::zeros(&[23]);
        weights.insert("model.layers.4.mlp_norm.weight".into(), norm);
    });
    let message = load_error(&folder);
    assert_mentions(
        &message,
        &[
            "missing: layers.1.query.weight (layers.1.attn.Wqkv.weight in the file)",
            "missing: layers.1.value.weight",
            "layers.0.feed_forward_gate.weight",
            "[24, 21]",
            "(model.layers.0.mlp.Wi.weight in the file)",
            "not expected: model.layers.2.attn.Wqkv.weight",
            "missing: layers.2.key.weight",
            "not expected: model.layers.3.attn.Wqkv.bias",
            "(model.layers.4.mlp_norm.weight in the file)",
        ],
    );
}

#[test]
fn leftover_weights_are_named_as_in_the_file() {
    let folder = copy("electra");
    let names = [
        "electra.encoder.layer.5.output.dense.weight",
        "electra.encoder.layer.0.adapter.down.bias",
    ];
    edit(&folder, |weights| {
        for name in names {
            weights.insert(name.into(), Weight::zeros(&[2]));
        }
    });
    let message = load_error(&folder);
    assert_mentions(&message, &names);
    assert_eq!(message.matches("not expected").count(), 2, "{message}");
}

#[test]
fn weights_of_a_wrong_shape_are_named() {
    let folder = copy("electra");
    edit(&folder, |weights| {
        weights.insert(
            "electra.encoder.layer.0.intermediate.dense.weight".into(),
            Weight::zeros(&[31, 16]),
        );
        weights.insert(
            "electra.embeddings.word_embeddings.weight".into(),
            Weight::zeros(&[12]),
        );
    });
    let message = load_error(&folder);
    assert_mentions(
        &message,
        &[
            "layers.0.feed_forward_inner.weight",
            "31",
            "word_embeddings.weight",
        ],
    );
    assert!(!message.contains("missing"), "{message}");

    let folder = copy("distilbert");
    replace(
        &folder,
        "config.json",
        "\"hidden_dim\": 32",
        "\"hidden_dim\": 24",
    );
    let message = self::load_error(&folder);
    assert_mentions(
        &message,
        &[
            "pytorch_model.bin",
            "layers.0.feed_forward_inner.weight",
            "24",
            "32",
        ],
    );
}

#[test]
fn weights_that_are_integers_are_named() {
    let folder = copy("electra");
    edit(&folder, |weights| {
        let weight = weights
            .get_mut("electra.encoder.layer.0.attention.self.key.weight")
            .unwrap();
        weight.kind = Dtype::I32;
    });
    assert_mentions(&load_error(&folder), &["layers.0.key.weight"]);
}

#[test]
fn another_number_of_layers_is_noticed() {
    let folder = copy("distilbert");
    replace(&folder, "config.json", "\"n_layers\": 2", "\"n_layers\": 3");
    assert_mentions(&load_error(&folder), &["missing: layers.2.query.weight"]);
    replace(&folder, "config.json", "\"n_layers\": 3", "\"n_layers\": 1");
    assert_mentions(
        &load_error(&folder),
        &["not expected: distilbert.transformer.layer.1.attention.q_lin.weight"],
    );
}

#[test]
fn a_missing_layer_is_not_replaced_by_the_next() {
    let folder = copy("distilbert");
    fs::rename(
        folder.path().join("gap.bin"),
        folder.path().join("pytorch_model.bin"),
    )
    .unwrap();
    assert_mentions(
        &load_error(&folder),
        &["missing: layers.1.query.weight", "and 12 more"],
    );
}

#[test]
fn long_lists_of_problems_are_cut() {
    let folder = copy("electra");
    edit(&folder, |weights| weights.clear());
    assert_mentions(&load_error(&folder), &["missing: layers.0", "more"]);
}

#[test]
fn weights_of_other_tasks_are_ignored() {
    let device = nerzoo::device::parse("cpu").unwrap();
    let pieces = WordTokenizer::from_folder(&fixture("electra")).unwrap();
    let sentence = Sentence::from_words(["Anna", "sings"]);
    let batch = batch(&pieces, &[sentence], 64, 0);
    let states = |folder: &Path| {
        let encoder = load_encoder(folder, LayerPooling::Last, &device).unwrap();
        floats(encoder.piece_states(&batch))
    };
    let folder = copy("electra");
    edit(&folder, |weights| {
        for name in [
            "pre_classifier.weight",
            "classifier.dense.weight",
            "qa_outputs.bias",
            "lm_head.layer_norm.weight",
            "cls.predictions.transform.LayerNorm.gamma",
            "electra.pooler.dense.weight",
            "electra.embeddings.position_ids",
            "electra.embeddings.token_type_ids",
        ] {
            weights.insert(name.into(), Weight::zeros(&[2]));
        }
    });
    assert_eq!(states(folder.path()), states(&fixture("electra")));
}

#[test]
fn weights_of_any_precision_are_read_as_f32() {
    let device = nerzoo::device::parse("cpu").unwrap();
    let pieces = WordTokenizer::from_folder(&fixture("electra")).unwrap();
    let sentence = Sentence::from_words(["Anna", "sings", "in", "Lindholm"]);
    let batch = batch(&pieces, &[sentence], 64, 0);
    let states = |change: &dyn Fn(&Weight) -> Weight| {
        let folder = copy("electra");
        edit(&folder, |weights| {
            for weight in weights.values_mut() {
                *weight = change(weight);
            }
        });
        let encoder = load_encoder(folder.path(), LayerPooling::Last, &device).unwrap();
        let states = encoder.piece_states(&batch);
        assert_eq!(states.dtype(), burn::tensor::DType::F32);
        floats(states)
    };
    // The same rounded values, in half precision and in single precision.
    let half =
        states(&|weight| weight.converted(Dtype::F16, |value| f16::from_f32(value).to_le_bytes()));
    let rounded = |value| f16::from_f32(value).to_f32().to_le_bytes();
    assert_eq!(
        half,
        states(&|weight| weight.converted(Dtype::F32, rounded))
    );
    let brain = states(&|weight| {
        weight.converted(Dtype::BF16, |value| bf16::from_f32(value).to_le_bytes())
    });
    let rounded = |value| bf16::from_f32(value).to_f32().to_le_bytes();
    assert_eq!(
        brain,
        states(&|weight| weight.converted(Dtype::F32, rounded))
    );
    let double =
        states(&|weight| weight.converted(Dtype::F64, |value| f64::from(value).to_le_bytes()));
    assert_eq!(double, states(&Weight::clone));
}

#[test]
fn half_precision_is_read_from_a_pytorch_file_too() {
    let device = nerzoo::device::parse("cpu").unwrap();
    let folder = copy("distilbert");
    fs::rename(
        folder.path().join("half.bin"),
        folder.path().join("pytorch_model.bin"),
    )
    .unwrap();
    let pieces = WordTokenizer::from_folder(folder.path()).unwrap();
    let encoder = load_encoder(folder.path(), LayerPooling::Last, &device).unwrap();
    for expected in expected(folder.path()) {
        let states = encoder.piece_states(&batch(&pieces, &[expected.sentence()], 64, 0));
        assert_eq!(states.dtype(), burn::tensor::DType::F32);
        // The weights have lost digits, so the states have too.
        let difference = difference(&floats(states), &expected.states(LayerPooling::Last));
        assert!(difference < 5e-3, "{difference:.2e}");
    }
}

#[test]
fn unreadable_weights_are_an_error() {
    for (name, file) in [
        ("electra", "model.safetensors"),
        ("distilbert", "pytorch_model.bin"),
    ] {
        let path = fixture(name).join(file);
        let bytes = fs::read(path).unwrap();
        for length in [0, 100, bytes.len() / 2, bytes.len() - 1] {
            let folder = copy(name);
            fs::write(folder.path().join(file), &bytes[..length]).unwrap();
            assert_mentions(&load_error(&folder), &[file]);
        }
    }
    let folder = copy("electra");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert_mentions(
        &load_error(&folder),
        &["model.safetensors", "pytorch_model.bin"],
    );
}

#[test]
fn configs_that_cannot_be_used_are_explained() {
    for (from, to, parts) in [
        (
            "\"model_type\": \"electra\"",
            "\"model_type\": \"t5\"",
            &["\"t5\"", "bert, roberta, xlm-roberta"][..],
        ),
        (
            "\"hidden_size\": 16",
            "\"hidden\": 16",
            &["hidden_size", "missing"],
        ),
        (
            "\"hidden_act\": \"gelu\"",
            "\"hidden_act\": \"swish\"",
            &["\"swish\""],
        ),
        ("\"hidden_size\": 16,", "\"hidden_size\": ,", &["not JSON"]),
        (
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 3",
            &["16", "3", "heads"],
        ),
        (
            "\"num_attention_heads\": 2",
            "\"num_attention_heads\": 0",
            &["num_attention_heads", "0"],
        ),
    ] {
        let folder = copy("electra");
        replace(&folder, "config.json", from, to);
        let message = load_error(&folder);
        assert_mentions(&message, &["config.json"]);
        assert_mentions(&message, parts);
    }
    let folder = copy("roberta");
    replace(
        &folder,
        "config.json",
        "\"max_position_embeddings\": 64",
        "\"max_position_embeddings\": 2",
    );
    assert_mentions(
        &load_error(&folder),
        &["config.json", "max_position_embeddings"],
    );
}

#[test]
fn tokenizers_that_cannot_be_used_are_explained() {
    let load_error = |folder: &TempDir| {
        WordTokenizer::from_folder(folder.path())
            .unwrap_err()
            .to_string()
    };
    let folder = copy("electra");
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert_mentions(&load_error(&folder), &["tokenizer.json", "vocab.txt"]);
    fs::write(folder.path().join("tokenizer.json"), "{").unwrap();
    assert_mentions(&load_error(&folder), &["tokenizer.json"]);

    let folder = copy("distilbert");
    replace(&folder, "vocab.txt", "[SEP]", "[END]");
    assert_mentions(&load_error(&folder), &["vocab.txt", "[SEP]"]);
    let folder = copy("distilbert");
    replace(&folder, "vocab.txt", "[UNK]", "[WHAT]");
    assert_mentions(&load_error(&folder), &["vocab.txt", "[UNK]"]);
    let folder = copy("distilbert");
    replace(&folder, "tokenizer_config.json", "}", "");
    assert_mentions(&load_error(&folder), &["tokenizer_config.json"]);
}
