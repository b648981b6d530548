//! Every check for every head of the zoo, on every test device: what a model must do to be in it.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::Device;
use burn::train::Interrupter;
use nerzoo::data::write;
use nerzoo::data::{Format, Scheme};
use nerzoo::heads::Reading;
use nerzoo::heads::zoo::{self, Entry, ZOO};
use nerzoo::predict::Tagger;
use nerzoo::text::{Entity, Mention, Sentence, outermost};
use nerzoo::train::launch::{Finished, Launch};
use nerzoo::train::recipe::Recipe;

/// Knobs of each head that deserve a run of their own.
fn variants(head: &str) -> Vec<Vec<String>> {
    let sets = |list: &[&str]| list.iter().map(|set| set.to_string()).collect();
    match head {
        "seq_ner" => vec![
            sets(&[]),
            sets(&["head.decoder=crf", "head.combiner=strict"]),
        ],
        "span_ner" => ["boundary", "pooling", "hybrid"]
            .map(|kind| vec![format!("head.representation={kind}")])
            .to_vec(),
        "bl_ner" => vec![sets(&["head.alpha=0.3"])],
        "bopn" => vec![
            // As the text has it, without a way round the convolutions, it learns slowly.
            bopn(
                "head",
                &[
                    "head.preset=paper",
                    "head.convolutions=2",
                    "train.epochs=100",
                    "train.head_learning_rate=1e-2",
                ],
            ),
            bopn("head", &["head.preset=released"]),
            bopn(
                "head",
                &[
                    "head.preset=released",
                    "head.type_input=false",
                    "head.mode=start",
                    "head.decode=rules",
                ],
            ),
        ],
        "seq_ner+bopn" => vec![bopn("head.span", &["head.span.preset=released"])],
        "locate_label" => vec![
            sets(&["head.dropout=0.1"]),
            // Its offsets start from half a sentence's length: at first every span is moved out of it.
            sets(&[
                "head.preset=released",
                "head.dropout=0.1",
                "train.epochs=100",
            ]),
            sets(&[
                "head.dropout=0.1",
                "head.filter=false",
                "encoder.features.characters=true",
                "encoder.features.lstm=true",
            ]),
        ],
        "seq_ner+locate_label" => vec![sets(&["head.span.dropout=0.1"])],
        // Its own budget: denoising converges slowly, and eight sentences are two batches an epoch. As the text has
        // it, with one prediction for each entity and none for all others, sums stay under 2.5 for longer still; so
        // entities are repeated, and 2 is enough.
        "diffusion_ner" => vec![
            diffusion(
                "head",
                &[
                    "head.preset=paper",
                    "head.repeat_gold=true",
                    "head.threshold=2.0",
                    "head.steps=2",
                    "encoder.scratch.width=64",
                    "train.learning_rate=3e-3",
                    "train.epochs=120",
                ],
            ),
            diffusion("head", &DIFFUSION),
        ],
        "seq_ner+diffusion_ner" => {
            let sets = DIFFUSION.map(|set| set.replace("head.", "head.span."));
            vec![diffusion("head.span", &sets.each_ref().map(String::as_str))]
        }
        _ => vec![sets(&[])],
    }
}

/// DiffusionNER in a size for eight sentences.
fn diffusion(table: &str, sets: &[&str]) -> Vec<String> {
    let small = ["spans=24", "heads=4", "feed_forward=64", "dropout=0.0"];
    let small = small.iter().map(|set| format!("{table}.{set}"));
    small
        .chain(sets.iter().map(|set| set.to_string()))
        .collect()
}

/// The authors' program, but for layers that start at a size for any width.
const DIFFUSION: [&str; 6] = [
    "head.preset=released",
    "head.initial=even",
    "head.steps=3",
    "encoder.scratch.width=64",
    "train.learning_rate=3e-3",
    "train.epochs=150",
];

/// BOPN in a size for eight sentences.
fn bopn(table: &str, sets: &[&str]) -> Vec<String> {
    let small = ["lstm_width=48", "lstm_dropout=0.1", "biaffine_width=24"];
    let small = small.iter().map(|set| format!("{table}.{set}"));
    small
        .chain(sets.iter().map(|set| set.to_string()))
        .collect()
}

