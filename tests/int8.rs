//! Models with weights in eight bits: close to those in f32, the same for any number of threads, and checked when loaded.

#![cfg(feature = "cli")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use common::program::{self, fails, json, nerzoo, succeeds, text};
use common::small_corpus::{recipe, sentences, variants};
use common::{difference, entities};
use nerzoo::encoder::batching::PieceBatch;
use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::encoder::transformer::{Int8Kind, Int8Source, int8_kind};
use nerzoo::encoder::{
    EncodedSentence, Encoder, EncoderConfig, LayerPooling, Pooling, RowLayout, load,
};
use nerzoo::error::{Error, Result};
use nerzoo::model::manifest;
use nerzoo::nn::fused;
use nerzoo::nn::fused::int8::{Int8Embedding, QuantizeError, QuantizedWeight};
use nerzoo::nn::host::floats;
use nerzoo::registry;
use nerzoo::text::Sentence;
use nerzoo::zoo::quantize::{Check, QuantizeOptions, quantize};
use nerzoo::zoo::verify::verify;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json as value};

/// The parameters of a transformer by name, with their numbers of columns, and those that were asked for in eight bits.
#[derive(Default)]
struct Parameters {
    path: Vec<String>,
    found: BTreeMap<String, (Vec<f32>, usize)>,
    asked: BTreeSet<String>,
}

impl ModuleVisitor for Parameters {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        let columns = tensor.dims()[D - 1];
        self.found
            .insert(self.path.join("."), (floats(tensor), columns));
    }
}

impl Int8Source for Parameters {
    fn weight(&mut self, name: &str) -> Result<QuantizedWeight> {
        self.asked.insert(name.into());
        let (values, columns) = &self.found[name];
        Ok(QuantizedWeight::quantize(values, *columns).unwrap())
    }

    fn embedding(&mut self, name: &str) -> Result<Int8Embedding> {
        self.asked.insert(name.into());
        let (values, columns) = &self.found[name];
        Ok(Int8Embedding::quantize(values, *columns).unwrap())
    }

    fn refuse(&self, name: &str, problem: QuantizeError) -> Error {
        Error::Config(format!("{name}: {problem}"))
    }
}

/// Replaces parameters by what their eight bits stand for.
struct Widen<'a>(&'a mut Parameters);

impl ModuleMapper for Widen<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.0.path.push(name.into());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.0.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.0.path.join(".");
        let values = match int8_kind(&name) {
            Some(Int8Kind::Linear) => self.0.weight(&name).unwrap().widen(),
            Some(Int8Kind::Embedding) => self.0.embedding(&name).unwrap().widen(),
            None => return param,
        };
        let data = TensorData::new(values, param.shape());
        param.map(|tensor| Tensor::from_data(data, &tensor.device()))
    }
}

fn load_encoder(folder: &Path) -> Encoder {
    let config = EncoderConfig {
        transformer: load::config(folder).unwrap(),
        pooling: Pooling::Max,
        layers: LayerPooling::Last,
        overlap: 0,
        context: 0,
        rows: RowLayout::Standard,
        features: None,
    };
    let mut encoder = config.init(&Device::flex());
    load::weights(&mut encoder.transformer, folder).unwrap();
    encoder
}

fn batch(pieces: &WordTokenizer, sentences: &[Sentence], window: usize) -> PieceBatch {
    let encoded = pieces.encode(sentences);
    let encoded: Vec<&EncodedSentence> = encoded.iter().collect();
    PieceBatch::new(&encoded, pieces, window, 0)
}

fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(work)
}

/// Every tiny encoder, with its name.
fn encoders() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(common::tiny_encoders()).unwrap();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("expected.json").is_file());
    folders.sort();
    assert!(folders.len() >= 8);
    let name = |folder: &PathBuf| folder.file_name().unwrap().to_string_lossy().into_owned();
    folders
        .into_iter()
        .map(|folder| (name(&folder), folder))
        .collect()
}

