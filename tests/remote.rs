//! Two workers on this machine: training on them gives the scores of training on one device, a wrong token is refused, and
//! a run can be resumed after a worker died.

#![cfg(all(feature = "remote", feature = "cli"))]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A worker process; it ends with the test.
struct Worker {
    process: Child,
    address: String,
}

impl Worker {
    fn start(token: &Path, listen: &str) -> Self {
        let log = token.with_file_name("workers.log");
        let log = OpenOptions::new().append(true).create(true).open(log);
        let mut process = nerzoo()
            .args(["worker", "--device", "cpu", "--listen", listen])
            .arg("--token-file")
            .arg(token)
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.split_whitespace().find(|word| word.contains("127."));
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        let address = address.trim_end_matches(';').to_string();
        Self { process, address }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn nerzoo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nerzoo"));
    command
        .env_remove("NERZOO_DEVICE")
        .env_remove("NERZOO_TOKEN_FILE");
    command
}

/// A folder with a token and a recipe of a model that trains in a few seconds.
struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        std::fs::write(workspace.token(), "a word of the test\n").unwrap();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/quickstart");
        let recipe = format!(
            r#"
            [data]
            train = ["{0}/train.jsonl"]
            dev = ["{0}/dev.jsonl"]
            limit = 160
            [encoder.scratch]
            vocabulary = 300
            layers = 1
            width = 32
            heads = 2
            feed_forward = 64
            dropout = 0.0
            [head]
            name = "span_ner"
            longest = 6
            dropout = 0.0
            [train]
            epochs = 6
            batch = 8
            learning_rate = 5e-3
            accumulate = 2
            # The same batches on every device.
            shapes = "exact"
            report_seconds = 0.0
            "#,
            data.display()
        );
        std::fs::write(workspace.at("recipe.toml"), recipe).unwrap();
        workspace
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn token(&self) -> PathBuf {
        self.at("token")
    }

    fn command(&self, device: &str, out: &str) -> Command {
        let mut command = nerzoo();
        command
            .arg("train")
            .arg(self.at("recipe.toml"))
            .args(["--device", device, "--plain", "--out"])
            .arg(self.at(out))
            .arg("--token-file")
            .arg(self.token());
        command
    }

    fn train(&self, device: &str, out: &str, more: &[&str]) -> Output {
        self.command(device, out).args(more).output().unwrap()
    }

    fn dev_f1(&self, out: &str) -> f64 {
        let text = std::fs::read_to_string(self.at(out).join("metrics.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["curves"]
            .as_array()
            .and_then(|points| points.last()?["dev_f1"].as_f64())
            .unwrap_or_else(|| panic!("no F1 in {text}"))
    }
}

fn output_text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .join("\n")
}

#[test]
fn two_workers_train_like_one_device() {
    let workspace = Workspace::new();
    let workers = [0, 1].map(|_| Worker::start(&workspace.token(), "127.0.0.1:0"));
    let names = workers
        .each_ref()
        .map(|worker| format!("remote:{}", worker.address));
    let far = workspace.train(&names.join(","), "far", &[]);
    assert!(far.status.success(), "{}", output_text(&far));
    let near = workspace.train("cpu", "near", &[]);
    assert!(near.status.success(), "{}", output_text(&near));
    let (far, near) = (workspace.dev_f1("far"), workspace.dev_f1("near"));
    println!("dev F1 {far} on two workers, {near} here");
    assert!(near > 0.3, "the model learned nothing: {near}");
    assert!((far - near).abs() < 0.02, "{far} {near}");
    // The workers are connected to each other: the loss of one is logged by the other, without a panic.
    let [gone, _left] = workers;
    drop(gone);
    let log = || std::fs::read_to_string(workspace.at("workers.log")).unwrap();
    let closed = || log().contains("a connection was closed");
    assert!((0..100).any(|_| closed() || {
        std::thread::sleep(Duration::from_millis(100));
        false
    }));
    assert!(!log().contains("panicked"), "{}", log());
}

#[test]
fn a_wrong_token_is_refused() {
    let workspace = Workspace::new();
    let worker = Worker::start(&workspace.token(), "127.0.0.1:0");
    std::fs::write(workspace.token(), "another word\n").unwrap();
    let refused = workspace.train(&format!("remote:{}", worker.address), "run", &[]);
    assert!(!refused.status.success());
    let text = output_text(&refused);
    assert!(text.contains("--token-file"), "{text}");
    assert!(!workspace.at("run").exists(), "nothing was begun");
    std::fs::write(workspace.token(), "\n").unwrap();
    let refused = workspace.train(&format!("remote:{}", worker.address), "run", &[]);
    assert!(!refused.status.success());
}

#[test]
fn a_missing_worker_is_reported() {
    let workspace = Workspace::new();
    let refused = workspace.train("remote:127.0.0.1:1", "run", &[]);
    assert!(!refused.status.success());
    let text = output_text(&refused);
    assert!(text.contains("nerzoo worker"), "{text}");
}

#[test]
fn a_run_can_be_resumed_after_a_worker_died() {
    let workspace = Workspace::new();
    let mut workers = [0, 1].map(|_| Worker::start(&workspace.token(), "127.0.0.1:0"));
    let names = workers
        .each_ref()
        .map(|worker| format!("remote:{}", worker.address))
        .join(",");
    let mut run = workspace
        .command(&names, "run")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // During the third epoch.
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let seen = lines.find(|line| line.starts_with("epoch 3/6") && line.contains("batch"));
    assert!(seen.is_some(), "the third epoch was reached");
    workers[1].kill();
    let rest: Vec<String> = lines.collect();
    let output = run.wait_with_output().unwrap();
    let text = format!("{rest:?}\n{}", output_text(&output));
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("error: a device failed in epoch"), "{text}");
    assert!(text.contains("the checkpoint after step"), "{text}");
    assert!(text.contains("--resume"), "{text}");

    // The remaining worker would refuse a new one at the same address.
    workers[0].kill();
    let _workers = workers.map(|dead| Worker::start(&workspace.token(), &dead.address));
    let resumed = workspace.train(&names, "run", &["--resume"]);
    assert!(resumed.status.success(), "{}", output_text(&resumed));
    let near = workspace.train("cpu", "near", &[]);
    assert!(near.status.success());
    let (far, near) = (workspace.dev_f1("run"), workspace.dev_f1("near"));
    assert!((far - near).abs() < 0.02, "{far} {near}");
}
