//! The book and the README: their commands run and print what is shown, and what they name exists.
//!
//! ```text
//! cargo test --release --test book                      # everything
//! cargo test --release --test book commands/serving     # the commands of one chapter
//! cargo test --test book references                     # links, files, recipes; needs no optimised build
//! NERZOO_PROGRAM=target/release/nerzoo cargo test --test book
//! ```
//!
//! Blocks of the kind `sh` are run in order, each in a shell of its own, in a temporary copy of what they need; every chapter
//! may use the model of the quickstart. In blocks of the kind `console`, `$ ` is before the commands, and the output follows.
//! Comments in the line before a block change that:
//!
//! ```text
//! <!-- test: output -->                      the output of the last block that ran, or lines of it; `...` stands for anything
//! <!-- test: output joined -->               one long line of it, which the book breaks
//! <!-- test: not run, REASON -->             the block is not run
//! <!-- test: shortened --set train.epochs=1 -->   arguments that the test adds to `nerzoo train`
//! <!-- test: server -->                      the command runs in the background until the end of the chapter
//! <!-- test: exit code 1 -->                 the exit code of the block, if it is not 0
//! ```

#[path = "book/arguments.rs"]
mod arguments;
#[path = "book/markdown.rs"]
mod markdown;
#[path = "book/output.rs"]
mod output;
#[path = "book/references.rs"]
mod references;
#[path = "book/shell.rs"]
mod shell;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Trial};
use markdown::Chapter;
use nerzoo::cli::reference::{self, ReferenceChapter};
use shell::{Printed, Scratch};

/// The first command of the quickstart, which several chapters contain or need. It is run once.
const FIRST: &str = "cargo run --release -- train model-zoo/recipes/quickstart.toml";

/// A folder that is removed at the end.
static TEMPORARY: OnceLock<PathBuf> = OnceLock::new();

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chapters: Vec<Arc<Chapter>> = paths(root)
        .iter()
        .map(|path| Arc::new(Chapter::read(root, path)))
        .collect();
    let anchors: BTreeMap<PathBuf, Vec<String>> = chapters
        .iter()
        .map(|chapter| (chapter.path.clone(), chapter.anchors()))
        .collect();
    let anchors = Arc::new(anchors);

    let mut trials = vec![
        Trial::test("comparison of outputs", || {
            output::check_comparison();
            Ok(())
        }),
        Trial::test("splitting of commands", || {
            arguments::check_splitting();
            Ok(())
        }),
        Trial::test("examples of --help", || Ok(arguments::check_examples()?)),
        Trial::test("summary", || Ok(check_summary()?)),
        Trial::test("reference/commands", || {
            Ok(check_generated("commands", ReferenceChapter::Commands)?)
        }),
        Trial::test("reference/settings", || {
            Ok(check_generated("settings", ReferenceChapter::Settings)?)
        }),
        Trial::test("reference/environment", || Ok(check_environment()?)),
    ];
    for chapter in chapters {
        let (name, anchors, own) = (chapter.name(), anchors.clone(), chapter.clone());
        let check = move || {
            Ok(references::check(
                Path::new(env!("CARGO_MANIFEST_DIR")),
                &own,
                &anchors,
            )?)
        };
        trials.push(Trial::test(format!("references/{name}"), check));
        let has_commands =
            |block: &markdown::Block| matches!(block.language.as_str(), "sh" | "console");
        if chapter.blocks().iter().any(has_commands) {
            trials.push(Trial::test(format!("commands/{name}"), move || {
                Ok(check_commands(&chapter)?)
            }));
        }
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    TEMPORARY.set(temporary.path().into()).expect("set once");
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    drop(temporary);
    conclusion.exit_code()
}

/// The files to check: the README and every chapter.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("book/src")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder)).expect("the folder of the book");
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths
}

/// Every chapter is in the table of contents.
fn check_summary() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let summary = Chapter::read(root, Path::new("book/src/SUMMARY.md"));
    let listed: Vec<String> = summary
        .links()
        .into_iter()
        .map(|link| format!("book/src/{}", link.target))
        .collect();
    let is_unlisted = |path: &&PathBuf| {
        let path = path.display().to_string();
        path.starts_with("book/") && !path.ends_with("SUMMARY.md") && !listed.contains(&path)
    };
    match paths(root).iter().find(is_unlisted) {
        Some(path) => Err(format!("{} is not in SUMMARY.md", path.display())),
        None => Ok(()),
    }
}

/// A chapter that is made from the code is as the code makes it. `NERZOO_UPDATE=1` writes it.
fn check_generated(name: &str, chapter: ReferenceChapter) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(format!("book/src/reference-{name}.md"));
    let made = reference::markdown(chapter);
    if std::env::var_os("NERZOO_UPDATE").is_some() {
        return std::fs::write(&path, made)
            .map_err(|problem| format!("{}: {problem}", path.display()));
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made
        .lines()
        .zip(written.lines())
        .find(|(made, written)| made != written);
    match differs {
        None if made == written => Ok(()),
        differs => Err(format!(
            "{} is not what the code makes; run NERZOO_UPDATE=1 cargo test --test book reference/\n{differs:?}",
            path.display()
        )),
    }
}

/// Every environment variable that the code reads is in the reference.
fn check_environment() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("book/src/reference-files.md"))
        .map_err(|problem| problem.to_string())?;
    let variable = regex::Regex::new(r#""((?:NERZOO|HF|BURN)_[A-Z_]+)""#).expect("a regex");
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let missing = variable
                .captures_iter(code)
                .find(|found| !page.contains(&found[1]));
            if let Some(found) = missing {
                return Err(format!(
                    "{} of {} is not in reference-files.md",
                    &found[1],
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// Runs the commands of a chapter.
fn check_commands(chapter: &Chapter) -> Result<(), String> {
    let Some(program) = program() else {
        println!(
            "SKIPPED: commands/{}: an unoptimised build is too slow; use --release or NERZOO_PROGRAM",
            chapter.name()
        );
        return Ok(());
    };
    let (quickstart, printed) = quickstart(&program)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = Scratch::new(root, &program, temporary());
    scratch.add_run(&quickstart.work().join("runs/quickstart"), "quickstart");
    shell::check_chapter(chapter, scratch, (FIRST, printed))
}

fn temporary() -> &'static Path {
    TEMPORARY.get().expect("set by main")
}

/// The program to test: `NERZOO_PROGRAM`, or the one that was built with this test if it is optimised.
fn program() -> Option<PathBuf> {
    let given = std::env::var_os("NERZOO_PROGRAM").map(PathBuf::from);
    let own = (!cfg!(debug_assertions)).then(|| PathBuf::from(env!("CARGO_BIN_EXE_nerzoo")));
    let program = given.or(own)?;
    let message = |problem| panic!("NERZOO_PROGRAM={}: {problem}", program.display());
    Some(program.canonicalize().unwrap_or_else(message))
}

/// The folder with the model of the quickstart, and what its training printed.
fn quickstart(program: &Path) -> Result<(&'static Scratch, &'static Printed), String> {
    static TRAINED: OnceLock<Result<(Scratch, Printed), String>> = OnceLock::new();
    let train = || {
        let scratch = Scratch::new(Path::new(env!("CARGO_MANIFEST_DIR")), program, temporary());
        let printed = scratch.run(FIRST, "")?;
        if printed.code != Some(0) {
            return Err(format!("{FIRST} failed:\n{}", printed.text));
        }
        Ok((scratch, printed))
    };
    let trained = TRAINED.get_or_init(train);
    trained
        .as_ref()
        .map(|(scratch, printed)| (scratch, printed))
        .map_err(Clone::clone)
}
