//! The structure of `src/`: imports go one way, heads do not import each other, and only `device` names backends.
//!
//! The checks read the source files as tokens, so comments and documentation do not count. A failure names the file, the
//! line, the forbidden name and the rule.

use std::fs;
use std::path::Path;

use source::{Token, TokenKind};

/// Modules that every other module may import. They may import each other.
const BASE: &[&str] = &["error", "text", "table", "files", "process"];

/// All other modules. Each imports only modules before it in this list, and those of [`BASE`].
const ORDER: &[&str] = &[
    "data",
    "hub",
    "device",
    "nn",
    "encoder",
    "heads",
    "recipe",
    "model",
    "eval",
    "plot",
    "train",
    "registry",
    "zoo",
    "experiment",
    "bench",
    "serve",
    "cli",
];

/// The files that may import everything.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];

/// Names of papers' heads, without underscores. Only `heads` and `registry` may use them.
const PAPERS: &[&str] = &[
    "seqner",
    "spanner",
    "blner",
    "bopn",
    "locatelabel",
    "diffusion",
];

/// Names of Burn's backends. Only `device` and `nn::fused`, whose kernels are written for one backend, may use them.
const BACKENDS: &[&str] = &[
    "flex", "Flex", "ndarray", "NdArray", "wgpu", "Wgpu", "vulkan", "Vulkan", "metal", "Metal",
    "cuda", "Cuda", "rocm", "Rocm", "LibTorch",
];

/// A file of `src/`: its path from there and its text.
struct SourceFile {
    path: String,
    text: String,
}

/// A reference to a module or item of this crate.
struct Reference {
    /// Absolute path without `crate`, such as `["nn", "rows", "select_rows"]`.
    path: Vec<String>,
    line: usize,
    /// True inside a module `tests`.
    in_tests: bool,
}

#[test]
fn modules_import_only_modules_before_them() {
    report(files().iter().flat_map(wrong_direction));
}

#[test]
fn papers_do_not_import_each_other() {
    report(files().iter().flat_map(other_paper));
}

#[test]
fn only_heads_and_the_registry_name_papers() {
    report(files().iter().flat_map(named_paper));
}

#[test]
fn only_device_names_backends() {
    report(files().iter().flat_map(named_backend));
}

#[test]
fn the_documentation_lists_the_modules_in_this_order() {
    let all = files();
    let exists = |module: &&&str| all.iter().any(|file| file.module_path()[0] == **module);
    let expected: Vec<&str> = BASE.iter().chain(ORDER).filter(exists).copied().collect();
    let library = all.iter().find(|file| file.path == "lib.rs").unwrap();
    let start = library
        .text
        .find("//! Each module uses only")
        .expect("lib.rs lists the modules in their order");
    let paragraph = library.text[start..].split("\n\n").next().unwrap();
    let listed: Vec<&str> = paragraph.split('`').skip(1).step_by(2).collect();
    assert_eq!(
        listed, expected,
        "src/lib.rs lists the modules in another order than tests/architecture.rs"
    );
}

#[test]
fn a_forbidden_import_is_reported() {
    let problems = |path: &str, text: &str| wrong_direction(&file(path, text));
    let found = problems(
        "nn/rows.rs",
        "use crate::text::Span;\n\nuse crate::encoder::WordStates;\n",
    );
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("src/nn/rows.rs:3: nn imports crate::encoder::WordStates"),
        "{}",
        found[0]
    );
    assert!(
        found[0].contains("data, hub, device, nn, encoder"),
        "{}",
        found[0]
    );
    for (path, text) in [
        (
            "nn/rows.rs",
            "use crate::{error::Result,\n    nn::{mask, rows},\n    heads::Head};",
        ),
        (
            "nn/rows.rs",
            "fn f() { let a = crate::train::run::train(); }",
        ),
        ("nn/rows.rs", "use super::super::model;"),
        ("nn/mod.rs", "use super::zoo;"),
        ("nn/rows.rs", "mod tests { use super::super::super::zoo; }"),
        (
            "nn/rows.rs",
            "#[cfg(test)] mod tests { use crate::heads::Head; }",
        ),
        ("text.rs", "use crate::data::ReadOptions;"),
        ("zoo/mod.rs", "pub(crate) use crate::load;"),
        ("new/mod.rs", "use crate::text::Span;"),
    ] {
        assert_eq!(problems(path, text).len(), 1, "{path}: {text}");
    }
}

