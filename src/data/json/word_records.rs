//! Records of one word each, with the number of its sentence, as pandas writes a table of words.

use serde_json::{Map, Value, json};

use super::Place;
use crate::data::csv::names::{SENTENCE, TAGS, WORD, normalised};

/// A word with its tag and the sentence it belongs to; null for that of the word before.
pub(super) struct WordRecord {
    sentence: Value,
    word: String,
    tag: Value,
}

impl WordRecord {
    /// The word of a record such as `{"sentence_id": 0, "words": "Maria", "labels": "B-PER"}`; `None` for other records.
    pub fn of(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        if object
            .values()
            .any(|value| value.is_array() || value.is_object())
        {
            return None;
        }
        let tag = find(object, TAGS)?;
        // A string with spaces holds the tags of a sentence.
        let is_tag = match tag {
            Value::String(tag) => !tag.contains(char::is_whitespace),
            tag => tag.is_u64(),
        };
        if !is_tag {
            return None;
        }
        // Under `id`, most tables number the records and not the sentences.
        let sentence = SENTENCE.iter().filter(|known| **known != "id");
        Some(Self {
            sentence: find(object, sentence)?.clone(),
            word: find(object, WORD)?.as_str()?.to_string(),
            tag: tag.clone(),
        })
    }
}

/// The value under the first known key.
fn find<'a, 'k>(
    object: &'a Map<String, Value>,
    known: impl IntoIterator<Item = &'k &'k str>,
) -> Option<&'a Value> {
    known.into_iter().find_map(|known| {
        let mut entries = object.iter();
        entries.find_map(|(key, value)| (normalised(key) == *known).then_some(value))
    })
}

/// The words of a sentence that have been read so far.
pub(super) struct WordGroup {
    sentence: Value,
    place: Place,
    words: Vec<String>,
    tags: Vec<Value>,
}

impl WordGroup {
    /// A sentence that begins with a word.
    pub fn new(record: WordRecord, place: Place) -> Self {
        Self {
            sentence: record.sentence,
            place,
            words: vec![record.word],
            tags: vec![record.tag],
        }
    }

    /// Adds a word of the same sentence; gives back a word of another one.
    pub fn add(&mut self, record: WordRecord) -> Option<WordRecord> {
        if !record.sentence.is_null() && record.sentence != self.sentence {
            return Some(record);
        }
        self.words.push(record.word);
        self.tags.push(record.tag);
        None
    }

    /// The place of the first word, and the sentence as one record.
    pub fn record(self) -> (Place, Value) {
        (
            self.place,
            json!({"tokens": self.words, "ner_tags": self.tags}),
        )
    }
}
