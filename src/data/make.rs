//! The synthetic nested corpus: sentences drawn from a grammar of our own, the same ones from the same seed everywhere.
//!
//! The grammar is `datasets/quickstart/grammar.txt`, whose head explains its notation. Names are put together from
//! parts; some parts are kept from training, so that dev and test also ask for names a model has never met.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::files::replace;
use crate::text::{Entity, Sentence};

/// The grammar's text.
const GRAMMAR: &str = include_str!("../../datasets/quickstart/grammar.txt");

/// How often, of a hundred draws from a rule that has any, dev and test take an alternative unknown to training.
const UNSEEN_PERCENT: u32 = 11;

/// How deep rules may call each other before the grammar must be going in circles.
const DEEPEST: usize = 32;

/// What the three files of the corpus are called, in the order of [`corpus`].
pub const FILES: [&str; 3] = ["train.jsonl", "dev.jsonl", "test.jsonl"];

/// How many sentences of each split to draw, and from which seed. The default is the corpus in `datasets/quickstart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Sentences to train on.
    pub train: usize,
    /// Sentences to choose a model by.
    pub dev: usize,
    /// Sentences to report on.
    pub test: usize,
    /// The seed; equal plans give equal sentences.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            train: 2400,
            dev: 300,
            test: 300,
            seed: 2026,
        }
    }
}

/// `count` different sentences as training sees them.
pub fn sentences(count: usize, seed: u64) -> Vec<Sentence> {
    draw(
        &Grammar::parse(GRAMMAR),
        count,
        seed,
        0,
        &mut BTreeSet::new(),
    )
}

/// Train, dev and test; no sentence occurs twice, in one split or in two.
pub fn corpus(plan: Plan) -> [Vec<Sentence>; 3] {
    let grammar = Grammar::parse(GRAMMAR);
    let mut seen = BTreeSet::new();
    let mut split = |count, stream| draw(&grammar, count, plan.seed, stream, &mut seen);
    [
        split(plan.train, 0),
        split(plan.dev, 1),
        split(plan.test, 2),
    ]
}

/// Writes [`FILES`] into a folder, one JSON object a line; a file is there as a whole or not at all.
pub fn write(folder: &Path, plan: Plan) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, error))?;
    for (name, split) in FILES.iter().zip(corpus(plan)) {
        replace(&folder.join(name), lines(&split).as_bytes())?;
    }
    Ok(())
}

/// The sentences as a `tokens_jsonl` file. Spelled out here rather than left to the general writer, because the
/// committed files are compared byte for byte.
fn lines(sentences: &[Sentence]) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        tokens: Vec<&'a str>,
        entities: Vec<Mark<'a>>,
    }
    #[derive(Serialize)]
    struct Mark<'a> {
        start: usize,
        end: usize,
        r#type: &'a str,
    }
    let mut out = String::new();
    for sentence in sentences {
        let marks = sentence.entities.iter().map(|entity| Mark {
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
            entities: marks.collect(),
        };
        out.push_str(&serde_json::to_string(&line).expect("strings and numbers are JSON"));
        out.push('\n');
    }
    out
}

/// `count` sentences that are not in `seen` yet. Stream 0 is training's; the others also use unseen name parts.
fn draw(
    grammar: &Grammar,
    count: usize,
    seed: u64,
    stream: u64,
    seen: &mut BTreeSet<String>,
) -> Vec<Sentence> {
    let mut dice = Dice::new(seed, stream);
    let unseen = if stream == 0 { 0 } else { UNSEEN_PERCENT };
    let mut drawn = Vec::with_capacity(count);
    while drawn.len() < count {
        let mut marked = String::new();
        grammar.expand("sentence", unseen, &mut dice, &mut marked, 0);
        let sentence = unmark(&marked);
        if seen.insert(sentence.text.clone()) {
            drawn.push(sentence);
        }
    }
    drawn
}

/// `[PER Ada Keller ] slept .` to a sentence of four words with one entity, its first letter a capital.
fn unmark(marked: &str) -> Sentence {
    let mut words: Vec<String> = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut entities = Vec::new();
    for piece in marked.split_whitespace() {
        if let Some(label) = piece.strip_prefix('[') {
            open.push((words.len(), label));
        } else if piece == "]" {
            let (start, label) = open.pop().expect("the grammar closes what it opened");
            entities.push(Entity::new(start, words.len(), label));
        } else {
            words.push(piece.to_string());
        }
    }
    assert!(
        open.is_empty(),
        "the grammar leaves an entity open: {marked}"
    );
    // After an opening quote or bracket the next word already has its capital.
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

/// What a rule can become.
#[derive(Debug, Default)]
struct Rule<'a> {
    /// Alternatives with their weights.
    common: Vec<(u32, &'a str)>,
    /// Alternatives that training never uses.
    unseen: Vec<&'a str>,
}

/// The rules by name. The text is our own, so a mistake in it is a bug and panics; a test expands every rule.
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

    /// Appends something drawn from a rule to `out`.
    fn expand(&self, name: &str, unseen: u32, dice: &mut Dice, out: &mut String, depth: usize) {
        assert!(depth < DEEPEST, "the grammar's rule {name} goes in circles");
        let rule = self.rules.get(name);
        let rule = rule.unwrap_or_else(|| panic!("the grammar has no rule {name}"));
        let mut rest = rule.choose(unseen, dice);
        while let Some((before, after)) = rest.split_once('<') {
            out.push_str(before);
            let (inner, after) = after.split_once('>').expect("a rule's name is closed");
            self.expand(inner, unseen, dice, out, depth + 1);
            rest = after;
        }
        out.push_str(rest);
    }
}

