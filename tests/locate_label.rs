//! What only the regressor can do: an entity longer than every seed is found with it, and not without.

mod common;

use std::path::Path;

use nerzoo::data::{Format, Scheme, write};
use nerzoo::heads::zoo;
use nerzoo::text::{Entity, Mention, Sentence};
use nerzoo::train::recipe::Recipe;

/// Entities of one and of seven words; the seeds have at most six.
fn sentences() -> Vec<Sentence> {
    let make = |words: &str, entities: &[(usize, usize, &str)]| {
        let mut sentence = Sentence::from_words(words.split(' '));
        sentence.entities = entities
            .iter()
            .map(|(start, end, label)| Entity::new(*start, *end, *label))
            .collect();
        sentence
    };
    vec![
        make(
            "today the Old Bank of North and South opened",
            &[(1, 8, "ORG")],
        ),
        make("today Anna sings", &[(1, 2, "PER")]),
        make(
            "Anna met the Old Bank of North and South today",
            &[(0, 1, "PER"), (2, 9, "ORG")],
        ),
        make("nothing opened today", &[]),
    ]
}

fn found(sets: &[&str], folder: &Path) -> Vec<Vec<Mention>> {
    let file = folder.join("four.jsonl");
    write::to_file(&file, &sentences(), Format::TokensJsonl, Scheme::Iob2).unwrap();
    let file = file.display();
    let text = format!(
        r#"
        [data]
        train = ["{file}"]
        dev = ["{file}"]
        [encoder.scratch]
        vocabulary = 120
        width = 32
        heads = 2
        feed_forward = 64
        dropout = 0.0
        [head]
        name = "locate_label"
        windows = [1, 2, 3, 4, 5, 6]
        dropout = 0.1
        [train]
        epochs = 150
        batch = 4
        learning_rate = 5e-3
        "#
    );
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let (_, device) = common::devices().remove(0);
    let recipe = Recipe::parse(&text, "the test's recipe", &sets).unwrap();
    let launch = common::launch(recipe, &folder.join("run"), &device);
    let finished = (zoo::find("locate_label").unwrap().train)(&launch).unwrap();
    finished.tagger.tag(&sentences()).unwrap()
}

#[test]
fn only_the_regressor_finds_what_is_longer_than_every_seed() {
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