/// Eight sentences of different lengths, nested and not, one without entities.
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
        make("Anna sings", &[(0, 1, "PER")]),
        make(
            "the University of Lindholm opened",
            &[(0, 4, "ORG"), (3, 4, "LOC")],
        ),
        make("nothing happened yesterday", &[]),
        make(
            "Lindholm said it would buy Orvane",
            &[(0, 1, "ORG"), (5, 6, "ORG")],
        ),
        make("she moved to Lindholm", &[(3, 4, "LOC")]),
        make(
            "the Faculty of Law of the University of Brakel met Anna Keller",
            &[(0, 9, "ORG"), (5, 9, "ORG"), (8, 9, "LOC"), (10, 12, "PER")],
        ),
        make(
            "Keller and Anna Brakel left Brakel in May",
            &[(0, 1, "PER"), (2, 4, "PER"), (5, 6, "LOC")],
        ),
        make(
            "the Anna Keller Foundation of Brakel",
            &[(0, 6, "ORG"), (1, 3, "PER"), (5, 6, "LOC")],
        ),
    ]
}

fn recipe(head: &str, sets: &[String], folder: &Path) -> Recipe {
    let file = folder.join("eight.jsonl");
    if !file.exists() {
        write::to_file(&file, &sentences(), Format::TokensJsonl, Scheme::Iob2).unwrap();
    }
    let file = file.display();
    let text = format!(
        r#"
        [data]
        train = ["{file}"]
        dev = ["{file}"]
        test = ["{file}"]
        [encoder.scratch]
        vocabulary = 120
        layers = 2
        width = 32
        heads = 2
        feed_forward = 64
        dropout = 0.0
        [head]
        name = "{head}"
        [train]
        epochs = 60
        batch = 4
        learning_rate = 5e-3
        patience = 0
        "#
    );
    Recipe::parse(&text, "the test's recipe", sets).unwrap()
}

fn train(entry: &Entry, recipe: Recipe, out: &Path, device: &Device) -> Finished {
    let launch = Launch {
        recipe,
        out: out.to_path_buf(),
        resume: false,
        device: device.clone(),
        roots: Vec::new(),
        plain: true,
        silent: true,
        command: "a test".into(),
        interrupter: Interrupter::new(),
    };
    (entry.train)(&launch).unwrap()
}

/// Runs a check for every head, variant and device.
fn everywhere(check: impl Fn(&Entry, &[String], &Device, &str)) {
    for entry in ZOO {
        for sets in variants(entry.name) {
            for (name, device) in common::devices() {
                let what = format!("{} {sets:?} on {name}", entry.name);
                check(entry, &sets, &device, &what);
            }
        }
    }
}

#[test]
fn a_gradient_reaches_every_parameter() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(|entry, sets, device, what| {
        let recipe = recipe(entry.name, sets, folder.path());
        let found = (entry.gradients)(&recipe, &sentences(), device).unwrap();
        assert!(found.len() > 10, "{what}");
        for (parameter, largest) in found {
            assert!(largest.is_finite(), "{what}: {parameter} has {largest}");
            // Keys' biases shift all scores of a softmax alike: their gradient is nothing by nature.
            let nothing = parameter.ends_with("key.bias");
            assert!(
                nothing || largest > 0.0,
                "{what}: no gradient reaches {parameter}"
            );
        }
    });
}

#[test]
fn an_empty_sentence_does_not_hurt_the_loss() {
    let folder = tempfile::tempdir().unwrap();
    everywhere(|entry, sets, device, what| {
        let recipe = recipe(entry.name, sets, folder.path());
        let mut sentences = sentences();
        sentences.push(Sentence::default());
        for (parameter, largest) in (entry.gradients)(&recipe, &sentences, device).unwrap() {
            assert!(largest.is_finite(), "{what}: {parameter} has {largest}");
        }
    });
}

