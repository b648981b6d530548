//! Models by name: published, listed, checked, fetched and pushed, with a hub on this machine that fails on demand.

#[path = "common/hub.rs"]
#[allow(dead_code)]
mod loopback;
#[path = "common/program.rs"]
#[allow(dead_code)]
mod program;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use loopback::{COMMIT, Fault, LoopbackHub, TOKEN, sha256};
use nerzoo::hub::{Hub, Token};
use nerzoo::zoo::Zoo;
use nerzoo::zoo::pull::PullOptions;
use nerzoo::zoo::source::Source;
use nerzoo::zoo::verify::verify;
use serde_json::{Value, json};

/// The files of a published model.
const FILES: [&str; 7] = [
    "README.md",
    "config.json",
    "manifest.json",
    "metrics.json",
    "model.safetensors",
    "recipe.toml",
    "tokenizer.json",
];

/// A run of a tiny model, trained once for all tests.
fn run() -> &'static str {
    static RUN: OnceLock<(tempfile::TempDir, String)> = OnceLock::new();
    let (_, path) = RUN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = program::trained(folder.path(), &[]);
        (folder, path)
    });
    path
}

/// A zoo with one published model, `tiny`.
fn published() -> &'static Path {
    static ZOO: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = ZOO.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("models").display().to_string();
        let arguments = ["zoo", "publish", run(), "--name", "tiny", "--to", &to];
        let output = nerzoo(folder.path(), &arguments);
        assert!(output.status.success(), "{}", error(&output));
        folder
    });
    folder.path()
}

fn model() -> PathBuf {
    published().join("models/tiny")
}

/// Runs the program with a zoo's folder, without network.
fn nerzoo(zoo: &Path, arguments: &[&str]) -> Output {
    command(zoo, arguments).output().unwrap()
}

