//! Words to word pieces and back.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;

pub use super::encoded::{EncodedSentence, WordPieces};
use rayon::prelude::*;
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainerBuilder};
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Model, ModelWrapper, Tokenizer, Trainer};

use crate::error::{Error, Result};
use crate::text::Sentence;

/// Words remembered with their pieces; past this many they are forgotten and learned anew.
const REMEMBERED: usize = 1 << 20;

/// A tokenizer that turns one word at a time into pieces, and remembers them.
pub struct WordTokenizer {
    tokenizer: Tokenizer,
    first: u32,
    last: u32,
    padding: u32,
    unknown: u32,
    /// Byte-level tokenizers mark a word's beginning by the space before it.
    space_before: bool,
    remembered: Mutex<HashMap<String, WordPieces>>,
}

impl WordTokenizer {
    /// Reads `tokenizer.json`, or builds a WordPiece tokenizer from `vocab.txt`, of a Hugging Face folder.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let json = folder.join("tokenizer.json");
        if json.is_file() {
            return Self::from_file(&json);
        }
        let vocabulary = folder.join("vocab.txt");
        if !vocabulary.is_file() {
            return Err(Error::encoder(
                folder,
                "neither tokenizer.json nor vocab.txt is there; copy one of them from the model's page",
            ));
        }
        let lowercase = read_lowercase(folder)?;
        let model = WordPiece::from_file(&vocabulary.to_string_lossy())
            .unk_token("[UNK]".into())
            .build()
            .map_err(|problem| Error::encoder(&vocabulary, problem.to_string()))?;
        Self::new(bert_tokenizer(model, lowercase), &vocabulary)
    }

    /// Reads a `tokenizer.json`.
    pub fn from_file(path: &Path) -> Result<Self> {
        let tokenizer = Tokenizer::from_file(path)
            .map_err(|problem| Error::encoder(path, problem.to_string()))?;
        Self::new(tokenizer, path)
    }

    /// Trains a WordPiece vocabulary of at most `size` pieces on the words of a corpus. The same corpus gives
    /// the same vocabulary on every run.
    pub fn train(sentences: &[Sentence], size: usize, lowercase: bool) -> Result<Self> {
        let fail = |problem: tokenizers::Error| {
            Error::Training(format!("cannot train a WordPiece vocabulary: {problem}"))
        };
        let normalizer = bert_normalizer(lowercase);
        let normalized: Vec<String> = sentences
            .iter()
            .flat_map(|sentence| &sentence.words)
            .map(|word| normalize(&normalizer, &word.text))
            .collect();
        let alphabet: BTreeSet<char> = normalized.iter().flat_map(|word| word.chars()).collect();
        // The trainer numbers what it meets in the order of a randomly seeded map. Naming all single characters
        // beforehand, in order, leaves it nothing to number by chance.
        let mut seeds: Vec<String> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
            .map(String::from)
            .to_vec();
        seeds.extend(alphabet.iter().map(char::to_string));
        seeds.extend(alphabet.iter().map(|letter| format!("##{letter}")));
        let mut trainer = WordPieceTrainerBuilder::new()
            .vocab_size(size.max(seeds.len()))
            .min_frequency(2)
            .show_progress(false)
            .special_tokens(
                seeds
                    .iter()
                    .map(|seed| AddedToken::from(seed.clone(), true))
                    .collect(),
            )
            .build();
        trainer
            .feed(normalized.iter(), |word| {
                Ok(word.split_whitespace().map(String::from).collect())
            })
            .map_err(fail)?;
        let mut model = WordPiece::builder()
            .unk_token("[UNK]".into())
            .build()
            .map_err(fail)?;
        trainer.train(&mut model).map_err(fail)?;
        Self::new(
            bert_tokenizer(model, lowercase),
            Path::new("trained vocabulary"),
        )
    }

    fn new(mut tokenizer: Tokenizer, origin: &Path) -> Result<Self> {
        // Settings for whole texts that a file may carry must not cut or pad single words.
        tokenizer
            .with_truncation(None)
            .map_err(|problem| Error::encoder(origin, problem.to_string()))?;
        tokenizer.with_padding(None);
        let find = |names: &[&str], what: &str| {
            names
                .iter()
                .find_map(|name| tokenizer.token_to_id(name))
                .ok_or_else(|| {
                    let names = names.join(" or ");
                    Error::encoder(origin, format!("the vocabulary has no {what} ({names})"))
                })
        };
        let first = find(&["[CLS]", "<s>"], "piece that begins a sentence")?;
        let last = find(&["[SEP]", "</s>"], "piece that ends a sentence")?;
        let padding = find(&["[PAD]", "<pad>"], "padding piece")?;
        let unknown = find(&["[UNK]", "<unk>"], "unknown piece")?;
        let space_before = tokenizer
            .get_pre_tokenizer()
            .and_then(|pre_tokenizer| serde_json::to_string(pre_tokenizer).ok())
            .is_some_and(|json| json.contains("ByteLevel"));
        Ok(Self {
            tokenizer,
            first,
            last,
            padding,
            unknown,
            space_before,
            remembered: Mutex::default(),
        })
    }

    /// The piece before every sentence, such as \[CLS\].
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The piece after every sentence, such as \[SEP\].
    pub fn last(&self) -> u32 {
        self.last
    }

    /// The padding piece.
    pub fn padding(&self) -> u32 {
        self.padding
    }

    /// Number of pieces known.
    pub fn vocabulary(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// The piece with this number.
    pub fn name(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// Writes the tokenizer as `tokenizer.json`.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.tokenizer
            .save(path, false)
            .map_err(|problem| Error::encoder(path, problem.to_string()))
    }

    /// Pieces of every sentence, in order. Each distinct word is tokenized once, on all cores.
    pub fn encode(&self, sentences: &[Sentence]) -> Vec<EncodedSentence> {
        self.encode_with(sentences, false)
    }

    /// The same, with the words of the sentences' neighbours when these are to be read.
    pub fn encode_with(&self, sentences: &[Sentence], neighbours: bool) -> Vec<EncodedSentence> {
        let mut known = self
            .remembered
            .lock()
            .unwrap_or_else(|lock| lock.into_inner());
        let others = sentences
            .iter()
            .filter(|_| neighbours)
            .flat_map(|sentence| sentence.left.iter().chain(&sentence.right));
        let unseen: BTreeSet<&str> = sentences
            .iter()
            .flat_map(|sentence| &sentence.words)
            .map(|word| word.text.as_str())
            .chain(others.map(String::as_str))
            .filter(|word| !known.contains_key(*word))
            .collect();
        let unseen: Vec<&str> = unseen.into_iter().collect();
        let fresh: Vec<(String, WordPieces)> = unseen
            .par_iter()
            .map(|word| (word.to_string(), self.pieces(word).into()))
            .collect();
        known.extend(fresh);
        let encoded = sentences
            .iter()
            .map(|sentence| {
                let mut encoded = EncodedSentence {
                    ids: Vec::with_capacity(2 * sentence.len()),
                    starts: Vec::with_capacity(sentence.len() + 1),
                    left: Vec::new(),
                    right: Vec::new(),
                };
                if neighbours {
                    let pieces = |word: &String| known[word].clone();
                    encoded.left = sentence.left.iter().map(pieces).collect();
                    encoded.right = sentence.right.iter().map(pieces).collect();
                }
                for word in &sentence.words {
                    encoded.starts.push(encoded.ids.len());
                    encoded.ids.extend_from_slice(&known[&word.text]);
                }
                encoded.starts.push(encoded.ids.len());
                encoded
            })
            .collect();
        if known.len() > REMEMBERED {
            known.clear();
        }
        encoded
    }

    /// Pieces of one word. A word that the tokenizer normalises away keeps its place as an unknown piece.
    fn pieces(&self, word: &str) -> Vec<u32> {
        let encoding = if self.space_before {
            self.tokenizer.encode_fast(format!(" {word}"), false)
        } else {
            self.tokenizer.encode_fast(word, false)
        };
        match encoding {
            Ok(encoding) if !encoding.get_ids().is_empty() => encoding.get_ids().to_vec(),
            _ => vec![self.unknown],
        }
    }
}

