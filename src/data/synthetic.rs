//! The synthetic nested corpus: sentences sampled from a grammar, identical for the same seed on every machine.
//!
//! The grammar is `datasets/quickstart/grammar.txt`, whose header explains its notation. Names are composed of parts; some
//! parts never occur in train, so that dev and test also contain names that a model has not seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::write_atomic;
use crate::text::{Entity, Sentence};

/// The text of the grammar.
const GRAMMAR: &str = include_str!("../../datasets/quickstart/grammar.txt");

/// Probability in percent with which dev and test choose an unseen alternative, in rules that have any.
const UNSEEN_PERCENT: u32 = 11;

/// Maximal depth of nested rules; a deeper expansion means that the grammar is recursive.
const MAXIMAL_DEPTH: usize = 32;

/// Names of the three files of the corpus, in the order of [`corpus`].
pub const FILES: [&str; 3] = ["train.jsonl", "dev.jsonl", "test.jsonl"];

/// Number of sentences of each split, and the seed. The default gives the corpus in `datasets/quickstart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntheticConfig {
    /// Number of training sentences.
    pub train: usize,
    /// Number of sentences for model selection.
    pub dev: usize,
    /// Number of test sentences.
    pub test: usize,
    /// Random seed; equal configurations give equal sentences.
    pub seed: u64,
}

impl Default for SyntheticConfig {
    fn default() -> Self {
        Self {
            train: 2400,
            dev: 300,
            test: 300,
            seed: 2026,
        }
    }
}

/// `count` different sentences from the distribution of the training split.
pub fn sentences(count: usize, seed: u64) -> Vec<Sentence> {
    sample(
        &Grammar::parse(GRAMMAR),
        count,
        seed,
        0,
        &mut BTreeSet::new(),
    )
}

/// Train, dev and test. No sentence occurs twice, neither in one split nor in two.
pub fn corpus(config: SyntheticConfig) -> [Vec<Sentence>; 3] {
    let grammar = Grammar::parse(GRAMMAR);
    let mut seen = BTreeSet::new();
    let mut split = |count, stream| sample(&grammar, count, config.seed, stream, &mut seen);
    [
        split(config.train, 0),
        split(config.dev, 1),
        split(config.test, 2),
    ]
}

/// Writes [`FILES`] into a folder as `tokens_jsonl`, each file atomically.
pub fn write(folder: &Path, config: SyntheticConfig) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    for (name, split) in FILES.iter().zip(corpus(config)) {
        write_atomic(&folder.join(name), lines(&split).as_bytes())?;
    }
    Ok(())
}

/// The sentences as a `tokens_jsonl` file. Does not use the general writer, because the committed files are compared byte
/// by byte.
fn lines(sentences: &[Sentence]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        tokens: Vec<&'a str>,
        entities: Vec<Annotation<'a>>,
    }
    #[derive(Serialize)]
    struct Annotation<'a> {
        start: usize,
        end: usize,
        r#type: &'a str,
    }
    let mut out = String::new();
    for sentence in sentences {
        let annotations = sentence.entities.iter().map(|entity| Annotation {
            start: entity.span.start,
            end: entity.span.end,
            r#type: &entity.label,
        });
        let line = Line {
            tokens: sentence
                .words
                .iter()
                .map(|word| word.text.as_str())
                .collect(),
            entities: annotations.collect(),
        };
        out.push_str(&serde_json::to_string(&line).expect("strings and numbers are JSON"));
        out.push('\n');
    }
    out
}

/// Samples `count` sentences that are not in `seen` yet. Stream 0 is for training; the others also use unseen name parts.
fn sample(
    grammar: &Grammar,
    count: usize,
    seed: u64,
    stream: u64,
    seen: &mut BTreeSet<String>,
) -> Vec<Sentence> {
    let mut rng = SeededRng::new(seed, stream);
    let unseen = if stream == 0 { 0 } else { UNSEEN_PERCENT };
    let mut sampled = Vec::with_capacity(count);
    while sampled.len() < count {
        let mut marked = String::new();
        grammar.expand("sentence", unseen, &mut rng, &mut marked, 0);
        let sentence = parse_brackets(&marked);
        if seen.insert(sentence.text.clone()) {
            sampled.push(sentence);
        }
    }
    sampled
}

