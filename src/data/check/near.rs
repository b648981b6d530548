//! Sentences of different files that are nearly the same.
//!
//! Two sentences are when their words are equal in lower case, without punctuation and with all digits alike, or when most
//! of their pairs of adjacent words are equal. Candidates are found by MinHash: time is linear in the number of words.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use serde::Serialize;

use super::SHOWN;
use super::finding::{Example, excerpt};
use super::index::{CorpusIndex, IndexedSentence};

/// Shorter sentences, without punctuation, are alike by chance.
const FEWEST_WORDS: usize = 4;
/// Fewest words of sentences that are compared by their pairs of words.
const FEWEST_FOR_PAIRS: usize = 8;
/// Share of common pairs among all pairs of two sentences from which on they are nearly the same (Jaccard similarity).
const SIMILAR: f64 = 0.7;
/// Sentences are candidates when all hashes of a band are equal: with a similarity of 0.7 in 92 % of the cases.
const BANDS: usize = 6;
const HASHES_PER_BAND: usize = 3;

/// Sentences of a file that are nearly the same as some of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NearDuplicates {
    /// The file that was given first.
    pub first: PathBuf,
    /// The other file.
    pub second: PathBuf,
    /// Number of sentences of the second file; those that are exactly the same are not among them.
    pub sentences: usize,
    /// The first pairs, up to three.
    pub examples: Vec<NearDuplicate>,
}

/// Two sentences that are nearly the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NearDuplicate {
    /// The sentence of the first file.
    pub first: Example,
    /// The sentence of the second file.
    pub second: Example,
    /// Share of common pairs of adjacent words; 1 when the words are the same but for case, digits and punctuation.
    pub similarity: f64,
}

/// Finds sentences that are nearly the same in two files.
pub(super) fn near_duplicates(index: &CorpusIndex) -> Vec<NearDuplicates> {
    if index.splits() < 2 {
        return Vec::new();
    }
    let words = Normalized::new(index);
    let mut seen = Seen::default();
    let mut found: BTreeMap<(usize, usize), NearDuplicates> = BTreeMap::new();
    let splits = index
        .sentences
        .chunk_by(|one, next| one.split == next.split);
    let mut first_of_split = 0;
    for split in splits {
        for sentence in split {
            let Some((other, similarity)) = seen.find(index, &words, sentence) else {
                continue;
            };
            let other = &index.sentences[other];
            let entry = found.entry((other.split, sentence.split));
            let pair = entry.or_insert_with(|| NearDuplicates {
                first: index.split(other.split).to_path_buf(),
                second: index.split(sentence.split).to_path_buf(),
                sentences: 0,
                examples: Vec::new(),
            });
            pair.sentences += 1;
            if pair.examples.len() < SHOWN {
                let example = |sentence: &IndexedSentence| Example {
                    location: index.location(sentence),
                    text: excerpt(&index.text(index.words_of(sentence)), 80),
                };
                pair.examples.push(NearDuplicate {
                    first: example(other),
                    second: example(sentence),
                    similarity,
                });
            }
        }
        for (number, sentence) in split.iter().enumerate() {
            seen.add(index, &words, sentence, first_of_split + number);
        }
        first_of_split += split.len();
    }
    found.into_values().collect()
}

/// For each word of the index the number of its normal form; `None` for punctuation.
struct Normalized {
    forms: Vec<Option<u32>>,
}

impl Normalized {
    fn new(index: &CorpusIndex) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut form = |word: &String| {
            if !word.contains(char::is_alphanumeric) {
                return None;
            }
            let fold = |character: char| {
                if character.is_numeric() {
                    '0'
                } else {
                    character
                }
            };
            let form: String = word
                .chars()
                .flat_map(char::to_lowercase)
                .map(fold)
                .collect();
            let next = numbers.len() as u32;
            Some(*numbers.entry(form).or_insert(next))
        };
        Self {
            forms: index.words.texts().iter().map(&mut form).collect(),
        }
    }

    fn of(&self, words: &[u32]) -> Vec<u32> {
        let forms = words
            .iter()
            .filter_map(|word| self.forms.get(*word as usize).copied().flatten());
        forms.collect()
    }
}

/// The sentences of earlier files.
#[derive(Default)]
struct Seen {
    /// Hashes of the words as they are.
    exact: HashMap<u64, usize>,
    /// Hashes of the normal forms, with the first such sentence.
    normalized: HashMap<u64, usize>,
    /// Hashes of each band, with the first such sentence.
    bands: HashMap<u64, usize>,
}

