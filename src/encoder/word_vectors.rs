//! Word vectors in the GloVe text format: on each line a word and the values of its vector, separated by spaces. A first
//! line with the number of words and the width, as in word2vec's text format, is skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hub::local;

/// Name of the file in a folder of word vectors.
const FILE: &str = "vectors.txt";

/// Word vectors of the words of a corpus.
#[derive(Debug, Clone, PartialEq)]
pub struct WordVectors {
    /// The words, in alphabetical order.
    pub words: Vec<String>,
    /// Width of each vector.
    pub width: usize,
    /// The vectors, one after the other: `[words · width]`.
    pub values: Vec<f32>,
}

/// Finds a file of word vectors: a path to it or to its folder, or a name whose last part is a folder or file in one of
/// `NERZOO_ENCODERS`.
pub fn find(name: &str) -> Result<PathBuf> {
    local::candidates(name)
        .into_iter()
        .flat_map(|path| [path.join(FILE), path])
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::encoder(
                name,
                format!(
                    "there are no such word vectors; set encoder.features.word_vectors to a file in the GloVe text format \
                     or to a folder with a {FILE}, or NERZOO_ENCODERS to the folder that contains it, or leave \
                     encoder.features.word_vectors out"
                ),
            )
        })
}

/// Reads the vectors of the words in `wanted`. If a word occurs twice in the file, its first vector is used.
pub fn read(path: &Path, wanted: &BTreeSet<String>) -> Result<WordVectors> {
    let file = File::open(path).map_err(|source| Error::io(path, source))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut width = None;
    let mut found: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = reader.read_until(b'\n', &mut line);
        if count.map_err(|source| Error::io(path, source))? == 0 {
            break;
        }
        let fail = |problem: &str| {
            let line = format!("{}:{number}", path.display());
            Err(Error::encoder(line, problem))
        };
        // A line that is not UTF-8 is skipped: no wanted word is on it.
        let text = std::str::from_utf8(&line).unwrap_or_default().trim_end();
        let Some((word, values)) = text.split_once(' ') else {
            continue;
        };
        let header = number == 1 && !values.contains(' ') && word.parse::<usize>().is_ok();
        if header || (width.is_some() && (!wanted.contains(word) || found.contains_key(word))) {
            continue;
        }
        let values: std::result::Result<Vec<f32>, _> =
            values.split_ascii_whitespace().map(str::parse).collect();
        let Ok(values) = values else {
            return fail(
                "expected a word and the values of its vector; only the GloVe text format is supported",
            );
        };
        if *width.get_or_insert(values.len()) != values.len() {
            return fail("this vector has another width than the first one");
        }
        if wanted.contains(word) {
            found.insert(word.to_string(), values);
        }
    }
    if found.is_empty() {
        return Err(Error::encoder(
            path,
            "none of the training words has a vector in this file; check that it is in the GloVe text format and in the \
             language of the corpus",
        ));
    }
    Ok(WordVectors {
        width: width.unwrap_or(0),
        values: found.values().flatten().copied().collect(),
        words: found.into_keys().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &[u8]) -> Result<WordVectors> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, text).unwrap();
        let wanted = ["b", "a", "none"].map(String::from).into();
        read(&find(folder.path().to_str().unwrap())?, &wanted)
    }

    #[test]
    fn wanted_words_are_read_from_either_text_format() {
        let expected = WordVectors {
            words: vec!["a".into(), "b".into()],
            width: 2,
            values: vec![3.0, -4.5, 1.0, 2e-1],
        };
        let plain = b"b 1 2e-1\nz 9 9\na 3 -4.5\na 7 7\n";
        assert_eq!(from(plain).unwrap(), expected);
        let headed = [b"3 2\n\xff\xfe 1 1\n".as_slice(), plain].concat();
        assert_eq!(from(&headed).unwrap(), expected);
    }

    #[test]
    fn malformed_files_are_explained() {
        for (text, expected) in [
            (b"b 1 2\na 3\n".as_slice(), "vectors.txt:2"),
            (b"b 1 x\n", "GloVe text format"),
            (b"\x00\x01\x02", "none of the training words"),
        ] {
            let problem = from(text).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
        let problem = find("no/such/vectors").unwrap_err().to_string();
        assert!(problem.contains("NERZOO_ENCODERS"), "{problem}");
    }
}