#[test]
fn an_allowed_import_is_not_reported() {
    for (path, text) in [
        (
            "nn/rows.rs",
            "use crate::{error::Result, device, nn::{mask, rows}};",
        ),
        (
            "nn/rows.rs",
            "use super::mask; mod tests { use super::*; use super::super::mask; }",
        ),
        (
            "nn/rows.rs",
            "// use crate::train;\n/* crate::zoo::a /* b */ crate::cli */\n/// crate::serve::x\nfn f() {}",
        ),
        (
            "nn/rows.rs",
            r##"const A: &str = "crate::train::x \" crate::train"; const B: &str = r#"" crate::cli::x"#;"##,
        ),
        (
            "nn/rows.rs",
            "fn f<'a>(x: &'a str) -> char { let c = '\"'; let d = '\\''; crate::nn::mask::g(x, c, d) }",
        ),
        ("process.rs", "use crate::error::Result;"),
        ("lib.rs", "pub use crate::zoo::load;"),
    ] {
        assert_eq!(
            wrong_direction(&file(path, text)),
            [""; 0],
            "{path}: {text}"
        );
    }
}

#[test]
fn papers_in_other_folders_are_reported() {
    for (count, path, text) in [
        (1, "heads/bopn/loss.rs", "use crate::heads::seq_ner::tags;"),
        (1, "heads/bopn/mod.rs", "use super::seq_ner::tags;"),
        (
            1,
            "heads/bundle/mod.rs",
            "use crate::heads::{Head, bopn::Bopn};",
        ),
        (
            0,
            "heads/bundle/mod.rs",
            "mod tests { use crate::heads::{bopn, seq_ner}; }",
        ),
        (
            0,
            "heads/bopn/loss.rs",
            "use super::network::Bopn; use crate::heads::{Head, settings::Settings, bopn::Bopn};",
        ),
    ] {
        assert_eq!(
            other_paper(&file(path, text)).len(),
            count,
            "{path}: {text}"
        );
    }
    for (count, path, text) in [
        (1, "cli/evaluate.rs", "if name == \"bopn\" { }"),
        (1, "cli/evaluate.rs", "let is_bl = head == \"x of bl_ner\";"),
        (1, "train/run.rs", "use crate::heads::diffusion_ner;"),
        (1, "recipe/mod.rs", "type Default = SeqNer;"),
        (
            0,
            "cli/evaluate.rs",
            "/// For example --set head.steps=5 of diffusion_ner.\nstruct Arguments;",
        ),
        (
            0,
            "recipe/mod.rs",
            "mod tests { const NAME: &str = \"seq_ner\"; }",
        ),
        (0, "registry.rs", "use crate::heads::bopn::Bopn;"),
    ] {
        assert_eq!(
            named_paper(&file(path, text)).len(),
            count,
            "{path}: {text}"
        );
    }
}

#[test]
fn backends_outside_device_are_reported() {
    for (count, path, text) in [
        (1, "train/run.rs", "let device = Device::flex();"),
        (1, "nn/bilstm.rs", "use burn::backend::Flex;"),
        (
            0,
            "nn/bilstm.rs",
            "mod tests { fn f() { Device::flex(); } }",
        ),
        (0, "nn/fused/mod.rs", "use burn::backend::Flex;"),
        (0, "device/mod.rs", "Device::flex()"),
    ] {
        assert_eq!(
            named_backend(&file(path, text)).len(),
            count,
            "{path}: {text}"
        );
    }
}

