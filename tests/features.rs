//! Word vectors, parts of speech, characters, the BiLSTM and neighbouring sentences, for every head and every order of
//! layers.

#![cfg(feature = "train")]

mod common;

use std::path::Path;

use nerzoo::data::link_context;
use nerzoo::recipe::Recipe;
use nerzoo::registry;
use nerzoo::text::{Mention, Sentence};
use nerzoo::train::Finished;
use safetensors::SafeTensors;

/// Words with a vector; the last occurs in no sentence.
const VECTORS: &str = "anna 0.5 -1 2\nsings 1 1 1\nbrakel 0.25 0 -3\nother 9 9 9\n";

/// Two documents with parts of speech.
fn sentences() -> Vec<Sentence> {
    let make = |document: &str, words: &str, tags: &str, entities: &[(usize, usize, &str)]| {
        let mut sentence = common::sentence(words, entities);
        sentence.document = Some(document.into());
        sentence.pos = Some(tags.split(' ').map(String::from).collect());
        sentence
    };
    let bank = [(0, 4, "ORG"), (3, 4, "LOC")];
    vec![
        make("one", "Anna sings", "N V", &[(0, 1, "PER")]),
        make("one", "the bank of Brakel opened", "D N P N V", &bank),
        make("one", "nothing happened", "N V", &[]),
        make("two", "she met Keller", "P V N", &[(2, 3, "PER")]),
        make("two", "in Brakel", "P N", &[(1, 2, "LOC")]),
    ]
}

const ALL: [&str; 7] = [
    "encoder.context=1",
    "encoder.features.pos=true",
    "encoder.features.pos_width=6",
    "encoder.features.characters=true",
    "encoder.features.character_width=8",
    "encoder.features.dropout=0.1",
    "encoder.features.lstm=true",
];

fn recipe(head: &str, sets: &[&str], folder: &Path) -> Recipe {
    let file = common::write_sentences(folder.join("five.jsonl"), &sentences());
    let vectors = folder.join("vectors.txt");
    std::fs::write(&vectors, VECTORS).unwrap();
    let vectors = format!("encoder.features.word_vectors={}", vectors.display());
    let fixed = [
        vectors.as_str(),
        "encoder.scratch.layers=1",
        "encoder.scratch.width=16",
        "train.epochs=30",
        "train.batch=2",
        "train.learning_rate=1e-2",
    ];
    common::small_recipe(head, &file, &[&fixed, sets].concat())
}

fn train(head: &str, sets: &[&str], folder: &Path) -> Finished {
    let recipe = recipe(head, sets, folder);
    let options = common::train_options(recipe, &folder.join("run"), &common::first_device());
    (registry::find(head).unwrap().train)(&options).unwrap()
}

fn are_close(one: &[Vec<Mention>], other: &[Vec<Mention>]) -> bool {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    one.iter().map(Vec::len).eq(other.iter().map(Vec::len))
        && pairs.into_iter().all(|(one, other)| {
            one.entity == other.entity && (one.score - other.score).abs() < 1e-4
        })
}

#[test]
fn every_head_trains_every_feature() {
    let folder = tempfile::tempdir().unwrap();
    let orders: [&[&str]; 3] = [
        &[],
        &[
            "encoder.features.lstm_over=features",
            "encoder.features.lstm_layers=2",
        ],
        &["encoder.features.lstm=false"],
    ];
    for entry in registry::heads() {
        for order in orders {
            for (name, device) in common::devices() {
                let what = format!("{} {order:?} on {name}", entry.name);
                let recipe = recipe(entry.name, &[&ALL, order].concat(), folder.path());
                let mut sentences = sentences();
                link_context(&mut sentences, 1);
                let found = common::inspect(entry, &recipe, &sentences, &device).unwrap();
                let found = common::largest_gradients(&found);
                let features: Vec<_> = found
                    .iter()
                    .filter(|(parameter, _)| parameter.starts_with("encoder.features."))
                    .collect();
                assert!(features.len() > 5, "{what}: {features:?}");
                for (parameter, largest) in features {
                    assert!(!parameter.contains("word_vectors"), "{what}: frozen");
                    assert!(*largest > 0.0, "{what}: {parameter} has {largest}");
                }
            }
        }
    }
}

#[test]
fn a_model_folder_holds_its_vocabularies() {
    let folder = tempfile::tempdir().unwrap();
    let finished = train("span_ner", &ALL, folder.path());
    let mut texts = sentences();
    link_context(&mut texts, 1);
    texts.push(Sentence::default());
    texts.push(Sentence::from_words(["北京", "Unseen", "\u{200b}"])); // no parts of speech
    let together = finished.tagger.tag(&texts).unwrap();
    assert_eq!(finished.test.unwrap().overall.f1(), 1.0);
    assert_eq!(finished.tagger.context(), 1);

    // Nothing outside the model folder is needed.
    std::fs::remove_file(folder.path().join("vectors.txt")).unwrap();
    let out = folder.path().join("run");
    let device = common::first_device();
    let loaded = registry::load(&out, &device, &[]).unwrap();
    assert!(are_close(&together, &loaded.tag(&texts).unwrap()));
    // So does the best checkpoint.
    std::fs::remove_file(out.join("manifest.json")).unwrap();
    let checkpoint = registry::load(&out, &device, &[]).unwrap();
    assert!(are_close(&together, &checkpoint.tag(&texts).unwrap()));

    // Batches change nothing.
    let tag = |text: &Sentence| loaded.tag(std::slice::from_ref(text)).unwrap().remove(0);
    let single: Vec<Vec<Mention>> = texts.iter().map(tag).collect();
    assert!(are_close(&together, &single));

    // Training does not change the vectors: they are sorted by word, after the row of unknown words.
    let bytes = std::fs::read(out.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let table = tensors.tensor("encoder.features.word_vectors").unwrap();
    assert_eq!(table.shape(), [4, 3]);
    let values: Vec<f32> = table
        .data()
        .chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect();
    assert_eq!(
        values[3..],
        [0.5, -1.0, 2.0, 0.25, 0.0, -3.0, 1.0, 1.0, 1.0]
    );
    assert!(values[..3].iter().all(|value| (0.0..1.0).contains(value)));
}

#[test]
fn neighbours_are_read_only_with_context() {
    let scores = |sets: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let finished = train("span_ner", sets, folder.path());
        let mut text = sentences().remove(1);
        let bare = finished.tagger.tag(&[text.clone()]).unwrap();
        text.left = vec!["Keller".into(), "sings".into()];
        text.right = vec!["in".into()];
        let surrounded = finished.tagger.tag(&[text]).unwrap();
        assert!(!bare[0].is_empty());
        let words = |found: &[Vec<Mention>]| found[0].iter().all(|m| m.entity.span.end <= 5);
        assert!(words(&bare) && words(&surrounded));
        bare == surrounded
    };
    assert!(scores(&["train.epochs=10"]));
    assert!(!scores(&["train.epochs=10", "encoder.context=1"]));
}

#[test]
fn a_corpus_without_parts_of_speech_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("seq_ner", &["encoder.features.pos=true"], folder.path());
    let mut sentences = sentences();
    sentences
        .iter_mut()
        .for_each(|sentence| sentence.pos = None);
    let device = common::first_device();
    let entry = registry::find("seq_ner").unwrap();
    let found = common::inspect(entry, &recipe, &sentences, &device).unwrap();
    let mut names = found.gradients.iter().map(|(name, _)| name);
    assert!(names.all(|name| !name.contains("features.pos")));
}
