//! Every head computes the same on every device as on the CPU, several devices train like one, and values are read from a
//! device no more often than necessary.

#![cfg(feature = "train")]

mod common;

use burn::tensor::Device;
use common::small_corpus::{recipe, sentences, settings, variants};
use common::{assert_same_step, inspect, losses};
use nerzoo::nn::fused;
use nerzoo::nn::host::reads;
use nerzoo::registry;
use nerzoo::train::Finished;

/// The CPU with Burn's operations instead of fused kernels.
const UNFUSED: &str = "cpu without fused kernels";

/// The test devices other than the CPU; prints that `test` is skipped when there are none.
fn others(test: &str) -> Vec<(String, Device)> {
    let mut others = common::devices();
    others.retain(|(name, _)| name != "cpu");
    if others.is_empty() {
        common::print_skipped(&format!(
            "{test}: the CPU is the only device (build with --features ndarray, wgpu, vulkan or cuda)"
        ));
    }
    others
}

#[test]
fn every_head_computes_the_same_on_every_device() {
    let _guard = common::exclusive(); // the random seed and the switch of the kernels are global
    let mut others = others("every_head_computes_the_same_on_every_device, except without kernels");
    others.push((UNFUSED.into(), Device::flex()));
    let folder = tempfile::tempdir().unwrap();
    for entry in registry::heads() {
        for variant in variants(entry.name) {
            let recipe = recipe(entry.name, &settings(entry.name, &variant), folder.path());
            let expected = inspect(entry, &recipe, &sentences(), &Device::flex()).unwrap();
            for (name, device) in &others {
                let what = format!("{}/{}/{name}", entry.name, variant.name);
                fused::set_enabled(name != UNFUSED);
                let found = inspect(entry, &recipe, &sentences(), device);
                fused::set_enabled(true);
                let found = found.unwrap();
                assert_same_step(&what, &found, &expected);
            }
        }
    }
}

/// Every read waits until the queue of a GPU is empty. A training step needs one, for the loss and the gradient norm
/// together; Locate and Label also reads the offsets of its regressor, and DiffusionNER its matching costs, to choose the
/// terms of the loss. A prediction needs one for the scores; the CRF reads paths and marginals, Locate and Label the
/// results of three stages, DiffusionNER the spans after each step.
#[test]
fn values_are_read_from_a_device_as_rarely_as_possible() {
    let _guard = common::exclusive(); // the random seed is global
    let folder = tempfile::tempdir().unwrap();
    for entry in registry::heads() {
        for variant in variants(entry.name) {
            let recipe = recipe(entry.name, &settings(entry.name, &variant), folder.path());
            for (name, device) in common::devices() {
                let what = format!("{}/{}/{name}", entry.name, variant.name);
                let before = reads();
                let found = inspect(entry, &recipe, &sentences(), &device).unwrap();
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
                    _ if variant.sets.iter().any(|set| set.contains("crf")) => 2,
                    _ if has("locate_label") => 3,
                    _ if has("diffusion_ner") => 4,
                    _ => 1,
                };
                assert!(prediction <= most, "{what}: {prediction} reads");
            }
        }
    }
}

/// Trains 50 steps without dropout on one device or several.
fn run(devices: &[Device], sets: &[&str]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let fixed = ["head.seq.dropout=0.0", "head.span.dropout=0.0"];
    let recipe = common::fifty_step_recipe("bl_ner", &[&fixed, sets].concat());
    let mut options = common::train_options(recipe, &folder.path().join("run"), &devices[0]);
    options.devices = devices.to_vec();
    (registry::find("bl_ner").unwrap().train)(&options).unwrap()
}

#[test]
fn fifty_steps_have_the_losses_of_the_cpu() {
    let _guard = common::exclusive(); // the random seed is global
    let expected = losses(&run(&[Device::flex()], &[]));
    assert_eq!(expected.len(), 50);
    assert!(expected[49] < 0.7 * expected[0], "{expected:?}");
    for (name, device) in others("fifty_steps_have_the_losses_of_the_cpu") {
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
fn several_devices_train_like_one() {
    let _guard = common::exclusive(); // the random seed is global
    for (name, device) in common::devices() {
        let sets = [
            "train.batch=3",
            "train.epochs=5",
            "data.limit=17",
            "train.accumulate=2",
        ];
        let two = run(&[device.clone(), device.clone()], &sets[..3]);
        let one = run(std::slice::from_ref(&device), &sets);
        // Six batches an epoch are three steps: every sentence is counted once.
        assert_eq!(two.state.step, 15, "{name}");
        assert_eq!(one.state.step, 15, "{name}");
        for (two, one) in losses(&two).iter().zip(losses(&one)) {
            let apart = (two - one).abs() / one;
            if name == "cpu" {
                assert_eq!(*two, one, "{name}");
            } else {
                assert!(apart < 1e-5, "{name}: {two} {one}");
            }
        }
        let texts = sentences();
        assert_eq!(
            two.tagger.tag(&texts).unwrap().len(),
            one.tagger.tag(&texts).unwrap().len()
        );
    }
}
