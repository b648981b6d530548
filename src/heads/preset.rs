//! A paper's text and its authors' program often differ: a preset says which of the two a head's defaults follow.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Which of the two descriptions of a model the defaults follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// The text of the paper.
    #[default]
    Paper,
    /// The authors' program.
    Released,
}

/// The knobs that are given, the others as the preset among them has them: `of` makes a preset's.
pub(super) fn filled<'de, D: Deserializer<'de>, C: Serialize>(
    deserializer: D,
    of: impl Fn(Preset) -> C,
) -> Result<Value, D::Error> {
    let given = Map::<String, Value>::deserialize(deserializer)?;
    let preset = match given.get("preset") {
        Some(preset) => Preset::deserialize(preset).map_err(D::Error::custom)?,
        None => Preset::default(),
    };
    let mut knobs = serde_json::to_value(of(preset)).map_err(D::Error::custom)?;
    if let Some(knobs) = knobs.as_object_mut() {
        knobs.extend(given);
    }
    Ok(knobs)
}

/// Reads and writes a head's `Config` (serde's `remote = "Self"` on it, `of` a preset and `checked` beside it): what is
/// not given comes from the preset, so that has to be read first.
macro_rules! with_presets {
    ($config:ty) => {
        impl Default for $config {
            fn default() -> Self {
                Self::of(Default::default())
            }
        }

        impl serde::Serialize for $config {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                let knobs = $crate::heads::preset::filled(deserializer, Self::of)?;
                let config = Self::deserialize(knobs).map_err(D::Error::custom)?;
                config.checked().map_err(D::Error::custom)
            }
        }
    };
}
pub(super) use with_presets;
