//! Splits words into word pieces with a pretrained tokenizer or one trained on the corpus.

mod check;
mod files;
mod running_text;
mod special;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainerBuilder};
use tokenizers::normalizers::bert::BertNormalizer;
use tokenizers::{AddedToken, Tokenizer, Trainer};

use super::encoded_sentence::{EncodedSentence, WordPieces};
use super::transformer::TransformerConfig;
use crate::error::{Error, Result};
use crate::text::Sentence;
use files::BERT_PIECES;
pub use files::OTHER_VOCABULARIES;
use running_text::WordSplitter;
use special::{Hints, SpecialPieces};

/// Size in bytes, estimated, at which the cache is emptied.
const CACHE_LIMIT: usize = 1 << 25;

/// A tokenizer that splits single words into the pieces they have in running text, and caches the result.
pub struct WordTokenizer {
    tokenizer: Tokenizer,
    special: SpecialPieces,
    splitter: WordSplitter,
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
        let (tokenizer, hints, origin) = files::read_folder(folder)?;
        Self::new(tokenizer, &hints, &origin)
    }

    /// Reads a `tokenizer.json`.
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::new(files::read_file(path)?, &Hints::default(), path)
    }

    /// Trains a WordPiece vocabulary of at most `size` pieces on the words of a corpus. The result depends on the
    /// corpus only.
    pub fn train(sentences: &[Sentence], size: usize, lowercase: bool) -> Result<Self> {
        let fail = |problem: tokenizers::Error| {
            Error::Training(format!("cannot train a WordPiece vocabulary: {problem}"))
        };
        let normalizer = BertNormalizer::new(true, true, None, lowercase);
        let normalized: Vec<String> = sentences
            .iter()
            .flat_map(|sentence| &sentence.words)
            .map(|word| normalize(&normalizer, &word.text))
            .collect();
        let alphabet: BTreeSet<char> = normalized.iter().flat_map(|word| word.chars()).collect();
        // The trainer assigns ids to single characters in the order of a randomly seeded hash map. Listing them all as
        // special tokens, sorted, makes the ids reproducible.
        let mut initial: Vec<String> = BERT_PIECES.map(String::from).to_vec();
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
            files::word_piece(model, normalizer, &BERT_PIECES).map_err(fail)?,
            &Hints::default(),
            Path::new("trained vocabulary"),
        )
    }

    fn new(mut tokenizer: Tokenizer, hints: &Hints, origin: &Path) -> Result<Self> {
        let special = SpecialPieces::find(&tokenizer, hints, origin)?;
        tokenizer.with_padding(None);
        // The file is saved alone: it has to say by itself what the files beside it say.
        if SpecialPieces::find(&tokenizer, &Hints::default(), origin).ok() != Some(special) {
            let recorded = special.recorded(&tokenizer);
            let recorded =
                recorded.map_err(|problem| Error::encoder(origin, problem.to_string()))?;
            tokenizer.with_post_processor(Some(recorded));
        }
        Ok(Self {
            splitter: WordSplitter::new(&tokenizer, origin)?,
            tokenizer,
            special,
            cache: Mutex::default(),
        })
    }

    /// Id of the piece before every sentence: \[CLS\] or `<s>`.
    pub fn cls_id(&self) -> u32 {
        self.special.cls
    }

    /// Id of the piece after every sentence: \[SEP\] or `</s>`.
    pub fn sep_id(&self) -> u32 {
        self.special.sep
    }

    /// Id of the padding piece.
    pub fn padding_id(&self) -> u32 {
        self.special.padding
    }

    /// Id of the piece of words that the tokenizer does not know.
    pub fn unknown_id(&self) -> u32 {
        self.special.unknown
    }

    /// Number of pieces in the vocabulary: all ids are below.
    pub fn vocabulary_size(&self) -> usize {
        // Ids can have gaps.
        let vocabulary = self.tokenizer.get_vocab(true);
        vocabulary
            .into_values()
            .max()
            .map_or(0, |id| id as usize + 1)
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

    /// Piece ids of a word. A word of which the tokenizer leaves nothing is one unknown piece.
    fn split(&self, word: &str) -> Vec<u32> {
        let ids = self.splitter.split(&self.tokenizer, word);
        if ids.is_empty() {
            vec![self.special.unknown]
        } else {
            ids
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
        write!(
            f,
            "WordTokenizer({} pieces)",
            self.tokenizer.get_vocab_size(true)
        )
    }
}

fn normalize(normalizer: &BertNormalizer, word: &str) -> String {
    use tokenizers::{NormalizedString, Normalizer};
    let mut normalized = NormalizedString::from(word);
    match normalizer.normalize(&mut normalized) {
        Ok(()) => normalized.get().to_string(),
        Err(_) => word.to_string(),
    }
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
        assert_eq!(encoded[1].ids[start], tokenizer.special.unknown);
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
