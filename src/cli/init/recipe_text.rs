//! The text of the new recipe: settings with their reasons as comments.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;

use super::{Init, Parts};
use crate::data::stats::Stats;
use crate::heads::Suggestion;
use crate::recipe::defaults::Defaults;
use crate::registry::Entry;
use crate::text::Labels;

/// Longest line of a comment.
const LINE: usize = 110;

/// Results of other corpora that are mentioned.
const RESULTS: usize = 3;

/// Everything the text depends on.
pub struct RecipeText<'a> {
    /// The arguments.
    pub init: &'a Init,
    /// The head.
    pub entry: &'a Entry,
    /// The sentences.
    pub parts: &'a Parts,
    /// Statistics of the training sentences.
    pub stats: Stats,
    /// The settings.
    pub defaults: Defaults,
    /// How long training takes, if measured.
    pub time: Option<String>,
}

impl RecipeText<'_> {
    /// The recipe as TOML.
    pub fn write(&self) -> Result<String> {
        let mut text = String::new();
        self.about_part(&mut text)?;
        self.data_part(&mut text)?;
        self.encoder_part(&mut text)?;
        self.head_part(&mut text)?;
        self.train_part(&mut text)?;
        Ok(text)
    }

    /// Remarks on the data that the user should see before training.
    pub fn notes(&self) -> Vec<String> {
        let (train, dev) = (self.parts.train.len(), self.parts.dev.len());
        let mut notes = Vec::new();
        if dev > train {
            notes.push(format!(
                "dev has {dev} sentences, more than the {train} to train on: scoring it after every epoch slows training \
                 down. Fewer are enough to choose the best checkpoint; `nerzoo data split` makes smaller files"
            ));
        }
        if dev > 0 && Labels::of(&self.parts.dev).is_empty() {
            notes.push(
                "the dev sentences have no entities: every checkpoint will have an F1 of 0, and the best one is not known"
                    .into(),
            );
        }
        notes
    }

    fn about_part(&self, text: &mut String) -> Result<()> {
        let (stats, labels) = (&self.stats, Labels::of(&self.parts.train));
        writeln!(
            text,
            "# A recipe describes a training run. Edit it, or override values with --set key=value."
        )?;
        writeln!(
            text,
            "# Training: {} sentences, {} words ({:.1} per sentence), {} entities of {} types: {}.",
            stats.sentences,
            stats.words,
            stats.sentence_lengths.mean,
            stats.entities,
            labels.len(),
            labels.names().join(", ").replace(['\n', '\r'], " ")
        )?;
        if stats.misaligned > 0 {
            writeln!(
                text,
                "# {} of them do not start and end at word boundaries; no model can find these.",
                stats.misaligned
            )?;
        }
        if stats.discontinuous > 0 {
            writeln!(
                text,
                "# {} of them are discontinuous; no model here finds these.",
                stats.discontinuous
            )?;
        }
        if stats.nested > 0 && !self.entry.nested {
            writeln!(
                text,
                "# {} entities are nested. {} is flat: it learns the outermost ones only.",
                stats.nested, self.init.head
            )?;
        }
        if let Some(time) = &self.time {
            comment(text, &format!("Estimated when this was written: {time}."))?;
        }
        Ok(())
    }

    fn data_part(&self, text: &mut String) -> Result<()> {
        let init = self.init;
        writeln!(text, "\n[data]")?;
        match &init.corpus {
            Some(name) => writeln!(text, "corpus = {}", quoted(name))?,
            None => {
                writeln!(
                    text,
                    "# Paths are relative to the folder in which nerzoo is started."
                )?;
                writeln!(text, "train = {}", paths(&init.train))?;
            }
        }
        if self.parts.dev.is_empty() {
            writeln!(
                text,
                "# No dev files: a tenth of the training sentences, by document, is held out."
            )?;
        }
        for note in self.notes() {
            comment(text, &format!("Note: {note}."))?;
        }
        for (name, list) in [("dev", &init.dev), ("test", &init.test)] {
            if !list.is_empty() {
                writeln!(text, "{name} = {}", paths(list))?;
            }
        }
        if let Some(limit) = init.limit {
            writeln!(
                text,
                "limit = {limit}   # the first training sentences only"
            )?;
        }
        let options = toml::Table::try_from(init.format.options())?;
        if !options.is_empty() {
            writeln!(text, "options = {}", toml::Value::from(options))?;
        }
        Ok(())
    }

    fn encoder_part(&self, text: &mut String) -> Result<()> {
        if let Some(encoder) = &self.init.encoder {
            writeln!(text, "\n[encoder]\npretrained = {}", quoted(encoder))?;
            writeln!(
                text,
                "# pooling = \"max\"   # or first, mean: how a word's pieces become its state"
            )?;
            return Ok(());
        }
        // Few words fill few pieces; a vocabulary much larger than the corpus learns nothing.
        let vocabulary = (self.stats.words / 20).clamp(500, 8000) / 100 * 100;
        writeln!(
            text,
            "\n# No pretrained encoder was given, so a small one is trained on these sentences alone."
        )?;
        writeln!(
            text,
            "# With --encoder FOLDER results are usually much better."
        )?;
        writeln!(
            text,
            "[encoder.scratch]\nvocabulary = {vocabulary}\nlayers = 2\nwidth = 128"
        )?;
        Ok(())
    }

    /// The settings of the head, those of a bundle's parts in tables of their own.
    fn head_part(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n[head]\nname = {}", quoted(&self.init.head))?;
        // A key without a dot belongs to [head] itself and must come before the tables of the parts.
        let mut settings: Vec<(&str, &str, &Suggestion)> = (self.defaults.head.iter())
            .map(|one| {
                let (part, key) = one.setting.rsplit_once('.').unwrap_or(("", &one.setting));
                (part, key, one)
            })
            .collect();
        settings.sort_by_key(|(part, ..)| *part);
        let (mut table, mut reason) = ("", "");
        for (part, key, one) in settings {
            if part != table {
                writeln!(text, "\n[head.{part}]")?;
                (table, reason) = (part, "");
            }
            setting(text, key, one, &mut reason)?;
        }
        Ok(())
    }

    fn train_part(&self, text: &mut String) -> Result<()> {
        writeln!(text, "\n[train]")?;
        let mut reason = "";
        for one in &self.defaults.train {
            setting(text, &one.setting, one, &mut reason)?;
        }
        for result in self.defaults.measured.iter().take(RESULTS) {
            comment(
                text,
                &format!(
                    "Measured with these settings: F1 {:.1} on {} ({} sentences, {}).",
                    result.f1, result.corpus, result.sentences, result.encoder
                ),
            )?;
        }
        Ok(())
    }
}

