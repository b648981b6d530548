//! Settings of heads: defaults by preset, range checks, old spellings and descriptions, all in one style.
//!
//! A head's settings are a plain serde struct that implements [`Settings`]. Recipes and model folders read them with
//! [`read`]; `nerzoo heads NAME` prints what [`describe`] finds in the struct's fields and doc comments.

use std::fmt::Debug;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::overlaps::Overlaps;
use crate::error::{Error, Result, key_problem};

/// Which description of a model the default settings follow.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Preset {
    /// The text of the paper.
    #[default]
    Paper,
    /// The program released by the authors.
    Released,
}

/// The settings of a head: everything under `[head]` in a recipe except `name`.
pub trait Settings:
    Serialize + DeserializeOwned + JsonSchema + Clone + PartialEq + Debug + Send + Sync + 'static
{
    /// The presets of this head; the first is the default. A head with more than one has a setting `preset`.
    fn presets() -> &'static [Preset];

    /// All settings with the values of a preset.
    fn of(preset: Preset) -> Self;

    /// Fails with an explanation if a value is out of range or if two values contradict each other. The message starts
    /// with the name of the setting.
    fn check(&self) -> Result<()>;

    /// Replaces `overlaps = "auto"` by what occurs in the training data.
    fn resolve_overlaps(&mut self, _corpus: Overlaps) {}

    /// Old spellings of keys and values that are still read.
    fn renamed() -> &'static [Renamed] {
        &[]
    }

    /// The given settings under their present names, completed with the values of the preset.
    fn fill(given: Map<String, Value>) -> Result<Map<String, Value>> {
        let given = rename(given, Self::renamed())?;
        let preset = match given.get("preset") {
            Some(preset) if Self::presets().len() > 1 => deserialize_at("preset", preset.clone())?,
            _ => Self::presets()[0],
        };
        let mut all = to_map(&Self::of(preset));
        all.extend(given);
        Ok(all)
    }
}

/// An old spelling of a setting that is still read, with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    /// A setting has a new name.
    Key {
        /// The name it had.
        old: &'static str,
        /// Its name now.
        new: &'static str,
    },
    /// A value of a setting has a new name.
    Value {
        /// The setting.
        key: &'static str,
        /// The value it had.
        old: &'static str,
        /// The value now.
        new: &'static str,
    },
}

/// Reads the settings of a head: completes them from the preset, deserializes and checks them. Errors name the setting
/// and, for a misspelt one, the nearest known name.
pub fn read<C: Settings>(given: Map<String, Value>) -> Result<C> {
    let filled = Value::Object(C::fill(given)?);
    check_counts("", &filled)?;
    let settings: C = deserialize_at("", filled)?;
    settings.check()?;
    Ok(settings)
}

/// Largest count or size of any head. Memory for a model's parameters is checked before they are allocated; this bounds all
/// other lists that are as long as a setting says.
pub const LARGEST_COUNT: u64 = 1_000_000;

/// Fails if a whole number anywhere in the settings is larger than [`LARGEST_COUNT`].
fn check_counts(name: &str, value: &Value) -> Result<()> {
    let inner = |key: &str| match name {
        "" => key.to_string(),
        name => format!("{name}.{key}"),
    };
    match value {
        Value::Object(table) => {
            (table.iter()).try_for_each(|(key, value)| check_counts(&inner(key), value))
        }
        Value::Array(list) => list.iter().try_for_each(|value| check_counts(name, value)),
        Value::Number(number) if number.as_u64().is_some_and(|count| count > LARGEST_COUNT) => Err(
            Error::Config(format!("{name} = {number} must be at most {LARGEST_COUNT}")),
        ),
        _ => Ok(()),
    }
}

/// One setting of a head, as listed by `nerzoo heads NAME`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key under `[head]`; dotted for a part of a bundle, such as `span.longest`.
    pub name: String,
    /// Its description, from the doc comment of the field.
    pub doc: String,
    /// Its type in words, such as "integer", "true or false" or "paper | released".
    pub kind: String,
    /// The default in each preset of the head.
    pub defaults: Vec<(Preset, Value)>,
    /// True if a trained model can be used with another value.
    pub at_inference: bool,
    /// For a threshold on the score of mentions: its value for a score of 1. All values of such a setting can be
    /// evaluated from one run with the lowest.
    pub score_scale: Option<f64>,
    /// The values that are tried on the dev sentences after training; empty for a setting that is left as it is.
    pub tuned_over: Vec<Value>,
}

/// All settings of a head in the order of their declaration, the parts of a bundle included.
pub fn describe<C: Settings>() -> Vec<Setting> {
    let generator = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = generator.into_generator().into_root_schema_for::<C>();
    let defaults: Vec<(Preset, Value)> = (C::presets().iter())
        .map(|preset| (*preset, Value::Object(to_map(&C::of(*preset)))))
        .collect();
    let mut settings = Vec::new();
    list(schema.as_value(), "", &defaults, &mut settings);
    settings
}

