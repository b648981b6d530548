//! The same model everywhere: every head on every test device beside the processor, several devices beside one, and how
//! often a device is waited for.

mod common;

use burn::tensor::Device;
use common::eight::{recipe, sentences, variants};
use common::losses;
use nerzoo::nn::host::reads;
use nerzoo::registry::{self, HEADS};
use nerzoo::train::launch::Finished;

/// Random numbers differ between devices, so nothing is dropped.
fn without_dropout(head: &str) -> Vec<String> {
    let one = |table: &str, head: &str| -> Vec<String> {
        let knobs: &[&str] = match head {
            "bopn" => &["lstm_dropout", "biaffine_dropout", "convolution_dropout"],
            _ => &["dropout"],
        };
        let each = knobs.iter();
        each.map(|knob| format!("{table}.{knob}=0.0")).collect()
    };
    match head {
        "bl_ner" => [one("head.seq", "seq_ner"), one("head.span", "span_ner")].concat(),
        _ => match head.split_once('+') {
            Some((seq, span)) => [one("head.seq", seq), one("head.span", span)].concat(),
            None => one("head", head),
        },
    }
}

fn knobs(head: &str, variant: &[String]) -> Vec<String> {
    let mut sets = [variant.to_vec(), without_dropout(head)].concat();
    if variant
        .iter()
        .any(|set| set.starts_with("encoder.features"))
    {
        sets.push("encoder.features.dropout=0.0".into());
        sets.push("encoder.features.lstm_dropout=0.0".into());
    }
    sets
}

/// The test devices beside the processor.
fn others() -> Vec<(String, Device)> {
    let mut others = common::devices();
    others.retain(|(name, _)| name != "cpu");
    others
}

#[test]
fn every_head_calculates_what_the_processor_does() {
    let _alone = common::alone(); // random numbers are the process's
    let folder = tempfile::tempdir().unwrap();
    for entry in HEADS {
        for variant in variants(entry.name) {
            let recipe = recipe(entry.name, &knobs(entry.name, &variant), folder.path());
            let expected = (entry.inspect)(&recipe, &sentences(), &Device::flex()).unwrap();
            for (name, device) in others() {
                let what = format!("{} {variant:?} on {name}", entry.name);
                let found = (entry.inspect)(&recipe, &sentences(), &device).unwrap();
                let apart = (found.loss - expected.loss).abs() / expected.loss.abs().max(1e-6);
                assert!(apart < 2e-5, "{what}: {} {}", found.loss, expected.loss);
                // A gradient is compared with the largest of its own, or of all where its own are hardly any.
                let largest = common::largest(expected.clone());
                let all = largest.iter().fold(0f32, |all, (_, one)| all.max(*one));
                let mut worst = 0f32;
                for ((one, other), (parameter, own)) in found
                    .gradients
                    .iter()
                    .zip(&expected.gradients)
                    .zip(&largest)
                {
                    assert_eq!(one.0, other.0, "{what}");
                    let (Some(one), Some(other)) = (&one.1, &other.1) else {
                        assert_eq!(one.1, other.1, "{what}: {parameter}");
                        continue;
                    };
                    let pairs = one.iter().zip(other);
                    let apart = pairs.fold(0f32, |worst, (a, b)| worst.max((a - b).abs()));
                    let apart = apart / own.max(1e-3 * all);
                    assert!(apart < 5e-4, "{what}: {parameter} is {apart:.1e} apart");
                    worst = worst.max(apart);
                }
                println!("{what}: loss {apart:.1e}, gradients {worst:.1e}");
                let entities = |mentions: &[Vec<nerzoo::text::Mention>]| {
                    let each = mentions.iter().map(|list| {
                        let found = list.iter().map(|mention| mention.entity.clone());
                        found.collect::<Vec<_>>()
                    });
                    each.collect::<Vec<_>>()
                };
                assert_eq!(
                    entities(&found.mentions),
                    entities(&expected.mentions),
                    "{what}"
                );
            }
        }
    }
}

