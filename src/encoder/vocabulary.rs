//! What a batch's words are looked up in besides the pieces: words with a vector, parts of speech, characters. The
//! numbers are made in the data loader's threads.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::text::Sentence;

/// Rows of the character table: padding, the 100 printable ASCII characters, the end of a word, everything else.
pub const CHARACTERS: usize = 103;
const WORD_END: i32 = 101;
const OTHER_CHARACTER: i32 = 102;

/// The order of the printable characters in the table.
const PRINTABLE: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t\n\r\x0b\x0c";

/// Characters read of a word: one that is longer, such as a link, would make all others wait.
const LONGEST: usize = 64;

/// What is known by name; saved with the model. Number 0 is what is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Lower-cased words with a vector, from number 1 on.
    #[serde(with = "joined")]
    pub words: Vec<String>,
    /// Part-of-speech tags, from number 1 on.
    pub tags: Vec<String>,
}

/// Thousands of words as one text: no word of a vectors' file has a space in it.
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

impl Vocabulary {
    /// The tags that occur at least so many times, in alphabetical order.
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

/// The vocabulary, ready to look words up.
#[derive(Debug)]
pub struct Lookup {
    words: HashMap<String, i32>,
    tags: HashMap<String, i32>,
    has_characters: bool,
}

/// What is known of the words of a batch, padding words included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeatureBatch {
    /// The vector of each word: [batch · words].
    pub vectors: Vec<i32>,
    /// The part of speech of each word: [batch · words].
    pub tags: Vec<i32>,
    /// Characters of each distinct word: [distinct · longest].
    pub characters: Vec<i32>,
    /// How many characters each of these has, its end included.
    pub character_counts: Vec<usize>,
    /// Which of these each word is: [batch · words].
    pub spellings: Vec<usize>,
}

impl Lookup {
    /// A lookup of a vocabulary, with characters or without.
    pub fn new(vocabulary: &Vocabulary, has_characters: bool) -> Self {
        let numbered = |names: &[String]| {
            let numbers = names.iter().cloned().zip(1..);
            numbers.collect()
        };
        Self {
            words: numbered(&vocabulary.words),
            tags: numbered(&vocabulary.tags),
            has_characters,
        }
    }

    /// The numbers of a batch whose longest sentence has `words` words.
    pub fn batch(&self, sentences: &[&Sentence], words: usize) -> FeatureBatch {
        let mut batch = FeatureBatch::default();
        let places = sentences.len() * words;
        if !self.words.is_empty() {
            batch.vectors = vec![0; places];
        }
        if !self.tags.is_empty() {
            batch.tags = vec![0; places];
        }
        let mut spellings: HashMap<&str, usize> = HashMap::new();
        let mut distinct: Vec<Vec<i32>> = vec![vec![0]]; // that of padding words
        if self.has_characters {
            batch.spellings = vec![0; places];
        }
        for (index, sentence) in sentences.iter().enumerate() {
            for (position, word) in sentence.words.iter().enumerate() {
                let place = index * words + position;
                if let Some(vector) = batch.vectors.get_mut(place) {
                    let known = self.words.get(&word.text.to_lowercase());
                    *vector = known.copied().unwrap_or(0);
                }
                if let Some(tag) = batch.tags.get_mut(place) {
                    let name = sentence.pos.as_ref().and_then(|tags| tags.get(position));
                    let known = name.and_then(|name| self.tags.get(name));
                    *tag = known.copied().unwrap_or(0);
                }
                if let Some(spelling) = batch.spellings.get_mut(place) {
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

/// The characters of a word and its end.
fn characters(word: &str) -> Vec<i32> {
    let number = |letter: char| {
        if letter.is_ascii() {
            PRINTABLE
                .find(letter)
                .map_or(OTHER_CHARACTER, |place| 1 + place as i32)
        } else {
            OTHER_CHARACTER
        }
    };
    let letters = word.chars().take(LONGEST - 1).map(number);
    letters.chain([WORD_END]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_the_numbers_of_the_table() {
        assert_eq!(PRINTABLE.len(), 100);
        assert_eq!(characters("aZ09"), [11, 62, 1, 10, WORD_END]);
        assert_eq!(characters("!\x0cé\x01"), [63, 100, 102, 102, WORD_END]);
        assert_eq!(characters(&"x".repeat(500)).len(), LONGEST);
    }

    #[test]
    fn words_tags_and_spellings_are_numbered() {
        let vocabulary = Vocabulary {
            words: vec!["anna".into(), "sings".into()],
            tags: vec!["N".into()],
        };
        let text = serde_json::to_string(&vocabulary).unwrap();
        let vocabulary: Vocabulary = serde_json::from_str(&text).unwrap();
        let mut first = Sentence::from_words(["Anna", "likes", "Anna"]);
        first.pos = Some(["N", "V", "N"].map(String::from).to_vec());
        let second = Sentence::from_words(["sings"]);
        let batch = Lookup::new(&vocabulary, true).batch(&[&first, &second], 3);
        assert_eq!(batch.vectors, [1, 0, 1, 2, 0, 0]);
        assert_eq!(batch.tags, [1, 0, 1, 0, 0, 0]);
        assert_eq!(batch.spellings, [1, 2, 1, 3, 0, 0]);
        assert_eq!(batch.character_counts, [1, 5, 6, 6]);
        assert_eq!(batch.characters.len(), 4 * 6);
        let none = Lookup::new(&Vocabulary::default(), false).batch(&[&first, &second], 3);
        assert_eq!(none, FeatureBatch::default());
        assert_eq!(Vocabulary::tags(&[first], 2), ["N"]);
    }
}
