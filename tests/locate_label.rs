//! An entity longer than every seed span is found with the regressor and not without it.

#![cfg(feature = "train")]

mod common;

use std::path::Path;

use common::sentence;
use nerzoo::registry;
use nerzoo::text::{Entity, Mention, Sentence};

/// Entities of one and of seven words; the seeds have at most six.
fn sentences() -> Vec<Sentence> {
    vec![
        sentence(
            "today the Old Bank of North and South opened",
            &[(1, 8, "ORG")],
        ),
        sentence("today Anna sings", &[(1, 2, "PER")]),
        sentence(
            "Anna met the Old Bank of North and South today",
            &[(0, 1, "PER"), (2, 9, "ORG")],
        ),
        sentence("nothing opened today", &[]),
    ]
}

fn found(sets: &[&str], folder: &Path) -> Vec<Vec<Mention>> {
    let file = common::write_sentences(folder.join("four.jsonl"), &sentences());
    let fixed = [
        "head.windows=[1,2,3,4,5,6]",
        "head.dropout=0.1",
        "train.epochs=150",
    ];
    let recipe = common::small_recipe("locate_label", &file, &[&fixed, sets].concat());
    let device = common::first_device();
    let options = common::train_options(recipe, &folder.join("run"), &device);
    let finished = (registry::find("locate_label").unwrap().train)(&options).unwrap();
    finished.tagger.tag(&sentences()).unwrap()
}

#[test]
fn only_the_regressor_finds_entities_longer_than_every_seed() {
    let entities = |found: &[Vec<Mention>], long: bool| -> Vec<Entity> {
        let all = found.iter().flatten().map(|mention| mention.entity.clone());
        all.filter(|entity| (entity.span.len() > 6) == long)
            .collect()
    };
    let gold: Vec<Entity> = sentences().into_iter().flat_map(|s| s.entities).collect();
    let folder = tempfile::tempdir().unwrap();
    let with = found(&[], folder.path());
    let mut all: Vec<Entity> = with.iter().flatten().map(|m| m.entity.clone()).collect();
    all.sort();
    let mut expected = gold.clone();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(entities(&with, true).len(), 2);

    let folder = tempfile::tempdir().unwrap();
    let without = found(&["head.regressor=false"], folder.path());
    assert!(entities(&without, true).is_empty());
    let short: Vec<Entity> = entities(&without, false);
    assert!(
        gold.iter()
            .filter(|entity| entity.span.len() == 1)
            .all(|entity| short.contains(entity)),
        "{short:?}"
    );
}
