//! Import and export of models of other programs: token classifiers of the transformers library, made by `fixtures/taggers/make.py`
//! (`NERZOO_TAGGERS` names another folder), give the same tags to every word; what cannot be imported is refused.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::program::{fails, nerzoo_with_input, succeeds, text};
use nerzoo::heads::seq_ner::{SeqNer, TagMark, TagSet};
use nerzoo::hub::Hub;
use nerzoo::model::folder::{self, ModelConfig};
use nerzoo::model::tagger::Tagger;
use nerzoo::text::{Entity, Sentence};
use nerzoo::zoo::export::export_transformers;
use nerzoo::zoo::import::import_transformers;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Deserialize)]
struct Expected {
    sentences: Vec<ExpectedSentence>,
}

#[derive(Deserialize)]
struct ExpectedSentence {
    words: Vec<String>,
    tags: Vec<String>,
    entities: Vec<(usize, usize, String)>,
}

/// The folder of a fixture of the repository.
fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/fixtures/taggers").join(name)
}

/// Every folder with an `expected.json`, sorted.
fn fixtures() -> Vec<PathBuf> {
    let root = std::env::var_os("NERZOO_TAGGERS").map_or_else(|| fixture(""), PathBuf::from);
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "no folder has an expected.json");
    folders
}

/// The tag with the letters of BIOES.
fn standard(tag: &str) -> String {
    let (mark, name) = match tag.split_once('-') {
        Some((mark @ ("B" | "I" | "E" | "S"), name)) => (mark, name),
        Some(("L", name)) => ("E", name),
        Some(("U", name)) => ("S", name),
        _ => ("I", tag),
    };
    if tag == "O" {
        tag.into()
    } else {
        format!("{mark}-{name}")
    }
}

fn import(source: &Path, out: &Path) {
    let hub = Hub::from_env().offline();
    import_transformers(source.to_str().unwrap(), &hub, out, false).unwrap();
}

/// A model folder gives the tags and entities that a fixture expects.
fn check_tags(model: &Path, source: &Path) {
    let what = source.file_name().unwrap().to_string_lossy().into_owned();
    let read = fs::read_to_string(source.join("expected.json")).unwrap();
    let expected: Expected = serde_json::from_str(&read).unwrap();
    let device = common::first_device();
    let tagger = folder::load::<SeqNer>(model, &device, &[]).unwrap();
    let config = ModelConfig::read(model).unwrap();
    let head = config.head_config::<SeqNer>(model).unwrap();
    let sentences: Vec<Sentence> = (expected.sentences.iter())
        .map(|sentence| Sentence::from_words(sentence.words.clone()))
        .collect();
    let scores = tagger.candidates(&sentences).unwrap();
    let mentions = tagger.tag(&sentences).unwrap();
    for ((expected, scores), mentions) in expected.sentences.iter().zip(&scores).zip(&mentions) {
        let name = |number: usize| match head.tags.read(number) {
            None => "O".to_string(),
            Some((label, mark)) => {
                format!("{}-{}", TagMark::letter(mark), tagger.labels().name(label))
            }
        };
        let tags: Vec<String> = scores.chosen(&head).into_iter().map(name).collect();
        let theirs: Vec<String> = expected.tags.iter().map(|tag| standard(tag)).collect();
        assert_eq!(tags, theirs, "{what} {:?}", expected.words);
        let found: Vec<&Entity> = mentions.iter().map(|mention| &mention.entity).collect();
        let entities: Vec<Entity> = (expected.entities.iter())
            .map(|(start, end, label)| Entity::new(*start, *end, label.clone()))
            .collect();
        let entities: Vec<&Entity> = entities.iter().collect();
        assert_eq!(found, entities, "{what} {:?}", expected.words);
    }
    println!("{what}: {} sentences", sentences.len());
}

#[test]
fn every_word_has_the_tag_that_transformers_gives_it() {
    for source in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("model");
        import(&source, &out);
        check_tags(&out, &source);
    }
}