/// The keys of a table that is not the settings of a head, with their documentation and defaults.
pub(crate) fn describe_table<T: JsonSchema>(defaults: &impl Serialize) -> Vec<Setting> {
    let generator = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let schema = generator.into_generator().into_root_schema_for::<T>();
    let defaults = [(Preset::Paper, Value::Object(to_map(defaults)))];
    let mut keys = Vec::new();
    list(schema.as_value(), "", &defaults, &mut keys);
    keys
}

/// Appends the settings of one object of a schema. `defaults` are the values of this object by preset.
fn list(schema: &Value, prefix: &str, defaults: &[(Preset, Value)], settings: &mut Vec<Setting>) {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    for (key, property) in properties {
        let name = format!("{prefix}{key}");
        let defaults: Vec<(Preset, Value)> = (defaults.iter())
            .map(|(preset, values)| (*preset, values[key].clone()))
            .collect();
        if property["properties"].is_object() {
            list(property, &format!("{name}."), &defaults, settings);
            continue;
        }
        let doc = property["description"].as_str().unwrap_or_default();
        settings.push(Setting {
            name,
            doc: doc.split_whitespace().collect::<Vec<_>>().join(" "),
            kind: kind(property),
            defaults,
            at_inference: property["inference"] == true,
            score_scale: property["score_scale"].as_f64(),
            tuned_over: tuned_over(property),
        });
    }
}

/// The values to try after training: listed under `tune`, or `tune_range` = [first, last, step].
fn tuned_over(property: &Value) -> Vec<Value> {
    if let Some(values) = property["tune"].as_array() {
        return values.clone();
    }
    let range: Vec<f64> = (property["tune_range"].as_array().into_iter().flatten())
        .filter_map(Value::as_f64)
        .collect();
    let [first, last, step] = range[..] else {
        return Vec::new();
    };
    let steps = ((last - first) / step).round() as usize;
    // Rounded, so that 0.1 · 3 is written as 0.3.
    let value = |index: usize| ((first + step * index as f64) * 1e6).round() / 1e6;
    (0..=steps).map(|index| Value::from(value(index))).collect()
}

