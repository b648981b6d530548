//! Splits words into word pieces with a pretrained tokenizer or one trained on the corpus.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainerBuilder};
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Model, ModelWrapper, Tokenizer, Trainer};

use super::encoded_sentence::{EncodedSentence, WordPieces};
use super::tokenizer_check;
use super::transformer::TransformerConfig;
use crate::error::{Error, Result};
use crate::files::read_text;
use crate::text::Sentence;

/// Size in bytes, estimated, at which the cache is emptied.
const CACHE_LIMIT: usize = 1 << 25;

/// Number of characters of a word that are read. A word of more is not language; its pieces would fill more than a window.
const LONGEST_WORD: usize = 1 << 13;

/// Largest `tokenizer.json` in bytes; those of vocabularies with 250,000 pieces have about 20 million.
const LARGEST_FILE: u64 = 256 << 20;

/// Special pieces of BERT's vocabularies; a trained vocabulary starts with them.
const SPECIAL_PIECES: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// A tokenizer that splits single words into pieces and caches the result.
pub struct WordTokenizer {
    tokenizer: Tokenizer,
    cls_id: u32,
    sep_id: u32,
    padding_id: u32,
    unknown_id: u32,
    /// Whether a word needs a space before it: byte-level tokenizers mark the start of a word by one.
    space_before: bool,
    cache: Mutex<PieceCache>,
}

/// The pieces of words.
#[derive(Default)]
struct PieceCache {
    words: HashMap<String, WordPieces>,
    /// Estimated size.
    bytes: usize,
}

impl PieceCache {
    fn insert(&mut self, word: String, pieces: WordPieces) {
        // The two allocations and the entry of the map have about this size besides their contents.
        self.bytes += word.len() + 4 * pieces.len() + 96;
        self.words.insert(word, pieces);
    }
}

