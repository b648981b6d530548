//! Vocabularies of the word features (words with a vector, part-of-speech tags, characters), and the ids of a batch's
//! words in them.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::shapes::next_size;
use crate::text::Sentence;

/// Number of rows of the character embedding: padding, the 100 characters of Python's `string.printable`, end of word, all others.
pub const CHARACTERS: usize = 103;
const WORD_END: i32 = 101;
const OTHER_CHARACTER: i32 = 102;

/// The printable characters in the order of their ids, from 1 on.
const PRINTABLE: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t\n\r\x0b\x0c";

/// Largest number of ids of a word: a very long word, such as a URL, would slow down the whole batch.
const LONGEST: usize = 64;

/// In padded batches, the number of ids of a word is a multiple of this.
const CHARACTER_STEP: usize = 16;

/// In padded batches, the least number of distinct words.
const LEAST_DISTINCT: usize = 64;

/// Words and tags that have a row in an embedding; saved with the model. Row 0 is for all others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureVocabulary {
    /// Lower-cased words with a vector; ids start at 1.
    #[serde(with = "joined")]
    pub words: Vec<String>,
    /// Part-of-speech tags; ids start at 1.
    pub tags: Vec<String>,
}

/// Writes thousands of words as one string: words in a file of word vectors contain no space.
mod joined {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(words: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&words.join(" "))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let text = String::deserialize(from)?;
        let words = text.split(' ').filter(|word| !word.is_empty());
        Ok(words.map(String::from).collect())
    }
}

impl FeatureVocabulary {
    /// The tags that occur at least `at_least` times, in alphabetical order.
    pub fn tags(sentences: &[Sentence], at_least: usize) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for tag in sentences
            .iter()
            .flat_map(|sentence| &sentence.pos)
            .flatten()
        {
            *counts.entry(tag).or_default() += 1;
        }
        counts
            .into_iter()
            .filter(|(_, count)| *count >= at_least)
            .map(|(tag, _)| tag.to_string())
            .collect()
    }
}

/// Looks up the ids of words, tags and characters.
#[derive(Debug)]
pub struct FeatureLookup {
    words: HashMap<String, i32>,
    tags: HashMap<String, i32>,
    has_characters: bool,
}

/// Ids of the words of a batch, padding words included. Lists of features that the encoder does not have are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureBatch {
    /// Row of each word in the word vectors: `[batch · words]`.
    pub vectors: Vec<i32>,
    /// Id of each word's part of speech: `[batch · words]`.
    pub tags: Vec<i32>,
    /// Character ids of each distinct word, padded to the longest: `[distinct · longest]`.
    pub characters: Vec<i32>,
    /// Number of character ids of each distinct word, end of word included: `[distinct]`.
    pub character_counts: Vec<usize>,
    /// Index of each word among the distinct ones: `[batch · words]`.
    pub spellings: Vec<usize>,
}

impl FeatureBatch {
    /// Pads the list of distinct words so that it has one of a few lengths, and their characters likewise.
    pub(super) fn pad_spellings(&mut self) {
        let distinct = self.character_counts.len();
        if distinct == 0 {
            return;
        }
        let longest = self.characters.len() / distinct;
        let wider = longest.next_multiple_of(CHARACTER_STEP);
        let mut padded = Vec::new();
        for spelling in self.characters.chunks(longest) {
            padded.extend_from_slice(spelling);
            padded.resize(padded.len() + wider - longest, 0);
        }
        let more = next_size(distinct, LEAST_DISTINCT);
        padded.resize(more * wider, 0);
        self.characters = padded;
        self.character_counts.resize(more, 1);
    }
}

impl FeatureLookup {
    /// Creates a lookup for a vocabulary, with characters or without.
    pub fn new(vocabulary: &FeatureVocabulary, has_characters: bool) -> Self {
        let ids = |names: &[String]| names.iter().cloned().zip(1..).collect();
        Self {
            words: ids(&vocabulary.words),
            tags: ids(&vocabulary.tags),
            has_characters,
        }
    }

