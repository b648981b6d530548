//! The words or the text of a JSON record.

use serde_json::{Map, Value};

use super::keys::{TEXTS, WORDS, find};
use super::tags::{Layers, layers};
use super::values::{canonical, type_name};

/// The words of a record.
#[derive(Debug)]
pub(super) struct WordList<'a> {
    /// The key of the list.
    pub key: &'a str,
    /// The words.
    pub words: Vec<&'a str>,
    /// The tags of words that are objects, such as `{"text": "Rome", "ner": "B-LOC"}`, and their key.
    pub tags: Option<(String, Layers<'a>)>,
}

/// The words of a record: a list of strings, or of objects with the word and its tag.
pub(super) fn words<'a>(object: &'a Map<String, Value>) -> Result<WordList<'a>, String> {
    let candidates = find(object, &WORDS);
    let mut lists: Vec<WordList<'a>> = Vec::new();
    for (key, value) in &candidates {
        let list = match value {
            Value::Array(list) => list,
            _ => continue,
        };
        if list.iter().all(Value::is_string) {
            lists.push(WordList {
                key,
                words: list.iter().filter_map(Value::as_str).collect(),
                tags: None,
            });
        } else if let Some(found) = of_objects(key, list) {
            lists.push(found?);
        }
    }
    let is_other = |other: &WordList<'a>| !other.words.is_empty() && other.words != lists[0].words;
    if let Some(other) = lists.iter().skip(1).find(|other| is_other(other)) {
        return Err(format!(
            "has both `{}` and `{}`; keep one",
            lists[0].key, other.key
        ));
    }
    match (lists.into_iter().next(), candidates.first()) {
        (Some(list), _) => Ok(list),
        (
            None,
            Some((
                key,
                value @ (Value::Array(_) | Value::Number(_) | Value::Bool(_) | Value::Object(_)),
            )),
        ) => Err(format!(
            "`{key}` must be a list of strings, not {}",
            describe(value)
        )),
        _ => Err(String::new()),
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let bad = list.iter().enumerate().find(|(_, item)| !item.is_string());
            bad.map_or("a list".to_string(), |(index, item)| {
                format!("{} at index {index}", type_name(item))
            })
        }
        other => type_name(other).to_string(),
    }
}

/// Words as objects; `None` if the items are not words.
fn of_objects<'a>(key: &'a str, list: &'a [Value]) -> Option<Result<WordList<'a>, String>> {
    let name = |object: &'a Map<String, Value>| {
        let known = [
            "text",
            "word",
            "token",
            "form",
            "orth",
            "originaltext",
            "surface",
            "value",
        ];
        find(object, &known)
            .into_iter()
            .find_map(|(_, value)| value.as_str())
    };
    let objects: Vec<&Map<String, Value>> =
        list.iter().map(Value::as_object).collect::<Option<_>>()?;
    let words: Vec<&str> = objects
        .iter()
        .map(|object| name(object))
        .collect::<Option<_>>()?;
    let known = [
        "nertag",
        "nertags",
        "ner",
        "biotag",
        "iobtag",
        "bio",
        "iob",
        "tag",
        "label",
        "entity",
        "entitylabel",
    ];
    let tag_key = objects.iter().find_map(|object| {
        let found = find(object, &known)
            .into_iter()
            .find(|(_, value)| value.is_string() || value.is_number());
        found.map(|(key, _)| key)
    });
    let tags = tag_key.map(|tag_key| {
        let outside = Value::String("O".to_string());
        let values = objects.iter().map(|object| match object.get(tag_key) {
            None | Some(Value::Null) => outside.clone(),
            Some(Value::String(tag)) if tag.is_empty() => outside.clone(),
            Some(tag) => tag.clone(),
        });
        let values = Value::Array(values.collect());
        let owned = |layers: Layers<'_>| -> Layers<'a> {
            let layer = |layer: Vec<std::borrow::Cow<'_, str>>| {
                layer
                    .into_iter()
                    .map(|tag| tag.into_owned().into())
                    .collect()
            };
            layers.into_iter().map(layer).collect()
        };
        let full = format!("{key}[].{tag_key}");
        layers(&full, &values, words.len())
            .map(owned)
            .map(|layers| (full, layers))
    });
    Some(match tags.transpose() {
        Ok(tags) => Ok(WordList { key, words, tags }),
        Err(problem) => Err(problem),
    })
}

/// The text of a record with its key.
pub(super) fn text(object: &Map<String, Value>) -> Option<(&str, &str)> {
    let mut texts = find(object, &TEXTS).into_iter();
    texts.find_map(|(key, value)| Some((key, value.as_str()?)))
}

/// Keys of the document's name.
const DOCUMENT: [&str; 12] = [
    "doc",
    "document",
    "docid",
    "dockey",
    "origid",
    "documentid",
    "docname",
    "documentname",
    "filename",
    "pmid",
    "docidx",
    "title",
];

/// The name of the document of a record. `used` are keys with another meaning.
pub(in crate::data) fn document(object: &Map<String, Value>, used: &[&str]) -> Option<String> {
    let mut found = find(object, &DOCUMENT).into_iter();
    let (_, value) = found.find(|(key, value)| {
        let is_name = value.is_string() || value.is_number();
        is_name
            && !used.contains(key)
            && (canonical(key) != "title" || object.contains_key("sents"))
    })?;
    Some(match value {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_strings_or_objects() {
        for value in [
            json!({"tokens": ["a", "b"]}),
            json!({"sentence": ["a", "b"], "word": [[0, 1]]}),
            json!({"text": ["a", "b"], "labels": ["O", "O"]}),
            json!({"text": "a b", "Words": ["a", "b"]}),
            json!({"tokens": [{"text": "a", "ner": "B-X"}, {"text": "b", "ner": ""}]}),
        ] {
            let found = words(value.as_object().unwrap()).unwrap();
            assert_eq!(found.words, ["a", "b"], "{value}");
            if let Some((key, layers)) = found.tags {
                assert_eq!(
                    (key.as_str(), &layers[0][..]),
                    ("tokens[].ner", &["B-X".into(), "O".into()][..])
                );
            }
        }
        for (value, part) in [
            (json!({"tokens": 3}), "not a number"),
            (json!({"tokens": ["a", 3]}), "a number at index 1"),
            (json!({"tokens": ["a"], "words": ["b"]}), "both"),
            (json!({"foo": ["a"]}), ""),
        ] {
            let problem = words(value.as_object().unwrap()).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
