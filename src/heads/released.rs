//! Checkpoints that papers' authors trained: the settings of their programs, and the models made of both.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::import::{ImportedHead, problem};
use crate::encoder::features::FeatureConfig;
use crate::encoder::{LayerPooling, Pooling, RowLayout};
use crate::error::{Error, Result};
use crate::text::Labels;

/// A model made of a checkpoint that a paper's authors trained.
#[derive(Debug, Clone)]
pub struct ReleasedModel<C> {
    /// The head.
    pub head: ImportedHead<C>,
    /// The encoder's weights under Hugging Face names, as the bytes of a safetensors file.
    pub encoder: Vec<u8>,
    /// Word features and their weights, if the model has such.
    pub features: Option<(FeatureConfig, Vec<u8>)>,
    /// How the states of a word's pieces become the word's state.
    pub pooling: Pooling,
    /// Which layers a piece's state is taken from.
    pub layers: LayerPooling,
    /// Number of neighbouring sentences read with each one, on each side.
    pub context: usize,
    /// Where the special pieces of a row are.
    pub rows: RowLayout,
}

/// The settings of the authors' program by name.
#[derive(Debug, Clone, Default)]
pub struct ReleasedSettings {
    values: Map<String, Value>,
}

impl ReleasedSettings {
    /// The settings in a table; those of a table `config` in it as well.
    pub fn new(mut values: Map<String, Value>) -> Self {
        if let Some(Value::Object(inner)) = values.remove("config") {
            for (key, value) in inner {
                values.entry(key).or_insert(value);
            }
        }
        Self { values }
    }

    /// A value, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// A text that is not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    fn expected(&self, key: &str, kind: &str) -> Error {
        let value = self.get(key).map(Value::to_string).unwrap_or_default();
        problem(format!("{key} = {value} in the settings is not {kind}"))
    }

    /// A number, if it is given.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| number.is_finite());
        number
            .map(Some)
            .ok_or_else(|| self.expected(key, "a number"))
    }

    /// A whole number, if it is given.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        count
            .map(Some)
            .ok_or_else(|| self.expected(key, "a whole number"))
    }

    /// True or false, if it is given.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| self.expected(key, "true or false"))
    }

    /// One of several names, if it is given.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let found = choices.iter().find(|(name, _)| value == name);
        let names = || {
            choices
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        found.map(|(_, choice)| Some(*choice)).ok_or_else(|| {
            problem(format!(
                "{key} = {value} in the settings is not supported; supported: {}",
                names()
            ))
        })
    }

    /// Fails if a setting is given and has another value than the only one that is implemented.
    pub(super) fn only(&self, key: &str, supported: impl Into<Value>) -> Result<()> {
        let supported = supported.into();
        match self.get(key) {
            Some(value) if *value != supported => Err(problem(format!(
                "{key} = {value} in the settings is not supported; supported: {supported}"
            ))),
            _ => Ok(()),
        }
    }

    /// A list of texts, if it is given.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let list = value.as_array().and_then(|list| {
            let texts = list.iter().map(|item| item.as_str().map(String::from));
            texts.collect::<Option<Vec<String>>>()
        });
        list.map(Some)
            .ok_or_else(|| self.expected(key, "a list of texts"))
    }

    /// The entity types, which the head numbers in the order of this list: sorted, and for each the number in the checkpoint.
    /// A class for no entity at the start of the list is not counted.
    pub(super) fn types(&self, count: usize) -> Result<(Labels, Vec<usize>)> {
        let Some(mut names) = self.texts("types")? else {
            return Err(problem(format!(
                "the settings do not name the {count} entity types; give them with --types, in the order in which the \
                 authors' program numbers them"
            )));
        };
        if names.len() == count + 1 && names[0].eq_ignore_ascii_case("none") {
            names.remove(0);
        }
        if names.len() != count {
            return Err(problem(format!(
                "it has {count} entity types, but {} are named",
                names.len()
            )));
        }
        let labels = Labels::new(names.iter().cloned());
        labels.check().map_err(problem)?;
        let index: BTreeMap<&String, usize> = names.iter().zip(0..).collect();
        let order: Vec<usize> = labels
            .names()
            .iter()
            .filter_map(|name| index.get(name).copied())
            .collect();
        if order.len() != count {
            return Err(problem("a name of an entity type occurs twice".into()));
        }
        Ok((labels, order))
    }
}

/// The order of a classifier's classes for sorted types: class 0, for no entity, stays the first.
pub(super) fn class_order(types: &[usize]) -> Vec<usize> {
    [0].into_iter()
        .chain(types.iter().map(|number| number + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(value: Value) -> ReleasedSettings {
        ReleasedSettings::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn types_are_sorted_and_keep_their_numbers() {
        let read = |types: Value, count| settings(json!({"types": types})).types(count);
        let (labels, order) = read(json!(["None", "b", "a", "c"]), 3).unwrap();
        assert_eq!(labels.names(), ["a", "b", "c"]);
        assert_eq!(order, [1, 0, 2]);
        assert_eq!(class_order(&order), [0, 2, 1, 3]);
        assert_eq!(read(json!(["none", "a"]), 2).unwrap().1, [1, 0]);
        for (types, count, part) in [
            (json!(null), 2, "--types"),
            (json!("a"), 1, "list of texts"),
            (json!(["a"]), 2, "but 1"),
            (json!(["a", "a"]), 2, "twice"),
            (json!(["a", ""]), 2, "label"),
        ] {
            let problem = read(types, count).unwrap_err().to_string();
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn settings_have_the_right_kinds() {
        let all =
            settings(json!({"a": 1, "b": "x", "c": true, "d": null, "config": {"a": 2, "e": 2.5}}));
        assert_eq!(all.count("a").unwrap(), Some(1));
        assert_eq!(all.number("e").unwrap(), Some(2.5));
        assert_eq!(
            (all.count("d").unwrap(), all.flag("c").unwrap()),
            (None, Some(true))
        );
        assert_eq!(all.choice("b", &[("y", 1), ("x", 2)]).unwrap(), Some(2));
        assert!(
            all.only("c", true).is_ok()
                && all.only("z", 1).is_ok()
                && all.only("c", false).is_err()
        );
        for problem in [
            all.count("e").unwrap_err(),
            all.number("b").unwrap_err(),
            all.flag("a").unwrap_err(),
            all.choice("b", &[("y", 1)]).unwrap_err(),
        ] {
            assert!(
                problem.to_string().contains("in the settings is not"),
                "{problem}"
            );
        }
    }
}