    /// Ids of the words of a batch whose longest sentence has `words` words.
    pub fn batch(&self, sentences: &[&Sentence], words: usize) -> FeatureBatch {
        let mut batch = FeatureBatch::default();
        let total = sentences.len() * words;
        if !self.words.is_empty() {
            batch.vectors = vec![0; total];
        }
        if !self.tags.is_empty() {
            batch.tags = vec![0; total];
        }
        let mut spellings: HashMap<&str, usize> = HashMap::new();
        let mut distinct: Vec<Vec<i32>> = vec![vec![0]]; // of padding words
        if self.has_characters {
            batch.spellings = vec![0; total];
        }
        for (index, sentence) in sentences.iter().enumerate() {
            for (position, word) in sentence.words.iter().enumerate() {
                let word_index = index * words + position;
                if let Some(vector) = batch.vectors.get_mut(word_index) {
                    let known = self.words.get(&word.text.to_lowercase());
                    *vector = known.copied().unwrap_or(0);
                }
                if let Some(tag) = batch.tags.get_mut(word_index) {
                    let name = sentence.pos.as_ref().and_then(|tags| tags.get(position));
                    let known = name.and_then(|name| self.tags.get(name));
                    *tag = known.copied().unwrap_or(0);
                }
                if let Some(spelling) = batch.spellings.get_mut(word_index) {
                    *spelling = *spellings.entry(&word.text).or_insert_with(|| {
                        distinct.push(characters(&word.text));
                        distinct.len() - 1
                    });
                }
            }
        }
        if self.has_characters {
            let longest = distinct.iter().map(Vec::len).max().unwrap_or(1);
            batch.character_counts = distinct.iter().map(Vec::len).collect();
            for mut spelling in distinct {
                spelling.resize(longest, 0);
                batch.characters.extend(spelling);
            }
        }
        batch
    }
}

/// Ids of the characters of a word, with the end of the word.
fn characters(word: &str) -> Vec<i32> {
    let id = |letter: char| {
        if letter.is_ascii() {
            PRINTABLE
                .find(letter)
                .map_or(OTHER_CHARACTER, |index| 1 + index as i32)
        } else {
            OTHER_CHARACTER
        }
    };
    let letters = word.chars().take(LONGEST - 1).map(id);
    letters.chain([WORD_END]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_fixed_ids() {
        assert_eq!(PRINTABLE.len(), 100);
        assert_eq!(characters("aZ09"), [11, 62, 1, 10, WORD_END]);
        assert_eq!(characters("!\x0cé\x01"), [63, 100, 102, 102, WORD_END]);
        assert_eq!(characters(&"x".repeat(500)).len(), LONGEST);
    }

    #[test]
    fn words_tags_and_spellings_have_ids() {
        let vocabulary = FeatureVocabulary {
            words: vec!["anna".into(), "sings".into()],
            tags: vec!["N".into()],
        };
        let text = serde_json::to_string(&vocabulary).unwrap();
        let vocabulary: FeatureVocabulary = serde_json::from_str(&text).unwrap();
        let mut first = Sentence::from_words(["Anna", "likes", "Anna"]);
        first.pos = Some(["N", "V", "N"].map(String::from).to_vec());
        let second = Sentence::from_words(["sings"]);
        let batch = FeatureLookup::new(&vocabulary, true).batch(&[&first, &second], 3);
        assert_eq!(batch.vectors, [1, 0, 1, 2, 0, 0]);
        assert_eq!(batch.tags, [1, 0, 1, 0, 0, 0]);
        assert_eq!(batch.spellings, [1, 2, 1, 3, 0, 0]);
        assert_eq!(batch.character_counts, [1, 5, 6, 6]);
        assert_eq!(batch.characters.len(), 4 * 6);
        let mut padded = batch.clone();
        padded.pad_spellings();
        assert_eq!(padded.characters.len(), LEAST_DISTINCT * CHARACTER_STEP);
        assert_eq!(padded.character_counts.len(), LEAST_DISTINCT);
        for (word, count) in batch.character_counts.iter().enumerate() {
            let [before, after] = [(&batch, 6), (&padded, CHARACTER_STEP)]
                .map(|(batch, width)| &batch.characters[word * width..][..*count]);
            assert_eq!(before, after);
        }
        let none =
            FeatureLookup::new(&FeatureVocabulary::default(), false).batch(&[&first, &second], 3);
        assert_eq!(none, FeatureBatch::default());
        assert_eq!(FeatureVocabulary::tags(&[first], 2), ["N"]);
    }
}
