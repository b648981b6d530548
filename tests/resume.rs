//! A run that is killed and resumed many times ends with the same weights, bit for bit, as one that is not interrupted.

#![cfg(feature = "cli")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nerzoo::files::sha256;
use tempfile::TempDir;

const RECIPE: &str = r#"
[data]
corpus = "quickstart"
limit = 240

[encoder.scratch]
vocabulary = 300
layers = 2
width = 32
heads = 2
feed_forward = 64

[head]
name = "seq_ner"
decoder = "crf"

[train]
epochs = 5
batch = 8
accumulate = 2
learning_rate = 2e-3
freeze_encoder = 1
checkpoint_minutes = 0
"#;

fn command(recipe: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerzoo"));
    command
        .arg("train")
        .arg(recipe)
        .arg("--out")
        .arg(out)
        .args(["--device", "cpu", "--plain"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit());
    command
}

fn start(recipe: &Path, out: &Path, resume: bool) -> Child {
    let mut command = command(recipe, out);
    command.stdout(Stdio::null());
    if resume {
        command.arg("--resume");
    }
    command.spawn().unwrap()
}

/// Hashes of the weights and of the configuration, which has the chosen decoding settings and the calibration.
fn weights(out: &Path) -> [String; 2] {
    ["model.safetensors", "config.json"].map(|name| sha256(&out.join(name)).unwrap())
}

#[test]
fn ten_kills_do_not_change_the_weights() {
    assert_kills_change_nothing(RECIPE, 10);
}

/// Random negatives, two heads, word dropout and patience are restored too. The span model starts with a bias under which it
/// finds little, so that another one is chosen on dev.
#[test]
fn kills_do_not_change_the_weights_of_a_bundle() {
    let bundle = RECIPE.replace(
        "name = \"seq_ner\"\ndecoder = \"crf\"\n",
        "name = \"bl_ner\"\n[head.seq]\nword_dropout = 0.1\n[head.span]\nlongest = 6\nnegatives = 5\nnone_bias = 3.0\n",
    );
    assert_ne!(bundle, RECIPE);
    let bundle = bundle.replace("epochs = 5", "epochs = 5\npatience = 2");
    let folder = assert_kills_change_nothing(&bundle, 4);
    let [whole, broken] = ["whole", "broken"].map(|name| metrics(&folder.path().join(name)));
    assert_eq!(whole["tuning"]["changes"][0]["setting"], "span.none_bias");
    assert_eq!(whole["tuning"], broken["tuning"]);
    assert_eq!(whole["calibration"], broken["calibration"]);
}

fn metrics(out: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(out.join("metrics.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Averaged weights and the learning rates of layers are restored too. Without dev sentences, for which nine sentences are
/// too few, the average always becomes the model.
#[test]
fn kills_do_not_change_averaged_weights() {
    let averaged = RECIPE
        .replace(
            "corpus = \"quickstart\"\nlimit = 240",
            "train = [\"datasets/quickstart/train.jsonl\"]\nlimit = 9",
        )
        .replace("accumulate = 2", "average = 3\nlayer_decay = 0.9")
        .replace("epochs = 5", "epochs = 40");
    let folder = assert_kills_change_nothing(&averaged, 4);
    let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
    let average = |out: &Path| metrics(out)["average"].clone();
    assert_eq!(average(&whole)["epochs"], serde_json::json!([38, 39, 40]));
    assert_eq!(average(&whole)["chosen"], "average");
    assert_eq!(average(&whole), average(&broken));
    // Killed after training, before the model is written: the average is computed again.
    std::fs::remove_file(broken.join("model.safetensors")).unwrap();
    let recipe = folder.path().join("recipe.toml");
    assert!(start(&recipe, &broken, true).wait().unwrap().success());
    assert_eq!(weights(&whole), weights(&broken));
}

/// Trains once without interruption and once with so many kills, and compares the weights. Returns the folder with the
/// recipe and the runs `whole` and `broken`.
fn assert_kills_change_nothing(recipe_text: &str, wanted: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    std::fs::write(&recipe, recipe_text).unwrap();
    let whole = folder.path().join("whole");
    assert!(start(&recipe, &whole, false).wait().unwrap().success());

    let broken = folder.path().join("broken");
    let mut kills = 0;
    let mut resumes = 0;
    // Kills during start-up, training and saving; at which step differs from run to run.
    let mut moment = std::process::id() as u64 % 97;
    while kills < wanted {
        let mut child = start(&recipe, &broken, broken.join("recipe.toml").exists());
        resumes += 1;
        assert!(resumes < 60, "the run makes no progress");
        moment = (moment * 31 + 17) % 97;
        std::thread::sleep(Duration::from_millis(250 + 5 * moment));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            // Finished before enough kills: start again.
            assert_eq!(weights(&whole), weights(&broken), "after {kills} kills");
            std::fs::remove_dir_all(&broken).unwrap();
            continue;
        }
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        kills += 1;
    }
    let last = start(&recipe, &broken, broken.join("recipe.toml").exists())
        .wait()
        .unwrap();
    assert!(last.success());
    assert_eq!(weights(&whole), weights(&broken), "after {kills} kills");
    folder
}

/// A run that is asked to stop writes a checkpoint and ends with exit code 130.
#[cfg(unix)]
#[test]
fn a_termination_signal_saves_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    // Without other checkpoints inside an epoch than the one that the signal causes.
    let text = RECIPE.replace(
        "checkpoint_minutes = 0",
        "checkpoint_minutes = 1000\nreport_seconds = 0.0",
    );
    std::fs::write(&recipe, text).unwrap();
    let whole = folder.path().join("whole");
    assert!(start(&recipe, &whole, false).wait().unwrap().success());

    let stopped = folder.path().join("stopped");
    let mut child = command(&recipe, &stopped)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let seen = lines.find(|line| line.starts_with("epoch 2/5"));
    assert!(seen.is_some(), "the second epoch was not reached");
    let kill = Command::new("kill")
        .arg("-TERM")
        .arg(child.id().to_string())
        .status();
    assert!(kill.unwrap().success());
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!stopped.join("model.safetensors").exists());
    assert!(start(&recipe, &stopped, true).wait().unwrap().success());
    assert_eq!(weights(&whole), weights(&stopped));
}
