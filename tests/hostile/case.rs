//! A case: a folder with hostile files in it, a command, and what has to happen.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The classes of the cases, by number from 1.
pub const CLASSES: [&str; 8] = [
    "sizes",
    "model folders",
    "names and paths",
    "silence",
    "streams",
    "markup",
    "runs and corpora",
    "full disks",
];

type Step = Arc<dyn Fn(&Path) + Send + Sync>;

/// What has to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The program succeeds.
    Success,
    /// The program fails with exit code 1 or, for arguments that cannot be parsed, 2.
    Refusal,
    /// Either of them: several values are tried of which some are valid.
    Either,
}

/// Where standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Into a file that is looked at.
    Kept,
    /// To `/dev/full`.
    Full,
    /// To a pipe that nobody reads.
    Closed,
}

/// One case.
#[derive(Clone)]
pub struct Case {
    pub class: usize,
    pub name: String,
    steps: Vec<Step>,
    /// Whether the manifest of the model is written again after the steps.
    pub sealed: bool,
    /// The command; `@` stands for the folder of the case, `%` for one of the values.
    pub arguments: Vec<String>,
    /// The values that are tried, one process each.
    pub values: Vec<String>,
    pub input: Vec<u8>,
    /// The name of a named pipe in the folder, and what is written into it.
    pub pipe: Option<(&'static str, Vec<u8>)>,
    pub output: Output,
    pub expected: Expected,
    /// Texts in standard output or standard error.
    pub parts: Vec<String>,
    /// Texts that must be in neither.
    pub absent: Vec<String>,
    /// Most CPU seconds in a release build, start-up included.
    pub seconds: f64,
    /// Most resident memory in megabytes.
    pub megabytes: u64,
    /// Largest file that may be written, in bytes.
    pub largest_file: Option<u64>,
    /// Kilobytes of a small disk at `@/disk`.
    pub disk: Option<u64>,
    /// Happens while the program runs.
    pub during: Option<Step>,
    /// Looks at the folder afterwards.
    pub after: Option<Step>,
}

/// A case that has to be refused, for now with any message.
pub fn case(class: usize, name: impl Into<String>, command: &str) -> Case {
    Case {
        class,
        name: name.into(),
        steps: Vec::new(),
        sealed: true,
        arguments: command.split(' ').map(String::from).collect(),
        values: vec![String::new()],
        input: Vec::new(),
        pipe: None,
        output: Output::Kept,
        expected: Expected::Refusal,
        parts: Vec::new(),
        absent: Vec::new(),
        seconds: 1.0,
        megabytes: 200,
        largest_file: None,
        disk: None,
        during: None,
        after: None,
    }
}

/// A case of tagging a sentence with a model folder.
pub fn model(name: impl Into<String>) -> Case {
    case(2, name, "predict --model @/model").input("Ada met Bo in Oslo.\n")
}

impl Case {
    /// Does something with the folder first.
    pub fn step(mut self, step: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        self.steps.push(Arc::new(step));
        self
    }