impl WordTokenizer {
    /// Reads `tokenizer.json` from a Hugging Face folder, or builds a WordPiece tokenizer from its `vocab.txt`.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let json = folder.join("tokenizer.json");
        if json.is_file() {
            return Self::from_file(&json);
        }
        let vocabulary = folder.join("vocab.txt");
        if !vocabulary.is_file() {
            return Err(Error::encoder(
                folder,
                "this folder has neither tokenizer.json nor vocab.txt; download one of them from the model's page",
            ));
        }
        let lowercase = read_lowercase(folder)?;
        let tokenizer = WordPiece::from_file(&vocabulary.to_string_lossy())
            .unk_token("[UNK]".into())
            .build()
            .and_then(|model| bert_tokenizer(model, lowercase));
        let tokenizer =
            tokenizer.map_err(|problem| Error::encoder(&vocabulary, problem.to_string()))?;
        Self::new(tokenizer, &vocabulary)
    }

    /// Reads a `tokenizer.json`.
    pub fn from_file(path: &Path) -> Result<Self> {
        let fail = |problem: String| Error::encoder(path, problem);
        let text = read_text(path, LARGEST_FILE)?;
        let json = serde_json::from_str(&text).map_err(|problem| fail(problem.to_string()))?;
        tokenizer_check::check(&json).map_err(fail)?;
        let tokenizer = Tokenizer::from_bytes(text).map_err(|problem| fail(problem.to_string()))?;
        Self::new(tokenizer, path)
    }

    /// Trains a WordPiece vocabulary of at most `size` pieces on the words of a corpus. The result depends on the
    /// corpus only.
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
        // The trainer assigns ids to single characters in the order of a randomly seeded hash map. Listing them all as
        // special tokens, sorted, makes the ids reproducible.
        let mut initial: Vec<String> = SPECIAL_PIECES.map(String::from).to_vec();
        initial.extend(alphabet.iter().map(char::to_string));
        initial.extend(alphabet.iter().map(|letter| format!("##{letter}")));
        let mut trainer = WordPieceTrainerBuilder::new()
            .vocab_size(size.max(initial.len()))
            .min_frequency(2)
            .show_progress(false)
            .special_tokens(
                initial
                    .iter()
                    .map(|piece| AddedToken::from(piece.clone(), true))
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
            bert_tokenizer(model, lowercase).map_err(fail)?,
            Path::new("trained vocabulary"),
        )
    }

    fn new(mut tokenizer: Tokenizer, origin: &Path) -> Result<Self> {
        // A file may have settings for whole texts; they must not truncate or pad single words.
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
        let cls_id = find(&["[CLS]", "<s>"], "start-of-sentence piece")?;
        let sep_id = find(&["[SEP]", "</s>"], "end-of-sentence piece")?;
        let padding_id = find(&["[PAD]", "<pad>"], "padding piece")?;
        let unknown_id = find(&["[UNK]", "<unk>"], "unknown piece")?;
        let space_before = tokenizer
            .get_pre_tokenizer()
            .and_then(|pre_tokenizer| serde_json::to_string(pre_tokenizer).ok())
            .is_some_and(|json| json.contains("ByteLevel"));
        Ok(Self {
            tokenizer,
            cls_id,
            sep_id,
            padding_id,
            unknown_id,
            space_before,
            cache: Mutex::default(),
        })
    }

    /// Id of the piece before every sentence: \[CLS\] or `<s>`.
    pub fn cls_id(&self) -> u32 {
        self.cls_id
    }

    /// Id of the piece after every sentence: \[SEP\] or `</s>`.
    pub fn sep_id(&self) -> u32 {
        self.sep_id
    }

    /// Id of the padding piece.
    pub fn padding_id(&self) -> u32 {
        self.padding_id
    }

    /// Number of pieces in the vocabulary.
    pub fn vocabulary_size(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// Fails, with the reason, if a piece has no row in the embedding of a transformer.
    pub fn check_fits(&self, transformer: &TransformerConfig) -> Result<(), String> {
        let ids = self.tokenizer.get_vocab(true).into_values();
        let largest = ids.max().map_or(0, |id| id as usize);
        if largest < transformer.vocabulary {
            return Ok(());
        }
        Err(format!(
            "the tokenizer has pieces up to number {largest}, but the encoder has embeddings for {} only; they do not belong \
             together",
            transformer.vocabulary
        ))
    }

    /// Text of the piece with this id.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// Writes the tokenizer as `tokenizer.json`.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.tokenizer
            .save(path, false)
            .map_err(|problem| Error::encoder(path, problem.to_string()))
    }

    /// Splits the words of sentences into pieces. Each distinct word is tokenized once, on all cores.
    pub fn encode(&self, sentences: &[Sentence]) -> Vec<EncodedSentence> {
        self.encode_with(sentences, false)
    }

    /// Like [`encode`](Self::encode); with `has_context` the words of neighbouring sentences are split, too.
    pub fn encode_with(&self, sentences: &[Sentence], has_context: bool) -> Vec<EncodedSentence> {
        let mut cache = self.cache.lock().unwrap_or_else(|lock| lock.into_inner());
        self.fill_cache(&mut cache, sentences, has_context);
        let encoded = sentences
            .iter()
            .map(|sentence| encode_sentence(&cache.words, sentence, has_context))
            .collect();
        if cache.bytes > CACHE_LIMIT {
            *cache = PieceCache::default();
        }
        encoded
    }

    /// Tokenizes the words that are not in the cache.
    fn fill_cache(&self, cache: &mut PieceCache, sentences: &[Sentence], has_context: bool) {
        let context = sentences
            .iter()
            .filter(|_| has_context)
            .flat_map(|sentence| sentence.left.iter().chain(&sentence.right));
        let unseen: BTreeSet<&str> = sentences
            .iter()
            .flat_map(|sentence| &sentence.words)
            .map(|word| word.text.as_str())
            .chain(context.map(String::as_str))
            .filter(|word| !cache.words.contains_key(*word))
            .collect();
        let unseen: Vec<&str> = unseen.into_iter().collect();
        let tokenized: Vec<(String, WordPieces)> = unseen
            .par_iter()
            .map(|word| (word.to_string(), self.split(word).into()))
            .collect();
        for (word, pieces) in tokenized {
            cache.insert(word, pieces);
        }
    }

    /// Piece ids of a word. A word of which the tokenizer's normaliser leaves nothing is one unknown piece.
    fn split(&self, word: &str) -> Vec<u32> {
        let word = word
            .char_indices()
            .nth(LONGEST_WORD)
            .map_or(word, |(end, _)| &word[..end]);
        let encoding = if self.space_before {
            self.tokenizer.encode_fast(format!(" {word}"), false)
        } else {
            self.tokenizer.encode_fast(word, false)
        };
        match encoding {
            Ok(encoding) if !encoding.get_ids().is_empty() => encoding.get_ids().to_vec(),
            _ => vec![self.unknown_id],
        }
    }
}

