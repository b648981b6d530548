//! Keys of JSON records that this program writes: entities of several parts, and the position of a sentence in its document.

use serde_json::{Map, Value};

use super::json_entity::type_name;
use crate::text::{Discontinuous, Sentence};

/// Reads `discontinuous`, `offset` and `trailing` of a record whose text is read already.
///
/// `discontinuous` is a list of `{"parts": [[start, end], ...], "type": ...}` with offsets in characters. `offset` is the
/// place of the sentence in the text of its document, and `trailing` the white space after it; other tools use these names
/// too, so values of another kind are ignored.
pub(super) fn read(object: &Map<String, Value>, sentence: &mut Sentence) -> Result<(), String> {
    if let Some(offset) = object.get("offset").and_then(Value::as_u64) {
        sentence.offset = usize::try_from(offset).unwrap_or_default();
    }
    if let Some(trailing) = object.get("trailing").and_then(Value::as_str)
        && trailing.trim().is_empty()
    {
        sentence.trailing = trailing.to_string();
    }
    let Some(value) = object.get("discontinuous").filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let Some(list) = value.as_array() else {
        let kind = type_name(value);
        return Err(format!(
            "`discontinuous` must be a list of entities, not {kind}"
        ));
    };
    let length = sentence.text.chars().count();
    for (index, value) in list.iter().enumerate() {
        let entity = entity(value, length).ok_or_else(|| {
            format!(
                "`discontinuous`[{index}] must be an object with `type`, and with `parts` as [start, end] in ascending order \
                 within the {length} characters of the text"
            )
        })?;
        sentence.discontinuous.push(entity);
    }
    Ok(())
}

fn entity(value: &Value, length: usize) -> Option<Discontinuous> {
    let label = value.get("type").or(value.get("label"))?.as_str()?;
    let mut parts = Vec::new();
    let mut last = 0;
    for part in value.get("parts")?.as_array()? {
        let [start, end] = part.as_array()?.as_slice() else {
            return None;
        };
        let start = usize::try_from(start.as_u64()?).ok()?;
        let end = usize::try_from(end.as_u64()?).ok()?;
        if start < last || start >= end || end > length {
            return None;
        }
        last = end;
        parts.push((start, end));
    }
    (!parts.is_empty() && !label.trim().is_empty()).then(|| Discontinuous {
        parts,
        label: label.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> Result<Sentence, String> {
        let mut sentence = Sentence::from_words(["left", "and", "right"]);
        read(value.as_object().unwrap(), &mut sentence).map(|()| sentence)
    }

    #[test]
    fn the_keys_are_read() {
        let record = json!({"offset": 3, "trailing": "\n", "discontinuous": [{"parts": [[0, 4], [9, 14]], "type": "A"}]});
        let sentence = of(&record).unwrap();
        assert_eq!((sentence.offset, sentence.trailing.as_str()), (3, "\n"));
        assert_eq!(sentence.discontinuous[0].parts, [(0, 4), (9, 14)]);
        let other = json!({"offset": [1, 2], "trailing": "text", "discontinuous": null});
        assert_eq!(of(&other).unwrap().offset, 0);
        assert_eq!(of(&other).unwrap().trailing, "");
    }

    #[test]
    fn invalid_entities_are_errors() {
        for entity in [
            json!({"parts": [[0, 4]]}),
            json!({"parts": [], "type": "A"}),
            json!({"parts": [[5, 8], [0, 4]], "type": "A"}),
            json!({"parts": [[0, 99]], "type": "A"}),
            json!({"parts": [[4, 4]], "type": "A"}),
            json!({"parts": [[0, 4]], "type": " "}),
            json!([0, 4, "A"]),
        ] {
            let error = of(&json!({"discontinuous": [entity]})).unwrap_err();
            assert!(error.contains("`discontinuous`[0]"), "{error}");
        }
        assert!(of(&json!({"discontinuous": true})).is_err());
    }
}
