//! The words and entities of all files in a compact form: numbers instead of strings, for comparisons across files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::data::source::Collector;
use crate::error::Location;

/// The texts of all words or labels, each with a number.
#[derive(Debug, Default)]
pub(super) struct Interner {
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Interner {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        // A corpus of four billion different words does not fit into memory.
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.numbers.insert(text.to_string(), number);
        self.texts.push(text.to_string());
        number
    }

    /// All texts in the order of their numbers.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The text with a number.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }
}

/// An entity: first word, one past its last word, and the number of its type.
pub(super) type IndexedEntity = (u32, u32, u32);

/// A sentence of the index.
#[derive(Debug)]
pub(super) struct IndexedSentence {
    words: Range<usize>,
    entities: Range<usize>,
    /// Number of the given file.
    pub split: usize,
    file: usize,
    line: usize,
}

/// All sentences of a corpus.
#[derive(Debug, Default)]
pub(super) struct CorpusIndex {
    /// The words.
    pub words: Interner,
    /// The types.
    pub labels: Interner,
    /// The sentences, file by file.
    pub sentences: Vec<IndexedSentence>,
    all_words: Vec<u32>,
    all_entities: Vec<IndexedEntity>,
    /// The files as given.
    splits: Vec<PathBuf>,
    /// The files of locations; a given folder has several.
    files: Vec<PathBuf>,
}

impl CorpusIndex {
    /// Adds the sentences of a file.
    pub fn add(&mut self, file: &Path, corpus: &Collector) {
        let split = self.splits.len();
        self.splits.push(file.to_path_buf());
        for (index, sentence) in corpus.sentences.iter().enumerate() {
            let location = corpus.location(index);
            if self.files.last() != Some(&location.file) {
                self.files.push(location.file);
            }
            let words = self.all_words.len();
            for word in &sentence.words {
                let number = self.words.number(&word.text);
                self.all_words.push(number);
            }
            let entities = self.all_entities.len();
            for entity in &sentence.entities {
                let label = self.labels.number(&entity.label);
                self.all_entities
                    .push((entity.span.start as u32, entity.span.end as u32, label));
            }
            self.sentences.push(IndexedSentence {
                words: words..self.all_words.len(),
                entities: entities..self.all_entities.len(),
                split,
                file: self.files.len() - 1,
                line: location.line,
            });
        }
    }

    /// The words of a sentence.
    pub fn words_of(&self, sentence: &IndexedSentence) -> &[u32] {
        &self.all_words[sentence.words.clone()]
    }

    /// The entities of a sentence.
    pub fn entities_of(&self, sentence: &IndexedSentence) -> &[IndexedEntity] {
        &self.all_entities[sentence.entities.clone()]
    }

    /// Where a sentence starts.
    pub fn location(&self, sentence: &IndexedSentence) -> Location {
        Location::line(&self.files[sentence.file], sentence.line)
    }

    /// A file as given.
    pub fn split(&self, number: usize) -> &Path {
        &self.splits[number]
    }

    /// Number of given files.
    pub fn splits(&self) -> usize {
        self.splits.len()
    }

    /// Words joined by spaces.
    pub fn text(&self, words: &[u32]) -> String {
        let texts: Vec<&str> = words.iter().map(|word| self.words.text(*word)).collect();
        texts.join(" ")
    }
}