    /// Writes a file.
    pub fn file(self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        let content = content.into();
        self.step(move |folder| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content).unwrap();
        })
    }

    /// Sets a value of a JSON file, which is named by its keys separated by dots.
    pub fn json(self, name: &'static str, key: &str, value: Value) -> Self {
        let key = key.to_string();
        self.step(move |folder| edit_json(&folder.join(name), |json| set(json, &key, &value)))
    }

    /// Sets a value of the model's `config.json`.
    pub fn config(self, key: &str, value: Value) -> Self {
        self.json("model/config.json", key, value)
    }

    /// Sets a size of the model's transformer.
    pub fn encoder(self, key: &str, value: Value) -> Self {
        self.config(&format!("encoder.transformer.{key}"), value)
    }

    /// Sets a value of the model's `tokenizer.json`.
    pub fn tokenizer(self, key: &str, value: Value) -> Self {
        self.json("model/tokenizer.json", key, value)
    }

    /// Replaces the model's `manifest.json`, which is otherwise made to fit.
    pub fn manifest(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.sealed = false;
        self.step(move |folder| edit_json(&folder.join("model/manifest.json"), &change))
    }

    /// Changes the bytes of the model's weights.
    pub fn weights(self, change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) -> Self {
        self.bytes("model/model.safetensors", change)
    }

    /// Changes the bytes of a file.
    pub fn bytes(
        self,
        name: &'static str,
        change: impl Fn(&mut Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        self.step(move |folder| {
            let mut bytes = fs::read(folder.join(name)).unwrap();
            change(&mut bytes);
            fs::write(folder.join(name), bytes).unwrap();
        })
    }

    /// Changes the header of a safetensors file, as JSON.
    pub fn header(
        self,
        name: &'static str,
        change: impl Fn(&mut Value) + Send + Sync + 'static,
    ) -> Self {
        self.bytes(name, move |bytes| {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
            change(&mut header);
            let text = header.to_string();
            let new = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
            bytes.splice(..8 + length, new);
        })
    }

    /// Makes a named pipe without a writer in place of a file.
    pub fn fifo(self, name: &'static str) -> Self {
        self.step(move |folder| {
            let path = folder.join(name);
            let _ = fs::remove_file(&path);
            make_pipe(&path);
        })
    }

    /// Makes a folder in place of a file.
    pub fn folder(self, name: &'static str) -> Self {
        self.step(move |folder| {
            let path = folder.join(name);
            let _ = fs::remove_file(&path);
            fs::create_dir_all(path).unwrap();
        })
    }

    /// Makes a symbolic link in place of a file.
    pub fn link(self, name: &'static str, target: &'static str) -> Self {
        self.step(move |folder| {
            let path = folder.join(name);
            let _ = fs::remove_file(&path);
            std::os::unix::fs::symlink(target.replace('@', folder.to_str().unwrap()), path)
                .unwrap();
        })
    }

    /// Leaves the manifest as it is.
    pub fn unsealed(mut self) -> Self {
        self.sealed = false;
        self
    }

    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Has a process write into a named pipe in the folder.
    pub fn pipe(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.pipe = Some((name, content.into()));
        self
    }

    /// Tries each of these values in place of `%`.
    pub fn values<S: ToString>(mut self, values: impl IntoIterator<Item = S>) -> Self {
        self.values = values.into_iter().map(|value| value.to_string()).collect();
        self
    }

    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Has to fail with a message that has this part.
    pub fn refused(mut self, part: &str) -> Self {
        self.parts.push(part.into());
        self
    }

    /// Has to succeed with this part in the output.
    pub fn fine(mut self, part: &str) -> Self {
        self.expected = Expected::Success;
        self.parts.push(part.into());
        self
    }

    /// Has to succeed, or to fail with a message that has this part.
    pub fn survives(mut self, part: &str) -> Self {
        self.expected = Expected::Either;
        self.parts.push(part.into());
        self
    }

    /// Must not have this in the output.
    pub fn without(mut self, part: &str) -> Self {
        self.absent.push(part.into());
        self
    }

    pub fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = seconds;
        self
    }

    pub fn megabytes(mut self, megabytes: u64) -> Self {
        self.megabytes = megabytes;
        self
    }

    /// Limits the size of the files that the program may write.
    pub fn largest_file(mut self, bytes: u64) -> Self {
        self.largest_file = Some(bytes);
        self
    }

    /// Gives the program a small disk at `@/disk`.
    pub fn disk(mut self, kilobytes: u64) -> Self {
        self.disk = Some(kilobytes);
        self.step(|folder| fs::create_dir(folder.join("disk")).unwrap())
    }

    /// Does something while the program runs.
    pub fn during(mut self, step: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        self.during = Some(Arc::new(step));
        self
    }

    /// Checks the folder afterwards.
    pub fn after(mut self, check: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        self.after = Some(Arc::new(check));
        self
    }

    /// Prepares the folder.
    pub fn prepare(&self, folder: &Path) {
        self.steps.iter().for_each(|step| step(folder));
        if self.sealed {
            seal(&folder.join("model"));
        }
        if let Some((name, _)) = self.pipe {
            make_pipe(&folder.join(name));
        }
    }
}

/// Writes the manifest that fits the files of a folder.
pub fn seal(folder: &Path) {
    let mut files = Map::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() && name != "manifest.json" {
            let bytes = fs::read(&path).unwrap();
            let hash: String = (Sha256::digest(&bytes).iter())
                .map(|byte| format!("{byte:02x}"))
                .collect();
            files.insert(name, json!({"sha256": hash, "size": bytes.len()}));
        }
    }
    let path = folder.join("manifest.json");
    if !path.is_dir() {
        fs::write(path, Value::Object(files).to_string()).unwrap();
    }
}

fn edit_json(path: &Path, change: impl Fn(&mut Value)) {
    let mut json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Sets a value by its keys; a value of null removes it.
fn set(json: &mut Value, key: &str, value: &Value) {
    let mut inner = json;
    let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        inner = match part.parse::<usize>() {
            Ok(index) => &mut inner[index],
            Err(_) => &mut inner[part],
        };
    }
    match value {
        Value::Null => {
            inner.as_object_mut().unwrap().shift_remove(last);
        }
        value => inner[last] = value.clone(),
    }
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success(), "mkfifo {}", path.display());
}
