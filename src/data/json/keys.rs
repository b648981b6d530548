//! The keys under which JSON records hold words, texts, tags and entities.
//!
//! Keys are compared in lower case without punctuation, so `ner_tags`, `nerTags` and `NER-tags` are the same.

use serde_json::{Map, Value};

use super::values::canonical;
use crate::data::tags::bio;

/// Keys of lists of words.
pub(super) const WORDS: [&str; 10] = [
    "tokens",
    "words",
    "tokenizedtext",
    "token",
    "word",
    "tokenized",
    "sentence",
    "text",
    "sent",
    "document",
];
/// Keys of texts.
pub(in crate::data) const TEXTS: [&str; 19] = [
    "text",
    "content",
    "sentence",
    "sourcetext",
    "rawtext",
    "sentencetext",
    "documenttext",
    "fulltext",
    "context",
    "utterance",
    "passage",
    "paragraph",
    "source",
    "body",
    "raw",
    "input",
    "query",
    "data",
    "document",
];
/// Keys of lists of tags, one for each word. Where a record has several, the first of this list counts.
const TAGS: [&str; 29] = [
    "nertags",
    "nertag",
    "ner",
    "ners",
    "nerlabels",
    "tags",
    "labels",
    "biotags",
    "iobtags",
    "iob2tags",
    "bioestags",
    "biloutags",
    "bio",
    "iob",
    "iob2",
    "bioes",
    "strtags",
    "entitytags",
    "tokenlabels",
    "wordlabels",
    "goldtags",
    "goldlabels",
    "nerseq",
    "tag",
    "label",
    "finenertags",
    "tagsequence",
    "namedentities",
    "docbiotags",
];
/// Keys of further layers of tags, for nested entities.
const NESTED_TAGS: [&str; 6] = [
    "nestednertags",
    "nertagsnested",
    "nertags2",
    "nestedtags",
    "innernertags",
    "nertagsinner",
];
/// Keys of entities as spans.
const SPANS: [&str; 29] = [
    "entities",
    "ner",
    "ners",
    "entitymentions",
    "labels",
    "label",
    "spans",
    "ents",
    "annotations",
    "annotation",
    "namedentities",
    "nerspans",
    "entityspans",
    "goldentities",
    "goldspans",
    "nerentities",
    "entity",
    "mentions",
    "privacymask",
    "goldner",
    "spanlabels",
    "span",
    "entitylist",
    "nertags",
    "gold",
    "tags",
    "concepts",
    "slots",
    "goldenentitymentions",
];
/// Keys that look like those of annotations and are not: other tasks, and lists of types.
const OTHER: [&str; 33] = [
    "pos",
    "postags",
    "upos",
    "xpos",
    "upostags",
    "chunktags",
    "chunks",
    "labelset",
    "labellist",
    "labelnames",
    "entitytypes",
    "nernegatives",
    "relations",
    "relationmentions",
    "eventmentions",
    "events",
    "tagset",
    "annotator",
    "annotators",
    "annotationid",
    "annotationapprover",
    "spanid",
    "language",
    "deptags",
    "srltags",
    "negatives",
    "morphtags",
    "classificationlabel",
    "sentencelabel",
    "annotatorid",
    "entitylinks",
    "corefmentions",
    "goldeneventmentions",
];
/// Parts of keys that suggest annotations of entities.
const SUSPICIOUS: [&str; 9] = [
    "ner", "entit", "label", "tags", "span", "annot", "mention", "iob", "bio",
];

/// The known spellings, for messages.
pub(in crate::data) const KNOWN: &str = "tags, one for each word: `ner_tags`, `tags`, `labels`, `ner`; spans: `entities`, `ner`, \
    `ners`, `spans`, `labels`, `label`, `ents`, `annotations`, `entity_mentions`";

