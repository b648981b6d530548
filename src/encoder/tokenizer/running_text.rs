//! The pieces that a word has in running text, where a space comes before it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tokenizers::models::ModelWrapper;
use tokenizers::{Model, Tokenizer};

use crate::error::{Error, Result};
use crate::process;

/// Number of characters of a word that are read. A word of more is not language; its pieces would fill more than a window.
const LONGEST_WORD: usize = 1 << 13;

/// The same for WordPiece vocabularies that do not give up such words themselves: their time grows with the cube.
const LONGEST_WORD_PIECE: usize = 1000;

/// Texts that are tried as a word before the word.
const ANCHORS: [&str; 7] = ["a", "e", "x", "1", ".", "the", "的"];

/// How a tokenizer splits single words as if they stood in running text.
///
/// Most tokenizers split a word by itself as they split it in a text: WordPiece drops spaces, and SentencePiece's vocabularies
/// put a mark for a space before every text. Others mark the start of a word by the space before it and put none before a
/// text. With those, words are split behind another word, whose pieces are then removed. Which kind a tokenizer is, is found
/// by trying, so that the result does not depend on the parts it is made of.
#[derive(Debug)]
pub(super) struct WordSplitter {
    /// The word before, with tokenizers that need one.
    anchor: Option<Anchor>,
    /// Number of characters of a word that are read.
    longest: usize,
    /// Whether the tokenizer has failed on a word.
    has_failed: AtomicBool,
}

#[derive(Debug)]
struct Anchor {
    word: &'static str,
    /// Its pieces.
    ids: Vec<u32>,
    /// The pieces of a space behind it if nothing follows.
    space: Vec<u32>,
    /// Ids of added tokens, which are found in a text before it is split.
    added: BTreeSet<u32>,
}

impl WordSplitter {
    /// Finds out how a tokenizer has to be used. One that fails on every word is an error; `origin` is its file.
    pub(super) fn new(tokenizer: &Tokenizer, origin: &Path) -> Result<Self> {
        let failures = ANCHORS.map(|word| encode(tokenizer, word).err());
        if let Some(problem) = failures.into_iter().reduce(Option::and).flatten() {
            return Err(Error::encoder(
                origin,
                format!("the tokenizer fails on every word: {problem}; download the file again"),
            ));
        }
        let longest = match tokenizer.get_model() {
            ModelWrapper::WordPiece(model)
                if model.max_input_chars_per_word > LONGEST_WORD_PIECE =>
            {
                LONGEST_WORD_PIECE
            }
            _ => LONGEST_WORD,
        };
        Ok(Self {
            anchor: anchor(tokenizer),
            longest,
            has_failed: AtomicBool::new(false),
        })
    }

    /// The piece ids of a word; none if the tokenizer leaves nothing of it, or fails.
    pub(super) fn split(&self, tokenizer: &Tokenizer, word: &str) -> Vec<u32> {
        let word = (word.char_indices().nth(self.longest)).map_or(word, |(end, _)| &word[..end]);
        let behind = |anchor: &Anchor| anchor.split(tokenizer, word);
        let ids = match self.anchor.as_ref().map(behind) {
            Some(Ok(Some(ids))) => Ok(ids),
            Some(Err(problem)) => Err(problem),
            Some(Ok(None)) | None => encode(tokenizer, word),
        };
        ids.unwrap_or_else(|problem| {
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "the tokenizer fails on {word:?}: {problem}; this word, and others on which it fails, are unknown pieces"
                );
            }
            Vec::new()
        })
    }
}

impl Anchor {
    /// The piece ids of a word behind the anchor; `None` if the anchor's pieces are not the same before this word.
    fn split(&self, tokenizer: &Tokenizer, word: &str) -> Encoded<Option<Vec<u32>>> {
        let has_space = word.starts_with(' ');
        let space = if has_space { "" } else { " " };
        let ids = encode(tokenizer, &format!("{}{space}{word}", self.word))?;
        let Some(ids) = ids.strip_prefix(self.ids.as_slice()) else {
            return Ok(None);
        };
        let ids = match ids.strip_prefix(self.space.as_slice()) {
            // Nothing is left of the word.
            Some([]) if !has_space => &[],
            // An added token, such as a mask, is taken out first, so that the space before it is alone.
            Some(rest @ [first, ..]) if self.added.contains(first) => rest,
            _ => ids,
        };
        Ok(Some(ids.to_vec()))
    }
}

/// The anchor that a tokenizer needs, if any.
fn anchor(tokenizer: &Tokenizer) -> Option<Anchor> {
    let unknown = unknown_id(tokenizer);
    for word in ANCHORS {
        let texts = [
            word.to_string(),
            format!("{word} {word}"),
            format!("{word} "),
        ];
        let [Ok(ids), Ok(both), Ok(alone)] = texts.map(|text| encode(tokenizer, &text)) else {
            continue;
        };
        let is_known = !ids.is_empty() && ids.iter().all(|id| Some(*id) != unknown);
        let Some(second) = both.strip_prefix(ids.as_slice()).filter(|_| is_known) else {
            continue;
        };
        if second == ids {
            return None;
        }
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        return Some(Anchor {
            space: alone
                .strip_prefix(ids.as_slice())
                .unwrap_or_default()
                .to_vec(),
            word,
            ids,
            added: added.keys().copied().collect(),
        });
    }
    None
}

/// What a tokenizer makes of a text, or why it fails.
type Encoded<T> = std::result::Result<T, String>;

/// The pieces of a text, without special ones. A library that panics on a damaged file has failed, too.
fn encode(tokenizer: &Tokenizer, text: &str) -> Encoded<Vec<u32>> {
    match process::catch(|| tokenizer.encode_fast(text, false)) {
        Ok(Ok(encoding)) => Ok(encoding.get_ids().to_vec()),
        Ok(Err(problem)) => Err(problem.to_string()),
        Err(problem) => Err(problem.to_string()),
    }
}

/// Id of the piece that a tokenizer's model gives to an unknown character, if it has one.
pub(super) fn unknown_id(tokenizer: &Tokenizer) -> Option<u32> {
    const NEVER_ASSIGNED: &str = "\u{10fffd}"; // for private use
    let model = tokenizer.get_model();
    if model.token_to_id(NEVER_ASSIGNED).is_some() {
        return None;
    }
    let pieces = process::catch(|| model.tokenize(NEVER_ASSIGNED)).ok()?;
    match pieces.ok()?.as_slice() {
        [piece] => Some(piece.id),
        _ => None,
    }
}
