//! Comparisons, cross-validations and learning curves: interrupted and resumed, they end as they do without interruption.

#![cfg(feature = "train")]

mod common;

use std::path::Path;

use nerzoo::data::synthetic::{self, SyntheticConfig};
use nerzoo::data::{self, ReadOptions};
use nerzoo::error::Error;
use nerzoo::eval::predictions;
use nerzoo::experiment::compare::CompareConfig;
use nerzoo::experiment::leaderboard::{Leaderboard, Row};
use nerzoo::experiment::{RunOptions, compare, cross_validate, learning_curve};
use nerzoo::files::sha256;
use nerzoo::recipe::{DataConfig, Recipe};
use nerzoo::registry;
use nerzoo::train::TrainOptions;

const SMALL: [&str; 7] = [
    "encoder.scratch.vocabulary=200",
    "encoder.scratch.layers=1",
    "encoder.scratch.width=32",
    "encoder.scratch.heads=2",
    "encoder.scratch.feed_forward=32",
    "train.batch=4",
    "train.learning_rate=4e-3",
];

/// Writes a corpus of 120 training, 16 dev and 16 test sentences.
fn corpus(folder: &Path) -> DataConfig {
    let config = SyntheticConfig {
        train: 120,
        dev: 16,
        test: 16,
        seed: 5,
    };
    synthetic::write(folder, config).unwrap();
    DataConfig {
        train: vec![folder.join("train.jsonl")],
        dev: vec![folder.join("dev.jsonl")],
        test: vec![folder.join("test.jsonl")],
        ..DataConfig::default()
    }
}

fn recipe(folder: &Path) -> Recipe {
    let data = corpus(folder);
    let text = format!(
        "[data]\n{}[head]\nname = \"seq_ner\"\n[train]\nepochs = 2\n",
        toml::to_string(&data)
            .unwrap()
            .replace("[options]", "[data.options]")
    );
    Recipe::parse(&text, "the test's recipe", &SMALL.map(String::from)).unwrap()
}

/// The rows of a leaderboard without times.
fn rows(leaderboard: Leaderboard) -> Vec<Row> {
    let without_speed = |row| Row {
        sentences_per_second: 0.0,
        ..row
    };
    leaderboard.rows.into_iter().map(without_speed).collect()
}