#[test]
fn exported_taggers_are_those_that_were_imported() {
    let mut exported = 0;
    for source in fixtures() {
        let folder = tempfile::tempdir().unwrap();
        let [model, out, again] =
            ["model", "exported", "again"].map(|name| folder.path().join(name));
        import(&source, &model);
        let config = ModelConfig::read(&model).unwrap();
        let head = config.head_config::<SeqNer>(&model).unwrap();
        let result = export_transformers(&model, &[], &out, false);
        if head.tags == TagSet::Bioes {
            let problem = result.unwrap_err().to_string();
            assert!(problem.contains("bioes") && !out.exists(), "{problem}");
            continue;
        }
        result.unwrap();
        import(&out, &again);
        check_tags(&again, &source);
        exported += 1;
        // The parameters are those of the source; an embedding of token types may be added, and biases of ModernBERT's.
        let names = |folder: &Path| -> BTreeSet<String> {
            let bytes = fs::read(folder.join("model.safetensors")).unwrap_or_default();
            let tensors = SafeTensors::deserialize(&bytes);
            tensors.map_or(BTreeSet::new(), |all| {
                all.names().iter().map(|name| name.to_string()).collect()
            })
        };
        let (theirs, ours) = (names(&source), names(&out));
        // RoBERTa's relatives are exported as RoBERTa.
        let missing: Vec<&String> = theirs.difference(&ours).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", source.display());
    }
    assert!(exported > 0);
}

#[test]
fn models_that_transformers_cannot_express_are_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let trained = |name: &str, sets: &[&str]| {
        let parent = folder.path().join(name);
        fs::create_dir(&parent).unwrap();
        common::program::trained(&parent, sets)
    };
    let export = |model: &str, out: &str, more: &[&str]| -> Vec<String> {
        let base = ["zoo", "export", model, "--to", "transformers", "--out", out];
        base.iter()
            .chain(more)
            .map(|part| part.to_string())
            .collect()
    };
    let out = path(&folder, "out");
    let refused = |model: &str, parts: &[&str]| {
        let arguments = export(model, &out, &[]);
        fails(
            &arguments.iter().map(String::as_str).collect::<Vec<_>>(),
            parts,
        );
        assert!(!Path::new(&out).exists());
    };
    refused(&trained("pooling", &[]), &["encoder.pooling", "first"]);
    let (first, untuned) = ("encoder.pooling=first", "train.tune=false");
    refused(
        &trained("crf", &[first, "head.decoder=crf"]),
        &["crf", "chosen together"],
    );
    refused(
        &trained("bioes", &[first, "head.tags=bioes", untuned]),
        &["bioes"],
    );
    refused(
        &trained("transform", &[first, "head.transform=gelu", untuned]),
        &["head.transform"],
    );
    refused(
        &trained("span", &["head.name=span_ner"]),
        &["span_ner", "cannot express"],
    );
    let strict = trained("strict", &[first, "head.combiner=strict", untuned]);
    refused(&strict, &["combiner", "--set head.combiner=lenient"]);
    let allowed = export(&strict, &out, &["--set", "head.combiner=lenient"]);
    succeeds(&allowed.iter().map(String::as_str).collect::<Vec<_>>());
    let onnx = ["zoo", "export", &strict, "--to", "onnx", "--out", &out];
    fails(&onnx, &["ONNX is not supported", "--to transformers"]);
    let files = [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    for file in files {
        assert!(Path::new(&out).join(file).is_file(), "{file}");
    }
}

#[test]
fn checkpoints_that_lie_about_their_size_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let types = path(&folder, "types.json");
    fs::write(&types, "[\"A\"]").unwrap();
    let encoder = fixture("bert-iob2").display().to_string();
    let import = |checkpoint: &Path, head: &str, parts: &[&str]| {
        let (checkpoint, out) = (checkpoint.display().to_string(), path(&folder, "out"));
        let arguments = [
            "zoo",
            "import",
            "--from",
            "released",
            "--head",
            head,
            &checkpoint,
            "--types",
            &types,
            "--encoder",
            &encoder,
            "--out",
            &out,
        ];
        fails(&arguments, parts);
        assert!(!Path::new(&out).exists());
    };
    import(
        &fixture("hostile/stride-zero.pt"),
        "bopn",
        &["stride-zero.pt", "400000000000 bytes"],
    );
    import(
        &fixture("hostile/stride-zero-smaller.pt"),
        "bopn",
        &["claims", "do not use it"],
    );
    import(
        &fixture("hostile/shared.pt"),
        "bopn",
        &["claim", "do not use it"],
    );
    let text = folder.path().join("text");
    fs::write(&text, "no checkpoint").unwrap();
    import(&text, "bopn", &["text"]);
    fs::write(&text, "").unwrap();
    import(&text, "bopn", &["text"]);
    import(&folder.path().join("none"), "bopn", &["none"]);
    // The weights of another model, and heads without a released program.
    let other = fixture("bert-iob2/model.safetensors");
    for head in ["bopn", "locate_label", "diffusion_ner"] {
        import(&other, head, &["the imported weights"]);
    }
    import(&other, "seq_ner", &["seq_ner", "no program"]);
    import(&other, "bobn", &["did you mean \"bopn\""]);
    let arguments = [
        "zoo",
        "import",
        "--from",
        "transformers",
        &encoder,
        "--head",
        "bopn",
        "--out",
        &path(&folder, "out"),
    ];
    fails(&arguments, &["--head is for --from released"]);
}

