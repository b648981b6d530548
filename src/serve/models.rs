//! The models of the service.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::limits::{LARGEST_SETTING, Limits};
use super::metrics::ModelMetrics;
use super::queue::Queue;
use crate::error::{Error, Result};
use crate::model::folder::{self, ModelConfig};
use crate::model::tagger::Tagger;
use crate::recipe::set::Assignment;
use crate::registry;
use crate::zoo::{self, Zoo};

/// Number of combinations of settings that a model keeps ready.
const VARIANTS: usize = 8;

/// A model to be served.
pub struct Model {
    name: String,
    head: Option<String>,
    tagger: Arc<dyn Tagger>,
}

impl Model {
    /// A model under a name. Fails if the name is empty, or has characters that do not belong into an address.
    pub fn new(name: impl Into<String>, tagger: Box<dyn Tagger>) -> Result<Self> {
        let name = name.into();
        let is_plain = |one: char| one.is_alphanumeric() || "-_.+@/".contains(one);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(Error::Config(format!(
                "{name:?} is not a name for a model to serve; give it one of letters, digits and -_.+@/, as in NAME=MODEL"
            )));
        }
        Ok(Self {
            name,
            head: None,
            tagger: tagger.into(),
        })
    }

    /// Loads a model given as a folder, name or address, or as `NAME=MODEL`. Without a name, it has the last part of the folder.
    pub fn load(given: &str, device: &Device) -> Result<Self> {
        let (name, place) = match given.split_once('=') {
            Some((name, place)) if !name.contains("://") => (Some(name), place),
            _ => (None, given),
        };
        Self::load_folder(name, &zoo::find(place)?, device)
    }

    /// The model that is used if none is named.
    pub fn default_of_zoo(device: &Device) -> Result<Self> {
        Self::load_folder(None, &Zoo::from_env().default_model()?, device)
    }

    fn load_folder(name: Option<&str>, path: &Path, device: &Device) -> Result<Self> {
        let folder = folder::folder_of(path);
        let tagger = registry::load(path, device, &[])?;
        let last = || {
            let absolute = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            let name = absolute.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let mut model = Self::new(name.map_or_else(last, String::from), tagger)?;
        model.head = Some(ModelConfig::read(&folder)?.head);
        Ok(model)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A model with its queue.
pub(super) struct ServedModel {
    pub about: ModelAbout,
    pub tagger: Arc<dyn Tagger>,
    pub queue: Queue,
    pub metrics: Arc<ModelMetrics>,
    /// Taggers with other settings, the last used one last.
    variants: Mutex<Vec<(String, Arc<dyn Tagger>)>>,
}

/// Describes a model to clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct ModelAbout {
    /// Its name in requests.
    pub name: String,
    /// Whether it answers requests that name no model.
    pub default: bool,
    /// The name of its head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The entity types that it finds.
    pub labels: Vec<String>,
    /// Whether its entities may lie inside one another.
    pub nested: bool,
    /// Whether its scores are probabilities.
    pub calibrated: bool,
    /// The settings that `set` can change.
    pub settings: Vec<SettingAbout>,
}

/// Describes a setting to clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SettingAbout {
    /// Its name in `set`.
    pub name: String,
    /// The values it takes.
    pub kind: String,
    /// What it does.
    pub description: String,
}

impl ServedModel {
    pub fn new(model: Model, is_default: bool, limits: &Limits, allows_set: bool) -> Self {
        let metrics = Arc::new(ModelMetrics::default());
        let entry = model
            .head
            .as_deref()
            .and_then(|head| registry::find(head).ok());
        let settings = entry
            .filter(|_| allows_set)
            .map_or_else(Vec::new, |entry| (entry.settings)());
        let about = ModelAbout {
            name: model.name,
            default: is_default,
            head: model.head,
            labels: model.tagger.labels().names().to_vec(),
            nested: model.tagger.nested(),
            calibrated: model.tagger.is_calibrated(),
            settings: (settings.into_iter().filter(|setting| setting.at_inference))
                .map(|setting| SettingAbout {
                    name: format!("head.{}", setting.name),
                    kind: setting.kind,
                    description: setting.doc,
                })
                .collect(),
        };
        Self {
            about,
            tagger: model.tagger,
            queue: Queue::new(limits.clone(), metrics.clone()),
            metrics,
            variants: Mutex::default(),
        }
    }

    /// The tagger with settings replaced; the same one for the same settings, so that requests share batches.
    pub fn tagger(&self, set: &Map<String, Value>) -> Result<Arc<dyn Tagger>, Failure> {
        if set.is_empty() {
            return Ok(self.tagger.clone());
        }
        let overrides = set.iter().map(|(key, value)| assignment(key, value));
        let mut overrides: Vec<Assignment> = overrides.collect::<Result<_, _>>()?;
        overrides.sort_by(|one, other| one.key.cmp(&other.key));
        let key = format!("{overrides:?}");
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = variants.iter().position(|(known, _)| *known == key) {
            let variant = variants.remove(index);
            let tagger = variant.1.clone();
            variants.push(variant);
            return Ok(tagger);
        }
        let made = self.tagger.with_settings(&overrides);
        let tagger: Arc<dyn Tagger> = made.map_err(|error| Failure::setting(&error))?.into();
        if variants.len() >= VARIANTS {
            variants.remove(0);
        }
        variants.push((key, tagger.clone()));
        Ok(tagger)
    }
}

/// A setting of a request. Numbers are limited, because they decide how much is computed.
fn assignment(key: &str, value: &Value) -> Result<Assignment, Failure> {
    let is_large = match value {
        Value::Number(number) => number
            .as_f64()
            .is_none_or(|value| value.abs() > LARGEST_SETTING as f64),
        _ => false,
    };
    if is_large {
        return Err(Failure::invalid(format!(
            "set: {key} is above the limit of {LARGEST_SETTING} for a setting in a request"
        )));
    }
    if matches!(value, Value::Null | Value::Object(_) | Value::Array(_)) {
        return Err(Failure::invalid(format!(
            "set: {key} is not a number, string or boolean"
        )));
    }
    let value = toml::Value::try_from(value)
        .map_err(|problem| Failure::invalid(format!("set: {key}: {problem}")))?;
    Ok(Assignment {
        key: key.to_string(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_of_requests_are_limited() {
        assert_eq!(
            assignment("head.steps", &json!(5)).unwrap().value,
            toml::Value::Integer(5)
        );
        assert_eq!(
            assignment("head.a", &json!("x")).unwrap().value.as_str(),
            Some("x")
        );
        for value in [
            json!(1001),
            json!(-2e9),
            json!(1u64 << 63),
            json!(null),
            json!([1]),
            json!({}),
        ] {
            let failure = assignment("head.steps", &value).unwrap_err();
            assert_eq!(failure.status.as_u16(), 422);
            assert!(
                failure.message.contains("head.steps"),
                "{}",
                failure.message
            );
        }
    }
}