#[test]
fn an_interrupted_comparison_ends_with_the_same_leaderboard() {
    let _alone = common::exclusive(); // random seeds belong to the process
    let folder = tempfile::tempdir().unwrap();
    let config = CompareConfig {
        data: corpus(folder.path()),
        heads: vec!["seq_ner".into(), "span_ner".into()],
        epochs: Some(2),
        rungs: Some(2),
        seed: 1,
        sets: SMALL.map(String::from).to_vec(),
        ..CompareConfig::default()
    };
    let whole = folder.path().join("whole");
    let mut texts = Vec::new();
    let result = compare(&config, &RunOptions::new(&whole), &mut |text| {
        texts.push(text.to_string())
    });
    let expected = result.unwrap();
    // Four candidates in the first rung, two in the second.
    let trained = texts.iter().filter(|text| text.contains("rung ")).count();
    assert_eq!(trained, 6, "{texts:#?}");
    let finished = expected
        .rows
        .iter()
        .filter(|row| row.test_f1.is_some())
        .count();
    assert_eq!((expected.rows.len(), finished), (4, 2));
    assert!(
        expected.rows[2..]
            .iter()
            .all(|row| row.epochs == 1 && row.folder.is_none())
    );
    assert_eq!(expected.rows[0].name, expected.best);
    assert!(expected.rows[1].difference.is_some());
    assert!(expected.rows[0].dev_f1 > 0.0, "nothing was learned");

    let broken = folder.path().join("broken");
    let mut starts = 0;
    let mut interruptions = 0;
    let resumed = loop {
        let mut runs = RunOptions::new(&broken);
        runs.resume = interruptions > 0;
        let interrupter = runs.interrupter.clone();
        let result = compare(&config, &runs, &mut |text| {
            let is_start = text.contains("rung ");
            starts += usize::from(is_start);
            // In the first rung, between the rungs, and in the second.
            if is_start && [2, 6, 8].contains(&starts) {
                interrupter.stop(None);
            }
        });
        match result {
            Ok(leaderboard) => break leaderboard,
            Err(Error::Interrupted(message)) => {
                assert!(message.contains("--resume"), "{message}");
                interruptions += 1;
                assert!(interruptions <= 3);
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(interruptions, 3);
    assert_eq!(resumed.best, expected.best);
    assert_eq!(rows(resumed), rows(expected.clone()));

    // The pause after the first epoch changes nothing, and `best` is a complete model.
    let own = whole.join("candidates").join(&expected.best);
    let recipe = Recipe::read(&own.join("recipe.toml"), &[]).unwrap();
    let (recipe, entry) = registry::resolve(recipe).unwrap();
    let alone = folder.path().join("alone");
    (entry.train)(&TrainOptions::new(recipe, &alone)).unwrap();
    let weights = |folder: &Path| sha256(&folder.join("model.safetensors")).unwrap();
    assert_eq!(weights(&alone), weights(&whole.join("best")));
    let device = nerzoo::device::cpu();
    registry::load(&whole.join("best"), &device, &[]).unwrap();
    for file in [
        "leaderboard.json",
        "leaderboard.md",
        "report.html",
        "report.json",
        "plan.json",
    ] {
        assert!(whole.join(file).is_file(), "{file}");
    }
    // Other options do not continue this comparison.
    let mut runs = RunOptions::new(&whole);
    runs.resume = true;
    let other = CompareConfig {
        seed: 2,
        ..config.clone()
    };
    let problem = compare(&other, &runs, &mut |_| {}).unwrap_err();
    assert!(problem.to_string().contains("other options"), "{problem}");
}

#[test]
fn a_time_limit_is_planned_for() {
    let _alone = common::exclusive(); // random seeds belong to the process
    let folder = tempfile::tempdir().unwrap();
    let config = CompareConfig {
        data: corpus(folder.path()),
        heads: vec!["seq_ner.default".into(), "seq_ner.rate-x2".into()],
        minutes: Some(0.2),
        seed: 1,
        sets: SMALL.map(String::from).to_vec(),
        ..CompareConfig::default()
    };
    let runs = RunOptions::new(folder.path().join("out"));
    let leaderboard = compare(&config, &runs, &mut |_| {}).unwrap();
    assert!(leaderboard.seconds < 40.0, "{}", leaderboard.seconds);
    assert!(
        leaderboard.command.contains("--epochs"),
        "{}",
        leaderboard.command
    );
}

#[test]
fn folds_are_tested_once_and_resumed() {
    let _alone = common::exclusive(); // random seeds belong to the process
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path());
    let out = folder.path().join("folds");
    let mut runs = RunOptions::new(&out);
    let result = cross_validate(&recipe, 2, &runs, &mut |_| {}).unwrap();
    assert_eq!(
        result
            .folds
            .iter()
            .map(|fold| fold.sentences)
            .sum::<usize>(),
        136
    );
    let gold = data::read(&out.join("gold.jsonl"), &ReadOptions::default()).unwrap();
    assert_eq!(gold.len(), 136);
    assert_eq!(
        predictions::read(&out.join("predictions.jsonl"), &gold)
            .unwrap()
            .len(),
        136
    );
    assert!(out.join("final/manifest.json").is_file());
    runs.resume = true;
    let before = sha256(&out.join("fold-1/model.safetensors")).unwrap();
    assert_eq!(
        cross_validate(&recipe, 2, &runs, &mut |_| {}).unwrap(),
        result
    );
    assert_eq!(
        sha256(&out.join("fold-1/model.safetensors")).unwrap(),
        before
    );
}

#[test]
fn a_learning_curve_has_a_run_for_each_share() {
    let _alone = common::exclusive(); // random seeds belong to the process
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path());
    let out = folder.path().join("curve");
    let curve = learning_curve(&recipe, &[1.0, 0.5], &RunOptions::new(&out), &mut |_| {}).unwrap();
    let sizes: Vec<usize> = curve.points.iter().map(|point| point.sentences).collect();
    assert_eq!(sizes, [60, 120]);
    assert!(curve.conclusion.starts_with("too few points"), "{curve}");
    for file in [
        "curve.json",
        "curve.svg",
        "share-0.5/manifest.json",
        "share-1/manifest.json",
    ] {
        assert!(out.join(file).is_file(), "{file}");
    }
}
