//! From a text and what the command line sets to a recipe.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::Recipe;
use crate::error::{Error, Result, explain, key_problem};

impl Recipe {
    /// Reads a recipe and applies `key=value` overrides such as `train.batch=16`.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::io(path, source))?;
        Self::parse(&text, &path.display().to_string(), overrides)
    }

    /// The same from a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self> {
        let located = |problem: toml::de::Error| {
            let line = problem.span().map_or(0, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            let place = if line > 0 {
                format!("{origin}:{line}")
            } else {
                origin.to_string()
            };
            Error::Config(format!("{place}: {}", explain(problem.message())))
        };
        let recipe: Self = toml::from_str(text).map_err(located)?;
        if overrides.is_empty() {
            return recipe.bundled().checked(origin);
        }
        let mut table: Table = toml::from_str(text).map_err(located)?;
        for override_ in overrides {
            set(&mut table, override_)?;
        }
        from_table::<Self>(table, &format!("{origin} with --set"))?
            .bundled()
            .checked(origin)
    }

    /// Turns `bundle.with` into the head that the two make together.
    fn bundled(mut self) -> Self {
        let Some(bundle) = self.bundle.take() else {
            return self;
        };
        let name = self.head_name().to_string();
        let mut knobs = std::mem::take(&mut self.head);
        knobs.remove("name");
        // Of two the tagger is named first; a head bundled with itself will not be found in the zoo.
        let (output, names) = match name.as_str() {
            "seq_ner" => ("seq", format!("seq_ner+{}", bundle.with)),
            _ => ("span", format!("{}+{name}", bundle.with)),
        };
        self.head.insert("name".into(), Value::String(names));
        self.head.insert("alpha".into(), Value::Float(bundle.alpha));
        self.head
            .insert("output".into(), Value::String(output.into()));
        self.head.insert(output.into(), Value::Table(knobs));
        self
    }
}

/// Reads a table; an error names the key and, for a misspelt one, what may be meant.
fn from_table<T: DeserializeOwned>(table: Table, origin: &str) -> Result<T> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|problem| {
        let found = key_problem(&problem.path().to_string(), problem.inner().message());
        Error::Config(format!("{origin}: {found}"))
    })
}

/// Applies one `a.b.c=value`. The value is TOML, or else a plain string.
fn set(table: &mut Table, assignment: &str) -> Result<()> {
    let Some((key, value)) = assignment.split_once('=') else {
        return Err(Error::Config(format!(
            "--set {assignment}: write it as key=value, for example train.batch=16"
        )));
    };
    let value = toml::from_str::<Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_string()));
    let mut parts: Vec<&str> = key.trim().split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut place = table;
    for part in parts {
        place = place
            .entry(part)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| {
                Error::Config(format!(
                    "--set {assignment}: {part} is a value, not a table"
                ))
            })?;
    }
    place.insert(last.to_string(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n";

    #[test]
    fn overrides_reach_every_depth() {
        let sets = [
            "train.batch=4",
            "encoder.scratch.width=64",
            "data.corpus=genia",
        ]
        .map(String::from);
        let recipe = Recipe::parse(SMALL, "r.toml", &sets).unwrap();
        assert_eq!(recipe.train.batch, 4);
        assert_eq!(recipe.encoder.scratch.unwrap().width, 64);
        assert_eq!(recipe.data.corpus.unwrap(), "genia");
    }

    #[test]
    fn misspelt_keys_get_a_line_and_a_suggestion() {
        let text = format!("{SMALL}[train]\nepoch = 3\n");
        let problem = Recipe::parse(&text, "r.toml", &[]).unwrap_err().to_string();
        assert!(problem.starts_with("r.toml:6"), "{problem}");
        assert!(problem.contains("did you mean `epochs`"), "{problem}");
        let sets = ["train.bach=4".to_string()];
        let problem = Recipe::parse(SMALL, "r.toml", &sets)
            .unwrap_err()
            .to_string();
        assert!(problem.contains("did you mean `batch`"), "{problem}");
    }

    #[test]
    fn a_line_bundles_two_heads() {
        let sets = ["bundle.with=span_ner", "head.decoder=crf"].map(String::from);
        let recipe = Recipe::parse(SMALL, "r.toml", &sets).unwrap();
        assert_eq!(recipe.head_name(), "seq_ner+span_ner");
        assert_eq!(recipe.head["output"].as_str(), Some("seq"));
        assert_eq!(recipe.head["seq"]["decoder"].as_str(), Some("crf"));
        let sets = ["bundle.with=seq_ner", "head.name=span_ner"].map(String::from);
        let recipe = Recipe::parse(SMALL, "r.toml", &sets).unwrap();
        assert_eq!(recipe.head_name(), "seq_ner+span_ner");
        assert_eq!(recipe.head["output"].as_str(), Some("span"));
    }
}
