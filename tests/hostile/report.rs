//! Runs the cases and writes their table.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use tempfile::TempDir;

use super::case::{CLASSES, Case, Expected, Output};
use super::run::{Finished, program, run as run_program};
use super::{inputs, models, runs, settings};

/// How much slower than a release build the program may be, for one without optimisation and for busy machines.
fn slowness() -> f64 {
    let is_slow = cfg!(debug_assertions) && std::env::var_os("NERZOO_PROGRAM").is_none();
    if is_slow { 12.0 } else { 1.5 }
}

/// The tiny corpus that the model of all cases is trained on.
const CORPUS: &str = r#"{"tokens": ["Ada", "met", "Bo", "in", "Oslo", "."], "entities": [[0, 1, "PER"], [2, 3, "PER"], [4, 5, "LOC"]]}
{"tokens": ["Oslo", "University", "is", "old", "."], "entities": [[0, 2, "ORG"], [0, 1, "LOC"]]}
{"tokens": ["Nobody", "came", "."], "entities": []}
"#;

/// Its recipe; `@` stands for a folder.
const RECIPE: &str = r#"
[data]
train = ["@/train.jsonl"]
dev = ["@/dev.jsonl"]
test = ["@/dev.jsonl"]

[encoder.scratch]
vocabulary = 120
layers = 1
width = 32
heads = 2
feed_forward = 64

[head]
name = "seq_ner"

[train]
epochs = 2
batch = 2
learning_rate = 2e-3
"#;

/// The files that every case has: a corpus, a recipe, a trained model without its checkpoints, and its run.
struct Base {
    folder: TempDir,
}

impl Base {
    fn new() -> Self {
        let base = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let folder = base.folder.path();
        base.write_corpus(folder);
        let mut command = program();
        command
            .args(["train", "--plain", "--out"])
            .arg(folder.join("run"))
            .arg(folder.join("recipe.toml"));
        let done = run_program(command, folder, b"", None, None, 120.0);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        base
    }

    fn write_corpus(&self, folder: &Path) {
        fs::write(folder.join("train.jsonl"), CORPUS).unwrap();
        let dev = CORPUS.replace("Ada", "Eva").replace("old", "new");
        fs::write(folder.join("dev.jsonl"), dev.replace("came", "left")).unwrap();
        let recipe = RECIPE.replace('@', folder.to_str().unwrap());
        fs::write(folder.join("recipe.toml"), recipe).unwrap();
    }

