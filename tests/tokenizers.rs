//! Tokenizers of all kinds: the pieces that words have in running text, compared with what the reference implementation says
//! (`fixtures/tokenizers/make.py`), special pieces, and input that is hostile or odd.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nerzoo::encoder::tokenizer::WordTokenizer;
use nerzoo::text::Sentence;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Deserialize)]
struct Expected {
    special: Special,
    sentences: Vec<ExpectedSentence>,
}

#[derive(Deserialize)]
struct Special {
    cls_token: u32,
    sep_token: u32,
    pad_token: u32,
}

#[derive(Deserialize)]
struct ExpectedSentence {
    words: Vec<String>,
    pieces: Vec<Vec<u32>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tokenizers")
        .join(name)
}

/// Every folder with an `expected.json`, sorted.
fn fixtures() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(fixture(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    folders.sort();
    assert!(folders.len() > 10, "{folders:?}");
    folders
}

/// The pieces of each word.
fn pieces(tokenizer: &WordTokenizer, words: &[impl AsRef<str>]) -> Vec<Vec<u32>> {
    let words = words.iter().map(|word| word.as_ref().to_string());
    let encoded = &tokenizer.encode(&[Sentence::from_words(words)])[0];
    let starts = encoded.starts.windows(2);
    starts
        .map(|pair| encoded.ids[pair[0]..pair[1]].to_vec())
        .collect()
}

fn assert_as_expected(tokenizer: &WordTokenizer, expected: &Expected, what: &str) {
    let special = &expected.special;
    assert_eq!(tokenizer.cls_id(), special.cls_token, "{what}");
    assert_eq!(tokenizer.sep_id(), special.sep_token, "{what}");
    assert_eq!(tokenizer.padding_id(), special.pad_token, "{what}");
    for sentence in &expected.sentences {
        let found = pieces(tokenizer, &sentence.words);
        for (index, word) in sentence.words.iter().enumerate() {
            let text = |ids: &[u32]| -> Vec<String> {
                ids.iter()
                    .map(|id| tokenizer.piece(*id).unwrap_or_default())
                    .collect()
            };
            assert_eq!(
                text(&found[index]),
                text(&sentence.pieces[index]),
                "{what} {word:?}"
            );
            assert_eq!(found[index], sentence.pieces[index], "{what} {word:?}");
        }
    }
}

#[test]
fn words_have_the_pieces_of_running_text() {
    for folder in fixtures() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(folder.join("expected.json")).unwrap();
        let expected: Expected = serde_json::from_str(&text).unwrap();
        let tokenizer = WordTokenizer::from_folder(&folder).unwrap();
        assert_as_expected(&tokenizer, &expected, &name);
        // A model folder has the tokenizer alone.
        let saved = tempfile::tempdir().unwrap();
        let path = saved.path().join("tokenizer.json");
        tokenizer.save(&path).unwrap();
        let again = WordTokenizer::from_file(&path).unwrap();
        assert_as_expected(&again, &expected, &format!("{name}, saved"));
        let twice = saved.path().join("again.json");
        again.save(&twice).unwrap();
        let [one, other] = [path, twice].map(|path| fs::read(path).unwrap());
        assert!(one == other, "{name} is saved differently the second time");
    }
}