#[test]
fn overfits_and_keeps_what_it_learned() {
    everywhere(|entry, sets, device, what| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let finished = train(entry, recipe(entry.name, sets, folder.path()), &out, device);
        let report = finished.test.as_ref().unwrap();
        let counts = if entry.nested {
            report.overall
        } else {
            report.flat_view
        };
        assert_eq!(counts.f1(), 1.0, "{what}: {report}");
        assert_eq!(finished.tagger.nested(), entry.nested, "{what}");

        let mut texts = sentences();
        texts.push(Sentence::default());
        texts.push(Sentence::from_words([
            "quite",
            "unknown",
            "👩‍🔬",
            "\u{200b}",
            "北京",
        ]));
        let together = finished.tagger.tag(&texts).unwrap();
        assert!(
            together[8].is_empty(),
            "{what}: an empty sentence has no mentions"
        );
        check_gold(entry, &together, what);

        check_readings(finished.tagger.as_ref(), &texts, what);
        let loaded = zoo::load(&out, device, &Default::default()).unwrap();
        assert_eq!(loaded.labels(), finished.tagger.labels(), "{what}");
        assert_close(
            &together,
            &loaded.tag(&texts).unwrap(),
            &format!("{what}: saved and loaded"),
        );

        // One by one there is no padding; together there is.
        let alone: Vec<Vec<Mention>> = texts
            .iter()
            .map(|text| {
                finished
                    .tagger
                    .tag(std::slice::from_ref(text))
                    .unwrap()
                    .remove(0)
            })
            .collect();
        assert_close(&together, &alone, &format!("{what}: alone and in a batch"));
    });
}

/// Kinds of evidence taken one by one find together what "all" finds.
fn check_readings(tagger: &dyn Tagger, texts: &[Sentence], what: &str) {
    let readings = tagger.readings(texts).unwrap();
    assert_eq!(readings.is_empty(), !what.contains("bopn"), "{what}");
    let found = |reading: &Reading| -> BTreeSet<(usize, Entity)> {
        let each = reading.mentions.iter().enumerate();
        each.flat_map(|(index, list)| list.iter().map(move |m| (index, m.entity.clone())))
            .collect()
    };
    let whole = ["all", "rules", "votes"];
    let parts = readings
        .iter()
        .filter(|reading| !whole.contains(&reading.name.as_str()));
    let parts: BTreeSet<(usize, Entity)> = parts.flat_map(found).collect();
    for reading in &readings {
        let found = found(reading);
        match reading.name.as_str() {
            "all" => assert_eq!(found, parts, "{what}"),
            _ => assert!(found.is_subset(&parts), "{what}: {}", reading.name),
        }
    }
}

fn check_gold(entry: &Entry, found: &[Vec<Mention>], what: &str) {
    for (sentence, mentions) in sentences().iter().zip(found) {
        let mut gold = match entry.nested {
            true => sentence.entities.clone(),
            false => outermost(&sentence.entities),
        };
        let mut found: Vec<Entity> = mentions
            .iter()
            .map(|mention| mention.entity.clone())
            .collect();
        gold.sort();
        found.sort();
        assert_eq!(found, gold, "{what}");
        assert!(
            mentions
                .iter()
                .all(|mention| (0.0..=1.0001).contains(&mention.score)),
            "{what}"
        );
    }
}

fn assert_close(one: &[Vec<Mention>], other: &[Vec<Mention>], what: &str) {
    for (one, other) in one.iter().zip(other) {
        let entities = |list: &[Mention]| list.iter().map(|m| m.entity.clone()).collect::<Vec<_>>();
        assert_eq!(entities(one), entities(other), "{what}");
        for (one, other) in one.iter().zip(other) {
            assert!(
                (one.score - other.score).abs() < 1e-4,
                "{what}: {} {}",
                one.score,
                other.score
            );
        }
    }
}

#[test]
fn half_precision_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let entry = &ZOO[0];
    let (name, device) = common::devices().remove(0);
    let out = folder.path().join("run");
    let recipe = recipe(entry.name, &["train.half=true".into()], folder.path());
    let finished = train(entry, recipe, &out, &device);
    let loaded = zoo::load(&out, &device, &Default::default()).unwrap();
    let found = loaded.tag(&sentences()).unwrap();
    let expected = finished.tagger.tag(&sentences()).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        let entities = |list: &[Mention]| list.iter().map(|m| m.entity.clone()).collect::<Vec<_>>();
        assert_eq!(entities(found), entities(expected), "{name}");
    }
}
