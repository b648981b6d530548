//! The description of columns that the library `datasets` of Hugging Face adds to a file: names of classes, and lists of
//! objects that are stored as objects of lists.

use serde_json::{Map, Value};

/// The key of the description in the metadata.
const KEY: &str = "huggingface";
/// The key of Arrow's schema, which has the same metadata.
const ARROW_KEY: &str = "ARROW:schema";

/// The features of the columns, empty if the file does not describe them.
#[derive(Default)]
pub(super) struct Features {
    columns: Map<String, Value>,
}

impl Features {
    /// The features in the metadata of a file, such as
    /// `{"info": {"features": {"ner_tags": {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}}}}}`.
    pub fn of(metadata: &[(&str, &str)]) -> Self {
        let get = |key: &str| {
            metadata
                .iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| *value)
        };
        let description = get(KEY).and_then(|text| serde_json::from_str(text).ok());
        let description = description.or_else(|| in_arrow_schema(get(ARROW_KEY)?));
        let columns = description.and_then(|mut description: Value| {
            match description.pointer_mut("/info/features").map(Value::take) {
                Some(Value::Object(columns)) => Some(columns),
                _ => None,
            }
        });
        Self {
            columns: columns.unwrap_or_default(),
        }
    }

    /// Replaces the numbers of classes in a row by their names.
    pub fn name(&self, row: &mut Value) {
        if let Value::Object(row) = row {
            for (column, value) in row {
                if let Some(feature) = self.columns.get(column) {
                    replace(value, feature);
                }
            }
        }
    }
}

/// Replaces numbers by names wherever the feature is a class. A list of objects may be stored as an object of lists, so
/// lists within the value need not be lists in the feature.
fn replace(value: &mut Value, feature: &Value) {
    let class_names = match feature.get("_type").and_then(Value::as_str) {
        Some("ClassLabel") => feature.get("names").and_then(Value::as_array),
        _ => None,
    };
    let inner = feature
        .get("feature")
        .or_else(|| feature.as_array()?.first());
    match value {
        Value::Number(number) => {
            let index = number
                .as_u64()
                .and_then(|number| usize::try_from(number).ok());
            let name = index
                .zip(class_names)
                .and_then(|(index, names)| names.get(index));
            if let Some(name) = name.filter(|name| name.is_string()) {
                *value = name.clone();
            }
        }
        Value::Array(elements) => {
            for element in elements {
                replace(element, inner.unwrap_or(feature));
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                if let Some(feature) = inner.unwrap_or(feature).get(key) {
                    replace(field, feature);
                }
            }
        }
        _ => {}
    }
}

/// Turns the objects of lists among the columns of a row into lists of objects: `{"start": [0], "label": ["PER"]}` becomes
/// `[{"start": 0, "label": "PER"}]`.
pub(super) fn transpose(row: &mut Value) {
    let Value::Object(row) = row else {
        return;
    };
    for value in row.values_mut() {
        let Value::Object(fields) = value else {
            continue;
        };
        let lengths = fields.values().map(|field| field.as_array().map(Vec::len));
        let lengths: Option<Vec<usize>> = lengths.collect();
        let Some(lengths) =
            lengths.filter(|lengths| lengths.windows(2).all(|pair| pair[0] == pair[1]))
        else {
            continue;
        };
        let count = lengths.first().copied().unwrap_or(0);
        let mut elements: Vec<Value> = (0..count).map(|_| Value::Object(Map::new())).collect();
        for (key, field) in std::mem::take(fields) {
            if let Value::Array(list) = field {
                for (element, value) in elements.iter_mut().zip(list) {
                    element[key.as_str()] = value;
                }
            }
        }
        *value = Value::Array(elements);
    }
}

/// The description within Arrow's schema: a binary format in base 64, in which the text of the description is contiguous.
fn in_arrow_schema(encoded: &str) -> Option<Value> {
    let bytes = decode_base64(encoded)?;
    let key = KEY.as_bytes();
    bytes.windows(key.len()).position(|window| window == key)?;
    let start = br#"{"info""#;
    let start = bytes
        .windows(start.len())
        .position(|window| window == start)?;
    let mut values = serde_json::Deserializer::from_slice(&bytes[start..]).into_iter();
    values.next()?.ok()
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn classes_are_named_at_every_depth() {
        let class = json!({"names": ["O", "PER"], "_type": "ClassLabel"});
        let features = json!({"info": {"features": {
            "ner_tags": {"feature": class, "_type": "Sequence"},
            "kind": class,
            "lists": [{"label": class, "start": {"dtype": "int64", "_type": "Value"}}],
            "columns": {"feature": {"label": class}, "_type": "Sequence"},
        }}});
        let features = Features::of(&[("huggingface", &features.to_string())]);
        let mut row = json!({
            "ner_tags": [0, 1, 7, -1, null], "kind": 1, "lists": [{"label": 1, "start": 1}],
            "columns": {"label": [1, 0], "start": [1, 1]}, "other": [1],
        });
        features.name(&mut row);
        transpose(&mut row);
        assert_eq!(
            row,
            json!({
                "ner_tags": ["O", "PER", 7, -1, null], "kind": "PER", "lists": [{"label": "PER", "start": 1}],
                "columns": [{"label": "PER", "start": 1}, {"label": "O", "start": 1}], "other": [1],
            })
        );
        for metadata in [
            ("huggingface", "{"),
            ("ARROW:schema", "?"),
            ("ARROW:schema", ""),
        ] {
            assert!(Features::of(&[metadata]).columns.is_empty());
        }
    }

    #[test]
    fn base64() {
        assert_eq!(decode_base64("TWFyaWE=").unwrap(), b"Maria");
        assert_eq!(decode_base64("WsO8LSs/").unwrap(), "Zü-+?".as_bytes());
        assert_eq!(decode_base64("a b"), None);
    }
}