/// Parses a bracketed sentence such as `[PER Ada Keller ] slept .` (four words, one entity) and capitalises its first
/// letter.
fn parse_brackets(marked: &str) -> Sentence {
    let mut words: Vec<String> = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut entities = Vec::new();
    for piece in marked.split_whitespace() {
        if let Some(label) = piece.strip_prefix('[') {
            open.push((words.len(), label));
        } else if piece == "]" {
            let (start, label) = open.pop().expect("the grammar's brackets are balanced");
            entities.push(Entity::new(start, words.len(), label));
        } else {
            words.push(piece.to_string());
        }
    }
    assert!(
        open.is_empty(),
        "the grammar leaves an entity open: {marked}"
    );
    // After an opening quote or bracket the next word is already capitalised.
    if let Some(first) = words.first_mut()
        && let Some(letter) = first.chars().next()
    {
        first.replace_range(..letter.len_utf8(), &letter.to_uppercase().to_string());
    }
    entities.sort_by_key(|entity: &Entity| (entity.span.start, Reverse(entity.span.end)));
    let mut sentence = Sentence::from_words(words);
    sentence.entities = entities;
    sentence
}

/// The alternatives of a grammar rule.
#[derive(Debug, Default)]
struct Rule<'a> {
    /// Weights and texts of the alternatives for all splits.
    common: Vec<(u32, &'a str)>,
    /// Alternatives that do not occur in train.
    unseen: Vec<&'a str>,
}

/// The grammar's rules by name. Its text is part of this program, so a mistake in it is a bug and panics; a test expands
/// every rule.
#[derive(Debug)]
struct Grammar<'a> {
    rules: BTreeMap<&'a str, Rule<'a>>,
}

impl<'a> Grammar<'a> {
    fn parse(text: &'a str) -> Self {
        let mut rules: BTreeMap<&str, Rule> = BTreeMap::new();
        for line in text.lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (head, body) = line.split_once('=').expect("a rule has an equals sign");
            let (name, extra) = head.trim().split_once(' ').unwrap_or((head.trim(), "1"));
            let rule = rules.entry(name).or_default();
            let alternatives = body.split('|').map(str::trim);
            if extra == "unseen" {
                rule.unseen.extend(alternatives);
            } else {
                let weight: u32 = extra.parse().expect("a weight is a number");
                rule.common.extend(alternatives.map(|text| (weight, text)));
            }
        }
        Self { rules }
    }

    /// Appends a random expansion of a rule to `out`.
    fn expand(&self, name: &str, unseen: u32, rng: &mut SeededRng, out: &mut String, depth: usize) {
        assert!(
            depth < MAXIMAL_DEPTH,
            "the grammar's rule {name} is recursive"
        );
        let rule = self.rules.get(name);
        let rule = rule.unwrap_or_else(|| panic!("the grammar has no rule {name}"));
        let mut rest = rule.choose(unseen, rng);
        while let Some((before, after)) = rest.split_once('<') {
            out.push_str(before);
            let (inner, after) = after.split_once('>').expect("a rule's name is closed");
            self.expand(inner, unseen, rng, out, depth + 1);
            rest = after;
        }
        out.push_str(rest);
    }
}

impl<'a> Rule<'a> {
    /// A random alternative; an unseen one with a probability of `unseen` percent.
    fn choose(&self, unseen: u32, rng: &mut SeededRng) -> &'a str {
        // For train nothing is drawn here, so its sentences do not depend on `UNSEEN_PERCENT`.
        if unseen > 0 && !self.unseen.is_empty() && rng.below(100) < unseen {
            return self.unseen[rng.below(self.unseen.len() as u32) as usize];
        }
        let total = self.common.iter().map(|(weight, _)| weight).sum();
        let mut left = rng.below(total);
        for (weight, text) in &self.common {
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => return text,
            }
        }
        unreachable!("the weights sum to the total")
    }
}

/// Random numbers that depend only on the seed, the stream and the ChaCha8 cipher, not on the machine's word size or on a
/// sampling method that a newer version of a crate might change.
struct SeededRng(ChaCha8Rng);