#[test]
fn the_program_imports_checks_publishes_and_uses_a_tagger() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (path(&folder, "a/model"), fixture("bert-iob2"));
    let import = [
        "zoo",
        "import",
        "--from",
        "transformers",
        source.to_str().unwrap(),
        "--out",
        &out,
    ];
    let output = succeeds(&import);
    let printed = text(&output.stdout);
    assert!(
        printed.contains("3 types, licence: apache-2.0"),
        "{printed}"
    );
    let card = fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
    for part in [
        "license: \"apache-2.0\"",
        "base_model: \"owner/tiny-bert\"",
        "language: \"en\"",
        "`BertForTokenClassification`",
        "LOC, PER, a-type",
    ] {
        assert!(card.contains(part), "{part}: {card}");
    }
    assert!(!card.contains(source.to_str().unwrap()), "{card}");
    succeeds(&["zoo", "verify", &out]);
    let shown = succeeds(&["zoo", "show", &out]);
    assert!(text(&shown.stdout).contains("bert-iob2") || text(&shown.stdout).contains("seq_ner"));
    let predicted = nerzoo_with_input(
        &["predict", "--model", &out, "-"],
        b"Anna Keller lives in Lindholm.",
    );
    assert!(predicted.status.success(), "{}", text(&predicted.stderr));
    let zoo = path(&folder, "zoo/models");
    succeeds(&[
        "zoo",
        "publish",
        &out,
        "--name",
        "mine",
        "--to",
        &zoo,
        "--no-score",
        "--half",
    ]);
    succeeds(&["zoo", "verify", &format!("{zoo}/mine")]);
    fails(&import, &["--force"]);
    succeeds(&[&import[..], &["--force"]].concat());
    let other = path(&folder, "other");
    fs::create_dir(&other).unwrap();
    fs::write(Path::new(&other).join("README.md"), "mine").unwrap();
    let into_other = [&import[..6], &[&other, "--force"]].concat();
    fails(&into_other, &["not the folder of a model"]);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// A copy of a fixture with another `config.json`.
fn with_config(folder: &TempDir, change: impl Fn(&mut Value)) -> PathBuf {
    let target = folder.path().join("source");
    let _ = fs::remove_dir_all(&target);
    fs::create_dir(&target).unwrap();
    for entry in fs::read_dir(fixture("bert-iob2")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, target.join(from.file_name().unwrap())).unwrap();
    }
    let config = target.join("config.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&config).unwrap()).unwrap();
    change(&mut json);
    fs::write(&config, json.to_string()).unwrap();
    target
}

/// Imports a folder, which has to fail with an error that contains these parts and to leave nothing behind.
fn refused(folder: &TempDir, source: &Path, parts: &[&str]) {
    let out = path(folder, "out/model");
    let source = source.to_str().unwrap();
    fails(
        &[
            "zoo",
            "import",
            "--from",
            "transformers",
            source,
            "--out",
            &out,
        ],
        parts,
    );
    let left = fs::read_dir(folder.path().join("out")).map_or(0, |entries| entries.count());
    assert_eq!(left, 0, "{parts:?}: something is left in the folder");
}