/// Every wait empties a GPU's queue. In training one is needed, for loss and gradients' length together; Locate and
/// Label needs its regressor's offsets, and DiffusionNER its costs, to choose what goes into the loss. In prediction
/// one brings the scores; the CRF has paths beside marginals, Locate and Label three stages that choose, DiffusionNER
/// a look at the spans after each step.
#[test]
fn a_device_is_waited_for_as_little_as_possible() {
    let _alone = common::alone(); // random numbers are the process's
    let folder = tempfile::tempdir().unwrap();
    for entry in HEADS {
        for variant in variants(entry.name) {
            let recipe = recipe(entry.name, &knobs(entry.name, &variant), folder.path());
            for (name, device) in common::devices() {
                let what = format!("{} {variant:?} on {name}", entry.name);
                let before = reads();
                let found = (entry.inspect)(&recipe, &sentences(), &device).unwrap();
                let (training, prediction) = (found.reads_in_training, found.reads_in_prediction);
                println!("{what}: {training} {prediction}");
                assert!(reads() > before, "reads are counted");
                let has = |part: &str| entry.name.contains(part);
                let most = match (has("locate_label"), has("diffusion_ner")) {
                    (false, false) => 1,
                    _ => 2,
                };
                assert!(training <= most, "{what}: {training} reads");
                let most = match entry.name {
                    _ if variant.iter().any(|set| set.contains("crf")) => 2,
                    _ if has("locate_label") => 3,
                    _ if has("diffusion_ner") => 4,
                    _ => 1,
                };
                assert!(prediction <= most, "{what}: {prediction} reads");
            }
        }
    }
}

/// Fifty steps without random numbers, on one device or several.
fn run(devices: &[Device], sets: &[&str]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let fixed = ["head.seq.dropout=0.0", "head.span.dropout=0.0"];
    let recipe = common::fifty("bl_ner", &[&fixed, sets].concat());
    let mut launch = common::launch(recipe, &folder.path().join("run"), &devices[0]);
    launch.devices = devices.to_vec();
    (registry::find("bl_ner").unwrap().train)(&launch).unwrap()
}

#[test]
fn fifty_steps_go_as_on_the_processor() {
    let _alone = common::alone(); // random numbers are the process's
    let expected = losses(&run(&[Device::flex()], &[]));
    assert_eq!(expected.len(), 50);
    assert!(expected[49] < 0.7 * expected[0], "{expected:?}");
    for (name, device) in others() {
        let found = losses(&run(&[device], &[]));
        let mut worst = 0f64;
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let apart = (found - expected).abs() / expected;
            assert!(apart < 1e-3, "{name}, step {step}: {found} {expected}");
            worst = worst.max(apart);
        }
        println!("{name}: at most {worst:.1e} apart in 50 steps");
    }
}

#[test]
fn several_devices_train_as_one_does() {
    let _alone = common::alone(); // random numbers are the process's
    for (name, device) in common::devices() {
        let knobs = [
            "train.batch=3",
            "train.epochs=5",
            "data.limit=17",
            "train.accumulate=2",
        ];
        let two = run(&[device.clone(), device.clone()], &knobs[..3]);
        let one = run(std::slice::from_ref(&device), &knobs);
        // Six batches an epoch are three steps: every sentence is counted once.
        assert_eq!(two.state.step, 15, "{name}");
        assert_eq!(one.state.step, 15, "{name}");
        for (two, one) in losses(&two).iter().zip(losses(&one)) {
            let apart = (two - one).abs() / one;
            match name.as_str() {
                "cpu" => assert_eq!(*two, one, "{name}"),
                _ => assert!(apart < 1e-5, "{name}: {two} {one}"),
            }
        }
        let texts = sentences();
        assert_eq!(
            two.tagger.tag(&texts).unwrap().len(),
            one.tagger.tag(&texts).unwrap().len()
        );
    }
}
