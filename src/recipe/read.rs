//! Reads a recipe from TOML and applies the overrides of `--set`.

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::Recipe;
use super::set::Assignment;
use crate::error::{Error, Result, explain, key_problem};
use crate::files::read_stream_text;

/// Longest recipe that is read, in bytes.
const LONGEST: u64 = 16 << 20;

impl Recipe {
    /// Reads a recipe and applies `key=value` overrides such as `train.batch=16`.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        let text = read_stream_text(path, LONGEST)?;
        Self::parse(&text, &path.display().to_string(), overrides)
    }

    /// Parses a recipe from a string; `origin` names it in error messages.
    ///
    /// ```
    /// use nerzoo::recipe::Recipe;
    ///
    /// # fn main() -> nerzoo::error::Result<()> {
    /// let text = "[data]\ncorpus = \"quickstart\"\n[head]\nname = \"seq_ner\"\n";
    /// let recipe = Recipe::parse(text, "example", &["train.batch=4".into()])?;
    /// assert_eq!((recipe.head_name(), recipe.train.batch), ("seq_ner", 4));
    ///
    /// // Misspelt keys are refused, with a suggestion.
    /// let problem = Recipe::parse(text, "example", &["train.bach=4".into()]).unwrap_err();
    /// assert!(problem.to_string().contains("did you mean `batch`"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Self> {
        let located = |problem: toml::de::Error| {
            let line = problem.span().map_or(0, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            let location = if line > 0 {
                format!("{origin}:{line}")
            } else {
                origin.to_string()
            };
            Error::Config(format!("{location}: {}", explain(problem.message())))
        };
        let recipe: Self = toml::from_str(text).map_err(located)?;
        if overrides.is_empty() {
            return recipe.checked(origin);
        }
        let mut table: Table = toml::from_str(text).map_err(located)?;
        for text in overrides {
            Assignment::parse(text)?.apply(&mut table)?;
        }
        from_table::<Self>(table, &format!("{origin} with --set"))?.checked(origin)
    }
}

/// Deserializes a table; an error names the key and, for a misspelt one, the nearest known key.
fn from_table<T: DeserializeOwned>(table: Table, origin: &str) -> Result<T> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|problem| {
        let found = key_problem(&problem.path().to_string(), problem.inner().message());
        Error::Config(format!("{origin}: {found}"))
    })
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
}
