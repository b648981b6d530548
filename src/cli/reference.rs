//! `nerzoo reference`: two chapters of the book, made from the command line's and the settings' own descriptions.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Arg, Args, CommandFactory, ValueEnum};
use serde_json::Value;

use super::Cli;
use super::heads::{chosen_on_dev, default_of};
use crate::heads::settings::Setting;
use crate::recipe::describe;
use crate::registry;

/// Arguments of `reference`.
#[derive(Debug, Args)]
pub struct Reference {
    /// The chapter to print as Markdown.
    chapter: ReferenceChapter,
}

/// A generated chapter of the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReferenceChapter {
    /// Every command with its arguments: `book/src/reference-commands.md`.
    Commands,
    /// Every key of a recipe and every setting of a head: `book/src/reference-settings.md`.
    Settings,
}

impl Reference {
    /// Prints the chapter.
    pub fn run(self) -> Result<ExitCode> {
        print!("{}", markdown(self.chapter));
        Ok(ExitCode::SUCCESS)
    }
}

/// A generated chapter.
pub fn markdown(chapter: ReferenceChapter) -> String {
    let mut page = Page(String::new());
    match chapter {
        ReferenceChapter::Commands => page.commands(),
        ReferenceChapter::Settings => page.settings(),
    }
    let text = page.0.trim_end();
    format!("{text}\n")
}

/// Markdown that is being written.
struct Page(String);

impl Page {
    /// Adds a paragraph.
    fn paragraph(&mut self, text: &str) {
        self.0.push_str(text.trim_end());
        self.0.push_str("\n\n");
    }

    fn commands(&mut self) {
        self.paragraph("# Commands");
        self.paragraph("<!-- made by `nerzoo reference commands`: do not edit -->");
        self.paragraph(
            "All commands with all their options, as `nerzoo COMMAND --help` prints them. Every command also takes `-v` \
             (log more; twice for debug output) and `-h` (help).",
        );
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands().filter(|command| !is_hidden(command)) {
            self.command(command, command.get_name(), 2);
        }
    }

    /// A command, then those inside it.
    fn command(&mut self, command: &clap::Command, name: &str, level: usize) {
        self.paragraph(&format!("{} {name}", "#".repeat(level)));
        let about = command.get_about().map(|about| escape(&about.to_string()));
        self.paragraph(&format!(
            "{}.",
            about.unwrap_or_default().trim_end_matches('.')
        ));
        let inner: Vec<&clap::Command> = command
            .get_subcommands()
            .filter(|command| !is_hidden(command))
            .collect();
        if inner.is_empty() {
            let usage = command.clone().render_usage().to_string();
            let usage = usage
                .trim_start_matches("Usage: ")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            self.paragraph(&format!("```text\n{usage}\n```"));
            let (positional, options): (Vec<&Arg>, Vec<&Arg>) = command
                .get_arguments()
                .filter(|argument| {
                    !argument.is_hide_set()
                        && !matches!(argument.get_id().as_str(), "help" | "verbose")
                })
                .partition(|argument| argument.is_positional());
            for argument in positional.into_iter().chain(options) {
                self.argument(argument);
            }
            self.0.push('\n');
            if let Some(examples) = command.get_after_help() {
                let examples = examples.to_string();
                let lines = examples.lines().skip(1).map(str::trim_start);
                self.paragraph(&format!(
                    "```text\n{}\n```",
                    lines.collect::<Vec<_>>().join("\n").trim()
                ));
            }
        }
        for command in inner {
            self.command(
                command,
                &format!("{name} {}", command.get_name()),
                level + 1,
            );
        }
    }

    /// An argument as an item of a list.
    fn argument(&mut self, argument: &Arg) {
        let help = argument
            .get_help()
            .map(|help| escape(&help.to_string()))
            .unwrap_or_default();
        let _ = write!(
            self.0,
            "- `{}`: {}.",
            spelling(argument),
            help.trim_end_matches('.')
        );
        let values: Vec<String> = (argument.get_possible_values().iter())
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !values.is_empty() && argument.get_action().takes_values() {
            let _ = write!(self.0, " One of {}.", values.join(", "));
        }
        let defaults: Vec<_> = argument
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        if !defaults.is_empty() && argument.get_action().takes_values() {
            let _ = write!(self.0, " Default: `{}`.", defaults.join(","));
        }
        if let Some(variable) = argument.get_env() {
            let _ = write!(self.0, " Environment: `{}`.", variable.to_string_lossy());
        }
        if argument.is_required_set() && !argument.is_positional() {
            self.0.push_str(" Required.");
        }
        self.0.push('\n');
    }