/// The values under the keys of a table that are not null, in the order of the table.
pub(super) fn find<'a>(
    object: &'a Map<String, Value>,
    table: &[&str],
) -> Vec<(&'a str, &'a Value)> {
    let mut found: Vec<(usize, &str, &Value)> = object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .filter_map(|(key, value)| {
            let name = canonical(key);
            let index = table.iter().position(|known| *known == name)?;
            Some((index, key.as_str(), value))
        })
        .collect();
    found.sort_by_key(|(index, ..)| *index);
    found
        .into_iter()
        .map(|(_, key, value)| (key, value))
        .collect()
}

/// The annotations of a record.
#[derive(Debug, Default)]
pub(super) struct Annotations<'a> {
    /// Tags, one for each word; the first layer and further layers.
    pub tags: Vec<(&'a str, &'a Value)>,
    /// Entities as spans.
    pub spans: Option<(&'a str, &'a Value)>,
    /// Keys of annotations that are not used because another key comes first.
    pub unused: Vec<&'a str>,
    /// Keys that look like annotations but are not understood, or a second list of spans.
    pub unknown: Vec<&'a str>,
    /// Whether the record has a key of annotations, perhaps with the value null.
    pub present: bool,
}

impl<'a> Annotations<'a> {
    /// Finds the annotations of a record with `length` words under the key `used`. Lists of strings beside spans are lists
    /// of types where they do not have one string for each word, and always in GLiNER's format.
    pub fn of_words(
        object: &'a Map<String, Value>,
        used: &str,
        length: usize,
        is_gliner: bool,
    ) -> Self {
        let mut found = Self::of(object, &[used]);
        if found.spans.is_some() {
            let fits = |value: &Value| value.as_array().is_none_or(|list| list.len() == length);
            found.tags.retain(|(_, value)| !is_gliner && fits(value));
            if found.tags.is_empty() {
                found.unused.clear();
            }
        }
        // A list of tags is known by its content, whatever its key.
        let is_tags = |key: &str| {
            let list = object.get(key).and_then(Value::as_array);
            list.is_some_and(|list| {
                let is_tag = |tag: &Value| tag.as_str().is_some_and(bio::is_tag);
                list.len() == length && length > 0 && list.iter().all(is_tag)
            })
        };
        if let [key] = found.unknown[..]
            && !found.present
            && is_tags(key)
        {
            found.unknown.clear();
            found.tags.extend(object.get(key).map(|value| (key, value)));
            found.present = true;
        }
        found
    }

    /// Finds the annotations of a record. `used` is the key of the words or of the text.
    pub fn of(object: &'a Map<String, Value>, used: &[&str]) -> Self {
        let mut found = Self::default();
        let is_used = |key: &str| used.contains(&key);
        for (key, value) in find(object, &TAGS) {
            // An empty list is a list of tags only under a key that cannot be one of spans.
            let name = canonical(key);
            let has_tags = ["tag", "bio", "iob"].iter().any(|part| name.contains(part));
            if is_used(key) || !is_tag_list(value) || (is_empty(value) && !has_tags) {
                continue;
            }
            if found.tags.is_empty() {
                found.tags.push((key, value));
            } else if !is_empty(value) {
                found.unused.push(key);
            }
        }
        for (key, value) in find(object, &SPANS) {
            if is_used(key)
                || !is_span_list(value)
                || found.tags.iter().any(|(tags, _)| *tags == key)
            {
                continue;
            }
            match found.spans {
                None => found.spans = Some((key, value)),
                // An empty list says nothing where another list has entities.
                Some((_, first)) if is_empty(first) && !is_empty(value) => {
                    found.spans = Some((key, value));
                }
                Some(_) if is_empty(value) => {}
                Some(_) => found.unknown.push(key),
            }
        }
        // An empty list of tags says nothing where there are spans.
        if found.spans.is_some_and(|(_, value)| !is_empty(value)) {
            found.tags.retain(|(_, value)| !is_empty(value));
        }
        if !found.tags.is_empty() {
            let nested = find(object, &NESTED_TAGS).into_iter();
            found
                .tags
                .extend(nested.filter(|(_, value)| is_tag_list(value)));
        }
        found.present = !found.tags.is_empty() || found.spans.is_some() || found.has_null(object);
        // Amazon SageMaker Ground Truth: a name of the user's, with `annotations.entities`.
        let nested = |(key, value): (&'a String, &'a Value)| {
            let list = value.get("annotations")?.get("entities")?;
            list.is_array().then_some((key.as_str(), list))
        };
        if !found.present
            && let Some(spans) = object.iter().find_map(nested)
        {
            found.spans = Some(spans);
            found.present = true;
        }
        if !found.present {
            let suspicious = object.iter().filter(|(key, value)| {
                !is_used(key) && !value.is_null() && looks_like_annotations(key)
            });
            found.unknown = suspicious.map(|(key, _)| key.as_str()).collect();
        }
        found
    }

