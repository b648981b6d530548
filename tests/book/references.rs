//! Checks what the book names: links, anchors, files of the repository, recipes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use nerzoo::recipe::Recipe;
use nerzoo::registry;
use regex::Regex;
use toml::Table;

use super::arguments;
use super::markdown::Chapter;

/// Problems of a chapter: links, files and anchors that do not exist.
pub fn check(
    root: &Path,
    chapter: &Chapter,
    anchors: &BTreeMap<PathBuf, Vec<String>>,
) -> Result<(), String> {
    let mut problems: Vec<String> = chapter
        .missing
        .iter()
        .map(|what| format!("{what} does not exist"))
        .collect();
    let folder = chapter.path.parent().unwrap_or(Path::new(""));
    for link in chapter.links() {
        if link.target.contains("://") || link.target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
        let path = if path.is_empty() {
            chapter.path.clone()
        } else {
            normal(&folder.join(path))
        };
        let known = anchors.get(&path);
        if chapter.path.starts_with("book") && !path.starts_with("book/src") {
            problems.push(format!(
                "line {}: {}: not part of the built book",
                link.line, link.target
            ));
        } else if !root.join(&path).exists() {
            problems.push(format!("line {}: {}: no such file", link.line, link.target));
        } else if !anchor.is_empty()
            && !known.is_some_and(|known| known.iter().any(|name| name == anchor))
        {
            problems.push(format!(
                "line {}: {}: no such heading",
                link.line, link.target
            ));
        }
    }
    problems.extend(missing_files(root, chapter));
    problems.extend(bad_recipes(chapter));
    problems.extend(bad_rust(root, chapter));
    problems.extend(arguments::bad_commands(chapter));
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}:\n{}",
        chapter.path.display(),
        problems.join("\n")
    ))
}

/// Paths in code marks that start with a folder of the repository and do not exist. Names in capitals stand for others.
fn missing_files(root: &Path, chapter: &Chapter) -> Vec<String> {
    static FILE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|[`\s(])((?:src|tests|benches|examples|datasets|model-zoo|book|\.ci)/[\w./-]+|[\w-]+-[\w-]+\.toml)").unwrap()
    });
    static STANDS_FOR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(^|[/_-])[A-Z]{2,}([/._-]|$)|my_paper").unwrap());
    let mut missing = Vec::new();
    for (line, text) in chapter.prose() {
        for found in FILE.captures_iter(text) {
            let name = found[1].trim_end_matches(['.', '/']);
            let is_cut = text[found.get(1).expect("group 1").end()..].starts_with(['*', '<', '{']);
            // Made by `zoo publish`.
            let is_made = name == "model-zoo/models";
            let is_placeholder = is_made || STANDS_FOR.is_match(name) && !name.ends_with(".md");
            let recipe = Path::new("model-zoo/recipes").join(name);
            if !is_cut
                && !is_placeholder
                && !root.join(name).exists()
                && !root.join(recipe).exists()
            {
                missing.push(format!("line {line}: `{name}` does not exist"));
            }
        }
    }
    missing
}

/// Parts of recipes that the program would refuse.
fn bad_recipes(chapter: &Chapter) -> Vec<String> {
    const TABLES: [&str; 9] = [
        "about", "data", "encoder", "head", "bundle", "train", "predict", "sample", "paper",
    ];
    let mut problems = Vec::new();
    for block in chapter
        .blocks()
        .iter()
        .filter(|block| block.language == "toml")
    {
        let mut table: Table = match toml::from_str(&block.body) {
            Ok(table) => table,
            Err(problem) => {
                problems.push(format!("line {}: {problem}", block.line));
                continue;
            }
        };
        if table.is_empty() || !table.keys().all(|key| TABLES.contains(&key.as_str())) {
            continue;
        }
        for (name, value) in [
            ("data", r#"corpus = "quickstart""#),
            ("head", r#"name = "seq_ner""#),
        ] {
            let value: Table = toml::from_str(value).expect("TOML");
            table.entry(name).or_insert(value.into());
        }
        let parsed =
            Recipe::parse(&table.to_string(), "the recipe", &[]).and_then(registry::resolve);
        if let Err(problem) = parsed.and_then(|(recipe, entry)| (entry.check)(&recipe)) {
            problems.push(format!("line {}: {problem}", block.line));
        }
    }
    problems
}

/// Blocks of Rust that no program in `examples` contains: those are compiled, so what is shown compiles too.
fn bad_rust(root: &Path, chapter: &Chapter) -> Vec<String> {
    let dense = |text: &str| {
        text.split_whitespace()
            .filter(|word| !word.contains("ANCHOR"))
            .collect::<String>()
    };
    let mut programs = String::new();
    for entry in std::fs::read_dir(root.join("examples"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.contains("ANCHOR"));
        programs.push_str(&dense(&lines.collect::<Vec<_>>().join("\n")));
    }
    let blocks = chapter.blocks();
    let rust = blocks
        .iter()
        .filter(|block| block.language.starts_with("rust"));
    let unknown = rust.filter(|block| {
        block.directive("not run").is_none() && !programs.contains(&dense(&block.body))
    });
    unknown
        .map(|block| format!("line {}: this Rust is not in examples/", block.line))
        .collect()
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}
