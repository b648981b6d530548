//! Word vectors in the GloVe text format: a word, then its numbers, on a line. A first line with the number of words
//! and of numbers, as word2vec writes it, is passed over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The file of vectors inside a folder of its own.
const FILE: &str = "vectors.txt";

/// Vectors of chosen words.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// The words, in alphabetical order.
    pub words: Vec<String>,
    /// Numbers of each vector.
    pub width: usize,
    /// The vectors, one after the other.
    pub values: Vec<f32>,
}

/// The file of word vectors: a path to it or to its folder, or a name whose last part is looked up in
/// `NERZOO_ENCODERS`.
pub fn find(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    let last = name.trim_end_matches('/').rsplit('/').next();
    let roots = std::env::var_os("NERZOO_ENCODERS").unwrap_or_default();
    let looked_up = std::env::split_paths(&roots).map(|root| root.join(last.unwrap_or(name)));
    std::iter::once(path.clone())
        .chain(looked_up)
        .flat_map(|place| [place.join(FILE), place])
        .find(|file| file.is_file())
        .ok_or_else(|| {
            Error::encoder(
                path,
                format!(
                    "no such word vectors: give a file in the GloVe text format or a folder with a {FILE}, or set \
                     NERZOO_ENCODERS to where that folder is, or leave encoder.features.word_vectors out"
                ),
            )
        })
}

/// Reads the vectors of the words that are wanted; of a word that stands there twice the first counts.
pub fn read(path: &Path, wanted: &BTreeSet<String>) -> Result<Vectors> {
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
            let place = format!("{}:{number}", path.display());
            Err(Error::encoder(place, problem))
        };
        // A word that is not UTF-8 is none of those wanted.
        let text = std::str::from_utf8(&line).unwrap_or_default().trim_end();
        let Some((word, numbers)) = text.split_once(' ') else {
            continue;
        };
        let header = number == 1 && !numbers.contains(' ') && word.parse::<usize>().is_ok();
        if header || (width.is_some() && (!wanted.contains(word) || found.contains_key(word))) {
            continue;
        }
        let values: std::result::Result<Vec<f32>, _> =
            numbers.split_ascii_whitespace().map(str::parse).collect();
        let Ok(values) = values else {
            return fail("not a word and its numbers; only the GloVe text format is read");
        };
        if *width.get_or_insert(values.len()) != values.len() {
            return fail("this vector has more or fewer numbers than the first");
        }
        if wanted.contains(word) {
            found.insert(word.to_string(), values);
        }
    }
    if found.is_empty() {
        return Err(Error::encoder(
            path,
            "none of the training words has a vector here; is it the text format, and the right language?"
                .to_string(),
        ));
    }
    Ok(Vectors {
        width: width.unwrap_or(0),
        values: found.values().flatten().copied().collect(),
        words: found.into_keys().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &[u8]) -> Result<Vectors> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, text).unwrap();
        let wanted = ["b", "a", "none"].map(String::from).into();
        read(&find(folder.path().to_str().unwrap())?, &wanted)
    }

    #[test]
    fn wanted_words_are_read_from_either_text_format() {
        let expected = Vectors {
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
    fn what_is_no_list_of_vectors_is_explained() {
        for (text, said) in [
            (b"b 1 2\na 3\n".as_slice(), "vectors.txt:2"),
            (b"b 1 x\n", "GloVe text format"),
            (b"\x00\x01\x02", "none of the training words"),
        ] {
            let problem = from(text).unwrap_err().to_string();
            assert!(problem.contains(said), "{problem}");
        }
        let problem = find("no/such/vectors").unwrap_err().to_string();
        assert!(problem.contains("NERZOO_ENCODERS"), "{problem}");
    }
}
