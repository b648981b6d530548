//! Runs the commands of a chapter in a copy of what they need, and compares their output with what the book shows.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::markdown::{Block, Chapter};
use super::output;

/// The longest time a block may take. Training a model of the quickstart takes 20 seconds on two free cores.
const LIMIT: Duration = Duration::from_secs(600);

/// The program `nerzoo` in the path of the commands: it adds what the test wants to shorten, and the port of the test.
const WRAPPER: &str = r#"#!/bin/sh
case "$1" in
train) exec "$NERZOO_BOOK_PROGRAM" "$@" $NERZOO_BOOK_SHORTENED ;;
serve) exec "$NERZOO_BOOK_PROGRAM" "$@" --port "$NERZOO_BOOK_PORT" ;;
*) exec "$NERZOO_BOOK_PROGRAM" "$@" ;;
esac
"#;

/// A folder in which commands run: copies of `datasets` and `model-zoo`, and an empty `runs`.
pub struct Scratch {
    folder: TempDir,
    program: PathBuf,
    port: u16,
    before: BTreeMap<PathBuf, Vec<u8>>,
    servers: Vec<Server>,
}

/// What a block printed, and its exit code.
pub struct Printed {
    pub text: String,
    pub code: Option<i32>,
}

impl Scratch {
    /// A new folder in a temporary one, with copies from the repository.
    pub fn new(root: &Path, program: &Path, temporary: &Path) -> Self {
        let folder = tempfile::tempdir_in(temporary).expect("a temporary folder");
        let work = folder.path().join("nerzoo");
        for name in ["datasets", "model-zoo", "examples"] {
            copy(&root.join(name), &work.join(name));
        }
        for name in ["bin", "home", "nerzoo/runs"] {
            fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let wrapper = folder.path().join("bin/nerzoo");
        fs::write(&wrapper, WRAPPER).expect("the wrapper");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))
            .expect("an executable wrapper");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its number").port();
        let before = files_outside_runs(folder.path());
        Self {
            folder,
            program: program.into(),
            port,
            before,
            servers: Vec::new(),
        }
    }

    /// The folder in which commands run.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("nerzoo")
    }

    /// Adds a folder with a run.
    pub fn add_run(&self, run: &Path, name: &str) {
        copy(run, &self.work().join("runs").join(name));
    }

    /// Runs commands, with these arguments added to those that train.
    pub fn run(&self, commands: &str, shortened: &str) -> Result<Printed, String> {
        let output = self.folder.path().join("output");
        let mut child = self.start(commands, shortened, &output)?;
        let code = wait(&mut child, LIMIT)?;
        let mut text = Vec::new();
        let read = fs::File::open(&output).and_then(|mut file| file.read_to_end(&mut text));
        read.map_err(|problem| problem.to_string())?;
        Ok(Printed {
            text: String::from_utf8_lossy(&text).into_owned(),
            code,
        })
    }

    fn start(&self, commands: &str, shortened: &str, output: &Path) -> Result<Child, String> {
        let file = fs::File::create(output).map_err(|problem| problem.to_string())?;
        let again = file.try_clone().map_err(|problem| problem.to_string())?;
        let commands = commands
            .replace("cargo run --release -- ", "nerzoo ")
            .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port));
        let home = self.folder.path().join("home");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &commands]);
        for name in [
            "NERZOO_DATA",
            "NERZOO_ENCODERS",
            "NERZOO_ZOO",
            "NERZOO_DEVICE",
            "NERZOO_FUSED",
            "RUST_LOG",
        ] {
            command.env_remove(name);
        }
        command
            .current_dir(self.work())
            .env(
                "PATH",
                format!("{}:{path}", self.folder.path().join("bin").display()),
            )
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", home.join(".cache"))
            .env("HF_HOME", home.join("hub"))
            .env("NERZOO_CACHE", home.join("zoo"))
            .env("HF_HUB_OFFLINE", "1")
            .env("NERZOO_BOOK_PROGRAM", &self.program)
            .env("NERZOO_BOOK_SHORTENED", shortened)
            .env("NERZOO_BOOK_PORT", self.port.to_string())
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again)
            .process_group(0)
            .spawn()
            .map_err(|problem| format!("bash: {problem}"))
    }

    /// Starts a server and waits until it accepts connections; it ends with this value.
    fn serve(&mut self, commands: &str) -> Result<(), String> {
        let output = self.folder.path().join("server");
        let child = self.start(commands, "", &output)?;
        self.servers.push(Server(child));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self
                .servers
                .last_mut()
                .is_some_and(|server| matches!(server.0.try_wait(), Ok(Some(_))));
            if ended || start.elapsed() > Duration::from_secs(120) {
                let printed = fs::read_to_string(&output).unwrap_or_default();
                return Err(format!(
                    "the server does not answer; it printed:\n{printed}"
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// An error that names a file which a command wrote or changed outside of `runs`.
    fn check_only_runs_changed(&self) -> Result<(), String> {
        let mut after = files_outside_runs(self.folder.path());
        for name in ["output", "server"] {
            after.remove(&self.folder.path().join(name));
        }
        let changed = after
            .iter()
            .find(|(path, content)| self.before.get(*path) != Some(content));
        let removed = self.before.keys().find(|path| !after.contains_key(*path));
        match changed.map(|(path, _)| path).or(removed) {
            Some(path) => Err(format!("{} was written, outside of runs/", path.display())),
            None => Ok(()),
        }
    }
}

/// Runs the blocks of a chapter in order. `first` is a command whose result is already in the folder, and what it printed.
pub fn check_chapter(
    chapter: &Chapter,
    mut scratch: Scratch,
    first: (&str, &Printed),
) -> Result<(), String> {
    let mut printed: Option<Printed> = None;
    for block in chapter.blocks() {
        let located =
            |problem: String| format!("{}:{}: {problem}", chapter.path.display(), block.line);
        check_directives(&block).map_err(located)?;
        let expected = block
            .directive("exit code")
            .map_or(Ok(0), str::parse)
            .map_err(|_| located("exit code N".into()))?;
        if block.directive("output").is_some() {
            let printed = printed
                .as_ref()
                .ok_or_else(|| located("output of which command?".into()))?;
            let is_joined = block.language == "json" || block.directive("output") == Some("joined");
            let compare = if is_joined {
                output::compare_joined
            } else {
                output::compare
            };
            let context =
                |problem| located(format!("{problem}\n--- the output is\n{}", printed.text));
            compare(&block.body, &printed.text).map_err(context)?;
        } else if block.directive("not run").is_some() {
            continue;
        } else if block.language == "console" {
            for (command, shown) in console(&block.body).map_err(located)? {
                let result = scratch.run(&command, "").map_err(located)?;
                let context =
                    |problem| located(format!("{problem}\n--- {command} printed\n{}", result.text));
                output::compare_joined(&shown, &result.text).map_err(context)?;
            }
        } else if block.language == "sh" && block.directive("server").is_some() {
            scratch.serve(&block.body).map_err(located)?;
        } else if block.language == "sh" {
            if block.body.contains("curl ") && !has("curl") {
                println!(
                    "SKIPPED: {}:{}: there is no curl here",
                    chapter.path.display(),
                    block.line
                );
                continue;
            }
            let result = if block.body.trim() == first.0 {
                Printed {
                    text: first.1.text.clone(),
                    code: first.1.code,
                }
            } else {
                scratch
                    .run(
                        &block.body,
                        block.directive("shortened").unwrap_or_default(),
                    )
                    .map_err(located)?
            };
            if result.code != Some(expected) {
                let code = result
                    .code
                    .map_or("no exit code".into(), |code| format!("exit code {code}"));
                return Err(located(format!(
                    "{code}, not {expected}\n{}\n--- printed\n{}",
                    block.body, result.text
                )));
            }
            printed = Some(result);
        }
    }
    scratch
        .check_only_runs_changed()
        .map_err(|problem| format!("{}: {problem}", chapter.path.display()))
}

/// Refuses directives that are not known, and `not run` without a reason.
fn check_directives(block: &Block) -> Result<(), String> {
    for directive in &block.directives {
        let known = ["output", "not run", "shortened", "server", "exit code"];
        if !known.iter().any(|name| directive.starts_with(name)) {
            return Err(format!(
                "unknown directive {directive:?}; known are {}",
                known.join(", ")
            ));
        }
    }
    if block.directive("not run").is_some_and(str::is_empty) {
        return Err("say why it is not run: <!-- test: not run, REASON -->".into());
    }
    Ok(())
}

/// The commands after `$ `, each with the lines after it.
fn console(body: &str) -> Result<Vec<(String, String)>, String> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in body.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((format!("{command} || true"), String::new())),
            (None, Some((_, shown))) => {
                shown.push_str(line);
                shown.push('\n');
            }
            (None, None) => {
                return Err(
                    "a block of the kind `console` starts with `$ `; otherwise write `sh`".into(),
                );
            }
        }
    }
    Ok(commands)
}

/// A process in the background, which is ended with everything it started.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

fn end(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
}

/// Waits for a process, and ends it when it takes too long.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<i32>, String> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|problem| problem.to_string())? {
            Some(status) => return Ok(status.code()),
            None if start.elapsed() > limit => {
                end(child);
                return Err(format!("took longer than {} seconds", limit.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// True when the shell finds this program.
fn has(program: &str) -> bool {
    let found = Command::new("bash")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}

/// All files but those in `runs`, with their content.
fn files_outside_runs(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let runs = folder.join("nerzoo/runs");
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && path != runs {
                folders.push(path);
            } else if path.is_file() {
                let content = fs::read(&path).unwrap_or_default();
                files.insert(path, content);
            }
        }
    }
    files
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder for a copy");
    for entry in fs::read_dir(from)
        .unwrap_or_else(|problem| panic!("{}: {problem}", from.display()))
        .flatten()
    {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy of a file");
        }
    }
}
