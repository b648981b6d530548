//! A run that is killed again and again ends in the same bits as one that is left alone.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nerzoo::files::sha256;

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

fn start(recipe: &Path, out: &Path, resume: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerzoo"));
    command
        .arg("train")
        .arg(recipe)
        .arg("--out")
        .arg(out)
        .args(["--device", "cpu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    if resume {
        command.arg("--resume");
    }
    command.spawn().unwrap()
}

fn weights(out: &Path) -> String {
    sha256(&out.join("model.safetensors")).unwrap()
}

#[test]
fn ten_kills_change_nothing() {
    kills(RECIPE, 10);
}

/// Random negatives, two heads, word dropout and patience must come back as they were too.
#[test]
fn kills_do_not_change_a_bundle() {
    let bundle = RECIPE.replace(
        "name = \"seq_ner\"\ndecoder = \"crf\"\n",
        "name = \"bl_ner\"\n[head.seq]\nword_dropout = 0.1\n[head.span]\nlongest = 6\nnegatives = 5\n",
    );
    assert_ne!(bundle, RECIPE);
    kills(&bundle.replace("epochs = 5", "epochs = 5\npatience = 2"), 4);
}

/// Trains once undisturbed and once killed so many times, and compares the weights.
fn kills(recipe_text: &str, wanted: usize) {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    std::fs::write(&recipe, recipe_text).unwrap();
    let whole = folder.path().join("whole");
    assert!(start(&recipe, &whole, false).wait().unwrap().success());

    let broken = folder.path().join("broken");
    let mut kills = 0;
    let mut resumes = 0;
    // Moments spread over start-up, training and saving; which step each hits differs from run to run.
    let mut moment = std::process::id() as u64 % 97;
    while kills < wanted {
        let mut child = start(&recipe, &broken, broken.join("recipe.toml").exists());
        resumes += 1;
        assert!(resumes < 60, "the run does not get anywhere");
        moment = (moment * 31 + 17) % 97;
        std::thread::sleep(Duration::from_millis(250 + 5 * moment));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            // Done before enough kills: begin again, for they are the point.
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
}

#[cfg(unix)]
#[test]
fn a_polite_stop_saves_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = folder.path().join("recipe.toml");
    // Only the checkpoint that the stop itself writes can bring the run this far.
    let text = RECIPE.replace("checkpoint_minutes = 0", "checkpoint_minutes = 1000");
    std::fs::write(&recipe, text).unwrap();
    let whole = folder.path().join("whole");
    assert!(start(&recipe, &whole, false).wait().unwrap().success());

    let stopped = folder.path().join("stopped");
    let mut child = start(&recipe, &stopped, false);
    std::thread::sleep(Duration::from_millis(600));
    let asked = Command::new("kill")
        .arg("-TERM")
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(asked.success());
    let status = child.wait().unwrap();
    if !status.success() {
        assert_eq!(status.code(), Some(130));
        assert!(start(&recipe, &stopped, true).wait().unwrap().success());
    }
    assert_eq!(weights(&whole), weights(&stopped));
}
