//! Values of JSON files: their types, keys and offsets.

use serde_json::Value;

use super::entity::EntityError;

/// The type of a JSON value, for messages.
pub(in crate::data) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A key in lower case, without anything but letters and digits: `startOffset` and `start_offset` are the same.
pub(in crate::data) fn canonical(key: &str) -> String {
    let letters = key.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// An offset: an integer, a float without a fraction (pandas writes those), or digits in a string.
pub(in crate::data) fn offset(
    value: Option<&Value>,
    key: &'static str,
) -> Result<usize, EntityError> {
    let number = match value {
        None | Some(Value::Null) => return Err(EntityError::Missing(key)),
        Some(Value::String(digits)) => digits.parse().ok(),
        Some(value) => value.as_u64().or_else(|| {
            let float = value.as_f64()?;
            (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then_some(float as u64)
        }),
    };
    number
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| EntityError::NotAnOffset {
            key,
            value: value.map(Value::to_string).unwrap_or_default(),
        })
}