fn command(zoo: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerzoo"));
    for variable in [
        "HF_TOKEN",
        "NERZOO_ENCODERS",
        "NERZOO_DATA",
        "NERZOO_DEVICE",
        "RUST_LOG",
    ] {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("NERZOO_ZOO", zoo)
        .env("NERZOO_CACHE", zoo.join("cache"))
        .env("HF_HOME", zoo.join("home"))
        .env("HF_HUB_OFFLINE", "1");
    command
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", error(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A copy of the published model in a new folder.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in FILES {
        fs::copy(model().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// Edits the manifest of a folder.
fn edit_manifest(folder: &Path, edit: impl FnOnce(&mut Value)) {
    let path = folder.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

fn contents(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    FILES
        .map(|name| (name, fs::read(folder.join(name)).unwrap()))
        .to_vec()
}

/// A hub server, and a zoo with an empty cache.
struct Setup {
    server: LoopbackHub,
    folder: tempfile::TempDir,
    zoo: Zoo,
}

impl Setup {
    fn new(files: &[(&str, Vec<u8>)]) -> Self {
        let server = LoopbackHub::start(files);
        let folder = tempfile::tempdir().unwrap();
        let zoo = Zoo {
            folders: Vec::new(),
            cache: folder.path().join("cache"),
            hub: Hub {
                endpoint: server.address.clone(),
                token: None,
                cache: folder.path().join("hub"),
                offline: false,
                timeout: Duration::from_secs(10),
                attempts: 3,
                pause: Duration::from_millis(1),
                ..Hub::from_env()
            },
        };
        Self {
            server,
            folder,
            zoo,
        }
    }

    fn with_token(mut self) -> Self {
        self.zoo.hub.token = Token::new(TOKEN);
        self
    }

    /// The address of the served files as a folder.
    fn address(&self) -> String {
        format!("{}/owner/model/resolve/main", self.server.address)
    }

    fn pull(&self, source: &str) -> nerzoo::error::Result<PathBuf> {
        let pulled = self
            .zoo
            .pull(&Source::parse(source)?, &PullOptions::default())?;
        Ok(pulled.folder)
    }

    /// Fails to fetch, with an error that has these parts, and installs nothing.
    fn fails(&self, source: &str, parts: &[&str]) {
        let problem = self.pull(source).unwrap_err().chain();
        for part in parts {
            assert!(problem.contains(part), "no {part:?} in: {problem}");
        }
        for secret in [TOKEN, "signed-secret"] {
            assert!(!problem.contains(secret), "{problem}");
        }
        assert!(self.zoo.models().is_empty(), "{problem}");
        let models = self.folder.path().join("cache/models");
        for entry in models.read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            assert!(name.starts_with('.'), "{name} is half installed: {problem}");
        }
    }

    fn push(&self, to: &str) -> nerzoo::error::Result<nerzoo::hub::Uploaded> {
        let plan = nerzoo::zoo::push::plan(&model())?;
        self.zoo
            .push(&plan, &to.parse().unwrap(), "Add tiny", false)
    }
}

#[test]
fn a_published_model_is_complete_and_names_no_machine_path() {
    let mut names: Vec<String> = (fs::read_dir(model()).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, FILES);
    let card = fs::read_to_string(model().join("README.md")).unwrap();
    for part in [
        "pipeline_tag: token-classification",
        "library_name: nerzoo",
        "language: \"en\"",
        "datasets: [\"quickstart\"]",
        "- {type: f1, value: ",
        "# tiny",
        "95 % interval of F1 on test",
        "| type on test | precision | recall | F1 | entities |",
        "| PER |",
        "| words of an entity on test |",
        "| train | 160 |",
        "nerzoo train recipe.toml",
        "of wall time",
        "of CPU time",
        "## Limits and known failures",
        "Weakest types on test: ",
        "Errors on test by kind: ",
        "Licence: MIT OR Apache-2.0",
        "Encoder: trained from scratch",
    ] {
        assert!(card.contains(part), "no {part:?} in:\n{card}");
    }
    assert!(!card.contains("base_model"), "{card}");
    let temporary = std::env::temp_dir().display().to_string();
    for name in FILES.iter().filter(|name| !name.ends_with("safetensors")) {
        let text = fs::read_to_string(model().join(name)).unwrap();
        for path in [temporary.as_str(), env!("CARGO_MANIFEST_DIR")] {
            assert!(!text.contains(path), "{name} contains {path}");
        }
    }
    let index: Value =
        serde_json::from_slice(&fs::read(published().join("index.json")).unwrap()).unwrap();
    assert_eq!(index["models"][0]["name"], "tiny");
    assert_eq!(index["models"][0]["precision"], "f32");
    assert!(index["models"][0]["f1_interval"].is_array());
    let problem = error(&nerzoo(
        published(),
        &[
            "zoo",
            "publish",
            run(),
            "--name",
            "tiny",
            "--to",
            published().join("models").to_str().unwrap(),
        ],
    ));
    assert!(problem.contains("--force"), "{problem}");
    for (name, part) in [
        ("../x", "a name has letters"),
        ("a/b", "a name has letters"),
        (".x", "a name has letters"),
    ] {
        let problem = error(&nerzoo(
            published(),
            &["zoo", "publish", run(), "--name", name],
        ));
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn half_precision_halves_the_weights_and_is_scored() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().display().to_string();
    let arguments = [
        "zoo",
        "publish",
        run(),
        "--name",
        "half",
        "--half",
        "--to",
        &to,
    ];
    printed(&nerzoo(folder.path(), &arguments));
    let half = folder.path().join("half");
    let size = |folder: &Path| folder.join("model.safetensors").metadata().unwrap().len();
    assert!(size(&half) < size(&model()) * 6 / 10);
    let card = fs::read_to_string(half.join("README.md")).unwrap();
    assert!(card.contains("stored as f16; as trained, F1 was"), "{card}");
    let metrics: Value =
        serde_json::from_slice(&fs::read(half.join("metrics.json")).unwrap()).unwrap();
    assert_eq!(metrics["publication"]["weights"]["precision"], "f16");
    let path = half.display().to_string();
    let output = printed(&nerzoo(folder.path(), &["zoo", "verify", &path, "--score"]));
    assert!(
        output.contains("on quickstart (test), published"),
        "{output}"
    );
    assert!(!folder.path().join("index.json").exists());
}

#[test]
fn names_work_wherever_a_model_is_asked_for() {
    let zoo = published();
    let list: Value =
        serde_json::from_str(&printed(&nerzoo(zoo, &["zoo", "list", "--json"]))).unwrap();
    let tiny = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .find(|model| model["name"] == "tiny")
        .unwrap();
    assert_eq!(tiny["head"], "seq_ner");
    assert_eq!(tiny["place"], "published");
    assert_eq!(tiny["nested"], false);
    assert_eq!(tiny["licence"], "MIT OR Apache-2.0, as this program.");
    let table = printed(&nerzoo(zoo, &["zoo", "list"]));
    assert!(
        table.contains("tiny") && table.contains("from scratch"),
        "{table}"
    );
    let shown = printed(&nerzoo(zoo, &["zoo", "show", "tiny"]));
    for part in ["95 % interval", "settings", "## Licences"] {
        assert!(shown.contains(part), "{shown}");
    }
    let shown: Value =
        serde_json::from_str(&printed(&nerzoo(zoo, &["zoo", "show", "tiny", "--json"]))).unwrap();
    assert_eq!(shown["summary"]["name"], "tiny");
    let scores: Value = serde_json::from_str(&printed(&nerzoo(
        zoo,
        &["evaluate", "tiny", "quickstart", "--json"],
    )))
    .unwrap();
    assert_eq!(scores["f1"], shown["test"]["f1"]);
    let report = zoo.join("report.html").display().to_string();
    let data = "datasets/quickstart";
    let arguments = [
        "analyse",
        "--train",
        &format!("{data}/train.jsonl"),
        "--gold",
        &format!("{data}/dev.jsonl"),
        "a=tiny",
        "--out",
        &report,
    ];
    printed(&nerzoo(zoo, &arguments));

    let predict = |zoo: &Path, arguments: &[&str]| {
        let mut child = command(zoo, arguments);
        let child = child
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped());
        let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(b"Marta Keller visited Lindholm.\n");
        child.wait_with_output().unwrap()
    };
    let by_name = printed(&predict(zoo, &["predict", "--model", "tiny"]));
    assert!(by_name.contains("Lindholm"), "{by_name}");
    // Without a name the default is used.
    let own = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-zoo");
    // The repository's own zoo is searched as well.
    if nerzoo::zoo::index::Index::read(&here)
        .unwrap()
        .default
        .is_none()
    {
        let problem = error(&predict(own.path(), &["predict"]));
        for part in ["no model is given", "nerzoo zoo pull", "nerzoo train"] {
            assert!(problem.contains(part), "{problem}");
        }
    }
    fs::create_dir_all(own.path().join("models")).unwrap();
    let copied = own.path().join("models/small");
    fs::rename(copy().keep(), &copied).unwrap();
    let folder = own.path().display().to_string();
    printed(&nerzoo(
        own.path(),
        &["zoo", "index", "--zoo", &folder, "--default", "small"],
    ));
    printed(&nerzoo(
        own.path(),
        &["zoo", "index", "--zoo", &folder, "--check"],
    ));
    assert_eq!(printed(&predict(own.path(), &["predict"])), by_name);
    // A misspelt name.
    let problem = error(&nerzoo(own.path(), &["evaluate", "smal", "quickstart"]));
    for part in ["did you mean \"small\"", "`nerzoo zoo list` shows"] {
        assert!(problem.contains(part), "{problem}");
    }
    let problem = error(&nerzoo(
        own.path(),
        &["evaluate", "someone/model", "quickstart"],
    ));
    assert!(problem.contains("hf:someone/model"), "{problem}");
    fs::remove_dir_all(&copied).unwrap();
    let problem = error(&nerzoo(
        own.path(),
        &["zoo", "index", "--zoo", &folder, "--check"],
    ));
    assert!(
        problem.contains("default model \"small\" is not in"),
        "{problem}"
    );
    let problem = error(&predict(own.path(), &["predict"]));
    assert!(
        problem.contains("its default model small is not in"),
        "{problem}"
    );
}

#[test]
fn the_index_of_this_repository_equals_its_folders() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-zoo");
    let index = nerzoo::zoo::index::Index::read(&zoo).unwrap();
    let folders = nerzoo::zoo::index::Index::of_folders(&zoo, index.default.clone()).unwrap();
    assert_eq!(index, folders, "write it with `nerzoo zoo index`");
    for (_, folder) in nerzoo::zoo::index::folders(&zoo) {
        let verified = verify(&folder).unwrap();
        assert!(
            !verified.card_is_edited && verified.others.is_empty(),
            "{}",
            folder.display()
        );
    }
}

/// The default model needs no network, no training and no file beside those of this repository.
#[test]
fn predict_without_a_model_finds_nested_entities() {
    let text = "The president of the University of Cape Town met Angela Merkel in Berlin.";
    let nowhere = tempfile::tempdir().unwrap();
    let mut predict = command(nowhere.path(), &["predict"]);
    predict
        .env_remove("NERZOO_ZOO")
        .current_dir(nowhere.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut predict = predict.spawn().unwrap();
    writeln!(predict.stdin.take().unwrap(), "{text}").unwrap();
    let record: Value =
        serde_json::from_str(&printed(&predict.wait_with_output().unwrap())).unwrap();
    let spans: Vec<(u64, u64)> = (record["entities"].as_array().unwrap().iter())
        .map(|entity| {
            (
                entity["start"].as_u64().unwrap(),
                entity["end"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(spans.len() >= 3, "{record}");
    let inside = |(start, end): &(u64, u64)| {
        let contains =
            |outer: &&(u64, u64)| outer.0 <= *start && *end <= outer.1 && **outer != (*start, *end);
        spans.iter().any(|outer| contains(&outer))
    };
    assert!(
        spans.iter().filter(|span| inside(span)).count() >= 2,
        "{record}"
    );
}

/// The smallest of the published models is scored again; the hashes of all are checked with the index.
#[test]
fn the_smallest_published_model_has_the_scores_of_its_card() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let size = |folder: &PathBuf| {
        fs::metadata(folder.join("model.safetensors"))
            .unwrap()
            .len()
    };
    let folders = nerzoo::zoo::index::folders(&root.join("model-zoo"));
    let smallest = (folders.into_iter().map(|(_, folder)| folder))
        .min_by_key(size)
        .unwrap();
    let corpora = root.join("../shared/corpora");
    if !corpora.is_dir() {
        let name = "the_smallest_published_model_has_the_scores_of_its_card";
        let missing = corpora.display();
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {missing} is missing");
        return;
    }
    let (folder, data) = (
        smallest.display().to_string(),
        corpora.display().to_string(),
    );
    let arguments = ["zoo", "verify", &folder, "--score", "--data", &data];
    printed(&nerzoo(published(), &arguments));
}

#[test]
fn the_results_page_equals_its_score_files() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("model-zoo");
    let page = fs::read_to_string(zoo.join("RESULTS.md")).unwrap();
    let made = nerzoo::zoo::results::page(&zoo).unwrap();
    assert!(page == made, "write it with `nerzoo zoo results`");
}

#[test]
fn scores_of_a_run_are_added_to_the_results_page() {
    let folder = tempfile::tempdir().unwrap();
    let zoo = folder.path().display().to_string();
    fs::create_dir(folder.path().join("results")).unwrap();
    let file = folder.path().join("results/q.json");
    let empty = json!({"title": "Q", "corpus": "quickstart (test)", "encoder": "e", "budget": "b", "rows": []});
    fs::write(&file, empty.to_string()).unwrap();
    let add = [
        "zoo",
        "results",
        "--zoo",
        &zoo,
        "--add",
        run(),
        "--file",
        "q",
        "--model",
        "SeqNER",
    ];
    for _ in 0..2 {
        printed(&nerzoo(folder.path(), &add));
    }
    let set: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(set["rows"].as_array().unwrap().len(), 1);
    assert_eq!(set["rows"][0]["scores"].as_array().unwrap().len(), 1);
    assert_eq!(set["rows"][0]["scores"][0]["seed"], 1);
    let page = fs::read_to_string(folder.path().join("RESULTS.md")).unwrap();
    assert!(
        page.contains("| SeqNER | `nerzoo train recipe.toml` | 1 |"),
        "{page}"
    );
    printed(&nerzoo(
        folder.path(),
        &["zoo", "results", "--zoo", &zoo, "--check"],
    ));
    fs::write(
        folder.path().join("RESULTS.md"),
        page.replace("SeqNER", "Other"),
    )
    .unwrap();
    let output = nerzoo(folder.path(), &["zoo", "results", "--zoo", &zoo, "--check"]);
    assert!(
        error(&output).contains("differ from results"),
        "{}",
        error(&output)
    );
}

#[test]
fn hostile_and_damaged_folders_do_not_pass() {
    verify(copy().path()).unwrap();
    let check = |edit: &dyn Fn(&Path), expected: &str| {
        let folder = copy();
        edit(folder.path());
        let problem = verify(folder.path()).unwrap_err().to_string();
        assert!(problem.contains(expected), "no {expected:?} in: {problem}");
        // Nothing of it is loaded either.
        let path = folder.path().display().to_string();
        assert!(
            nerzoo::load(&path).is_err() || expected.contains("link"),
            "{expected}"
        );
    };
    check(
        &|folder| {
            edit_manifest(folder, |manifest| {
                manifest
                    .as_object_mut()
                    .unwrap()
                    .remove("model.safetensors");
            })
        },
        "does not list model.safetensors",
    );
    let hash = "0".repeat(64);
    for name in ["../secret", "/etc/passwd", "a/../../b"] {
        check(
            &|folder| edit_manifest(folder, |manifest| manifest[name] = json!(hash)),
            "not one of this folder",
        );
    }
    check(
        &|folder| edit_manifest(folder, |manifest| manifest["none.txt"] = json!(hash)),
        "missing",
    );
    check(
        &|folder| fs::write(folder.join("tokenizer.json"), "{}").unwrap(),
        "the manifest says",
    );
    check(
        &|folder| {
            let path = folder.join("model.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        },
        "sha256 differs",
    );
    // A header that claims 10 GB, with a manifest that fits.
    check(
        &|folder| {
            let path = folder.join("model.safetensors");
            let mut bytes = fs::read(&path).unwrap();
            bytes[..8].copy_from_slice(&10_000_000_000u64.to_le_bytes());
            edit_manifest(folder, |manifest| {
                manifest["model.safetensors"] = json!(sha256(&bytes))
            });
            fs::write(path, bytes).unwrap();
        },
        "claims 10000000000 bytes",
    );
    // Sizes that would need far more memory than the weights have.
    for (key, value) in [
        ("vocabulary", 1u64 << 40),
        ("layers", 1 << 40),
        ("feed_forward", 1 << 50),
        ("heads", 0),
        ("layers", 3),
    ] {
        check(
            &|folder| {
                let path = folder.join("config.json");
                let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                config["encoder"]["transformer"][key] = json!(value);
                let text = config.to_string();
                edit_manifest(folder, |manifest| {
                    manifest["config.json"] = json!(sha256(text.as_bytes()))
                });
                fs::write(path, text).unwrap();
            },
            if key == "layers" && value == 3 {
                "do not fit"
            } else {
                key
            },
        );
    }
    #[cfg(unix)]
    check(
        &|folder| {
            let outside = folder.with_extension("outside");
            fs::rename(folder.join("tokenizer.json"), &outside).unwrap();
            std::os::unix::fs::symlink(outside, folder.join("tokenizer.json")).unwrap();
        },
        "link to a file outside",
    );
    let edited = copy();
    fs::write(edited.path().join("README.md"), "mine").unwrap();
    assert!(verify(edited.path()).unwrap().card_is_edited);
    let path = edited.path().display().to_string();
    let output = nerzoo(published(), &["zoo", "verify", &path]);
    assert!(
        !output.status.success() && error(&output).contains("the card was edited"),
        "{}",
        error(&output)
    );
}

#[test]
fn a_wrong_score_is_noticed() {
    let folder = copy();
    let path = folder.path().join("README.md");
    let card = fs::read_to_string(&path).unwrap();
    let start = card.find("{type: f1, value: ").unwrap();
    let end = start + card[start..].find('}').unwrap();
    let card = format!(
        "{}{{type: f1, value: 0.9999{}",
        &card[..start],
        &card[end..]
    );
    edit_manifest(folder.path(), |manifest| {
        manifest["README.md"] = json!(sha256(card.as_bytes()))
    });
    fs::write(path, card).unwrap();
    let path = folder.path().display().to_string();
    printed(&nerzoo(published(), &["zoo", "verify", &path]));
    let output = nerzoo(published(), &["zoo", "verify", &path, "--score"]);
    assert!(!output.status.success());
    assert!(
        error(&output).contains("the model card says 99.99"),
        "{}",
        error(&output)
    );
}

#[test]
fn models_are_fetched_from_the_hub_a_folder_and_an_address() {
    let setup = Setup::new(&contents(&model()));
    let fetched = setup.pull("hf:owner/model").unwrap();
    assert_eq!(fetched, setup.zoo.cache.join("models/model"));
    verify(&fetched).unwrap();
    let record: Value =
        serde_json::from_slice(&fs::read(fetched.join("source.json")).unwrap()).unwrap();
    assert_eq!(
        record,
        json!({"source": "hf:owner/model@main", "commit": COMMIT})
    );
    assert_eq!(setup.zoo.find("model").unwrap(), fetched);
    // By its source it is found in the cache, without a request.
    setup.server.seen();
    assert_eq!(setup.zoo.find("hf:owner/model").unwrap(), fetched);
    assert!(setup.server.seen().is_empty());
    // Another source needs another name.
    let problem = setup
        .pull(&setup.address().replace("/main", "/v1/model"))
        .unwrap_err()
        .to_string();
    assert!(problem.contains("--name"), "{problem}");

    let address = setup.address();
    let by_address = setup.zoo.find(&address).unwrap();
    verify(&by_address).unwrap();
    setup.server.seen();
    assert_eq!(setup.zoo.find(&address).unwrap(), by_address);
    assert!(setup.server.seen().is_empty());
    let from_folder = setup.pull(model().to_str().unwrap()).unwrap();
    assert_eq!(from_folder, setup.zoo.cache.join("models/tiny"));
    verify(&from_folder).unwrap();
    assert_eq!(setup.zoo.models().len(), 3);
    let hidden = (setup.zoo.cache.join("models").read_dir().unwrap()).filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with('.')
    });
    assert_eq!(hidden.count(), 0, "nothing is left over");
}

/// The model as a tar file in a folder of its own.
fn archive(change: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all("tiny", model()).unwrap();
    change(&mut builder);
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn archives_are_fetched_and_hostile_ones_refused() {
    let link = archive(|builder| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder
            .append_link(&mut header, "tiny/x", "/etc/passwd")
            .unwrap();
    });
    let good = archive(|_| {});
    let zstd =
        ruzstd::encoding::compress_to_vec(&good[..], ruzstd::encoding::CompressionLevel::Fastest);
    let cut = gzip(&good);
    let cut = cut[..cut.len() / 2].to_vec();
    let setup = Setup::new(&[
        ("good.tar.gz", gzip(&good)),
        ("good.tar.zst", zstd),
        ("link.tar.gz", gzip(&link)),
        ("cut.tar.gz", cut),
        ("none.tar.gz", b"not an archive".to_vec()),
    ]);
    let address = |name: &str| format!("{}/{name}", setup.address());
    setup.fails(&address("link.tar.gz"), &["is a link"]);
    setup.fails(&address("cut.tar.gz"), &["cut, damaged"]);
    setup.fails(&address("none.tar.gz"), &["cut, damaged"]);
    setup
        .server
        .fail("HEAD", "good.tar.gz", 1, Fault::Size(10_000_000_000));
    setup.fails(
        &address("good.tar.gz"),
        &["10000000000 bytes", "--max-size"],
    );
    let folder = setup.pull(&address("good.tar.gz")).unwrap();
    assert_eq!(folder, setup.zoo.cache.join("models/good"));
    verify(&folder).unwrap();
    let again = setup.zoo.find(&address("good.tar.zst")).unwrap();
    assert_ne!(again, folder);
    verify(&again).unwrap();
}

#[test]
fn faults_of_servers_leave_nothing_half_installed() {
    let setup = Setup::new(&contents(&model()));
    let address = setup.address();
    for source in ["hf:owner/model", &address] {
        // Cut in the middle more often than is tried, then continued.
        setup
            .server
            .fail("GET", "/lfs/model.safetensors", 3, Fault::CutAfter(5000));
        setup.fails(source, &["ended early"]);
        setup.server.heal();
        setup.server.seen();
        let folder = setup.pull(source).unwrap();
        verify(&folder).unwrap();
        let transfers: Vec<_> = (setup.server.seen().into_iter())
            .filter(|seen| seen.is_storage && seen.path.contains("model.safetensors"))
            .collect();
        assert!(
            transfers.iter().any(|seen| seen.range.is_some()),
            "not resumed: {transfers:?}"
        );
        fs::remove_dir_all(&setup.zoo.cache).unwrap();
        let _ = fs::remove_dir_all(setup.folder.path().join("hub"));

        setup
            .server
            .fail("GET", "model.safetensors", 9, Fault::Corrupt);
        setup.fails(source, &["wrong hash", "model.safetensors"]);
        setup.server.heal();
        setup
            .server
            .fail("GET", "", 9, Fault::Status(401, "RepoNotFound"));
        setup.fails(source, &["401", "HF_TOKEN"]);
        setup.server.heal();
        setup.server.fail("GET", "", 20, Fault::Status(503, ""));
        setup.fails(source, &["503"]);
        setup.server.heal();
    }
    setup.fails("hf:owner/none", &["401"]);
    setup.fails("hf:owner/model@v9", &["404"]);
    let offline = Setup {
        zoo: Zoo {
            hub: setup.zoo.hub.clone().offline(),
            ..setup.zoo.clone()
        },
        ..setup
    };
    offline.server.seen();
    offline.fails("hf:owner/model", &["--offline"]);
    offline.fails(&address, &["--offline"]);
    assert!(offline.server.seen().is_empty());
}

/// A change of a manifest, and a part of the error it leads to.
type Edit<'a> = (&'a dyn Fn(&mut Value), &'a str);

#[test]
fn hostile_manifests_of_servers_are_refused_before_anything_is_downloaded() {
    let hash = "0".repeat(64);
    let edits: [Edit; 6] = [
        (
            &|manifest| manifest["../x"] = json!(hash),
            "not one of this folder",
        ),
        (
            &|manifest| manifest["/etc/x"] = json!(hash),
            "not one of this folder",
        ),
        (
            &|manifest| {
                manifest
                    .as_object_mut()
                    .unwrap()
                    .remove("model.safetensors");
            },
            "does not list model.safetensors",
        ),
        (
            &|manifest| manifest["model.safetensors"]["size"] = json!(10_000_000_000u64),
            "10000000000 bytes",
        ),
        (
            &|manifest| manifest["config.json"]["size"] = json!(1_000_000_000u64),
            "1000000000 bytes",
        ),
        (&|manifest| *manifest = json!([1]), "not a manifest"),
    ];
    for (edit, expected) in edits {
        let folder = copy();
        edit_manifest(folder.path(), edit);
        let setup = Setup::new(&contents(folder.path()));
        for source in ["hf:owner/model", &setup.address()] {
            setup.server.seen();
            setup.fails(source, &[expected]);
            let weights =
                |seen: &loopback::Seen| seen.method == "GET" && seen.path.contains("safetensors");
            assert!(!setup.server.seen().iter().any(weights), "{expected}");
        }
    }
    // The hub agrees with itself, but not with the manifest.
    for (name, content) in [
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", vec![7; 5000]),
    ] {
        let folder = copy();
        fs::write(folder.path().join(name), content).unwrap();
        let setup = Setup::new(&contents(folder.path()));
        setup.fails("hf:owner/model", &[name, "manifest"]);
        setup.fails(&setup.address(), &[name]);
    }
    // Sizes that only the hub claims.
    let setup = Setup::new(&contents(&model()));
    setup
        .server
        .fail("HEAD", "model.safetensors", 1, Fault::Size(10_000_000_000));
    setup.fails("hf:owner/model", &["10.0 GB"]);
}

#[test]
fn what_was_pushed_can_be_pulled_and_verifies() {
    let setup = Setup::new(&[]).with_token();
    let pushed = setup.push("owner/tiny").unwrap();
    assert!(pushed.is_new);
    let files = setup.server.uploaded("owner/tiny").unwrap();
    assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), FILES);
    let folder = setup.pull("hf:owner/tiny").unwrap();
    let verified = verify(&folder).unwrap();
    assert!(!verified.card_is_edited);
    for name in FILES {
        assert!(
            fs::read(folder.join(name)).unwrap() == fs::read(model().join(name)).unwrap(),
            "{name}"
        );
    }
    let record: Value =
        serde_json::from_slice(&fs::read(folder.join("source.json")).unwrap()).unwrap();
    assert_eq!(record["commit"], pushed.commit);
    // The weights were sent in parts; again, they are there already.
    let parts = |setup: &Setup| {
        setup
            .server
            .seen()
            .iter()
            .filter(|seen| seen.method == "PUT")
            .count()
    };
    assert!(parts(&setup) > 1);
    let again = setup.push("owner/tiny").unwrap();
    assert!(!again.is_new);
    assert_eq!(parts(&setup), 0);

    // A card that was edited on the hub's page does not stop the model.
    setup.server.change("owner/tiny", "README.md", b"# Mine\n");
    let folder = setup.pull("hf:owner/tiny").unwrap();
    assert!(verify(&folder).unwrap().card_is_edited);
    let index = setup.zoo.hub_index(&"owner/tiny".parse().unwrap()).unwrap();
    assert_eq!(index.models[0].name, "tiny");
    assert_eq!(index.models[0].head, "seq_ner");
    // Other weights do; the installed model stays.
    setup
        .server
        .change("owner/tiny", "model.safetensors", &[1; 3000]);
    assert!(setup.pull("hf:owner/tiny").is_err());
    assert!(verify(&folder).is_ok());
}

#[test]
fn uploads_that_fail_commit_nothing() {
    let setup = Setup::new(&[]);
    let problem = |setup: &Setup, to: &str| {
        let problem = setup.push(to).unwrap_err().chain();
        for secret in [TOKEN, "signed-secret"] {
            assert!(!problem.contains(secret), "{problem}");
        }
        assert!(
            setup
                .server
                .uploaded(to)
                .is_none_or(|files| files.is_empty()),
            "{problem}"
        );
        problem
    };
    assert!(problem(&setup, "owner/tiny").contains("set HF_TOKEN"));
    assert!(setup.server.seen().is_empty());
    let wrong = Setup {
        zoo: Zoo {
            hub: Hub {
                token: Token::new("hf_wrong"),
                ..setup.zoo.hub.clone()
            },
            ..setup.zoo.clone()
        },
        ..setup
    };
    let text = problem(&wrong, "owner/tiny");
    assert!(
        text.contains("401") && text.contains("permission to write"),
        "{text}"
    );
    let setup = wrong.with_token();
    assert!(problem(&setup, "forbidden/tiny").contains("may not write there"));
    for (method, path) in [
        ("POST", "preupload"),
        ("POST", "batch"),
        ("PUT", "upload"),
        ("POST", "commit"),
    ] {
        setup.server.fail(method, path, 20, Fault::Status(500, ""));
        assert!(problem(&setup, "owner/tiny").contains("500"), "{path}");
        setup.server.heal();
    }
    let setup = Setup::new(&[]).with_token();
    (setup.server).fail("PUT", "upload", 20, Fault::CutAfter(100));
    problem(&setup, "owner/tiny");
    setup.server.heal();
    let offline = Setup {
        zoo: Zoo {
            hub: setup.zoo.hub.clone().offline(),
            ..setup.zoo.clone()
        },
        ..setup
    };
    assert!(problem(&offline, "owner/tiny").contains("--offline"));
    // One cut is tried again.
    let setup = Setup::new(&[]).with_token();
    setup.server.fail("PUT", "upload", 1, Fault::CutAfter(100));
    setup.push("owner/tiny").unwrap();
    verify(&setup.pull("hf:owner/tiny").unwrap()).unwrap();
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = LoopbackHub::start(&[]);
    let output = command(
        published(),
        &["zoo", "push", "tiny", "hf:owner/tiny", "--dry-run"],
    )
    .env("HF_ENDPOINT", &server.address)
    .env("HF_HUB_OFFLINE", "0")
    .output()
    .unwrap();
    let text = printed(&output);
    for name in FILES {
        assert!(text.contains(name), "{text}");
    }
    assert!(server.seen().is_empty());
    let problem = error(&nerzoo(published(), &["zoo", "push", "tiny", "owner/tiny"]));
    assert!(problem.contains("hf:OWNER/NAME"), "{problem}");
}
