//! An encoder by name through the command line: downloaded from a hub on this machine, then used without it, and its commit
//! saved with the model.

#![cfg(feature = "cli")]

#[path = "common/hub.rs"]
#[allow(dead_code)]
mod loopback;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use loopback::{COMMIT, LoopbackHub};
use serde_json::Value;

const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 40

[encoder]
pretrained = "owner/model"

[head]
name = "seq_ner"

[train]
epochs = 1
batch = 8
"#;

/// A hub with a tiny encoder.
fn hub() -> LoopbackHub {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders/bert-task");
    let names = ["config.json", "tokenizer.json", "model.safetensors"];
    LoopbackHub::start(&names.map(|name| (name, fs::read(folder.join(name)).unwrap())))
}

/// Runs the program with this hub, and a cache in the folder.
fn nerzoo(hub: &LoopbackHub, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerzoo"));
    for variable in [
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
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
        .env("HF_ENDPOINT", &hub.address)
        .env("HF_HOME", folder.join("home"))
        .env("HF_HUB_CACHE", folder.join("cache"))
        .output()
        .unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn training_downloads_an_encoder_and_records_its_commit() {
    let hub = hub();
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml").display().to_string();
    fs::write(&recipe, RECIPE).unwrap();
    let train = |name: &str, more: &[&str]| {
        let out = folder.path().join(name).display().to_string();
        let arguments = [&["train", &recipe, "--out", &out][..], more].concat();
        nerzoo(&hub, folder.path(), &arguments)
    };
    let output = train("offline", &["--offline"]);
    let problem = error(&output);
    assert!(!output.status.success());
    for part in ["owner/model", "not in the cache", "--offline"] {
        assert!(problem.contains(part), "{problem}");
    }
    assert!(hub.seen().is_empty());

    let output = train("first", &[]);
    let printed = error(&output);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("downloading owner/model"), "{printed}");
    let run = folder.path().join("first");
    let config = fs::read_to_string(run.join("config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["encoder_origin"]["repository"], "owner/model");
    assert_eq!(config["encoder_origin"]["commit"], COMMIT);
    let card = fs::read_to_string(run.join("README.md")).unwrap();
    assert!(card.contains("base_model: \"owner/model\""), "{card}");
    assert!(
        card.contains(&format!("owner/model, commit {COMMIT}")),
        "{card}"
    );

    hub.seen();
    let output = train("second", &["--offline"]);
    assert!(output.status.success(), "{}", error(&output));
    assert!(hub.seen().is_empty());
    let weights =
        |name: &str| fs::read(folder.path().join(name).join("model.safetensors")).unwrap();
    assert!(weights("first") == weights("second"));
}

#[test]
fn missing_names_are_explained() {
    let hub = hub();
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml").display().to_string();
    fs::write(&recipe, RECIPE).unwrap();
    for (name, parts) in [
        ("owner/none", ["401", "HF_TOKEN"]),
        ("owner/gated", ["403", "accept its conditions"]),
        ("owner/model@v9", ["404", "no such branch, tag or commit"]),
        (
            "no/such/folder",
            ["no such folder with a config.json", "NERZOO_ENCODERS"],
        ),
    ] {
        let set = format!("encoder.pretrained={name}");
        let out = folder.path().join("out").display().to_string();
        let arguments = ["train", &recipe, "--set", &set, "--out", &out];
        let output = nerzoo(&hub, folder.path(), &arguments);
        let problem = error(&output);
        assert!(!output.status.success(), "{name}");
        for part in parts {
            assert!(problem.contains(part), "no {part:?} in: {problem}");
        }
        assert!(!Path::new(&out).exists());
    }
}