    fn settings(&mut self) {
        self.paragraph("# Recipe keys and settings");
        self.paragraph("<!-- made by `nerzoo reference settings`: do not edit -->");
        self.paragraph(
            "All keys of a [recipe](recipes.md) and all settings of the heads, from the code. A recipe also has, at its top, \
             `about` (its purpose in one line) and `sample` (a text to tag after training).",
        );
        for table in describe::tables() {
            self.paragraph(&format!("## `[{}]`", table.name));
            self.keys(&table.keys);
        }
        self.paragraph("## Settings of the heads");
        self.paragraph(
            "Settings under `[head]`, beside `name`. Those marked \\* can change after training (`--set head.NAME=VALUE`). Values \
             after \"chosen on dev\" are tried at the end of training, unless `train.tune = false`. A bundle of two heads has \
             `alpha`, `output` and the settings of both under `seq` and `span`.",
        );
        for entry in registry::heads() {
            let settings = (entry.settings)();
            let is_bundle = settings.iter().any(|setting| setting.name.contains('.'));
            self.paragraph(&format!("### `{}`", entry.name));
            self.paragraph(&format!("{}.", escape(entry.paper)));
            let own: Vec<Setting> = settings
                .into_iter()
                .filter(|setting| !setting.name.contains('.'))
                .collect();
            self.keys(&own);
            if is_bundle {
                self.paragraph("With the settings of its two heads under `seq` and `span`.");
            }
        }
    }

    /// Keys as a list.
    fn keys(&mut self, keys: &[Setting]) {
        for key in keys {
            let mark = if key.at_inference { " \\*" } else { "" };
            let doc = escape(key.doc.trim_end_matches('.'));
            let is_empty = key
                .defaults
                .iter()
                .all(|(_, value)| matches!(value, Value::Null) || *value == "");
            let default = if is_empty {
                "none".to_string()
            } else {
                format!("`{}`", default_of(key))
            };
            let chosen = chosen_on_dev(key).replace("; chosen", ", chosen");
            let kind = key.kind.replace(" | ", ", ");
            let _ = writeln!(
                self.0,
                "- `{}`{mark} ({kind}): {doc}. Default: {default}{chosen}.",
                key.name
            );
        }
        self.0.push('\n');
    }
}

/// An argument as it is typed.
fn spelling(argument: &Arg) -> String {
    let short = argument
        .get_short()
        .map(|short| format!("-{short}, "))
        .unwrap_or_default();
    let values = argument.to_string();
    match argument.get_long() {
        Some(_) => format!("{short}{values}"),
        None => values,
    }
}

fn is_hidden(command: &clap::Command) -> bool {
    command.is_hide_set() || command.get_name() == "help"
}

/// Text in which nothing outside of code marks is read as HTML, emphasis or a link.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index > 0 {
            escaped.push('`');
        }
        for character in part.chars() {
            if index % 2 == 0 && matches!(character, '<' | '*' | '_' | '[' | '$') {
                escaped.push('\\');
            }
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_outside_of_code_is_escaped() {
        assert_eq!(escape("a <b> `<c_d>` x_y"), "a \\<b> `<c_d>` x\\_y");
    }

    #[test]
    fn every_command_and_head_is_described() {
        let commands = markdown(ReferenceChapter::Commands);
        for name in [
            "## train",
            "### data check",
            "### zoo publish",
            "- `--device <DEVICE>`",
        ] {
            assert!(commands.contains(name), "{name}");
        }
        let settings = markdown(ReferenceChapter::Settings);
        for name in [
            "`learning_rate` (number)",
            "### `diffusion_ner`",
            "`pooling` (first, mean, max)",
        ] {
            assert!(settings.contains(name), "{name}\n{settings}");
        }
    }
}
