//! Chapters of the book as blocks of code, headings and links.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// A file of Markdown.
pub struct Chapter {
    /// Its path from the root of the repository.
    pub path: PathBuf,
    /// Its text, with `{{#include}}` replaced by what it names.
    text: String,
    /// Files or anchors that `{{#include}}` names and that do not exist.
    pub missing: Vec<String>,
}

/// A fenced block of code.
#[derive(Debug, Clone)]
pub struct Block {
    /// The line of its first fence, from 1.
    pub line: usize,
    /// Its language, such as `sh`.
    pub language: String,
    /// What comments of the form `<!-- test: ... -->` directly before it say to the test.
    pub directives: Vec<String>,
    /// Its content.
    pub body: String,
}

impl Block {
    /// The rest of the directive that starts with a word, if there is one.
    pub fn directive<'a>(&'a self, name: &str) -> Option<&'a str> {
        let rest = |directive: &'a str| -> Option<&'a str> {
            Some(directive.strip_prefix(name)?.trim_start_matches([',', ' ']))
        };
        self.directives.iter().find_map(|directive| rest(directive))
    }
}

/// A link or image.
pub struct Link {
    /// The line it is in, from 1.
    pub line: usize,
    /// Its address.
    pub target: String,
}

impl Chapter {
    /// Reads a chapter of the repository.
    pub fn read(root: &Path, path: &Path) -> Self {
        let full = root.join(path);
        let text = std::fs::read_to_string(&full)
            .unwrap_or_else(|problem| panic!("{}: {problem}", full.display()));
        let mut missing = Vec::new();
        let folder = full.parent().unwrap_or(root);
        let text = include(&text, folder, &mut missing);
        Self {
            path: path.into(),
            text,
            missing,
        }
    }

    /// Its name: that of the file.
    pub fn name(&self) -> String {
        self.path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Its lines, each with its number from 1 and whether it is part of a block of code.
    fn lines(&self) -> impl Iterator<Item = (usize, bool, &str)> {
        let mut fenced = false;
        self.text.lines().enumerate().map(move |(index, line)| {
            let is_fence = line.trim_start().starts_with("```");
            let code = fenced || is_fence;
            fenced ^= is_fence;
            (index + 1, code, line)
        })
    }

    /// Its blocks of code.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut directives = Vec::new();
        let mut open: Option<(Block, usize)> = None;
        for (line, code, text) in self.lines() {
            let trimmed = text.trim_start();
            match &mut open {
                Some(_) if trimmed.starts_with("```") => {
                    blocks.extend(open.take().map(|(block, _)| block))
                }
                Some((block, indent)) => {
                    block.body.push_str(text.get(*indent..).unwrap_or(trimmed));
                    block.body.push('\n');
                }
                None if code => {
                    let language = trimmed.trim_start_matches('`').trim().to_string();
                    let directives = std::mem::take(&mut directives);
                    let block = Block {
                        line,
                        language,
                        directives,
                        body: String::new(),
                    };
                    open = Some((block, text.len() - trimmed.len()));
                }
                None => match directive(trimmed) {
                    Some(directive) => directives.push(directive.to_string()),
                    None if trimmed.is_empty() => {}
                    None => directives.clear(),
                },
            }
        }
        assert!(
            open.is_none(),
            "{}: a block of code is not closed",
            self.path.display()
        );
        blocks
    }

    /// The text outside of blocks of code, by line.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines()
            .filter(|(_, code, _)| !code)
            .map(|(line, _, text)| (line, text))
    }

    /// Its links, without those in code.
    pub fn links(&self) -> Vec<Link> {
        static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").unwrap());
        static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`").unwrap());
        let mut links = Vec::new();
        for (line, text) in self.prose() {
            let text = CODE.replace_all(text, "");
            let targets = LINK.captures_iter(&text).map(|found| Link {
                line,
                target: found[1].to_string(),
            });
            links.extend(targets);
        }
        links
    }

    /// What a link can name after `#`: headings and `<a id="...">`.
    pub fn anchors(&self) -> Vec<String> {
        static ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"<a id="([^"]+)">"#).unwrap());
        let mut anchors: Vec<String> = Vec::new();
        for (_, text) in self.prose() {
            anchors.extend(ID.captures_iter(text).map(|found| found[1].to_string()));
            if let Some(heading) = text.strip_prefix('#') {
                let id = slug(heading.trim_start_matches('#').trim());
                let repeated = anchors.iter().filter(|other| **other == id).count();
                anchors.push(if repeated > 0 {
                    format!("{id}-{repeated}")
                } else {
                    id
                });
            }
        }
        anchors
    }
}

/// What a comment says to the test.
fn directive(line: &str) -> Option<&str> {
    Some(line.strip_prefix("<!-- test:")?.strip_suffix("-->")?.trim())
}

/// The anchor of a heading, as mdBook makes it.
fn slug(heading: &str) -> String {
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\([^)]*\)").unwrap());
    let heading = LINK.replace_all(heading, "$1");
    let kept = heading.chars().filter_map(|character| match character {
        character if character.is_alphanumeric() || matches!(character, '_' | '-') => {
            Some(character)
        }
        character if character.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

/// Replaces `{{#include FILE}}` and `{{#include FILE:ANCHOR}}`, and lists what does not exist.
fn include(text: &str, folder: &Path, missing: &mut Vec<String>) -> String {
    static INCLUDE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\{\{#(?:rustdoc_)?include ([^:}\s]+)(?::([^}\s]+))?\}\}").unwrap()
    });
    let replaced = INCLUDE.replace_all(text, |found: &regex::Captures| {
        let content = std::fs::read_to_string(folder.join(&found[1])).ok();
        let content = content.and_then(|content| match found.get(2) {
            Some(name) => anchored(&content, name.as_str()),
            None => Some(content),
        });
        content
            .map(|content| content.trim_end().to_string())
            .unwrap_or_else(|| {
                missing.push(found[0].to_string());
                String::new()
            })
    });
    replaced.into_owned()
}

/// The lines between `ANCHOR: NAME` and `ANCHOR_END: NAME`, without the lines of other anchors.
fn anchored(content: &str, name: &str) -> Option<String> {
    let is = |line: &str, mark: &str| {
        let found = line.split(mark).nth(1);
        found.is_some_and(|rest| rest.trim() == name)
    };
    let mut lines = content.lines().skip_while(|line| !is(line, "ANCHOR: "));
    lines.next()?;
    let mut kept = Vec::new();
    for line in lines {
        if is(line, "ANCHOR_END: ") {
            return Some(kept.join("\n"));
        }
        if !line.contains("ANCHOR") {
            kept.push(line);
        }
    }
    None
}
