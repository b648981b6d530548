//! Decoding settings chosen on the dev sentences: saved, loaded, shown in the card, and replaced by `--set`.

#![cfg(feature = "train")]

mod common;

use std::path::Path;

use common::{entities, first_device, sentence, small_recipe, train_options, write_sentences};
use nerzoo::model::folder::ModelConfig;
use nerzoo::recipe::set::Assignment;
use nerzoo::registry;
use nerzoo::text::Sentence;
use nerzoo::train::Finished;
use tempfile::TempDir;

/// Sentences that are easy to learn.
fn sentences() -> Vec<Sentence> {
    let names = ["Anna", "Bert", "Clara", "David", "Emma", "Felix"];
    let places = ["Rome", "Paris", "Oslo", "Bern"];
    let pairs = names
        .iter()
        .flat_map(|name| places.map(|place| (name, place)));
    pairs
        .map(|(name, place)| {
            let words = format!("{name} lives in {place} and works there");
            sentence(&words, &[(0, 1, "PER"), (3, 4, "LOC")])
        })
        .collect()
}

fn train(head: &str, sets: &[&str]) -> (TempDir, Finished) {
    let folder = tempfile::tempdir().unwrap();
    let file = write_sentences(folder.path().join("corpus.jsonl"), &sentences());
    let sets = [&["train.epochs=6"], sets].concat();
    let (recipe, entry) = registry::resolve(small_recipe(head, &file, &sets)).unwrap();
    let out = folder.path().join("run");
    let finished = (entry.train)(&train_options(recipe, &out, &first_device())).unwrap();
    (folder, finished)
}

fn head_setting(folder: &Path, pointer: &str) -> f64 {
    let config = ModelConfig::read(folder).unwrap().head_config;
    config.pointer(pointer).unwrap().as_f64().unwrap()
}

#[test]
fn chosen_settings_are_saved_loaded_and_shown() {
    let _guard = common::exclusive();
    // A bias under which a model finds nothing: any other is better.
    let (folder, finished) = train("span_ner", &["head.none_bias=60.0"]);
    let run = folder.path().join("run");
    let tuning = finished.tuning.unwrap();
    let change = &tuning.changes[0];
    assert_eq!(
        (change.setting.as_str(), change.trained.as_f64()),
        ("none_bias", Some(60.0))
    );
    let chosen = change.chosen.as_f64().unwrap();
    assert!((-3.0..=3.0).contains(&chosen), "{chosen}");
    assert!(tuning.dev_f1_cross_fitted > tuning.dev_f1_as_trained);
    assert_eq!(tuning.test_as_trained.unwrap().overall.f1(), 0.0);
    assert!(finished.test.unwrap().overall.f1() > 0.5);

    assert_eq!(head_setting(&run, "/none_bias"), chosen);
    let loaded = registry::load(&run, &first_device(), &[]).unwrap();
    let found = loaded.tag(&sentences()).unwrap();
    assert_eq!(
        entities(&found),
        entities(&finished.tagger.tag(&sentences()).unwrap())
    );
    assert!(found.iter().any(|mentions| !mentions.is_empty()));

    let card = std::fs::read_to_string(run.join("README.md")).unwrap();
    let row = format!("| `head.none_bias` | 60.0 | {chosen:?} |");
    assert!(card.contains(&row), "{row}\n{card}");
    assert!(card.contains("| test F1 | 0.00 |"), "{card}");

    let as_trained = Assignment {
        key: "head.none_bias".into(),
        value: toml::Value::Float(60.0),
    };
    let loaded = registry::load(&run, &first_device(), &[as_trained]).unwrap();
    let found = loaded.tag(&sentences()).unwrap();
    assert!(found.iter().all(Vec::is_empty), "--set still replaces it");
}

#[test]
fn without_tune_the_settings_stay() {
    let _guard = common::exclusive();
    let (folder, finished) = train("span_ner", &["head.none_bias=60.0", "train.tune=false"]);
    assert!(finished.tuning.is_none());
    assert_eq!(head_setting(&folder.path().join("run"), "/none_bias"), 60.0);
}

#[test]
fn a_bundle_chooses_the_settings_of_the_head_that_gives_the_mentions() {
    let _guard = common::exclusive();
    let sets = [
        "head.output=\"seq\"",
        "head.seq.none_bias=60.0",
        "head.span.none_bias=60.0",
    ];
    let (folder, _) = train("bl_ner", &sets);
    let run = folder.path().join("run");
    assert!(head_setting(&run, "/seq/none_bias") <= 3.0);
    assert_eq!(head_setting(&run, "/span/none_bias"), 60.0);
}

#[test]
fn flat_corpora_get_flat_answers() {
    let _guard = common::exclusive();
    for head in ["span_ner", "locate_label", "bopn", "diffusion_ner"] {
        let sets: &[&str] = if head == "diffusion_ner" {
            &["head.overlaps=auto", "head.heads=2", "train.epochs=1"]
        } else {
            &["head.overlaps=auto", "train.epochs=1"]
        };
        let (folder, finished) = train(head, sets);
        assert!(!finished.tagger.nested(), "{head}");
        let config = ModelConfig::read(&folder.path().join("run")).unwrap();
        assert_eq!(config.head_config["overlaps"], "flat", "{head}");
    }
}