/// The type of a property in words.
fn kind(property: &Value) -> String {
    let values: Vec<&str> = match (&property["oneOf"], &property["enum"]) {
        (Value::Array(variants), _) => (variants.iter())
            .flat_map(|variant| match &variant["enum"] {
                Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
                _ => variant["const"].as_str().into_iter().collect::<Vec<_>>(),
            })
            .collect(),
        (_, Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !values.is_empty() {
        return values.join(" | ");
    }
    // An optional value: the first alternative that is not null.
    let is_value = |value: &&Value| **value != "null" && value["type"] != "null";
    if let Some(inner) = property["anyOf"]
        .as_array()
        .and_then(|list| list.iter().find(is_value))
    {
        return kind(inner);
    }
    let first = property["type"]
        .as_array()
        .and_then(|list| list.iter().find(is_value));
    match first.unwrap_or(&property["type"]).as_str() {
        Some("object") => "table".into(),
        Some("boolean") => "true or false".into(),
        Some("array") => format!("list of {}s", kind(&property["items"])),
        Some(other) => other.into(),
        None => "value".into(),
    }
}

/// The present names of keys and values, with a warning for every old one.
fn rename(given: Map<String, Value>, list: &[Renamed]) -> Result<Map<String, Value>> {
    let mut renamed = Map::new();
    for (mut key, mut value) in given {
        for rule in list {
            match rule {
                Renamed::Key { old, new } if key == *old => {
                    tracing::warn!("the setting {old} is now called {new}");
                    key = (*new).to_string();
                }
                Renamed::Value { key: of, old, new } if key == *of && value == *old => {
                    tracing::warn!("{of} = {old:?} is now written {of} = {new:?}");
                    value = Value::from(*new);
                }
                _ => {}
            }
        }
        if renamed.contains_key(&key) {
            return Err(Error::Config(format!(
                "{key} is given twice, under its old and its new name; keep the new one"
            )));
        }
        renamed.insert(key, value);
    }
    Ok(renamed)
}

/// The values of settings by key.
pub(crate) fn to_map(settings: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Deserializes the value of a key; the key is empty for the settings as a whole.
fn deserialize_at<T: DeserializeOwned>(key: &str, value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|problem| {
        let inner = match problem.path().to_string() {
            path if path == "." => key.to_string(),
            path => path,
        };
        Error::Config(key_problem(&inner, &problem.inner().to_string()))
    })
}

/// Fails unless a count is at least 1.
pub fn at_least_one(name: &str, value: usize) -> Result<()> {
    if value > 0 {
        Ok(())
    } else {
        Err(Error::Config(format!("{name} must be at least 1")))
    }
}

/// Largest number of layers of any kind in a head. Each takes memory even before it has weights.
pub const MOST_LAYERS: usize = 100;
/// Largest width of a layer in a head.
pub const MOST_WIDTH: usize = 65_536;

/// Fails if a number is larger than `most`.
pub fn at_most(name: &str, value: usize, most: usize) -> Result<()> {
    if value <= most {
        Ok(())
    } else {
        Err(Error::Config(format!(
            "{name} = {value} must be at most {most}"
        )))
    }
}

/// Fails unless a probability is at least 0 and below 1, as dropout has to be.
pub fn below_one(name: &str, value: f64) -> Result<()> {
    within(
        name,
        value,
        (0.0..1.0).contains(&value),
        "at least 0 and below 1",
    )
}

/// Fails unless a share or threshold is between 0 and 1, both included.
pub fn up_to_one(name: &str, value: f64) -> Result<()> {
    within(name, value, (0.0..=1.0).contains(&value), "between 0 and 1")
}

/// Fails unless a bias is a number of a sensible size.
pub fn finite(name: &str, value: f64) -> Result<()> {
    within(name, value, value.abs() <= 100.0, "between -100 and 100")
}

/// Fails unless a weight or exponent is at least 0 and of a sensible size.
pub fn not_negative(name: &str, value: f64) -> Result<()> {
    within(
        name,
        value,
        (0.0..1e6).contains(&value),
        "at least 0 and below 1000000",
    )
}

/// Fails with the range a value has to be in, unless it is.
pub fn within(name: &str, value: f64, is_within: bool, range: &str) -> Result<()> {
    if is_within {
        Ok(())
    } else {
        Err(Error::Config(format!("{name} = {value} must be {range}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Shape {
        /// All angles equal.
        Square,
        /// No angles.
        Round,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Example {
        /// Where the defaults come from.
        preset: Preset,
        /// How many
        /// there are.
        count: usize,
        /// Its shape.
        #[schemars(extend("inference" = true))]
        shape: Shape,
        /// Sizes.
        sizes: Vec<usize>,
        /// A share.
        share: f64,
        /// A switch.
        on: bool,
    }

    impl Settings for Example {
        fn presets() -> &'static [Preset] {
            &[Preset::Paper, Preset::Released]
        }

        fn of(preset: Preset) -> Self {
            Self {
                preset,
                count: 1,
                shape: if preset == Preset::Paper {
                    Shape::Square
                } else {
                    Shape::Round
                },
                sizes: vec![1],
                share: 0.5,
                on: false,
            }
        }

        fn check(&self) -> Result<()> {
            at_least_one("count", self.count)?;
            below_one("share", self.share)
        }

        fn renamed() -> &'static [Renamed] {
            &[
                Renamed::Key {
                    old: "number",
                    new: "count",
                },
                Renamed::Value {
                    key: "shape",
                    old: "circle",
                    new: "round",
                },
            ]
        }
    }

    fn example(given: Value) -> Result<Example> {
        read(given.as_object().unwrap().clone())
    }

    #[test]
    fn missing_settings_come_from_the_preset() {
        assert_eq!(example(json!({})).unwrap(), Example::of(Preset::Paper));
        let found = example(json!({"preset": "released", "count": 3})).unwrap();
        let expected = Example {
            count: 3,
            ..Example::of(Preset::Released)
        };
        assert_eq!(found, expected);
        assert_eq!(read::<Example>(to_map(&found)).unwrap(), found);
    }

    #[test]
    fn old_spellings_are_read() {
        let found = example(json!({"number": 3, "shape": "circle"})).unwrap();
        assert_eq!((found.count, found.shape), (3, Shape::Round));
        let problem = example(json!({"number": 3, "count": 2})).unwrap_err();
        assert!(problem.to_string().contains("count is given twice"));
    }

    #[test]
    fn errors_name_the_setting_and_the_remedy() {
        for (given, expected) in [
            (json!({"cout": 1}), "did you mean `count`"),
            (json!({"shape": "squar"}), "did you mean `square`"),
            (json!({"shape": "squar"}), "shape: "),
            (json!({"preset": "papr"}), "preset: "),
            (json!({"preset": "papr"}), "did you mean `paper`"),
            (json!({"sizes": [1, "two"]}), "sizes[1]: "),
            (json!({"count": 0}), "count must be at least 1"),
            (
                json!({"share": 1.0}),
                "share = 1 must be at least 0 and below 1",
            ),
        ] {
            let problem = example(given).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn descriptions_come_from_the_fields() {
        let found = describe::<Example>();
        let names: Vec<&str> = found.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["preset", "count", "shape", "sizes", "share", "on"]);
        let kinds: Vec<&str> = found.iter().map(|setting| setting.kind.as_str()).collect();
        let expected = [
            "paper | released",
            "integer",
            "square | round",
            "list of integers",
            "number",
            "true or false",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(found[1].doc, "How many there are.");
        assert_eq!(found[2].doc, "Its shape.");
        assert!(found[2].at_inference && !found[1].at_inference);
        let defaults = [
            (Preset::Paper, json!("square")),
            (Preset::Released, json!("round")),
        ];
        assert_eq!(found[2].defaults, defaults);
    }
}