impl Seen {
    /// A sentence that is nearly the same, with the similarity; none for one that occurred exactly.
    fn find(
        &self,
        index: &CorpusIndex,
        words: &Normalized,
        sentence: &IndexedSentence,
    ) -> Option<(usize, f64)> {
        let own = index.words_of(sentence);
        let forms = words.of(own);
        if forms.len() < FEWEST_WORDS || self.exact.contains_key(&hash(&own)) {
            return None;
        }
        if let Some(other) = self.normalized.get(&hash(&forms)) {
            return Some((*other, 1.0));
        }
        if forms.len() < FEWEST_FOR_PAIRS {
            return None;
        }
        let pairs = pairs(&forms);
        let mut best: Option<(usize, f64)> = None;
        for band in bands(&pairs) {
            let Some(other) = self.bands.get(&band) else {
                continue;
            };
            if best.is_some_and(|(known, _)| known == *other) {
                continue;
            }
            let others = self::pairs(&words.of(index.words_of(&index.sentences[*other])));
            let similarity = similarity(&pairs, &others);
            if similarity >= SIMILAR && best.is_none_or(|(_, known)| similarity > known) {
                best = Some((*other, similarity));
            }
        }
        best
    }

    fn add(
        &mut self,
        index: &CorpusIndex,
        words: &Normalized,
        sentence: &IndexedSentence,
        number: usize,
    ) {
        let own = index.words_of(sentence);
        let forms = words.of(own);
        if forms.len() < FEWEST_WORDS {
            return;
        }
        self.exact.entry(hash(&own)).or_insert(number);
        self.normalized.entry(hash(&forms)).or_insert(number);
        if forms.len() >= FEWEST_FOR_PAIRS {
            for band in bands(&pairs(&forms)) {
                self.bands.entry(band).or_insert(number);
            }
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Hashes of the pairs of adjacent words, sorted, without repeated ones.
fn pairs(forms: &[u32]) -> Vec<u64> {
    let mut pairs: Vec<u64> = forms
        .windows(2)
        .map(|pair| mix((u64::from(pair[0]) << 32) | u64::from(pair[1])))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// A hash of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A hash for each band: of the smallest values of several hash functions over all pairs.
fn bands(pairs: &[u64]) -> [u64; BANDS] {
    let smallest = |function: usize| {
        let hashes = pairs.iter().map(|pair| mix(pair ^ mix(function as u64)));
        hashes.min().unwrap_or(0)
    };
    std::array::from_fn(|band| {
        let functions = band * HASHES_PER_BAND..(band + 1) * HASHES_PER_BAND;
        functions.fold(mix(band as u64), |hash, function| {
            mix(hash ^ smallest(function))
        })
    })
}

/// Share of common elements of two sorted lists among all (Jaccard similarity).
fn similarity(one: &[u64], other: &[u64]) -> f64 {
    let common = one
        .iter()
        .filter(|pair| other.binary_search(pair).is_ok())
        .count();
    let all = one.len() + other.len() - common;
    if all == 0 {
        0.0
    } else {
        common as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::Collector;
    use crate::text::Sentence;
    use std::path::Path;

    fn found(files: &[&[&str]]) -> Vec<NearDuplicates> {
        let mut index = CorpusIndex::default();
        for (number, texts) in files.iter().enumerate() {
            let path = format!("{number}.txt");
            let mut corpus = Collector::new(Path::new(&path));
            for (line, text) in texts.iter().enumerate() {
                corpus.push(line + 1, Sentence::from_words(text.split(' ')));
            }
            index.add(Path::new(&path), &corpus);
        }
        near_duplicates(&index)
    }

    const LONG: &str = "the quick brown fox jumps over the lazy dog and runs into the dark forest behind the old mill";

    #[test]
    fn case_numbers_and_punctuation_do_not_count() {
        let found = found(&[
            &["On 3 May 2021 rates rose .", "something else here now"],
            &[
                "new words , all of them",
                "on 4 may 1999 , rates rose",
                "On 3 May 2021 rates rose .",
            ],
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].sentences, 1);
        assert_eq!(found[0].examples[0].first.location.line, 1);
        assert_eq!(found[0].examples[0].second.location.line, 2);
        assert_eq!(found[0].examples[0].similarity, 1.0);
    }

    #[test]
    fn sentences_with_most_pairs_in_common_are_found() {
        let changed = LONG.replace("lazy", "sleepy");
        let other = "the dog and the fox went over the old mill and into the brown forest of the quick jumps";
        let duplicates = found(&[&["x y z w", LONG], &[other, &changed, "short one here too"]]);
        assert_eq!(duplicates.len(), 1);
        assert_eq!(duplicates[0].examples[0].second.location.line, 2);
        assert!(duplicates[0].examples[0].similarity > 0.7);
        // Within a file, and in one file alone, nothing is compared.
        assert!(found(&[&[LONG, &changed]]).is_empty());
        assert!(found(&[]).is_empty() && found(&[&[], &[]]).is_empty());
    }

    #[test]
    fn many_equal_sentences_take_linear_time() {
        let texts: Vec<String> = (0..5000).map(|n| format!("{LONG} w{n}x")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (train, test) = texts.split_at(2500);
        assert_eq!(found(&[train, test])[0].sentences, 2500);
    }
}