impl SeededRng {
    fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(stream);
        Self(generator)
    }

    /// A random integer in `0..bound`. For small bounds the bias of multiply-and-shift is below one in a million.
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_nested;

    /// The largest number of entities that contain the same word.
    fn depth(sentence: &Sentence) -> usize {
        let containing = |word| {
            let covers = |entity: &&Entity| entity.span.start <= word && word < entity.span.end;
            sentence.entities.iter().filter(covers).count()
        };
        (0..sentence.len()).map(containing).max().unwrap_or(0)
    }

    #[test]
    fn every_rule_is_used_and_can_be_expanded() {
        let grammar = Grammar::parse(GRAMMAR);
        let mut rng = SeededRng::new(1, 1);
        for (name, rule) in &grammar.rules {
            assert!(!rule.common.is_empty() || !rule.unseen.is_empty());
            assert!(
                *name == "sentence" || GRAMMAR.contains(&format!("<{name}>")),
                "{name}"
            );
            for _ in 0..200 {
                let mut text = String::new();
                grammar.expand(name, 50, &mut rng, &mut text, 0);
                assert!(!text.contains(['<', '>', '|']), "{text}");
            }
        }
        assert!(grammar.rules["report"].common.len() >= 40);
    }

    #[test]
    fn brackets_become_entities() {
        let sentence = parse_brackets("the [ORG [LOC Ravenburg ] Police ] left .");
        assert_eq!(sentence.text, "The Ravenburg Police left .");
        let expected = [Entity::new(1, 3, "ORG"), Entity::new(1, 2, "LOC")];
        assert_eq!(sentence.entities, expected);
    }

    #[test]
    fn the_configuration_determines_the_corpus() {
        let config = SyntheticConfig {
            train: 50,
            dev: 7,
            test: 0,
            seed: 3,
        };
        let splits = corpus(config);
        assert_eq!(splits.each_ref().map(Vec::len), [50, 7, 0]);
        assert_eq!(splits, corpus(config));
        assert_eq!(splits[0], sentences(50, 3));
        assert_ne!(splits[0], sentences(50, 4));
    }

    #[test]
    fn no_sentence_occurs_twice() {
        let splits = corpus(SyntheticConfig::default());
        let texts: BTreeSet<&str> = splits.iter().flatten().map(|s| s.text.as_str()).collect();
        assert_eq!(texts.len(), 3000);
    }

    #[test]
    fn a_third_of_the_entities_nest_and_nesting_is_three_deep() {
        for split in corpus(SyntheticConfig::default()) {
            let of = |s: &Sentence| {
                let nested = s
                    .entities
                    .iter()
                    .filter(|e| is_nested(e, &s.entities))
                    .count();
                (nested, s.entities.len())
            };
            let (nested, all) = split
                .iter()
                .map(of)
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            assert!(nested * 3 >= all, "{nested} of {all}");
            assert_eq!(split.iter().map(depth).max(), Some(3));
            let empty = split.iter().filter(|s| s.entities.is_empty()).count();
            assert!(
                (4..=12).contains(&(empty * 100 / split.len())),
                "{empty} without an entity"
            );
            let labels = crate::text::Labels::of(&split);
            assert_eq!(labels.names(), ["DATE", "LOC", "ORG", "PER", "PROD"]);
        }
    }

    #[test]
    fn test_has_words_that_are_not_in_train() {
        let [train, _, test] = corpus(SyntheticConfig::default());
        let known: BTreeSet<&str> = words(&train).collect();
        let new = words(&test).filter(|word| !known.contains(word)).count();
        let share = new as f64 / words(&test).count() as f64;
        assert!((0.01..0.10).contains(&share), "{share}");
    }

    fn words(split: &[Sentence]) -> impl Iterator<Item = &str> {
        split
            .iter()
            .flat_map(|s| &s.words)
            .map(|word| word.text.as_str())
    }

    /// After a change of the grammar, `NERZOO_UPDATE=1 cargo test committed` rewrites the files.
    #[test]
    fn the_committed_files_are_generated_by_the_grammar() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/quickstart");
        if std::env::var_os("NERZOO_UPDATE").is_some() {
            write(&folder, SyntheticConfig::default()).unwrap();
        }
        for (name, split) in FILES.iter().zip(corpus(SyntheticConfig::default())) {
            let committed = std::fs::read_to_string(folder.join(name)).unwrap();
            assert!(committed == lines(&split), "{name} differs");
            let options = crate::data::ReadOptions::of(crate::data::Format::TokensJsonl);
            let read = crate::data::read(&folder.join(name), &options).unwrap();
            assert!(read == split, "{name} is read back differently");
        }
    }

    #[test]
    fn writing_creates_three_files() {
        let folder = tempfile::tempdir().unwrap();
        let config = SyntheticConfig {
            train: 9,
            dev: 3,
            test: 3,
            seed: 1,
        };
        write(&folder.path().join("new"), config).unwrap();
        let files = std::fs::read_dir(folder.path().join("new")).unwrap();
        let names: BTreeSet<String> = files
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, FILES.map(String::from).into());
    }
}