#[test]
fn what_is_no_tagger_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |key: &str, value: Value, parts: &[&str]| {
        let source = with_config(&folder, |json| json[key] = value.clone());
        refused(&folder, &source, parts);
    };
    let classes = "architectures";
    changed(
        classes,
        json!(["BertForSequenceClassification"]),
        &["ForTokenClassification", "encoder.pretrained"],
    );
    changed(
        classes,
        json!(["SpanMarkerModel"]),
        &["SpanMarker", "not supported", "--from released"],
    );
    changed(
        "model_type",
        json!("span-marker"),
        &["SpanMarker", "not supported"],
    );
    changed("model_type", json!("gliner"), &["GLiNER", "not supported"]);
    changed("model_type", json!("t5"), &["model_type", "t5"]);
    changed(classes, Value::Null, &["ForTokenClassification"]);
    changed("is_decoder", json!(true), &["is_decoder"]);
    changed("id2label", Value::Null, &["id2label"]);
    changed("id2label", json!({"0": "O"}), &["no name for the tag 1"]);
    changed(
        "id2label",
        json!({"0": "O", "9": "I-A"}),
        &["id2label", "\"9\""],
    );
    let numbered = |name: &dyn Fn(usize) -> String| -> Value {
        let names = (0..7).map(|number| (number.to_string(), json!(name(number))));
        Value::Object(names.collect())
    };
    changed(
        "id2label",
        numbered(&|number| format!("LABEL_{number}")),
        &["LABEL_0"],
    );
    changed(
        "id2label",
        numbered(&|number| format!("B-{number}")),
        &["no tag O"],
    );
    changed(
        "id2label",
        numbered(&|number| {
            if number < 2 {
                "O".into()
            } else {
                format!("B-{number}")
            }
        }),
        &["same meaning"],
    );
    changed("hidden_size", json!(32), &["width"]);
    changed(
        "num_hidden_layers",
        json!(10_000_000),
        &["num_hidden_layers"],
    );
    changed("vocab_size", json!(20), &["pieces"]);
    fs::write(folder.path().join("gliner_config.json"), "{}").unwrap();
    refused(&folder, folder.path(), &["GLiNER", "not supported"]);
    fails(
        &[
            "zoo",
            "import",
            "--from",
            "transformers",
            "hf:urchade/gliner_base",
            "--out",
            &path(&folder, "x"),
        ],
        &["GLiNER", "not supported"],
    );
    fails(
        &[
            "zoo",
            "import",
            "--from",
            "transformers",
            "hf:owner/name",
            "--out",
            &path(&folder, "x"),
            "--offline",
        ],
        &["owner/name", "--offline"],
    );
}

/// Tensors by name: shape and values.
type Weights = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Replaces the weights of a folder.
fn change_weights(source: &Path, change: impl Fn(&mut Weights)) {
    let file = source.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let mut all: Weights = SafeTensors::deserialize(&bytes)
        .unwrap()
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let (chunks, _) = view.data().as_chunks::<4>();
            let values = chunks.iter().map(|bytes| f32::from_le_bytes(*bytes));
            (name, (view.shape().to_vec(), values.collect()))
        })
        .collect();
    change(&mut all);
    let bytes: BTreeMap<&String, (Vec<usize>, Vec<u8>)> = (all.iter())
        .map(|(name, (shape, values))| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes());
            (name, (shape.clone(), bytes.collect()))
        })
        .collect();
    let views = bytes.iter().map(|(name, (shape, bytes))| {
        (
            name.as_str(),
            TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap(),
        )
    });
    fs::write(&file, safetensors::serialize(views, None).unwrap()).unwrap();
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = || with_config(&folder, |_| {});
    let changed = |change: &dyn Fn(&mut Weights), parts: &[&str]| {
        let source = source();
        change_weights(&source, change);
        refused(&folder, &source, parts);
    };
    changed(
        &|all| drop(all.remove("classifier.weight")),
        &["no classifier.weight"],
    );
    changed(
        &|all| drop(all.remove("classifier.bias")),
        &["no classifier.bias"],
    );
    changed(
        &|all| drop(all.insert("crf.transitions".into(), (vec![1], vec![0.0]))),
        &["crf.transitions"],
    );
    changed(
        &|all| drop(all.insert("head.dense.weight".into(), (vec![1], vec![0.0]))),
        &["head.dense.weight"],
    );
    changed(
        &|all| drop(all.insert("classifier.weight".into(), (vec![112], vec![0.0; 112]))),
        &["classifier"],
    );
    changed(
        &|all| drop(all.insert("classifier.weight".into(), (vec![], vec![0.0]))),
        &["id2label"],
    );
    changed(
        &|all| drop(all.insert("classifier.bias".into(), (vec![8], vec![0.0; 8]))),
        &["classifier.bias has shape [8]"],
    );
    changed(
        &|all| all.get_mut("classifier.bias").unwrap().1[0] = f32::NAN,
        &["classifier.bias", "not a finite number"],
    );
    let cut = source();
    let file = cut.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    refused(&folder, &cut, &["model.safetensors"]);
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes());
    fs::write(&file, &huge).unwrap();
    refused(&folder, &cut, &["model.safetensors"]);
    fs::remove_file(&file).unwrap();
    refused(
        &folder,
        &cut,
        &["neither model.safetensors nor pytorch_model.bin"],
    );
    fs::write(cut.join("pytorch_model.bin"), b"no pickle at all").unwrap();
    refused(&folder, &cut, &["pytorch_model.bin"]);
}