/// Fails with all problems, one per line.
fn report(problems: impl Iterator<Item = String>) {
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Imports of modules that come after the importing module.
fn wrong_direction(file: &SourceFile) -> Vec<String> {
    if ROOTS.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let own = file.module_path().remove(0);
    let Some(level) = level(&own) else {
        return vec![format!(
            "src/{}: the module {own} has no place in ORDER of tests/architecture.rs",
            file.path
        )];
    };
    let is_wrong = |reference: &Reference| match reference.path.first() {
        Some(module) => *module != own && self::level(module).is_none_or(|other| other > level),
        None => false,
    };
    let order = [BASE, ORDER].concat().join(", ");
    (file.references().iter().filter(|reference| is_wrong(reference)))
        .map(|Reference { path, line, .. }| {
            format!(
                "src/{}:{line}: {own} imports crate::{}, but a module may import only modules before it in the order {order}",
                file.path,
                path.join("::"),
            )
        })
        .collect()
}

/// The position of a module in the order; the modules of [`BASE`] share one.
fn level(module: &str) -> Option<usize> {
    if BASE.contains(&module) {
        return Some(0);
    }
    ORDER
        .iter()
        .position(|other| *other == module)
        .map(|position| position + 1)
}

/// Imports of one folder of `heads` in another. Tests of the bundle may join two papers.
fn other_paper(file: &SourceFile) -> Vec<String> {
    let own: Vec<&str> = file.path.split('/').collect();
    let ["heads", folder, _, ..] = own[..] else {
        return Vec::new();
    };
    let is_paper = |name: &str| is_folder(&format!("heads/{name}"));
    (file.references().iter())
        .filter(|reference| !reference.in_tests)
        .filter(|Reference { path, .. }| {
            matches!(&path[..], [heads, other, ..] if heads == "heads" && other != folder && is_paper(other))
        })
        .map(|Reference { path, line, .. }| {
            format!(
                "src/{}:{line}: {folder} imports crate::{}; folders of heads do not import each other, move what both need \
                 to nn or heads",
                file.path,
                path.join("::")
            )
        })
        .collect()
}

/// Names and string literals with the name of a paper, outside of `heads`, `registry` and tests.
fn named_paper(file: &SourceFile) -> Vec<String> {
    let own = file.module_path();
    if ["heads", "registry"].contains(&own[0].as_str()) {
        return Vec::new();
    }
    (file.tokens().iter())
        .filter(|token| !token.in_tests && token.kind != TokenKind::Symbol)
        .filter(|token| {
            let text = token.text.to_lowercase().replace('_', "");
            PAPERS.iter().any(|paper| text.contains(paper))
        })
        .map(|token| {
            format!(
                "src/{}:{}: {} names the head {:?}; only heads and registry may, everything else works for any head",
                file.path, token.line, own[0], token.text
            )
        })
        .collect()
}

/// Names of backends outside of `device`, `nn::fused` and tests.
fn named_backend(file: &SourceFile) -> Vec<String> {
    if file.path.starts_with("device/") || file.path.starts_with("nn/fused/") {
        return Vec::new();
    }
    (file.tokens().iter())
        .filter(|token| !token.in_tests && token.kind == TokenKind::Name)
        .filter(|token| BACKENDS.contains(&token.text.as_str()))
        .map(|token| {
            format!(
                "src/{}:{}: names the backend {}; only device and nn::fused may, others call device::cpu or take a device",
                file.path, token.line, token.text
            )
        })
        .collect()
}

/// Every `unsafe` block or implementation has a comment with its reason before it, and the chapter on limits lists how many
/// each file has. Those of tests count as well.
#[test]
fn unsafe_code_is_explained_and_listed() {
    let mut found = Vec::new();
    for file in files() {
        let tokens = file.tokens();
        let lines: Vec<&str> = file.text.lines().collect();
        let mut count = 0;
        for (index, token) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1).map(|next| next.text.as_str());
            let is_block = token.kind == TokenKind::Name && token.text == "unsafe";
            if !is_block || !matches!(next, Some("{" | "impl")) {
                continue;
            }
            count += 1;
            let before = &lines[token.line.saturating_sub(6)..token.line];
            assert!(
                before
                    .iter()
                    .any(|line| line.trim().starts_with("// SAFETY: ")),
                "src/{}:{}: say why this is safe in a comment `// SAFETY: ...` before it",
                file.path,
                token.line
            );
        }
        if count > 0 {
            found.push((format!("src/{}", file.path), count));
        }
    }
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/src/limits.md");
    let chapter = fs::read_to_string(chapter).unwrap();
    let listed: Vec<(String, usize)> = (chapter.lines())
        .filter_map(|line| {
            let (path, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            let is_source = path.starts_with("src/");
            let (count, _) = rest.split_once(" | ")?;
            is_source.then(|| (path.to_string(), count.parse().unwrap()))
        })
        .collect();
    assert_eq!(
        listed, found,
        "the table of unsafe code in book/src/limits.md (left) is not that of src (right)"
    );
}

/// All files of `src/`.
fn files() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace('\\', "/");
                files.push(file(&name, &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        files.len() > 100,
        "only {} files found in {}",
        files.len(),
        root.display()
    );
    files
}

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile {
        path: path.into(),
        text: text.into(),
    }
}

