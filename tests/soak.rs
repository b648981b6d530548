//! The memory of a long run does not grow after its first quarter. It is the only test in this binary, because it measures the memory of the whole process.

#![cfg(feature = "train")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::small_corpus::{recipe, sentences};
use nerzoo::registry;

/// The resident memory of this process in bytes.
fn resident() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096.0)
}

#[test]
fn memory_stays_flat() {
    if resident().is_none() {
        return common::print_skipped("memory_stays_flat: this system has no /proc/self/statm");
    }
    for (name, device) in common::devices() {
        if name == "ndarray" {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        // Two batches an epoch.
        let (steps, epochs) = match name.as_str() {
            "cpu" => (2000, 1000),
            _ => (300, 150),
        };
        let sets = [
            format!("train.epochs={epochs}"),
            "train.learning_rate=1e-3".into(),
        ];
        let recipe = recipe("bl_ner", &sets, folder.path());
        let options = common::train_options(recipe, &folder.path().join("run"), &device);
        let done = AtomicBool::new(false);
        let samples = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut samples = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    samples.extend(resident());
                    std::thread::sleep(Duration::from_millis(20));
                }
                samples
            });
            let finished = (registry::find("bl_ner").unwrap().train)(&options);
            done.store(true, Ordering::Relaxed);
            let finished = finished.unwrap();
            assert_eq!(finished.state.step, steps);
            assert_eq!(finished.tagger.tag(&sentences()).unwrap().len(), 8);
            watch.join().unwrap()
        });
        assert!(samples.len() > 40, "{name}: only {} samples", samples.len());
        let quarter = samples.len() / 4;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let early = mean(&samples[quarter..2 * quarter]);
        let late = mean(&samples[3 * quarter..]);
        println!(
            "{name}: {:.1} MB in the second quarter of {steps} steps, {:.1} MB in the last",
            early / 1e6,
            late / 1e6
        );
        assert!(
            late < early * 1.03 + 2e6,
            "{name}: memory grew from {early} to {late} bytes"
        );
    }
}
