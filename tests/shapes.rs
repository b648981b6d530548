//! Batches that are padded to a ladder of sizes: the same results as without padding, in few shapes.

#![cfg(feature = "train")]

mod common;

use burn::tensor::Device;
use common::small_corpus::{recipe, sentences, settings, variants};
use common::{assert_same_step, inspect};
use nerzoo::nn::fused;
use nerzoo::recipe::Recipe;
use nerzoo::registry::{self, Entry};
use nerzoo::text::{Labels, Sentence};
use nerzoo::train::{Corpus, Finished};

/// A recipe with this value of `train.shapes`.
fn shaped(recipe: &Recipe, shapes: &str) -> Recipe {
    let text = recipe.to_toml().unwrap();
    let set = format!("train.shapes={shapes}");
    Recipe::parse(&text, "the test's recipe", &[set]).unwrap()
}

/// Compares a step on a padded batch with one on the same batch without padding, with kernels and without.
fn compare(what: &str, entry: &Entry, recipe: &Recipe, sentences: &[Sentence]) {
    let device = Device::flex();
    let expected = inspect(entry, &shaped(recipe, "exact"), sentences, &device).unwrap();
    for kernels in [true, false] {
        fused::set_enabled(kernels);
        let found = inspect(entry, &shaped(recipe, "ladder"), sentences, &device);
        fused::set_enabled(true);
        let what = format!("{what}, kernels: {kernels}");
        assert_same_step(&what, &found.unwrap(), &expected);
    }
}

#[test]
fn every_head_computes_the_same_with_padding() {
    let _guard = common::exclusive(); // the random seed and the switch of the kernels are global
    let folder = tempfile::tempdir().unwrap();
    for entry in registry::heads() {
        for variant in variants(entry.name) {
            let what = format!("{}/{}", entry.name, variant.name);
            let recipe = recipe(entry.name, &settings(entry.name, &variant), folder.path());
            compare(&what, entry, &recipe, &sentences());
        }
    }
}

#[test]
fn rows_words_and_windows_are_padded_for_every_pooling() {
    let _guard = common::exclusive(); // the random seed and the switch of the kernels are global
    let folder = tempfile::tempdir().unwrap();
    let mut texts = sentences();
    texts.push(Sentence::default());
    let long = (0..60).map(|word| format!("word{}", word % 11));
    texts.push(Sentence::from_words(long));
    let entry = registry::find("seq_ner").unwrap();
    for pooling in ["first", "mean", "max"] {
        // A small vocabulary for words of many pieces, short rows for several windows.
        let sets = [
            format!("encoder.pooling={pooling}"),
            "encoder.scratch.vocabulary=60".into(),
            "encoder.scratch.positions=24".into(),
            "encoder.overlap=6".into(),
            "head.dropout=0.0".into(),
        ];
        let recipe = recipe(entry.name, &sets, folder.path());
        compare(pooling, entry, &recipe, &texts);
    }
}

fn corpus(sentences: &[Sentence]) -> Corpus {
    Corpus {
        train: sentences.to_vec(),
        dev: Vec::new(),
        test: Vec::new(),
        labels: Labels::of(sentences),
        about: None,
    }
}

#[test]
fn a_head_that_reads_padding_is_not_padded() {
    let _guard = common::exclusive(); // the random seed is global
    let folder = tempfile::tempdir().unwrap();
    let entry = registry::find("bopn").unwrap();
    for (masked, has_ladder) in [(true, true), (false, false)] {
        let sets = [format!("head.mask_convolution={masked}")];
        let recipe = shaped(&recipe("bopn", &sets, folder.path()), "ladder");
        let trainer = (entry.trainer)(&recipe, corpus(&sentences()), &Device::flex()).unwrap();
        let shapes = trainer.shapes(1).unwrap();
        let mut words = shapes.shapes().map(|sizes| sizes[3]);
        let rounded = words.all(|words| words.is_multiple_of(4));
        assert_eq!(rounded, has_ladder, "{shapes:?}");
    }
}

/// 50 steps on one batch with 14 of 30 sentences empty, and a run with several batches.
#[test]
fn a_run_on_padded_batches_learns_the_same() {
    let _guard = common::exclusive(); // the random seed is global
    let run = |sets: &[&str]| -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let fixed = ["head.seq.dropout=0.0", "head.span.dropout=0.0"];
        let recipe = common::fifty_step_recipe("bl_ner", &[&fixed, sets].concat());
        let options = common::train_options(recipe, &folder.path().join("run"), &Device::flex());
        (registry::find("bl_ner").unwrap().train)(&options).unwrap()
    };
    let expected = common::losses(&run(&["train.batch=30"]));
    let found = common::losses(&run(&["train.batch=30", "train.shapes=ladder"]));
    assert_eq!(found.len(), 50);
    for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let apart = (found - expected).abs() / expected;
        assert!(apart < 1e-3, "step {step}: {found} {expected}");
    }
    // Several batches, the last of which is not full, and dev sentences.
    let folder = tempfile::tempdir().unwrap();
    let sets = ["train.shapes=ladder", "train.batch=3", "train.epochs=30"].map(String::from);
    let recipe = recipe("bl_ner", &sets, folder.path());
    let options = common::train_options(recipe, &folder.path().join("run"), &Device::flex());
    let finished = (registry::find("bl_ner").unwrap().train)(&options).unwrap();
    let f1 = finished.dev.unwrap().overall.f1();
    assert!(f1 > 0.9, "{f1}");
}

/// The lengths of GENIA's sentences in batches of 16: at most 12 shapes in two epochs, less than a tenth of padding.
#[test]
fn genia_has_few_shapes_and_little_padding() {
    let test = "genia_has_few_shapes_and_little_padding";
    let Some(corpora) = common::published_corpora(test) else {
        return;
    };
    let Some(encoders) = common::pretrained_encoders(test) else {
        return;
    };
    let (file, encoder) = (
        corpora.join("genia/train.jsonl"),
        encoders.join("all-MiniLM-L6-v2"),
    );
    if !file.is_file() || !encoder.is_dir() {
        common::print_skipped(&format!("{test}: no GENIA or no MiniLM"));
        return;
    }
    let sets = ["train.batch=16", "data.dev=[]", "data.test=[]"];
    let mut problems = Vec::new();
    for entry in registry::heads() {
        if entry.name.contains('+') {
            continue; // their parts are tested
        }
        // Without padding for comparison, where it takes least time.
        let without = (entry.name == "seq_ner").then_some("exact");
        for shapes in without.into_iter().chain(["ladder"]) {
            let recipe = common::pretrained_recipe(&encoder, entry.name, &file, &sets);
            let recipe = shaped(&recipe, shapes);
            let corpus = Corpus::load(&recipe, &[]).unwrap();
            let trainer = (entry.trainer)(&recipe, corpus, &Device::flex()).unwrap();
            let mut both = trainer.shapes(1).unwrap();
            both.merge(trainer.shapes(2).unwrap());
            println!("{}, {shapes}: {both}", entry.name);
            if shapes == "ladder" {
                both.shapes().for_each(|sizes| println!("    {sizes:?}"));
                if both.distinct() > 12 || both.padding_share() >= 0.1 {
                    problems.push(format!("{}: {both}", entry.name));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