fn is_folder(path: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src")
        .join(path)
        .is_dir()
}

impl SourceFile {
    /// The path of the file's module: `["nn", "rows"]` for `nn/rows.rs`, `["nn"]` for `nn/mod.rs`.
    fn module_path(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').map(String::from).collect()
    }

    fn tokens(&self) -> Vec<Token> {
        source::tokens(&self.text)
    }

    /// All paths that start with `crate`, `super` or `self`, made absolute. A group gives one path per item.
    fn references(&self) -> Vec<Reference> {
        let tokens = self.tokens();
        let own = self.module_path();
        let mut references = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let starts = ["crate", "super", "self"].contains(&token.text.as_str());
            let is_inner = index > 0 && tokens[index - 1].text == "::";
            let goes_on = tokens.get(index + 1).is_some_and(|next| next.text == "::");
            if token.kind != TokenKind::Name || !starts || is_inner || !goes_on {
                continue;
            }
            let mut module = own.clone();
            module.extend(token.modules.iter().cloned());
            let mut paths = Vec::new();
            source::read_tree(&tokens, index, &module, &mut paths);
            references.extend(paths.into_iter().map(|(path, line)| Reference {
                path,
                line,
                in_tests: token.in_tests,
            }));
        }
        references
    }
}

/// Rust source as tokens.
mod source {
    use std::iter::Peekable;
    use std::str::Chars;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum TokenKind {
        /// An identifier, keyword or number.
        Name,
        /// The content of a string literal.
        Text,
        /// `::` or another character.
        Symbol,
    }

    pub struct Token {
        pub kind: TokenKind,
        pub text: String,
        pub line: usize,
        /// Inline modules around the token.
        pub modules: Vec<String>,
        /// True inside a module `tests`.
        pub in_tests: bool,
    }

    /// The tokens of a file without comments, character literals and lifetimes.
    pub fn tokens(text: &str) -> Vec<Token> {
        let mut reader = Reader {
            rest: text.chars().peekable(),
            line: 1,
            tokens: Vec::new(),
        };
        while reader.read() {}
        let mut tokens = reader.tokens;
        mark_modules(&mut tokens);
        tokens
    }

    /// Sets the inline modules of every token.
    fn mark_modules(tokens: &mut [Token]) {
        // For every open brace the name of the module it opens, if it opens one.
        let mut braces: Vec<Option<String>> = Vec::new();
        for index in 0..tokens.len() {
            let is_symbol = |symbol: &str| {
                tokens[index].kind == TokenKind::Symbol && tokens[index].text == symbol
            };
            if is_symbol("}") {
                braces.pop();
            } else if is_symbol("{") {
                let opens_module = index > 1
                    && tokens[index - 2].text == "mod"
                    && tokens[index - 2].kind == TokenKind::Name;
                braces.push(opens_module.then(|| tokens[index - 1].text.clone()));
            }
            tokens[index].modules = braces.iter().flatten().cloned().collect();
            tokens[index].in_tests = tokens[index].modules.iter().any(|module| module == "tests");
        }
    }

    /// Appends the absolute paths of a use tree or path that starts at `index`, with the line of their last name. Returns
    /// the index of the token after it. `prefix` is the module that relative names start from.
    pub fn read_tree(
        tokens: &[Token],
        index: usize,
        prefix: &[String],
        paths: &mut Vec<(Vec<String>, usize)>,
    ) -> usize {
        let mut path = prefix.to_vec();
        let mut index = index;
        let mut line = tokens.get(index).map_or(0, |token| token.line);
        while let Some(token) = tokens.get(index) {
            match (token.kind, token.text.as_str()) {
                (TokenKind::Name, "crate") => path.clear(),
                (TokenKind::Name, "super") => drop(path.pop()),
                (TokenKind::Name, "self") => {}
                (TokenKind::Name, name) => path.push(name.into()),
                (_, "{") => return read_group(tokens, index + 1, &path, paths),
                _ => break,
            }
            line = token.line;
            index += 1;
            if tokens.get(index).is_none_or(|next| next.text != "::") {
                break;
            }
            index += 1;
        }
        paths.push((path, line));
        index
    }

