//! Every check for every head of the zoo, on every test device: what a model must do to be in it.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use burn::tensor::Device;
use common::eight::{recipe, sentences, variants};
use nerzoo::heads::Evidence;
use nerzoo::model::tagger::Tagger;
use nerzoo::recipe::Recipe;
use nerzoo::registry::{self, Entry, HEADS};
use nerzoo::text::{Entity, Mention, Sentence, outermost};
use nerzoo::train::launch::Finished;

fn train(entry: &Entry, recipe: Recipe, out: &Path, device: &Device) -> Finished {
    (entry.train)(&common::launch(recipe, out, device)).unwrap()
}

/// Runs a check for every head and variant on every device, the devices side by side: each has random numbers of its own.
fn everywhere(check: impl Fn(&Entry, &[String], &Device, &str) + Sync) {
    let one = |name: &str, device: &Device| {
        for entry in HEADS {
            for sets in variants(entry.name) {
                let what = format!("{} {sets:?} on {name}", entry.name);
                check(entry, &sets, device, &what);
            }
        }
    };
    let devices = common::devices();
    std::thread::scope(|scope| {
        for (name, device) in &devices {
            scope.spawn(|| one(name, device));
        }
    });
}

#[test]
fn a_gradient_reaches_every_parameter() {
    everywhere(|entry, sets, device, what| {
        let folder = tempfile::tempdir().unwrap();
        let recipe = recipe(entry.name, sets, folder.path());
        let found = (entry.inspect)(&recipe, &sentences(), device).unwrap();
        assert!(found.gradients.len() > 10, "{what}");
        for (parameter, largest) in common::largest(found) {
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
    everywhere(|entry, sets, device, what| {
        let folder = tempfile::tempdir().unwrap();
        let recipe = recipe(entry.name, sets, folder.path());
        let mut sentences = sentences();
        sentences.push(Sentence::default());
        for (parameter, largest) in
            common::largest((entry.inspect)(&recipe, &sentences, device).unwrap())
        {
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

        check_evidence(finished.tagger.as_ref(), &texts, what);
        let loaded = registry::load(&out, device, &Default::default()).unwrap();
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
fn check_evidence(tagger: &dyn Tagger, texts: &[Sentence], what: &str) {
    let diagnosis = tagger.diagnose(texts).unwrap();
    let mentions = tagger.tag(texts).unwrap();
    assert_close(&diagnosis.mentions, &mentions, what);
    // A bundle also reports the mentions of its other head.
    let (heads, evidence): (Vec<Evidence>, Vec<Evidence>) = (diagnosis.evidence.into_iter())
        .partition(|evidence| registry::find(&evidence.name).is_ok());
    assert_eq!(
        heads.len(),
        usize::from(what.contains('+') || what.contains("bl_ner")),
        "{what}"
    );
    assert_eq!(evidence.is_empty(), !what.contains("bopn"), "{what}");
    let found = |source: &Evidence| -> BTreeSet<(usize, Entity)> {
        let each = source.mentions.iter().enumerate();
        each.flat_map(|(index, list)| list.iter().map(move |m| (index, m.entity.clone())))
            .collect()
    };
    let whole = ["all", "rules", "votes"];
    let parts = evidence
        .iter()
        .filter(|source| !whole.contains(&source.name.as_str()));
    let parts: BTreeSet<(usize, Entity)> = parts.flat_map(found).collect();
    for source in &evidence {
        let found = found(source);
        match source.name.as_str() {
            "all" => assert_eq!(found, parts, "{what}"),
            _ => assert!(found.is_subset(&parts), "{what}: {}", source.name),
        }
    }
}

fn check_gold(entry: &Entry, found: &[Vec<Mention>], what: &str) {
    for (sentence, mentions) in sentences().iter().zip(found) {
        let mut gold = if entry.nested {
            sentence.entities.clone()
        } else {
            outermost(&sentence.entities)
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
    let entry = &HEADS[0];
    let (name, device) = common::devices().remove(0);
    let out = folder.path().join("run");
    let recipe = recipe(entry.name, &["train.half=true".into()], folder.path());
    let finished = train(entry, recipe, &out, &device);
    let loaded = registry::load(&out, &device, &Default::default()).unwrap();
    let found = loaded.tag(&sentences()).unwrap();
    let expected = finished.tagger.tag(&sentences()).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        let entities = |list: &[Mention]| list.iter().map(|m| m.entity.clone()).collect::<Vec<_>>();
        assert_eq!(entities(found), entities(expected), "{name}");
    }
}
