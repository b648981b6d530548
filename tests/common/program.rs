//! Runs the program `nerzoo`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The recipe of a small model that trains in a second.
pub const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 160

[encoder.scratch]
vocabulary = 300
layers = 1
width = 32
heads = 2
feed_forward = 64

[head]
name = "seq_ner"

[train]
epochs = 2
batch = 8
learning_rate = 2e-3
"#;

/// Runs the program without input.
pub fn nerzoo(arguments: &[&str]) -> Output {
    nerzoo_with_input(arguments, b"")
}

/// Runs the program with this text on standard input.
pub fn nerzoo_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nerzoo"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("NERZOO_DATA")
        .env_remove("NERZOO_ENCODERS")
        .env("HF_HUB_OFFLINE", "1")
        .env_remove("NERZOO_DEVICE")
        .env_remove("RUST_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The output of a command that has to succeed.
pub fn succeeds(arguments: &[&str]) -> Output {
    let output = nerzoo(arguments);
    let error = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?} failed:\n{error}");
    output
}

/// The JSON that a command prints.
pub fn json(arguments: &[&str]) -> Value {
    let output = succeeds(arguments);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|problem| panic!("{arguments:?}: {problem}\n{}", text(&output.stdout)))
}

/// Runs a command that has to fail without a panic and with an error that contains these parts.
pub fn fails(arguments: &[&str], parts: &[&str]) {
    assert!(!parts.is_empty(), "a test has to name a part of the error");
    let output = nerzoo(arguments);
    let error = text(&output.stderr);
    assert!(!output.status.success(), "{arguments:?} did not fail");
    assert!(!error.contains("panicked"), "{error}");
    for part in parts {
        assert!(
            error.contains(part),
            "the error of {arguments:?} should contain {part:?}:\n{error}"
        );
    }
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a file into a folder and returns its path.
pub fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// Trains [`RECIPE`] with these settings into a folder and returns its path. Scores are printed.
pub fn trained(folder: &Path, sets: &[&str]) -> String {
    let recipe = write(folder, "recipe.toml", RECIPE.as_bytes());
    let out = folder.join("run").display().to_string();
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let output = succeeds(&[&["train", &recipe, "--out", &out][..], &sets].concat());
    let printed = text(&output.stdout);
    assert!(printed.contains("micro"), "no scores in:\n{printed}");
    out
}