#[test]
fn states_of_every_family_are_close_to_those_in_f32() {
    let _guard = common::exclusive();
    let words = |count: usize| {
        let word = |n: usize| ["the", "gene", "of", "Paris", "x1", "and"][n % 6].to_string();
        Sentence::from_words((0..count).map(word))
    };
    for (name, folder) in encoders() {
        let pieces = WordTokenizer::from_folder(&folder).unwrap();
        let window = load::config(&folder).unwrap().window();
        let sentences: Vec<Sentence> = [3, 7, 1, 12, 25, 2, 9, 9, 5].map(words).to_vec();
        let all = batch(&pieces, &sentences, window);
        let exact = load_encoder(&folder);
        let mut parameters = Parameters::default();
        exact.transformer.visit(&mut parameters);
        let mut int8 = load_encoder(&folder);
        if !int8.transformer.supports_int8() {
            // An activation without kernel: weights are widened.
            continue;
        }
        int8.transformer.set_int8(&mut parameters).unwrap();
        let named: BTreeSet<String> = (parameters.found.keys())
            .filter(|name| int8_kind(name).is_some())
            .cloned()
            .collect();
        assert_eq!(parameters.asked, named, "{name}");
        let mut widened = load_encoder(&folder);
        widened.transformer = widened.transformer.map(&mut Widen(&mut parameters));

        let states = |encoder: &Encoder| floats(encoder.forward(&all).words);
        let expected = states(&exact);
        let found = in_pool(1, || states(&int8));
        let (to_exact, to_widened) = (
            difference(&found, &expected),
            difference(&found, &states(&widened)),
        );
        println!("{name}: {to_exact:.1e} from f32, {to_widened:.1e} from widened weights");
        assert!(to_exact < 0.06 && to_widened < 0.06, "{name}");
        // A path that does not use the weights in eight bits would be exact.
        assert!(to_exact > 1e-5, "{name}");
        for threads in [2, 3] {
            assert_eq!(
                in_pool(threads, || states(&int8)),
                found,
                "{name} {threads}"
            );
        }
        // Each sentence alone.
        let width = int8.forward(&all).words.dims()[2];
        let longest = sentences.iter().map(Sentence::len).max().unwrap();
        for (index, sentence) in sentences.iter().enumerate() {
            let alone = batch(&pieces, std::slice::from_ref(sentence), window);
            let alone = floats(int8.forward(&alone).words);
            let rows = &found[index * longest * width..][..alone.len()];
            assert!(difference(rows, &alone) < 0.02, "{name} {index}");
        }
    }
}

fn options(out: &Path, check: Check) -> QuantizeOptions {
    QuantizeOptions {
        out: out.to_path_buf(),
        check,
        tolerance: 100.0,
        roots: Vec::new(),
        force: false,
    }
}

#[test]
fn models_of_several_heads_find_the_same_entities() {
    let _guard = common::exclusive();
    let device = nerzoo::device::cpu();
    for head in [
        "seq_ner",
        "span_ner",
        "bl_ner",
        "bopn",
        "locate_label",
        "diffusion_ner",
    ] {
        let entry = registry::find(head).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        // The first variant of BOPN learns slowly.
        let variant = &variants(head)[usize::from(head == "bopn")];
        let recipe = recipe(head, &variant.sets, folder.path());
        let trained = (entry.train)(&common::train_options(recipe, &run, &device)).unwrap();
        let expected = trained.tagger.tag(&sentences()).unwrap();
        let out = folder.path().join("int8");
        let check = Check::Sentences("eight".into(), sentences());
        let quantized = quantize(&run, &options(&out, check), &|_| {}).unwrap();
        let (_, [before, after]) = quantized.scores.unwrap();
        println!("{head}: F1 {before:.3} before, {after:.3} after");
        assert!(before > 0.7 && after > before - 0.1, "{head}");
        assert!(quantized.bytes[1] < quantized.bytes[0], "{head}");

        let int8 = registry::load(&out, &device, &[]).unwrap();
        let found = in_pool(1, || int8.tag(&sentences())).unwrap();
        for threads in [2, 3] {
            let again = in_pool(threads, || int8.tag(&sentences())).unwrap();
            assert_eq!(found, again, "{head} with {threads} threads");
        }
        // Without kernels the weights are widened.
        fused::set_enabled(false);
        let widened = registry::load(&out, &device, &[]).unwrap();
        let wide = widened.tag(&sentences());
        fused::set_enabled(true);
        let wide = wide.unwrap();
        if head == "diffusion_ner" {
            // Five steps of denoising with a width of 32: a boundary may move. F1 is compared above.
            continue;
        }
        assert_eq!(entities(&found), entities(&wide), "{head}");
        assert_eq!(entities(&found), entities(&expected), "{head}");
        for (one, other) in found.iter().flatten().zip(wide.iter().flatten()) {
            let difference = (one.score - other.score).abs();
            assert!(difference < 0.2, "{head}: {one:?} {other:?}");
        }
    }
}