/// Writes a setting, under its reason if that is not the one before.
fn setting<'a>(
    text: &mut String,
    key: &str,
    one: &'a Suggestion,
    reason: &mut &'a str,
) -> Result<()> {
    if *reason != one.reason {
        comment(text, &one.reason)?;
        *reason = &one.reason;
    }
    writeln!(text, "{key} = {}", value(&one.value))?;
    Ok(())
}

/// A value as TOML; small numbers such as learning rates as 5e-5.
fn value(value: &serde_json::Value) -> String {
    match value.as_f64() {
        Some(number) if number != 0.0 && number.abs() < 0.01 => format!("{number:e}"),
        _ => value.to_string(),
    }
}

/// Writes a comment in lines of at most [`LINE`] characters.
fn comment(text: &mut String, words: &str) -> Result<()> {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > LINE {
            writeln!(text, "{line}")?;
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(text, "{line}")?;
    Ok(())
}

fn quoted(text: &str) -> toml::Value {
    toml::Value::String(text.into())
}

fn paths(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths
        .iter()
        .map(|path| quoted(&path.display().to_string()).to_string())
        .collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_wrapped() {
        let mut text = String::new();
        let words = "word ".repeat(30);
        comment(&mut text, &words).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), 106);
        assert!(lines.iter().all(|line| line.starts_with("# word")));
    }

    #[test]
    fn a_reason_is_written_once() {
        let suggestion = |setting: &str, value: f64, reason: &str| Suggestion {
            setting: setting.into(),
            value: value.into(),
            reason: reason.into(),
        };
        let list = [
            suggestion("a", 1e-4, "One."),
            suggestion("b", 3e-5, "One."),
            suggestion("c", 2.5, "Two."),
        ];
        let mut text = String::new();
        let mut reason = "";
        for one in &list {
            setting(&mut text, &one.setting, one, &mut reason).unwrap();
        }
        assert_eq!(text, "# One.\na = 1e-4\nb = 3e-5\n# Two.\nc = 2.5\n");
    }
}
