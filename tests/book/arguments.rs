//! Parses the commands that the book and `--help` show, without running them: their options have to exist.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use nerzoo::cli::{Cli, arguments};

use super::markdown::Chapter;

/// Commands of a chapter that the program would refuse.
pub fn bad_commands(chapter: &Chapter) -> Vec<String> {
    let mut problems = Vec::new();
    for block in chapter
        .blocks()
        .iter()
        .filter(|block| block.language == "sh")
    {
        let bad = commands(&block.body)
            .into_iter()
            .filter_map(|words| refused(&words));
        problems.extend(bad.map(|problem| format!("line {}: {problem}", block.line)));
    }
    problems
}

/// Every command has at least two examples in its help, and the program takes them.
pub fn check_examples() -> Result<(), String> {
    let mut cli = Cli::command();
    cli.build();
    let mut waiting: Vec<clap::Command> = cli.get_subcommands().cloned().collect();
    while let Some(command) = waiting.pop() {
        let inner: Vec<clap::Command> = command.get_subcommands().cloned().collect();
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        if !inner.is_empty() {
            waiting.extend(inner);
            continue;
        }
        let name = command.get_bin_name().unwrap_or_default().to_string();
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let examples = commands(&help);
        if examples.len() < 2 {
            return Err(format!(
                "{name} --help has {} examples, not two",
                examples.len()
            ));
        }
        if let Some(problem) = examples.iter().find_map(|words| refused(words)) {
            return Err(format!("an example of {name} --help: {problem}"));
        }
    }
    Ok(())
}

/// Why the program refuses these words, if it does.
fn refused(words: &[String]) -> Option<String> {
    let given = arguments(words.iter().map(Into::into));
    let problem = Cli::try_parse_from(given).err()?;
    let is_help = matches!(
        problem.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    (!is_help).then(|| format!("{}: {problem}", words.join(" ")))
}

/// The commands `nerzoo ...` of a script, each as its words.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let joined = script.replace("\\\n", " ");
    let mut lines = joined.lines();
    while let Some(line) = lines.next() {
        for words in words(line) {
            let program = words.iter().position(|word| word == "nerzoo");
            let is_built =
                words[..2] == ["cargo", "run"] && !words.iter().any(|word| word == "--example");
            let built = words
                .iter()
                .position(|word| word == "--")
                .filter(|_| is_built);
            match (program, built) {
                (Some(at), _) if words[..at].iter().all(|word| word.contains('=')) => {
                    found.push(words[at..].to_vec())
                }
                (_, Some(at)) => found.push([&["nerzoo".to_string()], &words[at + 1..]].concat()),
                _ => {}
            }
        }
        // The lines of a here-document are not commands.
        if let Some((_, end)) = line.split_once("<<") {
            let end = end.trim().trim_matches('\'').to_string();
            lines
                .by_ref()
                .take_while(|line| **line != end)
                .for_each(drop);
        }
    }
    found
}

/// The words of each command of a line: commands end at `|`, `&`, `;`, and what follows `<`, `>` or `#` is left out.
fn words(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let finish = |word: &mut Option<String>, commands: &mut Vec<Vec<String>>| {
        commands
            .last_mut()
            .expect("never empty")
            .extend(word.take());
    };
    let mut after_redirection = false;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), inner) => word.get_or_insert_default().push(inner),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | ';') => {
                finish(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, '<' | '>') => {
                finish(&mut word, &mut commands);
                after_redirection = true;
            }
            (None, space) if space.is_whitespace() => {
                if after_redirection && word.is_some() {
                    word = None;
                    after_redirection = false;
                }
                finish(&mut word, &mut commands);
            }
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    if !after_redirection {
        finish(&mut word, &mut commands);
    }
    commands.retain(|words| words.len() > 1);
    commands
}

/// The splitting itself, on small examples.
pub fn check_splitting() {
    let script = "echo 'a | b' | nerzoo predict --model 'x y' - > out.txt # why\nX=1 nerzoo heads \\\n  bopn\n\
                  cat > f <<'END'\nnerzoo no command\nEND\ncargo run --release --features cuda -- train r.toml";
    let found: Vec<String> = commands(script)
        .iter()
        .map(|words| words.join("·"))
        .collect();
    let wanted = [
        "nerzoo·predict·--model·x y·-",
        "nerzoo·heads·bopn",
        "nerzoo·train·r.toml",
    ];
    assert_eq!(found, wanted);
}
