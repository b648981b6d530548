//! Splitting a corpus into parts such as train, dev and test.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, Result};
use crate::text::Sentence;

/// Splits a corpus randomly into parts with about the given fractions of its sentences.
///
/// All sentences of a document go into the same part; sentences without a document are assigned one by one. The same
/// corpus, fractions and seed give the same parts, and every part keeps the order of the corpus. Fractions are relative
/// to their sum.
pub fn split(sentences: Vec<Sentence>, fractions: &[f64], seed: u64) -> Result<Vec<Vec<Sentence>>> {
    let total: f64 = fractions.iter().sum();
    let is_valid = |fraction: &f64| fraction.is_finite() && *fraction >= 0.0;
    if !(fractions.iter().all(is_valid) && total.is_finite() && total > 0.0) {
        return Err(Error::Config(format!(
            "cannot split into the fractions {fractions:?}; give numbers of 0 or more, not all 0, such as 0.8 0.1 0.1"
        )));
    }
    let groups = shuffled_groups(&sentences, seed);
    // Each document goes to the part that lacks most sentences, so part sizes are exact to within one document.
    let mut missing: Vec<f64> = fractions
        .iter()
        .map(|fraction| fraction / total * sentences.len() as f64)
        .collect();
    let mut part_of = vec![0; sentences.len()];
    for group in groups {
        let part = (0..fractions.len())
            .filter(|part| fractions[*part] > 0.0)
            .reduce(|best, part| {
                if missing[part] > missing[best] {
                    part
                } else {
                    best
                }
            })
            .unwrap_or(0);
        missing[part] -= group.len() as f64;
        for index in group {
            part_of[index] = part;
        }
    }
    let mut parts = vec![Vec::new(); fractions.len()];
    for (sentence, part) in sentences.into_iter().zip(part_of) {
        parts[part].push(sentence);
    }
    Ok(parts)
}

/// About this share of a corpus, in 0..=1, chosen randomly by document: at least one document, in the order of the
/// corpus. With the same seed, a smaller share is part of every larger one.
pub fn share(sentences: Vec<Sentence>, share: f64, seed: u64) -> Vec<Sentence> {
    let wanted = share * sentences.len() as f64;
    let mut is_kept = vec![false; sentences.len()];
    let mut kept = 0;
    for group in shuffled_groups(&sentences, seed) {
        // Half a document too many is as good as half a document too few.
        if kept > 0 && kept as f64 + group.len() as f64 / 2.0 > wanted {
            break;
        }
        kept += group.len();
        for index in group {
            is_kept[index] = true;
        }
    }
    let kept = sentences.into_iter().zip(is_kept);
    kept.filter_map(|(sentence, is_kept)| is_kept.then_some(sentence))
        .collect()
}

/// The number of the fold, from 0, in which each sentence of a corpus is tested in a cross-validation. Folds have about the
/// same number of sentences, and the sentences of a document are in one fold.
pub fn folds(sentences: &[Sentence], count: usize, seed: u64) -> Vec<usize> {
    let mut fold_of = vec![0; sentences.len()];
    let mut sizes = vec![0; count.max(1)];
    for group in shuffled_groups(sentences, seed) {
        let smallest = (0..sizes.len())
            .min_by_key(|fold| sizes[*fold])
            .unwrap_or(0);
        sizes[smallest] += group.len();
        for index in group {
            fold_of[index] = smallest;
        }
    }
    fold_of
}

/// The indices of the sentences of each document, with the documents in random order.
fn shuffled_groups(sentences: &[Sentence], seed: u64) -> Vec<Vec<usize>> {
    let mut groups = groups(sentences);
    groups.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    groups
}

/// The indices of the sentences of each document.
fn groups(sentences: &[Sentence]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut of_document: HashMap<&str, usize> = HashMap::new();
    for (index, sentence) in sentences.iter().enumerate() {
        let known = sentence
            .document
            .as_deref()
            .map(|document| *of_document.entry(document).or_insert(groups.len()));
        match known {
            Some(group) if group < groups.len() => groups[group].push(index),
            _ => groups.push(vec![index]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn corpus() -> Vec<Sentence> {
        (0..100)
            .map(|index| {
                let mut sentence = Sentence::from_words([format!("w{index:03}")]);
                sentence.document = (index < 60).then(|| format!("d{}", index % 12));
                sentence
            })
            .collect()
    }

    #[test]
    fn parts_are_seeded_ordered_and_complete() {
        let parts = split(corpus(), &[0.8, 0.1, 0.1], 7).unwrap();
        assert_eq!(parts, split(corpus(), &[8.0, 1.0, 1.0], 7).unwrap());
        assert_ne!(parts, split(corpus(), &[0.8, 0.1, 0.1], 8).unwrap());
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 100);
        assert!((75..=85).contains(&parts[0].len()));
        for part in &parts {
            assert!(part.is_sorted_by_key(|sentence| sentence.text.clone()));
        }
    }

    #[test]
    fn documents_are_not_divided() {
        let parts = split(corpus(), &[0.5, 0.5], 1).unwrap();
        let documents: Vec<HashSet<String>> = parts
            .iter()
            .map(|part| part.iter().filter_map(|s| s.document.clone()).collect())
            .collect();
        assert!(documents[0].is_disjoint(&documents[1]));
    }

    #[test]
    fn smaller_shares_are_part_of_larger_ones() {
        let small = share(corpus(), 0.25, 3);
        let large = share(corpus(), 0.5, 3);
        assert!((22..=28).contains(&small.len()), "{}", small.len());
        assert!((47..=53).contains(&large.len()), "{}", large.len());
        assert!(small.iter().all(|sentence| large.contains(sentence)));
        assert!(large.is_sorted_by_key(|sentence| sentence.text.clone()));
        assert_eq!(share(corpus(), 1.0, 3), corpus());
        assert!(!share(corpus(), 0.001, 3).is_empty());
        // The documents d0 to d11 have five sentences each.
        let names: HashSet<_> = small.iter().filter_map(|s| s.document.clone()).collect();
        let of_documents = small.iter().filter(|s| s.document.is_some()).count();
        assert_eq!(of_documents, 5 * names.len());
    }

    #[test]
    fn folds_are_of_equal_size_and_do_not_divide_documents() {
        let corpus = corpus();
        let folds = folds(&corpus, 5, 1);
        let size = |fold: usize| folds.iter().filter(|other| **other == fold).count();
        assert_eq!([0, 1, 2, 3, 4].map(size).iter().sum::<usize>(), 100);
        assert!(
            [0, 1, 2, 3, 4]
                .map(size)
                .iter()
                .all(|size| (18..=22).contains(size))
        );
        for (one, first) in corpus.iter().zip(&folds) {
            for (other, second) in corpus.iter().zip(&folds) {
                let same = one.document.is_some() && one.document == other.document;
                assert!(!same || first == second);
            }
        }
    }

    #[test]
    fn invalid_fractions_are_errors() {
        for fractions in [&[][..], &[0.0], &[-1.0, 2.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(split(corpus(), fractions, 0).is_err());
        }
        let parts = split(corpus(), &[1.0, 0.0], 0).unwrap();
        assert!(parts[1].is_empty());
        assert_eq!(split(Vec::new(), &[0.5, 0.5], 0).unwrap().len(), 2);
    }
}