impl<'a> Rule<'a> {
    fn choose(&self, unseen: u32, dice: &mut Dice) -> &'a str {
        // Training rolls no die here, so its sentences do not depend on the share of unseen parts.
        if unseen > 0 && !self.unseen.is_empty() && dice.below(100) < unseen {
            return self.unseen[dice.below(self.unseen.len() as u32) as usize];
        }
        let total = self.common.iter().map(|(weight, _)| weight).sum();
        let mut left = dice.below(total);
        for (weight, text) in &self.common {
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => return text,
            }
        }
        unreachable!("the weights sum to the total")
    }
}

/// Random numbers that depend on the seed, the stream and the ChaCha8 cipher alone: no machine's word size, and no
/// sampling method that a newer version of a crate might change.
struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(stream);
        Self(generator)
    }

    /// A number in `0..bound`. The bias of multiply-and-shift is below one in a million for bounds like ours.
    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_nested;

    /// How many entities stand around a word at most.
    fn depth(sentence: &Sentence) -> usize {
        let around = |word| {
            let covers = |entity: &&Entity| entity.span.start <= word && word < entity.span.end;
            sentence.entities.iter().filter(covers).count()
        };
        (0..sentence.len()).map(around).max().unwrap_or(0)
    }

    #[test]
    fn every_rule_is_used_and_can_be_expanded() {
        let grammar = Grammar::parse(GRAMMAR);
        let mut dice = Dice::new(1, 1);
        for (name, rule) in &grammar.rules {
            assert!(!rule.common.is_empty() || !rule.unseen.is_empty());
            assert!(
                *name == "sentence" || GRAMMAR.contains(&format!("<{name}>")),
                "{name}"
            );
            for _ in 0..200 {
                let mut text = String::new();
                grammar.expand(name, 50, &mut dice, &mut text, 0);
                assert!(!text.contains(['<', '>', '|']), "{text}");
            }
        }
        assert!(grammar.rules["report"].common.len() >= 40);
    }

    #[test]
    fn brackets_become_entities() {
        let sentence = unmark("the [ORG [LOC Ravenburg ] Police ] left .");
        assert_eq!(sentence.text, "The Ravenburg Police left .");
        let expected = [Entity::new(1, 3, "ORG"), Entity::new(1, 2, "LOC")];
        assert_eq!(sentence.entities, expected);
    }

    #[test]
    fn a_plan_is_kept() {
        let plan = Plan {
            train: 50,
            dev: 7,
            test: 0,
            seed: 3,
        };
        let splits = corpus(plan);
        assert_eq!(splits.each_ref().map(Vec::len), [50, 7, 0]);
        assert_eq!(splits, corpus(plan));
        assert_eq!(splits[0], sentences(50, 3));
        assert_ne!(splits[0], sentences(50, 4));
    }

    #[test]
    fn no_sentence_occurs_twice() {
        let splits = corpus(Plan::default());
        let texts: BTreeSet<&str> = splits.iter().flatten().map(|s| s.text.as_str()).collect();
        assert_eq!(texts.len(), 3000);
    }

    #[test]
    fn at_least_a_third_nests_and_three_deep_is_deepest() {
        for split in corpus(Plan::default()) {
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
    fn test_has_names_that_train_has_not() {
        let [train, _, test] = corpus(Plan::default());
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

    /// `NERZOO_UPDATE=1 cargo test committed` writes them anew after the grammar changed.
    #[test]
    fn the_committed_files_are_what_the_grammar_makes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/quickstart");
        if std::env::var_os("NERZOO_UPDATE").is_some() {
            write(&folder, Plan::default()).unwrap();
        }
        for (name, split) in FILES.iter().zip(corpus(Plan::default())) {
            let committed = std::fs::read_to_string(folder.join(name)).unwrap();
            assert!(committed == lines(&split), "{name} differs");
            let options = crate::data::Options::of(crate::data::Format::TokensJsonl);
            let read = crate::data::read(&folder.join(name), &options).unwrap();
            assert!(read == split, "{name} is read back differently");
        }
    }

    #[test]
    fn writing_leaves_three_files() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan {
            train: 9,
            dev: 3,
            test: 3,
            seed: 1,
        };
        write(&folder.path().join("new"), plan).unwrap();
        let files = std::fs::read_dir(folder.path().join("new")).unwrap();
        let names: BTreeSet<String> = files
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, FILES.map(String::from).into());
    }
}