    fn has_null(&self, object: &Map<String, Value>) -> bool {
        object.iter().any(|(key, value)| {
            let name = canonical(key);
            value.is_null() && (TAGS.contains(&name.as_str()) || SPANS.contains(&name.as_str()))
        })
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// Strings, numbers or lists of strings; or tags in one string.
fn is_tag_list(value: &Value) -> bool {
    match value {
        Value::Array(list) => match list.first() {
            None | Some(Value::String(_) | Value::Number(_)) => true,
            Some(Value::Array(set)) => !set.is_empty() && set.iter().all(Value::is_string),
            _ => false,
        },
        Value::String(text) => text.split_whitespace().any(bio::is_tag),
        _ => false,
    }
}

/// Lists or objects, as a list or as an object. Other values among them are reported one by one.
fn is_span_list(value: &Value) -> bool {
    match value {
        Value::Array(list) => {
            let is_span = |item: &Value| item.is_object() || item.is_array();
            list.is_empty() || list.iter().any(is_span)
        }
        Value::Object(_) => true,
        _ => false,
    }
}

fn looks_like_annotations(key: &str) -> bool {
    let name = canonical(key);
    !OTHER.contains(&name.as_str()) && SUSPICIOUS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> Annotations<'_> {
        Annotations::of(value.as_object().unwrap(), &["tokens"])
    }

    #[test]
    fn tags_and_spans_are_told_apart_by_their_form() {
        let wikiann =
            json!({"tokens": ["A"], "ner_tags": [1], "langs": ["en"], "spans": ["PER: A"]});
        assert_eq!(of(&wikiann).tags[0].0, "ner_tags");
        assert!(of(&wikiann).spans.is_none());
        let ner = json!({"tokens": ["A"], "ner": [[0, 1, "A"]], "pos_tags": ["N"]});
        assert_eq!(of(&ner).spans.unwrap().0, "ner");
        assert!(of(&ner).tags.is_empty() && of(&ner).unknown.is_empty());
        let germeval = json!({"tokens": ["A"], "nested_ner_tags": ["O"], "ner_tags": ["B-A"]});
        let keys: Vec<&str> = of(&germeval).tags.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["ner_tags", "nested_ner_tags"]);
        let fine = json!({"tokens": ["A"], "fine_ner_tags": [1], "ner_tags": [1]});
        assert_eq!(
            (of(&fine).tags[0].0, of(&fine).unused),
            ("ner_tags", vec!["fine_ner_tags"])
        );
    }

    #[test]
    fn unknown_keys_are_listed_only_when_nothing_is_known() {
        assert_eq!(
            of(&json!({"tokens": [], "my_ner_stuff": [1], "id": 1})).unknown,
            ["my_ner_stuff"]
        );
        assert!(
            of(&json!({"tokens": [], "my_ner_stuff": [1], "entities": []}))
                .unknown
                .is_empty()
        );
        assert!(
            of(&json!({"tokens": [], "pos_tags": [1], "language": "x"}))
                .unknown
                .is_empty()
        );
        assert!(of(&json!({"tokens": [], "ner_tags": null})).present);
        assert_eq!(
            of(&json!({"tokens": [], "entities": [[0, 1, "A"]], "ner": [[0, 1, "A"]]})).unknown,
            ["ner"]
        );
    }
}