/// A run of a tiny tagger, trained once for all tests.
fn run() -> &'static str {
    static RUN: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let (_, path) = RUN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = program::trained(folder.path(), &["train.epochs=4"]);
        (folder, path)
    });
    path
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn printed(arguments: &[&str]) -> String {
    text(&succeeds(arguments).stdout)
}

#[test]
fn a_quantised_folder_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/tiny-int8");
    let path = out.display().to_string();
    let output = printed(&[
        "zoo",
        "quantize",
        run(),
        "--out",
        &path,
        "--tolerance",
        "100",
    ]);
    assert!(output.contains("weights: "), "{output}");
    assert!(output.contains("F1 on quickstart (test): "), "{output}");
    let config = read_json(&out.join("config.json"));
    assert_eq!(config["quantization"], value!({"kind": "int8"}));
    assert_eq!(config["format_version"], 3);
    let metrics = read_json(&out.join("metrics.json"));
    let facts = &metrics["quantization"];
    assert_eq!(facts["f1"], metrics["test"]["f1"]);
    assert_eq!(
        facts["f1_before"],
        read_json(&Path::new(run()).join("metrics.json"))["test"]["f1"]
    );
    let size = fs::metadata(out.join("model.safetensors")).unwrap().len();
    assert_eq!(facts["bytes"], size);
    assert!(size * 2 < facts["bytes_before"].as_u64().unwrap());
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("stored in eight bits (int8)"), "{card}");
    assert!(card.contains("F1 on quickstart (test) is "), "{card}");
    // The scores of card and metrics are those of the stored weights.
    let verified = printed(&["zoo", "verify", &path, "--score", "--tolerance", "0.01"]);
    assert!(verified.contains("i8"), "{verified}");
    let scores = json(&["evaluate", &path, "quickstart", "--json"]);
    assert_eq!(scores["f1"], metrics["test"]["f1"]);
    let shown = json(&["zoo", "show", &path, "--json"]);
    assert_eq!(shown["summary"]["precision"], "i8");

    // What is there is not replaced, and a model is quantised once.
    fails(&["zoo", "quantize", run(), "--out", &path], &["--force"]);
    let other = folder.path().join("other").display().to_string();
    fails(&["zoo", "quantize", &path, "--out", &other], &["already"]);
    fails(
        &["zoo", "quantize", run(), "--out", run(), "--force"],
        &["itself"],
    );
    let to = folder.path().join("zoo").display().to_string();
    let publish = [
        "zoo", "publish", &path, "--name", "a", "--half", "--to", &to,
    ];
    fails(&publish, &["eight bits already"]);
    for tolerance in ["-1", "nan", "1000"] {
        let tolerance = format!("--tolerance={tolerance}");
        fails(
            &["zoo", "quantize", run(), "--out", &other, &tolerance],
            &["--tolerance"],
        );
    }
    assert!(!Path::new(&other).exists());

    // Published again, it stays as it is.
    printed(&["zoo", "publish", &path, "--name", "again", "--to", &to]);
    let again = folder.path().join("zoo/again");
    assert_eq!(read_json(&again.join("config.json"))["format_version"], 3);
    let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert_eq!(weights(&again), weights(&out));
    // A published model is quantised under its new name, without what was measured before.
    let named = folder.path().join("zoo/named");
    let from = folder.path().join("float").display().to_string();
    printed(&["zoo", "publish", run(), "--name", "first", "--to", &from]);
    let source = folder.path().join("float/first").display().to_string();
    let target = named.display().to_string();
    printed(&["zoo", "quantize", &source, "--out", &target, "--no-check"]);
    let metrics = read_json(&named.join("metrics.json"));
    assert_eq!(metrics["publication"]["name"], "named");
    assert_eq!(metrics["publication"]["weights"]["precision"], "i8");
    assert!(metrics["test"].is_null() && metrics["publication"]["f1_interval"].is_null());
    let card = fs::read_to_string(named.join("README.md")).unwrap();
    assert!(!card.contains("type: f1"), "{card}");
    let int8 = [
        "zoo",
        "publish",
        run(),
        "--name",
        "both",
        "--int8",
        "--tolerance",
        "100",
        "--to",
        &to,
    ];
    printed(&int8);
    assert_eq!(weights(&folder.path().join("zoo/both")), weights(&out));
    let card = fs::read_to_string(folder.path().join("zoo/both/README.md")).unwrap();
    assert!(card.contains("stored in eight bits (int8)"), "{card}");
    assert!(!card.contains("as trained, F1 was"), "{card}");
}