    /// The items of a group after its opening brace.
    fn read_group(
        tokens: &[Token],
        mut index: usize,
        prefix: &[String],
        paths: &mut Vec<(Vec<String>, usize)>,
    ) -> usize {
        while let Some(token) = tokens.get(index) {
            match (token.kind, token.text.as_str()) {
                (TokenKind::Symbol, "}") => return index + 1,
                (TokenKind::Symbol, ",") => index += 1,
                // `as` and its name, or `*`.
                _ if index > 0 && !["{", ","].contains(&tokens[index - 1].text.as_str()) => {
                    index += 1
                }
                (TokenKind::Symbol, "*") => {
                    paths.push((prefix.to_vec(), token.line));
                    index += 1;
                }
                _ => index = read_tree(tokens, index, prefix, paths),
            }
        }
        index
    }

    struct Reader<'a> {
        rest: Peekable<Chars<'a>>,
        line: usize,
        tokens: Vec<Token>,
    }

    impl Reader<'_> {
        /// Reads a token, comment or space; false at the end of the file.
        fn read(&mut self) -> bool {
            let line = self.line;
            let Some(first) = self.next() else {
                return false;
            };
            match (first, self.rest.peek().copied()) {
                ('/', Some('/')) => {
                    while self.rest.peek().is_some_and(|next| *next != '\n')
                        && self.next().is_some()
                    {}
                }
                ('/', Some('*')) => self.skip_comment(),
                ('"', _) => self.read_string(line, None),
                ('\'', _) => self.skip_quote(),
                (':', Some(':')) => {
                    self.next();
                    self.push(TokenKind::Symbol, "::".into(), line);
                }
                (first, _) if is_name(first) => self.read_name(first, line),
                (first, _) if first.is_whitespace() => {}
                (first, _) => self.push(TokenKind::Symbol, first.into(), line),
            }
            true
        }

        fn next(&mut self) -> Option<char> {
            let next = self.rest.next();
            self.line += usize::from(next == Some('\n'));
            next
        }

        fn push(&mut self, kind: TokenKind, text: String, line: usize) {
            self.tokens.push(Token {
                kind,
                text,
                line,
                modules: Vec::new(),
                in_tests: false,
            });
        }

        /// A name, or the prefix of a string literal such as `r#"…"#` or `b"…"`.
        fn read_name(&mut self, first: char, line: usize) {
            let mut name = String::from(first);
            while let Some(next) = self.rest.next_if(|next| is_name(*next)) {
                name.push(next);
            }
            let is_raw = ["r", "br", "cr"].contains(&name.as_str());
            let is_prefix = is_raw || ["b", "c"].contains(&name.as_str());
            let mut hashes = 0;
            while is_raw && self.rest.next_if_eq(&'#').is_some() {
                hashes += 1;
            }
            if is_prefix && self.rest.next_if_eq(&'"').is_some() {
                self.read_string(line, is_raw.then_some(hashes));
            } else if hashes == 0 {
                self.push(TokenKind::Name, name, line);
            }
        }

        /// The rest of a string literal after its opening quote. A raw one ends with a quote and `hashes` hash signs.
        fn read_string(&mut self, line: usize, raw_hashes: Option<usize>) {
            let end = format!("\"{}", "#".repeat(raw_hashes.unwrap_or(0)));
            let mut text = String::new();
            while let Some(next) = self.next() {
                text.push(next);
                if raw_hashes.is_none() && next == '\\' {
                    text.extend(self.next());
                } else if text.ends_with(&end) {
                    text.truncate(text.len() - end.len());
                    break;
                }
            }
            self.push(TokenKind::Text, text, line);
        }

        /// The rest of a block comment, which may contain others.
        fn skip_comment(&mut self) {
            self.next();
            let mut depth = 1;
            while depth > 0 {
                match (self.next(), self.rest.peek()) {
                    (None, _) => return,
                    (Some('/'), Some('*')) => depth += 1,
                    (Some('*'), Some('/')) => depth -= 1,
                    _ => continue,
                }
                self.next();
            }
        }

        /// The rest of a character literal after its opening quote. Of a lifetime only the quote is skipped.
        fn skip_quote(&mut self) {
            let mut ahead = self.rest.clone();
            let is_escape = ahead.next() == Some('\\');
            if !is_escape && ahead.next() != Some('\'') {
                return;
            }
            self.next();
            if is_escape {
                self.next();
            }
            while self.next().is_some_and(|next| next != '\'') {}
        }
    }

    fn is_name(character: char) -> bool {
        character.is_alphanumeric() || character == '_'
    }
}