    /// A copy for one case: `model` is a model folder, `run` a finished run.
    fn copy(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.write_corpus(folder.path());
        let run = self.folder.path().join("run");
        copy(&run, &folder.path().join("run"));
        copy(&run, &folder.path().join("model"));
        fs::remove_dir_all(folder.path().join("model/checkpoints")).unwrap();
        folder
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A row of the table.
struct Row {
    index: usize,
    class: usize,
    name: String,
    expected: String,
    seconds: f64,
    megabytes: u64,
    passed: bool,
}

/// Runs all cases that the arguments select, and exits.
pub fn run(arguments: &Arguments) -> ! {
    let cases: Vec<Case> = [
        settings::cases(),
        models::cases(),
        inputs::cases(),
        runs::cases(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let base = Arc::new(OnceLock::new());
    let rows = Arc::new(Mutex::new(Vec::new()));
    let mut trials = Vec::new();
    for (index, case) in cases.into_iter().enumerate() {
        let (base, rows) = (base.clone(), rows.clone());
        let name = format!("{}/{}", CLASSES[case.class - 1], case.name);
        trials.push(Trial::test(name, move || {
            if case.disk.is_some() && !has_small_disks() {
                eprintln!("SKIPPED {}: no disk can be mounted here", case.name);
                return Ok(());
            }
            let folder = base.get_or_init(Base::new).copy();
            let (row, result) = try_case(index, &case, folder.path());
            if std::env::var_os("NERZOO_HOSTILE_LIVE").is_some()
                && let Err(problem) = &result
            {
                println!("FAILED {}: {problem}", case.name);
            }
            rows.lock().unwrap().push(row);
            result.map_err(Failed::from)
        }));
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    let mut rows = rows.lock().unwrap();
    rows.sort_by_key(|row| row.index);
    print(&rows);
    if let Some(path) = std::env::var_os("NERZOO_HOSTILE_TABLE") {
        fs::write(path, markdown(&rows)).unwrap();
    }
    drop(base);
    conclusion.exit()
}

/// Runs a case with each of its values.
fn try_case(index: usize, case: &Case, folder: &Path) -> (Row, Result<(), String>) {
    case.prepare(folder);
    let mut problems = String::new();
    let (mut seconds, mut megabytes) = (0.0f64, 0);
    for value in &case.values {
        let done = start(case, folder, value);
        seconds = seconds.max(done.cpu);
        megabytes = megabytes.max(done.megabytes);
        if let Err(problem) = judge(case, &done) {
            let _ = writeln!(
                problems,
                "{} with {value:?}: {problem}\n  code {:?}, signal {:?}, {:.2} s, {:.2} CPU s, {} MB\n  stdout: {}\n  stderr: {}",
                case.arguments.join(" "),
                done.code,
                done.signal,
                done.wall,
                done.cpu,
                done.megabytes,
                shorten(&done.stdout),
                shorten(&done.stderr),
            );
        }
    }
    if let Some(after) = &case.after
        && let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| after(folder)))
    {
        let message = panic.downcast_ref::<String>().cloned();
        let _ = writeln!(problems, "afterwards: {}", message.unwrap_or_default());
    }
    let row = Row {
        index,
        class: case.class,
        name: case.name.clone(),
        expected: expectation(case),
        seconds,
        megabytes,
        passed: problems.is_empty(),
    };
    let result = if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    };
    (row, result)
}

/// Runs the program once.
fn start(case: &Case, folder: &Path, value: &str) -> Finished {
    let at = folder.to_str().unwrap();
    let mut command = match case.disk {
        None => program(),
        Some(kilobytes) => on_small_disk(kilobytes, &folder.join("disk")),
    };
    let arguments = case.arguments.iter();
    command.args(arguments.map(|argument| argument.replace('%', value).replace('@', at)));
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("HF_HOME", folder.join("hub"));
    let stdout = match case.output {
        Output::Kept => None,
        Output::Full => Some(
            File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into(),
        ),
        Output::Closed => {
            let (_, writer) = std::io::pipe().unwrap();
            Some(Stdio::from(writer))
        }
    };
    let writer = case.pipe.as_ref().map(|(name, content)| {
        let source = folder.join(".pipe");
        fs::write(&source, content).unwrap();
        write_into(&source, &folder.join(name))
    });
    let seconds = (case.seconds * 4.0 + 5.0) * slowness();
    let done = std::thread::scope(|scope| {
        if let Some(during) = &case.during {
            scope.spawn(|| during(folder));
        }
        run_program(
            command,
            folder,
            &case.input,
            stdout,
            case.largest_file,
            seconds,
        )
    });
    if let Some(mut writer) = writer {
        let _ = writer.kill();
        let _ = writer.wait();
    }
    done
}

/// The program in a namespace of its own in which a folder is a small disk. Afterwards the files on it are listed.
fn on_small_disk(kilobytes: u64, folder: &Path) -> Command {
    let program = program();
    let script = "mount -t tmpfs -o size=\"$0\"k tmpfs \"$1\" || exit 77; shift; \"$@\"; code=$?; \
                  echo files: $(find \"$(dirname \"$NERZOO_DISK\")/disk\" -name '*partial*' -o -name '.model-*' -o -name '.tmp*') >&2; \
                  exit $code";
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", script])
        .arg(kilobytes.to_string())
        .arg(folder)
        .arg(program.get_program())
        .env("NERZOO_DISK", folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Whether small disks can be made here.
fn has_small_disks() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let script = "mount -t tmpfs tmpfs /mnt";
        let tried = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", script])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    })
}

/// A process that writes a file into a named pipe. It ends when the pipe is read, or is killed.
fn write_into(source: &Path, pipe: &PathBuf) -> Child {
    Command::new("sh")
        .args(["-c", "exec cat \"$0\" > \"$1\""])
        .arg(source)
        .arg(pipe)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Peak memory of this process so far, in MB.
fn own_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).div_ceil(1024)
}

/// Compares what happened with what was expected.
fn judge(case: &Case, done: &Finished) -> Result<(), String> {
    let all = format!("{}{}", done.stdout, done.stderr);
    if done.timed_out {
        return Err("it did not end in time".into());
    }
    if all.contains("panicked at") {
        return Err("it panicked".into());
    }
    // A closed pipe ends a Unix tool by SIGPIPE, without a message.
    let is_closed = case.output == Output::Closed && done.signal == Some(libc::SIGPIPE);
    if let Some(signal) = done.signal
        && !is_closed
    {
        return Err(format!("signal {signal} ended it"));
    }
    let limit = case.seconds * slowness();
    if done.cpu > limit {
        return Err(format!("it took more than {limit:.1} CPU seconds"));
    }
    // A process starts with the memory of the one that started it.
    if done.megabytes > case.megabytes.max(own_megabytes()) {
        return Err(format!("it took more than {} MB", case.megabytes));
    }
    let has_failed = match done.code {
        Some(0) => false,
        Some(1 | 2) => true,
        None => return Ok(()), // a closed pipe
        Some(code) => return Err(format!("unexpected exit code {code}")),
    };
    match case.expected {
        Expected::Success if has_failed => return Err("it failed".into()),
        Expected::Refusal if !has_failed => return Err("it did not fail".into()),
        _ => {}
    }
    let may_lack = case.expected == Expected::Either && !has_failed;
    if let Some(part) = case.parts.iter().find(|part| !all.contains(*part))
        && !may_lack
    {
        return Err(format!("the output has no {part:?}"));
    }
    if has_failed && all.trim().is_empty() && case.output == Output::Kept {
        return Err("it failed without a message".into());
    }
    match case.absent.iter().find(|part| all.contains(*part)) {
        Some(part) => Err(format!("the output has {part:?}")),
        None => Ok(()),
    }
}

fn expectation(case: &Case) -> String {
    let outcome = match case.expected {
        Expected::Success => "done",
        Expected::Refusal => "refused",
        Expected::Either => "done or refused",
    };
    match case.parts.first() {
        Some(part) if !part.is_empty() => format!("{outcome}: {}", part.trim()),
        _ => outcome.into(),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(1500) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.into(),
    }
}

fn print(rows: &[Row]) {
    for row in rows {
        let mark = if row.passed { "ok    " } else { "FAILED" };
        println!(
            "{mark} {:>6.2} s {:>5} MB  {:<16} {}  [{}]",
            row.seconds,
            row.megabytes,
            CLASSES[row.class - 1],
            row.name,
            row.expected
        );
    }
    let failed = rows.iter().filter(|row| !row.passed).count();
    println!("{} cases, {failed} failed", rows.len());
}

/// The table as Markdown, with the largest time and memory of each class.
fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "# The cases of `tests/hostile.rs`\n\nWritten by the test. A case may try several values; time (CPU seconds) and peak memory are \
         the largest of them. The memory includes what the test process had when it started the program.\n",
    );
    for (number, class) in CLASSES.iter().enumerate() {
        let of_class: Vec<&Row> = rows.iter().filter(|row| row.class == number + 1).collect();
        let _ = writeln!(text, "\n### {}: {} cases\n", capital(class), of_class.len());
        let _ = writeln!(text, "| case | expected | CPU s | MB |\n|---|---|---|---|");
        for row in of_class {
            let _ = writeln!(
                text,
                "| {} | {} | {:.2} | {} |",
                cell(&row.name),
                cell(&row.expected),
                row.seconds,
                row.megabytes
            );
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('\n', " ")
}