impl std::fmt::Debug for WordTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WordTokenizer({})", self.vocabulary())
    }
}

fn bert_normalizer(lowercase: bool) -> BertNormalizer {
    BertNormalizer::new(true, true, None, lowercase)
}

fn normalize(normalizer: &BertNormalizer, word: &str) -> String {
    use tokenizers::{NormalizedString, Normalizer};
    let mut normalized = NormalizedString::from(word);
    match normalizer.normalize(&mut normalized) {
        Ok(()) => normalized.get().to_string(),
        Err(_) => word.to_string(),
    }
}

fn bert_tokenizer(model: WordPiece, lowercase: bool) -> Tokenizer {
    let specials: Vec<AddedToken> = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        .into_iter()
        .filter(|name| model.token_to_id(name).is_some())
        .map(|name| AddedToken::from(name, true))
        .collect();
    let mut tokenizer = Tokenizer::new(ModelWrapper::WordPiece(model));
    tokenizer.with_normalizer(Some(bert_normalizer(lowercase)));
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.add_special_tokens(&specials);
    tokenizer
}

/// Whether a folder's `tokenizer_config.json` asks for lower case; BERT's default is yes.
fn read_lowercase(folder: &Path) -> Result<bool> {
    let path = folder.join("tokenizer_config.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(true);
    };
    let config: serde_json::Value = serde_json::from_str(&text)
        .map_err(|problem| Error::encoder(&path, problem.to_string()))?;
    Ok(config["do_lower_case"].as_bool().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Vec<Sentence> {
        vec![
            Sentence::from_words(["the", "lindholm", "bank", "of", "lindholm"]),
            Sentence::from_words(["the", "bank", "banks", "\u{200b}", "of", "the"]),
        ]
    }

    #[test]
    fn training_is_reproducible() {
        let vocabulary = || {
            let pieces = WordTokenizer::train(&corpus(), 80, true).unwrap();
            (0..pieces.vocabulary() as u32)
                .map(|id| pieces.name(id).unwrap())
                .collect::<Vec<_>>()
        };
        let first = vocabulary();
        assert!(first.contains(&"bank".to_string()));
        for _ in 0..5 {
            assert_eq!(first, vocabulary());
        }
    }

    #[test]
    fn words_without_pieces_keep_their_place() {
        let pieces = WordTokenizer::train(&corpus(), 80, true).unwrap();
        let encoded = pieces.encode(&corpus());
        assert_eq!(encoded[1].words(), 6);
        assert!(encoded[1].counts().iter().all(|count| *count > 0));
        let at = encoded[1].starts[3];
        assert_eq!(encoded[1].ids[at], pieces.unknown);
    }

    #[test]
    fn a_saved_tokenizer_gives_the_same_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let pieces = WordTokenizer::train(&corpus(), 80, true).unwrap();
        pieces.save(&path).unwrap();
        let again = WordTokenizer::from_file(&path).unwrap();
        assert_eq!(pieces.encode(&corpus()), again.encode(&corpus()));
    }
}