/// Sentences whose gold entities are those that the model finds, so that every change is a loss.
#[test]
fn a_loss_beyond_the_tolerance_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let device = nerzoo::device::cpu();
    let tagger = registry::load(Path::new(run()), &device, &[]).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/quickstart");
    let dataset = nerzoo::data::datasets::find("quickstart", &[file.parent().unwrap().into()]);
    let mut gold = dataset.unwrap().load("train").unwrap();
    let found = tagger.tag(&gold).unwrap();
    for (sentence, found) in gold.iter_mut().zip(found) {
        sentence.entities = found.into_iter().map(|mention| mention.entity).collect();
        sentence.entities.sort();
    }
    let gold = common::write_sentences(folder.path().join("gold.jsonl"), &gold);
    let gold = gold.display().to_string();
    let zoo = folder.path().join("zoo");
    let out = zoo.join("int8").display().to_string();
    let quantize = ["zoo", "quantize", run(), "--out", &out, "--check", &gold];
    let parts = ["falls from 100.00 to", "--tolerance"];
    fails(&[&quantize[..], &["--tolerance", "0"]].concat(), &parts);
    assert!(!zoo.exists());
    succeeds(&[&quantize[..], &["--tolerance", "10"]].concat());
    let metrics = read_json(&zoo.join("int8/metrics.json"));
    assert_eq!(metrics["quantization"]["f1_before"], 1.0);
    // The scores of the run are not those of these weights.
    assert!(metrics["test"].is_null() && metrics["dev"].is_null());
}