/// The pieces of a sentence, all of whose words are in the cache.
fn encode_sentence(
    cache: &HashMap<String, WordPieces>,
    sentence: &Sentence,
    has_context: bool,
) -> EncodedSentence {
    let mut encoded = EncodedSentence {
        ids: Vec::with_capacity(2 * sentence.len()),
        starts: Vec::with_capacity(sentence.len() + 1),
        left: Vec::new(),
        right: Vec::new(),
    };
    if has_context {
        let pieces = |word: &String| cache[word].clone();
        encoded.left = sentence.left.iter().map(pieces).collect();
        encoded.right = sentence.right.iter().map(pieces).collect();
    }
    for word in &sentence.words {
        encoded.starts.push(encoded.ids.len());
        encoded.ids.extend_from_slice(&cache[&word.text]);
    }
    encoded.starts.push(encoded.ids.len());
    encoded
}

impl std::fmt::Debug for WordTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WordTokenizer({} pieces)", self.vocabulary_size())
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

fn bert_tokenizer(model: WordPiece, lowercase: bool) -> tokenizers::Result<Tokenizer> {
    let specials: Vec<AddedToken> = SPECIAL_PIECES
        .into_iter()
        .filter(|name| model.token_to_id(name).is_some())
        .map(|name| AddedToken::from(name, true))
        .collect();
    let mut tokenizer = Tokenizer::new(ModelWrapper::WordPiece(model));
    tokenizer.with_normalizer(Some(bert_normalizer(lowercase)))?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.add_special_tokens(specials)?;
    Ok(tokenizer)
}

/// Whether words are lower-cased according to a folder's `tokenizer_config.json`; BERT's default is yes.
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
            let tokenizer = WordTokenizer::train(&corpus(), 80, true).unwrap();
            (0..tokenizer.vocabulary_size() as u32)
                .map(|id| tokenizer.piece(id).unwrap())
                .collect::<Vec<_>>()
        };
        let first = vocabulary();
        assert!(first.contains(&"bank".to_string()));
        for _ in 0..5 {
            assert_eq!(first, vocabulary());
        }
    }

    #[test]
    fn words_without_pieces_become_one_unknown_piece() {
        let tokenizer = WordTokenizer::train(&corpus(), 80, true).unwrap();
        let encoded = tokenizer.encode(&corpus());
        assert_eq!(encoded[1].words(), 6);
        assert!(encoded[1].counts().iter().all(|count| *count > 0));
        let start = encoded[1].starts[3];
        assert_eq!(encoded[1].ids[start], tokenizer.unknown_id);
    }

    #[test]
    fn the_cache_is_bounded() {
        let tokenizer = WordTokenizer::train(&corpus(), 80, true).unwrap();
        let long = Sentence::from_words(["x".repeat(CACHE_LIMIT), "the".to_string()]);
        let first = tokenizer.encode(std::slice::from_ref(&long));
        assert!(tokenizer.cache.lock().unwrap().words.is_empty());
        assert_eq!(tokenizer.encode(&[long]), first);
        tokenizer.encode(&corpus());
        assert!(!tokenizer.cache.lock().unwrap().words.is_empty());
    }

    #[test]
    fn a_saved_tokenizer_gives_the_same_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let tokenizer = WordTokenizer::train(&corpus(), 80, true).unwrap();
        tokenizer.save(&path).unwrap();
        let again = WordTokenizer::from_file(&path).unwrap();
        assert_eq!(tokenizer.encode(&corpus()), again.encode(&corpus()));
    }
}
