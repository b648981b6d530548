//! nerzoo as a library: builds a program outside the workspace that depends on it without default features, adds a head of
//! its own to the registry and tags a text.
//!
//! Building Burn without the features of the program takes minutes, so this test runs only when asked:
//! `cargo test --release --test dependent -- --ignored`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Packages that only the program needs; the library must not depend on them.
const UNWANTED: &[&str] = &[
    "anyhow",
    "axum",
    "clap",
    "criterion",
    "crossterm",
    "ctrlc",
    "indicatif",
    "ratatui",
    "tracing-subscriber",
];

#[test]
#[ignore = "builds Burn again, which takes minutes"]
fn a_program_outside_the_workspace_adds_a_head_and_tags() {
    let folder = copy_of_the_program();
    let tree = cargo(
        folder.path(),
        &["tree", "--edges", "normal", "--prefix", "none"],
    );
    let packages: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        packages.contains(&"nerzoo") && packages.contains(&"burn-flex"),
        "{tree}"
    );
    let unwanted: Vec<&&str> = UNWANTED
        .iter()
        .filter(|name| packages.contains(name))
        .collect();
    assert!(
        unwanted.is_empty(),
        "the library depends on {unwanted:?}:\n{tree}"
    );

    let model = folder.path().join("model");
    let text = "Marta  Keller visited Zürich.";
    let printed = cargo(
        folder.path(),
        &["run", "--quiet", "--", model.to_str().unwrap(), text],
    );
    let mentions: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(mentions.as_array().unwrap().len(), 1, "{printed}");
    let mention = &mentions[0];
    assert_eq!(
        (&mention["label"], &mention["text"]),
        (&"PERSON".into(), &text.into())
    );
    assert_eq!(
        (&mention["start"], &mention["end"]),
        (&0.into(), &text.chars().count().into())
    );
    assert!(
        (mention["score"].as_f64().unwrap() - 0.75).abs() < 1e-6,
        "{printed}"
    );
}

/// The program in a temporary folder, with the versions of this workspace's lock file.
fn copy_of_the_program() -> tempfile::TempDir {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = workspace.join("tests/fixtures/dependent");
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: PathBuf, to: &str| fs::copy(from, folder.path().join(to)).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    copy(program.join("src/main.rs"), "src/main.rs");
    copy(workspace.join("Cargo.lock"), "Cargo.lock");
    let manifest = fs::read_to_string(program.join("Cargo.toml")).unwrap();
    let absolute = manifest.replace(
        "\"../../..\"",
        &format!("{:?}", workspace.to_str().unwrap()),
    );
    assert_ne!(
        manifest, absolute,
        "the program's Cargo.toml names nerzoo by a path of another form"
    );
    fs::write(folder.path().join("Cargo.toml"), absolute).unwrap();
    folder
}

/// The standard output of cargo in a folder. What it builds is kept in `target/dependent` of this workspace.
fn cargo(folder: &Path, arguments: &[&str]) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("dependent");
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO"))
        .args([arguments[0], "--offline"])
        .args(&arguments[1..])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = String::from_utf8(stdout).unwrap();
    assert!(
        status.success(),
        "cargo {arguments:?}:\n{}{printed}",
        String::from_utf8_lossy(&stderr)
    );
    printed
}