#[test]
fn hostile_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    let none = options(&good, Check::None);
    quantize(Path::new(run()), &none, &|_| {}).unwrap();
    let bytes = fs::read(good.join("model.safetensors")).unwrap();
    let weights = SafeTensors::deserialize(&bytes).unwrap();
    let query = "encoder.transformer.layers.0.query.weight";
    let words = "encoder.transformer.word_embeddings.weight";
    let scale = |name: &str| format!("{name}_scale");
    let device = nerzoo::device::cpu();
    let refused = |what: &str, parts: &[&str], change: &dyn Fn(&mut Tensors, &mut Value)| {
        let bad = folder.path().join("bad");
        fs::create_dir(&bad).unwrap();
        for name in ["tokenizer.json", "recipe.toml", "metrics.json", "README.md"] {
            fs::copy(good.join(name), bad.join(name)).unwrap();
        }
        let mut config = read_json(&good.join("config.json"));
        let tensors = weights.tensors().into_iter();
        let mut tensors: Tensors = tensors
            .map(|(name, view)| {
                let stored = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
                (name, stored)
            })
            .collect();
        change(&mut tensors, &mut config);
        fs::write(bad.join("config.json"), config.to_string()).unwrap();
        let views = tensors.iter().map(|(name, (kind, shape, data))| {
            (name, TensorView::new(*kind, shape.clone(), data).unwrap())
        });
        safetensors::serialize_to_file(views, None, &bad.join("model.safetensors")).unwrap();
        manifest::write(&bad).unwrap();
        for problem in [
            registry::load(&bad, &device, &[]).map(|_| ()),
            verify(&bad).map(|_| ()),
        ] {
            let problem = problem
                .err()
                .unwrap_or_else(|| panic!("{what} is accepted"));
            for part in parts {
                assert!(
                    problem.chain().contains(part),
                    "{what}: {}",
                    problem.chain()
                );
            }
        }
        fs::remove_dir_all(bad).unwrap();
    };
    let floats =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    for name in [query, words] {
        let scale = &scale(name);
        for (bad, part) in [
            (f32::NAN, "not a finite number"),
            (f32::INFINITY, "not a finite number"),
            (f32::NEG_INFINITY, "not a finite number"),
            (-1e-3, ""),
        ] {
            refused(
                "a bad scale",
                &[scale, part, "model.safetensors"],
                &|tensors, _| {
                    let data = &mut tensors.get_mut(scale).unwrap().2;
                    let last = data.len() - 4;
                    data[last..].copy_from_slice(&bad.to_le_bytes());
                },
            );
        }
        refused("no scale", &[scale, "missing"], &|tensors, _| {
            tensors.remove(scale);
        });
        refused("fewer scales", &[scale, "shape"], &|tensors, _| {
            let (_, shape, data) = tensors.get_mut(scale).unwrap();
            shape[0] -= 1;
            data.truncate(4 * shape[0]);
        });
        refused("halved scales", &[scale, "F16"], &|tensors, _| {
            let (kind, shape, data) = tensors.get_mut(scale).unwrap();
            *kind = Dtype::F16;
            data.truncate(2 * shape[0]);
        });
        refused("unsigned values", &[name, "U8", "I8"], &|tensors, _| {
            tensors.get_mut(name).unwrap().0 = Dtype::U8;
        });
        refused("float values", &[name, "F32", "I8"], &|tensors, _| {
            let (kind, shape, data) = tensors.get_mut(name).unwrap();
            *kind = Dtype::F32;
            *data = floats(&vec![0.5; shape[0] * shape[1]]);
        });
        refused("another shape", &[name, "shape"], &|tensors, _| {
            tensors.get_mut(name).unwrap().1.reverse();
            tensors.get_mut(name).unwrap().1.push(1);
        });
    }
    refused(
        "int8 where floats belong",
        &["gamma", "I8"],
        &|tensors, _| {
            let norm = tensors.keys().find(|name| name.ends_with("gamma")).unwrap();
            let norm = norm.clone();
            let (kind, shape, data) = tensors.get_mut(&norm).unwrap();
            *kind = Dtype::I8;
            data.truncate(shape[0]);
        },
    );
    refused("one more tensor", &["not a parameter"], &|tensors, _| {
        tensors.insert("more".into(), (Dtype::I8, vec![1], vec![1]));
    });
    refused("no word of int8", &["quantization"], &|_, config| {
        config.as_object_mut().unwrap().remove("quantization");
    });
    for bad in [
        value!({"kind": "int4"}),
        value!({}),
        value!("int8"),
        value!({"kind": "int8", "bits": 7}),
    ] {
        refused("another kind", &["config.json"], &|_, config| {
            config["quantization"] = bad.clone();
        });
    }
    // A future format.
    refused("a newer format", &["update it"], &|_, config| {
        config["format_version"] = value!(4)
    });
    // The extremes of a scale load, and do not end in a panic.
    let text = b"Marta Keller visited Lindholm.";
    for extreme in [0.0, f32::MAX, f32::MIN_POSITIVE] {
        let odd = folder.path().join("odd");
        fs::create_dir_all(&odd).unwrap();
        for entry in fs::read_dir(&good).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, odd.join(path.file_name().unwrap())).unwrap();
        }
        let changed = weights.tensors().into_iter().map(|(name, view)| {
            let mut data = view.data().to_vec();
            if name == scale(query) {
                data = floats(&vec![extreme; data.len() / 4]);
            }
            (name, view.dtype(), view.shape().to_vec(), data)
        });
        let changed: Vec<_> = changed.collect();
        let views = changed.iter().map(|(name, kind, shape, data)| {
            (name, TensorView::new(*kind, shape.clone(), data).unwrap())
        });
        safetensors::serialize_to_file(views, None, &odd.join("model.safetensors")).unwrap();
        manifest::write(&odd).unwrap();
        let path = odd.display().to_string();
        let output = program::nerzoo_with_input(&["predict", "--model", &path, "-"], text);
        assert!(
            !self::text(&output.stderr).contains("panicked"),
            "{extreme}"
        );
        fs::remove_dir_all(odd).unwrap();
    }
    assert!(
        nerzoo(&["predict", "--model", good.to_str().unwrap(), "-"])
            .status
            .success()
    );
}

/// Tensors of a file: type, shape and bytes by name.
type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;
